"""Patterns of ATen-IR in production: Inductor's hook, its cache, and the graphs of ``aot_eager``."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
import torch
import torch._inductor.config as inductor
from torch._dynamo.utils import counters
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.utils import fresh_cache

import optimus
from optimus.inductor_ir import SchedulerPass
from optimus.levels import level
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.pattern import IR
from optimus.plan import Plan
from optimus.postgrad import HOOK, PostGradPass
from optimus.production import PreGradPass, _after_autograd
from optimus.quantization import Partitioner

DIFFERENCES = Plan.of(("batch_aten_sub", {"min_fuse_set_size": 2}))
SLICES = Plan.of("select_cat_aten_pass")


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    optimus.clear_journals()
    yield
    torch._dynamo.reset()


def differences(*t):
    return torch.cat([x - y for x, y in zip(t[:3], t[3:], strict=True)])


def slices(x):
    return torch.cat(x.unbind()) * 2


def six(*, grad=False):
    return [torch.randn(4, 5, requires_grad=grad) for _ in range(6)]


def fired(name):
    return sum(journal.counts()[name] for journal in optimus.journals())


class Counting(CustomGraphPass):
    """A user's own pass, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, graph):
        self.calls += 1

    def uuid(self):
        return "counting"


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [False, True])
def test_forward_graphs_are_rewritten(compiler, grad):
    xs = six(grad=grad)
    with inductor.patch(force_disable_caches=True):
        found = optimus.compile(differences, plan=DIFFERENCES, options={"compiler": compiler})(*xs)
    assert torch.equal(found, differences(*xs))
    assert fired("batch_aten_sub") == 1


def backwards(x, y, *weights):
    """On the way back, three products of one shape are added up."""
    return sum(torch.mm(x * 2, w).sin() for w in weights) * y.sum()


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_backward_graphs_are_rewritten(compiler):
    x, y, *weights = torch.randn(4, 5, requires_grad=True), torch.randn(2), *torch.randn(3, 5, 6).unbind()
    plan = Plan.of(("batch_linear_post_grad", {"min_fuse_set_size": 3}))
    with inductor.patch(force_disable_caches=True):
        optimus.compile(backwards, plan=plan, options={"compiler": compiler})(x, y, *weights).sum().backward()
    (expected,) = torch.autograd.grad(backwards(x, y, *weights).sum(), x)
    torch.testing.assert_close(x.grad, expected)
    changed = [journal for journal in optimus.journals() if journal.counts()["batch_linear_post_grad"]]
    assert changed
    assert any("mm_3" in rewrite.outputs for journal in changed for rewrite in journal.rewrites)  # after the three of the forward pass


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_sizes_stay_symbols(compiler):
    with inductor.patch(force_disable_caches=True):
        compiled = optimus.compile(slices, plan=SLICES, options={"compiler": compiler}, dynamic=True)
        for columns in (4, 7):
            x = torch.randn(3, 5, columns)
            assert torch.equal(compiled(x), slices(x))
    assert fired("select_cat_aten_pass") >= 1


def test_a_pattern_runs_at_its_own_level():
    both = Plan.of("batch_aten_sub", "split_cat_pass")
    assert [p.name for p in both.at(IR.ATEN)] == ["batch_aten_sub"]
    assert [p.name for p in both.at(IR.TORCH)] == ["split_cat_pass"]
    seen = []

    def look(gm, inputs):
        seen.append((level(gm.graph), optimus.rewrite(gm, Plan.of(("batch_aten_sub", {"min_fuse_set_size": 2}))).counts()["batch_aten_sub"]))
        return gm.forward

    from torch._dynamo.backends.debugging import aot_eager

    torch.compile(differences, backend=look)(*six())
    torch._dynamo.reset()
    torch.compile(differences, backend=lambda gm, inputs: aot_eager(gm, inputs, fw_compiler=look))(*six())
    assert seen == [(IR.TORCH, 0), (IR.ATEN, 1)]


def test_a_pass_of_the_user_runs_in_front():
    own, settings = Counting(), inductor.patch({HOOK: None, "force_disable_caches": True})
    with settings, inductor.patch({HOOK: own}):
        optimus.compile(differences, plan=DIFFERENCES)(*six())
        assert own.calls == 1
        torch._dynamo.reset()
        with optimus.hooks(DIFFERENCES):
            torch.compile(differences)(*six())
        assert own.calls == 2
        torch._dynamo.reset()
        optimus.compile(differences, plan=DIFFERENCES, options={HOOK: Counting()})(*six())
        assert own.calls == 2
    assert fired("batch_aten_sub") == 3


def test_the_hook_is_left_alone_without_such_patterns():
    with optimus.hooks(Plan.of("split_cat_pass")):
        assert getattr(inductor, HOOK) is None
    with optimus.hooks(DIFFERENCES):
        assert isinstance(getattr(inductor, HOOK), PostGradPass)
    assert getattr(inductor, HOOK) is None


def test_an_identity_for_the_cache():
    def change(gm):
        return None

    assert PostGradPass(change, "a").uuid() == "a"
    assert PostGradPass(change, "a", Counting()).uuid() == PostGradPass(change, "a", [Counting()]).uuid() == "a:counting"
    assert PostGradPass(change, "a", lambda graph: None).uuid() is None  # what it does cannot be told
    assert PostGradPass(change, None).uuid() is None


def compiled_from_cache(plan):
    """Compile anew, and say whether Inductor took the graph from its cache."""
    torch._dynamo.reset()
    counters.clear()
    optimus.clear_journals()
    xs = six()
    assert torch.equal(optimus.compile(differences, plan=plan)(*xs), differences(*xs))
    found = counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"]
    assert found in ((1, 0), (0, 1), (0, 0))
    return found[0] == 1 or counters["aot_autograd"]["autograd_cache_hit"] == 1


def test_plans_that_differ_in_an_option_share_no_entry_and_the_same_plan_hits():
    other = Plan.of(("batch_aten_sub", {"min_fuse_set_size": 3}))
    with fresh_cache(), inductor.patch(fx_graph_cache=True, force_disable_caches=False):
        assert not compiled_from_cache(DIFFERENCES)
        assert fired("batch_aten_sub") == 1
        assert compiled_from_cache(DIFFERENCES)
        assert not compiled_from_cache(other)
        assert not compiled_from_cache(Plan.of(("batch_aten_sub", {"min_fuse_set_size": 2, "max_depth": 4})))
        assert not compiled_from_cache(Plan())
        assert compiled_from_cache(other)


def of_other_options(pattern):
    """The pattern with each of its options changed alone, to each value that it accepts of some."""
    for option, given in pattern.options().items():
        others = {bool: [not given], int: [1, 2, 3, 4096]}.get(type(given), ["float8_e4m3fn", "float32", "float16"])
        for other in (o for o in others if o != given):
            with contextlib.suppress(ValueError):
                yield option, dataclasses.replace(pattern, **{option: other})


@pytest.mark.parametrize("name", optimus.patterns())
def test_no_two_plans_that_differ_in_an_option_have_one_identity(name):
    """What each hook tells the compile cache, at the level of the pattern; and equal plans tell it the same."""
    pattern = optimus.patterns()[name]
    varied = list(of_other_options(pattern))
    assert {option for option, _ in varied} == set(pattern.options())
    plans = [Plan(), Plan((pattern,)), *(Plan((v,)) for _, v in varied)]
    for identity in (lambda p: PreGradPass(p, None).uuid(), lambda p: Partitioner(p, print).uuid(), lambda p: SchedulerPass(p, print).uuid()):
        found = [identity(p) for p in plans]
        assert len(set(found)) == len(found)
        assert found == [identity(Plan.from_json(p.to_json())) for p in plans]
    later = [_after_autograd(p, None) for p in plans]
    if pattern.ir is IR.ATEN and not isinstance(pattern, ActivationQuantization):
        assert len({p.uuid() for p in later if p is not None}) == len(plans) - 1
    else:
        assert later == [None] * len(plans)


def test_every_rewrite_is_proved_while_compiling():
    plan = Plan.of(("batch_aten_sub", {"min_fuse_set_size": 2}), ("pad_aten_mm_pass", {"everywhere": True, "k_threshold_to_pad": 1}))

    def program(*t):
        joined = differences(*t)
        return torch.mm(joined.t(), joined)

    xs = six()
    found = optimus.compile(program, plan=plan, validate="prove", options={"compiler": "aot_eager"})(*xs)
    torch.testing.assert_close(found, program(*xs))
    assert fired("batch_aten_sub") == 1
    assert fired("pad_aten_mm_pass") == 1
    assert not any(d.reason == "not_validated" for journal in optimus.journals() for d in journal.declined)
