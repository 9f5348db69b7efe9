"""The judge: proof, fuzzing and differential runs of graph rewrites, on the code that ships.

Names are loaded when they are first used, so that the command line answers before PyTorch is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verify.bisection import bisect
    from verify.differential import differential
    from verify.proof import prove
    from verify.validation import validate

_HOME = {"bisect": "verify.bisection", "differential": "verify.differential", "prove": "verify.proof", "validate": "verify.validation"}

__all__ = ["bisect", "differential", "prove", "validate"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
