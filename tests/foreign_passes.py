"""Passes as those of a backend of somebody else: of a graph or a module, right and wrong."""

from __future__ import annotations

import torch
from torch.fx import Graph, GraphModule


def nothing(graph: Graph) -> None:
    """Changes nothing."""


def method_for_function(gm: GraphModule) -> GraphModule:
    """``torch.tanh(x)`` as ``x.tanh()``, which is the same."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is torch.tanh and len(node.args) == 1 and not node.kwargs:
            node.op, node.target = "call_method", "tanh"
    return gm


def tanh_for_sigmoid(graph: Graph) -> None:
    """Wrong: another function."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is torch.sigmoid:
            node.target = torch.tanh


PASSES = [method_for_function, tanh_for_sigmoid]
NO_FUNCTIONS = [1]
