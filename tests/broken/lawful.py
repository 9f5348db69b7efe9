"""Two small patterns that are right only because the engine keeps its laws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.operators import bind
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState


@fires("n, k")
def twice(x):
    return torch.tanh(x) + torch.tanh(x) * 2


@fires("n, k", "n, k")
def sums(x, y):
    return (x + y).sum() - (x + y)


@fires("n, k")
def noise(x):
    return (torch.tanh(x) - torch.rand_like(x)) * torch.tanh(x)


@dataclass(frozen=True)
class OnceOnly(VerticalPattern):
    """``f(x), f(x)  ->  y, y`` with ``y = f(x)``: the same operator on the same arguments is computed once."""

    name = "once_only"
    anchors = frozenset({"tanh", "add", "rand_like"})
    exactness = Exactness.BITWISE
    requirements = {"repeated": "the same call stands in front of it"}
    cases = (twice, sums, noise)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if call is None or not node.all_input_nodes:
            return None
        alike = [n for n in node.all_input_nodes[0].users if n < node and (c := bind(n)) is not None and (c.op, c.args) == (call.op, call.args)]
        return Match((alike[0], node), alike[0]) if alike else Decline("repeated")

    def rewrite(self, match: Match, tx: Transaction) -> None:
        first, second = match.nodes
        once = tx._create(first.op, first.target, first.args, dict(first.kwargs))
        tx.replace(first, once)
        tx.replace(second, once)


@fires("n, k")
def scaled(x):
    return (x * 1).sum() + x.mul(1.0)


@fires("n, k")
def returned(x):
    return x * 1


@dataclass(frozen=True)
class TimesOne(VerticalPattern):
    """``x * 1  ->  x``"""

    name = "times_one"
    anchors = frozenset({"mul"})
    exactness = Exactness.BITWISE
    requirements = {"one": "the factor is the number one"}
    cases = (scaled, returned)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if call is None or not isinstance(call["self"], Node):
            return None
        return Match((node,), node, call["self"]) if call["other"] in (1, 1.0) else Decline("one")

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, match.found)
