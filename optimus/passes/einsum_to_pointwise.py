from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.operators import bind
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import tensor


@fires("a, b, c", "a, b, c, d", "d")
def with_bias(x, w, bias):
    return torch.einsum("abc,abcd->abd", x, w) + bias


@fires("a, b, c", "a, b, c, d")
def other_letters(x, w):
    return torch.einsum("b n i, b n i o -> b n o", [x, w]).sin()


@fires("a, b, c", "a, b, c, d")
def implicit_result(x, w):
    return torch.einsum("xyz,xyzw->xyw", x, w) * 2


@declines("distinct", "a, b, b", "a, b, b, d")
def diagonal(x, w):
    return torch.einsum("bnn,bnnf->bnf", x, w)


@declines("distinct", "a, b, c", "a, b, c, c")
def not_summed(x, w):
    return torch.einsum("bnd,bndd->bnd", x, w)


@declines("form", "a, b, c", "a, c, d")
def batched_product(x, w):
    return torch.einsum("abc,acd->abd", x, w)


@declines("floating", "a, b, c: int64", "a, b, c, d: int64")
def integers(x, w):
    return torch.einsum("abc,abcd->abd", x, w)


@declines("floating", "a, b, c: float16", "a, b, c, d: float16")
def half_precision(x, w):
    return torch.einsum("abc,abcd->abd", x, w)


@declines("no_autocast", "a, b, c", "a, b, c, d")
def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.einsum("abc,abcd->abd", x, w)


@dataclass(frozen=True)
class EinsumToPointwise(VerticalPattern):
    """``einsum("pqr,pqrs->pqs", x, w)  ->  (unsqueeze(x, -1) * w).sum(-2)``

    A product of a vector with a matrix at each position, written as multiply and sum, which a compiler fuses.

    Sound because both sum ``x[p, q, r] * w[p, q, r, s]`` over ``r``; the order of summation may differ, so rounding may. Stops
    where letters repeat within an operand (``einsum`` then reads a diagonal), at integers (a sum widens them), at float16
    (whose products overflow before they are summed) and under autocast (``einsum`` is cast, multiply and sum are not).
    """

    name = "einsum_to_pointwise_pass"
    anchors = frozenset({"einsum"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "form": "the equation is pqr,pqrs->pqs, whatever its letters",
        "distinct": "the four letters differ",
        "floating": "both operands are floating-point, of one dtype, which is not float16",
        "no_autocast": "the call is not under autocast",
    }
    cases = (with_bias, other_letters, implicit_result)
    declines = (diagonal, not_summed, batched_product, integers, half_precision, under_autocast)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any extents."""
        p, q, r, s = (rule.number(name) for name in "pqrs")
        x, w = rule.tensor("x", p, q, r), rule.tensor("w", p, q, r, s)
        products = rule.apply("mul", rule.expand(x, 3, s), w)
        rule.equal("the sums", rule.contract("pqr,pqrs->pqs", x, w), rule.contract("pqrs->pqs", products))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if call is None or len(call["tensors"]) != 2:
            return None
        x, w = (tensor(t) for t in call["tensors"])
        equation = call["equation"].replace(" ", "")
        operands, _, result = equation.partition("->")
        first, _, second = operands.partition(",")
        if x is None or w is None or len(first) != 3 or second[:3] != first or len(second) != 4 or result != second[:2] + second[3]:
            return Decline("form", call["equation"])
        if len(set(second)) < 4:
            return Decline("distinct", call["equation"])
        if not x.is_floating_point() or x.dtype != w.dtype or x.dtype is torch.float16:
            return Decline("floating", str(x.dtype))
        if state.mode(node).autocast:
            return Decline("no_autocast")
        return Match((node,), node, call["tensors"])

    def rewrite(self, match: Match, tx: Transaction) -> None:
        x, w = match.found
        product = tx.call(torch.mul, tx.call(torch.unsqueeze, x, -1), w)
        tx.replace(match.nodes[0], tx.call(torch.sum, product, dim=-2))
