"""Stacking the operands of a group and handing out the slices of the joint result."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node

from optimus.rewriter import Transaction


def stack_inputs(tx: Transaction, operands: Sequence[Node]) -> Node:
    """``operands`` along a new first dimension; one tensor that all members share is expanded, not copied."""
    if all(o is operands[0] for o in operands):
        single = tx.call(torch.unsqueeze, operands[0], 0)
        rank = len(single.meta[next(iter({"example_value", "val"} & single.meta.keys()))].shape)
        return tx.method("expand", single, len(operands), *[-1] * (rank - 1))
    return tx.call(torch.stack, list(operands), dim=0)


def unbind_results(tx: Transaction, members: Sequence[Node], joint: Node) -> None:
    """Replace each member by its slice of ``joint``."""
    slices = tx.call(torch.unbind, joint, dim=0)
    for index, member in enumerate(members):
        tx.replace(member, tx.item(slices, index))
