"""ATen-IR: what lowering makes of a graph, what is proved of gradients, by which laws, and wrong pairs that must not be proved."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from optimus.passes.mutate_cat import MutateCat
from optimus.values import value
from tests.test_conformance import differ, evaluated
from tests.test_prover import graph, made, with_same_inputs
from tests.truth import no_term_is_taken_for_a_truth_value  # noqa: F401
from verify.aten import ACCUMULATIONS, AtenProof, prove_aten
from verify.judgement import Judgement, _aten_json
from verify.lowering import Lowered, LoweringError, lower
from verify.proof import Report, prove_case
from verify.prover.logic import SolverLogic
from verify.prover.solve import Valid, ask
from verify.semantics.logic import Part, Symbol
from verify.subject import as_subject
from verify.validation import Reading, validate
from verify.verdict import CLAIMS, GROUPING, LAWS, NEUTRAL, REORDERED, UNIT, Proved, Refuted, Unmodelled, Verdict
from verify.witness import real_inputs

SIZES = {"n": 3, "m": 5, "k": 4}
ALL = frozenset(LAWS)


def proof(before: Callable[..., Any], after: Callable[..., Any], shapes: str) -> AtenProof:
    return prove_aten(*with_same_inputs(graph(before, made(shapes, SIZES), False), graph(after, made(shapes, SIZES), False)))


# ------------------------------------------------------------------------------------------------------------- lowering


def parts(x, y):
    p, q, r = torch.split(x, [1, 2, 2], dim=1)
    return torch.cat([q, p], 1).tanh() @ y, F.relu(r) * 2 + q, r.detach()


def norm(x, w, b):
    return F.layer_norm(x, (5,), w, b).sigmoid(), x.clamp(-0.5, 1).sum(1)


def several_uses(x, w):
    y = F.linear(x, w)
    return y[:, 1:] * y[:, :-1], torch.stack([y[:, 0], y.mean(1)]), w.unbind(0)[2].nan_to_num(0.0)


def bilinear(x, y):
    return torch.einsum("bk,bkn->bn", x, y), (x.unsqueeze(1) @ y).squeeze(1) / 3 - y[:, 0]


def partly(x, y):
    return x.narrow(0, 1, 2).exp(), y.detach() * 2, torch.zeros_like(x).add(x[0])


def loss(x, scale):
    return ((x * scale) ** 2).sum()


def written_through_a_view(x):
    y = x * 2
    y[0].mul_(3)
    return y


def written_through_pieces(x):
    y = x * 2
    y[0] = x[1].sin()
    y[1:].add_(x[0])
    return y.sum(), y[2]


def sizes_too(x):
    y = torch.cat([x, x])
    return y.exp(), y.shape[0], x.shape[0] * x.shape[1] + 1


PROGRAMS = ((parts, "n 5, 3 k"), (norm, "n 5, 5, 5"), (several_uses, "n 5, k 5"), (bilinear, "n 5, n 5 k"), (partly, "n 5, n"), (loss, "n m, "),
            (written_through_a_view, "n m"), (written_through_pieces, "n m"), (sizes_too, "n m"))  # fmt: skip
programs = pytest.mark.parametrize(("program", "shapes"), PROGRAMS, ids=[p.__name__ for p, _ in PROGRAMS])


def run(gm: GraphModule, found: Lowered) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Real inputs and cotangents, and the outputs and gradients of eager."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    extents = [e for node in placeholders for e in getattr(value(node), "shape", (value(node),)) if isinstance(e, torch.SymInt)]
    inputs = real_inputs(placeholders, {str(e.node.expr): e.node.hint for e in extents if e.node.expr.is_Symbol})
    outputs = pytree.tree_leaves(gm(*inputs))
    assert found.requires_grad == tuple(getattr(o, "requires_grad", False) for o in outputs)
    ends = [o for o, requires in zip(outputs, found.requires_grad, strict=True) if requires]
    cotangents = [torch.randn_like(o) for o in ends]
    gradients = torch.autograd.grad(ends, [i for i in inputs if getattr(i, "requires_grad", False)], cotangents, allow_unused=True)
    return [i.detach() if isinstance(i, torch.Tensor) else i for i in inputs], cotangents, outputs, list(gradients)


def alike(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else bool(one == other)


@programs
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_joint_graph_computes_outputs_and_gradients(program: Callable[..., Any], shapes: str, dynamic: bool):
    gm = graph(program, made(shapes, SIZES), dynamic)
    found = lower(gm)
    inputs, cotangents, outputs, gradients = run(gm, found)
    seen = found.joint(*inputs, *cotangents)
    assert len(seen) == len(outputs) + len(gradients)
    assert all(itertools.starmap(alike, zip(found.forward(*inputs), outputs, strict=True)))
    assert all(itertools.starmap(alike, zip(seen, [*outputs, *gradients], strict=True)))


@programs
def test_the_semantics_of_the_joint_graph_are_those_of_autograd(program: Callable[..., Any], shapes: str):
    gm = graph(program, made(shapes, SIZES), False)
    found = lower(gm)
    inputs, cotangents, outputs, gradients = run(gm, found)
    outcome = evaluated(found.joint, [*inputs, *cotangents])
    assert all(r is True for r in outcome.required)
    for one, other in zip([*outputs, *gradients], outcome.outputs, strict=True):
        assert (one is None and other is None) or not differ(one, other, 2**12)


def test_lowering_adds_no_guards():
    gm = graph(parts, made("n 5, 3 k", SIZES), True)
    environment = next(value(n) for n in gm.graph.find_nodes(op="placeholder") if isinstance(value(n), torch.SymInt)).node.shape_env
    before = [str(g.expr) for g in environment.guards]
    lower(gm)
    assert [str(g.expr) for g in environment.guards] == before


def test_what_cannot_be_traced_is_said():
    gm = graph(lambda x: x + 1, made("n m", SIZES), False)
    (add,) = (node for node in gm.graph.nodes if node.op == "call_function")
    add.target = torch.mm
    add.args = (add.args[0], add.args[0])
    gm.recompile()
    with pytest.raises(LoweringError, match="RuntimeError"):
        lower(gm)
    found = prove_aten(gm, gm)
    assert isinstance(found.forward, Unmodelled)
    assert found.backward is None


def test_a_graph_without_metadata_is_refused():
    with pytest.raises(LoweringError, match="accepted are captured graphs with metadata"):
        lower(torch.fx.symbolic_trace(lambda x: x + 1))


class Spoils(torch.autograd.Function):
    """Its backward pass writes its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors[0].add_(1)
        return g * 2


def written_input(x, w):
    x.mul_(w)
    return w * 2


def bags(x, w):
    return F.embedding_bag(x, w)


NOT_LOWERED = {
    "an output that the backward pass writes": (lambda x: Spoils.apply(x), [torch.randn(3, 5, requires_grad=True)], "an output is add_"),
    "an input that comes to require a gradient": (written_input, [torch.randn(5), torch.randn(5, requires_grad=True)], "leaf Variable"),
    "a gradient of what was written since": (
        lambda x, b: (x * b, b.add_(1))[0],
        [torch.randn(5, requires_grad=True), torch.randn(5)],
        "modified by an inplace operation",
    ),
    "a size without a term": (bags, [torch.randint(0, 3, (2, 4)), torch.randn(3, 5, requires_grad=True)], "a division by a symbol"),
}


@pytest.mark.parametrize("name", NOT_LOWERED)
def test_what_has_no_joint_graph_is_unmodelled(name: str):
    program, inputs, why = NOT_LOWERED[name]
    gm = graph(program, inputs, True)
    found = prove_aten(gm, copy.deepcopy(gm))
    assert isinstance(found.forward, Unmodelled)
    assert why in found.forward.operator
    assert found.backward is None


def test_an_input_that_a_write_makes_require_a_gradient_must_be_returned():
    gm = graph(written_input, NOT_LOWERED["an input that comes to require a gradient"][1], False)
    (first, _) = gm.graph.find_nodes(op="placeholder")
    first.meta["example_value"] = value(first).detach()
    with pytest.raises(LoweringError, match="input 0 comes to require a gradient, and is not returned"):
        lower(gm)
    (write,) = (node for node in gm.graph.nodes if node.target == "mul_")
    output = gm.graph.output_node()
    output.args = ((write, *output.args[0]),)
    gm.recompile()
    found = lower(gm)
    assert (found.requires_grad, found.wanted) == ((True, True), ("l_inputs_1_",))


# -------------------------------------------------------------------------------------------- what is proved, and by what

RIGHT = {
    "moved": (lambda x: torch.cat(x.split(1, 1), 1) * 2, lambda x: x * 2, "n m", "E0", set()),
    "batched": (
        lambda x, y: torch.tanh(x) * torch.tanh(y),
        lambda x, y: torch.mul(*torch.tanh(torch.stack([x, y])).unbind(0)),
        "n m, n m",
        "E0",
        set(),
    ),
    "one piece used": (lambda x: x.split([1, 4], 1)[1].exp(), lambda x: x[:, 1:].exp(), "n m", "E0", set()),
    "pieces used twice": (
        lambda x: (lambda pieces: (torch.cat(pieces, 1).exp(), pieces[0].sin()))(x.split([2, 3], 1)),
        lambda x: (x.exp(), x[:, :2].sin()),
        "n m",
        "E2",
        {NEUTRAL},
    ),
    "one input of many": (
        lambda x, v, w: torch.cat([F.linear(x, v), F.linear(x, w)], 1),
        lambda x, v, w: F.linear(x, torch.cat([v, w])),
        "n m, k m, n m",
        "E1",
        {GROUPING},
    ),
    "a loss": (lambda x, y: (x * y).sum(), lambda x, y: torch.mul(x, y).sum(), "n m, ", "E0", set()),
    "sizes beside it": (lambda x: (torch.cat(x.split(1)) * 2, x.shape[0] + 1), lambda x: (x * 2, x.shape[0] + 1), "n m", "E0", set()),
    "written through a view": (written_through_a_view, lambda x: torch.cat([x[:1] * 2 * 3, x[1:] * 2]), "n m", "E2", {NEUTRAL}),
    "other uses first": (lambda x: (x.exp() + x.sin()) + x.cos(), lambda x: (x.cos() + x.sin()) + x.exp(), "n m", "E1", {REORDERED}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_pair_is_proved_by_no_more_laws_than_it_takes(name: str):
    before, after, shapes, claim, laws = RIGHT[name]
    found = proof(before, after, shapes)
    assert isinstance(found.forward, Proved)
    assert isinstance(found.backward, Proved)
    assert found.backward.claim == claim
    assert {law.text for law in LAWS.values()} & set(found.backward.ledger) == {LAWS[law].text for law in laws}
    assert found.accumulation == ACCUMULATIONS[1 if laws & {GROUPING, REORDERED} else 2]
    assert found.sides is not None
    assert found.sides.agree


def test_claims_are_the_weakest_of_their_laws():
    assert all(law.claim in CLAIMS for law in LAWS.values())
    assert LAWS[GROUPING].claim < LAWS[NEUTRAL].claim == LAWS[UNIT].claim


def test_side_conditions_are_shown():
    found = _aten_json(proof(partly, partly, "n 5, n"))
    assert found["forward"]["verdict"] == found["backward"]["verdict"] == "proved"
    assert len(found["inputs"]) == 2
    assert found["without_gradient"]["before"] == found["without_gradient"]["after"] == found["inputs"][1:]
    assert found["requires_grad"] == {"before": [True, False, True], "after": [True, False, True]}
    assert found["side_conditions_agree"] is True
    assert found["used_twice"] == {"before": 1, "after": 1}


def test_a_report_says_what_is_proved_at_both_levels():
    subject = as_subject(MutateCat())
    report = Report(subject.name, (prove_case(subject, subject.cases[-1]),))
    assert isinstance(report.verdict, Proved)
    assert isinstance(report.forward, Proved)
    assert isinstance(report.backward, Proved)
    assert (report.verdict.claim, report.forward.claim, report.backward.claim) == ("E0", "E0", "E2")
    assert report.accumulation == "the order is kept"
    found = Judgement(subject.name, "BITWISE", report).to_json()
    assert found["aten"]["backward"]["laws"] == ["congruence", "x + 0 = x"]
    assert found["aten"]["backward"]["means"] == CLAIMS["E2"].means
    assert all(part["aten"]["backward"]["verdict"] == "proved" for part in found["proof"] if part["must_fire"])
    assert "(E0; gradients E2; " in found["line"]


# ---------------------------------------------------------------------------------------------------------- wrong pairs


class Doubled(torch.autograd.Function):
    """Twice the input, with a gradient that says three times."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3, None


class DoubledWithNone(Doubled):
    @staticmethod
    def backward(ctx, g):
        return g * 2, None


class DoubledWithZeros(Doubled):
    @staticmethod
    def backward(ctx, g):
        return g * 2, torch.zeros_like(g)


def silent(x):
    with torch.no_grad():
        y = x.exp()
    return y * x


def only_real(x, by):
    """A function that fakes cannot run."""
    if isinstance(x, FakeTensor):
        raise TypeError("a fake tensor")
    return x * by


def setrow(x, k):
    y = torch.zeros_like(x)
    y[0] = x[k]
    return y


WRONG = {
    "a detach dropped": (lambda x: x * x.detach(), lambda x: x * x, "n m"),
    "a detach added": (lambda x: x.exp() * x, lambda x: x.exp().detach() * x, "n m"),
    "a detach moved": (lambda x, y: x.detach() * y + x, lambda x, y: x * y.detach() + x, "n m, n m"),
    "no_grad dropped": (silent, lambda x: x.exp() * x, "n m"),
    "another gradient at zero": (lambda x: F.relu(x) * 2, lambda x: x.clamp(min=0) * 2, "n m"),
    "a function with another gradient": (lambda x, y: Doubled.apply(x, y), lambda x, y: x * 2 + 0 * y.detach(), "n m, n m"),
    "None against zeros": (lambda x, y: DoubledWithNone.apply(x, y), lambda x, y: DoubledWithZeros.apply(x, y), "n m, n m"),
    "a gradient to the wrong input": (lambda x, y: (x + y) + (x - x.detach()), lambda x, y: (x + y) + (y - y.detach()), "n m, n m"),
    "a scalar detached": (lambda x, y: x * y, lambda x, y: x * y.detach(), "n m, "),
    "another number through a view": (written_through_a_view, lambda x: torch.cat([x[:1] * 2 * 4, x[1:] * 2]), "n m"),
    "the wrong row written": (lambda x: setrow(x, 0), lambda x: setrow(x, 1), "n m"),
    "an output of another shape": (lambda x: x * 2, lambda x: (x * 2).t(), "n m"),
    "an output of another dtype": (lambda x: x * 2, lambda x: (x * 2).double(), "n m"),
    "an output more": (lambda x: x * 2, lambda x: (x * 2, x * 3), "n m"),
    "one use less": (lambda x: x.exp() + (x - x.detach()) * 2, lambda x: x.exp() + (x - x.detach()), "n m"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_pair_is_not_proved(name: str):
    before, after, shapes = WRONG[name]
    found = proof(before, after, shapes)
    assert not isinstance(found.forward, Proved) or not isinstance(found.backward, Proved | None)


def written_leaf(x, w):
    y = x * w
    with torch.no_grad():
        w.add_(1)
        w.sub_(1)
    return y


RAISING = {
    "the result of exp written": (lambda x: x.exp() * 2, lambda x: x.exp().mul_(2), "n m"),
    "a factor written": (lambda x, w: x * w, written_leaf, "n m, n m"),
    "a loss of what was written": (lambda x: (x.exp() * 2).sum(), lambda x: x.exp().mul_(2).sum(), "n m"),
}


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_rewrite_that_autograd_refuses_is_refuted(name: str, dynamic: bool):
    before, after, shapes = RAISING[name]
    inputs = made(shapes, SIZES)
    found = prove_aten(*with_same_inputs(graph(before, inputs, dynamic), graph(after, inputs, dynamic)))
    assert isinstance(found.forward, Refuted)
    assert "the backward pass raises" in found.forward.counterexample.what
    assert found.backward is None
    assert found.sides is None


def test_what_only_the_second_graph_hides_from_lowering_is_unmodelled():
    gm = graph(lambda x: x * 2, made("n m", SIZES), False)
    other = graph(lambda x: x * 2, made("n m", SIZES), False)
    (node,) = (node for node in other.graph.nodes if node.op == "call_function")
    node.target = only_real
    other.graph.owning_module.recompile()
    found = prove_aten(gm, other)
    assert isinstance(found.forward, Unmodelled)
    assert "lowering the second graph to ATen-IR: TypeError" in found.forward.operator


def joint(before: Callable[..., Any], after: Callable[..., Any], shapes: str) -> Verdict:
    """The verdict on the joint graphs alone, by all laws."""
    one, other = with_same_inputs(graph(before, made(shapes, SIZES), False), graph(after, made(shapes, SIZES), False))
    reading = Reading(differentiated=True, laws=ALL)
    return validate(lower(one).joint, lower(other).joint, private=frozenset(range(9)), reading=reading)


@pytest.mark.parametrize("name", ["a detach dropped", "a detach moved", "no_grad dropped", "None against zeros"])
def test_what_only_gradients_show_is_refuted_by_them(name: str):
    before, after, shapes = WRONG[name]
    found = proof(before, after, shapes)
    assert isinstance(found.forward, Proved)
    assert isinstance(found.backward, Refuted)
    assert found.backward.counterexample.what.startswith("the gradient of ")
    assert found.backward.counterexample.differences


def test_outputs_that_no_longer_require_gradients_are_refuted():
    found = proof(lambda x: x * 2, lambda x: x.detach() * 2, "n m")
    assert isinstance(found.forward, Proved)
    assert isinstance(found.backward, Refuted)
    assert found.backward.counterexample.what == "output 0: requires_grad (True,) became (False,)"
    assert found.sides is not None
    assert not found.sides.agree


def test_a_gradient_twice_as_large_is_refuted_by_all_laws():
    assert isinstance(joint(lambda x: x * 2 + (x - x.detach()), lambda x: x * 2, "n m"), Refuted)


# ------------------------------------------------------------------------------------------------------------ laws alone


def follows(laws: frozenset[str], build: Callable[[SolverLogic, Any], Any], premises: Callable[..., list[Any]] = lambda *_: []) -> bool:
    """Whether an equation holds by ``laws``; ``build`` gets the algebra and a size."""
    logic = SolverLogic(laws=laws)
    size = logic.integer("n")
    logic.premises = [size >= 2, *premises(logic, size)]
    left, right = build(logic, size)
    return isinstance(ask(logic, logic.premises, left == right, [size], 5.0), Valid)


def binary(op: str) -> Symbol:
    return Symbol(op, ("float32", "float32"), (("self", "#1"), ("other", "#2")), "", "float32")


ADD, MUL, TOTAL = binary("add"), binary("mul"), Symbol("sum", ("float32",), (), "", "float32")
ZERO, ONE, TWO = (Symbol("constant", (), (("value", text),), "", "float32") for text in ("0.0", "1.0", "2.0"))


def a(logic: SolverLogic, k: int = 0) -> Any:
    return logic.element("a", (k,))


def added(logic: SolverLogic, *terms: Any) -> Any:
    found = terms[0]
    for term in terms[1:]:
        found = logic.apply(ADD, found, term)
    return found


def summed(logic: SolverLogic, extent: Any, body: Callable[[Any], Any]) -> Any:
    return logic.total(TOTAL, Part((extent,), lambda i: body(i[0])), "kernel")


def joined(logic: SolverLogic, cut: Any, swapped: bool = False) -> Callable[[Any], Any]:
    """``b`` before ``cut``, ``c`` behind it."""
    names = ("c", "b") if swapped else ("b", "c")
    return lambda i: logic.ite(i < cut, logic.element(names[0], (i,)), logic.element(names[1], (i - cut,)))


def sections(logic: SolverLogic, n: Any, first: str = "b", second: str = "c") -> Any:
    return added(logic, summed(logic, 3, lambda i: logic.element(first, (i,))), summed(logic, n, lambda i: logic.element(second, (i,))))


HOLD: dict[str, tuple[set[str], Callable[[SolverLogic, Any], Any]]] = {
    "associative": (set(), lambda g, n: (added(g, a(g), added(g, a(g, 1), a(g, 2))), added(g, a(g, 2), a(g), a(g, 1)))),
    "neutral": ({NEUTRAL}, lambda g, n: (added(g, g.apply(ZERO), a(g)), a(g))),
    "neutral where it is chosen": ({NEUTRAL}, lambda g, n: (added(g, g.ite(n > 3, g.apply(ZERO), a(g)), a(g, 1)), g.ite(n > 3, a(g, 1), added(g, a(g), a(g, 1))))),
    "unit": ({UNIT}, lambda g, n: (g.apply(MUL, a(g), g.apply(ONE)), a(g))),
    "sum of sections": ({GROUPING}, lambda g, n: (summed(g, n + 3, joined(g, 3)), sections(g, n))),
    "sum of sections of symbolic length": (
        {GROUPING},
        lambda g, n: (
            summed(g, n + n, joined(g, n)),
            added(g, summed(g, n, lambda i: g.element("b", (i,))), summed(g, n, lambda i: g.element("c", (i,)))),
        ),
    ),
    "sum of few": ({GROUPING, NEUTRAL}, lambda g, n: (summed(g, 2, lambda i: g.element("b", (i,))), added(g, g.element("b", (1,)), g.element("b", (0,))))),
    "one summand that is not zero": (
        {GROUPING, NEUTRAL},
        lambda g, n: (summed(g, n, lambda i: g.ite(i == 1, g.element("b", (i,)), g.apply(ZERO))), g.element("b", (1,))),
    ),
    "zeros in front": (
        {GROUPING, NEUTRAL},
        lambda g, n: (summed(g, n + n, lambda i: g.ite(i >= n, g.element("b", (i - n,)), g.apply(ZERO))), summed(g, n, lambda i: g.element("b", (i,)))),
    ),
}  # fmt: skip
FAIL: dict[str, Callable[[SolverLogic, Any], Any]] = {
    "idempotent": lambda g, n: (added(g, a(g), a(g)), a(g)),
    "absorbed": lambda g, n: (added(g, a(g), a(g, 1)), a(g)),
    "one is not neutral": lambda g, n: (added(g, g.apply(ONE), a(g)), a(g)),
    "two is no unit": lambda g, n: (g.apply(MUL, a(g), g.apply(TWO)), a(g)),
    "zero times": lambda g, n: (g.apply(MUL, a(g), g.apply(ZERO)), g.apply(ZERO)),
    "distributive": lambda g, n: (
        g.apply(MUL, a(g), added(g, a(g, 1), a(g, 2))),
        added(g, g.apply(MUL, a(g), a(g, 1)), g.apply(MUL, a(g), a(g, 2))),
    ),
    "products are no sums": lambda g, n: (g.apply(MUL, a(g), a(g, 1)), added(g, a(g), a(g, 1))),
    "sections swapped": lambda g, n: (summed(g, n + 3, joined(g, 3, swapped=True)), sections(g, n)),
    "a section short": lambda g, n: (summed(g, n + 2, joined(g, 3)), sections(g, n)),
    "a cut elsewhere": lambda g, n: (summed(g, n + 3, joined(g, 2)), sections(g, n)),
    "a summand less": lambda g, n: (summed(g, 3, lambda i: g.element("b", (i,))), added(g, g.element("b", (1,)), g.element("b", (0,)))),
    "one summand that may not be there": lambda g, n: (
        summed(g, n, lambda i: g.ite(i == 2, g.element("b", (i,)), g.apply(ZERO))),
        g.element("b", (2,)),
    ),
    "ones are no zeros": lambda g, n: (summed(g, n, lambda i: g.ite(i == 1, g.element("b", (i,)), g.apply(ONE))), g.element("b", (1,))),
    "a cut that may lie outside": lambda g, n: (
        summed(g, 20, joined(g, n)),
        added(g, summed(g, n, lambda i: g.element("b", (i,))), summed(g, 20 - n, lambda i: g.element("c", (i,)))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLD)
def test_a_law_proves_what_it_says_and_no_fewer_laws_do(name: str):
    laws, build = HOLD[name]
    assert follows(frozenset(laws), build)
    assert follows(ALL, build)
    assert not laws or not follows(ALL - laws, build)


@pytest.mark.parametrize("name", FAIL)
def test_no_law_proves_what_is_false(name: str):
    for laws in (frozenset[str](), frozenset({NEUTRAL}), frozenset({GROUPING}), ALL):
        assert not follows(laws, FAIL[name])
