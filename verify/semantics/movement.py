"""Operators that move dimensions, copy, or say what they are given again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from verify.semantics.logic import Index
from verify.semantics.table import Use, means
from verify.semantics.tensor import Storage, Tensor, UnmodelledError, View, broadcast, number, same_number


def rearranged(
    base: Storage, dims: Callable[[tuple[Any, ...]], tuple[Any, ...]], there: Callable[[Index], Index], back: Callable[[Index], Index]
) -> View:
    """A view that only renames indices: ``there`` maps an index of the view to one of the base, ``back`` is its inverse."""

    def forward(below: Tensor) -> Tensor:
        return below.map(dims(below.dims), there)

    def backward(below: Tensor, new: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: new[back(i)], below.dtype)

    return View(base, forward, backward)


# --------------------------------------------------------------------------------------------------------- dimensions


def permuted(base: Storage, order: Sequence[int]) -> View:
    """Dimension ``k`` of the view is dimension ``order[k]`` of the base."""
    inverse = [list(order).index(k) for k in range(len(order))]
    return rearranged(base, lambda dims: tuple(dims[o] for o in order), lambda i: tuple(i[k] for k in inverse), lambda i: tuple(i[o] for o in order))


@means("permute")
def permute(use: Use) -> Any:
    """Dimensions in a given order."""
    base = use.storage("self")
    rank = len(base.read().dims)
    wanted = use.shape("dims")
    use.demand(len(wanted) == rank)
    order = [use.dim(d, rank) for d in wanted]
    use.demand(len(set(order)) == rank)
    return permuted(base, order)


@means("transpose")
def transpose(use: Use) -> Any:
    """Two dimensions exchanged."""
    base = use.storage("self")
    rank = len(base.read().dims)
    a, b = (use.dim(use.args[f"axis{k}" if f"axis{k}" in use.args else f"dim{k}"], rank) for k in (0, 1))
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return permuted(base, order)


@means("t")
def t(use: Use) -> Any:
    """The transpose of a matrix; vectors and scalars as they are."""
    base = use.storage("self")
    rank = len(base.read().dims)
    use.demand(rank <= 2)
    return permuted(base, list(reversed(range(rank))))


@means("mT")
def matrix_transpose(use: Use) -> Any:
    """The last two dimensions exchanged."""
    base = use.storage("self")
    rank = len(base.read().dims)
    use.demand(rank >= 2)
    order = list(range(rank))
    order[-2:] = reversed(order[-2:])
    return permuted(base, order)


@means("movedim")
def movedim(use: Use) -> Any:
    """Dimensions moved to new places, the others keeping their order."""
    base = use.storage("self")
    rank = len(base.read().dims)
    source, destination = (list(a) if isinstance(a := use.args[n], (list, tuple)) else [a] for n in ("source", "destination"))
    use.demand(len(source) == len(destination))
    source, destination = [use.dim(d, rank) for d in source], [use.dim(d, rank) for d in destination]
    use.demand(len(set(source)) == len(source))
    use.demand(len(set(destination)) == len(destination))
    if not rank:
        return alias(base)
    order: list[Any] = [None] * rank
    for s, d in zip(source, destination, strict=True):
        order[d] = s
    rest = iter(k for k in range(rank) if k not in source)
    return permuted(base, [next(rest) if o is None else o for o in order])


def unsqueezed(base: Storage, d: int) -> View:
    """A dimension of extent 1 put in at ``d``."""
    return rearranged(base, lambda dims: (*dims[:d], 1, *dims[d:]), lambda i: (*i[:d], *i[d + 1 :]), lambda i: (*i[:d], 0, *i[d:]))


@means("unsqueeze")
def unsqueeze(use: Use) -> Any:
    """A new dimension of extent 1."""
    base = use.storage("self")
    return unsqueezed(base, use.dim(use.args["dim"], len(base.read().dims) + 1))


@means("squeeze")
def squeeze(use: Use) -> Any:
    """Dimensions of extent 1 taken out, all or those named."""
    base = use.storage("self")
    dims = base.read().dims
    named = use.args.get("dim")
    several = named if isinstance(named, (list, tuple)) else range(len(dims)) if named is None else [named]
    wanted = [use.dim(d, len(dims)) for d in several]
    use.demand(len(set(wanted)) == len(wanted))
    gone = {d for d in wanted if d < len(dims) and _is_one(use, dims[d])}
    kept = [d for d in range(len(dims)) if d not in gone]

    def there(i: Index) -> Index:
        full: list[Any] = [0] * len(dims)
        for position, d in enumerate(kept):
            full[d] = i[position]
        return tuple(full)

    return rearranged(base, lambda dims: tuple(dims[d] for d in kept), there, lambda i: tuple(i[d] for d in kept))


def _is_one(use: Use, extent: Any) -> bool:
    found = use.logic.decide(same_number(extent, 1))
    if found is None:
        raise UnmodelledError("squeeze of a dimension that may or may not have extent 1")
    return found


@means("expand")
def expand(use: Use) -> Any:
    """Dimensions of extent 1 repeated without a copy; -1 keeps an extent."""
    own, wanted = use.tensor("self").dims, use.shape("size")
    use.demand(len(wanted) >= len(own))
    lead = len(wanted) - len(own)
    dims: list[Any] = []
    for k, extent in enumerate(wanted):
        if isinstance(extent, int) and extent == -1:
            use.demand(k >= lead)
            dims.append(own[k - lead])
        else:
            use.demand(number(extent) >= 0)
            dims.append(extent)
    return _expanded(use, tuple(dims))


@means("expand_as")
def expand_as(use: Use) -> Any:
    """Expanded to the shape of another tensor."""
    return _expanded(use, use.tensor("other").dims)


def _expanded(use: Use, dims: tuple[Any, ...]) -> View:
    base = use.storage("self")
    use.fitted(base.read(), dims)
    return View(base, lambda below: broadcast(use.logic, below, dims), None)


# ------------------------------------------------------------------------------------------------------ copies, alias


def alias(base: Storage) -> View:
    """The same elements under another name."""
    return rearranged(base, lambda dims: dims, lambda i: i, lambda i: i)


@means("alias")
def alias_(use: Use) -> Any:
    """A view of everything."""
    return alias(use.storage("self"))


@means("contiguous")
def contiguous(use: Use) -> Any:
    """The tensor itself where it is contiguous, else a copy; metadata says which."""
    return alias(use.storage("self")) if use.aliases else use.tensor("self")


@means("clone")
def clone(use: Use) -> Tensor:
    """A copy."""
    return use.tensor("self")


@means("detach")
def detach(use: Use) -> Any:
    """The same storage, cut off from the gradient: a symbol of its own, never the identity."""
    return behind(use, use.storage("self"), "detach")


def behind(use: Use, base: Storage, op: str) -> View:
    """A view of everything through which no gradient passes.

    What is written through it is not what the base then holds: the base keeps its own gradient.
    """
    read, written = use.symbol(op), use.symbol("written")

    def forward(below: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: use.logic.apply(read, below[i]), below.dtype)

    def backward(below: Tensor, new: Tensor) -> Tensor:
        return Tensor(below.dims, lambda i: use.logic.apply(written, below[i], new[i]), below.dtype)

    return View(base, forward, backward)


@means("to", "type_as")
def to(use: Use) -> Any:
    """A cast; the tensor itself where dtype and device are right already."""
    return alias(use.storage("self")) if use.aliases else use.cast(use.tensor("self"), use.dtype)


@means("prims::convert_element_type")
def convert(use: Use) -> Tensor:
    """A cast into new memory."""
    return use.cast(use.tensor("self" if "self" in use.args else "a"), use.dtype)


@means("size")
def size(use: Use) -> Any:
    """The shape, or one extent."""
    dims = tuple(map(number, use.tensor("self").dims))
    rest = use.args.get("rest", ())
    d = use.args.get("dim", rest[0] if rest else None)
    if d is None:
        return dims
    use.demand(len(dims) > 0)
    return dims[use.dim(d, len(dims))]


@means("dim")
def dim(use: Use) -> Any:
    """The number of dimensions."""
    return len(use.tensor("self").dims)
