"""Bisection of what happens below graphs of operators: saved values in 8 bits, and patterns on Inductor's scheduler nodes."""

from __future__ import annotations

import pytest
import torch

import optimus
import verify
from optimus.limit import Limit, limited
from optimus.passes.group_kernels import GroupKernels
from optimus.plan import Plan, lookup
from tests.broken.joins import OrderIgnored
from tests.planted_below import BACKWARDS, QUANTISER, TOO_LARGE, TURNED, grouped, inputs, quantised, sloped
from verify.bisection.probes import CallableProbe


def applied(check, limit):
    torch._dynamo.reset()
    with limited(limit) as limiter:
        check()
    return limiter.applied


class TestQuantiser:
    plan = TOO_LARGE

    def test_saved_values_are_counted_and_cut_off(self):
        whole = applied(lambda: quantised(self.plan), Limit())
        patterns = [a.pattern for a in whole]
        assert patterns.count("mutate_cat_pass") == 5
        assert patterns.count(QUANTISER.name) > 5
        assert [a.number for a in whole] == list(range(1, len(whole) + 1))
        assert {a.graph for a in whole} == {1, 2}
        for first in (0, 5, 7, len(whole) - 1):
            optimus.clear_journals()
            some = applied(lambda: quantised(self.plan), Limit(first=first))
            assert [a.identity for a in some] == [a.identity for a in whole[:first]]
            assert sum(len(j.rewrites) for j in optimus.journals()) == first
        chosen = frozenset([whole[0].identity, *(a.identity for a in whole[6:8])])
        everything = frozenset(a.identity for a in whole[:5])
        assert [a.identity for a in applied(lambda: quantised(self.plan), Limit(only=everything | chosen))] == [
            a.identity for a in (*whole[:5], *whole[6:8])
        ]
        assert {a.pattern for a in applied(lambda: quantised(self.plan), Limit(without=frozenset([QUANTISER.name])))} == {"mutate_cat_pass"}

    def test_through_inductor(self):
        some = applied(lambda: quantised(self.plan, "inductor"), Limit(first=7))
        assert [a.pattern for a in some] == ["mutate_cat_pass"] * 5 + [QUANTISER.name] * 2

    def test_the_value_that_does_not_fit_is_named(self, tmp_path):
        outcome = verify.bisect(CallableProbe(lambda: quantised(self.plan), "quantised"), state=tmp_path / "s", minimise_s=1)
        (culprit,) = outcome.bisection.culprits
        assert culprit.guilty.pattern == QUANTISER.name, outcome.bisection.message
        assert culprit.guilty.graph == 2
        assert culprit.guilty.number > 5
        assert any("1e6" in line for line in culprit.guilty.rewrite.lines)
        assert culprit.alone

    def test_without_it_there_is_nothing_to_find(self, tmp_path):
        probe = CallableProbe(lambda: quantised(self.plan), "quantised")
        outcome = verify.bisect(probe, state=tmp_path / "s", exclude=[QUANTISER.name], minimise_s=1)
        assert outcome.bisection.status == "never bad"

    @pytest.mark.filterwarnings("ignore:optimus")
    def test_what_raises_is_not_counted(self, monkeypatch):
        monkeypatch.setattr("optimus.quantization._backward", lambda *_: 1 / 0)
        whole = applied(lambda: quantised(self.plan), Limit())
        assert {a.pattern for a in whole} == {"mutate_cat_pass"}


class TestScheduler:
    plan = TURNED

    def test_sets_of_nodes_are_counted_and_cut_off(self):
        right = Plan((GroupKernels(),))
        whole = applied(lambda: grouped(right), Limit())
        assert [a.pattern for a in whole] == ["group_kernels"] * 5
        for first in (0, 3):
            assert [a.identity for a in applied(lambda: grouped(right), Limit(first=first))] == [a.identity for a in whole[:first]]
        assert [a.identity for a in applied(lambda: grouped(right), Limit(only=frozenset([whole[3].identity])))] == [whole[3].identity]
        assert not applied(lambda: grouped(right), Limit(without=frozenset(["group_kernels"])))

    def test_the_wrong_set_is_named(self, tmp_path):
        outcome = verify.bisect(CallableProbe(lambda: grouped(self.plan), "grouped"), state=tmp_path / "s", minimise_s=1)
        (culprit,) = outcome.bisection.culprits
        assert (culprit.guilty.pattern, culprit.guilty.number, culprit.of) == ("exp_turned", 3, 5), outcome.bisection.message
        assert len(culprit.guilty.rewrite.removed) == 3
        assert culprit.alone

    @pytest.mark.filterwarnings("ignore:optimus")
    def test_what_is_undone_is_not_counted(self, monkeypatch):
        monkeypatch.setattr("optimus.inductor_ir._wrong", lambda *_: "planted")
        optimus.clear_journals()
        assert not applied(lambda: grouped(self.plan), Limit())
        (below,) = [j for j in optimus.journals() if j.ir == "inductor"]
        assert not below.rewrites
        assert [d.reason for d in below.declined] == ["error"]


class TestBackward:
    plan = BACKWARDS

    def test_a_wrong_rewrite_of_the_backward_graph_alone_is_named(self, tmp_path):
        assert sloped(self.plan) == ["1"]
        outcome = verify.bisect(CallableProbe(lambda: sloped(self.plan), "sloped"), state=tmp_path / "s", minimise_s=1)
        (culprit,) = outcome.bisection.culprits
        assert culprit.guilty.pattern == "factor_dropped", outcome.bisection.message
        assert culprit.guilty.graph == 3  # behind that of operators and the forward one
        assert culprit.alone
        assert outcome.problems == ["not cut down: no graph was saved: the rewritten graph was never called, or is one behind autograd"]


def test_the_graph_of_a_culprit_is_saved_where_others_are_counted_behind_it(tmp_path):
    """A wrong rewrite above autograd, beside right ones below."""
    plan = Plan((OrderIgnored(), lookup("activation_quantization_aten_pass")))

    def check():
        def program(x):
            a, b = torch.split(x, [3, 5], 1)
            return torch.tanh(torch.cat([b, a], 1)).sin()

        x = inputs()[0]
        fast = torch.compile(program, backend=optimus.backend, options={"plan": plan, "compiler": "aot_eager"})
        return torch.equal(fast(x), program(x))

    outcome = verify.bisect(CallableProbe(check, "check"), state=tmp_path / "s")
    assert outcome.bisection.culprits[0].guilty.pattern == "order_ignored"
    assert outcome.minimised[0] is not None, outcome.problems
    assert outcome.minimised[0].sample.size <= 8


def test_nothing_compiled_under_a_limit_is_taken_from_a_cache():
    from optimus.inductor_ir import SchedulerPass
    from optimus.quantization import Partitioner

    for made in (Partitioner(TOO_LARGE, print), SchedulerPass(TURNED, print)):
        plain = made.uuid()
        with limited(Limit(first=1)):
            assert len({made.uuid(), made.uuid(), plain}) == 3
        assert made.uuid() == plain
