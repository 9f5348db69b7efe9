"""A guard against taking a solver's term for a truth value.

In Z3's Python interface ``a == b`` is a term, and a term of that form is *silently* a bool where Python wants one: whether
the two sides are the same expression. ``a == b or c`` is then not the disjunction. Other terms raise where Python wants a
bool, and only when that line is run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
import z3

STRUCTURAL = {
    ("tensor.py", "same_number"): "products are compared factor by factor, as expressions",
    ("reshape.py", "_covers"): "products are compared factor by factor, as expressions",
    ("validation.py", "_element"): "products are compared factor by factor, as expressions",
    ("validation.py", "_kept_apart"): "products are compared factor by factor, as expressions",
    ("logic.py", "_extensional"): "terms are keys of a dictionary",
    ("sizes.py", "_size"): "terms are keys of a dictionary",
    ("task.py", "assume"): "terms are keys of a dictionary",
    ("rules.py", "_facts"): "terms are keys of a dictionary",
    ("rules.py", "spot"): "terms are keys of a dictionary",
    ("solve.py", "_tie"): "kernels are compared as expressions",
}
"""Functions that compare expressions as such, and want to."""


@pytest.fixture(autouse=True)
def no_term_is_taken_for_a_truth_value(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise where code of ``verify`` does so."""
    plain = z3.AstRef.__bool__

    def checked(term: z3.AstRef) -> bool:
        where = _caller(sys._getframe(1))
        if not (z3.is_true(term) or z3.is_false(term)) and where is not None and where not in STRUCTURAL:
            raise AssertionError(f"{where[1]} in {where[0]} takes the term {term} for a truth value")
        return bool(plain(term))

    monkeypatch.setattr(z3.AstRef, "__bool__", checked)
    yield


def _caller(frame: FrameType | None) -> tuple[str, str] | None:
    """The nearest function of ``verify``; comparisons of tuples and data classes stand between it and the term."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "verify" in path.parts:
            return path.name, frame.f_code.co_name
        if path.suffix == ".py" and "z3" not in path.parts:
            return None
        frame = frame.f_back
    return None
