"""Groups with a key that lacks something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from optimus.horizontal import shape_key
from optimus.operators import bind
from optimus.pattern import fires
from optimus.state import GraphState
from optimus.values import is_row_major, tensor
from verify.subject import PassSubject

from .bare import Edit, calm
from .building import hand_out

Key = Callable[[Node, GraphState], Hashable]


@fires("n, k", "n, k")
def pair(x, y):
    return torch.cat([torch.tanh(x), torch.tanh(y)])


@fires("n", "n", "n")
def three(x, y, z):
    return torch.tanh(x) * torch.tanh(y) + z.tanh()


@fires("n, k", "n, k")
def apart(x, y):
    return torch.tanh(x) + 1, torch.tanh(y) * 2


def shape(node: Node, state: GraphState) -> Hashable:
    return shape_key(node)


def dtype(node: Node, state: GraphState) -> Hashable:
    return tuple(t.dtype for n in (node, *node.all_input_nodes) if (t := tensor(n)) is not None)


def flag(node: Node, state: GraphState) -> Hashable:
    made = tensor(node)
    return made is not None and made.requires_grad


def reached(node: Node, state: GraphState) -> Hashable:
    return node in state.live


@dataclass(frozen=True)
class JoinInputs:
    """``tanh`` of several inputs of the graph becomes one, for those with equal ``keys``."""

    keys: tuple[Key, ...]

    def __call__(self, graph: Graph) -> bool:
        state = GraphState.of(graph)
        groups: dict[Hashable, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            call, made = bind(node), tensor(node)
            known = call is not None and call.op == "tanh" and made is not None and tensor(call["self"]) is not None
            if known and call["self"].op == "placeholder" and is_row_major(made):
                groups[tuple(key(node, state) for key in self.keys)].append(node)
        found = [members for members in groups.values() if len(members) > 1] if calm(state) else []
        for members in found:
            _join(members, state)
        return bool(found)


def _join(members: list[Node], state: GraphState) -> None:
    edit = Edit(state, members[0])
    stacked = edit.call(torch.stack, [m.all_input_nodes[0] for m in members], dim=0)
    hand_out(edit, members, edit.call(torch.tanh, stacked))
    for old, new in edit.replaced:
        old.replace_all_uses_with(edit.call(torch.clone, new))


def joined(name: str, *keys: Key) -> PassSubject:
    """The rule with these keys."""
    return PassSubject(name, JoinInputs(keys), (pair, three, apart))
