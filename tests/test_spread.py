"""How far runs of one thing lie apart, and what that explains."""

from __future__ import annotations

import pytest
import torch

from verify.differential import Comparison, three_way
from verify.observing import observe
from verify.reference import reference
from verify.spread import Spread, places


def program(x):
    return x * torch.tensor([1.0, 1000.0]), x.argmax()


def inputs():
    return [torch.tensor([1.0, 1.0], requires_grad=True)]


def moved(small=0.0, large=0.0):
    """A run whose first output is off by so much."""
    return observe(lambda x: (program(x)[0] + torch.tensor([small, large]), program(x)[1]), inputs())


EAGER = moved()
EXACT = reference(program, inputs(), EAGER)


def test_places():
    assert list(places(EAGER)) == ["output 0", "output 1", "input 0 after the call", "gradient 0"]


def test_of_equal_runs():
    assert len(Spread.between([EAGER, moved()])) == 0
    assert len(Spread.between([EAGER])) == 0


def test_it_is_by_element():
    spread = Spread.between([EAGER, moved(0.5), moved(-0.25, 2.0)])
    assert list(spread.of) == ["output 0"]
    assert spread.of["output 0"].tolist() == [0.75, 2.0]
    assert spread.worst(EAGER, EXACT) > 1000


@pytest.mark.parametrize(
    ("seen", "off", "is_explained"),
    [
        ((0.5, 0.0), (0.5, 0.0), True),
        ((0.5, 0.0), (-0.4, 0.0), True),
        ((0.5, 0.0), (0.6, 0.0), False),
        ((0.5, 0.0), (0.0, 0.5), True),  # what a small number does from run to run, a large one may
        ((0.0, 0.5), (0.5, 0.0), False),  # not the other way round
        ((0.5, 0.0), (float("nan"), 0.0), False),
        ((0.5, 0.0), (float("inf"), 0.0), False),
        ((float("inf"), 0.0), (0.5, 0.0), False),
        ((float("nan"), 0.0), (0.5, 0.0), False),
        ((0.0, 0.0), (0.5, 0.0), False),
    ],
)
def test_what_it_explains(seen, off, is_explained):
    spread = Spread.between([EAGER, moved(*seen)])
    assert spread.explains("output 0", EAGER, moved(*off), EXACT) == is_explained


def test_what_is_no_number_is_never_explained():
    other = observe(lambda x: (program(x)[0], program(x)[1] + 1), inputs())
    spread = Spread.between([EAGER, other])
    assert list(spread.of) == ["output 1"]
    assert not spread.explains("output 1", EAGER, other, EXACT)
    assert not spread.explains("output 0: strides (1,) became (2,)", EAGER, other, EXACT)


def test_other_shapes_are_places_apart():
    other = observe(lambda x: (program(x)[0][:1], 3), inputs())
    assert Spread.between([EAGER, other]).others == ("output 0", "output 1", "gradient 0")[:2]
    assert Spread.between([EAGER, other]).worst(EAGER, EXACT) == float("inf")


def test_complex_numbers():
    runs = [observe(lambda x, k=k: torch.complex(x, x * 0 + k), inputs(), gradients=False) for k in (1.0, 4.0)]
    assert Spread.between(runs).of["output 0"].tolist() == [3.0, 3.0]


class Ours:
    """A compiler in front of which a subject would stand, that is off by so much."""

    def __init__(self, off):
        self.off, self.faults, self.fired = off, [], 1

    def __call__(self, gm, inputs):
        return lambda *args: tuple(o * (1 + self.off) for o in gm.forward(*args))


@pytest.mark.parametrize(
    ("noise", "off", "is_blamed"),
    [
        ([0.0], 1e-3, True),
        ([0.0, 1e-3], 1e-3, False),
        ([0.0, 1e-3], 1e-2, True),
        ([0.0, 0.0, 1e-3], 1e-3, False),  # only the compile is another
        ([0.0, 1e-3], 0.0, False),
    ],
)
def test_a_differential_run_looks_at_the_compiler_twice(noise, off, is_blamed):
    """``noise``: of each run of the compiler alone in turn."""
    turns = iter(noise + noise[-1:] * 9)

    def compiler(gm, inputs):
        return lambda *args: tuple(o * (1 + n) for n in [next(turns)] for o in gm.forward(*args))

    def inputs():
        return [torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()]

    run = three_way(lambda x: torch.sin(x) * 2, inputs, Ours(off), compiler, bitwise=False)
    assert Comparison("", "", False, run.fired, run.ours, run.theirs, run.unsteady).blamed == is_blamed
    assert bool(run.ours) == bool(off)
    assert bool(run.unsteady) == (bool(off) and not is_blamed)
