"""What the rules of this package share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, cut_of, join_of
from optimus.pattern import Decline, Exactness, Match, VerticalPattern
from optimus.rewriter import Transaction
from optimus.state import GraphState

from .bare import Edit


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(sorted(dict.fromkeys(nodes), key=lambda n: n._sort_key))


def hand_out(tx: Transaction | Edit, members: Sequence[Node], joint: Node) -> None:
    """Replace each member by its slice of ``joint``."""
    slices = tx.call(torch.unbind, joint, dim=0)
    for number, member in enumerate(members):
        tx.replace(member, tx.item(slices, number))


@dataclass(frozen=True)
class Rule(VerticalPattern):
    """A vertical pattern that only moves data."""

    exactness = Exactness.BITWISE


@dataclass(frozen=True)
class JoinOfPieces(Rule):
    """A join whose inputs are all pieces of one cut; ``fits`` says whether their numbers are as they should be."""

    def fits(self, numbers: list[int], cut: Cut, join: Join) -> bool:
        raise NotImplementedError

    def put(self, tx: Transaction, numbers: list[int], cut: Cut, join: Join) -> Node:
        """What takes the place of the join."""
        raise NotImplementedError

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        source = join.inputs[0].args[0] if join is not None and join.inputs[0].args else None
        cut = cut_of(source) if isinstance(source, Node) else None
        pieces = cut.pieces() if cut is not None else None
        if join is None or cut is None or pieces is None or not all(i in pieces for i in join.inputs):
            return None
        numbers = [pieces[i] for i in join.inputs]
        if not self.fits(numbers, cut, join):
            return Decline("consecutive" if cut.op == "split" else "complete")
        return Match(in_order((cut.node, *join.inputs, node)), node, (numbers, cut, join))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, self.put(tx, *match.found))
