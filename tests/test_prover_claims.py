"""Claims no stronger than what holds: random numbers, gradients behind writes, zeros with a sign, and what jumps."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import z3

from optimus.values import value
from tests.test_prover import graph, judged, made, with_same_inputs
from verify.aten import prove_aten
from verify.prover.jumps import COMPLEX, CONDITIONS, CONTINUOUS, may_jump
from verify.prover.logic import SolverLogic
from verify.prover.task import Task
from verify.semantics.compute import _renamed
from verify.semantics.logic import Part, Symbol
from verify.validation import validate
from verify.verdict import CLAIMS, GROUPING, JUMPS, LAWS, NEUTRAL, UNIT, Proved, Refuted, explain, word

SIZES = {"n": 3, "m": 5, "k": 4, "i": 1}
Program = Callable[..., Any]


def said(before: Program, after: Program, shapes: str, dynamic: bool = False, grad: bool = True) -> str:
    verdict = judged(before, after, made(shapes, SIZES, grad), dynamic)
    return verdict.claim if isinstance(verdict, Proved) else word(verdict)


# ------------------------------------------------------------------------------------------------------ random numbers


def unused(draw: Program) -> Program:
    return lambda x: (draw(x), x * 2)[1]


DRAWS: tuple[tuple[str, Program, Program, bool], ...] = (
    ("more of them", lambda x: x + torch.rand(3, 1)[0], lambda x: x + torch.rand(6)[:1], False),
    ("more of them, unused", unused(lambda x: torch.rand(4)), unused(lambda x: torch.rand(6)), False),
    ("more of them, by a symbol", unused(lambda x: torch.rand(x.shape[0])), unused(lambda x: torch.rand(x.shape[1])), False),
    ("wider", unused(lambda x: torch.rand(4)), unused(lambda x: torch.rand(4, dtype=torch.float64)), False),
    ("as likely", unused(lambda x: F.dropout(x, 0.5)), unused(lambda x: F.dropout(x, 0.25)), False),
    ("of a part", unused(lambda x: torch.bernoulli(x.sigmoid())), unused(lambda x: torch.bernoulli(x[:1].sigmoid())), False),
    ("as spread", unused(lambda x: torch.normal(0.0, 1.0, (4,))), unused(lambda x: torch.normal(0.0, 2.0, (4,))), False),
    ("as many as values say", unused(lambda x: torch.poisson(x.exp())), unused(lambda x: torch.poisson(x.exp() + 1)), False),
    ("in the order of memory", unused(lambda x: F.dropout(x)), unused(lambda x: F.dropout(x.t().contiguous().t())), False),
    ("the same", lambda x: x + torch.rand(x.shape[0], 1), lambda x: torch.rand(x.shape[0], 1) + x, True),
    ("the same, of the same", lambda x: F.dropout(torch.cat([x[:1], x[1:]])) * 2, lambda x: F.dropout(x) * 2, True),
)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", [name for name, *_ in DRAWS])
def test_random_numbers_are_the_same_if_all_that_is_drawn_is(name: str, dynamic: bool):
    before, after, same = next(rest for n, *rest in DRAWS if n == name)
    assert (said(before, after, "n m", dynamic) == "E0") is same


# ------------------------------------------------------------------------------------------------------------ embedding


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_last_row_is_padding_to_the_function_and_none_to_the_operator(dynamic: bool):
    def last(i, w):
        return F.embedding(i, w, padding_idx=-1)

    def last_by_its_number(i, w):
        return F.embedding(i, w, padding_idx=w.shape[0] - 1)

    def of_aten(i, w):
        return torch.ops.aten.embedding.default(w, i, -1)

    shapes = "n: int64, k m"
    assert said(last, F.embedding, shapes, dynamic) in ("refuted", "unknown")  # as the indices drawn show it or do not
    assert said(last, of_aten, shapes, dynamic) in ("refuted", "unknown")
    assert said(last, lambda i, w: F.embedding(i, w, padding_idx=-2), shapes, dynamic) in ("refuted", "unknown")
    assert said(last, last_by_its_number, shapes, dynamic) == "E0"
    assert said(F.embedding, of_aten, shapes, dynamic) == "E0"


# -------------------------------------------------------------------------------------------------------------- gradients


def written_behind_exp(x):
    y = x.exp()
    y.mul_(2)
    return y


def written_behind_tanh_of_a_view(x):
    y = x.tanh()
    y[:1].mul_(2)
    return y


def written_behind_a_product(x):
    y = x * 3
    y.mul_(2)
    return y


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_write_over_what_a_gradient_needs_is_not_proved(dynamic: bool):
    verdict = judged(lambda x: x.exp() * 2, written_behind_exp, made("n m", SIZES), dynamic)
    assert isinstance(verdict, Refuted)
    assert verdict.counterexample.what.startswith("gradients of the second graph: RuntimeError: one of the variables needed for gradient computation")
    assert verdict.counterexample.differences[0].startswith("the backward pass raises: nothing became one of the variables")
    assert said(lambda x: x.exp() * 2, written_behind_exp, "n m", dynamic, grad=False) == "E0"
    assert said(lambda x: x * 3 * 2, written_behind_a_product, "n m", dynamic) == "E0"
    assert said(lambda x: torch.cat([x[:1].tanh() * 2, x[1:].tanh()]), written_behind_tanh_of_a_view, "n m") == "refuted"
    assert said(written_behind_exp, written_behind_exp, "n m", dynamic) == "E0"


def test_a_write_to_an_input_that_requires_gradients_is_not_proved():
    before = graph(lambda x: x * 2, made("n m", SIZES), False)
    after = copy.deepcopy(before)
    (x,) = after.graph.find_nodes(op="placeholder")
    with after.graph.inserting_after(x):
        nothing = after.graph.call_function(operator.getitem, (x, slice(0, 0)))
    with after.graph.inserting_after(nothing):
        written = after.graph.call_method("zero_", (nothing,))
    nothing.meta["example_value"] = written.meta["example_value"] = value(x)[:0]
    after.recompile()
    verdict = validate(before, after)
    assert isinstance(verdict, Refuted)
    assert verdict.counterexample.differences[0].startswith("raises: nothing became RuntimeError: a view of a leaf Variable")


# ---------------------------------------------------------------------------------------------------- zeros with a sign


ADD = Symbol("add", ("float32", "float32"), (("self", "#1"), ("other", "#2")), "", "float32")
SUM = Symbol("sum", ("float32",), (), "", "float32")


def bits(found: torch.Tensor) -> bool:
    return bool(torch.signbit(found).any())


ZEROS: tuple[tuple[str, Program, Program, str], ...] = (
    ("of a number", lambda x: x.sum(), lambda x: x * 1.0, ""),
    ("of a number, by a dimension", lambda x: x.sum(0), lambda x: x * 1.0, ""),
    ("over one row", lambda x: x.sum(0), lambda x: x[0] * 1.0, "i m"),
    ("over one row, kept", lambda x: x.sum(0, keepdim=True), lambda x: x * 1.0, "i m"),
    ("mean of a number", lambda x: x.mean(), lambda x: x / 1, ""),
    ("mean of one row", lambda x: x.mean(0), lambda x: x[0] / 1, "i m"),
)


@pytest.mark.parametrize("name", [name for name, *_ in ZEROS])
def test_a_sum_of_one_element_is_not_the_element(name: str):
    before, after, shapes = next(rest for n, *rest in ZEROS if n == name)
    (x,) = (torch.full_like(t, -0.0) for t in made(shapes, SIZES))
    assert not bits(before(x))
    assert bits(after(x))
    assert said(before, after, shapes) != "E0"
    assert said(before, before, shapes) == "E0"


def summed(logic: SolverLogic, extents: tuple[int, ...]) -> tuple[Any, Any]:
    """A sum of elements, and the additions of the same elements."""
    elements = [logic.element("x", (k,)) for k in range(extents[0])]
    total = logic.total(SUM, Part(extents, lambda i: logic.element("x", i)), "kernel")
    added = elements[0]
    for element in elements[1:]:
        added = logic.apply(ADD, added, element)
    return total, added


@pytest.mark.parametrize("extent", [1, 3])
def test_a_sum_is_written_term_by_term_only_where_adding_zero_is_nothing(extent: int):
    for laws, equal in ((frozenset({GROUPING}), False), (frozenset({GROUPING, NEUTRAL}), True)):
        task = Task(1.0, False, laws)
        total, added = summed(task.logic, (extent,))
        _, answer = task.prove([], [("sum", total == added)])
        assert (type(answer).__name__ == "Valid") is equal
        if equal:
            proof = task.proved(0.0)
            assert proof.claim == "E2"
            assert LAWS[NEUTRAL].text in proof.ledger


def test_nothing_added_is_zero_only_where_zero_is_neutral():
    for laws, equal in ((frozenset({GROUPING}), False), (frozenset({GROUPING, NEUTRAL}), True)):
        task = Task(1.0, False, laws)
        x = task.logic.element("x", (0,))
        nothing = task.logic.total(SUM, Part((0,), lambda _, x=x: x), "kernel")
        _, answer = task.prove([], [("sum", task.logic.apply(ADD, x, nothing) == x)])
        assert (type(answer).__name__ == "Valid") is equal


def test_the_gradient_of_a_broadcast_lists_what_it_takes():
    def added(x, w):
        return x * w

    def piecewise(x, w):
        return torch.stack([x[0] * w, x[1] * w, x[2] * w])

    found = prove_aten(*with_same_inputs(*(graph(f, made("n m, m", SIZES), False) for f in (added, piecewise))))
    assert isinstance(found.backward, Proved), explain(found.backward) if found.backward else ""
    assert found.backward.claim == "E2"
    assert LAWS[NEUTRAL].text in found.backward.ledger


# --------------------------------------------------------------------------------------------------------- complex numbers


@pytest.mark.parametrize(("dtype", "claim"), [("float32", "E2"), ("complex64", "")])
def test_times_one_changes_complex_numbers(dtype: str, claim: str):
    product = Symbol("mul", (dtype, dtype), (("self", "#1"), ("other", "#2")), "", dtype)
    one = Symbol("constant", (), (("value", "1"),), "", dtype)
    task = Task(1.0, False, frozenset({UNIT}))
    x = task.logic.element("x", (0,))
    _, answer = task.prove([], [("product", task.logic.apply(product, x, task.logic.apply(one)) == x)])
    assert (type(answer).__name__ == "Valid") is bool(claim)
    infinite = torch.tensor([complex(float("inf"), 1)])
    assert not torch.equal(infinite * torch.ones_like(infinite), infinite)


def test_complex_factors_exchanged_are_equal_up_to_rounding():
    assert said(lambda x, y: x * y, lambda x, y: y * x, "n m, n m") == "E0"
    x, y = (torch.randn(3, 5, dtype=torch.complex64) for _ in range(2))
    verdict = judged(lambda x, y: x * y, lambda x, y: y * x, [x, y])
    assert isinstance(verdict, Proved)
    assert verdict.claim == "E1"


# ------------------------------------------------------------------------------------------------------- one kernel or two


def test_the_kernel_of_einsum_is_told_by_its_equation():
    assert _renamed("ij,jk->ik") == _renamed("za,ab->zb") != _renamed("ij,kj->ik")
    shapes = "n m, m k"
    assert said(lambda a, b: torch.einsum("ij,jk->ik", a, b), lambda a, b: torch.einsum("ij,kj->ik", a, b.t()), shapes) == "E1"
    assert said(lambda a, b: torch.einsum("ij,jk->ik", a, b), lambda a, b: torch.einsum("xy,yz->xz", a, b), shapes) == "E0"


def test_the_strongest_claim_leaves_rounding_by_layout_open():
    assert "memory layout" in CLAIMS["E0"].means


# ------------------------------------------------------------------------------------------------------------------ jumps

REGROUPED = (lambda a, b, c: (a + b) + c, lambda a, b, c: a + (b + c))
JUMPING: dict[str, tuple[Program, str]] = {
    "floor": (torch.floor, "floor"),
    "ceil": (torch.ceil, "ceil"),
    "round": (torch.round, "round"),
    "trunc": (torch.trunc, "trunc"),
    "sign": (torch.sign, "sign"),
    "gt": (lambda x: x > 0, "gt"),
    "cast": (lambda x: x.int(), "cast"),
    "cast to truth": (lambda x: x.bool() | (x.bool()), "cast"),
    "argmax": (lambda x: x.argmax(0), "argmax"),
    "remainder": (lambda x: x.remainder(1.0), "remainder"),
    "argsort": (lambda x: x.sort(0).indices, "sort.1"),
    "where": (lambda x: torch.where(x > 0, x, x * 2), "gt"),
    "summed": (lambda x: x.floor().sum(0), "floor"),
    "quotient, floor": (lambda x: torch.div(x, 0.5, rounding_mode="floor"), "div"),
    "quotient, trunc": (lambda x: torch.divide(x, 0.5, rounding_mode="trunc"), "div"),
    "quotient in place": (lambda x: x.div_(0.5, rounding_mode="floor"), "div"),
    "how many": (lambda x: x.norm(p=0), "norm"),
    "how many, vector": (lambda x: torch.linalg.vector_norm(x, 0), "linalg_vector_norm"),
    "below a norm": (lambda x: torch.linalg.vector_norm(x, 0.5), "linalg_vector_norm"),
    "how many differ": (lambda x: torch.cdist(x, x * 2, p=0.0), "cdist"),
    "softplus": (lambda x: F.softplus(x, 1, 0), "softplus"),
    "softplus, threshold": (lambda x: F.softplus(x, 1, 2), "softplus"),
    "hardshrink": (F.hardshrink, "hardshrink"),
    "threshold": (lambda x: F.threshold(x, 0.5, 0.1), "threshold"),
    "power": (lambda x: torch.pow(x, x), "pow"),
    "power of 0": (lambda x: torch.pow(0.0, x), "pow"),
    "power, reflected": (lambda x: 0**x, "reflected_pow"),
    "xlogy": (lambda x: torch.xlogy(x, x), "xlogy"),
    "logit, bounds crossed": (lambda x: x.logit(0.6), "logit"),
    "fmax": (lambda x: torch.fmax(x.sqrt(), x), "fmax"),
    "root in the plane": (lambda x: torch.complex(x, x).sqrt(), "sqrt"),
}


@pytest.mark.parametrize("name", JUMPING)
def test_what_jumps_behind_another_order_is_not_equal_up_to_rounding(name: str):
    jump, op = JUMPING[name]
    before, after = ((lambda a, b, c, f=f: jump(f(a, b, c))) for f in REGROUPED)
    verdict = judged(before, after, made("n m, n m, n m", SIZES, grad=False))
    assert isinstance(verdict, Proved)
    assert verdict.claim == "E3"
    assert f"{JUMPS}{op}" in verdict.ledger
    assert said(before, before, "n m, n m, n m", grad=False) == "E0"


@pytest.mark.parametrize(
    "through",
    [
        torch.relu, torch.tanh, lambda x: x.softmax(1), lambda x: x.amax(0), lambda x: x.sort(0).values, lambda x: x.bfloat16(),
        lambda x: x / 2, lambda x: 2 / x, lambda x: torch.div(x, 2, rounding_mode=None), lambda x: x.norm(), lambda x: x.norm(p="fro", dim=0),
        lambda x: x.norm(float("inf")), torch.linalg.vector_norm, lambda x: torch.cdist(x, x * 2), F.softshrink, lambda x: x**2,
        lambda x: x**0.5, lambda x: 2**x, lambda x: torch.pow(2.0, x), lambda x: x ** torch.arange(5), lambda x: x.topk(1).values,
        lambda x: x.logit(0.1), lambda x: x.clamp(1, -1), lambda x: F.gelu(x, approximate="tanh"), lambda x: torch.complex(x, x) * 2,
    ],
)  # fmt: skip
def test_what_does_not_jump_keeps_the_claim(through: Program):
    before, after = ((lambda a, b, c, f=f: through(f(a, b, c))) for f in REGROUPED)
    assert said(before, after, "n m, n m, n m", grad=False) == "E1"


IN_THE_PLANE: tuple[tuple[Program, str], ...] = (
    *((f, "E3") for f in (torch.sqrt, torch.rsqrt, torch.log, torch.log2, torch.log10, torch.log1p, torch.angle)),
    *((f, "E3") for f in (torch.acos, torch.asin, torch.atan, torch.acosh, torch.asinh, torch.atanh)),
    *((f, "E3") for f in (lambda z: z**0.5, lambda z: z**1j, lambda z: torch.pow(z, z))),
    *((f, "E1") for f in (torch.abs, torch.exp, torch.sin, torch.cosh, torch.neg, lambda z: z * 2j, lambda z: z / 2, lambda z: z**3)),
    *((f, "E1") for f in (torch.linalg.vector_norm, lambda z: z.sum(0))),
)


@pytest.mark.parametrize("k", range(len(IN_THE_PLANE)))
def test_complex_functions_with_a_cut_jump(k: int):
    through, claim = IN_THE_PLANE[k]
    before, after = ((lambda a, b, c, f=f: through(f(a, b, c))) for f in REGROUPED)
    verdict = judged(before, after, [torch.randn(2, 3, dtype=torch.complex64) for _ in range(3)])
    assert isinstance(verdict, Proved)
    assert verdict.claim == claim


APART = {
    "quotient, floor": (0.1, 0.2, -0.3),
    "how many": (0.1, 0.2, -0.3),
    "power of 0": (0.1, 0.2, -0.3),
    "softplus": (-0.1, -0.2, 0.3),
    "logit, bounds crossed": (0.1, -0.2, 0.7),
}


@pytest.mark.parametrize("name", APART)
def test_rounding_is_seen_behind_what_jumps(name: str):
    before, after = (JUMPING[name][0](f(*(torch.tensor([[v]]) for v in APART[name]))) for f in REGROUPED)
    assert not (before - after).abs().max() <= 0.1


def test_what_jumps_elsewhere_keeps_the_claim():
    def program(add: Program) -> Program:
        return lambda a, b, c: (add(a, b, c), (a @ b.t()).floor(), a.floor() + b)

    before, after = map(program, REGROUPED)
    assert said(before, after, "n m, n m, n m", grad=False) == "E1"


def test_a_product_by_another_kernel_in_front_of_a_jump():
    assert said(lambda a, b: F.linear(a, b), lambda a, b: a @ b.t(), "n m, k m", grad=False) == "E1"
    assert said(lambda a, b: F.linear(a, b).argmax(1), lambda a, b: (a @ b.t()).argmax(1), "n m, k m", grad=False) == "E3"
    assert said(lambda a, b: F.linear(a, b)[:1].floor(), lambda a, b: torch.cat([F.linear(a[:1], b)]).floor(), "n m, k m", grad=False) == "E3"


def test_functions_jump_unless_they_are_known_not_to():
    assert may_jump(Symbol("some_operator", ("float32",)))
    assert not may_jump(Symbol("some_operator", ("int64", "bool")))
    assert may_jump(Symbol("cast", ("float32",), (), "", "int64"))
    assert not may_jump(Symbol("cast", ("float32",), (), "", "bfloat16"))
    assert not {"floor", "sign", "gt", "argmax", "round", "remainder", "threshold", "copysign", "heaviside"} & CONTINUOUS
    assert not (CONTINUOUS | COMPLEX) & {"softplus", "softplus_backward", "xlogy", "fmax", "fmin", "nansum", "angle", "threshold_backward"}
    assert not CONTINUOUS & CONDITIONS.keys()
    assert may_jump(Symbol("prod", ("float32",), (), "", "int64"))
    assert may_jump(Symbol("logit_backward", ("float32", "float32"), (("eps", "0.1"),), "", "float32"))
    assert may_jump(Symbol("norm"))
    assert not may_jump(Symbol("some_operator", (), (("self", "#1:torch.int64"),)))
    assert may_jump(Symbol("logcumsumexp", (), (("self", "#1:torch.complex64"),), "", "complex64"))
    assert isinstance(SolverLogic().jumps(), tuple)
    assert z3.is_expr(SolverLogic().zero())


# ------------------------------------------------------------------------------------------------- memory as it is found


def halves(x):
    found = torch.empty(x.shape)
    found[:1].copy_(x[1:2])
    found[1:] = x[1:]
    return found


def first_row(x):
    found = torch.empty(x.shape)
    found[:1].copy_(x[:1])
    return found


def filled(x):
    return torch.empty_like(x).fill_(x[0, 0])


FOUND: dict[str, tuple[Program, Program, str]] = {
    "two or one": (lambda x: x + (torch.empty(5) - torch.empty(5)), lambda x: x + (lambda e: e - e)(torch.empty(5)), "unmodelled"),
    "the same call": (lambda x: x + torch.empty(5), lambda x: x + torch.empty(5), "unmodelled"),
    "like": (lambda x: (x * 2, torch.empty_like(x)), lambda x: (x * 2, torch.empty_like(x)), "unmodelled"),
    "new": (lambda x: x + x.new_empty(5), lambda x: x + x.new_empty(5), "unmodelled"),
    "by strides": (lambda x: x + torch.empty_strided((5,), (1,)), lambda x: x + torch.empty_strided((5,), (1,)), "unmodelled"),
    "in part written": (first_row, first_row, "unmodelled"),
    "written piece by piece": (halves, lambda x: torch.cat([x[1:2], x[1:]]), "E0"),
    "copied": (lambda x: torch.empty_like(x).copy_(x), lambda x: x.clone(), "E0"),
    "zeros": (lambda x: torch.empty(5).zero_() + x, lambda x: torch.zeros(5) + x, "E0"),
    "filled": (filled, lambda x: x[:1, :1].expand(3, 5).clone(), "E0"),
    "not read": (lambda x: (torch.empty(3), x + 1)[1], lambda x: x + 1, "E0"),
    "its shape": (lambda x: torch.empty(3).shape[0] * x, lambda x: 3 * x, "E0"),
    "zeros like it": (lambda x: torch.zeros_like(torch.empty(5)) + x, lambda x: torch.zeros(5) + x, "E0"),
}


@pytest.mark.parametrize("name", FOUND)
def test_memory_to_which_nothing_was_written_equals_nothing(name: str):
    before, after, expected = FOUND[name]
    assert said(before, after, "n m", grad=False) == expected
