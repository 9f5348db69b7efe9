"""Tensors of every kind are drawn, the same from the same description, and shrink to plain ones."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings

import fuzz
from fuzz.tensors import COMPLEX, EVERY_DTYPE, FLOATS, LAYOUTS, TensorSpec, specials

QUIET = settings(max_examples=150, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
SEARCH = settings(max_examples=5000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
INTEGER = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}


def bits(tensor: torch.Tensor) -> list[int]:
    """The bytes of the values, so that NaN are told apart."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else []


@QUIET
@given(fuzz.tensor_specs(fuzz.shapes()))
def test_a_description_makes_the_same_tensor_and_prints(spec):
    again = eval(repr(spec), {"TensorSpec": TensorSpec, "torch": torch})  # noqa: S307 - printed by the line before
    one, other = spec.make(), again.make()
    assert again == spec
    assert (one.shape, one.dtype, one.stride()) == (spec.shape, spec.dtype, other.stride())
    assert one.is_leaf
    assert bits(one) == bits(other)


def has(where):
    """Whether some element is so."""
    return lambda t: bool(t.numel()) and bool(where(t.detach()).any())


def floating(t):
    return t.dtype in FLOATS


REACHED = {
    "a zero below": lambda t: floating(t) and has(lambda x: (x == 0) & torch.signbit(x))(t),
    "an infinity": lambda t: floating(t) and has(torch.isinf)(t),
    "a subnormal": lambda t: floating(t) and has(lambda x: (x != 0) & (x.abs() < torch.finfo(x.dtype).tiny))(t),
    "the greatest": lambda t: floating(t) and has(lambda x: x == torch.finfo(x.dtype).max)(t),
    "a NaN": lambda t: floating(t) and has(torch.isnan)(t),
    "a NaN with a payload": lambda t: t.dtype is torch.float32 and has(lambda x: torch.isnan(x) & ((x.contiguous().view(torch.int32) & 7) == 5))(t),
    "a NaN below zero": lambda t: t.dtype is torch.float32 and has(lambda x: torch.isnan(x) & (x.contiguous().view(torch.int32) < 0))(t),
    "the least integer": lambda t: t.dtype is torch.int64 and has(lambda x: x == torch.iinfo(torch.int64).min)(t),
    "an imaginary infinity": lambda t: t.dtype in COMPLEX and has(lambda x: torch.isinf(x.imag))(t),
    "0-d": lambda t: t.dim() == 0,
    "nothing": lambda t: t.numel() == 0,
    "not contiguous": lambda t: not t.is_contiguous(),
    "a stride of 0": lambda t: t.numel() > 1 and 0 in t.stride(),
    "an offset": lambda t: t.storage_offset() > 0,
    "elements that overlap": lambda t: min(t.shape, default=0) > 1 and t.stride() == (1,) * t.dim() and t.dim() > 1,
    "a gradient": lambda t: t.requires_grad,
    "no gradient": lambda t: floating(t) and not t.requires_grad,
} | {f"dtype {d}": (lambda t, d=d: t.dtype is d) for d in EVERY_DTYPE}


@pytest.mark.parametrize("what", REACHED)
def test_corner_is_reached(what):
    assert find(fuzz.tensors(), REACHED[what], settings=SEARCH) is not None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_holds_the_values_of_its_memory(layout):
    made = TensorSpec((2, 3), torch.float32, layout).make()
    assert made.shape == (2, 3)
    assert torch.equal(made, made.clone(memory_format=torch.contiguous_format))


def test_it_shrinks_to_a_plain_tensor():
    smallest = find(fuzz.tensor_specs(fuzz.shapes()), lambda s: math.prod(s.shape) >= 2, settings=SEARCH)
    assert (smallest.dtype, smallest.layout, smallest.values) == (torch.float32, "contiguous", "ordinary")
    assert math.prod(smallest.shape) == 2


@pytest.mark.parametrize("dtype", list(FLOATS))
def test_special_values_are_what_they_say(dtype):
    table = specials(dtype)
    info = torch.finfo(dtype)
    assert torch.isnan(table).sum() == 6
    assert torch.isinf(table).sum() == 2
    finite = table[torch.isfinite(table)]
    assert finite.max() == info.max and finite.min() == info.min
    assert (finite.abs() == info.tiny).sum() == 2
    assert ((finite != 0) & (finite.abs() < info.tiny)).sum() == 4
    assert 1.0 + info.eps in finite.double().tolist()


@QUIET
@given(fuzz.tensors(dtypes=(torch.int32,), layouts=("contiguous",)))
def test_what_is_drawn_can_be_narrowed(tensor):
    assert tensor.dtype is torch.int32
    assert tensor.is_contiguous()
