"""Joins of pieces of cuts: finding runs of neighbours, and rebuilding the join with one tensor in the place of each run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, Run, cut_of, equal_sizes, join_of, runs
from optimus.laws import Law
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, at_least
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import Size


def whole(tx: Transaction, cut: Cut, join: Join, source: Node, count: int, size: Size) -> Node:
    """What ``join`` makes of ``count`` neighbouring pieces of ``cut`` (``size`` each along its dimension) that ``source`` holds.

    For a ``stack`` the result has the new dimension already, so it takes part in a ``cat`` along it.
    """
    apart = source
    if cut.op == "split":
        if join.op == "cat" and join.dim == cut.dim:
            return source
        apart = tx.call(torch.unflatten, source, cut.dim, (count, tx.size(size)))
    moved = apart if cut.dim == join.dim else tx.call(torch.movedim, apart, cut.dim, join.dim)
    if join.op == "stack":
        return moved
    return tx.call(torch.flatten, moved, join.dim, join.dim + 1)


def section(tx: Transaction, cut: Cut, run: Run) -> Node:
    """The part of the input of ``cut`` that the pieces of ``run`` cover, as a view."""
    if run.length == len(cut.sizes):
        return cut.input
    sizes = [tx.size(s) for s in cut.sizes[: run.first + run.length]]
    return tx.call(torch.narrow, cut.input, cut.dim, tx.total(sizes[: run.first]), tx.total(sizes[run.first :]))


def rejoin(tx: Transaction, join: Join, parts: dict[Run, Node]) -> Node:
    """The join with each run of ``parts`` replaced by the tensor that stands for it."""
    inputs: list[Node] = []
    position = 0
    for run in sorted(parts, key=lambda r: r.start):
        inputs += [_single(tx, join, n) for n in join.inputs[position : run.start]]
        inputs.append(parts[run])
        position = run.stop
    inputs += [_single(tx, join, n) for n in join.inputs[position:]]
    if len(inputs) == 1:
        return inputs[0]
    return tx.call(torch.cat, inputs, dim=join.dim)


def _single(tx: Transaction, join: Join, node: Node) -> Node:
    return node if join.op == "cat" else tx.call(torch.unsqueeze, node, join.dim)


def inside_another_join(rule: Rule) -> tuple[Any, Any]:
    """A join of three tensors, and the same with the second joined from two before."""
    left, right = rule.number("left_of_join"), rule.number("right_of_join")
    a, b, c, d = (rule.tensor(name, left, rule.number(f"size_of_{name}"), right) for name in "abcd")
    return rule.join(1, a, b, c, d), rule.join(1, a, rule.join(1, b, c), d)


def joined_along(rule: Rule) -> None:
    """All pieces joined along the cut, and a run of them."""
    count, first, length = rule.number("count", 1), rule.number("first"), rule.number("length", 1)
    rule.suppose(first + length <= count)
    sections = rule.sections("section", count)
    x = rule.tensor("x", rule.number("left"), sections.total, rule.number("right"))
    pieces, run = rule.split(x, 1, sections), sections.between(first, length)
    rule.equal("all pieces", rule.cat(pieces, 1), x)
    rule.equal("a run", rule.cat(pieces.between(first, length), 1), rule.narrow(x, 1, sections.offset(first), run.total))


def joined_elsewhere(rule: Rule, cut: Literal["split", "unbind"], joins: tuple[str, ...] = ("cat", "stack")) -> None:
    """Equal pieces, ``length`` of ``count``, stacked at any place, and joined along a dimension to the left or right of the cut."""
    count, first, length = rule.number("pieces", 1), rule.number("from"), rule.number("many", 1)
    rule.suppose(first + length <= count)
    far_left, left, near_left, near_right, right, far_right = (rule.number(f"axis_{k}") for k in range(6))
    if cut == "split":
        equal = rule.sections("equal", count, rule.number("each"))
        x = rule.tensor("y", far_left, left, near_left, equal.total, near_right, right, far_right)
        pieces = rule.split(x, 3, equal)
        run = equal.between(first, length)
        apart = rule.unflatten(rule.narrow(x, 3, equal.offset(first), run.total), 3, run)
        rightmost = 5
    else:
        x = rule.tensor("y", far_left, left, near_left, count, near_right, right, far_right)
        pieces = rule.unbind(x, 3)
        apart = rule.narrow(x, 3, first, length)
        rightmost = 4
    pieces = pieces.between(first, length)
    for dim in range(rightmost + 3) if "stack" in joins else ():
        rule.equal(f"stacked as axis {dim}", rule.stack(pieces, dim), rule.move(apart, 3, dim))
    for dim, extent in ((1, left), (rightmost, right)) if "cat" in joins else ():
        wide = rule.sections(f"wide_{dim}", length, extent)
        rule.equal(f"joined along axis {dim}", rule.cat(pieces, dim, wide), rule.flatten(rule.move(apart, 3, dim), dim, wide))


def cuts_of(join: Join) -> list[tuple[Cut, dict[Node, int]]]:
    """The cuts that pieces among the inputs of ``join`` come from, each with its pieces by number."""
    sources = dict.fromkeys(i.args[0] for i in join.inputs if i.args and isinstance(i.args[0], Node))
    return [(cut, pieces) for s in sources if (cut := cut_of(s)) is not None and (pieces := cut.pieces())]


@dataclass
class Found:
    """A join and the runs in it that are to be replaced, each with the cut its pieces come from."""

    join: Join
    runs: dict[Run, Cut]


@dataclass(frozen=True)
class RunsToSections(VerticalPattern):
    """The common part of the patterns that put one view of the whole in the place of a run of pieces.

    ``cut`` and ``join``: the operators it looks at. ``along``: whether the join has to be along the dimension of the cut, or not;
    None: both. ``alone``: whether the join has to have no other inputs.
    """

    threshold_to_cat: int = 10
    """Runs of fewer pieces are left alone unless they are all pieces of their cut. On an H200 runs of 2 and 4 gained nothing, of 8 and more a kernel (1.4 times as fast)."""

    exactness = Exactness.BITWISE
    cut: ClassVar[Literal["split", "unbind"]]
    join: ClassVar[Literal["cat", "stack"]]
    along: ClassVar[bool | None] = None
    alone: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "threshold_to_cat", 2)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None or join.op != type(self).join:
            return None
        chosen: dict[Run, Cut] = {}
        involved: list[Node] = []
        refusal: Decline | None = None
        for cut, pieces in cuts_of(join):
            if cut.op != type(self).cut:
                continue
            for run in runs(join.inputs, pieces):
                refused = self.refuse(cut, join, run)
                refusal = refusal or refused
                if refused is None:
                    chosen[run] = cut
                    involved += [cut.node, *join.inputs[run.start : run.stop]]
        if not chosen:
            return refusal
        nodes = sorted({node, *involved}, key=lambda n: n._sort_key)
        return Match(tuple(nodes), node, Found(join, chosen))

    def refuse(self, cut: Cut, join: Join, run: Run) -> Decline | None:
        """Why a run is left alone, or None."""
        along = type(self).along
        if along is not None and (cut.dim == join.dim) != along:
            return Decline("same_dim", f"cut along {cut.dim}, joined along {join.dim}")
        if type(self).alone and run.length < len(join.inputs):
            return Decline("one_run")
        if run.length < len(cut.sizes) and run.length < self.threshold_to_cat:
            return Decline("long_run", f"{run.length} of {len(cut.sizes)} pieces")
        if cut.op == "split" and (join.op == "stack" or cut.dim != join.dim) and not equal_sizes(cut.sizes[run.first : run.first + run.length]):
            return Decline(Law.SIZES.reason, "sections are not known to be equal")
        return None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        parts = {run: whole(tx, cut, found.join, section(tx, cut, run), run.length, cut.sizes[run.first]) for run, cut in found.runs.items()}
        tx.replace(found.join.node, rejoin(tx, found.join, parts))
