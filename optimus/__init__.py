"""Operator-level rewriting of PyTorch 2 graphs: a library of small patterns and a greedy engine that applies them."""

from __future__ import annotations

from optimus.engine import rewrite
from optimus.journal import Journal
from optimus.pattern import Case, Decline, Exactness, HorizontalPattern, Match, Pattern, VerticalPattern, declines, fires
from optimus.plan import Plan, patterns

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
    "declines",
    "fires",
    "patterns",
    "rewrite",
]
__version__ = "0.1.0"
