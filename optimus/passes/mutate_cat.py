from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._joins import RunsToSections, joined_along
from optimus.pattern import declines, fires
from optimus.rule import Rule


@fires("n, p + q + r")
def restored(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([a, b, c], dim=1) * 2, a + 1, c - 1


@fires("n, p + q + r + s")
def middle(x, p, q, r, s):
    a, b, c, d = torch.split(x, [p, q, r, s], dim=-1)
    return torch.cat([b, c], dim=1).sin(), a * 2, b * 3, d


@fires("p + q + r, n")
def head_and_tail(x, p, q, r):
    a, b, c = x.split([p, q, r])
    return torch.cat([a, b]).exp(), torch.cat([b, c]).cos()


@fires("p + q + r, n")
def returned(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r])
    return torch.cat([a, b]), c


@declines("one_run", "n, p + q + r")
def out_of_order(x, p, q, r):
    a, b, c = torch.split(x, [p, q, r], dim=1)
    return torch.cat([b, a, c], dim=1)


@declines("one_run", "n, p + q", "n, e")
def with_another(x, y, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    return torch.cat([a, b, y], dim=1)


@declines("same_dim", "n, 2 * k")
def along_another_dim(x, k):
    a, b = torch.split(x, [k, k], dim=1)
    return torch.cat([a, b], dim=0)


@dataclass(frozen=True)
class MutateCat(RunsToSections):
    """``cat(split(x, d)[i : j], d)  ->  narrow(x, d, offset of i, size of i to j)``

    A join of nothing but neighbouring pieces of one split, in their order, is a section of the tensor. The split stays for
    the other readers of its pieces.

    Sound because piece ``k`` at index ``i`` is ``x`` at ``i`` plus the offset of section ``k``. Stops where the join has
    any other input or another order, or runs along another dimension than the split. A result that leaves the graph or is
    written to is copied by the engine, since ``cat`` makes a new tensor.
    """

    name = "mutate_cat_pass"
    anchors = frozenset({"cat"})
    cut = "split"
    join = "cat"
    along = True
    alone = True
    requirements = {
        "one_run": "the join has no other inputs than neighbouring pieces of one split, in their order",
        "same_dim": "the pieces are joined along the dimension in which they were cut",
    }
    cases = (restored, middle, head_and_tail, returned)
    declines = (out_of_order, with_another, along_another_dim)

    threshold_to_cat: int = 2
    """Joins of fewer pieces are left alone unless they are all pieces of their split."""

    @staticmethod
    def general(rule: Rule) -> None:
        """Neighbouring pieces, all or some, joined along the cut."""
        joined_along(rule)
