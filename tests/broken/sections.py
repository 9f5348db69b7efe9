"""Wrong ideas of which section of a split a number means, and how a dimension is written."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import torch
from torch.fx import Node

from optimus.forms import Cut, cut_of, join_of, piece_index, runs
from optimus.operators import bind
from optimus.passes import merge_splits, normalization, split_cat
from optimus.passes.merge_splits import Found, MergeSplits
from optimus.passes.normalization import Normalization
from optimus.passes.split_cat import SplitCat
from optimus.pattern import Decline, Match, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import is_static, tensor


@dataclass(frozen=True)
class ExtraUserIgnored(MergeSplits):
    """A piece that is split again is merged away although somebody else reads it, and gets the first of its parts."""

    name = "extra_user_ignored"

    @staticmethod
    def _refuse(outer: Cut, piece: Node, inner: Cut, state: GraphState) -> Decline | None:
        refused = MergeSplits._refuse(outer, piece, inner, state)
        return None if refused == Decline("single_use", piece.name) else refused

    def rewrite(self, match: Match, tx: Transaction) -> None:
        super().rewrite(match, tx)
        found: Found = match.found
        for piece, number in found.pieces.items():
            if number in found.inner:
                first = min(found.inner[number][1].items(), key=lambda part: part[1])[0]
                tx.replaced += [(piece, new) for old, new in tx.replaced if old is first]


@dataclass(frozen=True)
class NegativeDimKept(SplitCat):
    """Some pieces become a slice of the whole, along the dimension as it is written: none if that counts from the back."""

    name = "negative_dim_kept"
    anchors = frozenset({"cat"})
    cases = (split_cat.partly,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join, call = join_of(node), bind(node)
        source = join.inputs[0].args[0] if join is not None and join.inputs[0].args else None
        cut = cut_of(source) if isinstance(source, Node) else None
        if join is None or join.op != "cat" or call is None or cut is None or cut.op != "split" or cut.dim != join.dim:
            return None
        found = runs(join.inputs, cut.pieces() or {})
        if len(found) != 1 or found[0].length != len(join.inputs) or found[0].length == len(cut.sizes):
            return Decline("consecutive")
        return Match(tuple(sorted({cut.node, node, *join.inputs}, key=lambda n: n._sort_key)), node, (cut, found[0], call["dim"]))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, run, dim = match.found
        sizes = [tx.size(s) for s in cut.sizes]
        start, stop = tx.total(sizes[: run.first]), tx.total(sizes[: run.first + run.length])
        source = tensor(cut.input)
        assert source is not None
        index = tuple(slice(start, stop) if axis == dim else slice(None) for axis in range(source.dim()))
        tx.replace(match.before, tx.call(operator.getitem, cut.input, index))


@dataclass(frozen=True)
class DimDropped(Normalization):
    """The dimension of a ``stack`` is read where it is given by name, and lost where it is given by position."""

    name = "dim_dropped"
    anchors = frozenset({"stack"})
    cases = (normalization.stacked,)
    declines = ()

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        form = ((list(join.inputs),), {"dim": node.kwargs.get("dim", 0)}) if join is not None else None
        if form is None or form == (node.args, node.kwargs):
            return None
        return Match((node,), node, form)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        args, kwargs = match.found
        tx.replace(match.before, tx.call(torch.stack, *args, **kwargs))


@dataclass(frozen=True)
class LastSectionFull(Normalization):
    """The last section of ``split(x, k)`` is taken for the last ``k`` entries; it is shorter where ``k`` does not divide."""

    name = "last_section_full"
    anchors = frozenset({"getitem"})
    cases = (normalization.split_by_size,)
    declines = ()

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
        call = bind(cut.node) if cut is not None else None
        number = piece_index(node)
        if cut is None or call is None or number is None or call.op != "split" or isinstance(call.args.get("split_size"), (list, tuple)):
            return None
        return Match((cut.node, node), node, (cut, number))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, number = match.found
        section = tx.size(cut.sizes[0])
        source = tensor(cut.input)
        assert source is not None
        if number < len(cut.sizes) - 1:
            start = tx.total([section] * number)
        else:
            start = tx.call(operator.sub, tx.size(source.shape[cut.dim]), section)
        tx.replace(match.before, tx.call(torch.narrow, cut.input, cut.dim, start, section))


@fires("n, p + q")
def with_an_empty_end(x, p, q):
    a, b, _ = torch.split(x, [p, q, 0], dim=1)
    return a + 1, b * 2


@dataclass(frozen=True)
class EmptySectionsDropped(Normalization):
    """Empty sections are left out of a split, and the pieces behind them keep their numbers."""

    name = "empty_sections_dropped"
    anchors = merge_splits.SPLITS
    cases = (with_an_empty_end,)
    declines = ()

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node)
        pieces = cut.pieces() if cut is not None else None
        if cut is None or pieces is None:
            return None
        kept = replace(cut, sizes=tuple(s for s in cut.sizes if not (is_static(s) and s == 0)))
        return Decline("already_normal") if kept == cut else Match((node, *pieces), node, (kept, pieces))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, pieces = match.found
        split = tx.call(torch.split, cut.input, [tx.size(s) for s in cut.sizes], dim=cut.dim)
        for piece, number in pieces.items():
            if number < len(cut.sizes):
                tx.replace(piece, tx.item(split, number))


@dataclass(frozen=True)
class OutDropped(Normalization):
    """A ``cat`` into a buffer is rebuilt without the buffer."""

    name = "out_dropped"
    anchors = frozenset({"cat"})
    cases = (normalization.joined,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if call is None or (node.target is torch.cat and len(node.args) == 1 and dict(node.kwargs) == {"dim": call["dim"]}):
            return None
        return Match((node,), node, (call["tensors"], call["dim"]))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tensors, dim = match.found
        tx.replace(match.before, tx.call(torch.cat, list(tensors), dim=dim))
