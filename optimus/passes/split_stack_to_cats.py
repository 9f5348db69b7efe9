from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._joins import RunsToSections, inside_another_join, joined_elsewhere
from optimus.pattern import declines, fires
from optimus.rule import Rule


@fires("3 * k, n")
def all_pieces(x, k):
    return torch.stack(torch.split(x, [k, k, k])) * 2


@fires("3 * k, k")
def to_the_back(x, k):
    return torch.stack(torch.split(x, [k, k, k]), dim=-1).sin()


@fires("n, 12 * k", "n, k")
def long_part(x, y, k):
    pieces = torch.split(x, [k] * 12, dim=1)
    return torch.stack([y, *pieces[1:11]], dim=1).cos(), pieces[0], pieces[11]


@declines("long_run", "4 * k, n")
def short_part(x, k):
    a, b, c, d = torch.split(x, [k, k, k, k])
    return torch.stack([b, c]), a, d


@declines("law:sizes", "3 * k, n", grad=False)
def turned_later(x, k):
    a, b, c = torch.split(x, [k, k, k])
    stacked = torch.stack([a, b, c])
    a.t_()
    return stacked * 2


@dataclass(frozen=True)
class SplitStackToCats(RunsToSections):
    """``stack([.., *split(x, d)[i : j], ..], c)  ->  cat([.., movedim(unflatten(narrow(x, d, ..), d, (j - i, s)), d, c), ..], c)``

    A run of neighbouring pieces of one size among the inputs of a ``stack`` gives way to one part of the tensor, cut along
    ``d`` into a dimension of its own, which is moved to ``c``.

    Sound because piece ``k`` at index ``i`` is ``x`` at ``k * s + i``, which is what unflattening gives at ``(k, i)``, and the
    stack puts ``k`` in at ``c`` (a swap of two dimensions would not do). Stops at runs shorter than ``threshold_to_cat`` that
    are not all pieces.
    """

    name = "split_stack_to_cats_pass"
    anchors = frozenset({"stack"})
    cut = "split"
    join = "stack"
    requirements = {"long_run": "at least threshold_to_cat neighbouring pieces, or all of them, are stacked in their order"}
    cases = (all_pieces, to_the_back, long_part)
    declines = (short_part, turned_later)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of equal pieces stacked at any place, also among other tensors."""
        joined_elsewhere(rule, "split", ("stack",))
        rule.equal("a run among others", *inside_another_join(rule))
