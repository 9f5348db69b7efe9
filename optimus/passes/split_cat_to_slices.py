from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._joins import RunsToSections, inside_another_join, joined_along
from optimus.pattern import declines, fires
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


@declines("long_run", "n, 4 * k", "n, e")
def short_part(x, y, k):
    a, b, c, d = torch.split(x, [k, k, k, k], dim=1)
    return torch.cat([y, b, c], dim=1), a, d


@declines("same_dim", "n, 2 * k")
def along_another_dim(x, k):
    return torch.cat(torch.split(x, [k, k], dim=1), dim=0)


@dataclass(frozen=True)
class SplitCatToSlices(RunsToSections):
    """``cat([.., *split(x, d)[i : j], ..], d)  ->  cat([.., narrow(x, d, offset of i, size of i to j), ..], d)``

    A run of neighbouring pieces among the inputs of a join gives way to one section of the tensor they were cut from.

    Sound because piece ``k`` at index ``i`` is ``x`` at ``i`` plus the offset of section ``k``, and positions of the other
    inputs do not change. Stops at runs shorter than ``threshold_to_cat`` that are not all pieces, and where the join is
    along another dimension than the split.
    """

    name = "split_cat_to_slices_pass"
    anchors = frozenset({"cat"})
    cut = "split"
    join = "cat"
    along = True
    requirements = {
        "long_run": "at least threshold_to_cat neighbouring pieces, or all of them, are joined in their order",
        "same_dim": "the pieces are joined along the dimension in which they were cut",
    }
    cases = (all_pieces_and_another, long_part, two_sources)
    declines = (short_part, along_another_dim)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of pieces in a join along the cut, also among other tensors."""
        joined_along(rule)
        rule.equal("a run among others", *inside_another_join(rule))
