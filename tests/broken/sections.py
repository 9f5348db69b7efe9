"""Wrong ideas of which section of a split a number means, and of how arguments are written."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import torch
from torch.fx import Node

from optimus.forms import cut_of, join_of, piece_index
from optimus.operators import bind
from optimus.passes import merge_splits, normalization, split_cat
from optimus.pattern import Decline, Match, declines, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import is_static, tensor

from .building import JoinOfPieces, Rule, in_order


@dataclass(frozen=True)
class ExtraUserIgnored(Rule):
    """A piece that is split again is merged away although somebody else reads it, and gets the first of its parts."""

    name = "extra_user_ignored"
    anchors = merge_splits.SPLITS
    cases = (merge_splits.nested, merge_splits.negative_dims)
    declines = (merge_splits.middle_used, merge_splits.crossed)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        outer = cut_of(node)
        pieces = outer.pieces() if outer is not None else None
        for piece, number in (pieces or {}).items():
            for user in piece.users:
                inner = cut_of(user)
                parts = inner.pieces() if inner is not None and inner.op == "split" else None
                if outer is None or inner is None or parts is None:
                    continue
                if inner.dim != outer.dim:
                    return Decline("same_dim")
                return Match(in_order((node, *pieces, user, *parts)), node.next, (outer, pieces, number, inner, parts))
        return None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        outer, pieces, middle, inner, parts = match.found
        sizes = [*outer.sizes[:middle], *inner.sizes, *outer.sizes[middle + 1 :]]
        split = tx.call(torch.split, outer.input, [tx.size(s) for s in sizes], dim=outer.dim)
        for piece, number in pieces.items():
            tx.replace(piece, tx.item(split, number if number <= middle else number + len(inner.sizes) - 1))
        for part, number in parts.items():
            tx.replace(part, tx.item(split, middle + number))


@dataclass(frozen=True)
class NegativeDimKept(JoinOfPieces):
    """Some pieces become a slice of the whole, along the dimension as it is written: none if that counts from the back."""

    name = "negative_dim_kept"
    anchors = frozenset({"cat"})
    cases = (split_cat.partly,)
    declines = (split_cat.out_of_order, split_cat.repeated)

    def fits(self, numbers, cut, join):
        consecutive = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        return cut.op == "split" and join.dim == cut.dim and consecutive and len(numbers) < len(cut.sizes)

    def put(self, tx, numbers, cut, join):
        sizes = [tx.size(s) for s in cut.sizes]
        here = slice(tx.total(sizes[: numbers[0]]), tx.total(sizes[: numbers[-1] + 1]))
        dim, source = bind(join.node)["dim"], tensor(cut.input)
        return tx.call(operator.getitem, cut.input, tuple(here if axis == dim else slice(None) for axis in range(source.dim())))


@dataclass(frozen=True)
class DimDropped(Rule):
    """The dimension of a ``stack`` is read where it is given by name, and lost where it is given by position."""

    name = "dim_dropped"
    anchors = frozenset({"stack"})
    cases = (normalization.stacked,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None:
            return None
        form = ((list(join.inputs),), {"dim": node.kwargs.get("dim", 0)})
        return Match((node,), node, form) if form != (node.args, node.kwargs) else None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        args, kwargs = match.found
        tx.replace(match.before, tx.call(torch.stack, *args, **kwargs))


@dataclass(frozen=True)
class LastSectionFull(Rule):
    """The last section of ``split(x, k)`` is taken for the last ``k`` entries; it is shorter where ``k`` does not divide."""

    name = "last_section_full"
    anchors = frozenset({"getitem"})
    cases = (normalization.split_by_size,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        source = node.args[0] if node.args else None
        cut, number = (cut_of(source) if isinstance(source, Node) else None), piece_index(node)
        if cut is None or number is None or len(cut.node.args) < 2 or isinstance(cut.node.args[1], (list, tuple)) or bind(cut.node).op != "split":
            return None
        return Match((cut.node, node), node, (cut, number))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, number = match.found
        section, extent = tx.size(cut.sizes[0]), tensor(cut.input).shape[cut.dim]
        last = number == len(cut.sizes) - 1
        start = tx.call(operator.sub, tx.size(extent), section) if last else tx.total([section] * number)
        tx.replace(match.before, tx.call(torch.narrow, cut.input, cut.dim, start, section))


@fires("n, p + q")
def with_an_empty_end(x, p, q):
    a, b, _ = torch.split(x, [p, q, 0], dim=1)
    return a + 1, b * 2


@dataclass(frozen=True)
class EmptySectionsDropped(Rule):
    """Empty sections are left out of a split, and the pieces behind them keep their numbers."""

    name = "empty_sections_dropped"
    anchors = merge_splits.SPLITS
    cases = (with_an_empty_end,)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node)
        pieces = cut.pieces() if cut is not None else None
        if cut is None or pieces is None:
            return None
        kept = replace(cut, sizes=tuple(s for s in cut.sizes if not (is_static(s) and s == 0)))
        return Match((node, *pieces), node, (kept, pieces)) if kept != cut else None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, pieces = match.found
        split = tx.call(torch.split, cut.input, [tx.size(s) for s in cut.sizes], dim=cut.dim)
        for piece, number in pieces.items():
            if number < len(cut.sizes):
                tx.replace(piece, tx.item(split, number))


@declines("plain_call", "n, k", "n, k", "2 * n, k", grad=False)
def into_rows(x, y, out):
    torch.cat([x, y], 0, out=out)
    return out * 2


@dataclass(frozen=True)
class OutDropped(Rule):
    """A ``cat`` into a buffer is rebuilt without the buffer."""

    name = "out_dropped"
    anchors = frozenset({"cat"})
    cases = (normalization.joined,)
    declines = (normalization.into_a_buffer, into_rows)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if node.target is torch.cat and len(node.args) == 1 and dict(node.kwargs) == {"dim": call["dim"]}:
            return None
        return Match((node,), node, (call["tensors"], call["dim"]))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tensors, dim = match.found
        tx.replace(match.before, tx.call(torch.cat, list(tensors), dim=dim))
