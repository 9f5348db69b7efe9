from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch.fx import Node

from optimus.forms import JOINS, Cut, Join, Run, cut_of, equal_sizes, join_of, runs
from optimus.laws import Law
from optimus.passes._joins import inside_another_join, joined_elsewhere, rejoin, whole
from optimus.pattern import Case, Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState


@dataclass
class Found:
    """What to do about one split: which runs of which joins, and the sections of the split that takes its place."""

    cut: Cut
    pieces: dict[Node, int]
    joins: dict[Node, tuple[Join, list[Run]]]
    sections: list[tuple[int, int]] = field(default_factory=list)  # [first, last) of the old sections; empty: keep the split


@fires("n, p + q + r")
def restored(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([a, b, c], dim=1) * 2


@fires("n, p + q + r + s")
def partly(x, p, q, r, s):
    a, b, c, d = x.split([p, q, r, s], -1)
    return torch.cat((c, d), -1) + 1, torch.tanh(a), b * 2


@fires("n, 4 * k", "n, e")
def between_others(x, y, k):
    a, b, c, d = torch.split(x, k, 1)
    return torch.cat([y, a, b, y, c, d], dim=1).relu()


@fires("3 * k, n")
def stacked(x, k):
    return torch.stack(torch.split(x, [k, k, k]), dim=1).sum(0)


@fires("n, 3 * k, m")
def along_another_dim(x, k):
    return torch.cat(torch.split(x, [k, k, k], dim=1), dim=2).exp()


@fires("n, 3 * k, m", "n, k, e")
def along_another_dim_with_others(x, y, k):
    a, b, c = torch.split(x, [k, k, k], dim=1)
    return torch.cat([y, a, b, c], dim=-1).exp()


@fires("2 * k, n", "k, n")
def stacked_with_others(x, y, k):
    a, b = torch.split(x, [k, k])
    return torch.stack([y, a, b], dim=-1).sin()


@fires("n, p + q")
def returned(x, p, q):
    return torch.cat(torch.split(x, [p, q], dim=1), dim=1)


@declines("consecutive", "n, p + q + r")
def out_of_order(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([b, a, c], dim=1)


@declines("consecutive", "n, 2 * k")
def repeated(x, k):
    a, b = torch.split(x, [k, k], dim=1)
    return torch.cat([b, b, a, a], dim=1)


@declines("single_use", "n, p + q + r")
def used_elsewhere(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([a, b], dim=1), torch.tanh(b) + 1, c


@declines("law:sizes", "3 * k, n", grad=False)
def turned_later(x, k):
    a, b, c = torch.split(x, [k, k, k])
    joined = torch.cat([a, b, c], dim=1)
    a.t_()
    return joined * 2


def run_becomes_a_section(rule: Rule) -> None:
    """A run of neighbours joined along the cut, also among others, and the split in which it is one section."""
    count, first, length = rule.number("count", 1), rule.number("first"), rule.number("length", 1)
    rule.suppose(first + length <= count)
    left, right = rule.number("left"), rule.number("right")
    sections = rule.sections("section", count)
    x = rule.tensor("x", left, sections.total, right)
    pieces, run = rule.split(x, 1, sections), sections.between(first, length)
    rule.equal("all pieces", rule.cat(pieces, 1), x)
    together = rule.narrow(x, 1, sections.offset(first), run.total)
    rule.equal("a run", rule.cat(pieces.between(first, length), 1), together)
    rule.equal("a run among others", *inside_another_join(rule))
    kept = rule.computed(
        count - length + 1,
        lambda k: rule.choose(k < first, sections.size(k), rule.choose(k == first, run.total, sections.size(k + length - 1))),
        lambda k: rule.choose(k <= first, sections.offset(k), sections.offset(k + length - 1)),
    )
    fewer, behind = rule.split(x, 1, kept), count - first - length
    rule.equal("the section that stays together", together, fewer[first])
    rule.equal("pieces before it", pieces.between(0, first), fewer.between(0, first))
    rule.equal("pieces behind it", pieces.between(first + length, behind), fewer.between(first + 1, behind))


@dataclass(frozen=True)
class SplitCat(VerticalPattern):
    """``cat(split(x, d)[i : j], d)  ->  the section of x from i to j``

    Neighbouring pieces of one split that are joined again in their order were never worth cutting. All pieces: the join
    gives way to ``x``. Some: the split keeps them together as one section. Joined along another dimension, or stacked:
    the section is unflattened and its new dimension moved, which needs sections of one size.

    Sound because piece ``k`` at index ``i`` is ``x`` at ``i`` plus the offset of section ``k``, and a join of neighbours
    adds the same offsets again. Stops where order, use or size differ. A result that leaves the graph or is written to
    is copied by the engine, since ``cat`` makes a new tensor.
    """

    name = "split_cat_pass"
    anchors = frozenset({"split", "split_with_sizes", "chunk", "tensor_split"})
    exactness = Exactness.BITWISE
    requirements = {
        "consecutive": "at least two neighbouring pieces are joined in the order in which they were cut",
        "single_use": "a piece of a run that is not the whole tensor is used in that join alone, once",
    }
    cases: ClassVar[tuple[Case, ...]] = (
        restored,
        partly,
        between_others,
        stacked,
        along_another_dim,
        along_another_dim_with_others,
        stacked_with_others,
        returned,
    )
    declines: ClassVar[tuple[Case, ...]] = (out_of_order, repeated, used_elsewhere, turned_later)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of neighbours, what is left of the split around it, and the run joined along any other dimension."""
        run_becomes_a_section(rule)
        joined_elsewhere(rule, "split")

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node)
        if cut is None:
            return None
        pieces = cut.pieces()
        if pieces is None:
            return None
        op_of = state.ops.get
        readers = dict.fromkeys(u for p in pieces for u in p.users)
        joins = {u: j for u in readers if op_of(u) in JOINS and (j := join_of(u)) is not None}
        if not joins:
            return None
        found = Found(cut, pieces, {})
        refusal = Decline("consecutive")
        for user, join in joins.items():
            kept, refused = self._worthwhile(cut, join, pieces)
            refusal = refused or refusal
            if kept:
                found.joins[user] = (join, kept)
        if not found.joins:
            return refusal
        _choose(found)
        nodes = sorted((node, *pieces, *found.joins), key=lambda n: n._sort_key)
        return Match(tuple(nodes), node.next, found)

    def wanted(self, cut: Cut, join: Join, run: Run) -> str | None:
        """The requirement that a run breaks, or None."""
        del cut, join
        return None if run.length > 1 else "consecutive"

    def _worthwhile(self, cut: Cut, join: Join, pieces: dict[Node, int]) -> tuple[list[Run], Decline | None]:
        """The runs of one join that can be replaced, and why others cannot."""
        kept, refusal = [], None
        for run in runs(join.inputs, pieces):
            if run.length < 2:
                continue
            inputs = join.inputs[run.start : run.stop]
            broken = self.wanted(cut, join, run)
            if broken is not None:
                refusal = Decline(broken)
            elif (join.op == "stack" or join.dim != cut.dim) and not equal_sizes(cut.sizes[run.first : run.first + run.length]):
                refusal = Decline(Law.SIZES.reason, "sections are not known to be equal")
            elif run.length < len(cut.sizes) and any(len(n.users) > 1 or join.inputs.count(n) > 1 for n in inputs):
                refusal = Decline("single_use")
            else:
                kept.append(run)
        return kept, refusal

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        sources = _resplit(tx, found) if found.sections else {}
        for node, (join, kept) in found.joins.items():
            with tx.inserting_before(node):
                parts = {}
                for run in kept:
                    source = sources.get(run.first, found.cut.input)
                    parts[run] = whole(tx, found.cut, join, source, run.length, found.cut.sizes[run.first])
                tx.replace(node, rejoin(tx, join, parts))


def _choose(found: Found) -> None:
    """Runs of the whole tensor first: they need no other split, and free the pieces for the next sweep."""
    count = len(found.cut.sizes)
    full = {n: (j, complete) for n, (j, rs) in found.joins.items() if (complete := [r for r in rs if r.length == count])}
    if full:
        found.joins = full
        return
    taken = {r.first: r.first + r.length for _, rs in found.joins.values() for r in rs}
    at = 0
    while at < count:
        last = taken.get(at, at + 1)
        found.sections.append((at, last))
        at = last


def _resplit(tx: Transaction, found: Found) -> dict[int, Node]:
    """The coarser split, by the number of the first old section in each new one."""
    cut = found.cut
    sizes = [tx.size(s) for s in cut.sizes]
    joined = [tx.total(sizes[first:last]) for first, last in found.sections]
    split = tx.call(torch.split, cut.input, joined, dim=cut.dim)
    used = {i for n, i in found.pieces.items() if n.users}
    sources = {}
    for number, (first, last) in enumerate(found.sections):
        if used & set(range(first, last)):
            sources[first] = tx.item(split, number)
    for node, index in found.pieces.items():
        if (index, index + 1) in found.sections and node.users:
            tx.replace(node, sources[index])
    return sources
