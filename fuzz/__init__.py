"""Hypothesis strategies for programs, shapes and tensors, and campaigns that hunt with them."""

from __future__ import annotations

from fuzz.strategies import programs, shapes, tensors

__all__ = ["programs", "shapes", "tensors"]
