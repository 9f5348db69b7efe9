"""Two searches as pure functions of an oracle: the first bad of a row of prefixes, and a smallest bad subset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def runs_needed(size: int) -> int:
    """How often :func:`first_bad` asks at most, for ``size`` candidates: the logarithm to base 2, rounded up."""
    return (size - 1).bit_length() if size > 0 else 0


def first_bad(size: int, bad: Callable[[int], bool], tiers: Sequence[Sequence[int]] = ()) -> int:
    """A number ``k`` from 1 to ``size`` with ``bad(k)`` and not ``bad(k - 1)``, given that ``bad(size)`` and not ``bad(0)``.

    Where badness is not monotone, one such ``k`` of several. ``tiers``: rows of numbers at which to cut rather than in the
    middle, the coarsest first, such as the last rewrites of graphs and then those of patterns; they are used as far as no
    more than :func:`runs_needed` questions result. Raises ``ValueError`` for a size below 1.
    """
    if size < 1:
        raise ValueError(f"first_bad: size={size}; accepted is 1 or more")
    low, high = 0, size
    while high - low > 1:
        at = _cut(low, high, tiers)
        low, high = (low, at) if bad(at) else (at, high)
    return high


def _cut(low: int, high: int, tiers: Sequence[Sequence[int]]) -> int:
    """Where to ask next, so that neither side is larger than the remaining questions can settle."""
    reach = 1 << (runs_needed(high - low) - 1)
    least, most, middle = max(low + 1, high - reach), min(high - 1, low + reach), (low + high) // 2
    for tier in tiers:
        within = [t for t in tier if least <= t <= most]
        if within:
            return min(within, key=lambda t: abs(t - middle))
    return middle


def smallest_bad(items: Sequence[T], bad: Callable[[Sequence[T]], bool]) -> list[T]:
    """A subset of ``items``, in their order, that is bad and of which no item can be left out (delta debugging, ``ddmin``).

    Given that ``bad(items)``; the empty subset is asked too. Source: Zeller and Hildebrandt, Simplifying and isolating
    failure-inducing input, 2002.
    """
    kept = list(items)
    if not kept or bad([]):
        return []
    parts = 2
    while len(kept) > 1:
        chunks = _chunks(kept, parts)
        smaller = next((c for c in chunks if bad(c)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        rests = [[i for d in chunks if d is not c for i in d] for c in chunks] if parts > 2 else []
        smaller = next((r for r in rests if bad(r)), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _chunks(items: Sequence[T], parts: int) -> list[list[T]]:
    bounds = [len(items) * k // parts for k in range(parts + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds)]
