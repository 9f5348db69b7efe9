"""Which level of the compiler a graph stands at, and the operators that the engine itself puts into a graph of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

from optimus.pattern import IR

aten = torch.ops.aten


def level(graph: Graph) -> IR:
    """ATen-IR if the nodes of ``graph`` keep their fakes as ``val``, which AOTAutograd writes; Torch-IR otherwise."""
    return IR.ATEN if any("val" in n.meta and "example_value" not in n.meta for n in graph.nodes) else IR.TORCH


def clone(node: Node, ir: IR) -> tuple[str, Any, tuple[Any, ...], Mapping[str, Any]]:
    """A node that copies ``node`` into memory of its own, row-major: kind, target, arguments."""
    target = aten.clone.default if ir is IR.ATEN else torch.clone
    return "call_function", target, (node,), {"memory_format": torch.contiguous_format}


def same_memory(node: Node, ir: IR) -> tuple[str, Any, tuple[Any, ...], Mapping[str, Any]]:
    """A node that makes another object of the memory of ``node``: kind, target, arguments."""
    if ir is IR.ATEN:
        return "call_function", aten.alias.default, (node,), {}
    return "call_method", "view_as", (node, node), {}
