from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import join_of
from optimus.passes._aten import aten
from optimus.passes._joins import joined_elsewhere
from optimus.passes._slices import extents, moved, slice_of, times, whole_of
from optimus.pattern import IR, Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import is_row_major, tensor


@fires("3, n, k")
def along_the_cut(x):
    return torch.cat([x[0], x[1], x[-1]]) + 1


@fires("n, 3, k")
def in_the_middle(x):
    return torch.cat([x.select(1, k) for k in range(3)], dim=1).cos()


@fires("3, n, k")
def along_another_dim(x):
    return torch.cat(x.unbind(), dim=1) * 2


@fires("n, k, 2")
def from_the_back(x):
    return torch.cat([x[..., 0], x[..., 1]], dim=0).exp()


@declines("every_slice", "2, n")
def another_order(x):
    return torch.cat([x[-1], x[0]]) + 1


@declines("every_slice", "2, n, k", "2, n, k")
def two_tensors(x, y):
    return torch.cat([x[0], y[1]]) + 1


@declines("every_slice", "3, n, k")
def one_twice(x):
    return torch.cat([x[0], x[1], x[1]]) + 1


@dataclass(frozen=True)
class SelectCatAten(VerticalPattern):
    """``cat([select(x, d, 0), .., select(x, d, n - 1)], c)  ->  view(permute(x, dimension d at place c), places c and c + 1 as one)``

    All slices of a tensor, joined in their order, are the tensor read in another shape. Where its elements do not lie in
    that order in memory, they are copied once.

    Sound because the joined dimension counts slices first and places inside one second, as two neighbouring dimensions in
    row-major order do. Stops where slices come from several tensors or are not all there, each once and in their order.
    """

    name = "select_cat_aten_pass"
    ir = IR.ATEN
    anchors = frozenset({"cat"})
    exactness = Exactness.BITWISE
    requirements = {"every_slice": "the slices are all those of one tensor along one dimension, each once and in their order"}
    cases = (along_the_cut, in_the_middle, along_another_dim, from_the_back)
    declines = (another_order, two_tensors, one_twice)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of slices along any dimension, joined along any."""
        joined_elsewhere(rule, "unbind", joins=("cat",))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        join = join_of(node)
        if join is None:
            return None
        slices = [slice_of(p) for p in join.inputs]
        if not any(slices):
            return None
        whole = whole_of(slices)
        if whole is None:
            return Decline("every_slice")
        nodes = {node, *join.inputs, *(p.args[0] for p in join.inputs if isinstance(p.args[0], Node) and p.args[0] is not whole.source)}
        return Match(tuple(sorted(nodes, key=lambda n: n._sort_key)), node, (whole, join.dim))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        whole, to = match.found
        found = moved(tx, whole.source, whole.dim, to)
        fake = tensor(found)
        assert fake is not None
        shape = extents(tx, found)
        if not is_row_major(fake):
            found = tx.copy(found)
        tx.replace(match.nodes[-1], tx.call(aten.view.default, found, [*shape[:to], times(tx, shape[to], shape[to + 1]), *shape[to + 2 :]]))
