from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Join
from optimus.passes._aten import aten
from optimus.passes._joins import Found, RunsToSections, inside_another_join, joined_along
from optimus.pattern import IR, Match, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule


@fires("n, 3 * k", "n, e")
def all_pieces_and_another(x, y, k):
    a, b, c = torch.split(x, [k, k, k], dim=1)
    return torch.cat([y, a, b, c], dim=-1).exp(), b * 2


@fires("n, 12 * k", "n, e")
def long_part(x, y, k):
    pieces = torch.split(x, [k] * 12, dim=1)
    return torch.cat([*pieces[1:11], y], dim=1).sin(), pieces[0] + pieces[4]


@fires("p + q, n", "r + s, n", "e, n")
def two_sources(x, y, z, p, q, r, s):
    a, b = torch.split(x, [p, q])
    c, d = torch.split(y, [r, s])
    return torch.cat([a, b, z, c, d, a]).cos()


@fires("4 * k, n")
def by_size(x, k):
    return torch.cat(torch.split(x, k)) * 2


@declines("long_run", "n, 4 * k", "n, e")
def short_part(x, y, k):
    a, b, c, d = torch.split(x, [k, k, k, k], dim=1)
    return torch.cat([y, b, c], dim=1), a * d


@declines("same_dim", "n, 2 * k")
def along_another_dim(x, k):
    return torch.cat(torch.split(x, [k, k], dim=1), dim=0)


@dataclass(frozen=True)
class SplitCatAten(RunsToSections):
    """``cat([.., *split_with_sizes(x, d)[i : j], ..], d)  ->  cat([.., slice(x, d, offset of i, offset of j), ..], d)``

    A run of neighbouring pieces among the inputs of a join gives way to one section of the tensor they were cut from; a join
    of nothing else is that section.

    Sound because piece ``k`` at index ``i`` is ``x`` at ``i`` plus the offset of section ``k``, and positions of the other
    inputs do not change. Stops at runs shorter than ``threshold_to_cat`` that are not all pieces, and where the join is
    along another dimension than the split. Runs are told by their places in the join, so that pieces of several
    tensors, repeated ones and those in another order stay where they are.
    """

    name = "split_cat_aten_pass"
    ir = IR.ATEN
    anchors = frozenset({"cat"})
    cut = "split"
    join = "cat"
    along = True
    requirements = {
        "long_run": "at least threshold_to_cat neighbouring pieces, or all of them, are joined in their order",
        "same_dim": "the pieces are joined along the dimension in which they were cut",
    }
    cases = (all_pieces_and_another, long_part, two_sources, by_size)
    declines = (short_part, along_another_dim)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of pieces in a join along the cut, also among other tensors."""
        joined_along(rule)
        rule.equal("a run among others", *inside_another_join(rule))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        join, parts = found.join, []
        position = 0
        for run in sorted(found.runs, key=lambda r: r.start):
            cut = found.runs[run]
            parts += join.inputs[position : run.start]
            position = run.stop
            if run.length == len(cut.sizes):
                parts.append(cut.input)
                continue
            sizes = [tx.size(s) for s in cut.sizes[: run.first + run.length]]
            parts.append(tx.call(aten.slice.Tensor, cut.input, cut.dim, tx.total(sizes[: run.first]), tx.total(sizes)))
        parts += join.inputs[position:]
        tx.replace(join.node, _joined(tx, join, parts))


def _joined(tx: Transaction, join: Join, parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else tx.call(aten.cat.default, parts, join.dim)
