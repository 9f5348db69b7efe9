"""The modes that change what operators compute, kept from leaking out of a program that fails half way."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import torch

DEVICES = ("cpu", "cuda")


@contextlib.contextmanager
def modes_restored() -> Iterator[None]:
    """Leave grad mode and autocast, its nesting and its cache included, as they were, whatever happens inside."""
    grad = torch.is_grad_enabled()
    autocast = [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in DEVICES]
    cached = torch.is_autocast_cache_enabled()
    nesting = autocast_nesting()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        for device, enabled, dtype in autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cached)
        _set_nesting(nesting)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without Python's cycle collector for the while: it would search a growing graph again and again, of which nothing is garbage.

    Nor is it searched at the end: what there is counts as old from then on, and is searched with all that is old.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not gc.get_freeze_count():  # else it would be old too what somebody set aside
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class Both:
    """Two context managers, neither of which swallows exceptions."""

    __slots__ = ("inner", "outer")

    def __init__(self, outer: contextlib.AbstractContextManager[Any], inner: contextlib.AbstractContextManager[Any]) -> None:
        self.outer, self.inner = outer, inner

    def __enter__(self) -> None:
        self.outer.__enter__()
        try:
            self.inner.__enter__()
        except BaseException:
            self.outer.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        try:
            self.inner.__exit__(*error)
        finally:
            self.outer.__exit__(*error)


def autocast_nesting() -> int:
    """How many regions of autocast are entered."""
    found = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return found


def _set_nesting(wanted: int) -> None:
    """Casts are cached for as long as a region is entered."""
    found = autocast_nesting()
    for _ in range(found, wanted):
        torch.autocast_increment_nesting()
    for _ in range(wanted, found):
        torch.autocast_decrement_nesting()
    if wanted == 0 and found:
        torch.clear_autocast_cache()
