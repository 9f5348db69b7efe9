from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from optimus.forms import Cut, Join, Run
from optimus.passes.split_cat import SplitCat, run_becomes_a_section
from optimus.pattern import Case, declines, fires
from optimus.rule import Rule


@fires("n, p + q + r + s")
def middle(x, p, q, r, s):
    a, b, c, d = torch.split(x, [p, q, r, s], dim=1)
    return torch.cat([b, c], dim=1).sin(), a * 2, d


@fires("n, p + q + r + s")
def two_joins(x, p, q, r, s):
    a, b, c, d = torch.split(x, [p, q, r, s], dim=-1)
    return torch.cat([a, b], dim=1).sin(), torch.cat([c, d], dim=1).cos()


@fires("p + q + r, n", "e, n")
def with_another(x, y, p, q, r):
    a, b, c = x.split([p, q, r])
    return torch.cat([y, a, b]).exp(), c + 1


@declines("part", "n, p + q")
def all_pieces(x, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    return torch.cat([a, b], dim=1)


@declines("consecutive", "n, p + q + r")
def out_of_order(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([b, a], dim=1), c


@declines("single_use", "n, p + q + r")
def used_elsewhere(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([a, b], dim=1), torch.tanh(b) + 1, c


@declines("same_dim", "n, 3 * k")
def along_another_dim(x, k):
    a, b, c = torch.split(x, [k, k, k], dim=1)
    return torch.cat([a, b], dim=0), c


@dataclass(frozen=True)
class MergeGetitemCat(SplitCat):
    """``cat(split(x, (.., a, b, ..), d)[i : i + 2], d)  ->  split(x, (.., a + b, ..), d)[i]``

    Neighbouring pieces of a split that are joined again, and used for nothing else, become one section of it.

    Sound because the joined section starts where the first of the pieces did and covers what they covered; later pieces
    keep their offsets and get new numbers. Stops where all pieces are joined (that is no smaller split), where order or use
    differ, and where the join is along another dimension than the split.
    """

    name = "merge_getitem_cat_pass"
    requirements = {
        **SplitCat.requirements,
        "part": "the joined pieces are not the whole tensor",
        "same_dim": "the pieces are joined along the dimension in which they were cut",
    }
    cases: ClassVar[tuple[Case, ...]] = (middle, two_joins, with_another)
    declines: ClassVar[tuple[Case, ...]] = (all_pieces, out_of_order, used_elsewhere, along_another_dim)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of neighbours joined along the cut, also among others, and the split in which it is one section."""
        run_becomes_a_section(rule)

    def wanted(self, cut: Cut, join: Join, run: Run) -> str | None:
        if join.op != "cat" or join.dim != cut.dim:
            return "same_dim"
        return "part" if run.length == len(cut.sizes) else None
