"""The first value in which two graphs part."""

from __future__ import annotations

import copy
import gc
import weakref

import torch

from optimus.capture import capture
from optimus.engine import Engine
from optimus.plan import Plan
from tests.broken.joins import OrderIgnored
from verify.intermediates import _Values, first_divergence


def model(x):
    for k in range(6):
        a, b = torch.split(x, [3, 5], dim=1)
        x = torch.tanh(torch.cat([b, a] if k == 3 else [a, b], dim=1)) * torch.nn.functional.dropout(x, 0.2).shape[0]
    return x.exp()


def graphs(plan):
    found = capture(model, [torch.randn(4, 8)])[0]
    after = copy.deepcopy(found.gm)
    assert Engine(after, plan).run().rewrites
    return found.gm, after, found.inputs


def test_the_value_that_is_wrong_is_named():
    found = first_divergence(*graphs(Plan((OrderIgnored(),))))
    assert found is not None
    assert found.name == "tanh_3"  # what stood before it is gone from the rewritten graph
    assert found.relative is not None and found.relative > 0.1
    assert "torch.tanh(torch.cat" in str(found)
    assert found.compared > 5


def test_equal_graphs_agree_and_the_random_state_stays():
    before, after, inputs = graphs(Plan.of("mutate_cat_pass"))
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert first_divergence(before, after, inputs, seed=3) is None
    assert torch.equal(torch.get_rng_state(), state)


def test_a_tolerance():
    before, _, inputs = graphs(Plan((OrderIgnored(),)))
    after = copy.deepcopy(before)
    node = next(n for n in after.graph.nodes if n.target is torch.tanh)
    with after.graph.inserting_after(node):
        moved = after.graph.call_function(torch.mul, (node, 1 + 1e-5))
    node.replace_all_uses_with(moved, lambda user: user is not moved)
    after.recompile()
    assert first_divergence(before, after, inputs) is not None
    assert first_divergence(before, after, inputs, tolerance=1e-3) is None


def test_a_graph_that_raises():
    before, _, inputs = graphs(Plan((OrderIgnored(),)))
    after = copy.deepcopy(before)
    next(n for n in after.graph.nodes if n.target is torch.cat).args = ((),)
    found = first_divergence(before, after, inputs)
    assert found is not None and found.text.startswith("the rewritten graph raises")


def test_values_are_dropped_behind_their_last_reader():
    before, _, inputs = graphs(Plan((OrderIgnored(),)))
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0
    for _, held in _Values(before, list(inputs)):
        if isinstance(held, torch.Tensor):
            alive.append(weakref.ref(held))
        del held
        gc.collect()
        most = max(most, sum(r() is not None for r in alive))
    assert len(alive) > 20
    assert most <= 8
