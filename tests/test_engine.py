"""The engine: transactions, laws, the horizontal search, the journal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch.fx import Graph

import optimus
from fuzz.program import Input, Program, Region, Step, Var
from optimus.capture import capture
from optimus.engine import Engine
from optimus.journal import Journal
from optimus.laws import Law
from optimus.passes.batch_tanh import BatchTanh
from optimus.passes.split_cat import SplitCat
from optimus.pattern import Exactness, Match, VerticalPattern
from optimus.plan import Plan
from optimus.values import tensor

PAIR = Plan((BatchTanh(min_fuse_set_size=2),))


def graph_of(program, *inputs, dynamic=False):
    """The captured graph of a program."""
    (found,) = capture(program, inputs, dynamic=dynamic)
    return found.gm


def tanhs(count, shape=(2, 3), **options):
    """A program of ``count`` independent tanhs, joined."""
    inputs = tuple(Input(f"x{k}", shape, **options) for k in range(count))
    steps = [Step(f"t{k}", torch.tanh, (Var(f"x{k}"),)) for k in range(count)]
    return Program(inputs, (*steps, Step("out", torch.cat, ([Var(s.name) for s in steps],))), ("out",))


@dataclass(frozen=True)
class Renamed(VerticalPattern):
    """``tanh(x)  ->  whatever build makes``"""

    name = "renamed"
    anchors = frozenset({"tanh"})
    exactness = Exactness.BITWISE
    build = staticmethod(lambda tx, node: tx.call(torch.tanh, node.args[0]))

    def find(self, node, state):
        return None if node.meta.get("seen") else Match((node,), node)

    def rewrite(self, match, tx):
        new = type(self).build(tx, match.nodes[0])
        for node in tx.new:
            node.meta["seen"] = True
        tx.replace(match.nodes[0], new)


class KeepsItsGradient(torch.autograd.Function):
    """The identity, without a gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return None


@dataclass(frozen=True)
class Endless(Renamed):
    """Fires on what it makes."""

    def find(self, node, state):
        return Match((node,), node)


def attempt(build, gm=None):
    """Run a rewrite of tanh that builds what ``build`` says; the graph and its journal."""
    gm = tanhs(1).graph() if gm is None else gm
    before = gm.code
    journal = Engine(gm, Plan((type("Built", (Renamed,), {"build": staticmethod(build)})(),))).run()
    return gm, before, journal


def refused(journal: Journal, law: Law) -> bool:
    """Whether something was declined under ``law``."""
    return any(d.reason == law.reason for d in journal.declined)


class TestTransactions:
    def test_a_rewrite_that_raises_leaves_the_graph_as_it_was(self):
        def build(tx, node):
            tx.call(torch.neg, node.args[0])
            raise KeyError("half way")

        gm, before, journal = attempt(build)
        assert gm.code == before
        assert journal.declined[0].reason == "error"
        assert "KeyError: 'half way'" in journal.declined[0].detail

    def test_a_pattern_that_raises_while_it_looks_is_declined(self):
        class Clumsy(Renamed):
            def find(self, node, state):
                raise ZeroDivisionError("looking")

        class ClumsyKey(BatchTanh):
            def key(self, node, state):
                raise ZeroDivisionError("looking")

        for pattern in (Clumsy(), ClumsyKey(min_fuse_set_size=2)):
            gm = tanhs(2).graph()
            before = gm.code
            journal = Engine(gm, Plan((pattern,))).run()
            assert gm.code == before
            assert {(d.reason, d.detail) for d in journal.declined} == {("error", "ZeroDivisionError: looking")}

    @pytest.mark.parametrize(
        ("build", "law"),
        [
            (lambda tx, n: tx.call(torch.sum, n.args[0]), Law.TYPES),
            (lambda tx, n: tx.method("double", tx.call(torch.tanh, n.args[0])), Law.TYPES),
            (lambda tx, n: tx.call(torch.detach, tx.call(torch.tanh, n.args[0])), Law.TYPES),
            (lambda tx, n: tx.call(torch.mm, n.args[0], n.args[0]), None),
        ],
    )
    def test_a_wrong_result_is_refused(self, build, law):
        gm, before, journal = attempt(build)
        assert gm.code == before
        assert not journal.rewrites
        assert refused(journal, law) if law else journal.declined[0].reason == "error"

    def test_nodes_that_end_up_unused_are_removed(self):
        def build(tx, node):
            tx.call(torch.exp, node.args[0])
            return tx.call(torch.tanh, node.args[0])

        gm, _, journal = attempt(build)
        assert len(journal.rewrites) == 1
        assert "exp" not in gm.code

    def test_the_validator_can_roll_back(self):
        program = tanhs(3)
        gm = program.graph()
        before = gm.code
        seen = []

        def validator(region):
            seen.append((region.pattern, len(region.before.graph.find_nodes(op="placeholder"))))
            return "not today"

        journal = Engine(gm, PAIR, validator).run()
        assert seen == [("batch_tanh", 3)]
        assert gm.code == before
        assert journal.declined[0].reason == "not_validated"

    def test_regions_handed_to_the_validator_run(self):
        program = tanhs(3)
        gm = program.graph()
        regions = []
        Engine(gm, PAIR, lambda region: regions.append(region)).run()
        (region,) = regions
        inputs = program.make_inputs()
        for one, other in zip(region.before(*inputs), region.after(*inputs), strict=True):
            assert torch.equal(one, other)

    def test_something_else_than_a_graph_module_is_refused(self):
        with pytest.raises(TypeError, match=r"got a Graph; accepted is a torch\.fx\.GraphModule"):
            optimus.rewrite(Graph())

    def test_a_graph_without_metadata_is_left_alone(self):
        gm = torch.fx.symbolic_trace(lambda x: torch.cat(torch.split(x, [1, 2])))
        code = gm.code
        assert not optimus.rewrite(gm).rewrites
        assert gm.code == code

    def test_a_pattern_that_fires_on_what_it_makes_comes_to_an_end(self):
        gm = tanhs(3).graph()
        journal = Engine(gm, Plan((Endless(),))).run()
        assert len(journal.rewrites) == len(gm.graph.nodes)
        assert [d.reason for d in journal.declined] == ["endless"]


class TestAliasing:
    def test_a_returned_copy_stays_a_copy(self):
        gm = graph_of(lambda x: torch.cat(torch.split(x, [1, 2])), torch.randn(3, 2))
        assert Engine(gm, Plan((SplitCat(),))).run().rewrites
        x = torch.randn(3, 2)
        assert gm(x)[0].untyped_storage().data_ptr() != x.untyped_storage().data_ptr()

    def test_a_private_copy_becomes_the_tensor_itself(self):
        gm = graph_of(lambda x: torch.cat(torch.split(x, [1, 2])) * 2, torch.randn(3, 2))
        Engine(gm, Plan((SplitCat(),))).run()
        assert "clone" not in gm.code
        assert "cat" not in gm.code

    @pytest.mark.parametrize(
        "write", [lambda x, y: x.add_(1), lambda x, y: y.add_(1), lambda x, y: y.view(-1).mul_(2), lambda x, y: y.__setitem__(0, 0)]
    )
    def test_a_copy_written_to_stays_a_copy(self, write):
        def program(x):
            y = torch.cat(torch.split(x, [1, 2]))
            write(x, y)
            return y * 2, x * 3

        gm = graph_of(program, torch.randn(3, 2))
        Engine(gm, Plan((SplitCat(),))).run()
        x, other = torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 2)
        for one, two in zip(gm(x), program(other), strict=True):
            assert torch.equal(one, two)
        assert torch.equal(x, other)

    def test_members_whose_results_are_returned_stay_out(self):
        gm = graph_of(lambda a, b, c, d: (torch.tanh(a), torch.tanh(b), torch.tanh(c) + torch.tanh(d)), *[torch.randn(2)] * 4)
        journal = Engine(gm, PAIR).run()
        assert [len(r.outputs) for r in journal.rewrites] == [2]
        assert refused(journal, Law.ALIASING)

    def test_members_that_are_written_share_no_memory(self):
        def program(a, b):
            x, y = torch.tanh(a), torch.tanh(b)
            x.add_(1)
            return x + y, x * y

        gm = graph_of(program, torch.randn(2), torch.randn(2))
        Engine(gm, PAIR).run()
        a, b = torch.randn(2), torch.randn(2)
        for one, other in zip(gm(a, b), program(a, b), strict=True):
            assert torch.equal(one, other)

    def test_only_readers_of_the_old_result_are_touched(self):
        def program(x):
            z = (x + 1).t()
            a, b, c = torch.split(z, [2, 2, 2], 1)
            return z, torch.cat([a, b, c], 1) * 2

        gm = graph_of(program, torch.randn(6, 2))
        Engine(gm, Plan((SplitCat(),))).run()
        x = torch.randn(6, 2)
        for one, other in zip(gm(x), program(x), strict=True):
            assert torch.equal(one, other)
            assert one.stride() == other.stride()

    def test_a_result_that_takes_the_place_of_another_shares_its_memory(self):
        class Once(Renamed):
            def find(self, node, state):
                other = next(u for u in node.args[0].users if u.target is torch.tanh)
                return Match((other, node), node) if other is not node else None

            def rewrite(self, match, tx):
                tx.replace(match.nodes[1], match.nodes[0])

        def program(x):
            a, b = torch.tanh(x), torch.tanh(x)
            a.add_(1)
            return a, b

        gm = graph_of(program, torch.randn(3))
        Engine(gm, Plan((Once(),))).run()
        x = torch.randn(3)
        for one, other in zip(gm(x), program(x), strict=True):
            assert torch.equal(one, other)


class TestMutationAndModes:
    def test_members_are_not_read_at_another_time(self):
        def program(x, y):
            a = torch.tanh(x)
            x.add_(1)
            return a + torch.tanh(x) + torch.tanh(y)

        gm = graph_of(program, torch.randn(3), torch.randn(3))
        Engine(gm, PAIR).run()
        x, y = torch.randn(3), torch.randn(3)
        assert torch.equal(gm(x.clone(), y)[0], program(x.clone(), y))

    @pytest.mark.parametrize("mode", ["no_grad", "autocast", "enable_grad"])
    def test_no_group_reaches_across_a_change_of_mode(self, mode):
        base = tanhs(4)
        body = (*base.body[:2], Region(mode, base.body[2:4]), base.body[4])
        gm = Program(base.inputs, body, base.outputs).graph()
        journal = Engine(gm, Plan((BatchTanh(min_fuse_set_size=3),))).run()
        assert not journal.rewrites
        journal = Engine(gm, PAIR).run()
        assert [len(r.outputs) for r in journal.rewrites] == [2, 2]

    def test_random_operators_keep_their_order(self):
        def program(x, y):
            a = torch.tanh(F.dropout(x))
            b = torch.tanh(F.dropout(y))
            return a * 1, b * 1

        gm = graph_of(program, torch.randn(20), torch.randn(20))
        assert Engine(gm, PAIR).run().rewrites
        x, y = torch.randn(20), torch.randn(20)
        torch.manual_seed(0)
        expected = program(x, y)
        torch.manual_seed(0)
        for one, other in zip(gm(x, y), expected, strict=True):
            assert torch.equal(one, other)


class TestLayout:
    def test_a_reader_of_strides_gets_the_old_ones(self):
        def program(x):
            return torch.stack(torch.unbind(x, 0), 1).view(-1) + 1

        gm = graph_of(program, torch.randn(3, 4, 5))
        assert optimus.rewrite(gm, Plan.of("unbind_stack_pass")).rewrites
        x = torch.randn(3, 4, 5)
        assert torch.equal(gm(x)[0], program(x))

    def test_strides_of_results_stay(self):
        def program(x):
            return torch.stack(torch.unbind(x, 0), 1) * 2

        gm = graph_of(program, torch.randn(3, 4, 5))
        optimus.rewrite(gm, Plan.of("unbind_stack_pass"))
        x = torch.randn(3, 4, 5)
        assert gm(x)[0].stride() == program(x).stride()

    def test_a_copy_stands_where_the_old_result_stood(self):
        def program(x):
            pieces = torch.split(x, [2, 2], 1)
            return torch.stack(pieces, 0)

        gm = graph_of(program, torch.randn(3, 4))
        assert optimus.rewrite(gm, Plan.of("split_cat_pass")).rewrites
        x = torch.randn(3, 4)
        assert torch.equal(gm(x)[0], program(x))
        assert gm(x)[0].stride() == program(x).stride()

    def test_where_nobody_looks_no_copy_is_made(self):
        gm = graph_of(lambda x: torch.cat([torch.stack(torch.unbind(x, 0), 1) * 2] * 2), torch.randn(3, 4, 5))
        optimus.rewrite(gm, Plan.of("unbind_stack_pass"))
        assert "clone" not in gm.code
        assert "movedim" in gm.code

    def test_a_sum_of_a_bitwise_pattern_reads_memory_in_the_old_order(self):
        gm = graph_of(lambda x: torch.stack(torch.unbind(x, 0), 1).sum(), torch.randn(3, 4, 5))
        optimus.rewrite(gm, Plan.of("unbind_stack_pass"))
        assert "clone" in gm.code


@pytest.mark.parametrize(
    ("flip", "given"),
    [
        (torch.conj, (torch.arange(4).reshape(1, 4) * (1 + 1j)).to(torch.complex64).conj()),
        (torch._neg_view, torch._neg_view(torch.arange(24.0).reshape(4, 6) + 1)),
    ],
)
def test_pieces_of_what_is_flipped_back(flip, given):
    """PyTorch loses track of the flip in returned views whose sizes are computed, so none is made to be."""

    def pieces(x):
        return torch.split(flip(x), 2, 1)

    torch._dynamo.reset()
    found = torch.compile(pieces, backend="optimus", options={"compiler": "aot_eager"}, dynamic=True)(given)
    for one, other in zip(found, pieces(given), strict=True):
        assert torch.equal(one, other)
        assert (one.is_conj(), one.is_neg()) == (other.is_conj(), other.is_neg())
    assert "lazily" in optimus.journals()[-1].stopped


class TestSizes:
    def test_no_guard_is_added(self):
        def program(x, y, a, b):
            p, q = torch.split(x, [a, b], 1)
            return torch.cat([p, q], 1) * 2, torch.stack(torch.unbind(y, 0), 1).reshape(-1) + 1

        gm = graph_of(program, torch.randn(3, 9), torch.randn(3, 4, 5), 4, 5, dynamic=True)
        environment = next(t.fake_mode.shape_env for n in gm.graph.nodes if (t := tensor(n)) is not None)
        guards = [str(g.expr) for g in environment.guards]
        journal = optimus.rewrite(gm)
        assert journal.rewrites
        assert [str(g.expr) for g in environment.guards] == guards


class TestHorizontal:
    def test_options_bound_the_groups(self):
        for count, least, most, sizes in ((7, 2, 3, [3, 3]), (4, 5, 300, []), (6, 5, 300, [6]), (9, 2, 4, [4, 4])):
            journal = Engine(tanhs(count).graph(), Plan((BatchTanh(min_fuse_set_size=least, max_fuse_set_size=most),))).run()
            assert [len(r.outputs) for r in journal.rewrites] == sizes

    def test_a_joint_operator_is_not_joined_again(self):
        journal = Engine(tanhs(6).graph(), Plan((BatchTanh(min_fuse_set_size=2, max_fuse_set_size=2),))).run()
        assert len(journal.rewrites) == 3

    @pytest.mark.parametrize(("option", "given"), [("min_fuse_set_size", 1), ("max_fuse_set_size", 4), ("max_depth", 0)])
    def test_options_that_would_never_end_are_refused(self, option, given):
        with pytest.raises(ValueError, match=rf"batch_tanh: option {option}={given} is too small; accepted is \d or more"):
            BatchTanh(**{option: given})

    def test_depth_bounds_the_distance_to_a_common_consumer(self):
        def program(*xs):
            deep = [torch.tanh(x).exp().neg().exp().neg() for x in xs]
            return torch.cat(deep)

        inputs = [torch.randn(3) for _ in range(3)]
        assert not Engine(graph_of(program, *inputs), Plan((BatchTanh(min_fuse_set_size=2, max_depth=3),))).run().rewrites
        assert Engine(graph_of(program, *inputs), Plan((BatchTanh(min_fuse_set_size=2, max_depth=5),))).run().rewrites

    def test_layers_of_towers_are_joined_layer_by_layer(self):
        def program(*xs):
            for _ in range(4):
                xs = [torch.tanh(x) * 2 for x in xs]
            return torch.cat(xs)

        gm = graph_of(program, *[torch.randn(3) for _ in range(3)])
        journal = Engine(gm, PAIR).run()
        assert [len(r.outputs) for r in journal.rewrites] == [3, 3, 3, 3]

    def test_members_that_a_gradient_does_not_reach_stay_out(self):
        def program(*xs):
            first, *rest = [torch.tanh(x) for x in xs]
            return first.detach() + sum(rest)

        gm = graph_of(program, *[torch.randn(3, requires_grad=True) for _ in range(3)])
        assert [len(r.outputs) for r in Engine(gm, PAIR).run().rewrites] == [2]

    @pytest.mark.parametrize(
        "reader",
        [
            lambda t: t.norm(0),
            lambda t: torch.linalg.vector_norm(t, 0.0),
            lambda t: torch.dist(t, torch.ones(3), p=0),
            lambda t: KeepsItsGradient.apply(t).sum(),
        ],
        ids=["norm", "vector_norm", "dist", "custom_function"],
    )
    def test_members_whose_gradient_may_be_none_stay_out(self, reader):
        def program(*xs):
            first, *rest = [torch.tanh(x) for x in xs]
            return reader(first) + sum(t.sum() for t in rest)

        gm = graph_of(program, *[torch.randn(3, requires_grad=True) for _ in range(3)])
        journal = Engine(gm, PAIR).run()
        assert [len(r.outputs) for r in journal.rewrites] == [2]
        assert "its gradient may be none at all, and would become one of zeros" in {d.detail for d in journal.declined}

    def test_norms_of_other_orders_do_not_keep_members_out(self):
        def program(*xs):
            first, second, third = [torch.tanh(x) for x in xs]
            return first.norm() + second.norm(1, dim=0) + torch.dist(third, torch.ones(3))

        gm = graph_of(program, *[torch.randn(3, requires_grad=True) for _ in range(3)])
        assert [len(r.outputs) for r in Engine(gm, PAIR).run().rewrites] == [3]

    def test_complex_members_stay_out(self):
        assert not Engine(tanhs(3, dtype=torch.complex64).graph(), PAIR).run().rewrites

    @pytest.mark.parametrize("other", [{"dtype": torch.float64}, {"requires_grad": False}, {"shape": (3, 2)}])
    def test_members_of_another_kind_stay_out(self, other):
        base = tanhs(2)
        odd = Input("odd", **{"shape": (2, 3), **other})
        body = (*base.body[:2], Step("t9", torch.tanh, (Var("odd"),)), *base.body[2:])
        gm = Program((*base.inputs, odd), body, ("out", "t9")).graph()
        assert [len(r.outputs) for r in Engine(gm, PAIR).run().rewrites] == [2]


def cuts_and_joins(gm):
    """How many nodes of each kind of cut and join a graph has."""
    names = [getattr(n.target, "__name__", str(n.target)) for n in gm.graph.nodes]
    return {name: names.count(name) for name in ("split", "unbind", "getitem", "stack", "cat") if name in names}


class TestComposition:
    """Horizontal patterns leave stacks and slices behind, which vertical ones take away (the paper's figure 5)."""

    @pytest.mark.parametrize("function", [torch.tanh, F.relu, torch.sigmoid])
    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_nothing_is_cut_to_be_joined_again(self, function, dim):
        def program(x):
            return torch.cat([function(p) for p in x.chunk(6, dim)], dim) * 2

        gm = graph_of(program, torch.randn(6, 12, 18))
        optimus.rewrite(gm)
        assert cuts_and_joins(gm) == {}
        x = torch.randn(6, 12, 18)
        torch.testing.assert_close(gm(x)[0], program(x), rtol=1e-6, atol=0)
        assert gm(x)[0].stride() == program(x).stride()

    @pytest.mark.parametrize("cut", [
        lambda x: torch.split(x, 4, 1), lambda x: x.chunk(6, -1), lambda x: torch.tensor_split(x, 6, 1),
        lambda x: [x[:, 4 * k : 4 * k + 4] for k in range(6)], lambda x: [x.narrow(-1, 4 * k, 4) for k in range(6)],
    ])  # fmt: skip
    @pytest.mark.parametrize("join", [
        lambda ys: torch.cat(ys, 1), lambda ys: torch.concatenate(ys, axis=-1), torch.hstack, lambda ys: torch.stack(ys, 2), torch.dstack,
    ])  # fmt: skip
    @pytest.mark.parametrize("size", [3, None])
    def test_two_functions_of_pieces_in_any_spelling(self, cut, join, size):
        """Neither split, stack, unbind nor cat is left."""

        def program(x):
            return join([torch.tanh(F.layer_norm(p, (4,))) for p in cut(x)]) * 2

        example = torch.randn(size or 5, 24)
        if size is None:
            torch._dynamo.mark_dynamic(example, 0)
        gm = graph_of(program, example)
        journal = optimus.rewrite(gm)
        assert {"batch_layernorm", "batch_tanh"} <= set(journal.counts())
        assert cuts_and_joins(gm) == {}
        assert not {"hstack", "dstack", "narrow"} & {getattr(n.target, "__name__", n.target) for n in gm.graph.nodes}
        if size is not None:
            x = torch.randn(size, 24)
            torch.testing.assert_close(gm(x)[0], program(x), rtol=1e-5, atol=1e-6)
            assert gm(x)[0].stride() == program(x).stride()

    def test_slices_are_never_cut(self):
        def program(x):
            return torch.stack([F.relu(torch.tanh(s)) for s in torch.unbind(x, 1)], 2)

        gm = graph_of(program, torch.randn(3, 5, 4))
        journal = optimus.rewrite(gm)
        assert cuts_and_joins(gm) == {}
        assert {"batch_tanh", "batch_relu", "unbind_stack_pass"} <= set(journal.counts())
        x = torch.randn(3, 5, 4)
        assert torch.equal(gm(x)[0], program(x))
        assert gm(x)[0].stride() == program(x).stride()

    def test_norms_of_tensors_of_their_own_pay_for_no_stack(self):
        def program(*xs):
            return torch.cat([F.layer_norm(x, (4,)) for x in xs])

        journal = optimus.rewrite(gm := graph_of(program, *(torch.randn(3, 4) for _ in range(6))))
        assert ("batch_layernorm", "own_inputs") in journal.reasons()
        assert not journal.fired("batch_layernorm")
        assert sum(n.target is F.layer_norm for n in gm.graph.nodes) == 6

    def test_results_of_joined_linears_are_slices_of_one_tensor(self):
        """Their norms are joined, with no stack in between."""

        def program(*t):
            return torch.stack([F.layer_norm(F.linear(x, w), (5,)) for x, w in zip(t[:6], t[6:], strict=True)])

        gm = graph_of(program, *(torch.randn(3, 4) for _ in range(6)), *(torch.randn(5, 4) for _ in range(6)))
        journal = optimus.rewrite(gm)
        assert {"batch_linear", "batch_layernorm"} <= set(journal.counts())
        assert cuts_and_joins(gm) == {"stack": 2}, "of inputs and of weights"

    def test_norms_of_slices_do_without_those_of_other_tensors(self):
        def program(x, *ys):
            return torch.stack([F.layer_norm(y, (4,)) for y in (*ys[:3], *torch.unbind(x), *ys[3:])])

        gm = graph_of(program, torch.randn(6, 3, 4), *(torch.randn(3, 4) for _ in range(6)))
        journal = optimus.rewrite(gm)
        assert journal.counts()["batch_layernorm"] == 1
        assert ("batch_layernorm", "own_inputs") in journal.reasons()
        assert sum(n.target is F.layer_norm for n in gm.graph.nodes) == 7

    def test_one_cut_and_one_join_for_three_functions(self):
        def program(x):
            pieces = torch.split(x, 2, 1)
            return torch.cat(
                [f(p) for f, part in zip((torch.tanh, F.relu, torch.sin), (pieces[:5], pieces[5:10], pieces[10:]), strict=True) for p in part], 1
            )

        gm = graph_of(program, torch.randn(3, 22))
        optimus.rewrite(gm)
        assert cuts_and_joins(gm) == {"split": 1, "getitem": 3, "cat": 1}
        x = torch.randn(3, 22)
        assert torch.equal(gm(x)[0], program(x))


class TestNestedGraphs:
    def test_the_graph_of_a_checkpoint_is_rewritten_too(self):
        from torch.utils.checkpoint import checkpoint

        def body(x):
            return torch.cat(torch.split(x, [1, 2])) * 2

        gm = graph_of(lambda x: checkpoint(body, x, use_reentrant=False), torch.randn(3, 2, requires_grad=True))
        journal = Engine(gm, Plan((SplitCat(),))).run()
        assert len(journal.rewrites) == 1
        x = torch.randn(3, 2)
        assert torch.equal(gm(x)[0], body(x))


class TestJournal:
    def test_it_says_what_where_and_why(self):
        def program(x):
            a, b = torch.split(x, [1, 2])
            return torch.cat([a, b]) * 2, torch.cat([b, a])

        gm = graph_of(program, torch.randn(3, 2))
        journal = optimus.rewrite(gm, Plan.of("split_cat_pass"))
        (found,) = journal.rewrites
        assert (found.number, found.pattern, found.ordinal, found.outputs) == (1, "split_cat_pass", 1, ("cat",))
        assert "test_engine.py" in found.lines[0]
        assert journal.counts() == {"split_cat_pass": 1}
        assert journal.fired("split_cat_pass")
        assert ("split_cat_pass", "consecutive") in journal.reasons()
        assert journal.nodes_before > journal.nodes_after
        assert journal.stopped == "every step of the plan is settled"
        assert '"rewrites"' in journal.to_json()
        assert str(journal).startswith("1 rewrites, ")


def test_a_reader_without_metadata_gets_the_old_strides():
    linears = [Step(f"v{k}", torch.nn.functional.linear, (Var("x0"), Var(f"x{k + 1}"))) for k in range(5)]
    joined = Step("joined", torch.cat, ([Var(s.name) for s in linears],), (("dim", 1),))
    inputs = tuple(Input(f"x{k}", (2, 2), seed=k) for k in range(6))
    gm = Program(inputs, (*linears, joined), ("joined",), bare=frozenset({"joined"})).graph()
    journal = optimus.rewrite(gm, optimus.Plan.of("batch_linear_lhs"))
    assert [r.pattern for r in journal.rewrites] == ["batch_linear_lhs"]
    assert not journal.declined
