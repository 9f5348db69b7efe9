"""Bisection of what happens below graphs of operators: saved values in 8 bits, and patterns on Inductor's scheduler nodes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import optimus
import verify
from optimus.limit import Limit, limited
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.passes.group_kernels import GroupKernels
from optimus.plan import Plan, lookup
from verify.bisection.probes import CallableProbe

QUANTISER = ActivationQuantization(size_in_mb=0, allowed_dtypes="float32", use_scaling=False)
"""Without steps it clamps: right only where no saved value is beyond 57,344."""


def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(s, generator=generator) * 0.3).requires_grad_() for s in ((6, 8), (8, 8), (8, 8))]


def saving(x, w, v):
    """Each round saves what its sine and its product read; what the second product of the third one reads is too large for the format."""
    for k in range(5):
        x = torch.cat(torch.split(x, [3, 5], 1), 1)
        y = torch.mm(x, w).sin()
        x = torch.mm(y * 1e6, v) * 1e-6 if k == 2 else y
    return x


def gradients(program, given):
    return torch.autograd.grad(program(*given).square().sum(), given)


def quantised(plan, compiler="aot_eager"):
    """Whether gradients are those of eager, but for what 8 bits round."""
    fast = torch.compile(saving, backend=optimus.backend, options={"plan": plan, "compiler": compiler})
    pairs = zip(gradients(fast, inputs()), gradients(saving, inputs()), strict=True)
    return all(bool((one - other).norm() <= 0.5 * other.norm()) for one, other in pairs)


def applied(check, limit):
    torch._dynamo.reset()
    with limited(limit) as limiter:
        check()
    return limiter.applied


class TestQuantiser:
    plan = Plan((lookup("mutate_cat_pass"), QUANTISER))

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


@dataclass(frozen=True)
class ExpTurned(GroupKernels):
    """Where the loops of a group take an exponential, the joint one takes a sine."""

    name = "exp_turned"

    def rewrite(self, members, view):
        for node in members:
            for inner in node._body.root_block.graph.nodes:
                if inner.target == "exp":
                    inner.target = "sin"
        return super().rewrite(members, view)


def grouped(plan):
    """Whether five groups of three loops each, of a shape of their own, are right; the third takes exponentials."""

    def program(*xs):
        operators = (torch.tanh, torch.sin, torch.exp, torch.sigmoid, torch.cos)
        return tuple(op(x) + 1 for op, triple in zip(operators, zip(*[iter(xs)] * 3, strict=True), strict=True) for x in triple)

    given = [torch.randn(s, generator=torch.Generator().manual_seed(k)) for k, s in enumerate((4, n) for n in range(3, 8) for _ in range(3))]
    fast = torch.compile(program, backend=optimus.backend, options={"plan": plan})
    return all(torch.allclose(a, b, atol=1e-4) for a, b in zip(fast(*given), program(*given), strict=True))


class TestScheduler:
    plan = Plan((ExpTurned(),))

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


def test_nothing_compiled_under_a_limit_is_taken_from_a_cache():
    from optimus.inductor_ir import SchedulerPass
    from optimus.quantization import Partitioner

    for made in (Partitioner(TestQuantiser.plan, print), SchedulerPass(TestScheduler.plan, print)):
        plain = made.uuid()
        with limited(Limit(first=1)):
            assert len({made.uuid(), made.uuid(), plain}) == 3
        assert made.uuid() == plain
