"""Modes that are entered together and left together."""

import contextlib
import gc

import pytest

from optimus.modes import Both, collector_paused


class Noted(contextlib.AbstractContextManager):
    def __init__(self, name, notes, fails=False):
        self.name, self.notes, self.fails = name, notes, fails

    def __enter__(self):
        if self.fails:
            raise RuntimeError(self.name)
        self.notes.append(f"enter {self.name}")

    def __exit__(self, *error):
        self.notes.append(f"leave {self.name}")


ALL = ["enter outer", "enter inner", "leave inner", "leave outer"]


def test_the_inner_mode_is_left_first():
    notes = []
    with Both(Noted("outer", notes), Noted("inner", notes)):
        pass
    assert notes == ALL


def test_errors_pass_through():
    notes = []
    with pytest.raises(ValueError, match="inside"), Both(Noted("outer", notes), Noted("inner", notes)):
        raise ValueError("inside")
    assert notes == ALL


def test_the_outer_mode_is_left_when_the_inner_one_cannot_be_entered():
    notes = []
    with pytest.raises(RuntimeError, match="inner"), Both(Noted("outer", notes), Noted("inner", notes, fails=True)):
        pass
    assert notes == ["enter outer", "leave outer"]


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_is_as_it_was(running):
    before = gc.isenabled()
    try:
        (gc.enable if running else gc.disable)()
        with pytest.raises(ValueError, match="inside"), collector_paused():
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() is running
    finally:
        (gc.enable if before else gc.disable)()
