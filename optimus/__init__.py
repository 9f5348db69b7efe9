"""Operator-level rewriting of PyTorch 2 graphs: a library of small patterns and a greedy engine that applies them."""

from __future__ import annotations

from optimus.engine import rewrite
from optimus.journal import Journal
from optimus.packing import unpack
from optimus.pattern import Case, Decline, Exactness, HorizontalPattern, Match, Pattern, VerticalPattern, declines, fires
from optimus.plan import Plan, patterns
from optimus.production import backend, clear_journals, compile, hooks, journals

__all__ = [
    "Case",
    "Decline",
    "Exactness",
    "HorizontalPattern",
    "Journal",
    "Match",
    "Pattern",
    "Plan",
    "VerticalPattern",
    "backend",
    "clear_journals",
    "compile",
    "declines",
    "fires",
    "hooks",
    "journals",
    "patterns",
    "rewrite",
    "unpack",
]
__version__ = "0.1.0"
