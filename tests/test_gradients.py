"""Where gradients stop, and that the judge of a region sees it by itself."""

from __future__ import annotations

import operator

import pytest
import torch

from optimus.capture import capture
from optimus.engine import Engine, rewrite
from optimus.laws import ALL_LAWS, Law
from optimus.passes.remove_split_with_size_one import RemoveSplitWithSizeOne
from optimus.plan import Plan
from optimus.regions import Region
from optimus.state import GraphState
from verify.validation import validate_region, validator
from verify.verdict import Proved, Refuted

PLAN = Plan((RemoveSplitWithSizeOne(),))


def under_no_grad(x):
    with torch.no_grad():
        (a,) = x.split(8, 1)
    return a * 2 + x


def under_inference_mode(x):
    with torch.inference_mode():
        (a,) = x.split(8, 1)
    return a.clone() + x


def under_no_grad_of_what_stops(x):
    with torch.no_grad():
        (a,) = x.split(8, 1)
        (b,) = a.split(8, 1)
    return b * 2 + x


def with_gradients_inside(x):
    with torch.no_grad(), torch.enable_grad():
        (a,) = x.split(8, 1)
    return a * 2 + x


PROGRAMS = [under_no_grad, under_inference_mode, under_no_grad_of_what_stops, with_gradients_inside]


def leaf() -> torch.Tensor:
    return torch.ones(3, 8, requires_grad=True)


def gradient(call) -> torch.Tensor | None:
    x = leaf()
    outputs = call(x)
    (outputs[0] if isinstance(outputs, tuple) else outputs).sum().backward()
    return x.grad


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_stop_where_they_did(program):
    (found,) = capture(program, [leaf()])
    journal = rewrite(found.gm, PLAN, validate=validator)
    assert journal.rewrites and not journal.declined
    assert torch.equal(gradient(found.gm), gradient(program))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_judge_needs_no_law(program):
    """Without the law a value that stops gradients is replaced by its source, which a proof of the region refuses."""
    stops = program is not with_gradients_inside
    (found,) = capture(program, [leaf()])
    verdicts = []

    def judge(region: Region) -> None:
        verdicts.append(validate_region(region))

    Engine(found.gm, PLAN, judge, laws=ALL_LAWS - {Law.AMBIENT_MODE}).run()
    assert verdicts and all(isinstance(v, Refuted if stops else Proved) for v in verdicts), verdicts
    assert torch.equal(gradient(found.gm), gradient(program)) != stops


def test_modes_go_back_to_what_they_were():
    def program(x):
        a = x * 1
        with torch.no_grad():
            b = x * 2
            with torch.inference_mode():
                c = x * 3
            d = x * 4
        return a + x.detach(), b, c.clone(), d

    (found,) = capture(program, [leaf()])
    state = GraphState.of(found.gm.graph, grad=True)
    assert [state.mode(n).grad for n in found.gm.graph.find_nodes(op="call_function", target=operator.mul)] == [True, False, False, False]
    assert [state.mode(n).outside for n in found.gm.graph.find_nodes(op="call_function", target=operator.mul)] == [(), (), (False,), ()]


def returned_section(x):
    a, b = x[:, :4], x[:, 4:]
    return a, torch.cat([b, a], 1)


def returned_slice(x):
    a, b, c = x[0], x[1], x[2]
    return b, torch.stack([a, b, c])


def two_of_one_section(x):
    a, b, c = x[:, :4], x[:, 4:], x[:, 0:4]
    return a, torch.cat([b, c], 1), c


@pytest.mark.parametrize("program", [returned_section, returned_slice, two_of_one_section])
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_the_caller_may_write_to_a_part_that_is_returned(program, compiler):
    """As to no piece of a ``split`` or ``unbind``, of which autograd says that it must not be modified in place."""

    def written(call):
        x = leaf()
        y = x * 3
        first, *others = call(y)
        first.mul_(2)
        return gradient_of((y * y).sum() + sum(o.sum() for o in others), x), len({id(t) for t in (first, *others)})

    def gradient_of(loss, x):
        loss.backward()
        return x.grad

    torch._dynamo.reset()
    expected, objects = written(program)
    found, as_many = written(torch.compile(program, backend="optimus", options={"compiler": compiler}))
    assert torch.equal(found, expected)
    assert as_many == objects
