"""Wrong ways to join layer norms, to write products as sums, and to reshape pieces as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.operators import bound
from optimus.passes import einsum_to_pointwise, move_reshape_out_of_split_stack
from optimus.passes.batch_layernorm import BatchLayernorm
from optimus.passes.einsum_to_pointwise import EinsumToPointwise
from optimus.passes.move_reshape_out_of_split_stack import MoveReshapeOutOfSplitStack
from optimus.pattern import Decline, Match, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState


@fires(*["n, 4"] * 2, *["4"] * 4)
def pair_of_norms(x, y, u, v, b, c):
    return torch.cat([F.layer_norm(x, (4,), u, b), F.layer_norm(y, (4,), v, c)])


@fires(*["n, 4"] * 2)
def pair_of_plain_norms(x, y):
    return torch.cat([F.layer_norm(x, (4,)), F.layer_norm(y, (4,))])


@dataclass(frozen=True)
class ScalesReversed(BatchLayernorm):
    """The scale of the first goes to the last."""

    name = "scales_reversed"
    cases = (pair_of_norms, pair_of_plain_norms)
    declines = ()

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        joint = tx.call(F.layer_norm, tx.call(torch.stack, [c["input"] for c in calls]), list(calls[0]["normalized_shape"]), eps=calls[0]["eps"])
        for operands, combine in (([c["weight"] for c in reversed(calls)], torch.mul), ([c["bias"] for c in calls], torch.add)):
            if operands[0] is not None:
                joint = tx.call(combine, joint, tx.call(torch.unsqueeze, tx.call(torch.stack, operands), 1))
        slices = tx.call(torch.unbind, joint)
        for index, member in enumerate(members):
            tx.replace(member, tx.item(slices, index))


@fires("a, b, b", "a, b, b, d")
def diagonal(x, w):
    return torch.einsum("bnn,bnnf->bnf", x, w) + 1


@dataclass(frozen=True)
class RepeatsUnseen(EinsumToPointwise):
    """Letters are compared by place, and not with one another."""

    name = "repeats_unseen"
    cases = (diagonal, einsum_to_pointwise.other_letters)
    declines = ()

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        found = super().find(node, state)
        return Match((node,), node, bound(node)["tensors"]) if isinstance(found, Decline) and found.reason == "distinct" else found


@fires("2, 4, 3")
def halves(x):
    return torch.stack([p.reshape(2, 6) for p in torch.split(x, 2, dim=1)]) * 2


@dataclass(frozen=True)
class LeftInPlace(MoveReshapeOutOfSplitStack):
    """The new dimension is reshaped where the split was, as if the pieces lay one after the other."""

    name = "left_in_place"
    cases = (halves, move_reshape_out_of_split_stack.rows)
    declines = ()

    def front(self, tx: Transaction, apart: Node, dim: int) -> Node:
        return apart
