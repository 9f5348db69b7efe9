"""Wrong ways to join linears."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import bind
from optimus.passes import batch_linear
from optimus.passes._batch import stack_inputs, unbind_results
from optimus.passes.batch_linear import BatchLinear
from optimus.pattern import Decline, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import tensor


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
class Linears(BatchLinear):
    """Right as it stands, for inputs with two dimensions; the rules below get one operand wrong."""

    cases = (pair, pair_with_bias, pair_of_squares)
    declines = (batch_linear.vectors, batch_linear.scalar_bias)

    def inputs(self, tx: Transaction, operands: list[Node]) -> Node:
        return stack_inputs(tx, operands)

    def weights(self, tx: Transaction, operands: list[Node]) -> Node:
        return tx.call(torch.transpose, stack_inputs(tx, operands), 1, 2)

    def biases(self, tx: Transaction, operands: list[Node]) -> Node:
        return tx.call(torch.unsqueeze, stack_inputs(tx, operands), 1)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        result = tensor(node)
        return super().key(node, state) if result is not None and result.dim() == 2 else Decline("matrix")

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls: list[Any] = [bind(n) for n in members]
        x, weight = self.inputs(tx, [c["input"] for c in calls]), self.weights(tx, [c["weight"] for c in calls])
        if calls[0]["bias"] is None:
            joint = tx.call(torch.bmm, x, weight)
        else:
            joint = tx.call(torch.baddbmm, self.biases(tx, [c["bias"] for c in calls]), x, weight)
        unbind_results(tx, members, joint)


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
        return stack_inputs(tx, operands) if rows == columns else super().weights(tx, operands)


@dataclass(frozen=True)
class AnyBias(Linears):
    """A bias may have any shape, so that one of a single number is added by rows, and not to the row."""

    name = "any_bias"
    cases = (*Linears.cases, pair_with_one_number)
    declines = (batch_linear.vectors,)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        found = super().key(node, state)
        call = bind(node)
        if found != Decline("row_bias") or call is None:
            return found
        return tuple(shape_key(call[n]) for n in ("input", "weight", "bias"))


@dataclass(frozen=True)
class EndsAgree(Linears):
    """One input is taken for that of all members if the first and the last of them read it."""

    name = "ends_agree"
    cases = (three, three_of_one_input)

    def inputs(self, tx, operands):
        return super().inputs(tx, [operands[0]] * len(operands) if operands[0] is operands[-1] else operands)
