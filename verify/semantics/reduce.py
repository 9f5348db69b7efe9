"""Operators that look at rows: sums, statistics, normalisation, softmax, and picking by index.

A row is a tensor along some of its dimensions, the others held fixed. What is no sum is a black box of its row: equal rows
give equal results, wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from optimus.values import tensor as fake_of
from verify.semantics.compute import boxed, number_part, plus, times
from verify.semantics.logic import Index, Int, Part
from verify.semantics.table import Use, literal, means
from verify.semantics.tensor import Place, Product, Storage, Tensor, UnmodelledError, number


def row(use: Use, tensor: Tensor, axes: Sequence[int], kept: dict[int, Any]) -> Part:
    """The part of ``tensor`` along ``axes`` at the indices ``kept`` of its other dimensions; products of symbols have one index per factor."""
    factors = [_factors(tensor.dims[a]) for a in axes]

    def body(given: Index) -> Any:
        left = iter(given)
        places = dict(kept)
        for a, own in zip(axes, factors, strict=True):
            parts = tuple(next(left) for _ in own)
            places[a] = parts[0] if len(parts) == 1 else Place(parts, own, use.logic)
        return tensor[tuple(places[d] for d in range(len(tensor.dims)))]

    return Part(tuple(f for own in factors for f in own), body)


def _factors(extent: Any) -> tuple[Any, ...]:
    return extent.factors if isinstance(extent, Product) and not extent.static else (number(extent),)


def places_along(extent: Any, index: Any) -> tuple[Any, ...]:
    """An index along ``extent``, one per factor where it is a place along a product of symbols."""
    own = _factors(extent)
    return index.parts if len(own) > 1 and isinstance(index, Place) and index.factors == own else (number(index),)


# ---------------------------------------------------------------------------------------------------------- reductions


def _axes(use: Use, rank: int) -> list[int]:
    """The dimensions to go; if none is named, all."""
    given = use.args.get("dim")
    named = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    axes = [use.dim(d, rank) for d in named]
    use.demand(len(set(axes)) == len(axes))
    return sorted(a for a in axes if a < rank) if named else list(range(rank))


def _reduced(use: Use, source: Tensor, result: Callable[[Part], Any], dtype: torch.dtype) -> Tensor:
    """``result`` of each row along the dimensions that go."""
    axes = _axes(use, len(source.dims))
    keepdim = bool(use.args.get("keepdim"))
    rest = [d for d in range(len(source.dims)) if d not in axes]
    dims = tuple(1 if d in axes else source.dims[d] for d in range(len(source.dims)) if keepdim or d not in axes)

    def element(i: Index) -> Any:
        own = [i[d] for d in rest] if keepdim else i
        return result(row(use, source, axes, dict(zip(rest, own, strict=True))))

    return Tensor(dims, element, dtype)


def _kernel(use: Use) -> Hashable:
    """What the order of summation depends on: the operator, which dimensions go, shape, strides."""
    return (use.call.op, tuple(_axes(use, len(use.tensor("self").dims))), *_layout(use))


def _layout(use: Use) -> tuple[Hashable, ...]:
    fake = fake_of(use.call.args.get("self"))
    return () if fake is None else (str(tuple(fake.shape)), str(tuple(fake.stride())))


def summed(use: Use, part: Part, dtype: torch.dtype, kernel: Hashable) -> Any:
    """The sum of a row. Over no dimension, PyTorch still adds the one element to 0, which makes 0.0 of -0.0."""
    symbol = use.symbol("sum", dtype, result=dtype)
    return use.logic.total(symbol, part if part.extents else Part((1,), lambda _: part.body(())), kernel)


@means("sum")
def sum_(use: Use) -> Tensor:
    """The sum over some dimensions, in the dtype of the result: https://docs.pytorch.org/docs/stable/generated/torch.sum.html."""
    kernel = _kernel(use)
    source = use.cast(use.tensor("self"), use.dtype)
    return _reduced(use, source, lambda part: summed(use, part, use.dtype, kernel), use.dtype)


@means("mean")
def mean(use: Use) -> Tensor:
    """The sum, divided by the number of summands."""
    kernel = _kernel(use)
    return _mean(use, use.cast(use.tensor("self"), use.dtype), kernel)


def _mean(use: Use, source: Tensor, kernel: Hashable) -> Tensor:
    symbol = use.symbol("mean", source.dtype, result=source.dtype)

    def of_row(part: Part) -> Any:
        return use.logic.apply(symbol, summed(use, part, source.dtype, kernel), *part.extents)

    return _reduced(use, source, of_row, source.dtype)


@means("var", "std")
def variance(use: Use) -> Tensor:
    """The mean square distance from the mean, ``correction`` taken off the number of summands, and its root."""
    return _spread(use, use.call.op)


@means("var_mean", "std_mean")
def variance_and_mean(use: Use) -> Any:
    """Both, by one kernel."""
    return _spread(use, use.call.op.removesuffix("_mean")), _mean(use, use.tensor("self"), _kernel(use))


def _spread(use: Use, op: str) -> Tensor:
    source, kernel = use.tensor("self"), _kernel(use)
    correction = use.args.get("correction")
    if correction is None:
        correction = 0 if use.args.get("unbiased") is False else 1
    if not isinstance(correction, (int, float)):
        raise UnmodelledError(f"{op} with a correction that is no number")
    symbol = use.symbol(op, source.dtype, literals={"correction": literal(float(correction))}, result=use.dtype)
    return _reduced(use, source, lambda part: use.logic.whole(symbol, (part,), (), kernel), use.dtype)


@means("amax", "amin", "prod", "logsumexp", "all", "any", "argmax", "argmin")
def of_rows(use: Use) -> Tensor:
    """Functions of a row of which only congruence is known. There is no largest element of nothing."""
    source, kernel = use.tensor("self"), _kernel(use)
    if use.call.op in ("amax", "amin", "argmax", "argmin"):
        for a in _axes(use, len(source.dims)):
            use.demand(number(source.dims[a]) > 0)
    if use.call.op == "prod":
        source = use.cast(source, use.dtype)
    symbol = use.symbol(use.call.op, source.dtype, result=use.dtype)
    return _reduced(use, source, lambda part: use.logic.whole(symbol, (part,), (), kernel), use.dtype)


@means("softmax", "log_softmax", "_softmax", "_log_softmax", "cumsum", "cumprod")
def along_rows(use: Use) -> Any:
    """A function from rows along one dimension to rows, in the dtype of the result."""
    if use.args["dim"] is None:
        return boxed(use)
    d = use.dim(use.args["dim"], len(use.tensor("self").dims))
    source = use.cast(use.tensor("self"), use.dtype)
    axes = [d] if source.dims else []
    symbol = use.symbol(use.call.op.removeprefix("_"), source.dtype, result=use.dtype)
    kernel = (use.call.op, d, *_layout(use))

    def element(i: Index) -> Any:
        kept = {k: at for k, at in enumerate(i) if k != d}
        places = places_along(source.dims[d], i[d]) if axes else ()
        return use.logic.whole(symbol, (row(use, source, axes, kept),), places, kernel)

    return Tensor(source.dims, element, use.dtype)


# ------------------------------------------------------------------------------------------------------- normalisation


@means("layer_norm")
def layer_norm(use: Use) -> Any:
    """Rows over the last dimensions brought to mean 0 and variance 1, then ``* weight + bias``.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html. The normalised row is a black box of
    the row; weight and bias act by the symbols of element-wise operators.
    """
    source = use.tensor("input")
    over = use.shape("normalized_shape")
    lead = len(source.dims) - len(over)
    use.demand(len(over) > 0)
    use.demand(lead >= 0)
    use.same_dims(source.dims[lead:], tuple(over))
    axes = range(lead, len(source.dims))
    for n in ("weight", "bias"):
        if isinstance(use.args.get(n), Storage):
            use.same_dims(use.tensor(n).dims, tuple(over))
    if "autocast" in use.mode:
        source = use.cast(source, use.dtype)
    eps = {"eps": literal(float(use.args["eps"]))}
    fused = ("layer_norm", *(isinstance(use.args.get(n), Storage) for n in ("weight", "bias")))

    def of_row(what: str, part: Part, places: Index, dtype: torch.dtype) -> Any:
        symbol = use.symbol(what, source.dtype, literals=eps, result=dtype)
        return use.logic.whole(symbol, (part,), places, fused)

    def element(i: Index) -> Any:
        places = tuple(p for a in axes for p in places_along(source.dims[a], i[a]))
        return of_row("normalised", row(use, source, axes, dict(enumerate(i[:lead]))), places, use.dtype)

    found = Tensor(source.dims, element, use.dtype)
    for name, combine in (("weight", times), ("bias", plus)):
        if isinstance(use.args.get(name), Storage):
            found = combine(use, found, _affine(use, use.tensor(name), source.dims, lead))
    return found


def _affine(use: Use, given: Tensor, dims: tuple[Any, ...], lead: int) -> Tensor:
    """Weight or bias as every row reads it; one of another dtype is widened by the kernel, not by a cast."""
    if "autocast" in use.mode:
        given = use.cast(given, use.dtype)
    if given.dtype != use.dtype:
        symbol = use.symbol("read_wide", given.dtype, result=use.dtype)
        return Tensor(dims, lambda i: use.logic.apply(symbol, given[i[lead:]]), use.dtype)
    return Tensor(dims, lambda i: given[i[lead:]], use.dtype)


# ---------------------------------------------------------------------------------------------------- picking by index


def _picked(use: Use, part: Part, at: Any, literals: dict[str, str] | None = None, numbers: Sequence[Int] = ()) -> Any:
    """The element of a row at a position that is itself an element of a tensor. Gradients may depend on ``numbers`` too."""
    symbol = use.symbol("pick", use.dtype, literals=literals, result=use.dtype)
    return use.logic.whole(symbol, (part, Part((), lambda _: at), *(number_part(use, n) for n in numbers)), ())


@means("embedding")
def embedding(use: Use) -> Tensor:
    """A row of ``weight`` for each index. What only gradients depend on is part of the symbol."""
    weight, indices = use.tensor("weight"), use.tensor("indices")
    use.demand(len(weight.dims) == 2)
    padding = _padding(use, number(weight.dims[0]))
    of_gradient = {n: "True" for n in ("scale_grad_by_freq", "sparse") if use.args.get(n)}
    if padding:
        of_gradient["padding_idx"] = "%1"
    rank = len(indices.dims)

    def element(i: Index) -> Any:
        return _picked(use, row(use, weight, [0], {1: i[rank]}), indices[i[:rank]], of_gradient, padding)

    return Tensor((*indices.dims, weight.dims[1]), element, use.dtype)


def _padding(use: Use, rows: Int) -> list[Int]:
    """The row that gets no gradient, if there is one. The function counts from the end, to the operator of ATen -1 is none."""
    given = use.args.get("padding_idx")
    if given is None or (use.call.overload is not None and isinstance(given, int) and given < 0):
        return []
    at = number(use.integer(given))
    if use.call.overload is None:
        use.demand(use.logic.all_of(-rows <= at, at < rows))
        at = use.logic.ite(at < 0, at + rows, at)
    return [at]


@means("index_select")
def index_select(use: Use) -> Any:
    """Positions of one dimension, as a vector lists them."""
    source, index = use.tensor("self"), use.tensor("index")
    if not source.dims or len(index.dims) != 1:
        return boxed(use)
    d = use.dim(use.args["dim"], len(source.dims))

    def element(i: Index) -> Any:
        return _picked(use, row(use, source, [d], {k: at for k, at in enumerate(i) if k != d}), index[(i[d],)])

    return Tensor((*source.dims[:d], index.dims[0], *source.dims[d + 1 :]), element, use.dtype)


@means("gather")
def gather(use: Use) -> Any:
    """For each place of ``index``, the element at that place but for one dimension, where ``index`` says."""
    source, index = use.tensor("self"), use.tensor("index")
    if not source.dims or len(index.dims) != len(source.dims):
        return boxed(use)
    d = use.dim(use.args["dim"], len(source.dims))
    for k, (own, wide) in enumerate(zip(index.dims, source.dims, strict=True)):
        if k != d:
            use.demand(number(own) <= number(wide))
    return Tensor(index.dims, lambda i: _picked(use, row(use, source, [d], {k: at for k, at in enumerate(i) if k != d}), index[i]), use.dtype)
