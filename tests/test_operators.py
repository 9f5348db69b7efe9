"""All spellings of an operator are one call; what is written and what is random is seen."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F

from fuzz.program import Input, Program, Step, Var
from optimus.effects import effects
from optimus.operators import bind

X, Y = Var("x"), Var("y")


def node_of(target, *args, **kwargs):
    """The graph node of one call on two matrices."""
    inputs = (Input("x", (3, 4), requires_grad=False), Input("y", (3, 4), requires_grad=False))
    program = Program(inputs, (Step("r", target, args, tuple(kwargs.items())),), ("x",))
    return next(n for n in program.graph().graph.nodes if n.op.startswith("call"))


SAME = {
    "add": [(torch.add, (X, Y)), ("add", (X, Y)), (operator.add, (X, Y)), (torch.Tensor.add, (X, Y)), (torch.ops.aten.add.Tensor, (X, Y))],
    "cat": [(torch.cat, ([X, Y],)), (torch.concat, ((X, Y),)), (torch.concatenate, ([X, Y], 0)), (torch.ops.aten.cat.default, ([X, Y],))],
    "split": [(torch.split, (X, 2)), ("split", (X, 2, 0)), (torch.split, (X, [2, 1]))],
    "tanh": [(torch.tanh, (X,)), ("tanh", (X,)), (torch.ops.aten.tanh.default, (X,))],
    "linear": [(F.linear, (X, Y)), (F.linear, (X, Y, None)), (torch.ops.aten.linear.default, (X, Y))],
    "clamp": [(torch.clamp, (X, 0, 1)), (torch.clip, (X, 0, 1)), ("clamp", (X, 0, 1))],
    "reshape": [("reshape", (X, -1)), ("reshape", (X, (-1,))), (torch.reshape, (X, (-1,)))],
    "to": [("double", (X,)), ("to", (X, torch.float64))],
}


@pytest.mark.parametrize(("name", "target", "args"), [(n, *c) for n, calls in SAME.items() for c in calls])
def test_one_name_for_all_spellings(name, target, args):
    call = bind(node_of(target, *args))
    assert call is not None
    assert call.op == name
    assert not call.writes
    assert effects(node_of(target, *args)).pure


@pytest.mark.parametrize("spelled", [{"dim": 1}, {"axis": 1}])
def test_keyword_aliases(spelled):
    call = bind(node_of(torch.cat, [X, Y], **spelled))
    assert call is not None
    assert call["dim"] == 1


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        ("add_", (X, 1), {}),
        (operator.iadd, (X, 1), {}),
        (operator.setitem, (X, 0, 1), {}),
        (F.relu, (X,), {"inplace": True}),
        (F.relu, (X, True), {}),
        (torch.relu_, (X,), {}),
        (torch.tanh, (Y,), {"out": X}),
        ("copy_", (X, Y), {}),
    ],
)
def test_what_is_written_is_seen(target, args, kwargs):
    node = node_of(target, *args, **kwargs)
    assert [n.name for n in effects(node).writes] == ["x"]
    assert not effects(node).pure


@pytest.mark.parametrize(
    ("target", "args"), [(F.dropout, (X,)), (torch.rand_like, (X,)), (torch.bernoulli, (X.__class__("x"),)), ("bernoulli", (X,))]
)
def test_random_operators_stay_in_order(target, args):
    found = effects(node_of(target, *args))
    assert found.random
    assert found.ordered


def test_a_change_of_shape_in_place_is_seen():
    assert effects(node_of("t_", X)).reshapes
    assert effects(node_of("requires_grad_", X)).reshapes


def test_an_unknown_function_is_opaque():
    node = node_of(_stranger, X)
    assert bind(node) is None
    assert effects(node).opaque


def _stranger(x):
    return x + 1


def test_batch_norm_writes_its_statistics():
    inputs = (Input("x", (3, 4), requires_grad=False), Input("mean", (4,), requires_grad=False), Input("var", (4,), requires_grad=False))
    step = Step("r", F.batch_norm, (X, Var("mean"), Var("var")), (("training", True),))
    node = next(n for n in Program(inputs, (step,), ("r",)).graph().graph.nodes if n.op.startswith("call"))
    assert [n.name for n in effects(node).writes] == ["mean", "var"]
