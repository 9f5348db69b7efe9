"""Wrong ways to join linears."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.grouped import group_linear
from optimus.horizontal import shape_key
from optimus.operators import bind
from optimus.passes import batch_linear
from optimus.passes.group_linear import GroupLinear
from optimus.pattern import Decline, Exactness, HorizontalPattern, Refused, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import tensor

from .building import hand_out


@fires(*["m, k"] * 2, *["n, k"] * 2)
def pair(x, y, v, w):
    return torch.cat([F.linear(x, v), F.linear(y, w)])


@fires(*["m, k"] * 2, *["n, k"] * 2, *["n"] * 2)
def pair_with_bias(x, y, v, w, b, c):
    return torch.cat([F.linear(x, v, b), F.linear(y, w, c)])


@fires(*["m, k"] * 2, *["k, k"] * 2)
def pair_of_squares(x, y, v, w):
    return F.linear(x, v) * F.linear(y, w)


@fires(*["n, k"] * 3, "m, k")
def three_of_one_input(u, v, w, x):
    return torch.cat([F.linear(x, u), F.linear(x, v), F.linear(x, w)])


@fires(*["m, k"] * 3, *["n, k"] * 3)
def three(x, y, z, u, v, w):
    return torch.cat([F.linear(x, u), F.linear(y, v), F.linear(z, w)])


@fires(*["m, k"] * 2, *["n, k"] * 2, *["1"] * 2)
def pair_with_one_number(x, y, v, w, b, c):
    return torch.cat([F.linear(x, v, b), F.linear(y, w, c)])


@dataclass(frozen=True)
class Linears(HorizontalPattern):
    """Independent linears of matrices become one batched product: right as it stands; the rules below get an operand wrong."""

    name = "linears"
    anchors = frozenset({"linear"})
    exactness = Exactness.REASSOCIATES
    cases = (pair, pair_with_bias, pair_of_squares)
    declines = (batch_linear.vectors, batch_linear.scalar_bias)

    def takes(self, bias: Node | None, weight: Node) -> bool:
        return bias is None or shape_key(bias) == shape_key(weight)[:1]  # type: ignore[index]

    def inputs(self, tx: Transaction, operands: list[Node]) -> Node:
        return tx.call(torch.stack, operands, dim=0)

    def weights(self, tx: Transaction, operands: list[Node]) -> Node:
        return tx.call(torch.transpose, tx.call(torch.stack, operands, dim=0), 1, 2)

    def biases(self, tx: Transaction, operands: list[Node]) -> Node:
        return tx.call(torch.unsqueeze, tx.call(torch.stack, operands, dim=0), 1)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        call, result = bind(node), tensor(node)
        weight = tensor(call["weight"]) if call is not None else None
        if call is None or result is None or weight is None or result.dim() != 2 or weight.dim() != 2:
            return Decline("matrix")
        if not self.takes(call["bias"], call["weight"]):
            return Decline("row_bias")
        return tuple(shape_key(call[n]) for n in ("input", "weight", "bias"))

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls: list[Any] = [bind(n) for n in members]
        x, weight = self.inputs(tx, [c["input"] for c in calls]), self.weights(tx, [c["weight"] for c in calls])
        if calls[0]["bias"] is None:
            joint = tx.call(torch.bmm, x, weight)
        else:
            joint = tx.call(torch.baddbmm, self.biases(tx, [c["bias"] for c in calls]), x, weight)
        hand_out(tx, members, joint)


@dataclass(frozen=True)
class BiasesReversed(Linears):
    """The biases are stacked in the reverse order."""

    name = "biases_reversed"

    def biases(self, tx, operands):
        return super().biases(tx, operands[::-1])


@dataclass(frozen=True)
class WeightsByName(Linears):
    """The weights are stacked in the order of their names, each once, and the inputs in the order of the program."""

    name = "weights_by_name"

    def weights(self, tx, operands):
        return super().weights(tx, sorted(operands, key=lambda n: n.name))


@dataclass(frozen=True)
class SquaresUntransposed(Linears):
    """Square weights are not transposed, for they fit as they are."""

    name = "squares_untransposed"

    def weights(self, tx, operands):
        rows, columns = shape_key(operands[0])  # type: ignore[misc]
        return tx.call(torch.stack, operands, dim=0) if rows == columns else super().weights(tx, operands)


@dataclass(frozen=True)
class AnyBias(Linears):
    """A bias may have any shape that the joint operator takes: it adds single numbers to the rows, and not one to each member."""

    name = "any_bias"
    cases = (*Linears.cases, pair_with_one_number)
    declines = (batch_linear.vectors,)

    def takes(self, bias, weight):
        return True

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        try:
            super().fuse(members, tx)
        except RuntimeError as error:
            raise Refused(Decline("row_bias", "the operator refuses it")) from error


@dataclass(frozen=True)
class EndsAgree(Linears):
    """One input is taken for that of all members if the first and the last of them read it."""

    name = "ends_agree"
    cases = (three, three_of_one_input)

    def inputs(self, tx, operands):
        return super().inputs(tx, [operands[0]] * len(operands) if operands[0] is operands[-1] else operands)


@dataclass(frozen=True)
class BiasByLength(GroupLinear):
    """Biases are kept by their length, of which each is thought to occur once."""

    name = "bias_by_length"
    cases = (pair, pair_with_bias)
    declines = ()

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls: list[Any] = [bind(n) for n in members]
        kept = {shape_key(c["bias"]): c["bias"] for c in calls}
        biases = [kept[shape_key(c["bias"])] for c in calls]
        joint = tx.call(group_linear, [c["input"] for c in calls], [c["weight"] for c in calls], biases)
        for number, member in enumerate(members):
            tx.replace(member, tx.item(joint, number))
