"""Two small patterns that are right only because the engine keeps its laws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.operators import bind
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import tensor


@fires("n, k", grad=False)
def twice(x):
    return torch.tanh(x) + torch.tanh(x) * 2


@fires("n, k", "n, k", grad=False)
def sums(x, y):
    return (x + y).sum() - (x + y)


@fires("n, k", grad=False)
def noise(x):
    return (torch.tanh(x) - torch.rand_like(x)) * torch.tanh(x)


def needed(node: Node) -> bool:
    """Whether something that the graph returns depends on ``node``."""
    return any(user.op == "output" or needed(user) for user in node.users)


@dataclass(frozen=True)
class OnceOnly(VerticalPattern):
    """``f(x), f(x)  ->  y, y`` with ``y = f(x)``: where no gradient is wanted, the same call is made once."""

    name = "once_only"
    anchors = frozenset({"tanh", "add", "rand_like"})
    exactness = Exactness.BITWISE
    requirements = {"repeated": "the same call stands in front of it"}
    cases = (twice, sums, noise)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        made = tensor(node)
        if call is None or made is None or made.requires_grad or not needed(node):
            return None
        earlier = [n for n in node.all_input_nodes[0].users if n < node and needed(n)]
        alike = [n for n in earlier if (c := bind(n)) is not None and (c.op, c.args) == (call.op, call.args)]
        return Match((alike[0], node), alike[0]) if alike else Decline("repeated")

    def rewrite(self, match: Match, tx: Transaction) -> None:
        first, second = match.nodes
        once = tx._create(first.op, first.target, first.args, dict(first.kwargs))
        tx.replace(first, once)
        tx.replace(second, once)


@fires("n, k")
def cast_to_its_own(x):
    return x.float() * 2 + x.to(torch.float32)


@dataclass(frozen=True)
class NoCast(VerticalPattern):
    """``x.to(dtype)  ->  x``"""

    name = "no_cast"
    anchors = frozenset({"to"})
    exactness = Exactness.BITWISE
    cases = (cast_to_its_own,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        known = bool(node.all_input_nodes) and all(tensor(n) is not None for n in (node, node.all_input_nodes[0]))
        return Match((node,), node) if known else None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, match.before.all_input_nodes[0])
