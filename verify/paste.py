"""A find as text: Python that can be pasted, with shapes and values, and the command that replays it."""

from __future__ import annotations

from typing import Any

import torch

from fuzz.program import Input, Program

MOST = 64
"""Elements of a tensor that are written out; a larger one is made by the expression that drew it."""


def paste(program: Program) -> str:
    """``program`` and its inputs as one piece of Python that needs nothing but torch (and ``fuzz.program`` for large inputs)."""
    made = [(i, i.make()) for i in program.inputs]
    large = any(t.numel() > MOST for _, t in made)
    lines = ["import torch", *(["from fuzz.program import Input"] if large else []), "", "", program.source(), "", ""]
    lines += [f"{spec.name} = {expression(spec, t)}  # {_shape(t)}" for spec, t in made]
    return "\n".join([*lines, f"print(program({', '.join(i.name for i in program.inputs)}))"])


def _shape(tensor: torch.Tensor) -> str:
    strides = "" if tensor.is_contiguous() else f", strides {tuple(tensor.stride())}"
    return f"shape {tuple(tensor.shape)}, {tensor.dtype}{strides}{', requires_grad' if tensor.requires_grad else ''}"


def expression(spec: Input, tensor: torch.Tensor) -> str:
    """An expression for a tensor that keeps its values and its place in memory."""
    if tensor.numel() > MOST:
        return spec.source()
    bare = tensor.detach()
    if 0 in bare.stride() and bare.numel():
        once = bare[tuple(slice(0, 1) if s == 0 else slice(None) for s in bare.stride())]
        text = f"{literal(once)}.expand({tuple(bare.shape)})"
    elif bare.is_contiguous() or not bare.numel():
        text = literal(bare)
    else:
        text = f"torch.empty_strided({tuple(bare.shape)}, {tuple(bare.stride())}, dtype={bare.dtype}).copy_({literal(bare)})"
    return f"{text}.requires_grad_()" if tensor.requires_grad else text


def literal(tensor: torch.Tensor) -> str:
    """A contiguous tensor of the same values."""
    if not tensor.numel():
        return f"torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype})"
    values = tensor.tolist() if tensor.dtype not in _WIDENED else tensor.to(torch.float32).tolist()
    return f"torch.tensor({_numbers(values)}, dtype={tensor.dtype})"


_WIDENED = tuple(d for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz") if (d := getattr(torch, name, None)))


def _numbers(found: Any) -> str:
    if isinstance(found, list):
        return f"[{', '.join(map(_numbers, found))}]"
    if isinstance(found, complex):
        return f"complex({_numbers(found.real)}, {_numbers(found.imag)})"
    if isinstance(found, float) and (found != found or found in (float("inf"), float("-inf"))):
        return f'float("{found}")'
    return repr(found)
