"""A time limit on the code of a user that is called in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

LIMIT_S = 10.0
"""Seconds that a rule may take over one graph."""

GRACE = 4.0
"""After how many limits a call that did not take the interrupt, as it runs native code, ends the process."""


class RuleHangError(Exception):
    """A call that took longer than it may. The message says which and how long."""


@contextlib.contextmanager
def limited(seconds: float, what: Callable[[], str]) -> Iterator[None]:
    """Raise :class:`RuleHangError` inside the block once it took ``seconds``, and again each second until it gives way.

    Python code is interrupted where this is the main thread. What is not interrupted, as it runs native code or not in the
    main thread, ends the process after :data:`GRACE` times that, with one line and exit code 1. ``what`` is asked for the name of
    what runs when it is needed. Blocks do not nest: an inner one is under the limit of the outer one.
    """
    if getattr(_state, "inside", False):
        yield
        return
    _state.inside = True
    timer = threading.Timer(
        GRACE * seconds, lambda: _end(f"{what()} hangs: it did not come back within {GRACE * seconds:g} s and takes no interrupt")
    )
    timer.daemon = True
    main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")

    def interrupt(_: int, __: FrameType | None) -> None:
        raise RuleHangError(f"{what()} did not come back within {seconds:g} s")

    before: Any = signal.signal(signal.SIGALRM, interrupt) if main else None
    timer.start()
    if main:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        if main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        timer.cancel()
        _state.inside = False


_state = threading.local()


def _end(message: str) -> None:
    print(f"optimus-verify: {message}", file=sys.stderr, flush=True)
    os._exit(1)
