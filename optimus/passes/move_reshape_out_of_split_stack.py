from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, Run, cut_of, equal_sizes, join_of, piece_index, runs
from optimus.laws import Law
from optimus.operators import bind
from optimus.passes._joins import rejoin, section
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import tensor


@fires("3 * k, m")
def rows(x, k):
    return torch.stack([p.reshape(-1) for p in torch.split(x, [k, k, k])]).sin()


@fires("n, 3 * k, m")
def columns(x, k):
    pieces = torch.split(x, [k, k, k], dim=1)
    return torch.stack([p.reshape(x.shape[0], -1) for p in pieces], dim=1).cos()


@fires("n, 3 * k")
def to_the_back(x, k):
    a, b, c = torch.split(x, [k, k, k], dim=1)
    return torch.stack([a.reshape(-1, 1), b.reshape(-1, 1), c.reshape(-1, 1)], dim=2).exp()


@fires("12 * k, m", "k, m")
def long_part(x, y, k):
    pieces = torch.split(x, [k] * 12)
    return torch.stack([*(p.reshape(-1) for p in pieces[1:11]), y.reshape(-1)]).sin(), pieces[0], pieces[11]


@declines("long_run", "4 * k, m")
def short_part(x, k):
    a, b, c, d = torch.split(x, [k, k, k, k])
    return torch.stack([b.reshape(-1), c.reshape(-1)]), a, d


@dataclass
class Found:
    """A stack, the runs of reshaped pieces in it with their cuts, and the reshapes and pieces involved."""

    join: Join
    runs: dict[Run, Cut]


@dataclass(frozen=True)
class MoveReshapeOutOfSplitStack(VerticalPattern):
    """``stack([reshape(p, q) for p in split(x, d)], c)  ->  movedim(reshape(movedim(unflatten(x, d, (n, s)), d, 0), (n, *q)), 0, c)``

    Pieces of one size that are each reshaped to one shape and stacked: the whole is reshaped once.

    Sound because unflattening and moving the new dimension to the front lays piece after piece, each as it was; reshaping
    behind the first dimension reshapes each piece; and the stack puts the number of the piece in at ``c``. Stops at runs
    shorter than ``threshold_to_cat`` that are not all pieces.
    """

    name = "move_reshape_out_of_split_stack_pass"
    anchors = frozenset({"stack"})
    exactness = Exactness.BITWISE
    requirements = {"long_run": "at least threshold_to_cat neighbouring pieces, or all of them, are reshaped and stacked in their order"}
    cases = (rows, columns, to_the_back, long_part)
    declines = (short_part,)

    threshold_to_cat: int = 10
    """Runs of fewer pieces are left alone unless they are all pieces of their split."""

    @staticmethod
    def general(rule: Rule) -> None:
        """A run of equal pieces, each reshaped to one shape, stacked at the front; moving the new axis is what ``stack`` does then."""
        count, first, length = rule.number("count", 1), rule.number("first"), rule.number("length", 1)
        rule.suppose(first + length <= count)
        left, right, one, other = (rule.number(name) for name in ("left", "right", "one", "other"))
        equal = rule.sections("equal", count, rule.number("each"))
        x = rule.tensor("x", left, equal.total, right)
        run = equal.between(first, length)
        pieces = rule.each(lambda p: rule.reshape(p, 0, one, other), rule.split(x, 1, equal).between(first, length))
        apart = rule.unflatten(rule.narrow(x, 1, equal.offset(first), run.total), 1, run)
        whole = rule.reshape(rule.move(apart, 1, 0), 1, one, other)
        for dim in range(3):
            rule.equal(f"stacked as axis {dim}", rule.stack(pieces, dim), rule.move(whole, 0, dim))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None or join.op != "stack":
            return None
        pieces = {i: p for i in join.inputs if (p := _reshaped_piece(i)) is not None}
        cuts = {
            s: cut
            for s in dict.fromkeys(p.args[0] for p in pieces.values())
            if isinstance(s, Node) and (cut := cut_of(s)) is not None and cut.op == "split"
        }
        chosen: dict[Run, Cut] = {}
        involved: list[Node] = []
        refusal: Decline | None = None
        for source, cut in cuts.items():
            numbers = {i: index for i, p in pieces.items() if p.args[0] is source and (index := piece_index(p)) is not None}
            for run in runs(join.inputs, numbers):
                if run.length < len(cut.sizes) and run.length < self.threshold_to_cat:
                    refusal = Decline("long_run", f"{run.length} of {len(cut.sizes)} pieces")
                elif not equal_sizes(cut.sizes[run.first : run.first + run.length]):
                    refusal = Decline(Law.SIZES.reason, "sections are not known to be equal")
                else:
                    chosen[run] = cut
                    involved += [source, *(n for i in join.inputs[run.start : run.stop] for n in (i, pieces[i]))]
        if not chosen:
            return refusal
        nodes = sorted({node, *involved}, key=lambda n: n._sort_key)
        return Match(tuple(nodes), node, Found(join, chosen))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        parts = {}
        for run, cut in found.runs.items():
            shape = tensor(found.join.inputs[run.start])
            assert shape is not None
            apart = tx.call(torch.unflatten, section(tx, cut, run), cut.dim, (run.length, tx.size(cut.sizes[run.first])))
            together = tx.call(torch.reshape, self.front(tx, apart, cut.dim), (run.length, *map(tx.size, shape.shape)))
            parts[run] = together if found.join.dim == 0 else tx.call(torch.movedim, together, 0, found.join.dim)
        tx.replace(found.join.node, rejoin(tx, found.join, parts))

    def front(self, tx: Transaction, apart: Node, dim: int) -> Node:
        """``apart`` with dimension ``dim``, the number of the piece, in front."""
        return apart if dim == 0 else tx.call(torch.movedim, apart, dim, 0)


def _reshaped_piece(node: Node) -> Node | None:
    """The piece that ``node`` reshapes, or None."""
    call = bind(node)
    if call is None or call.writes or call.op not in ("reshape", "view", "flatten", "unflatten") or call.args.get("dtype") is not None:
        return None
    source = call.args.get("self")
    return source if isinstance(source, Node) and piece_index(source) is not None else None
