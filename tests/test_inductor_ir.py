"""Patterns on the nodes of Inductor's scheduler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from torch._inductor import metrics

import optimus
from optimus.inductor_ir import HOOK, InductorPattern, SchedulerPass, View, apply, inductor_patches
from optimus.journal import Journal
from optimus.passes.group_kernels import GroupKernels
from optimus.pattern import Exactness
from optimus.plan import Plan
from optimus.versions import SchedulerPassBase

NAME = "group_kernels"
GROUP = GroupKernels()


def compiled(function, given, pattern=GROUP, *, dynamic=None, previous=None):
    """Outputs, gradients, how many kernels were generated, and the journals of Inductor's scheduler."""
    journals = []
    torch._dynamo.reset()
    metrics.reset()
    inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in given]
    plan = Plan() if pattern is None else Plan((pattern,))
    with inductor.patch(**inductor_patches(plan, journals.append, previous), force_disable_caches=True):
        outputs = torch.compile(function, dynamic=dynamic)(*inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        heads = [o for o in outputs if o.requires_grad]
        if heads:
            torch.autograd.backward(heads, [torch.ones_like(o) for o in heads])
    return [o.detach() for o in outputs], [i.grad for i in inputs], [i.detach() for i in inputs], metrics.generated_kernel_count, journals


def check(function, given, pattern=GROUP, **options):
    """With the pattern all is as without; how many kernels there were without and with it, and its journals."""
    *plain, before, _ = compiled(function, given, None, **options)
    *ours, after, journals = compiled(function, given, pattern, **options)
    for ones, others in zip(plain, ours, strict=True):
        for one, other in zip(ones, others, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
                torch.testing.assert_close(other, one)
    assert not [d for j in journals for d in j.declined if d.reason == "error"]
    return before, after, journals


def leaf(*shape, seed=0, grad=True, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_(grad)


def leaves(count, *shape, **options):
    return [leaf(*shape, seed=k, **options) for k in range(count)]


class TestGroups:
    def test_forward_and_backward_have_fewer_kernels(self):
        before, after, journals = check(lambda *xs: [torch.tanh(x) * 2 for x in xs], leaves(20, 6, 8))
        assert (before, after) == (40, 4)
        assert [len(r.removed) for j in journals for r in j.rewrites] == [16, 4, 16, 4]

    def test_chains_of_reductions_and_functions(self):
        before, after, _ = check(lambda *xs: [F.layer_norm(x.sin(), (x.shape[-1],)) for x in xs], leaves(6, 6, 8))
        assert after * 3 < before

    def test_dynamic_sizes_are_joined_only_where_they_are_known_to_be_small(self):
        _, _, journals = check(lambda *xs: [x.exp() for x in xs], leaves(6, 6, 8, grad=False), dynamic=True)
        assert {d.reason for j in journals for d in j.declined} == {"large"}
        assert not any(j.rewrites for j in journals)

    def test_large_loops_are_left_alone(self):
        _, _, journals = check(lambda *xs: [x.exp() for x in xs], leaves(3, 6, 8, grad=False), replace(GROUP, max_numel=47))
        assert {d.reason for j in journals for d in j.declined} == {"large"}

    def test_reductions_can_be_left_out(self):
        given = leaves(4, 6, 8, grad=False)
        before, after, _ = check(lambda *xs: [x.sum(1) for x in xs], given, replace(GROUP, reductions=False))
        assert (before, after) == (4, 4)


class TestHostile:
    def test_a_write_between_members(self):
        def program(a, b, c):
            y = a.exp()
            a.mul_(2)
            z = a.exp()
            b.copy_(y + z)
            return y, z, b.sin(), c.exp()

        check(program, leaves(3, 6, 8, grad=False))

    def test_views_of_one_memory(self):
        def program(a, b):
            one, other = a[:3], a[3:]
            other.add_(1)
            return one.exp(), other.exp(), a.t().exp(), b[:3].exp(), b[3:].exp()

        check(program, leaves(2, 6, 8, grad=False))

    def test_groups_that_would_depend_on_one_another(self):
        """``a1`` feeds ``b1``, and ``b2`` feeds ``a2``: to join both pairs would be a circle."""

        def program(x, y, w, v):
            a1 = torch.mm(x.exp(), w)
            b1 = torch.mm(a1.tanh(), v)
            b2 = torch.mm(y.tanh(), v)
            a2 = torch.mm(b2.exp(), w)
            return b1.relu(), a2.relu()

        check(program, [*leaves(2, 6, 6), *leaves(2, 6, 6)])

    def test_sizes_dtypes_and_reductions_that_differ(self):
        def program(a, b, c, d, e):
            return a.exp(), b.exp(), c.exp(), d.sum(0), d.sum(1), a.sum(1), e.sum(1), b.half().sum(1), c.amax(0), a.argmax(1), d.var(1)

        check(program, [leaf(6, 8), leaf(6, 8, dtype=torch.float64), leaf(8, 6), leaf(8, 8), leaf(6, 8, seed=3)])

    def test_random_numbers(self):
        def program(*xs):
            return [F.dropout(x, 0.5) for x in xs]

        given = leaves(4, 6, 8, grad=False)
        found = []
        for pattern in (None, GROUP):
            torch.manual_seed(7)
            found.append(compiled(program, given, pattern)[0])
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))

    def test_scatters_sorts_and_scans(self):
        def program(a, b, index):
            return a.scatter_add(1, index, b), b.scatter_add(1, index, a), a.cumsum(1), b.cumsum(1), a.sort(1).values, b.exp(), a.exp()

        check(program, [leaf(6, 8, grad=False), leaf(6, 8, seed=1, grad=False), torch.arange(8).flip(0).repeat(6, 1)])


@dataclass(frozen=True)
class Wrong(InductorPattern):
    """``nothing  ->  nothing``: a pattern that is wrong in the way asked for."""

    name = "wrong"
    anchors = frozenset({"pointwise"})
    exactness = Exactness.BITWISE
    way: str = "raises"

    def find(self, view):
        if self.way == "raises":
            raise KeyError("nothing")
        plain = [n for n in view.nodes if not n.is_extern()]
        return [tuple(plain)] if len(plain) > 1 else []

    def rewrite(self, members, view):
        from torch._inductor.scheduler import FusedSchedulerNode

        return members[0] if self.way == "loses" else FusedSchedulerNode(view.scheduler, list(members))


class TestEngine:
    @pytest.mark.parametrize(("way", "what"), [("raises", "KeyError"), ("loses", "operations became"), ("circle", "would run before")])
    def test_a_wrong_pattern_changes_nothing(self, way, what):
        def program(x, w):
            return torch.mm(x.exp(), w).tanh()

        given = [leaf(6, 6, grad=False), leaf(6, 6, seed=1, grad=False)]
        plain = compiled(program, given, None)
        ours = compiled(program, given, Wrong(way=way))
        assert torch.equal(plain[0][0], ours[0][0])
        (journal,) = ours[-1]
        assert not journal.rewrites
        (declined,) = journal.declined
        assert declined.reason == "error"
        assert what in declined.detail

    def test_depth_and_order_on_plain_nodes(self):
        def node(name, *needs):
            made = SimpleNamespace(unmet_dependencies=[SimpleNamespace(name=n) for n in needs])
            made.get_name = lambda: name
            made.get_buffer_names = lambda: {name}
            made.get_operation_names = lambda: {name}
            return made

        class Hashable(SimpleNamespace):
            __hash__ = object.__hash__

        nodes = [Hashable(**vars(node(*n))) for n in (("a",), ("b", "a"), ("c", "input"), ("d", "b", "c"))]
        view = View(nodes)
        assert [view.depth[n] for n in nodes] == [0, 1, 0, 2]
        assert [p.get_name() for p in view.producers(nodes[3])] == ["b", "c"]
        journal = Journal()
        assert apply(Nothing(), nodes, journal) == nodes
        assert not journal.declined

    def test_the_pass_in_front_runs_first_and_stays(self):
        seen = []

        def mine(nodes):
            seen.append(len(nodes))
            return nodes

        _, after, _ = check(lambda *xs: [x.exp() for x in xs], leaves(4, 6, 8, grad=False))
        *_, count, journals = compiled(lambda *xs: [x.exp() for x in xs], leaves(4, 6, 8, grad=False), previous=mine)
        assert seen == [4]
        assert count == after == 1
        assert journals[0].rewrites
        anonymous = SchedulerPass(Plan((GROUP,)), lambda _: None, mine)
        assert anonymous.uuid() != anonymous.uuid()  # what has no identity is not taken from a cache
        with pytest.raises(TypeError, match="accepted is a callable, or None"):
            inductor_patches(Plan((GROUP,)), lambda _: None, 3)

    def test_identity_and_class_are_what_the_cache_asks_for(self):
        def key(pattern, previous=None):
            return SchedulerPass(Plan((pattern,)), lambda _: None, previous).uuid()

        others = [replace(GROUP, max_numel=5), replace(GROUP, max_group=4), replace(GROUP, min_group=3), replace(GROUP, reductions=False)]
        keys = [key(GROUP), *map(key, others), key(GROUP, SchedulerPass(Plan(), lambda _: None))]
        assert len(set(keys)) == len(keys)
        assert key(GROUP) == key(GroupKernels())
        assert issubclass(SchedulerPass, SchedulerPassBase)

    def test_options(self):
        with pytest.raises(ValueError, match="option max_group=1 is too small; accepted is 2 or more"):
            GroupKernels(max_group=1)
        with pytest.raises(ValueError, match="option min_group=1 is too small; accepted is 2 or more"):
            GroupKernels(min_group=1)

    def test_through_the_backend_and_not_through_others(self):
        torch._dynamo.reset()
        optimus.clear_journals()
        run = torch.compile(lambda a, b: (a.exp(), b.exp()), backend="optimus", options={"enable": [NAME]})
        with inductor.patch(force_disable_caches=True):
            run(torch.randn(6, 8), torch.randn(6, 8))
        assert any(j.fired(NAME) for j in optimus.journals())
        torch._dynamo.reset()
        with pytest.raises(Exception, match=rf"{NAME} cannot run through compiler 'aot_eager'; accepted are 'inductor'"):
            torch.compile(lambda a: a.exp(), backend="optimus", options={"enable": [NAME], "compiler": "aot_eager"})(torch.randn(3))
        assert getattr(inductor, HOOK) is None


@dataclass(frozen=True)
class Nothing(InductorPattern):
    """``a  ->  a``: finds nothing."""

    name = "nothing"
    anchors = frozenset()
    exactness = Exactness.BITWISE

    def find(self, view):
        return []
