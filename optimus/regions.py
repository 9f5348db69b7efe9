"""Cut a part of a graph out as a graph of its own, for validation and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node


@dataclass(frozen=True)
class Region:
    """A rewrite as two graphs over the same inputs, whose outputs correspond one to one.

    ``private``: the outputs that stay inside the surrounding graph and are never written there, so that nobody can tell
    whether they are views or copies, nor by what strides they are stored. ``grad``: whether gradients are recorded where
    it stands. Its autocast shows in the dtypes of the metadata.
    """

    pattern: str
    before: GraphModule
    after: GraphModule
    private: frozenset[int] = frozenset()
    grad: bool = True


def cut(
    pattern: str,
    old: Sequence[Node],
    new: Sequence[Node],
    outputs: Sequence[tuple[Node, Node]],
    private: frozenset[int] = frozenset(),
    grad: bool = True,
) -> Region:
    """The region of a rewrite: ``old`` computed the first of each of ``outputs``, ``new`` computes the second.

    Both sequences are in graph order. New nodes may read old ones; those are repeated on the new side.
    """
    kept = _needed(new, old)
    inside = {*old, *new}
    inputs = list(dict.fromkeys(n for node in (*old, *kept, *new) for n in node.all_input_nodes if n not in inside))
    before, after = _graph(inputs, old, [o for o, _ in outputs]), _graph(inputs, (*kept, *new), [n for _, n in outputs])
    return Region(pattern, before, after, private, grad)


def _needed(new: Sequence[Node], old: Sequence[Node]) -> list[Node]:
    inside, wanted = set(old), {n for node in new for n in node.all_input_nodes}
    for node in reversed(old):
        if node in wanted:
            wanted.update(n for n in node.all_input_nodes if n in inside)
    return [node for node in old if node in wanted]


def _graph(inputs: Sequence[Node], body: Sequence[Node], outputs: Sequence[Node]) -> GraphModule:
    graph = Graph()
    copied: dict[Node, Node] = {}
    for node in inputs:
        copied[node] = graph.placeholder(node.name)
        copied[node].meta = dict(node.meta)
    for node in body:
        copied[node] = graph.node_copy(node, lambda n: copied[n])
    graph.output(tuple(copied[n] for n in outputs))
    return GraphModule(torch.nn.Module(), graph)
