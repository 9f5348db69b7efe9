"""Which values of an ATen graph lie in the same memory, told from the operators."""

from __future__ import annotations

import operator

import torch
from torch._ops import OpOverload
from torch.fx import Node

MAY_VIEW = {torch.ops.aten._unsafe_view.default, torch.ops.aten.clone.default, torch.ops.aten.lift_fresh_copy.default}
"""Operators that return new memory by their schemas, of which compilers make views."""


def root(node: Node) -> Node:
    """The value whose memory ``node`` may lie in: itself, unless it is a view."""
    while (source := _viewed(node)) is not None:
        node = source
    return node


def _viewed(node: Node) -> Node | None:
    """What ``node`` may be a view of; a piece of several results is one of what they are views of."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        sequence = node.args[0]
        return _viewed(sequence) if isinstance(sequence, Node) else None
    if not isinstance(node.target, OpOverload):
        return None
    if node.target in MAY_VIEW:
        return _argument(node, 0, "self")
    schema = node.target._schema
    if not any(r.alias_info is not None for r in schema.returns):
        return None
    viewed = next(((k, a.name) for k, a in enumerate(schema.arguments) if a.alias_info is not None), None)
    return None if viewed is None else _argument(node, *viewed)


def _argument(node: Node, position: int, name: str) -> Node | None:
    found = node.args[position] if position < len(node.args) else node.kwargs.get(name)
    return found if isinstance(found, Node) else None
