"""Wrong ideas of when joined pieces are the tensor they were cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, Run, cut_of, join_of
from optimus.passes import split_cat, unbind_stack
from optimus.passes._joins import rejoin
from optimus.passes.split_cat import SplitCat
from optimus.passes.unbind_stack import Found, UnbindStack
from optimus.pattern import Decline, Match
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import is_row_major, value


@dataclass(frozen=True)
class WholeCat(SplitCat):
    """``cat(split(x, d), d)  ->  x``: right as it stands; the rules below get ``is_whole`` wrong."""

    name = "whole_cat"
    anchors = frozenset({"cat"})
    cases = (split_cat.restored, split_cat.returned)

    def is_whole(self, numbers: Sequence[int], cut: Cut, join: Join) -> bool:
        return list(numbers) == list(range(len(cut.sizes))) and join.dim == cut.dim

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None or join.op != "cat":
            return None
        source = join.inputs[0].args[0] if join.inputs[0].args else None
        cut = cut_of(source) if isinstance(source, Node) else None
        pieces = cut.pieces() if cut is not None else None
        if cut is None or cut.op != "split" or pieces is None or not all(i in pieces for i in join.inputs):
            return None
        if not self.is_whole([pieces[i] for i in join.inputs], cut, join):
            return Decline("consecutive")
        nodes = sorted({cut.node, node, *join.inputs}, key=lambda n: n._sort_key)
        return Match(tuple(nodes), node, cut)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, match.found.input)


@dataclass(frozen=True)
class OrderIgnored(WholeCat):
    """All pieces are taken for the whole in whatever order they are joined."""

    name = "order_ignored"

    def is_whole(self, numbers, cut, join):
        return sorted(numbers) == list(range(len(cut.sizes))) and join.dim == cut.dim


@dataclass(frozen=True)
class CountNotCoverage(WholeCat):
    """As many pieces as there are sections are taken for the whole, whichever they are."""

    name = "count_not_coverage"

    def is_whole(self, numbers, cut, join):
        return len(numbers) == len(cut.sizes) and join.dim == cut.dim


@dataclass(frozen=True)
class RepeatAccepted(WholeCat):
    """A piece that is joined twice counts once."""

    name = "repeat_accepted"

    def is_whole(self, numbers, cut, join):
        return list(dict.fromkeys(numbers)) == list(range(len(cut.sizes))) and join.dim == cut.dim


@dataclass(frozen=True)
class DimUnread(WholeCat):
    """The dimension of the join is never compared with that of the split."""

    name = "dim_unread"
    cases = (*WholeCat.cases, split_cat.along_another_dim)

    def is_whole(self, numbers, cut, join):
        return list(numbers) == list(range(len(cut.sizes)))


@dataclass(frozen=True)
class CopiedIfReturned(WholeCat):
    """The whole is copied where the graph returns it, and not where somebody writes to it."""

    name = "copied_if_returned"

    def find(self, node, state):
        found = super().find(node, state)
        return found if not isinstance(found, Match) or is_row_major(value(found.found.input)) else Decline("consecutive")


@dataclass(frozen=True)
class StackDimUnread(UnbindStack):
    """Slices stacked along any dimension are taken for the tensor they come from."""

    name = "stack_dim_unread"
    cases = (unbind_stack.restored, unbind_stack.scalars, unbind_stack.returned)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        if found.join.op == "cat" or len(found.join.inputs) != next(iter(found.complete)).length:
            return super().rewrite(match, tx)
        return tx.replace(found.join.node, next(iter(found.complete.values())).input)


@dataclass(frozen=True)
class AxesSwapped(UnbindStack):
    """The dimension of the slices and that of the join are exchanged, where the one has to move to the other."""

    name = "axes_swapped"

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        tx.replace(found.join.node, rejoin(tx, found.join, {run: self._swapped(tx, cut, found.join) for run, cut in found.complete.items()}))

    @staticmethod
    def _swapped(tx: Transaction, cut: Cut, join: Join) -> Node:
        swapped = tx.call(torch.transpose, cut.input, cut.dim, join.dim)
        return swapped if join.op == "stack" else tx.call(torch.flatten, swapped, join.dim, join.dim + 1)
