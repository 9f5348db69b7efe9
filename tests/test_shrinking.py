"""Programs are cut down step by step, and stay programs that run."""

from __future__ import annotations

import operator

import torch

from fuzz.disturb import runs
from fuzz.program import Input, Program, Region, Step, Var
from verify.shrinking import minimise, read_inputs, smaller

X = Var("x")
PROGRAM = Program(
    (Input("x", (2, 4)), Input("y", (2, 4))),
    (
        Step("a", torch.tanh, (X,)),
        Step("c", torch.split, (Var("a"), 2, 1)),
        Step("d", operator.getitem, (Var("c"), 0)),
        Region("no_grad", (Step("e", torch.neg, (Var("d"),)), Step("dead", torch.exp, (Var("d"),)))),
        Step("f", operator.add, (Var("e"), 1)),
        Step("g", operator.mul, (Var("y"), 2)),
    ),
    ("f", "g"),
)


def test_every_candidate_is_less_and_keeps_its_inputs():
    found = smaller(PROGRAM)
    assert found
    for program in found:
        assert program.inputs == PROGRAM.inputs
        assert program.size() < PROGRAM.size() or len(program.outputs) < len(PROGRAM.outputs)


def test_it_is_cut_to_what_matters():
    def holds(program: Program) -> bool:
        return runs(program) and any(s.target is torch.split for s in program.steps())

    small = minimise(PROGRAM, holds)
    assert next(s.target for s in small.steps()) is torch.split
    assert small.size() <= 2
    assert [i.name for i in read_inputs(small).inputs] == ["x"]


def test_dead_code_that_matters_stays():
    def holds(program: Program) -> bool:
        return runs(program) and any(s.target is torch.exp for s in program.steps())

    assert [s.target for s in minimise(PROGRAM, holds).steps()] == [torch.exp]
