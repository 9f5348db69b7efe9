"""Programs are cut down step by step, and stay programs that run."""

from __future__ import annotations

import operator

import torch

from fuzz.disturb import runs
from fuzz.program import Input, Program, Region, Step, Var
from verify.pieces import fewer_pieces
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


def pieces(steps: tuple[Step, ...], shape: tuple[int, ...] = (2, 6)) -> Program:
    return Program((Input("x", shape),), steps, (steps[-1].name,))


def taken(name: str, index: int) -> Step:
    return Step(name, operator.getitem, (Var("c"), index))


THREE = tuple(taken(name, k) for k, name in enumerate("pqr"))


def shapes(program: Program) -> list[str]:
    return program.source().splitlines()[1:-1] + [str(i.shape) for i in program.inputs]


def test_a_piece_leaves_the_lists_that_hold_it_and_the_input_that_is_cut():
    joined = Step("j", torch.cat, ([Var("p"), Var("q"), Var("r")], 1))
    found = [shapes(p) for p in fewer_pieces(pieces((Step("c", torch.split, (X, [1, 2, 3]), (("dim", 1),)), *THREE, joined)))]
    first = ["    p = c[0]", "    q = c[1]", "    j = torch.cat([p, q], 1)"]
    assert found[0] == ["    c = torch.split(x, [1, 2], dim=1)", *first, "(2, 3)"]
    assert found[1] == ["    c = torch.split(x, [1, 2, 3], dim=1)", *first, "(2, 6)"]
    middle = ["    p = c[0]", "    r = c[1]", "    j = torch.cat([p, r], 1)", "(2, 4)"]
    assert ["    c = torch.split(x, [1, 3], dim=1)", *middle] in found
    assert ["    c = torch.split(x, [1, 3], dim=1)", "    p = c[0]", "    r = c[1]", "    j = torch.cat([p, r, r], 1)", "(2, 4)"] in found
    stacked = Step("j", torch.stack, ((Var("p"), Var("q"), Var("r")),))
    found = [shapes(p) for p in fewer_pieces(pieces((Step("c", "unbind", (X, -1)), *THREE, stacked), (2, 3)))]
    assert found[0] == ["    c = x.unbind(-1)", "    p = c[0]", "    q = c[1]", "    j = torch.stack((p, q))", "(2, 2)"]


def test_a_piece_that_is_read_by_itself_stays():
    alone = (Step("c", torch.split, (X, 2, 1)), *THREE[:1], Step("j", torch.neg, (Var("p"),)))
    assert not list(fewer_pieces(pieces(alone)))
    only = (Step("c", torch.split, (X, 2, 1)), *THREE[:1], Step("j", torch.cat, ([Var("p")],)))
    assert not list(fewer_pieces(pieces(only)))


def test_every_program_of_fewer_pieces_is_of_fewer_lines_and_nothing_is_read_that_is_gone():
    joined = Step("j", torch.cat, ([Var("p"), Var("q"), Var("r")],))
    region = Region("no_grad", (Step("k", torch.cat, ([Var("q"), Var("j")],)),))
    program = Program((Input("x", (6, 2)),), (Step("c", torch.split, (X, 2)), *THREE, joined, region), ("k",))
    found = list(fewer_pieces(program))
    assert found and all(p.size() < program.size() for p in found)
    assert any(map(runs, found))
    for less in found:
        known = {"x", *(s.name for s in less.steps())}
        assert {name for s in less.steps() for name in s.used()} <= known
