"""Hypothesis strategies for programs, shapes and tensors, profiles for tests that draw from them, and campaigns that hunt with them."""

from __future__ import annotations

from fuzz.profiles import register_profiles
from fuzz.strategies import programs, shapes, tensors
from fuzz.tensors import TensorSpec, tensor_specs

__all__ = ["TensorSpec", "programs", "register_profiles", "shapes", "tensor_specs", "tensors"]
