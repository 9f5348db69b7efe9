"""Operators that compute: element-wise functions, sums of products, and everything else as a black box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from verify.semantics.logic import Index, Part, Symbol
from verify.semantics.table import TABLE, Use, means
from verify.semantics.tensor import Storage, Tensor, UnmodelledError, broadcast, broadcast_dims, number, same_number

# ------------------------------------------------------------------------------------------------------- element-wise

SHAPE_ONLY = {"memory_format", "non_blocking", "layout", "device", "pin_memory"}


def elementwise(use: Use, op: str) -> Tensor:
    """An element-wise operator: its operands broadcast, the function itself uninterpreted."""
    operands: list[Tensor] = []
    literals: dict[str, Any] = {}
    for name, given in use.args.items():
        if isinstance(given, Storage):
            operands.append(given.read())
            literals[name] = f"#{len(operands)}"
        elif isinstance(given, (list, tuple)) and any(isinstance(g, Storage) for g in given):
            raise UnmodelledError(f"{op} with a list of tensors")
        elif given is not None and name not in SHAPE_ONLY:
            literals[name] = given
    dims, needed = broadcast_dims(use.logic, [t.dims for t in operands])
    for condition in needed:
        use.demand(condition)
    seen = [broadcast(use.logic, t, dims) for t in operands]
    symbol = use.symbol(op, *(t.dtype for t in operands), literals=literals)
    return Tensor(dims, lambda i: use.logic.apply(symbol, *(t[i] for t in seen)), use.dtype)


def is_elementwise(use: Use) -> bool:
    """Whether PyTorch says that the operator works element by element."""
    overload = use.call.overload
    if overload is not None:
        return torch.Tag.pointwise in overload.tags
    if use.call.op.startswith("reflected_"):
        return True
    packet = getattr(torch.ops.aten, use.call.op, None)
    return packet is not None and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())


# ----------------------------------------------------------------------------------------------------- sums of products


def contraction(use: Use, equation: str, operands: Sequence[Tensor]) -> Tensor:
    """The sum over the letters that the result lacks of the product of the operands, as ``einsum`` writes it.

    A letter that one operand repeats reads its diagonal.
    """
    inputs, _, output = equation.partition("->")
    extents: dict[str, Any] = {}
    for letters, tensor in zip(inputs.split(","), operands, strict=True):
        use.demand(len(letters) == len(tensor.dims))
        if len(letters) != len(tensor.dims):
            raise UnmodelledError(f"{use.call.op} of a tensor of another rank")
        for letter, extent in zip(letters, tensor.dims, strict=True):
            if letter in extents:
                use.demand(same_number(extents[letter], extent))
            else:
                extents[letter] = extent
    summed = [c for c in extents if c not in output]
    dtype = operands[0].dtype
    product = use.symbol("mul", dtype)

    def element(index: Index) -> Any:
        known = dict(zip(output, index, strict=True))

        def body(k: Index) -> Any:
            at = {**known, **dict(zip(summed, k, strict=True))}
            factors = [t[tuple(at[c] for c in letters)] for letters, t in zip(inputs.split(","), operands, strict=True)]
            found = factors[0]
            for factor in factors[1:]:
                found = use.logic.apply(product, found, factor)
            return found

        if not summed:
            return body(())
        return use.logic.total(use.symbol("sum", dtype), Part(tuple(number(extents[c]) for c in summed), body), use.call.op)

    return Tensor(tuple(extents[c] for c in output), element, use.dtype)


def _equal_dtypes(use: Use, *tensors: Tensor) -> list[Tensor]:
    """Operands as the product reads them: under autocast all are cast first; otherwise eager demands one dtype."""
    if use.mode:
        return [use.cast(t, use.dtype) for t in tensors]
    use.demand(all(t.dtype == tensors[0].dtype for t in tensors))
    return list(tensors)


def _plus(use: Use, left: Tensor, right: Tensor) -> Tensor:
    seen = broadcast(use.logic, right, left.dims)
    for own, wide in zip(reversed(right.dims), reversed(left.dims), strict=False):
        use.demand(use.logic.any_of(same_number(own, wide), same_number(own, 1)))
    symbol = use.symbol("add", left.dtype)
    return Tensor(left.dims, lambda i: use.logic.apply(symbol, left[i], seen[i]), use.dtype)


def _scaled(use: Use, tensor: Tensor, factor: Any) -> Tensor:
    if isinstance(factor, (int, float)) and factor == 1:
        return tensor
    symbol = use.symbol("scale", tensor.dtype, literals={"by": factor})
    return Tensor(tensor.dims, lambda i: use.logic.apply(symbol, tensor[i]), tensor.dtype)


@means("linear")
def linear(use: Use) -> Tensor:
    """``input @ weight.T + bias``: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html."""
    x, weight = _equal_dtypes(use, use.tensor("input"), use.tensor("weight"))
    if len(weight.dims) != 2 or not x.dims:
        raise UnmodelledError("linear with a weight that is no matrix")
    lead = "abcdefgh"[: len(x.dims) - 1]
    product = contraction(use, f"{lead}k,nk->{lead}n", [x, weight])
    if not isinstance(use.args.get("bias"), Storage):
        return product
    (bias,) = _equal_dtypes(use, use.tensor("bias"))
    if len(bias.dims) > len(product.dims):
        raise UnmodelledError("linear with a bias of higher rank than its result")
    return _plus(use, product, bias)


@means("mm")
def mm(use: Use) -> Tensor:
    """The product of two matrices."""
    return contraction(use, "mk,kn->mn", _equal_dtypes(use, use.tensor("self"), use.tensor("mat2")))


@means("bmm")
def bmm(use: Use) -> Tensor:
    """Products of matrices, one for each position of the first dimension."""
    return contraction(use, "bmk,bkn->bmn", _equal_dtypes(use, use.tensor("self"), use.tensor("mat2")))


@means("addmm")
def addmm(use: Use) -> Tensor:
    """``beta * self + alpha * mat1 @ mat2``."""
    return _added(use, "mk,kn->mn", "mat1", "mat2")


@means("baddbmm")
def baddbmm(use: Use) -> Tensor:
    """``beta * self + alpha * batch1 @ batch2``, batched."""
    return _added(use, "bmk,bkn->bmn", "batch1", "batch2")


def _added(use: Use, equation: str, left: str, right: str) -> Tensor:
    one, other, bias = _equal_dtypes(use, use.tensor(left), use.tensor(right), use.tensor("self"))
    product = _scaled(use, contraction(use, equation, [one, other]), use.args.get("alpha", 1))
    return _plus(use, product, _scaled(use, bias, use.args.get("beta", 1)))


@means("matmul")
def matmul(use: Use) -> Tensor:
    """The product with leading dimensions broadcast: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html."""
    x, y = _equal_dtypes(use, use.tensor("self"), use.tensor("other"))
    use.demand(len(x.dims) > 0 and len(y.dims) > 0)
    if not x.dims or not y.dims:
        raise UnmodelledError("matmul of a scalar")
    rows, columns = ("m" if len(x.dims) > 1 else ""), ("n" if len(y.dims) > 1 else "")
    if len(x.dims) <= 2 and len(y.dims) <= 2:
        return contraction(use, f"{rows}k,k{columns}->{rows}{columns}", [x, y])
    lead, needed = broadcast_dims(use.logic, [x.dims[:-2], y.dims[:-2]])
    for condition in needed:
        use.demand(condition)
    letters = "abcdefgh"[: len(lead)]
    if len(x.dims) > 1:
        x = broadcast(use.logic, x, (*lead, *x.dims[-2:]))
    if len(y.dims) > 1:
        y = broadcast(use.logic, y, (*lead, *y.dims[-2:]))
    first = (letters if len(x.dims) > 1 else "") + rows + "k"
    second = (letters if len(y.dims) > 1 else "") + "k" + columns
    return contraction(use, f"{first},{second}->{letters}{rows}{columns}", [x, y])


@means("einsum")
def einsum(use: Use) -> Tensor:
    """The sum that the equation says; no ellipsis."""
    equation = use.args["equation"].replace(" ", "")
    if "." in equation:
        raise UnmodelledError("einsum with an ellipsis")
    if "->" not in equation:
        letters = sorted(c for c in set(equation) if c.isalpha() and equation.count(c) == 1)
        equation += "->" + "".join(letters)
    tensors = _equal_dtypes(use, *(s.read() for s in use.args["tensors"]))
    return contraction(use, equation, tensors)


# -------------------------------------------------------------------------------------------------------- black boxes


def black_box(use: Use, number_of_result: int = 0, extra: str = "") -> Tensor:
    """An operator of which only congruence is known: equal operands, equal literals, equal index, equal element."""
    parts: list[Part] = []
    literals: dict[str, Any] = {}

    def collect(given: Any, name: str) -> Any:
        if isinstance(given, Storage):
            tensor = given.read()
            parts.append(Part(tuple(map(number, tensor.dims)), lambda i, t=tensor: t[i]))  # type: ignore[misc]
            return f"#{len(parts)}:{tensor.dtype}"
        if isinstance(given, (list, tuple)):
            return tuple(collect(g, name) for g in given)
        if hasattr(given, "get_id"):
            parts.append(Part((), lambda _, g=given: use.logic.apply(Symbol("integer"), g)))  # type: ignore[misc]
            return f"#{len(parts)}"
        return given

    for name, given in use.args.items():
        literals[name] = collect(given, name)
    dims, dtype, _ = use.results[number_of_result]
    symbol = use.symbol(use.call.op + extra + (f".{number_of_result}" if number_of_result else ""), dtype, literals=literals)
    return Tensor(dims, lambda i: use.logic.whole(symbol, parts, tuple(map(number, i))), dtype)


def meaning_of(use: Use, ordinal: int) -> Any:
    """The result of any operator. ``ordinal`` tells apart the draws of random ones."""
    if use.call.random:
        return _boxed(use, extra=f"#{ordinal}")
    known = TABLE.get(use.call.op)
    if known is not None:
        return known(use)
    if is_elementwise(use):
        return elementwise(use, use.call.op)
    return _boxed(use)


def _boxed(use: Use, extra: str = "") -> Any:
    if not use.results:
        raise UnmodelledError(f"{use.call.op}, which returns no tensor")
    if any(aliases for _, _, aliases in use.results):
        raise UnmodelledError(f"{use.call.op}, a view without semantics")
    found = [black_box(use, k, extra) for k in range(len(use.results))]
    return tuple(found) if use.several else found[0]
