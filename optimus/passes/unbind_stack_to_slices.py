from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._joins import RunsToSections, inside_another_join, joined_elsewhere
from optimus.pattern import declines, fires
from optimus.rule import Rule


@fires("3, n, k")
def all_slices(x):
    return torch.stack(torch.unbind(x)) * 2


@fires("3, n, n")
def to_the_back(x):
    return torch.stack(torch.unbind(x), dim=-1).sin()


@fires("n, 12, k", "n, k")
def long_part(x, y):
    slices = torch.unbind(x, 1)
    return torch.stack([*slices[1:11], y], dim=0).cos(), slices[0], slices[11]


@declines("long_run", "4, n, k")
def short_part(x):
    a, b, c, d = torch.unbind(x)
    return torch.stack([b, c]), a, d


@dataclass(frozen=True)
class UnbindStackToSlices(RunsToSections):
    """``stack([.., *unbind(x, d)[i : j], ..], c)  ->  cat([.., movedim(narrow(x, d, i, j - i), d, c), ..], c)``

    A run of neighbouring slices among the inputs of a ``stack`` gives way to one part of the tensor, its dimension moved.

    Sound because slice ``k`` at index ``i`` is ``x`` with ``k`` put in at ``d``, and the stack puts ``k`` in at ``c``. Stops at
    runs shorter than ``threshold_to_cat`` that are not all slices.
    """

    name = "unbind_stack_to_slices_pass"
    anchors = frozenset({"stack"})
    cut = "unbind"
    join = "stack"
    requirements = {"long_run": "at least threshold_to_cat neighbouring slices, or all of them, are stacked in their order"}
    cases = (all_slices, to_the_back, long_part)
    declines = (short_part,)

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of slices stacked at any place, also among other tensors."""
        joined_elsewhere(rule, "unbind", ("stack",))
        rule.equal("a run among others", *inside_another_join(rule))
