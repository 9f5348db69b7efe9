from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Cut, Run, join_of, runs
from optimus.passes._joins import Found, cuts_of, inside_another_join, joined_elsewhere, rejoin, whole
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState


@fires("3, n, k")
def restored(x):
    return torch.stack(torch.unbind(x, 0), 0) * 2


@fires("n, 3, k")
def moved(x):
    return torch.stack(x.unbind(1), dim=-1).sin()


@fires("3, n, n")
def to_the_back(x):
    return torch.stack(torch.unbind(x), dim=2).cos()


@fires("3, n, k")
def side_by_side(x):
    return torch.cat(torch.unbind(x), dim=1).exp()


@fires("n, k, 3")
def side_by_side_from_the_back(x):
    return torch.cat(torch.unbind(x, dim=-1), dim=0).exp()


@fires("2, n, k", "n, k", "n, k")
def stacked_with_others(x, y, z):
    a, b = torch.unbind(x)
    return torch.stack([y, a, b, z], dim=1).cos()


@fires("2, n, k", "n, e")
def joined_with_others(x, y):
    a, b = torch.unbind(x)
    return torch.cat([a, b, y], dim=1).cos(), a + 1


@fires("3")
def scalars(x):
    return torch.stack(torch.unbind(x)) + 1


@fires("3, n")
def returned(x):
    return torch.stack(torch.unbind(x))


@declines("complete", "3, n, k")
def out_of_order(x):
    a, b, c = torch.unbind(x)
    return torch.stack([b, a, c])


@declines("complete", "3, n, k")
def one_missing(x):
    a, b, c = torch.unbind(x)
    return torch.stack([a, b]), c


@declines("complete", "2, n, k", "2, n, k")
def two_sources(x, y):
    a, b = torch.unbind(x)
    c, d = torch.unbind(y)
    return torch.stack([a, d]), b, c


@dataclass(frozen=True)
class UnbindStack(VerticalPattern):
    """``stack(unbind(x, d), c)  ->  movedim(x, d, c)``
    ``cat(unbind(x, d), c)  ->  flatten(movedim(x, d, c), c, c + 1)``

    All slices of a tensor, joined in their order, are the tensor with one dimension moved. Other inputs of the join stay.

    Sound because slice ``k`` at index ``i`` is ``x`` with ``k`` put in at ``d``, and the join puts ``k`` in at ``c``; the
    dimension moves, the others keep their order (a swap would not do). A result that leaves the graph, is written to,
    or is read by its strides is copied by the engine.
    """

    name = "unbind_stack_pass"
    anchors = frozenset({"stack", "cat"})
    exactness = Exactness.BITWISE
    requirements = {"complete": "every slice of the tensor is joined, each once, in the order in which it was cut"}
    cases = (restored, moved, to_the_back, side_by_side, side_by_side_from_the_back, stacked_with_others, joined_with_others, scalars, returned)
    declines = (out_of_order, one_missing, two_sources)

    @staticmethod
    def general(rule: Rule) -> None:
        """Slices joined in order at any place or along any dimension, also among other tensors."""
        joined_elsewhere(rule, "unbind")
        rule.equal("slices among others", *inside_another_join(rule))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None:
            return None
        complete: dict[Run, Cut] = {}
        slices: list[Node] = []
        cuts = [(cut, pieces) for cut, pieces in cuts_of(join) if cut.op == "unbind"]
        for cut, pieces in cuts:
            for run in runs(join.inputs, pieces):
                if run.length == len(cut.sizes):
                    complete[run] = cut
                    slices += [cut.node, *join.inputs[run.start : run.stop]]
        if not complete:
            return Decline("complete") if cuts else None
        nodes = sorted({node, *slices}, key=lambda n: n._sort_key)
        return Match(tuple(nodes), node, Found(join, complete))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        parts = {run: whole(tx, cut, found.join, cut.input, run.length, 1) for run, cut in found.runs.items()}
        tx.replace(found.join.node, rejoin(tx, found.join, parts))
