"""Tensors in 8-bit floating point: ``optimus::fp8_step``, ``optimus::fp8_encode`` and ``optimus::fp8_decode``.

A value is stored as a number of one of the formats of :data:`FORMATS`, in units of a *step*: 1, or a power of two for each
row (the last dimension), so that multiplying by it rounds nothing. The largest finite number of the format stands for an
infinity, which finite values never reach: with steps they end two binades below, without they are clamped to the number
before. So infinities and NaN come back as they were in either format, and no conversion ever has to overflow, where
hardware and versions differ.

With ``m`` bits of mantissa, ``h`` half the smallest subnormal, ``s`` the step and ``top`` the largest number that a finite
value becomes, a finite ``x`` of a dtype ``D`` comes back as ``y`` with

    |y - x| <= max(|x| / 2^(m+1), h * s) + d(D),        |x| <= top * s
    y = copysign(top, x),                               |x| > top, which only happens without steps

for rounding to nearest is off by at most the unit roundoff ``2^-(m+1)`` relatively, or half the spacing of subnormals
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., theorem 2.2 and section 2.1; formats: OCP 8-bit Floating Point
Specification, revision 1.0). ``d`` is what ``D`` cannot hold: half its smallest subnormal for float16, its smallest normal
for bfloat16 and float32, below which hardware may flush to zero. Signs are kept, those of zeros too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten, prims = torch.ops.aten, torch.ops.prims

LEAST = 2.0**-100
"""The magnitude for which the step of a row of smaller values is made, so that steps and their reciprocals are normal numbers."""

EXPONENT_BITS, TWICE_BIAS = 0x7F800000, 254 << 23
INF = float("inf")


@dataclass(frozen=True)
class Format:
    """An 8-bit format. ``mantissa``: stored bits. ``highest``: the exponent that the largest element of a row is brought to.

    ``top``: the largest number that finite values become without steps. ``infinity``: the number that stands for infinity.
    """

    dtype: torch.dtype
    mantissa: int
    highest: int
    top: float
    infinity: float

    @property
    def roundoff(self) -> float:
        """The unit roundoff."""
        return 2.0 ** -(self.mantissa + 1)

    @property
    def half_spacing(self) -> float:
        """Half the distance between subnormal numbers."""
        return torch.finfo(self.dtype).smallest_normal * self.roundoff


FORMATS = {
    f.dtype: f for f in (Format(torch.float8_e4m3fn, 3, 7, 416.0, 448.0), Format(torch.float8_e5m2, 2, 14, 49152.0, 57344.0))
}  # fmt: skip
"""The formats by dtype. ``highest`` leaves one binade of the format unused, of which the largest number is taken for infinity."""

BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in FORMATS}
"""The formats as options name them."""

FLUSHED = {torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126, torch.float32: 2.0**-126}
"""What a dtype cannot hold, in absolute terms, by each dtype whose tensors can be encoded."""

ENCODED_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in FLUSHED}
"""The dtypes whose tensors can be encoded, as options name them."""


def converts(device: torch.device, format: torch.dtype) -> bool:
    """Whether ``device`` converts to ``format``: CPUs do, and CUDA GPUs, of compute capability 8.9 for float8_e4m3fn."""
    if device.type == "cuda" and torch.version.hip is None:
        return format is not torch.float8_e4m3fn or torch.cuda.get_device_capability(device) >= (8, 9)
    return device.type == "cpu"


Call = Callable[..., Any]
"""Applies an operator to arguments: at once, or as a node of a graph."""


def step(call: Call, x: Any, source: torch.dtype, format: torch.dtype) -> Any:
    """The step of each row of ``x``, of dtype ``source``: float32, the last dimension of extent 1. A 0-d tensor is one row."""
    size = call(aten.abs.default, _wide(call, x, source))
    finite = call(aten.where.ScalarOther, call(aten.lt.Scalar, size, INF), size, 0.0)
    largest = call(aten.clamp_min.default, call(aten.amax.default, finite, [-1], True), LEAST)
    bits = call(aten.bitwise_and.Scalar, call(aten.view.dtype, largest, torch.int32), EXPONENT_BITS)
    return call(aten.mul.Tensor, call(aten.view.dtype, bits, torch.float32), 2.0 ** -FORMATS[format].highest)


def encode(call: Call, x: Any, source: torch.dtype, step: Any, format: torch.dtype) -> Any:
    """``x``, of dtype ``source``, in units of ``step`` (None: 1) in ``format``."""
    known = FORMATS[format]
    wide = _wide(call, x, source)
    infinite = call(aten.eq.Scalar, call(aten.abs.default, wide), INF)
    if step is None:
        finite = _clamped(call, wide, known.top)
    else:
        inverse = call(aten.add.Tensor, call(aten.neg.default, call(aten.view.dtype, step, torch.int32)), TWICE_BIAS)
        finite = call(aten.mul.Tensor, wide, call(aten.view.dtype, inverse, torch.float32))
    found = call(aten.where.self, infinite, _clamped(call, wide, known.infinity), finite)
    return call(prims.convert_element_type.default, found, format)


def decode(call: Call, q: Any, format: torch.dtype, step: Any, dtype: torch.dtype) -> Any:
    """What :func:`encode` stored in ``format``, as ``dtype``. A finite value that ``dtype`` cannot hold becomes its largest."""
    wide = call(prims.convert_element_type.default, q, torch.float32)
    infinite = call(aten.eq.Scalar, call(aten.abs.default, wide), FORMATS[format].infinity)
    finite = wide if step is None else call(aten.mul.Tensor, wide, step)
    finite = _clamped(call, finite, torch.finfo(dtype).max)
    return _narrow(call, call(aten.where.self, infinite, call(aten.mul.Tensor, wide, INF), finite), dtype)


def _wide(call: Call, x: Any, source: torch.dtype) -> Any:
    return x if source is torch.float32 else call(prims.convert_element_type.default, x, torch.float32)


def _narrow(call: Call, x: Any, dtype: torch.dtype) -> Any:
    return x if dtype is torch.float32 else call(prims.convert_element_type.default, x, dtype)


def _clamped(call: Call, x: Any, limit: float) -> Any:
    return call(aten.clamp_max.default, call(aten.clamp_min.default, x, -limit), limit)


def bound(x: Tensor, format: torch.dtype, step: Tensor | None) -> Tensor:
    """The most by which each element of ``x`` may be off when it comes back, float64; 0 for infinities and NaN."""
    known = FORMATS[format]
    size = x.detach().double().abs()
    unit = torch.ones((), dtype=torch.float64, device=x.device) if step is None else step.double()
    rounding = torch.maximum(size * known.roundoff, known.half_spacing * unit) + FLUSHED[x.dtype]
    past = size > known.top * unit
    return torch.where(size < INF, torch.where(past, size - known.top * unit, rounding), 0.0)


# ----------------------------------------------------------------------------------------------------------- operators


def _now(op: Any, *args: Any) -> Any:
    return op(*args)


def _check(x: Tensor, format: torch.dtype, what: str) -> None:
    if x.dtype not in FLUSHED:
        raise TypeError(f"{what}: a tensor of {x.dtype}; accepted are {', '.join(map(str, FLUSHED))}")
    if format not in FORMATS:
        raise TypeError(f"{what}: format {format}; accepted are {', '.join(map(str, FORMATS))}")


def _step(x: Tensor, format: torch.dtype) -> Tensor:
    _check(x, format, "fp8_step")
    found: Tensor = step(_now, x, x.dtype, format)
    return found


def _encode(x: Tensor, step: Tensor | None, format: torch.dtype) -> Tensor:
    _check(x, format, "fp8_encode")
    found: Tensor = encode(_now, x, x.dtype, step, format)
    return found


def _decode(q: Tensor, step: Tensor | None, dtype: torch.dtype) -> Tensor:
    _check(q.new_empty(0, dtype=dtype), q.dtype, "fp8_decode")
    found: Tensor = decode(_now, q, q.dtype, step, dtype)
    return found


_TAGS = (torch.Tag.pt2_compliant_tag,)
for _name, _schema, _body in (
    ("fp8_step", "(Tensor x, ScalarType format) -> Tensor", _step),
    ("fp8_encode", "(Tensor x, Tensor? step, ScalarType format) -> Tensor", _encode),
    ("fp8_decode", "(Tensor q, Tensor? step, ScalarType dtype) -> Tensor", _decode),
):
    torch.library.define(f"optimus::{_name}", _schema, tags=_TAGS)
    torch.library.impl(f"optimus::{_name}", "CompositeExplicitAutograd")(_body)
    torch.library.register_fake(f"optimus::{_name}", _body)

fp8_step = torch.ops.optimus.fp8_step.default
fp8_encode = torch.ops.optimus.fp8_encode.default
fp8_decode = torch.ops.optimus.fp8_decode.default


def expansion(target: Any, call: Call, *args: Any) -> Any:
    """One of the three operators through ``call``. ``args``: its own, each tensor with its dtype as a pair ``(node, dtype)``, or None."""
    (x, dtype), *others = args
    if target is fp8_step:
        return step(call, x, dtype, others[0])
    given = None if others[0] is None else others[0][0]
    if target is fp8_encode:
        return encode(call, x, dtype, given, others[1])
    return decode(call, x, dtype, given, others[1])
