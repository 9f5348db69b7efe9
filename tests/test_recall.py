"""Recalled fakes say what PyTorch's fake mode says, but for what only autograd asks."""

from __future__ import annotations

import operator
import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.node import map_arg

import optimus
from optimus import recall, rewriter
from optimus.plan import Plan
from optimus.recall import Recall, recall_for
from optimus.rewriter import run_fake
from optimus.values import storage
from optimus.versions import view_kind
from tests.test_fakes import laid_out, sections, some_shape

F = torch.nn.functional

CALLS = {
    torch.split: lambda x, dim, rng: ((x, sections(rng, x.meta["val"].shape[dim])), {"dim": dim}),
    torch.unbind: lambda x, dim, rng: ((x,), {"dim": dim}),
    torch.transpose: lambda x, dim, rng: ((x, dim, -1), {}),
    torch.unsqueeze: lambda x, dim, rng: ((x, dim), {}),
    torch.squeeze: lambda x, dim, rng: ((x, dim), {}),
    torch.movedim: lambda x, dim, rng: ((x, dim, 0), {}),
    torch.narrow: lambda x, dim, rng: ((x, dim, 0, rng.randint(0, x.meta["val"].shape[dim])), {}),
    torch.unflatten: lambda x, dim, rng: ((x, dim, (x.meta["val"].shape[dim], 1)), {}),
    torch.flatten: lambda x, dim, rng: ((x, min(dim, x.meta["val"].dim() - 2), -1), {}),
    torch.reshape: lambda x, dim, rng: ((x, tuple(some_shape(rng, x.meta["val"]))), {}),
    torch.stack: lambda x, dim, rng: (([x, x],), {"dim": dim}),
    torch.cat: lambda x, dim, rng: (([x, x, x],), {"dim": dim}),
    torch.tanh: lambda x, dim, rng: ((x,), {}),
    torch.clamp: lambda x, dim, rng: ((x,), {"min": rng.choice((0, 0.5)), "max": None}),
    torch.clone: lambda x, dim, rng: ((x,), {"memory_format": rng.choice((torch.contiguous_format, torch.preserve_format))}),
    F.layer_norm: lambda x, dim, rng: ((x, tuple(x.meta["val"].shape[-1:])), {}),
    torch.mul: lambda x, dim, rng: ((x, x), {}),
    "expand": lambda x, dim, rng: ((x, rng.randint(1, 3), *x.meta["val"].shape), {}),
    "view": lambda x, dim, rng: ((x, *some_shape(rng, x.meta["val"])), {}),
}


def facts(result, given):
    """What laws ask of a result, apart from the kind of a view."""
    if isinstance(result, (tuple, list)):
        return type(result), [facts(r, given) for r in result]
    found = (tuple(result.shape), result.stride(), result.storage_offset(), result.dtype, result.device, result.requires_grad, type(result))
    flags = (result.is_conj(), result.is_neg(), result.is_inference(), result.constant, result.fake_mode is given.fake_mode)
    shares = result.numel() > 0 and storage(result) == storage(given)
    return found, flags, shares, result.untyped_storage().nbytes() if result.numel() else 0, result is given


def called(target, mode, grad, seed):
    """A node that calls ``target`` on a fake of some layout, and the fake."""
    rng = random.Random(seed)
    graph = Graph()
    x = graph.placeholder("x")
    rank = rng.randint(2, 4)
    with mode:
        x.meta["val"] = laid_out(rng, rank, grad)
    args, kwargs = CALLS[target](x, rng.randrange(rank), rng)
    return graph.create_node("call_method" if isinstance(target, str) else "call_function", target, args, kwargs), x.meta["val"]


@pytest.mark.parametrize("target", CALLS, ids=lambda t: getattr(t, "__name__", t))
@pytest.mark.parametrize("grad", ["none", "leaf", "inner"])
@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad])
def test_same_as_the_fake_mode(target, grad, grad_mode, monkeypatch):
    monkeypatch.setattr(recall, "_known", {})
    mode, hits = FakeTensorMode(), 0
    with grad_mode():
        known = Recall(mode)
        for seed in range(25):
            node, x = called(target, mode, grad, seed)
            with mode:
                try:
                    expected = facts(run_fake(node), x)
                except (RuntimeError, IndexError, ValueError):
                    continue
                asked = []

                def ask(n, asked=asked):
                    asked.append(n)
                    return run_fake(n)

                first = known(node, ask)
                asked.clear()
                second = known(node, ask)
            hits += not asked
            assert facts(first, x) == facts(second, x) == expected, (seed, x.shape, x.stride())
    assert hits > 2


def test_an_empty_or_symbolic_tensor_is_left_to_the_fake_mode():
    mode = FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
    for real in (torch.randn(0, 3), torch.randn(5, 6)):
        graph = Graph()
        x = graph.placeholder("x")
        x.meta["val"] = mode.from_tensor(real)
        node, asked = graph.call_function(torch.tanh, (x,)), []
        for _ in range(2):
            Recall(mode)(node, asked.append)
        assert len(asked) == 2


def test_a_view_as_another_dtype_starts_where_it_should(monkeypatch):
    monkeypatch.setattr(recall, "_known", {})
    mode, graph = FakeTensorMode(), Graph()
    x = graph.placeholder("x")
    node = graph.call_method("view", (x, torch.int16))
    for start in (0, 4):
        with mode:
            x.meta["val"] = torch.empty(12)[start : start + 6]
            assert Recall(mode)(node, run_fake).storage_offset() == 2 * start


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(recall, "_known", {})
    monkeypatch.setattr(recall, "KEPT", 2)
    mode = FakeTensorMode()
    for seed in range(6):
        node, _ = called(torch.tanh, mode, "none", seed)
        with mode:
            Recall(mode)(node, run_fake)
    assert 0 < len(recall._known) <= 2


def test_results_of_fresh_calls_are_apart():
    mode, graph = FakeTensorMode(), Graph()
    given = graph.placeholder("x")
    x = given.meta["val"] = mode.from_tensor(torch.randn(3, 5))
    node = graph.call_function(torch.tanh, (given,))
    with mode:
        known = Recall(mode)
        results = [known(node, run_fake) for _ in range(3)]
    assert len({storage(r) for r in (x, *results)}) == 4
    assert not known.views


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad])
def test_views_of_what_is_recalled_are_of_the_same_kind(requires_grad, grad_mode):
    mode, graph = FakeTensorMode(), Graph()
    given = graph.placeholder("x")
    given.meta["val"] = mode.from_tensor(torch.randn(4, 4, requires_grad=requires_grad))
    node = graph.call_function(torch.tanh, (given,))
    with grad_mode(), mode:
        known = Recall(mode)
        recalled = [known(node, run_fake) for _ in range(2)][-1]
        real = run_fake(node)
        for view in (lambda x: x.split(2)[0], lambda x: x.unbind(1)[3], lambda x: x[1:], lambda x: x.view(2, 8), lambda x: x.split(2)[1].t()):
            assert view_kind(view(recalled)) == view_kind(view(real)) is not None
        assert view_kind(recalled) is view_kind(real) is None
        cut = graph.call_function(torch.unbind, (given,))
        pieces = known(cut, run_fake)
    assert known.views == {storage(p) for p in pieces} == {storage(given.meta["val"])}


def test_nothing_is_recalled_where_more_than_arguments_counts():
    mode = FakeTensorMode()
    assert recall_for(None) is None
    assert recall_for(mode) is not None
    with torch.autocast("cpu"):
        assert recall_for(mode) is None
    with torch.inference_mode():
        assert recall_for(mode) is None
    mode.propagate_real_tensors = True
    assert recall_for(mode) is None


def rejoined(write):
    """Pieces joined again; the result, or the source, is written."""
    graph = Graph()
    x = graph.placeholder("x")

    def call(target, *args):
        node = graph.call_function(target, args)
        node.meta["example_value"] = target(*map_arg(args, lambda n: n.meta["example_value"]))
        return node

    with FakeTensorMode():
        x.meta["example_value"] = torch.randn(2, 4)
        source = call(torch.sin, x)
        pieces = call(torch.split, source, 2, 1)
        joined = call(torch.cat, [_item(graph, pieces, k) for k in range(2)], 1)
        last = call(torch.cos, joined)
        if write:
            call(torch.relu_, source if write == "source" else joined)
        graph.output((last,))
    return GraphModule(torch.nn.Module(), graph)


def _item(graph, pieces, k):
    node = graph.call_function(operator.getitem, (pieces, k))
    node.meta["example_value"] = pieces.meta["example_value"][k]
    return node


@pytest.mark.parametrize(("write", "recalled"), [(None, {torch.split, torch.cat}), ("source", set()), ("result", {torch.split, torch.cat})])
def test_nothing_is_recalled_that_reads_what_is_written(write, recalled, monkeypatch):
    used = set()

    def note(self, node, run):
        used.add(node.target)
        return run(node)

    monkeypatch.setattr(rewriter.Recall, "__call__", note)
    journal = optimus.rewrite(rejoined(write), Plan.of("normalization_pass"))
    assert len(journal.rewrites) == 2
    assert used == recalled
