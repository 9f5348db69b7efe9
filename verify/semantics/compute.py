"""Operators that compute: element-wise functions, sums of products, and everything else as a black box."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from optimus import operators
from verify.semantics.logic import UNINITIALISED, Index, Int, Part, Symbol
from verify.semantics.table import TABLE, Use, literal, means
from verify.semantics.tensor import Storage, Tensor, UnmodelledError, broadcast, broadcast_dims, number, symbolic

# ------------------------------------------------------------------------------------------------------- element-wise

SHAPE_ONLY = {"memory_format", "non_blocking", "layout", "device", "pin_memory"}
NEUTRAL = {"alpha": 1}
"""Defaults that some spellings of an operator fill in and others do not."""


def elementwise(use: Use, op: str) -> Tensor:
    """An element-wise operator: its operands broadcast, the function itself uninterpreted."""
    operands: list[Tensor] = []
    numbers: list[Any] = []
    literals: dict[str, str] = {}
    for name, given in use.args.items():
        if isinstance(given, Storage):
            operands.append(given.read())
            literals[name] = f"#{len(operands)}"
        elif symbolic(given):
            numbers.append(number(given))
            literals[name] = f"%{len(numbers)}"
        elif isinstance(given, (list, tuple)) and any(isinstance(g, Storage) or symbolic(g) for g in given):
            raise UnmodelledError(f"{op} with a list of tensors or symbols")
        elif given is not None and name not in SHAPE_ONLY and not (name in NEUTRAL and given == NEUTRAL[name]):
            literals[name] = literal(given)
    dims, needed = broadcast_dims(use.logic, [t.dims for t in operands])
    for condition in needed:
        use.demand(condition)
    seen = [broadcast(use.logic, t, dims) for t in operands]
    symbol = use.symbol(op, *(t.dtype for t in operands), literals=literals, result=use.dtype)
    return Tensor(dims, lambda i: use.logic.apply(symbol, *(t[i] for t in seen), *numbers), use.dtype)


def is_elementwise(use: Use) -> bool:
    """Whether PyTorch says that the operator works element by element, on at least one tensor, with one result."""
    return not use.several and any(isinstance(a, Storage) for a in use.args.values()) and operators.is_elementwise(use.call)


# ----------------------------------------------------------------------------------------------------- sums of products

LETTERS = "abcdefghijlopqrstuvwxyz"  # for leading dimensions; k, m and n are the others


def contraction(use: Use, equation: str, operands: Sequence[Tensor], fused: bool = False, result: torch.dtype | None = None) -> Tensor:
    """The sum over the letters that the result lacks of the product of the operands, as ``einsum`` writes it.

    A letter that one operand repeats reads its diagonal. ``fused``: the kernel adds a bias before it rounds. ``result``: the dtype
    in which is added up, that of the operator's result by default.
    """
    result = use.dtype if result is None else result
    inputs, _, output = equation.partition("->")
    seen = list(zip(inputs.split(","), operands, strict=True))
    extents: dict[str, Any] = {}
    for letters, tensor in seen:
        use.demand(len(letters) == len(tensor.dims))
        for letter, extent in zip(letters, tensor.dims, strict=True):
            use.same(extents.setdefault(letter, extent), extent)
    summed = [c for c in extents if c not in output]
    ranges = tuple(number(extents[c]) for c in summed)
    dtype = operands[0].dtype
    product, total = _binary(use, "mul", dtype, dtype), use.symbol("sum", dtype, result=result)
    kernel = (use.call.op, fused, _renamed(equation), tuple(extents.values()))

    def element(index: Index) -> Any:
        known = dict(zip(output, index, strict=True))

        def body(k: Index) -> Any:
            at = {**known, **dict(zip(summed, k, strict=True))}
            factors = [tensor[tuple(at[c] for c in letters)] for letters, tensor in seen]
            found = factors[0]
            for factor in factors[1:]:
                found = use.logic.apply(product, found, factor)
            return found

        return use.logic.total(total, Part(ranges, body), kernel) if summed else body(())

    return Tensor(tuple(extents[c] for c in output), element, result)


HALF = (torch.float16, torch.bfloat16)


def _products(use: Use, equation: str, operands: Sequence[Tensor], fused: bool = False) -> Tensor:
    """A contraction in float32 where operands are of half precision and graphs say how they are rounded; not rounded yet."""
    if not (use.logic.widened and use.dtype in HALF and all(t.dtype == use.dtype for t in operands)):
        return contraction(use, equation, operands, fused)
    return contraction(use, equation, [use.cast(t, torch.float32) for t in operands], fused, torch.float32)


def _renamed(equation: str) -> str:
    """An equation with its letters called in the order in which they come, so that only what it says matters."""
    names: dict[str, str] = {}
    return "".join(names.setdefault(c, f"{len(names)}.") if c.isalpha() else c for c in equation)


def _binary(use: Use, op: str, dtype: torch.dtype, result: torch.dtype) -> Symbol:
    """The symbol that ``elementwise`` makes of ``op`` on two tensors."""
    return use.symbol(op, dtype, dtype, literals={"self": "#1", "other": "#2"}, result=result)


def _equal_dtypes(use: Use, *tensors: Tensor) -> list[Tensor]:
    """Operands as the product reads them: under autocast all are cast first; otherwise eager demands one dtype."""
    if "autocast" in use.mode:
        return [use.cast(t, use.dtype) for t in tensors]
    use.demand(all(t.dtype == tensors[0].dtype for t in tensors))
    return list(tensors)


def plus(use: Use, left: Tensor, right: Tensor) -> Tensor:
    """The sum of two tensors of one shape and dtype, as ``add`` says it."""
    symbol = _binary(use, "add", left.dtype, left.dtype)
    return Tensor(left.dims, lambda i: use.logic.apply(symbol, left[i], right[i]), left.dtype)


def times(use: Use, left: Tensor, right: Tensor) -> Tensor:
    """The element-wise product of two tensors of one shape and dtype, as ``mul`` says it."""
    symbol = _binary(use, "mul", use.dtype, use.dtype)
    return Tensor(left.dims, lambda i: use.logic.apply(symbol, left[i], right[i]), use.dtype)


def _scaled(use: Use, tensor: Tensor, factor: Any) -> Tensor:
    """The element-wise product with a number, as ``mul`` says it."""
    if isinstance(factor, (int, float)) and factor == 1:
        return tensor
    symbol = use.symbol("mul", tensor.dtype, literals={"self": "#1", "other": literal(factor)}, result=tensor.dtype)
    return Tensor(tensor.dims, lambda i: use.logic.apply(symbol, tensor[i]), tensor.dtype)


@means("linear")
def linear(use: Use) -> Tensor:
    """``input @ weight.T + bias``: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html."""
    bias = use.args.get("bias")
    return _linear(use, use.tensor("input"), use.tensor("weight"), bias.read() if isinstance(bias, Storage) else None)


def _linear(use: Use, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    x, weight = _equal_dtypes(use, x, weight)
    use.demand(len(x.dims) > 0)
    if len(weight.dims) != 2 or len(x.dims) > len(LETTERS):
        raise UnmodelledError("linear with a weight that is no matrix")
    lead = LETTERS[: len(x.dims) - 1]
    if bias is None:
        return contraction(use, f"{lead}k,nk->{lead}n", [x, weight])
    *_, bias = _equal_dtypes(use, x, bias)
    seen = use.fitted(bias, (*x.dims[:-1], weight.dims[0]))
    return plus(use, contraction(use, f"{lead}k,nk->{lead}n", [x, weight], fused=True), seen)


@means("optimus::group_linear")
def group_linear(use: Use) -> list[Tensor]:
    """Several linears, whose biases are vectors. Autocast does not touch its operands, so they are of one dtype by themselves."""
    inputs, weights = ([s.read() for s in use.storages(name)] for name in ("inputs", "weights"))
    biases = [b.read() if isinstance(b, Storage) else None for b in use.args["biases"]]
    use.demand(0 < len(inputs) == len(weights) == len(biases))
    members = list(zip(inputs, weights, biases, strict=True))
    for x, weight, bias in members:
        use.demand(all(t.dtype == inputs[0].dtype for t in (x, weight, bias) if t is not None))
        use.demand(len(x.dims) > 0 and len(weight.dims) == 2)
        use.same(x.dims[-1], weight.dims[1])
        if bias is not None:
            use.same_dims(bias.dims, weight.dims[:1])
    return [_linear(use, *member) for member in members]


@means("mm")
def mm(use: Use) -> Tensor:
    """The product of two matrices."""
    return use.cast(_products(use, "mk,kn->mn", _equal_dtypes(use, use.tensor("self"), use.tensor("mat2"))), use.dtype)


@means("bmm")
def bmm(use: Use) -> Tensor:
    """Products of matrices, one for each position of the first dimension."""
    return use.cast(_products(use, "bmk,bkn->bmn", _equal_dtypes(use, use.tensor("self"), use.tensor("mat2"))), use.dtype)


@means("addmm")
def addmm(use: Use) -> Tensor:
    """``beta * self + alpha * mat1 @ mat2``; with ``beta`` 0, ``self`` is not read."""
    return _added(use, "mk,kn->mn", "mat1", "mat2")


@means("baddbmm")
def baddbmm(use: Use) -> Tensor:
    """``beta * self + alpha * batch1 @ batch2``, batched; with ``beta`` 0, ``self`` is not read."""
    return _added(use, "bmk,bkn->bmn", "batch1", "batch2")


def _added(use: Use, equation: str, left: str, right: str) -> Tensor:
    one, other, bias = _equal_dtypes(use, use.tensor(left), use.tensor(right), use.tensor("self"))
    alpha, beta = use.args.get("alpha", 1), use.args.get("beta", 1)
    use.demand(len(one.dims) > 0 and len(other.dims) > 0)
    seen = use.fitted(bias, (*one.dims[:-1], other.dims[-1]))
    product = _scaled(use, _products(use, equation, [one, other], fused=True), alpha)
    if not (isinstance(beta, (int, float)) and beta == 0):
        product = plus(use, product, _scaled(use, use.cast(seen, product.dtype), beta))
    return use.cast(product, use.dtype)


@means("matmul")
def matmul(use: Use) -> Tensor:
    """The product with leading dimensions broadcast: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html."""
    x, y = _equal_dtypes(use, use.tensor("self"), use.tensor("other"))
    use.demand(len(x.dims) > 0)
    use.demand(len(y.dims) > 0)
    lead, needed = broadcast_dims(use.logic, [x.dims[:-2], y.dims[:-2]])
    for condition in needed:
        use.demand(condition)
    if len(lead) > len(LETTERS):
        raise UnmodelledError("matmul of very many dimensions")
    letters = LETTERS[: len(lead)]
    rows, columns = ("m" if len(x.dims) > 1 else ""), ("n" if len(y.dims) > 1 else "")
    x_lead, y_lead = (letters if rows else ""), (letters if columns else "")
    x = broadcast(use.logic, x, (*lead, *x.dims[-2:])) if rows else x
    y = broadcast(use.logic, y, (*lead, *y.dims[-2:])) if columns else y
    return contraction(use, f"{x_lead}{rows}k,{y_lead}k{columns}->{letters}{rows}{columns}", [x, y])


@means("einsum")
def einsum(use: Use) -> Tensor:
    """The sum that the equation says, extents of 1 broadcast; no ellipsis."""
    equation = use.args["equation"].replace(" ", "")
    if "." in equation:
        raise UnmodelledError("einsum with an ellipsis")
    if "->" not in equation:
        letters = sorted(c for c in set(equation) if c.isalpha() and equation.count(c) == 1)
        equation += "->" + "".join(letters)
    inputs, _, output = equation.partition("->")
    tensors = _equal_dtypes(use, *(s.read() for s in use.storages("tensors")))
    use.demand(inputs.count(",") == len(tensors) - 1)
    use.demand(len(set(output)) == len(output))
    use.demand(set(output) <= set(inputs))
    return contraction(use, equation, _stretched(use, inputs.split(","), tensors))


def _stretched(use: Use, spelled: list[str], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The operands of ``einsum`` with extents of 1 widened to what other operands say of the same letter.

    Inside one operand, repeated letters must agree as they are.
    """
    extents: dict[str, Any] = {}
    for letters, tensor in zip(spelled, tensors, strict=True):
        use.demand(len(letters) == len(tensor.dims))
        for k, letter in enumerate(letters):
            use.same(tensor.dims[letters.index(letter)], tensor.dims[k])
        own = dict(zip(letters, tensor.dims, strict=True))
        for letter, extent in own.items():
            (extents[letter],), needed = broadcast_dims(use.logic, [(extents.get(letter, extent),), (extent,)])
            for condition in needed:
                use.demand(condition)
    return [broadcast(use.logic, t, tuple(extents[c] for c in letters)) for letters, t in zip(spelled, tensors, strict=True)]


# -------------------------------------------------------------------------------------------------------- black boxes

READS_STRIDES = {"as_strided_copy", "as_strided_scatter", "_reshape_alias_copy", "resize", "resize_as"}
"""Functions that are none of the elements alone."""


EMPTY = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted"}
_calls = itertools.count()


def uninitialised(use: Use) -> Tensor:
    """Memory as it is found: at each call, and in each evaluation of it, elements that nothing else is known to equal."""
    symbol = use.symbol(UNINITIALISED, literals={"call": str(next(_calls))}, result=use.dtype)
    for extent in use.dims:
        use.demand(number(extent) >= 0)
    return Tensor(use.dims, lambda i: use.logic.apply(symbol, *map(number, i)), use.dtype)


def number_part(use: Use, given: Int) -> Part:
    """A number as an operand of a black box."""
    return Part((), lambda _: use.logic.apply(Symbol("integer"), given))


def black_box(use: Use, number_of_result: int = 0, extra: str = "") -> Tensor:
    """An operator of which only congruence is known: equal operands, equal literals, equal index, equal element."""
    parts: list[Part] = []

    def text(given: Any) -> str:
        if isinstance(given, Storage):
            tensor = given.read()
            parts.append(Part(tuple(map(number, tensor.dims)), lambda i: tensor[i]))
            return f"#{len(parts)}:{tensor.dtype}"
        if isinstance(given, (list, tuple)):
            return "(" + "".join(f"{text(g)}, " for g in given) + ")"
        if symbolic(given):
            parts.append(number_part(use, number(given)))
            return f"#{len(parts)}"
        return literal(given)

    literals = {name: text(given) for name, given in use.args.items()}
    dims, dtype, _ = use.results[number_of_result]
    symbol = use.symbol(use.call.op + extra + (f".{number_of_result}" if number_of_result else ""), literals=literals, result=dtype)
    return Tensor(dims, lambda i: use.logic.whole(symbol, parts, tuple(map(number, i))), dtype)


def meaning_of(use: Use, ordinal: int) -> Any:
    """The result of any operator. ``ordinal`` tells apart the draws of random ones."""
    if use.call.random:
        return boxed(use, extra=f"#{ordinal}")
    if use.call.op in EMPTY:
        return uninitialised(use)
    known = TABLE.get(use.call.op)
    if known is not None:
        return known(use)
    if is_elementwise(use):
        return elementwise(use, use.call.op)
    return boxed(use)


def boxed(use: Use, extra: str = "") -> Any:
    """The results of an operator without semantics, as black boxes of all its operands."""
    if not use.results:
        raise UnmodelledError(f"{use.call.op}, which returns no tensor")
    if use.call.op in READS_STRIDES:
        raise UnmodelledError(f"{use.call.op}, which depends on strides")
    if any(aliases for _, _, aliases in use.results):
        raise UnmodelledError(f"{use.call.op}, a view without semantics")
    found = [black_box(use, k, extra) for k in range(len(use.results))]
    return tuple(found) if use.several else found[0]
