"""Rebuilding a join in which runs of pieces give way to one tensor each."""

from __future__ import annotations

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, Run
from optimus.rewriter import Transaction
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
