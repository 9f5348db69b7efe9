"""``optimus::group_linear``: linears of different shapes as one operator.

On CUDA devices it is one launch of a Triton kernel where that takes the dtype and Triton is installed; elsewhere it is a
loop. Its gradient is the same operator: ``dx = dy @ w``, ``dw = dy.T @ x`` and ``db = dy.T @ 1`` of all members are linears
of different shapes themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

NAME = "optimus::group_linear"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""What the kernel multiplies."""

Biases = Sequence[Tensor | None]

# Flexible, since operands are taken as they lie.
torch.library.define(
    NAME, "(Tensor[] inputs, Tensor[] weights, Tensor?[] biases) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout)
)
group_linear = torch.ops.optimus.group_linear.default


def check(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> None:
    """Raise what :func:`torch.nn.functional.linear` would, and where members differ in dtype or device."""
    _check_counts(inputs, weights, biases)
    dtype, device = inputs[0].dtype, inputs[0].device
    if not dtype.is_floating_point:
        raise TypeError(f"group_linear: inputs of {dtype}; accepted are floating-point dtypes")
    for k, (x, w, bias) in enumerate(zip(inputs, weights, biases, strict=True)):
        for given in (x, w) if bias is None else (x, w, bias):
            if given.dtype != dtype or given.device != device:
                raise TypeError(f"group_linear: member {k} has a {given.dtype} on {given.device}; accepted is {dtype} on {device}, as of input 0")
        refusal = partial(_refusal, k, x, w, bias)
        torch._check(x.dim() > 0 and w.dim() == 2, refusal)
        torch._check(x.shape[-1] == w.shape[1], refusal)
        if bias is not None:
            torch._check(bias.dim() == 1 and bias.shape[0] == w.shape[0], refusal)


def _check_counts(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> None:
    counts = len(inputs), len(weights), len(biases)
    if not inputs or len(set(counts)) > 1:
        raise ValueError("group_linear: {} inputs, {} weights, {} biases; accepted are as many of each, at least 1".format(*counts))


def _refusal(number: int, *given: Tensor | None) -> str:
    shapes = ", ".join(str(tuple(t.shape)) for t in given if t is not None)
    return f"group_linear: member {number} has shapes {shapes}; accepted are (*, k), (n, k) and (n,)"


def _fake(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> list[Tensor]:
    check(inputs, weights, biases)
    return [x.new_empty((*x.shape[:-1], w.shape[0])) for x, w in zip(inputs, weights, strict=True)]


def _loop(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> list[Tensor]:
    _check_counts(inputs, weights, biases)
    return [F.linear(x, w, b).contiguous() for x, w, b in zip(inputs, weights, biases, strict=True)]


def _on_cuda(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> list[Tensor]:
    if not inputs or inputs[0].dtype not in DTYPES or not has_kernel(inputs[0].device) or torch.cuda.is_current_stream_capturing():
        return _loop(inputs, weights, biases)  # a CUDA graph could not replay the addresses that the kernel is sent
    from optimus.kernels.group_linear import group_linear

    return group_linear(inputs, weights, biases)


def has_kernel(device: torch.device) -> bool:
    """Whether the operator is a kernel on ``device``, rather than a loop."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


class _Differentiable(torch.autograd.Function):
    """The operator over flat operands: a list that holds a tensor and None is nothing that autograd looks into."""

    @staticmethod
    def forward(ctx: Any, *operands: Tensor | None) -> tuple[Tensor, ...]:
        inputs, weights, biases = _thirds(operands)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *weights)
        with torch._C._AutoDispatchBelowAutograd():
            return tuple(group_linear(inputs, weights, biases))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        count = len(grads)
        found: list[Tensor | None] = [None] * (3 * count)
        inputs, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        one: Any = weights[0].new_ones(1) if any(ctx.needs_input_grad[2 * count :]) else None
        problems: dict[int, tuple[Tensor, Tensor]] = {}
        for k, (grad, x, w) in enumerate(zip(grads, inputs, weights, strict=True)):
            for_input, for_weight, for_bias = (grad is not None and ctx.needs_input_grad[part * count + k] for part in range(3))
            if for_input:
                problems[k] = grad, w.t()
            if for_weight:
                problems[count + k] = _matrix(grad).t(), _matrix(x).t()
            if for_bias:
                across = _matrix(grad).t()
                problems[2 * count + k] = across, one.expand(1, across.shape[1])
        if problems:
            results = group_linear([g for g, _ in problems.values()], [o for _, o in problems.values()], [None] * len(problems))
            for place, result in zip(problems, results, strict=True):
                found[place] = result.squeeze(1) if place >= 2 * count else result
        return tuple(found)


def _matrix(given: Tensor) -> Tensor:
    """``given`` with its leading dimensions as one."""
    return given.unsqueeze(0) if given.dim() == 1 else given.flatten(0, -2)


def _thirds(operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    count = len(operands) // 3
    return list(operands[:count]), list(operands[count : 2 * count]), list(operands[2 * count :])


def _with_gradient(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> list[Tensor]:
    _check_counts(inputs, weights, biases)
    operands = (*inputs, *weights, *biases)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in operands):
        return list(_Differentiable.apply(*operands))
    with torch._C._AutoDispatchBelowAutograd():
        result: list[Tensor] = group_linear(inputs, weights, biases)
        return result


torch.library.register_fake(NAME, _fake)
torch.library.impl(NAME, "CompositeExplicitAutograd")(_loop)
torch.library.impl(NAME, "CUDA")(_on_cuda)
torch.library.impl(NAME, "Autograd")(_with_gradient)
