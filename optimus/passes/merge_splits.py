from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import SPLITS, Cut, cut_of
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState


@dataclass
class Found:
    """An outer split, its pieces, and those that are split again, by number."""

    outer: Cut
    pieces: dict[Node, int]
    inner: dict[int, tuple[Cut, dict[Node, int]]]


@fires("n, p + q + r + s")
def nested(x, p, q, r, s):
    a, rest = torch.split(x, [p, q + r + s], dim=1)
    b, c, d = torch.split(rest, [q, r, s], dim=1)
    return a + 1, b * 2, c.tanh(), d


@fires("n, p + q + r")
def negative_dims(x, p, q, r):
    a, rest = x.split([p, q + r], dim=-1)
    b, c = rest.split([q, r], dim=1)
    return a * 2, b * 3, c * 4


@fires("4 * k, n")
def both_halves(x, k):
    a, b = torch.split(x, [2 * k, 2 * k])
    a0, a1 = torch.split(a, [k, k])
    b0, b1 = torch.split(b, [k, k], 0)
    return a0 + b1, a1 * b0


@fires("n, p + q + r + s")
def three_levels(x, p, q, r, s):
    a, rest = torch.split(x, [p, q + r + s], 1)
    b, rest = torch.split(rest, [q, r + s], 1)
    c, d = torch.split(rest, [r, s], 1)
    return a.sin(), b.cos(), c.exp(), d.neg()


@fires("n, p + q + r")
def some_unused(x, p, q, r):
    rest = torch.split(x, [p, q + r], dim=1)[1]
    return torch.split(rest, [q, r], dim=1)[1] * 2


@declines("single_use", "n, p + q + r")
def middle_used(x, p, q, r):
    a, rest = torch.split(x, [p, q + r], dim=1)
    total = rest.sum()
    b, c = torch.split(rest, [q, r], dim=1)
    return a * 2, b * 3, c * 4, total


@declines("same_dim", "p + q, r + s")
def crossed(x, p, q, r, s):
    a, rest = torch.split(x, [p, q], dim=0)
    b, c = torch.split(rest, [r, s], dim=1)
    return a * 2, b * 3, c * 4


@declines("early_sizes", "n, p + q")
def sizes_from_data(x, p, q):
    a, rest = torch.split(x, [p, q], dim=1)
    k = (q + 1) // 2
    b, c = torch.split(rest, [k, q - k], dim=1)
    return a * 2, b * 3, c * 4


@dataclass(frozen=True)
class MergeSplits(VerticalPattern):
    """``split(split(x, a, d)[k], b, d)  ->  split(x, (*a[:k], *b, *a[k + 1 :]), d)``

    A piece that is only cut again along the same dimension is cut straight from the whole.

    Sound because the inner sections add up to the outer one: piece ``j`` of piece ``k`` starts at the offset of ``k`` plus
    the offset of ``j`` on both sides. All pieces stay views of ``x``, at the same places. Stops where the piece between
    has another use, the dimensions differ, or the inner sizes are computed only after the outer split.
    """

    name = "merge_splits_pass"
    anchors = SPLITS
    exactness = Exactness.BITWISE
    requirements = {
        "single_use": "the piece that is cut again has no other use",
        "same_dim": "both splits cut the same dimension",
        "early_sizes": "the sizes of the inner sections are known where the outer split stands",
    }
    cases = (nested, negative_dims, both_halves, three_levels, some_unused)
    declines = (middle_used, crossed, sizes_from_data)

    @staticmethod
    def general(rule: Rule) -> None:
        """Piece ``which`` of ``count`` is cut into ``parts`` again."""
        count, which, parts = rule.number("count", 1), rule.number("which"), rule.number("parts", 1)
        rule.suppose(which < count)
        outer, inner = rule.sections("outer", count), rule.sections("inner", parts)
        rule.suppose(inner.total == outer.size(which))
        x = rule.tensor("x", rule.number("left"), outer.total, rule.number("right"))
        pieces = rule.split(x, 1, outer)
        merged = rule.computed(
            count + parts - 1,
            lambda k: rule.choose(k < which, outer.size(k), rule.choose(k < which + parts, inner.size(k - which), outer.size(k - parts + 1))),
            lambda k: rule.choose(
                k < which,
                outer.offset(k),
                rule.choose(k < which + parts, outer.offset(which) + inner.offset(k - which), outer.offset(k - parts + 1)),
            ),
        )
        flat, behind = rule.split(x, 1, merged), count - which - 1
        rule.equal("the inner pieces", rule.split(pieces[which], 1, inner), flat.between(which, parts))
        rule.equal("pieces before them", pieces.between(0, which), flat.between(0, which))
        rule.equal("pieces behind them", pieces.between(which + 1, behind), flat.between(which + parts, behind))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        outer = cut_of(node)
        if outer is None or (pieces := outer.pieces()) is None:
            return None
        inner: dict[int, tuple[Cut, dict[Node, int]]] = {}
        refusal, op_of = None, state.ops.get
        for piece, index in pieces.items():
            for user in piece.users:
                cut = cut_of(user) if op_of(user) in SPLITS else None
                if cut is None or cut.op != "split" or (parts := cut.pieces()) is None:
                    continue
                refused = self._refuse(outer, piece, cut, state)
                refusal = refusal or refused
                if refused is None:
                    inner[index] = (cut, parts)
        if not inner:
            return refusal
        cuts = [(cut.node, *parts) for cut, parts in inner.values()]
        nodes = sorted((node, *pieces, *(n for group in cuts for n in group)), key=lambda n: n._sort_key)
        return Match(tuple(nodes), node.next, Found(outer, pieces, inner))

    @staticmethod
    def _refuse(outer: Cut, piece: Node, inner: Cut, state: GraphState) -> Decline | None:
        if inner.dim != outer.dim:
            return Decline("same_dim", f"dimensions {outer.dim} and {inner.dim}")
        if len(piece.users) > 1:
            return Decline("single_use", piece.name)
        if not all(state.size_before(s, outer.node) for s in inner.sizes):
            return Decline("early_sizes", inner.node.name)
        return None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        sizes: list[Node | int] = []
        places: dict[Node, int] = {}
        by_index = {i: n for n, i in found.pieces.items()}
        for index, size in enumerate(found.outer.sizes):
            if index in found.inner:
                cut, parts = found.inner[index]
                places.update({n: len(sizes) + i for n, i in parts.items()})
                sizes += [tx.size(s) for s in cut.sizes]
            else:
                if index in by_index:
                    places[by_index[index]] = len(sizes)
                sizes.append(tx.size(size))
        split = tx.call(torch.split, found.outer.input, sizes, dim=found.outer.dim)
        for node, place in places.items():
            if node.users:
                tx.replace(node, tx.item(split, place))
