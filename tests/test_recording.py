"""Graphs that are written down at less cost: as ``make_fx`` traces them, node by node."""

from __future__ import annotations

import operator
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

import optimus
from fuzz.program import Input, Program, Region, Step, Var
from fuzz.strategies import programs
from verify import lowering
from verify.lowering import LoweringError, lower

NAMES = ["batch_linear_post_grad", "batch_aten_mul", "normalization_aten_pass", "pad_aten_mm_pass", "activation_quantization_aten_pass"]


def described(gm, memory):
    """Nodes, their arguments and what they say of their values; memory by the order in which it was first met."""
    return [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs), _said(n.meta.get("val"), memory)) for n in gm.graph.nodes]


def _said(fake, memory):
    if isinstance(fake, (tuple, list)):
        return type(fake), [_said(f, memory) for f in fake]
    if not isinstance(fake, torch.Tensor):
        return fake
    held = fake.untyped_storage()
    number = memory.setdefault(held._cdata, len(memory))
    return tuple(fake.shape), fake.stride(), fake.storage_offset(), fake.dtype, str(fake.device), fake.requires_grad, number, held.nbytes()


def seen(gm):
    try:
        found = lower(gm)
    except LoweringError as error:
        return str(error)
    memory: dict[int, int] = {}
    graphs = described(found.joint, memory), described(found.forward, memory), found.joint.code
    return *graphs, found.wanted, found.requires_grad, found.questions, found.fan_out


@pytest.fixture
def recordings(monkeypatch):
    """Whether each graph that was lowered could be written down."""
    found = []
    record = lowering._recorded

    def noted(*given):
        made = record(*given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(lowering, "_recorded", noted)
    return found


def both(gm):
    """What is seen of a graph when it is written down, and when it is traced by PyTorch alone."""
    one = seen(gm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "_recorded", lambda *_: None)
        return one, seen(gm)


@pytest.mark.parametrize("name", NAMES)
def test_drawn_programs_are_lowered_as_make_fx_does(name, recordings):
    pattern = optimus.patterns()[name]

    @seed(3)
    @settings(max_examples=60, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(programs((*pattern.cases, *pattern.declines)), programs())
    def attempt(one, other):
        for program in (one, other):
            try:
                gm = program.graph()
            except Exception:  # noqa: BLE001 - what fakes refuse is not lowered
                continue
            written, traced = both(gm)
            assert written == traced, program

    attempt()
    assert recordings.count(True) > 60


X, Y = Input("x", (3, 4)), Input("y", (3, 4), layout="transposed")
WRITTEN = {
    "in place": Program(
        (Input("x", (3, 4), requires_grad=False), Y), (Step("a", "add_", (Var("x"), 1)), Step("b", torch.mul, (Var("x"), Var("y")))), ("b",)
    ),
    "several results": Program((X,), (Step("a", torch.split, (Var("x"), 2, 1)), Step("b", operator.getitem, (Var("a"), 1))), ("b",)),
    "two gradients of one value": Program(
        (X, Y), (Step("a", torch.mul, (Var("x"), Var("y"))), Step("b", torch.add, (Var("a"), Var("x")))), ("a", "b")
    ),
    "an input that gets no gradient": Program((X, Y), (Step("a", torch.exp, (Var("x"),)),), ("a",)),
    "an input is returned": Program((X, Y), (Step("a", torch.exp, (Var("x"),)),), ("a", "y")),
    "a factory": Program((X,), (Step("a", torch.rand_like, (Var("x"),)), Step("b", torch.mul, (Var("x"), Var("a")))), ("a", "b")),
    "a region": Program((X, Y), (Region("autocast", (Step("a", torch.nn.functional.linear, (Var("x"), Var("y"))),)),), ("a",)),
    "a view that changes": Program(
        (Input("x", (3, 4), requires_grad=False),), (Step("a", "t_", (Var("x"),)), Step("b", "relu_", (Var("a"),))), ("b",)
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_programs_of_every_kind_are_written_down(what, recordings):
    one, other = both(WRITTEN[what].graph())
    assert one == other
    assert recordings[0]


def test_what_takes_constants_is_left_to_make_fx(recordings):
    made = Step("c", torch.tensor, ([1.0, 2.0, 3.0, 4.0],))
    one, other = both(Program((X,), (made, Step("a", torch.mul, (Var("x"), Var("c")))), ("a",)).graph())
    assert one == other
    assert not recordings[0]


def test_errors_are_those_of_the_trace():
    gm = Program((X, Input("y", (4, 5))), (Step("a", torch.mm, (Var("x"), Var("y"))),), ("a",)).graph()
    for node in gm.graph.find_nodes(op="call_function", target=torch.mm):
        node.args = (node.args[1], node.args[0])
    gm.recompile()
    one, other = both(gm)
    assert one == other
    assert isinstance(one, str)
    assert one.startswith("RuntimeError")


def test_a_graph_says_nothing_of_what_the_program_leaves_bare():
    body = (Step("a", torch.mul, (Var("x"), Var("y"))), Step("b", torch.split, (Var("a"), 2, 1)), Step("c", operator.getitem, (Var("b"), 0)))
    program = Program((X, Y), (*body, Step("d", torch.exp, (Var("c"),))), ("d",), bare=frozenset({"y", "a", "c"}))
    found = lower(program.graph(marked=True))
    for gm in (found.forward, found.joint):
        silent = [n.name for n in gm.graph.nodes if n.op != "output" and "val" not in n.meta]
        assert silent == ["arg1_1", "mul", "getitem"]
    said = lower(replace(program, bare=frozenset()).graph())
    assert (said.forward.code, said.joint.code) == (found.forward.code, found.joint.code)
