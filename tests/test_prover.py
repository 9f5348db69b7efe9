"""What the prover says: each kind of verdict, pairs made to mislead it, sums, scale, and that two solvers are asked.

Pairs of programs are captured by Dynamo, with plain sizes and with symbolic ones, and validated.
"""

from __future__ import annotations

import copy
import itertools
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import z3
from torch.fx import Graph, GraphModule, Node

import verify.prover.task
from fuzz.program import Input, Program, Region, Step, Var
from optimus.capture import capture
from optimus.values import value
from verify.prover.solve import ask, confirm
from verify.prover.task import Task
from verify.semantics.logic import Part, Symbol
from verify.validation import validate
from verify.verdict import Proved, Refuted, Unknown, Unmodelled, Vacuous, Verdict, explain, word

SMALL = 4
SIZES = {"n": 3, "m": 5, "k": 4, "p": 2, "q": 6, "e": 7}


# ------------------------------------------------------------------------------------------------------------- capture


def made(shapes: str, sizes: dict[str, int], grad: bool = True) -> list[torch.Tensor]:
    """Tensors of the shapes ``"n m, k: bfloat16"``."""
    found = []
    for text in shapes.split(","):
        dims, _, dtype = text.partition(":")
        shape = [sizes[d] if d.isalpha() else int(d) for d in dims.split()]
        kind = getattr(torch, dtype.strip() or "float32")
        tensor = torch.randn(shape).to(kind) if kind.is_floating_point else torch.randint(0, 2, shape).to(kind)
        found.append(tensor.requires_grad_(grad and kind.is_floating_point))
    return found


def graph(function: Callable[..., Any], inputs: list[Any], dynamic: bool) -> GraphModule:
    def program(*inputs):  # inputs are named after this
        return function(*inputs)

    (found,) = capture(program, inputs, dynamic=dynamic)
    return found.gm


def judged(before: Callable[..., Any], after: Callable[..., Any], inputs: list[Any], dynamic: bool = False, **options: Any) -> Verdict:
    return validate(*with_same_inputs(graph(before, inputs, dynamic), graph(after, inputs, dynamic)), **options)


def with_same_inputs(left: GraphModule, right: GraphModule) -> tuple[GraphModule, GraphModule]:
    """The graphs with the same inputs in the same order; Dynamo orders them by first use, and leaves out what is not used."""
    names = sorted({n.name for gm in (left, right) for n in gm.graph.find_nodes(op="placeholder")})
    return with_inputs(left, right, names), with_inputs(right, left, names)


def with_inputs(gm: GraphModule, other: GraphModule, names: list[str]) -> GraphModule:
    own, others = ({n.name: n for n in g.graph.find_nodes(op="placeholder")} for g in (gm, other))
    extents = {str(s): s for n in own.values() for s in getattr(value(n), "shape", ())}
    rebuilt = Graph()
    copied: dict[Node, Node] = {}
    for name in names:
        node = rebuilt.placeholder(name)
        given = own.get(name, others.get(name))
        assert given is not None
        node.meta["example_value"] = value(given) if name in own else extents.get(str(value(given)), value(given))
        copied[given] = node
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            copied[node] = rebuilt.node_copy(node, lambda n: copied[n])
    return GraphModule(torch.nn.Module(), rebuilt)


def chain(*steps: tuple[str, Any, tuple[Any, ...]] | Step | Region, inputs: list[Input], outputs: str) -> GraphModule:
    body = tuple(s if isinstance(s, (Step, Region)) else Step(s[0], s[1], s[2]) for s in steps)
    return Program(tuple(inputs), body, tuple(outputs.split())).graph()


# ------------------------------------------------------------------------------------------------------ kinds of verdict


def test_proved_says_how_equal_and_how_many_queries():
    verdict = judged(lambda x: torch.cat(x.split(2), 0).tanh(), lambda x: x.tanh(), made("6 n", SIZES))
    assert isinstance(verdict, Proved)
    assert (verdict.claim, verdict.queries, verdict.confirmed) == ("E0", 1, 1)
    assert explain(verdict) == "proved (E0), 1 queries, 1 confirmed by a second solver"


def test_refuted_comes_with_small_sizes_and_what_eager_showed():
    verdict = judged(lambda x, y: torch.cat([x, y], 1), lambda x, y: torch.cat([y, x], 1), made("n m, n m", SIZES), dynamic=True)
    assert isinstance(verdict, Refuted)
    found = verdict.counterexample
    assert found.what == "output 0"
    assert found.sizes
    assert all(1 <= size <= SMALL for size in found.sizes.values())
    assert found.differences[0].startswith("output 0: ")
    assert "torch.cat" in found.before
    assert "torch.cat" in found.after
    assert [tuple(i.shape) for i in found.inputs if isinstance(i, torch.Tensor)] == [(2, 2), (2, 2)]


def test_vacuous_when_the_first_graph_always_raises():
    bad = chain(inputs=[Input("a", (2, 3)), Input("b", (4, 5))], outputs="a")
    a, b = bad.graph.find_nodes(op="placeholder")
    with bad.graph.inserting_after(b):
        bad.graph.call_function(torch.mm, (a, b))
    bad.recompile()
    verdict = validate(bad, copy.deepcopy(bad))
    assert isinstance(verdict, Vacuous)
    assert verdict.reason == "the first graph raises for all sizes, at mm, mm"


def test_vacuous_when_the_premises_contradict_one_another(monkeypatch: pytest.MonkeyPatch):
    gm = graph(lambda x: x + 1, made("n m", SIZES), dynamic=True)
    size = value(next(n for n in gm.graph.find_nodes(op="placeholder") if isinstance(value(n), torch.SymInt)))
    bool(size > 7) if size.node.shape_env.guards else None
    plain = verify.prover.task.Task.assume

    def impossible(self: Task) -> None:
        plain(self)
        (first, *_) = self.variables()
        self.logic.premises += [first > 7, first < 5]

    monkeypatch.setattr(verify.prover.task.Task, "assume", impossible)
    verdict = validate(gm, copy.deepcopy(gm))
    assert verdict == Vacuous("the premises of the graph contradict one another")


def test_vacuous_when_there_is_nothing_to_compare():
    gm = chain(inputs=[], outputs="")
    assert validate(gm, copy.deepcopy(gm)) == Vacuous("the graph neither takes nor returns anything")


def test_unknown_when_there_is_no_time():
    gm = graph(lambda x: x.tanh(), made("n m", SIZES), dynamic=True)
    verdict = validate(gm, copy.deepcopy(gm), timeout_s=0.0)
    assert verdict == Unknown("output 0: timeout")


def test_unknown_when_the_counterexample_does_not_replay():
    verdict = judged(lambda x: x * 2, lambda x: x + x, made("n m", SIZES), dynamic=True)
    assert isinstance(verdict, Unknown)
    assert verdict.reason.startswith("output 0: differs in the semantics for {'s")
    assert verdict.reason.endswith("}, but not on real tensors")


def test_unmodelled_names_the_operator():
    strided = judged(lambda x: x.as_strided((2, 2), (1, 1)) + 1, lambda x: x.as_strided((2, 2), (1, 1)) + 1, made("n m", SIZES))
    assert strided == Unmodelled("as_strided, a view without semantics")
    indexed = judged(lambda x: x[[0, 1]], lambda x: x[[0, 1]], made("n m", SIZES))
    assert indexed == Unmodelled("indexing by tensors, lists or truth values")


@pytest.mark.parametrize(
    ("shapes", "others", "dynamic", "said"),
    [
        ("n m", "m n", False, "the size 3 is 5 in the second graph"),
        ("n m", "n m: float64", False, "the inputs l_inputs_0_ and l_inputs_0_ do not correspond"),
        ("n m", "n m 2", False, "the inputs l_inputs_0_ and l_inputs_0_ do not correspond"),
        ("n n", "n m", True, "the graphs have 2 and 3 inputs"),
    ],
)
def test_inputs_must_correspond(shapes: str, others: str, dynamic: bool, said: str):
    def program(x):
        return x + 1

    one, other = (graph(program, made(s, SIZES), dynamic) for s in (shapes, others))
    if said.startswith("the graphs"):
        other = chain(("r", torch.add, (Var("a"), 1)), inputs=[Input("a", (2, 3)), Input("b", (2, 3)), Input("c", (1,))], outputs="r")
    with pytest.raises(ValueError, match=said):
        validate(one, other)


def test_inputs_must_agree_in_gradients_and_layout():
    def program(x):
        return x + 1

    one = graph(program, made("n m", SIZES), False)
    with pytest.raises(ValueError, match="do not correspond"):
        validate(one, graph(program, made("n m", SIZES, grad=False), False))
    with pytest.raises(ValueError, match="do not correspond"):
        validate(one, graph(program, [torch.randn(5, 3).t().requires_grad_()], False))


def test_static_against_symbolic_sizes_do_not_correspond():
    def program(x):
        return x.flatten() + 1

    with pytest.raises(ValueError, match=r"the graphs have 3 and 1 inputs"):
        validate(graph(program, made("n m", SIZES), True), graph(program, made("n m", SIZES), False))


def test_a_second_capture_for_fewer_sizes_proves_nothing():
    def even(x):
        if x.shape[0] % 2:
            return x + 1
        return x + 2

    inputs = made("k m", SIZES)
    verdict = validate(graph(lambda x: x + 2, inputs, True), graph(even, inputs, True))
    assert isinstance(verdict, Unmodelled)
    assert verdict.operator.startswith("a second graph captured for fewer sizes, those with ")
    assert isinstance(validate(graph(even, inputs, True), graph(lambda x: x + 2, inputs, True)), Proved)


# --------------------------------------------------------------------------------------------------- pairs that mislead


@dataclass(frozen=True)
class Pair:
    """Two programs, shapes, and the verdict with plain and with symbolic sizes; one alone stands for both."""

    name: str
    before: Callable[..., Any]
    after: Callable[..., Any]
    shapes: str
    static: str
    dynamic: str = ""
    grad: bool = True

    def expected(self, dynamic: bool) -> str:
        """A word, or the claim of a proof."""
        return (self.dynamic or self.static) if dynamic else self.static


def no_grad(function: Callable[..., Any]) -> Callable[..., Any]:
    def program(*inputs):
        with torch.no_grad():
            found = function(*inputs)
        return found * inputs[0]

    return program


def autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    def program(*inputs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function(*inputs)

    return program


def read_then_write(x):
    y = x * 2
    z = y + 1
    y.add_(3)
    return y, z


def write_then_read(x):
    y = x * 2
    y.add_(3)
    return y, y + 1


def write_and_take_back(x):
    y = x * 2
    z = y.add(3) - 2
    y.add_(3)
    return y, z


def through_a_view(x):
    y = x * 2
    y[1:].mul_(3)
    return y


def rebuilt(x):
    y = x * 2
    return torch.cat([y[:1], y[1:] * 3])


def written_under_no_grad(x, w):
    y = x * w
    with torch.no_grad():
        y.copy_(w)
    return y * 2


def written(x, w):
    y = x * w
    y.copy_(w)
    return y * 2


def view_under_no_grad(x):
    with torch.no_grad():
        y = x.t()
    return y * x.t()


def through_detach(x, w):
    y = x * 1
    y.detach().add_(1)
    return y * w


def detached_copy(x, w):
    return (x * 1).detach().add(1) * w


def leaves_no_grad_behind(x):
    torch.set_grad_enabled(False)
    return x * 2


def drops_a_draw(x):
    torch.rand_like(x)
    return x * 2


def swapped_draws(x, y):
    b = F.dropout(y, 0.5)
    return F.dropout(x, 0.5), b


def normed(x, w, b):
    return F.layer_norm(x, (4,), w, b)


PAIRS = (
    # sizes
    Pair("equal for sizes of 2 and more", lambda x: x.squeeze(0) * 2, lambda x: x * 2, "n m", "E0"),
    Pair("equal for sizes of 2 and more, at 1", lambda x: x.squeeze(0) * 2, lambda x: x * 2, "1 m", "refuted", "refuted"),
    Pair("equal for sizes of 3 and more", lambda x: x[:3] * 2, lambda x: torch.cat([x[:2], x[2:3]]) * 2, "k m", "E0"),
    Pair("equal for even sizes, at an odd one", lambda x: x * 2, lambda x: x[: x.shape[0] // 2 * 2] * 2, "n m", "refuted"),
    Pair("equal for even sizes, at an even one", lambda x: x * 2, lambda x: x[: x.shape[0] // 2 * 2] * 2, "k m", "E0", "refuted"),
    Pair("equal if two sizes are", lambda x, y: x[: y.shape[0]] * 2 * y[0], lambda x, y: x * 2 * y[0], "n m, n m", "E0", "refuted"),
    Pair("equal extents, cut in another order", lambda x: x[:, : x.shape[1] // 2] * 2, lambda x: x[:, x.shape[1] - x.shape[1] // 2 :] * 2, "n k", "refuted"),
    Pair("reshape for transpose of a square", lambda x: x.reshape(x.shape[1], -1) * 2, lambda x: x.t() * 2, "n n", "refuted"),
    Pair("reshape for transpose", lambda x: x.reshape(x.shape[1], -1) * 2, lambda x: x.t() * 2, "n m", "refuted", "unmodelled"),
    Pair("reshape for transpose of a row", lambda x: x.reshape(x.shape[1], 1) * 2, lambda x: x.t() * 2, "1 m", "E0"),
    Pair("another order of flattened dimensions", lambda x: x.flatten(), lambda x: x.transpose(0, 1).flatten(), "n n", "refuted", "unmodelled"),
    Pair("one row more", lambda x: x[1:], lambda x: x[:-1], "n m", "refuted"),
    # lists
    Pair("sections swapped", lambda x: torch.cat(x.split([2, 4], 1)[::-1], 1), lambda x: torch.cat(x.split([4, 2], 1)[::-1], 1), "n 6", "refuted"),
    Pair("equal sections swapped", lambda x: torch.cat(x.split([3, 3], 1)[::-1], 1), lambda x: torch.cat(x.split(3, 1)[::-1], 1), "n 6", "E0"),
    Pair("sorted", lambda a, b, c: torch.cat([a, b, c]), lambda a, b, c: torch.cat((torch.cat([a, b]), c)), "n m, n m, n m", "E0"),
    Pair("not sorted", lambda a, b, c: torch.cat([a, c, b]), lambda a, b, c: torch.cat([a, b, c]), "n m, n m, n m", "refuted"),
    Pair("one piece twice", lambda a, b, c: torch.cat([a, b, b + 0 * c]), lambda a, b, c: torch.cat([a, b, c]), "n m, n m, n m", "refuted"),
    Pair("a piece missing", lambda x: torch.cat(x.split(2, 1)[:2], 1), lambda x: x * 1, "n 6", "refuted"),
    Pair("another dimension", lambda x, y: (x + y, torch.cat([x, y], 0)), lambda x, y: (x + y, torch.cat([x, y], 1).reshape(-1, x.shape[1])), "n n, n n", "refuted"),
    # numbers
    Pair("association", lambda a, b, c: (a + b) + c, lambda a, b, c: a + (b + c), "n m, n m, n m", "unknown"),
    Pair("distribution", lambda a, b, c: (a + b) * c, lambda a, b, c: a * c + b * c, "n m, n m, n m", "refuted"),
    Pair("plus zero", lambda x: (x + 0) * 2, lambda x: x * 2, "n m", "refuted"),
    Pair("minus zero", lambda x: (x - 0) * 2, lambda x: x * 2, "n m", "unknown"),
    Pair("times one", lambda x: (x * 1) * 2, lambda x: x * 2, "n m", "unknown"),
    Pair("times zero", lambda x: x * 0, lambda x: torch.zeros_like(x), "n m", "refuted"),
    Pair("twice negated", lambda x: -(-x) * 2, lambda x: x * 2, "n m", "unknown"),
    Pair("relu as a maximum", lambda x: x.relu(), lambda x: torch.maximum(x, torch.zeros_like(x)), "n m", "refuted"),
    Pair("another literal", lambda x: x * 2.0, lambda x: x * 2.0000001, "n m", "unknown"),
    Pair("another rounding mode", lambda a, b: torch.div(a, b, rounding_mode="floor"), lambda a, b: torch.div(a, b, rounding_mode="trunc"), "n m, n m", "refuted"),
    Pair("operands swapped", lambda a, b: a - b, lambda a, b: b - a, "n m, n m", "refuted"),
    Pair("keywords in another order", lambda a: torch.clamp(a, min=0, max=1), lambda a: torch.clamp(a, max=1, min=0), "n m", "E0"),
    Pair("in lower precision", lambda x: x.tanh(), lambda x: x.bfloat16().tanh().float(), "n m", "refuted"),
    Pair("in higher precision", lambda x: x.tanh(), lambda x: x.float().tanh().bfloat16(), "n m: bfloat16", "unknown"),
    Pair("a result in lower precision", lambda x: x.tanh(), lambda x: x.tanh().bfloat16(), "n m", "refuted"),
    Pair("promoted first", lambda x, y: torch.cat([x, y]), lambda x, y: torch.cat([x.float(), y]), "n m: bfloat16, k m", "E0"),
    Pair("promoted last", lambda x, y: torch.cat([x, y]).tanh(), lambda x, y: torch.cat([x.tanh(), y.tanh()]), "n m: bfloat16, k m", "unknown"),
    Pair("a scalar tensor promotes otherwise", lambda x, y: (x * y).float(), lambda x, y: (x * y.expand(x.shape)).float(), "n m: bfloat16, ", "refuted"),
    # gradients and modes
    Pair("detach dropped", lambda x, w: x.detach() * w, lambda x, w: x * w, "n m, n m", "refuted"),
    Pair("detach of what needs no gradient", lambda x: x.detach() * 2, lambda x: x * 2, "n m", "unknown", grad=False),
    Pair("detach after reading", lambda x, w: x.t().detach() * w.t(), lambda x, w: x.detach().t() * w.t(), "n m, n m", "E0"),
    Pair("no_grad dropped", no_grad(lambda x: x.tanh()), lambda x: x.tanh() * x, "n m", "refuted"),
    Pair("no_grad kept", no_grad(lambda x: x.t().tanh().t()), no_grad(lambda x: x.t().tanh().t()), "n m", "E0"),
    Pair("no_grad round a view dropped", view_under_no_grad, lambda x: x.t() * x.t(), "n m", "refuted"),
    Pair("no_grad round a write dropped", written_under_no_grad, written, "n m, n m", "refuted"),
    Pair("a write through detach", through_detach, detached_copy, "n m, n m", "refuted"),
    Pair("grad mode left behind", leaves_no_grad_behind, no_grad(lambda x: x * 2), "n m", "refuted"),
    Pair("autocast dropped", autocast(F.linear), F.linear, "n m, k m", "refuted"),
    Pair("autocast kept", autocast(F.linear), autocast(lambda x, w: x @ w.t()), "n m, k m", "E1"),
    Pair("autocast round what it does not change", autocast(lambda x: x * 2), lambda x: x * 2, "n m", "unknown"),
    # memory
    Pair("read before the write", read_then_write, write_then_read, "n m", "refuted"),
    Pair("read before the write, taken back", read_then_write, write_and_take_back, "n m", "unknown"),
    Pair("written through a view", through_a_view, rebuilt, "n m", "E0", "unmodelled"),
    Pair("clone dropped", lambda x: (y := x * 2, y.clone()), lambda x: (y := x * 2, y), "n m", "refuted"),
    Pair("clone of an inner value dropped", lambda x: (x * 2).clone() + 1, lambda x: x * 2 + 1, "n m", "E0"),
    Pair("view for a copy of an input", lambda x: x[1:].clone(), lambda x: x[1:], "n m", "refuted"),
    Pair("copy for a view of an input", lambda x: x.t(), lambda x: x.t().contiguous(), "n m", "refuted"),
    Pair("two views for one", lambda x: (x * 2).split(1), lambda x: tuple((x * 2)[k : k + 1] for k in range(x.shape[0])), "n m", "refuted"),
    Pair("other strides", lambda x: (x * 2).t(), lambda x: x.t().contiguous() * 2, "n m", "refuted"),
    Pair("input written", lambda x: x.add_(1) * 2, lambda x: (x + 1) * 2, "n m", "refuted", grad=False),
    Pair("input written in both", lambda x: x.add_(1) * 2, lambda x: 2 * x.add_(1), "n m", "E0", grad=False),
    Pair("input written twice for once", lambda x: x.add_(1).add_(1) * 2, lambda x: x.add_(2) * 2, "n m", "unknown", grad=False),
    Pair("input written through a view", lambda x: x[0].zero_() + 1, lambda x: x[1].zero_() + 1, "n m", "refuted", grad=False),
    # draws
    Pair("one draw for two", lambda x: (F.dropout(x), F.dropout(x)), lambda x: (d := F.dropout(x), d * 1), "n m", "refuted"),
    Pair("draws swapped", lambda x, y: (F.dropout(x, 0.5), F.dropout(y, 0.5)), swapped_draws, "n m, n m", "refuted"),
    Pair("draws as they were", lambda x, y: (F.dropout(x, 0.5), F.dropout(y, 0.5)), lambda x, y: (F.dropout(x * 1, 0.5), F.dropout(y, 0.5)), "n m, n m", "unknown"),
    Pair("a draw dropped", drops_a_draw, lambda x: x * 2, "n m", "unknown"),
    Pair("another draw", lambda x: torch.rand_like(x) * x, lambda x: torch.randn_like(x) * x, "n m", "refuted"),
    # black boxes
    Pair("embedding", lambda i, w: F.embedding(torch.cat([i[:1], i[1:]]), w), F.embedding, "n: int64, k m", "E0"),
    Pair("embedding of another table", lambda i, w, u: F.embedding(i, w) * u[0], lambda i, w, u: F.embedding(i, u) * u[0], "n: int64, k m, k m", "refuted"),
    Pair("embedding of other indices", lambda i, j, w: F.embedding(i, w) + j[0], lambda i, j, w: F.embedding(j, w) + j[0], "n: int64, n: int64, k m", "refuted"),
    Pair("softmax", lambda x: torch.cat([x[:1], x[1:]]).softmax(1), lambda x: x.softmax(1), "n m", "E0"),
    Pair("softmax along another dimension", lambda x: x.softmax(0), lambda x: x.softmax(1), "n n", "refuted"),
    Pair("softmax of the transpose", lambda x: x.t().softmax(0).t() * 2, lambda x: x.softmax(1) * 2, "n m", "refuted"),
    Pair("layer norm", lambda x, w, b: normed(torch.cat([x[:1], x[1:]]), w, b), normed, "n 4, 4, 4", "E0"),
    Pair("layer norm, weight and bias swapped", normed, lambda x, w, b: normed(x, b, w), "n 4, 4, 4", "refuted"),
    Pair("layer norm, another eps", normed, lambda x, w, b: F.layer_norm(x, (4,), w, b, 0.5), "n 4, 4, 4", "refuted"),
    Pair("index_select", lambda x, i: torch.cat([x[:1], x[1:]]).index_select(0, i), lambda x, i: x.index_select(0, i), "n m, k: int64", "E0"),
    Pair("index_select along another dimension", lambda x, i: x.index_select(0, i), lambda x, i: x.index_select(1, i), "n n, n: int64", "refuted"),
    Pair("index_select of other indices", lambda x, i, j: x.index_select(0, i) * j[0], lambda x, i, j: x.index_select(0, j) * j[0], "n m, k: int64, k: int64", "refuted"),
    Pair("gather", lambda x, i: x.gather(1, i), lambda x, i: x.gather(0, i), "n n, n n: int64", "refuted", "unmodelled"),
    Pair("a reduction", lambda x: x.sum(0), lambda x: x.sum(1), "n n", "refuted"),
    Pair("a reduction of other rows", lambda x: x[1:].sum(0), lambda x: x[:-1].sum(0), "n m", "refuted"),
    Pair("a reduction of the same rows", lambda x: x[1:].sum(0), lambda x: x.narrow(0, 1, x.shape[0] - 1).sum(0), "n m", "E0"),
    Pair("several results", lambda x: x.max(0), lambda x: x[:].max(0), "n m", "E0"),
    Pair("several results swapped", lambda x: x.topk(2)[0], lambda x: x.topk(2)[1].float(), "n m", "refuted"),
)  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.name)
def test_pairs_that_mislead(pair: Pair, dynamic: bool):
    verdict = judged(pair.before, pair.after, made(pair.shapes, SIZES, pair.grad), dynamic)
    seen = verdict.claim if isinstance(verdict, Proved) else word(verdict)
    assert seen == pair.expected(dynamic), explain(verdict)
    if isinstance(verdict, Proved):
        assert 0 < verdict.queries == verdict.confirmed
    if isinstance(verdict, Refuted):
        assert verdict.counterexample.differences
        assert all(size <= SMALL for size in verdict.counterexample.sizes.values())
