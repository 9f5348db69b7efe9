from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Join, join_of
from optimus.operators import bind
from optimus.passes._joins import joined_elsewhere
from optimus.passes._slices import moved, slice_of, whole_of
from optimus.pattern import IR, Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import tensor, wrap


@fires("3, n, k")
def slices_stacked(x):
    return torch.stack([x[0], x[1], x[-1]]) * 2


@fires("n, 3, k")
def to_the_back(x):
    return torch.stack(torch.unbind(x, 1), -1).cos()


@fires("3, n, k")
def with_a_dimension_more(x):
    return torch.cat([x[0].unsqueeze(1), x[1].unsqueeze(-2), x[2].unsqueeze(1)], 1) + 1


@fires("n, k, 2")
def from_the_back(x):
    return torch.stack([x.select(2, 0), x.select(-1, 1)]).exp()


@declines("every_slice", "3, n, k")
def another_order(x):
    return torch.stack([x[1], x[0], x[2]])


@declines("every_slice", "3, n, k")
def one_missing(x):
    return torch.stack([x[0], x[1]])


@declines("every_slice", "2, n", "2, n")
def two_tensors(x, y):
    return torch.stack([x[0], y[1]])


@declines("same_place", "3, n, n")
def joined_elsewhere_than_unsqueezed(x):
    return torch.cat([s.unsqueeze(0) for s in x.unbind()], 1)


@dataclass(frozen=True)
class UnbindStackAten(VerticalPattern):
    """``stack([select(x, d, 0), .., select(x, d, n - 1)], c)  ->  permute(x, dimension d at place c)``

    All slices of a tensor, stacked in their order, are the tensor with a dimension moved; where nothing moves, the tensor
    itself. So is a ``cat`` of slices that got a dimension more, along that dimension.

    Sound because slice ``k`` of the stack is slice ``k`` of the tensor. Stops where slices come from several tensors, are
    not all there, each once and in their order, and where they are joined along another dimension than they got.
    """

    name = "unbind_stack_aten_pass"
    ir = IR.ATEN
    anchors = frozenset({"cat", "stack"})
    exactness = Exactness.BITWISE
    requirements = {
        "every_slice": "the slices are all those of one tensor along one dimension, each once and in their order",
        "same_place": "what is joined got its new dimension at the place along which it is joined",
    }
    cases = (slices_stacked, to_the_back, with_a_dimension_more, from_the_back)
    declines = (another_order, one_missing, two_tensors, joined_elsewhere_than_unsqueezed)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of slices along any dimension, stacked along any."""
        joined_elsewhere(rule, "unbind", joins=("stack",))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None:
            return None
        pieces, places = _stacked(join)
        slices = [slice_of(p) for p in pieces]
        if not any(slices):
            return None
        if places - {join.dim}:
            return Decline("same_place", f"unsqueezed at {sorted(places)}, joined along {join.dim}")
        whole = whole_of(slices)
        if whole is None:
            return Decline("every_slice")
        nodes = {node, *join.inputs, *pieces, *(p.args[0] for p in pieces if isinstance(p.args[0], Node) and p.args[0] is not whole.source)}
        return Match(tuple(sorted(nodes, key=lambda n: n._sort_key)), node, (whole, join.dim))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        whole, to = match.found
        tx.replace(match.nodes[-1], moved(tx, whole.source, whole.dim, to))


def _stacked(join: Join) -> tuple[list[Node], set[int]]:
    """What a join stacks, and where its inputs got the dimension along which they are joined. Nothing for other joins."""
    if join.op == "stack":
        return list(join.inputs), set()
    pieces, places = [], set()
    for node in join.inputs:
        call, fake = bind(node), tensor(node)
        place = wrap(call["dim"], fake.dim()) if call is not None and call.op == "unsqueeze" and fake is not None else None
        if call is None or place is None:
            return [], set()
        pieces.append(call["self"])
        places.add(place)
    return pieces, places
