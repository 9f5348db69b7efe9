"""Time as budgets count it: what this process has worked, so that what else runs on the machine does not shorten a search."""

from __future__ import annotations

import time

PATIENCE = 6.0
"""Waiting counts too, by this much less: for other processes, or for a subject that sleeps."""


class Spent:
    """The seconds spent since it was made: those of the clock on a machine that does nothing else, never more, and not much less."""

    def __init__(self) -> None:
        self._clock, self._worked = time.monotonic(), time.process_time()

    def clock(self) -> float:
        """Seconds by the clock."""
        return time.monotonic() - self._clock

    def seconds(self) -> float:
        """Seconds as budgets count them."""
        clock = self.clock()
        return max(min(time.process_time() - self._worked, clock), clock / PATIENCE)
