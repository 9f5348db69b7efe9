from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._joins import RunsToSections, inside_another_join, joined_elsewhere
from optimus.pattern import declines, fires
from optimus.rule import Rule


@fires("3, n, k")
def all_slices(x):
    return torch.cat(torch.unbind(x), dim=1) * 2


@fires("3, n, n, k")
def far_dimension(x):
    return torch.cat(torch.unbind(x, 0), dim=2).sin()


@fires("12, n, k", "n, e")
def long_part(x, y):
    slices = torch.unbind(x)
    return torch.cat([y, *slices[1:11]], dim=1).cos(), slices[0], slices[11]


@declines("long_run", "4, n, k")
def short_part(x):
    a, b, c, d = torch.unbind(x)
    return torch.cat([b, c], dim=1), a, d


@dataclass(frozen=True)
class UnbindCatToView(RunsToSections):
    """``cat([.., *unbind(x, d)[i : j], ..], c)  ->  cat([.., flatten(movedim(narrow(x, d, i, j - i), d, c), c, c + 1), ..], c)``

    A run of neighbouring slices among the inputs of a ``cat`` gives way to one part of the tensor, its slices laid side by
    side.

    Sound because slice ``k`` at index ``i`` is ``x`` with ``k`` put in at ``d``; moving that dimension to stand before ``c``
    and flattening the two counts slices first and positions second, as the join does. Stops at runs shorter than
    ``threshold_to_cat`` that are not all slices.
    """

    name = "unbind_cat_to_view_pass"
    anchors = frozenset({"cat"})
    cut = "unbind"
    join = "cat"
    requirements = {"long_run": "at least threshold_to_cat neighbouring slices, or all of them, are joined in their order"}
    cases = (all_slices, far_dimension, long_part)
    declines = (short_part,)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of slices in a join along any dimension, also among other tensors."""
        joined_elsewhere(rule, "unbind", ("cat",))
        rule.equal("a run among others", *inside_another_join(rule))
