"""Modes that are entered together and left together."""

import contextlib

import pytest

from optimus.modes import Both


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
