from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.laws import Law
from optimus.operators import bound
from optimus.passes._batch import stack_inputs, unbind_results
from optimus.pattern import Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import is_row_major, tensor


@fires(*["n, k"] * 5)
def methods(*xs):
    return torch.cat([x.detach() * 2 for x in xs])


@fires(*["n, k"] * 5)
def functions(*xs):
    return sum(torch.detach(torch.tanh(x)) for x in xs)


@fires(*["n, k"] * 5)
def beside_the_gradient(*xs):
    return torch.cat([x * x.detach() for x in xs])


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([x.detach() * 2 for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([x.t().detach() * 2 for x in xs])


@declines("law:aliasing", *["n, k"] * 5)
def returned(*xs):
    return [x.detach() for x in xs]


@declines("law:aliasing", *["n, k"] * 5, grad=False)
def written(*xs):
    once = [x * 2 for x in xs]
    cut = [y.detach() for y in once]
    return [y.add_(1).sum() for y in once], torch.cat([c * 2 for c in cut])


@dataclass(frozen=True)
class BatchDetach(HorizontalPattern):
    """``detach(x1), ..., detach(xn)  ->  unbind(detach(stack(x1, ..., xn)))``

    Independent ``detach`` of one shape become one of their stack. The stack is a copy that eager does not make, so it pays only
    where what makes the operands and what reads the results are joined too; the default plan leaves it out.

    Sound because ``detach`` changes no element, and no gradient passes on either side. ``detach`` shares memory with its
    operand and the stack does not: members stay out where somebody writes to that memory, or the graph returns it.
    """

    name = "batch_detach"
    anchors = frozenset({"detach"})
    by_default = False
    exactness = Exactness.BITWISE
    requirements = {
        "too_few": "at least min_fuse_set_size members of one shape stand near each other and do not need one another",
        "row_major": "the operand of each member is contiguous",
    }
    cases = (methods, functions, beside_the_gradient)
    declines = (four, transposed, returned, written)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of tensors of any one shape."""
        given = rule.family("x", rule.number("count", 1), rule.number("elements"))
        joint = rule.apply("detach", rule.stack(given, 0))
        rule.equal("results", rule.each(lambda x: rule.apply("detach", x), given), rule.unbind(joint, 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        result = tensor(node)
        if result is None or bound(node).writes:
            return None
        memory = state.storages(node)
        if any(s in state.escaping or s in state.addressed or state.writes.get(s) for s in memory):
            return Decline(Law.ALIASING.reason, "somebody writes to what it shares memory with, or the graph returns it")
        return shape_key(node) if is_row_major(result) else Decline("row_major")

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        joint = tx.call(torch.detach, stack_inputs(tx, [bound(n)["self"] for n in members]))
        unbind_results(tx, members, joint)
