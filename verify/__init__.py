"""The judge: proof, fuzzing and differential runs of graph rewrites, on the code that ships."""

from __future__ import annotations

from verify.proof import prove
from verify.validation import validate

__all__ = ["prove", "validate"]
