"""Wrong ideas of which part of a tensor a run of its pieces is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Run, cut_of
from optimus.passes import (
    merge_getitem_cat,
    mutate_cat,
    remove_split_with_size_one,
    split_cat_to_slices,
    split_stack_to_cats,
    unbind_cat_to_view,
    unbind_stack_to_slices,
)
from optimus.passes._joins import Found, rejoin, section, whole
from optimus.passes.merge_getitem_cat import MergeGetitemCat
from optimus.passes.split_cat_to_slices import SplitCatToSlices
from optimus.passes.split_stack_to_cats import SplitStackToCats
from optimus.passes.unbind_cat_to_view import UnbindCatToView
from optimus.passes.unbind_stack_to_slices import UnbindStackToSlices
from optimus.pattern import Decline, Match, declines, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState

from .building import JoinOfPieces, Rule


@declines("one_section", "n, p + q")
def one_of_two(x, p, q):
    return torch.split(x, [p, q], dim=1)[0] * 2


@dataclass(frozen=True)
class OnePieceUsed(Rule):
    """The only piece that is used is taken for the only section there is."""

    name = "one_piece_used"
    anchors = remove_split_with_size_one.SPLITS
    cases = (remove_split_with_size_one.one_section,)
    declines = (one_of_two, remove_split_with_size_one.two_sections)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node)
        pieces = cut.pieces() if cut is not None else None
        if cut is None or pieces is None or len(pieces) != 1:
            return Decline("one_section")
        return Match((node, *pieces), node.next, (cut.input, *pieces))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        source, piece = match.found
        tx.replace(piece, source)


@fires("n, 4 * k")
def behind_an_empty_section(x, k):
    a, b, _, c, _ = torch.split(x, [k, k, 0, k, k], dim=1)
    return torch.cat([a, b], dim=1).sin(), c + 1


@dataclass(frozen=True)
class EmptiedSectionsDropped(MergeGetitemCat):
    """Where sections are joined, empty ones are left out, and the pieces behind them keep their numbers."""

    name = "emptied_sections_dropped"
    cases = (merge_getitem_cat.middle, behind_an_empty_section)
    declines = (merge_getitem_cat.out_of_order,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found = match.found
        if len(found.joins) > 1 or not found.sections:
            return
        sizes = [tx.total([tx.size(s) for s in found.cut.sizes[first:last]]) for first, last in found.sections]
        kept = [s for s in sizes if not (isinstance(s, int) and s == 0)]
        split = tx.call(torch.split, found.cut.input, kept, dim=found.cut.dim)
        ((node, (_, (run,))),) = found.joins.items()
        for number, (first, last) in enumerate(found.sections):
            olds = [node] if first == run.first else [n for n, i in found.pieces.items() if i == first and n.users]
            for old in olds if number < len(kept) and last > first else ():
                tx.replace(old, tx.item(split, number))


@fires("n, 4 * k")
def all_of_one_size(x, k):
    a, b, c, d = torch.split(x, [k, k, k, k], dim=1)
    return torch.cat([a, b, c, d], dim=1) * 2


@declines("one_run", "n, 4 * k")
def inner_ones_exchanged(x, k):
    a, b, c, d = torch.split(x, [k, k, k, k], dim=1)
    return torch.cat([a, c, b, d], dim=1) * 2


@dataclass(frozen=True)
class EndsTell(JoinOfPieces):
    """A join that begins and ends like a run is taken for the run."""

    name = "ends_tell"
    anchors = frozenset({"cat"})
    cases = (all_of_one_size, mutate_cat.middle)
    declines = (inner_ones_exchanged, mutate_cat.out_of_order)

    def fits(self, numbers, cut, join):
        return cut.op == "split" and join.dim == cut.dim and 1 < len(numbers) == numbers[-1] - numbers[0] + 1

    def put(self, tx, numbers, cut, join):
        return section(tx, cut, Run(0, len(numbers), numbers[0]))


@dataclass(frozen=True)
class StrangersLast(SplitCatToSlices):
    """Inputs of other origin do not end a run, and come behind it."""

    name = "strangers_last"
    cases = (split_cat_to_slices.all_pieces_and_another, split_cat_to_slices.two_sources)
    declines = (split_cat_to_slices.along_another_dim,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        join = found.join
        sections = [section(tx, cut, run) for run, cut in sorted(found.runs.items(), key=lambda item: item[0].start)]
        covered = {p for run in found.runs for p in range(run.start, run.stop)}
        others = [n for p, n in enumerate(join.inputs) if p not in covered]
        tx.replace(join.node, tx.call(torch.cat, [*sections, *others], dim=join.dim))


@dataclass(frozen=True)
class SlicesSwapped(UnbindCatToView):
    """The dimension of the slices is exchanged with that of the join, where it has to move in front of it."""

    name = "slices_swapped"
    cases = (unbind_cat_to_view.all_slices, unbind_cat_to_view.far_dimension)
    declines = (unbind_cat_to_view.short_part,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        join, parts = found.join, {}
        for run, cut in found.runs.items():
            swapped = tx.call(torch.transpose, section(tx, cut, run), cut.dim, join.dim)
            parts[run] = tx.call(torch.flatten, swapped, join.dim, join.dim + 1)
        tx.replace(join.node, rejoin(tx, join, parts))


@dataclass(frozen=True)
class PiecesSwapped(SplitStackToCats):
    """The new dimension is exchanged with that of the stack, where it has to move there."""

    name = "pieces_swapped"
    cases = (split_stack_to_cats.all_pieces, split_stack_to_cats.to_the_back)
    declines = (split_stack_to_cats.short_part,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        join, parts = found.join, {}
        for run, cut in found.runs.items():
            apart = tx.call(torch.unflatten, section(tx, cut, run), cut.dim, (run.length, tx.size(cut.sizes[run.first])))
            parts[run] = tx.call(torch.transpose, apart, cut.dim, join.dim)
        tx.replace(join.node, rejoin(tx, join, parts))


@fires("4, n, k")
def later_slices(x):
    a, b, c, d = torch.unbind(x)
    return torch.stack([b, c, d]).sin(), a + 1, b * 2


@dataclass(frozen=True)
class StartDropped(UnbindStackToSlices):
    """A run of slices becomes as many slices from the first on."""

    name = "start_dropped"
    cases = (later_slices, unbind_stack_to_slices.all_slices)
    declines = ()

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        parts = {
            run: whole(tx, cut, found.join, tx.call(torch.narrow, cut.input, cut.dim, 0, run.length), run.length, 1)
            for run, cut in found.runs.items()
        }
        tx.replace(found.join.node, rejoin(tx, found.join, parts))
