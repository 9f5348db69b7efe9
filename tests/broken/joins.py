"""Wrong ideas of when joined pieces are the tensor they were cut from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes import split_cat, unbind_stack
from optimus.pattern import fires
from optimus.values import is_row_major, tensor

from .building import JoinOfPieces


@dataclass(frozen=True)
class WholeCat(JoinOfPieces):
    """``cat(split(x, d), d)  ->  x``: right as it stands; the rules below get ``fits`` wrong."""

    name = "whole_cat"
    anchors = frozenset({"cat"})
    cases = (split_cat.restored, split_cat.returned)
    declines = (split_cat.out_of_order, split_cat.repeated)

    def fits(self, numbers, cut, join):
        return cut.op == "split" and join.dim == cut.dim and numbers == list(range(len(cut.sizes)))

    def put(self, tx, numbers, cut, join):
        return cut.input


@dataclass(frozen=True)
class OrderIgnored(WholeCat):
    """All pieces are taken for the whole in whatever order they are joined."""

    name = "order_ignored"

    def fits(self, numbers, cut, join):
        return super().fits(sorted(numbers), cut, join)


@dataclass(frozen=True)
class CountNotCoverage(WholeCat):
    """As many pieces as there are sections are taken for the whole, whichever they are."""

    name = "count_not_coverage"

    def fits(self, numbers, cut, join):
        return cut.op == "split" and join.dim == cut.dim and len(numbers) == len(cut.sizes)


@dataclass(frozen=True)
class RepeatAccepted(WholeCat):
    """A piece that is joined twice counts once."""

    name = "repeat_accepted"

    def fits(self, numbers, cut, join):
        return super().fits(list(dict.fromkeys(numbers)), cut, join)


@dataclass(frozen=True)
class DimUnread(WholeCat):
    """The dimension of the join is never compared with that of the split."""

    name = "dim_unread"
    cases = (*WholeCat.cases, split_cat.along_another_dim)

    def fits(self, numbers, cut, join):
        return cut.op == "split" and numbers == list(range(len(cut.sizes)))


@fires("n, p + q", grad=False)
def written(x, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    whole = torch.cat([a, b], dim=1)
    whole.mul_(3)
    return x + 1


@dataclass(frozen=True)
class CopiedIfReturned(WholeCat):
    """The whole is copied where the graph returns it, and not where somebody writes to it."""

    name = "copied_if_returned"
    cases = (*WholeCat.cases, written)

    def fits(self, numbers, cut, join):
        source = tensor(cut.input)
        return source is not None and is_row_major(source) and super().fits(numbers, cut, join)


@dataclass(frozen=True)
class AllSlices(JoinOfPieces):
    """``stack(unbind(x, d), c)  ->  movedim(x, d, c)``, and flattened for ``cat``: right as it stands."""

    name = "all_slices"
    anchors = frozenset({"stack", "cat"})
    cases = (unbind_stack.restored, unbind_stack.moved, unbind_stack.side_by_side, unbind_stack.side_by_side_from_the_back, unbind_stack.scalars)
    declines = (unbind_stack.out_of_order, unbind_stack.one_missing)

    def fits(self, numbers, cut, join):
        return cut.op == "unbind" and numbers == list(range(len(cut.sizes)))

    def moved(self, tx, cut, join):
        return tx.call(torch.movedim, cut.input, cut.dim, join.dim)

    def put(self, tx, numbers, cut, join):
        moved = self.moved(tx, cut, join)
        return moved if join.op == "stack" else tx.call(torch.flatten, moved, join.dim, join.dim + 1)


@dataclass(frozen=True)
class AxesSwapped(AllSlices):
    """The dimension of the slices and that of the join are exchanged, where the one has to move to the other."""

    name = "axes_swapped"

    def moved(self, tx, cut, join):
        return tx.call(torch.transpose, cut.input, cut.dim, join.dim)


@dataclass(frozen=True)
class StackDimUnread(AllSlices):
    """Slices stacked along any dimension are taken for the tensor they come from."""

    name = "stack_dim_unread"
    anchors = frozenset({"stack"})
    cases = (unbind_stack.restored, unbind_stack.scalars, unbind_stack.returned)

    def put(self, tx, numbers, cut, join):
        return cut.input
