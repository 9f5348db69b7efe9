"""Operators that make a tensor larger or turn it round: padding, repeating, flipping."""

from __future__ import annotations

from typing import Any

from verify.semantics.compute import boxed
from verify.semantics.logic import Index
from verify.semantics.reshape import divided
from verify.semantics.table import Use, literal, means
from verify.semantics.tensor import Place, Product, Tensor, choose, flattened, number, symbolic


@means("pad", "constant_pad_nd")
def pad(use: Use) -> Any:
    """A constant put round a tensor, last dimensions first; negative widths cut off. Other modes are black boxes."""
    if use.args.get("mode", "constant") != "constant":
        return boxed(use)
    logic, source = use.logic, use.tensor("self")
    widths = [number(w) for w in use.shape("pad")]
    use.demand(len(widths) % 2 == 0)
    use.demand(len(widths) <= 2 * len(source.dims))
    untouched = len(source.dims) - len(widths) // 2
    before = [0] * untouched + widths[-2::-2]
    after = [0] * untouched + widths[::-2]
    still = [_is_zero(a) and _is_zero(b) for a, b in zip(before, after, strict=True)]
    dims = tuple(d if s else number(d) + a + b for d, a, b, s in zip(source.dims, before, after, still, strict=True))
    for extent, s in zip(dims, still, strict=True):
        use.demand(True if s else extent >= 0)
    value = use.args.get("value")
    filled = [number(value)] if symbolic(value) else []
    text = "%1" if filled else literal(_as_element(use, 0 if value is None else value))
    constant = use.symbol("constant", literals={"value": text}, result=use.dtype)

    def element(i: Index) -> Any:
        at = tuple(k if s else number(k) - a for k, a, s in zip(i, before, still, strict=True))
        inside = logic.all_of(*(c for k, d, s in zip(at, source.dims, still, strict=True) if not s for c in (k >= 0, k < number(d))))
        return choose(logic, inside, lambda: source[at], lambda: logic.apply(constant, *filled))

    return Tensor(dims, element, use.dtype)


def _is_zero(width: Any) -> bool:
    return isinstance(width, int) and width == 0


def _as_element(use: Use, value: Any) -> Any:
    return float(value) if use.dtype.is_floating_point and isinstance(value, int) else value


@means("repeat")
def repeat(use: Use) -> Tensor:
    """Copies side by side along every dimension, new ones in front."""
    source, counts = use.tensor("self"), use.shape("repeats")
    use.demand(len(counts) >= len(source.dims))
    for count in counts:
        use.demand(number(count) >= 0)
    lead = len(counts) - len(source.dims)

    def within(i: Any, count: Any, extent: Any) -> Any:
        """The position in the copy that ``i`` lies in."""
        if isinstance(count, int) and count == 1:
            return i
        if isinstance(extent, int) and extent == 1:
            return 0
        whole = flattened((count, extent))
        if isinstance(i, Place) and isinstance(whole, Product) and i.factors == whole.factors:
            own = i.factors[len(_factors(count)) :]
            return i.parts[-1] if len(own) == 1 else Place(i.parts[-len(own) :], own, use.logic)
        return divided(use.logic, number(i), number(extent), number(count))[1]

    dims = (*counts[:lead], *(flattened((c, d)) for c, d in zip(counts[lead:], source.dims, strict=True)))
    return source.map(dims, lambda i: tuple(within(at, c, d) for at, c, d in zip(i[lead:], counts[lead:], source.dims, strict=True)))


def _factors(count: Any) -> tuple[Any, ...]:
    return count.factors if isinstance(count, Product) else (count,)


@means("flip")
def flip(use: Use) -> Tensor:
    """Dimensions read from the end."""
    source = use.tensor("self")
    given = use.args["dims"]
    axes = [use.dim(d, len(source.dims)) for d in (given if isinstance(given, (list, tuple)) else [given])]
    use.demand(len(set(axes)) == len(axes))
    return source.map(
        source.dims, lambda i: tuple(number(d) - 1 - number(at) if k in axes else at for k, (at, d) in enumerate(zip(i, source.dims, strict=True)))
    )
