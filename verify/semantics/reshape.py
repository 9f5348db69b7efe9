"""Operators that keep the row-major order of elements: view, reshape, flatten, unflatten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from verify.semantics.logic import Index, Int, Logic
from verify.semantics.table import Use, means
from verify.semantics.tensor import CHAIN, Place, Product, Tensor, UnmodelledError, View, flattened, number, same_number, times

Block = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Neighbouring dimensions of the input and the neighbouring dimensions of the result that hold the same elements."""


@means("view", "reshape", "_unsafe_view", "view_as", "reshape_as")
def reshape(use: Use) -> Any:
    """The elements in row-major order under another shape, which may leave out one extent as -1."""
    if "dtype" in use.args and use.args["dtype"] is not None:
        raise UnmodelledError("view as another dtype")
    if "other" in use.args:
        return _reshaped(use, use.tensor("other").dims)
    return _reshaped(use, _completed(use, use.tensor("self").dims, use.shape("shape" if "shape" in use.args else "size")))


@means("flatten")
def flatten(use: Use) -> Any:
    """Dimensions ``start_dim`` to ``end_dim`` as one."""
    dims = use.tensor("self").dims
    first, last = (use.dim(use.args[n], len(dims)) for n in ("start_dim", "end_dim"))
    use.demand(first <= last)
    if not dims:
        return _reshaped(use, (1,))
    joined = dims[first] if first == last else flattened(dims[first : last + 1])
    return _reshaped(use, (*dims[:first], joined, *dims[last + 1 :]))


@means("unflatten")
def unflatten(use: Use) -> Any:
    """One dimension as several."""
    dims = use.tensor("self").dims
    use.demand(len(dims) > 0)
    wanted = use.shape("sizes")
    use.demand(len(wanted) > 0)
    d = use.dim(use.args["dim"], len(dims))
    sizes = _completed(use, (dims[d],), wanted)
    return _reshaped(use, (*dims[:d], *sizes, *dims[d + 1 :]))


def _completed(use: Use, dims: Sequence[Any], wanted: list[Any]) -> tuple[Any, ...]:
    """``wanted`` with the extent that stands as -1 worked out."""
    holes = [k for k, w in enumerate(wanted) if isinstance(w, int) and w == -1]
    rest = [w for k, w in enumerate(wanted) if k not in holes]
    for extent in rest:
        use.demand(number(extent) >= 0)
    if not holes:
        return tuple(wanted)
    use.demand(len(holes) == 1)
    for extent in rest:
        empty = same_number(extent, 0)
        if use.logic.decide(empty) is not False:
            use.demand(use.logic.negate(empty))
    (at,) = holes
    return (*wanted[:at], _missing(use, dims, wanted[:at], wanted[at + 1 :]), *wanted[at + 1 :])


def _missing(use: Use, dims: Sequence[Any], front: list[Any], back: list[Any]) -> Any:
    """What all of ``dims`` hold, divided by what ``front`` and ``back`` hold."""
    have, rest = _factors(dims), _factors([*front, *back])
    if all(isinstance(n, int) for n in (*have, *rest)):
        total, known = math.prod(have), math.prod(rest)
        use.demand(total % known == 0)
        return total // known
    left, over = list(have), []
    for factor in rest:
        at = next((k for k, h in enumerate(left) if use.logic.decide(same_number(h, factor)) is True), None)
        over.append(factor) if at is None else left.pop(at)
    if not over:
        return flattened(left)
    found = _between(use, have, front, back)
    return _quotient(use, left, over) if found is None else found


def _factors(dims: Sequence[Any]) -> list[Any]:
    return [f for d in dims for f in (d.factors if isinstance(d, Product) else (d,))]


def _between(use: Use, have: list[Any], front: list[Any], back: list[Any]) -> Any:
    """The factors that are left when some at the front hold as much as ``front`` and some at the back as much as ``back``, or None."""
    first = next((k for k in range(len(have) + 1) if _equal_products(use, have[:k], front)), None)
    last = next((k for k in range(len(have), -1, -1) if _equal_products(use, have[k:], back)), None)
    return None if first is None or last is None or first > last else flattened(have[first:last])


def _quotient(use: Use, above: list[Any], below: list[Any]) -> Any:
    """A product divided by numbers."""
    known, total = math.prod(map(number, below)), math.prod(map(number, above))
    if not isinstance(known, int) or len(above) != 1:
        raise UnmodelledError("a shape whose missing extent is a quotient of symbols")
    use.demand(total % known == 0)
    return total // known if isinstance(total, int) else total / known


def _reshaped(use: Use, wanted: tuple[Any, ...]) -> Any:
    base = use.storage("self")
    blocks = [(ins, _kept_apart(ins, outs)) for ins, outs in _blocks(use, base.read().dims, wanted)]
    dims = tuple(extent for _, outs in blocks for extent in outs)

    def forward(below: Tensor) -> Tensor:
        return below.map(dims, lambda i: _across(use.logic, blocks, i, 1, 0))

    def backward(below: Tensor, new: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: new[_across(use.logic, blocks, i, 0, 1)], below.dtype)

    view = View(base, forward, backward)
    if use.call.op in ("view", "view_as", "unflatten") or use.aliases:
        return view
    return view.read()


def _kept_apart(ins: tuple[Any, ...], outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The dimensions of the result of a block; one that several make is kept as their product, factors in their order."""
    one = flattened(ins)
    if len(outs) != 1 or not isinstance(one, Product):
        return outs
    (whole,) = outs
    same = one.same_factors(whole) if isinstance(whole, Product) else one.static and isinstance(whole, int) and one.linear() == whole
    return (one,) if same else outs


def _blocks(use: Use, have: tuple[Any, ...], want: tuple[Any, ...]) -> list[Block]:
    """Match dimensions from the front, closing a block as soon as both sides hold equally many elements."""
    if any(use.logic.decide(same_number(f, 0)) is True for f in _factors(have)):
        use.same(flattened(want), 0)
        return [(have, want)]
    blocks: list[Block] = []
    left, right = list(have), list(want)
    ins: list[Any] = []
    outs: list[Any] = []
    while left or right:
        if ins and outs and _equal_products(use, ins, outs):
            blocks.append((tuple(ins), tuple(outs)))
            ins, outs = [], []
        elif not ins and not outs and left and right:
            ins.append(left.pop(0))
            outs.append(right.pop(0))
        elif not ins and not outs and (left or right):
            (ins if left else outs).append((left or right).pop(0))
        else:
            _grow(use, ins, outs, left, right)
    if (ins or outs) and not _equal_products(use, ins, outs):
        use.demand(same_number(math.prod(map(number, ins)), math.prod(map(number, outs))))
    return [*blocks, (tuple(ins), tuple(outs))] if ins or outs else blocks


def _grow(use: Use, ins: list[Any], outs: list[Any], left: list[Any], right: list[Any]) -> None:
    """Take the next dimension on the side that holds fewer elements."""
    fewer_in = _fewer(use, ins, outs)
    if (fewer_in and left) or not right:
        ins.append(left.pop(0))
    else:
        outs.append(right.pop(0))


def _fewer(use: Use, ins: list[Any], outs: list[Any]) -> bool:
    del use
    one, other = (math.prod(map(number, side)) for side in (ins, outs))
    if isinstance(one, int) and isinstance(other, int):
        return one < other
    return _extent_of(ins) < _extent_of(outs)


def _extent_of(side: list[Any]) -> tuple[int, int, int]:
    """How much a side holds, as far as one can tell: the number of symbols, the product of the numbers, how many dimensions."""
    factors = _factors(side)
    return sum(not isinstance(f, int) for f in factors), math.prod(f for f in factors if isinstance(f, int)), len(side)


def _equal_products(use: Use, ins: Sequence[Any], outs: Sequence[Any]) -> bool:
    one, other = flattened(ins), flattened(outs)
    if isinstance(one, Product) and isinstance(other, Product) and not (one.static and other.static):
        rest = list(other.factors)
        for factor in one.factors:
            at = next((k for k, r in enumerate(rest) if use.logic.decide(same_number(factor, r)) is True), None)
            if at is None:
                return use.logic.decide(same_number(one, other)) is True
            rest.pop(at)
        return not rest
    return use.logic.decide(same_number(one, other)) is True


def _across(logic: Logic, blocks: list[Block], index: Index, source: int, target: int) -> Index:
    """Carry an index over the ``source`` dimensions of every block to its ``target`` dimensions."""
    found: list[Any] = []
    at = 0
    for block in blocks:
        given = index[at : at + len(block[source])]
        at += len(block[source])
        found += _carry(logic, block[source], block[target], given)
    return tuple(found)


def _carry(logic: Logic, have: tuple[Any, ...], want: tuple[Any, ...], index: Index) -> list[Any]:
    if len(have) == len(want) == 1:
        return [index[0]]
    parts, factors = _spread(have, index)
    if not want:
        return []
    found: list[Any] = []
    for k, extent in enumerate(want[:-1]):
        taken, parts, factors = _take(logic, parts, factors, extent, math.prod(map(number, want[k + 1 :])))
        found.append(taken)
    return [*found, _gather(logic, parts, factors)]


def _spread(dims: tuple[Any, ...], index: Index) -> tuple[list[Any], list[Any]]:
    """All indices and extents of a block, places along products taken apart, ones left out."""
    parts: list[Any] = []
    factors: list[Any] = []
    for extent, i in zip(dims, index, strict=True):
        if isinstance(i, Place) and _covers(i, extent):
            parts += i.parts
            factors += i.factors
        elif not (isinstance(extent, int) and extent == 1):
            parts.append(number(i))
            factors.append(extent)
    return parts, factors


def _covers(place: Place, extent: Any) -> bool:
    """Whether the place is one along the whole of ``extent``."""
    whole = Product(place.factors)
    if isinstance(extent, Product) and not extent.static:
        return extent == whole
    return whole.static and same_number(whole, extent) is True


def _gather(logic: Logic, parts: list[Any], factors: list[Any]) -> Any:
    """What is left of a block as one index."""
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Place(tuple(parts), tuple(map(number, factors)), logic)


def _take(logic: Logic, parts: list[Any], factors: list[Any], extent: Any, inner: Int) -> tuple[Any, list[Any], list[Any]]:
    """Split off the index along ``extent``, the slowest of the wanted dimensions; ``inner`` elements lie below each position."""
    if isinstance(extent, int) and extent == 1:
        return 0, parts, factors
    wanted = extent.factors if isinstance(extent, Product) else (extent,)
    if len(parts) >= len(wanted) and all(logic.decide(same_number(f, w)) is True for f, w in zip(factors, wanted, strict=False)):
        taken = parts[0] if len(wanted) == 1 else Place(tuple(parts[: len(wanted)]), tuple(wanted), logic)
        return taken, parts[len(wanted) :], factors[len(wanted) :]
    for k in range(1, len(parts)):
        whole = Product(tuple(map(number, factors[: k + 1])))
        if _is_linear(whole) and logic.decide(same_number(whole, extent)) is True:
            return _gather(logic, parts[: k + 1], factors[: k + 1]), parts[k + 1 :], factors[k + 1 :]
    at = parts[0] if len(parts) == 1 else Place(tuple(parts), tuple(map(number, factors)), logic).linear()
    quotient, rest = divided(logic, number(at), inner, number(extent))
    return quotient, [rest], [inner]


def _is_linear(whole: Product) -> bool:
    return sum(not isinstance(f, int) for f in whole.factors) < 2


def divided(logic: Logic, at: Int, inner: Int, outer: Int) -> tuple[Int, Int]:
    """``at`` below ``outer * inner`` as the index of the outer part and that of the inner part."""
    if isinstance(inner, int):
        if inner == 0:
            return 0, 0
        return (at // inner if isinstance(at, int) else at / inner), at % inner
    if isinstance(outer, int) and 0 < outer <= CHAIN:
        quotient: Int = outer - 1
        for k in range(outer - 2, -1, -1):
            quotient = logic.ite(at < (k + 1) * inner, k, quotient)
        return quotient, at - times(logic, quotient, outer, (inner,))
    return at / inner, at % inner  # not linear: the solver may give up
