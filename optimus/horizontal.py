"""Which independent nodes a horizontal pattern may join (the paper's Algorithm 1), at a cost linear in the graph.

Candidates that share a consumer within ``max_depth`` operators form a neighbourhood, found by carrying labels from
producers to consumers. A list scheduler then walks the graph, holding candidates back while anything else can run, and
releases all waiting candidates of one key together: what waits together is independent, and the order of release is a
valid order of the graph. This is agenda-based batching (Neubig, Goldberg, Dyer: On-the-fly Operation Batching in Dynamic
Computation Graphs, 2017). Orders that in-place writes, random operators and effects impose are edges like any other.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import Node

from optimus.operators import bound
from optimus.state import GraphState
from optimus.values import MISSING, leaves, size_key, tensor, value

Label = Hashable


@dataclass
class Schedule:
    """A valid order of the nodes, in which the members of each group stand together; ``lonely`` found no company."""

    order: list[Node] = field(default_factory=list)
    groups: list[list[Node]] = field(default_factory=list)
    lonely: list[Node] = field(default_factory=list)


SOME_HAVE = {"linear": "bias"}
"""An operand of an operator that a group may do without in some members. Patterns say in their keys what has to be alike of it."""


def common_key(node: Node, state: GraphState) -> Hashable | None:
    """Law 8: what every grouping key contains. None where metadata is missing.

    A gradient must reach all members of a group or none, or inputs that had no gradient would get one of zeros.
    """
    found = value(node)
    if found is MISSING:
        return None
    operands = node.all_input_nodes
    optional = SOME_HAVE.get(state.ops.get(node, ""))
    if optional is not None:
        apart = bound(node)[optional]
        operands = [a for a in operands if a is not apart]
    fakes = [*leaves(found), *(t for a in operands if (t := tensor(a)) is not None)]
    return (node in state.live, *map(kind_key, fakes))


def kind_key(fake: torch.Tensor | None) -> Hashable:
    """What tensors have in common that can be stacked, besides their shape."""
    return None if fake is None else (fake.dtype, fake.device, fake.layout, fake.requires_grad, type(fake))


def shape_key(node: object) -> Hashable:
    """The shape of a node's tensor as a key: equal for shapes equal for every input the graph admits."""
    fake = tensor(node)
    return None if fake is None else tuple(map(size_key, fake.shape))


def schedule(state: GraphState, nodes: Sequence[Node], keys: dict[Node, Hashable], least: int, most: int) -> Schedule:
    """Group the candidates among ``nodes`` by their ``keys``; the nodes run under one ambient mode and stand in graph order."""
    position = {node: i for i, node in enumerate(nodes)}
    after, waiting = _dependencies(state, nodes, position)
    levels = _levels(nodes, after, keys)
    result = Schedule()
    ready: list[int] = []
    pending: dict[Hashable, list[Node]] = defaultdict(list)

    def offer(node: Node) -> None:
        if node in keys:
            pending[keys[node]].append(node)
        else:
            heapq.heappush(ready, position[node])

    def run(node: Node) -> None:
        result.order.append(node)
        for user in after[node]:
            waiting[user] -= 1
            if waiting[user] == 0:
                offer(user)

    for node in nodes:
        if waiting[node] == 0:
            offer(node)
    while ready or pending:
        while ready:
            run(nodes[heapq.heappop(ready)])
        if pending:
            key = min(pending, key=lambda k: (_mean([levels[n] for n in pending[k]]), position[pending[k][0]]))
            members = sorted(pending.pop(key), key=position.__getitem__)
            for part in _parts(members, most):
                (result.groups.append(part) if len(part) >= least else result.lonely.extend(part))
            for node in members:
                run(node)
    return result


def _mean(numbers: list[int]) -> float:
    return sum(numbers) / len(numbers)


def _parts(members: list[Node], most: int) -> list[list[Node]]:
    return [members[i : i + most] for i in range(0, len(members), most)]


def with_neighbourhoods(nodes: Iterable[Node], candidates: dict[Node, Hashable], depth: int) -> dict[Node, Hashable]:
    """Extend each key by a label that two candidates share if they, or a chain of others, have a near consumer in common.

    ``nodes``: the whole graph in order, its output included: whoever calls the graph consumes all that it returns.
    """
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parent.get(node, node) is not node:
            parent[node] = parent.get(parent[node], parent[node])
            node = parent[node]
        return node

    carried: dict[Node, tuple[Node, int]] = {}
    for node in nodes:
        arriving = []
        for used in node.all_input_nodes:
            if used in candidates:
                arriving.append((used, 1))
            if used in carried and carried[used][1] < depth:
                arriving.append((carried[used][0], carried[used][1] + 1))
        if arriving:
            first = root(arriving[0][0])
            for other, _ in arriving[1:]:
                parent[root(other)] = first
            carried[node] = (first, min(hops for _, hops in arriving))
    return {node: (key, root(node)) for node, key in candidates.items()}


def _dependencies(state: GraphState, nodes: Sequence[Node], position: dict[Node, int]) -> tuple[dict[Node, list[Node]], dict[Node, int]]:
    """For each node what must come after it, and how many nodes it waits for."""
    if not state.effect:
        after = {node: [u for u in node.users if u in position] for node in nodes}
        counts = dict.fromkeys(nodes, 0)
        for users in after.values():
            for user in users:
                counts[user] += 1
        return after, counts
    edges: dict[Node, dict[Node, None]] = {node: {u: None for u in node.users if u in position} for node in nodes}
    last_ordered: Node | None = None
    last_write: dict[int, Node] = {}
    reads: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        found = state.effects(node)
        if found.ordered:
            if last_ordered is not None:
                edges[last_ordered][node] = None
            last_ordered = node
        written = {s for w in found.writes for s in state.storages(w)}
        touched = {s for i in (node, *node.all_input_nodes) for s in state.storages(i) if s in state.writes} if state.writes else set()
        for s in touched | written:
            if s in last_write:
                edges[last_write[s]][node] = None
            if s in written:
                for reader in reads.pop(s, ()):
                    edges[reader][node] = None
                last_write[s] = node
            else:
                reads[s].append(node)
    waiting = dict.fromkeys(nodes, 0)
    for node, later in edges.items():
        later.pop(node, None)
        for user in later:
            waiting[user] += 1
    return {node: list(later) for node, later in edges.items()}, waiting


def _levels(nodes: Sequence[Node], after: dict[Node, list[Node]], candidates: dict[Node, Hashable]) -> dict[Node, int]:
    """How many candidates lie on the longest way from an input to each node."""
    level = dict.fromkeys(nodes, 0)
    for node in nodes:
        reached = level[node] + (node in candidates)
        for user in after[node]:
            level[user] = max(level[user], reached)
    return level
