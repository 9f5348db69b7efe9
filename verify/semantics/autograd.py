"""Operators that only ATen-IR has: those that autograd runs, tensors of one number, and sizes as values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from verify.semantics.compute import plus, times
from verify.semantics.cuts import sliced
from verify.semantics.logic import Index, Part
from verify.semantics.reduce import places_along, row, summed
from verify.semantics.table import Use, literal, means
from verify.semantics.tensor import Memory, Product, Storage, Tensor, choose, flattened, number, same_number, symbolic

# --------------------------------------------------------------------------------------------------------------- sizes


@means("sym_size")
def sym_size(use: Use) -> Any:
    """One extent, as a number."""
    dims = use.tensor("self").dims
    use.demand(len(dims) > 0)
    return dims[use.dim(use.args["dim"], len(dims))]


@means("sym_numel")
def sym_numel(use: Use) -> Any:
    """How many elements there are."""
    found = flattened(use.tensor("self").dims)
    return found.linear() if isinstance(found, Product) and found.static else found


@means("sym_sum")
def sym_sum(use: Use) -> Any:
    """The sum of the numbers of a list."""
    return sum(use.shape("args"))


@means("sym_max", "sym_min")
def extreme(use: Use) -> Any:
    """The larger or the smaller of two numbers."""
    left, right = use.integer(use.args["a"]), use.integer(use.args["b"])
    return use.logic.ite(left >= right if use.call.op == "sym_max" else left <= right, left, right)


# ------------------------------------------------------------------------------------------------ tensors of one number


def filled(use: Use, dims: tuple[Any, ...], value: Any, dtype: torch.dtype) -> Tensor:
    """A tensor that holds one number everywhere."""
    given = [number(value)] if symbolic(value) else []
    symbol = use.symbol("constant", literals={"value": "%1" if given else literal(_as_element(value, dtype))}, result=dtype)
    return Tensor(dims, lambda _: use.logic.apply(symbol, *given), dtype)


def _as_element(value: Any, dtype: torch.dtype) -> Any:
    """A number as a tensor of ``dtype`` holds it, where that is sure."""
    return float(value) if dtype.is_floating_point and type(value) is int else value


@means("zeros", "ones", "full", "new_zeros", "new_ones", "new_full")
def made(use: Use) -> Tensor:
    """A new tensor of a given shape."""
    dims = tuple(use.shape("size"))
    for extent in dims:
        use.demand(number(extent) >= 0)
    return filled(use, dims, _number(use, use.args.get("fill_value")), use.dtype)


@means("zeros_like", "ones_like", "full_like")
def made_like(use: Use) -> Tensor:
    """A new tensor of the shape of another."""
    return filled(use, use.tensor("self").dims, _number(use, use.args.get("fill_value")), use.dtype)


@means("fill")
def fill(use: Use) -> Tensor:
    """One number everywhere, whatever was there."""
    like, value = use.tensor("self"), use.args["value"]
    if not isinstance(value, Storage):
        return filled(use, like.dims, value, like.dtype)
    use.demand(len(value.read().dims) == 0)
    return use.cast(use.fitted(value.read(), like.dims), like.dtype)


@means("number_as_tensor")
def number_as_tensor(use: Use) -> Tensor:
    """A number as a tensor without dimensions."""
    return filled(use, (), use.args["s"], use.dtype)


def _number(use: Use, given: Any) -> Any:
    return given if given is not None else 1 if "ones" in use.call.op else 0


# ------------------------------------------------------------------------------------------- gradients of cuts


@means("select_backward")
def select_backward(use: Use) -> Tensor:
    """Zeros, but at one position of a dimension the gradient of that slice."""
    gradient, dims = use.tensor("grad_output"), tuple(use.shape("input_sizes"))
    d, at = use.dim(use.args["dim"], len(dims)), use.integer(use.args["index"])
    extent = number(dims[d])
    use.demand(use.logic.all_of(at >= -extent, at < extent))
    at = use.logic.ite(at < 0, at + extent, at)
    use.same_dims(gradient.dims, (*dims[:d], *dims[d + 1 :]))
    zero = filled(use, dims, 0, gradient.dtype)

    def element(i: Index) -> Any:
        return choose(use.logic, same_number(number(i[d]), at), lambda: gradient[(*i[:d], *i[d + 1 :])], lambda: zero[i])

    return Tensor(dims, element, gradient.dtype)


@means("slice_backward")
def slice_backward(use: Use) -> Tensor:
    """Zeros, but at the positions of a slice its gradient."""
    gradient = use.tensor("grad_output")
    whole = Memory(filled(use, tuple(use.shape("input_sizes")), 0, gradient.dtype))
    d = use.dim(use.args["dim"], len(whole.contents.dims))
    part = sliced(use, whole, d, slice(use.args["start"], use.args["end"], use.args["step"]))
    use.same_dims(gradient.dims, part.read().dims)
    part.write(gradient)
    return whole.contents


# ------------------------------------------------------------------------------------------------------- normalisation


@means("native_layer_norm")
def native_layer_norm(use: Use) -> Any:
    """``(x - mean) / deviation`` of each row, then ``* weight + bias``; with the mean and the inverse deviation, by one kernel."""
    source, over, lead = _rows_of(use, use.tensor("input"))
    (_, dtype, _), *statistics = use.results
    kernel = ("layer_norm", isinstance(use.args.get("weight"), Storage), isinstance(use.args.get("bias"), Storage))
    eps = {"eps": literal(float(use.args["eps"]))}
    kept = [_statistic(use, source, lead, what, eps, result[1], kernel) for what, result in zip(("row_mean", "row_rstd"), statistics, strict=True)]
    found = _standardised(use, source, kept[0], kept[1], lead)
    for name, combine in (("weight", times), ("bias", plus)):
        if isinstance(use.args.get(name), Storage):
            found = combine(use, found, _read_by_rows(use, name, source.dims, over, lead, dtype))
    return found, *kept


def _rows_of(use: Use, source: Tensor) -> tuple[Tensor, tuple[Any, ...], int]:
    """The tensor, the shape of its rows, and how many dimensions stand in front of them."""
    over = tuple(use.shape("normalized_shape"))
    lead = len(source.dims) - len(over)
    use.demand(len(over) > 0)
    use.demand(lead >= 0)
    use.same_dims(source.dims[lead:], over)
    return source, over, lead


def _statistic(use: Use, source: Tensor, lead: int, what: str, eps: dict[str, str], dtype: torch.dtype, kernel: Any) -> Tensor:
    symbol = use.symbol(what, source.dtype, literals=eps, result=dtype)
    axes = range(lead, len(source.dims))
    dims = (*source.dims[:lead], *(1 for _ in axes))
    return Tensor(dims, lambda i: use.logic.whole(symbol, (row(use, source, axes, dict(enumerate(i[:lead]))),), (), kernel), dtype)


def _standardised(use: Use, source: Tensor, mean: Tensor, rstd: Tensor, lead: int) -> Tensor:
    """``(x - mean) * rstd`` for the statistics of each row."""
    symbol = use.symbol("standardised", source.dtype, mean.dtype, rstd.dtype, result=source.dtype)

    def element(i: Index) -> Any:
        at = _of_row(i, lead)
        return use.logic.apply(symbol, source[i], mean[at], rstd[at])

    return Tensor(source.dims, element, source.dtype)


def _of_row(index: Index, lead: int) -> Index:
    """Where the statistics of the row of an element stand."""
    return (*index[:lead], *(0 for _ in index[lead:]))


def _read_by_rows(use: Use, name: str, dims: tuple[Any, ...], over: tuple[Any, ...], lead: int, dtype: torch.dtype) -> Tensor:
    """Weight or bias as every row reads it; one of another dtype is widened by the kernel, not by a cast."""
    given = use.tensor(name)
    use.same_dims(given.dims, over)
    if given.dtype == dtype:
        return Tensor(dims, lambda i: given[i[lead:]], dtype)
    symbol = use.symbol("read_wide", given.dtype, result=dtype)
    return Tensor(dims, lambda i: use.logic.apply(symbol, given[i[lead:]]), dtype)


@means("native_layer_norm_backward")
def native_layer_norm_backward(use: Use) -> Any:
    """Gradients of input, weight and bias; None where they are not asked for.

    That of the input is, row by row, a function of which only congruence is known: of the gradient times the weight, the
    row, and its statistics. That of the weight is the sum of the gradients times the standardised rows, that of the bias the
    sum of the gradients, as https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html has it.
    """
    source, over, lead = _rows_of(use, use.tensor("input"))
    gradient, mean, rstd = use.tensor("grad_out"), use.tensor("mean"), use.tensor("rstd")
    use.same_dims(gradient.dims, source.dims)
    for statistic in (mean, rstd):
        use.same_dims(statistic.dims, (*source.dims[:lead], *(1 for _ in over)))
    like = replace(use, results=((source.dims, source.dtype, False),))  # the metadata says nothing where a gradient is None
    axes, for_input = range(lead, len(source.dims)), gradient
    weighted = isinstance(use.args.get("weight"), Storage)
    if weighted:
        for_input = times(like, gradient, _read_by_rows(use, "weight", source.dims, over, lead, gradient.dtype))
    kernel = ("layer_norm_backward", weighted)
    symbol = use.symbol("norm_backward", source.dtype, mean.dtype, result=source.dtype)

    def of_input(i: Index) -> Any:
        kept, at = dict(enumerate(i[:lead])), _of_row(i, lead)
        parts = (row(use, for_input, axes, kept), row(use, source, axes, kept), Part((), lambda _: mean[at]), Part((), lambda _: rstd[at]))
        return use.logic.whole(symbol, parts, tuple(p for a in axes for p in places_along(source.dims[a], i[a])), kernel)

    def over_rows(what: Tensor) -> Tensor:
        """The sum over everything in front of the rows."""

        def element(i: Index) -> Any:
            return summed(use, row(use, what, range(lead), dict(enumerate(i, start=lead))), what.dtype, kernel)

        return Tensor(over, element, what.dtype)

    asked = use.args["output_mask"]
    return (
        Tensor(source.dims, of_input, source.dtype) if asked[0] else None,
        over_rows(times(like, gradient, _standardised(use, source, mean, rstd, lead))) if asked[1] else None,
        over_rows(gradient) if asked[2] else None,
    )
