"""Rules that are true under a condition only: the prover gets each right, and says of what class a true one is.

Every pair is true where its condition holds and false where it does not. It is judged where the condition holds by plain
sizes, where it fails by plain sizes, and with every size a symbol, for all sizes that the capture admits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import z3

import optimus
from benchmarks.pieces import PROGRAMS, for_any_number
from fuzz.templates import captured
from optimus.engine import Engine
from optimus.pattern import IR
from optimus.plan import Plan
from tests.test_prover import judged, made
from tests.truth import no_term_is_taken_for_a_truth_value  # noqa: F401
from verify.prover.session import Session
from verify.validation import validate
from verify.verdict import Proved, Refuted, Verdict, explain, word

SIZES = {"n": 3, "m": 5, "k": 4, "p": 2, "q": 6, "z": 0, "i": 1, "w": 70}


@dataclass(frozen=True)
class Rule:
    """Two programs, and what is said of them for each list of shapes: a word, or the claim of a proof.

    ``static``: with plain sizes; ``dynamic``: with symbols. ``why``: why an answer is unknown although there is a truth. Where a condition is a guard
    of the capture, it is a premise: the guards of ``x[:4]`` on three rows say that there are at most 4.
    """

    name: str
    before: Callable[..., Any]
    after: Callable[..., Any]
    static: dict[str, str]
    dynamic: dict[str, str]
    why: str = ""
    grad: bool = True


def half(x: torch.Tensor) -> int:
    return x.shape[0] // 2


LAW = "the law is one of the operators' arithmetic, and operators are uninterpreted"
ROUNDS = "the sides differ by rounding, or by what overflows, alone, which refutes nothing, and agree in exact arithmetic alone, which is no claim"
FEWER = "the second graph was captured for fewer sizes than the first, and says nothing of the others"

RULES: dict[str, tuple[Rule, ...]] = {
    "sizes of 2 and more": (
        Rule("squeeze of one", lambda x: x.squeeze(0) * 2, lambda x: x * 2, {"n m": "E0", "1 m": "refuted"}, {"n m": "E0", "1 m": "refuted"}),
        Rule("squeeze of all", lambda x: x.squeeze() * 2, lambda x: x * 2, {"n m": "E0", "n 1": "refuted", "1 1": "refuted"}, {"n m": "E0", "n 1": "refuted"}),
        Rule(
            "squeeze of a transpose",
            lambda x: x.t().squeeze(1).sum(0),
            lambda x: x.t().sum(0),
            {"n m": "E0", "1 m": "refuted"},
            {"n m": "E0", "1 m": "refuted"},
        ),
        Rule(
            "the first two rows are there",
            lambda x: torch.cat([x[:1], x[-1:]]) * 2,
            lambda x: torch.cat([x[:1], x[1:]])[:: x.shape[0] - 1] * 2 if x.shape[0] > 1 else x * 2,
            {"n m": "E0", "1 m": "refuted"},
            {"1 m": "refuted"},
        ),
    ),
    "even sizes": (
        Rule("pairs kept", lambda x: x * 2, lambda x: x[: half(x) * 2] * 2, {"k m": "E0", "n m": "refuted"}, {"k m": "refuted"}),
        Rule(
            "halves exchanged",
            lambda x: torch.cat([x[half(x) :], x[: half(x)]]) * 2,
            lambda x: torch.cat([x[x.shape[0] - half(x) :], x[: x.shape[0] - half(x)]]) * 2,
            {"k m": "E0", "q m": "E0", "n m": "refuted"},
            {"k m": "refuted"},
        ),
        Rule("every other row", lambda x: x[::2] * 2, lambda x: x[: half(x) * 2][::2] * 2, {"k m": "E0", "n m": "refuted"}, {"k m": "unmodelled"}, FEWER),
        Rule("the lower half summed", lambda x: x[half(x) :].sum(0), lambda x: x[-half(x) :].sum(0), {"k m": "E0", "n m": "refuted"}, {"k m": "refuted"}),
    ),
    "exact arithmetic": (
        Rule("sums associated", lambda a, b, c: (a + b) + c, lambda a, b, c: a + (b + c), {"n m, n m, n m": "E1"}, {"n m, n m, n m": "E1"}),
        Rule("sums in another order", lambda a, b: ((a + 1) + b) + a, lambda a, b: (a + a) + (b + 1), {"n m, n m": "E1"}, {"n m, n m": "E1"}),
        Rule("a summand twice", lambda a, b: (a + b) + b, lambda a, b: (a + b) + a, {"n m, n m": "refuted"}, {"n m, n m": "refuted"}),
        Rule("sums of sums", lambda a, b: (a + b).sum(0), lambda a, b: a.sum(0) + b.sum(0), {"n m, n m": "unknown"}, {"n m, n m": "unknown"}, ROUNDS),
        Rule("distribution", lambda a, b, c: (a + b) * c, lambda a, b, c: a * c + b * c, {"n m, n m, n m": "refuted"}, {"n m, n m, n m": "refuted"}),
        Rule("products associated", lambda a, b, c: (a * b) * c, lambda a, b, c: a * (b * c), {"n m, n m, n m": "unknown"}, {"n m, n m, n m": "unknown"}, ROUNDS),
        Rule("doubled and halved", lambda x: x * 2 / 2, lambda x: x * 1.0, {"n m": "unknown"}, {"n m": "unknown"}, ROUNDS),
        Rule("a third, three times", lambda x: x / 3 * 3, lambda x: x * 1.0, {"n m": "unknown"}, {"n m": "unknown"}, ROUNDS),
        Rule("divided by itself", lambda a, b: a * b / b, lambda a, b: a + 0 * b, {"n m, n m": "refuted"}, {"n m, n m": "refuted"}),
        Rule("a sum of exponents", lambda a, b: a.exp() * b.exp(), lambda a, b: (a + b).exp(), {"n m, n m": "unknown"}, {"n m, n m": "unknown"}, ROUNDS),
        Rule("taken away again", lambda a, b: (a + b) - b, lambda a, b: a + 0 * b, {"n m, n m": "refuted"}, {"n m, n m": "refuted"}),
        Rule("matrices associated", lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c), {"n m, m k, k n": "unknown"}, {"n m, m k, k n": "refuted"}, ROUNDS),
        Rule(
            "integers associated",
            lambda a, b, c: (a + b) + c,
            lambda a, b, c: a + (b + c),
            {"n: int64, n: int64, n: int64": "E0"},
            {"n: int64, n: int64, n: int64": "E0"},
        ),
    ),
    "no NaN": (
        Rule("times zero", lambda x: x * 0, torch.zeros_like, {"n m": "refuted"}, {"n m": "refuted"}),
        Rule("equal to itself", lambda x: x == x, lambda x: torch.ones_like(x, dtype=torch.bool), {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("taken from itself", lambda x: x - x, torch.zeros_like, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("not below is above", lambda x, y: ~(x < y), lambda x, y: x >= y, {"n m, n m": "refuted"}, {"n m, n m": "refuted"}, grad=False),
        Rule("two maxima", torch.fmax, torch.maximum, {"n m, n m": "refuted"}, {"n m, n m": "refuted"}, grad=False),
        Rule("a choice for a maximum", lambda x: torch.where(x > 0, x, 0.0), torch.relu, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("the gradient of the larger of the same", lambda x: torch.maximum(x, x) * 2, lambda x: x * 2, {"n m": "refuted"}, {"n m": "refuted"}),
        Rule("the larger of the same", lambda x: torch.maximum(x, x) * 2, lambda x: x * 2, {"n m": "unknown"}, {"n m": "unknown"}, LAW, grad=False),
    ),
    "no -0.0": (
        Rule("plus zero", lambda x: x + 0, lambda x: x * 1, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("zero less", lambda x: 0 - x, torch.neg, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("the sign of a zero, divided by", lambda x: 1 / (x + 0), lambda x: 1 / x, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("a choice of zero", lambda x: torch.where(x == 0, 0.0, x), lambda x: x * 1, {"n m": "refuted"}, {"n m": "refuted"}, grad=False),
        Rule("less zero", lambda x: (x - 0) * 2, lambda x: x * 2, {"n m": "unknown"}, {"n m": "unknown"}, LAW),
    ),
    "a sorted list": (
        Rule("pieces", lambda a, b, c: torch.cat([a, c, b]), lambda a, b, c: torch.cat([a, b, c]), {"n m, n m, n m": "refuted"}, {"n m, n m, n m": "refuted"}),
        Rule("bounds", lambda x: torch.cat([x[2:4], x[:2]]), lambda x: x[:4] * 1, {"q m": "refuted"}, {"q m": "refuted"}),
        Rule("bounds, sorted", lambda x: torch.cat([x[:2], x[2:4]]) * 1, lambda x: x[:4] * 1, {"q m": "E0", "n m": "E0"}, {"q m": "E0"}),
        Rule("places to cut at", lambda x: torch.cat(x.tensor_split([3, 1])) * 1, lambda x: x * 1, {"q m": "refuted"}, {}),
        Rule("places to cut at, sorted", lambda x: torch.cat(x.tensor_split([1, 3])) * 1, lambda x: x * 1, {"q m": "E0"}, {}),
        Rule("values", lambda x: x.sort(0).values, lambda x: x * 1, {"n m": "refuted"}, {"n m": "refuted"}),
        Rule("the last is the largest", lambda x: x.amax(0), lambda x: x[-1] * 1, {"n m": "refuted"}, {"n m": "refuted"}),
        Rule("dimensions to move", lambda x: x.movedim((0, 1), (1, 2)) * 1, lambda x: x.movedim((1, 0), (1, 2)) * 1, {"n n n": "refuted"}, {"n n n": "refuted"}),
        Rule("dimensions to sum over, in any order", lambda x: x.sum((0, 1)), lambda x: x.sum((1, 0)), {"n m k": "E0"}, {"n m k": "E0"}),
        Rule("dimensions to flip, in any order", lambda x: x.flip((0, 1)), lambda x: x.flip((1, 0)), {"n m": "E0"}, {"n m": "E0"}),
    ),
    "sizes up to a power of 2": (
        Rule("up to 4", lambda x: x[:4] * 2, lambda x: x * 2, {"n m": "E0", "k m": "E0", "q m": "refuted"}, {"n m": "E0", "q m": "refuted"}),
        Rule("up to 8, in pieces", lambda x: torch.cat([x[:4], x[4:8]]) * 2, lambda x: x * 2, {"q m": "E0", "w m": "refuted"}, {"q m": "E0", "w m": "refuted"}),
        Rule("up to 64", lambda x: x[:64].sum(0), lambda x: x.sum(0), {"n m": "E0", "w m": "refuted"}, {"n m": "E0", "w m": "refuted"}),
        Rule("up to 1024", lambda x: x[:1024] * 2, lambda x: x * 2, {"w m": "E0"}, {"w m": "E0"}),
        Rule("up to 4, in the second alone", lambda x: x * 2, lambda x: x[:4] * 2, {"n m": "E0", "q m": "refuted"}, {"n m": "unmodelled", "q m": "unmodelled"}, FEWER),
    ),
    "equal sizes": (
        Rule("as long as another", lambda x, y: x[: y.shape[0]] * 2 * y[0], lambda x, y: x * 2 * y[0], {"n m, n m": "E0", "k m, n m": "refuted"}, {"k m, n m": "refuted"}),
        Rule("another divisor", lambda x: x.sum(0) / x.shape[0], lambda x: x.sum(0) / x.shape[1], {"n n": "E0", "n m": "refuted"}, {"n m": "refuted"}),
        Rule("a diagonal block", lambda x: x[:, : x.shape[0]] * 2, lambda x: x * 2, {"n n": "E0", "n m": "refuted"}, {"n m": "refuted"}),
        Rule("a square taken apart", lambda x: x.reshape(x.shape[1], x.shape[0]) * 2, lambda x: x * 2, {"n n": "E0", "n m": "refuted"}, {"n m": "refuted"}),
    ),
    "a size that is not 1": (
        Rule("as many rows", lambda x, y: x * y, lambda x, y: x[: y.shape[0]] * y, {"n m, n m": "E0", "n m, 1 m": "refuted"}, {"n m, n m": "E0", "n m, 1 m": "refuted"}),
        Rule("as many columns", lambda x, y: x + y, lambda x, y: x[:, : y.shape[1]] + y, {"n m, n m": "E0", "n m, n 1": "refuted"}, {"n m, n m": "E0", "n m, n 1": "refuted"}),
        Rule("of the shape of the other", lambda x, y: (x * y).sum(0), lambda x, y: (x[: y.shape[0]] * y).sum(0), {"n m, n m": "E0", "n m, 1 m": "refuted"}, {"n m, 1 m": "refuted"}),
        Rule("a kept row", lambda x, y: x - y.sum(0, keepdim=True), lambda x, y: x[: y.shape[0]] - y.sum(0), {"n m, n m": "E0", "n m, 1 m": "refuted"}, {"n m, 1 m": "refuted"}),
    ),
    "a sum over something": (
        Rule("a mean of the same", lambda x, y: y.expand(x.shape[0], -1).mean(0) + 0 * x.sum(0), lambda x, y: y + 0 * x.sum(0), {"z m, m": "refuted", "n m, m": "unknown"}, {}, ROUNDS),
        Rule("all, so some", lambda x: x.all(0) & x.any(0), lambda x: x.all(0) & x.all(0), {"z m: bool": "refuted", "n m: bool": "unknown"}, {"n m: bool": "unknown"}, LAW, grad=False),
        Rule("sums of other numbers", lambda x, y: x.sum(0) + 1, lambda x, y: y.sum(0) + 1, {"z m, z m": "E0", "n m, n m": "refuted"}, {"n m, n m": "refuted"}, grad=False),
        Rule("products of matrices", lambda x, y, u: (x @ y, u * 1), lambda x, y, u: (u @ y, u * 1), {"n z, z m, n z": "E0", "n k, k m, n k": "refuted"}, {}, grad=False),
        Rule("the last row alone", lambda x: x.sum(0), lambda x: x[-1:].sum(0), {"z m": "E0", "1 m": "E0", "n m": "refuted"}, {"n m": "refuted"}),
    ),
}  # fmt: skip

CASES = [
    pytest.param(rule, shapes, dynamic, expected, id=f"{kind}-{rule.name}-{shapes}-{'dynamic' if dynamic else 'static'}")
    for kind, rules in RULES.items()
    for rule in rules
    for dynamic, table in ((False, rule.static), (True, rule.dynamic))
    for shapes, expected in table.items()
]


def said(verdict: Verdict) -> str:
    return verdict.claim if isinstance(verdict, Proved) else word(verdict)


@pytest.mark.parametrize(("rule", "shapes", "dynamic", "expected"), CASES)
def test_rules_true_under_a_condition(rule: Rule, shapes: str, dynamic: bool, expected: str):
    verdict = judged(rule.before, rule.after, made(shapes, SIZES, rule.grad), dynamic)
    assert said(verdict) == expected, explain(verdict)
    if isinstance(verdict, Proved):
        assert verdict.queries == verdict.confirmed
    if isinstance(verdict, Refuted):
        assert verdict.counterexample.differences
    assert rule.why or expected not in ("unknown", "unmodelled")


# ----------------------------------------------------------------------------------------------------- inputs as they lie


def lying(before: Callable[..., Any], after: Callable[..., Any], contiguous: bool) -> str:
    x = torch.randn(5, 3)
    return said(judged(before, after, [x if contiguous else x.t()]))


CONTIGUOUS: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("a copy that is none", lambda x: x.contiguous(), lambda x: x.view(x.shape)),
    ("a copy of a kind", lambda x: x.clone(memory_format=torch.contiguous_format), lambda x: x.clone()),
    ("made contiguous first", lambda x: x.contiguous() * 2, lambda x: x * 2),
    ("flattened, however it lies", lambda x: x.contiguous().flatten(), lambda x: x.t().t().flatten()),
)


@pytest.mark.parametrize("name", [name for name, *_ in CONTIGUOUS])
def test_rules_true_of_contiguous_inputs(name: str):
    before, after = next(rest for n, *rest in CONTIGUOUS if n == name)
    assert lying(before, after, True) == "E0"
    assert lying(before, after, False) == ("E0" if name == "flattened, however it lies" else "refuted")


# ------------------------------------------------------------------------------------------------------------------ speed


def test_there_is_a_program_of_many_pieces_for_each_pattern():
    assert set(PROGRAMS) == {name for name, pattern in optimus.patterns().items() if pattern.ir is IR.TORCH}


def test_sums_are_tied_where_they_matter():
    before = captured(PROGRAMS["batch_linear_lhs"](10))
    after = copy.deepcopy(before)
    assert Engine(after, Plan((for_any_number(optimus.patterns()["batch_linear_lhs"]),))).run().rewrites
    verdict = validate(before, after)
    assert said(verdict) == "E1", explain(verdict)


def test_premises_that_multiply_sizes_hold_where_they_are_needed():
    x, y = z3.Ints("x y")
    session = Session()
    session.stand([x * y >= 7, x >= 1, x <= 1])
    with session.under([y < 7]):
        assert session.check(time.monotonic() + 5) == z3.unsat
    with session.under([y < 8]):
        assert session.check(time.monotonic() + 5) == z3.sat
    assert session.entails(y >= 7, 5.0) is True
    assert session.entails(y >= 8, 5.0) is None
    assert session.entails(x > 1, 5.0) is False
