"""Rules run by themselves, without the engine's checks on their results, so that a wrong shape comes through.

What the engine would have ensured is done here in the plainest way: a new tensor stays a new tensor, and a graph that
writes, draws numbers or switches modes is left alone. So a rule has no other fault than its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from optimus.journal import Journal, Rewrite
from optimus.operators import bind
from optimus.pattern import Decline, Match, Refused, VerticalPattern
from optimus.rewriter import run_fake
from optimus.state import GraphState
from optimus.values import Size, is_row_major, is_static, size_key, tensor
from optimus.versions import no_new_guards
from verify.subject import PassSubject


def calm(state: GraphState) -> bool:
    """Whether nothing in the graph does more than compute its result."""
    return not state.effect


def writing(state: GraphState) -> bool:
    """Whether the graph is calm but for writes."""
    return not any(e.random or e.ordered or e.switches_mode or e.opaque or e.reshapes for e in state.effect.values())


def always(node: Node, state: GraphState) -> bool:
    """Copy every new tensor."""
    return True


def if_returned(node: Node, state: GraphState) -> bool:
    """Copy a new tensor that the graph returns, itself or a view of it."""
    return not state.escaping.isdisjoint(state.storages(node))


class Edit:
    """New nodes in front of one place, with metadata: what a rule asks of the engine's transaction."""

    def __init__(self, state: GraphState, before: Node) -> None:
        self.state = state
        self.before = before
        self.replaced: list[tuple[Node, Node]] = []

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        with self.state.graph.inserting_before(self.before):
            node = self.state.graph.call_function(target, args, kwargs)
        with no_new_guards(self.state.shape_env, None):
            node.meta["example_value"] = run_fake(node)
        return node

    def item(self, sequence: Node, index: int) -> Node:
        return self.call(operator.getitem, sequence, index)

    def size(self, size: Size) -> Node | int:
        node = None if is_static(size) else self.state.sizes.get(size_key(size))
        if is_static(size):
            return int(size)
        if node is None or not node < self.before:
            raise Refused(Decline("law:sizes"))
        return node

    def total(self, sizes: Sequence[Node | int]) -> Node | int:
        found: Node | int = 0
        for size in sizes:
            numbers = isinstance(found, int) and isinstance(size, int)
            found = found + size if numbers else size if found == 0 else self.call(operator.add, found, size)
        return found

    def replace(self, old: Node, new: Node) -> None:
        self.replaced.append((old, new))


@dataclass(frozen=True)
class Bare:
    """Carries out the matches of a vertical pattern, once at each anchor, in a graph that is ``fit``; ``copied``: which results are copied."""

    pattern: VerticalPattern
    fit: Callable[[GraphState], bool] = calm
    copied: Callable[[Node, GraphState], bool] = always

    def __call__(self, graph: Graph) -> bool:
        anchors = [n for n in graph.nodes if (call := bind(n)) is not None and call.op in self.pattern.anchors]
        visits = [self._visit(node, GraphState.of(graph)) for node in anchors if not node._erased]
        return any(visits)

    def _visit(self, node: Node, state: GraphState) -> bool:
        match = self.pattern.find(node, state) if self.fit(state) else None
        return isinstance(match, Match) and self._apply(match, state)

    def _apply(self, match: Match, state: GraphState) -> bool:
        edit = Edit(state, match.before)
        try:
            self.pattern.rewrite(match, edit)  # type: ignore[arg-type]
            kept = [(old, self._kept(edit, match, old, new)) for old, new in edit.replaced]
        except Refused:
            return False
        for old, new in kept:
            old.replace_all_uses_with(new, delete_user_cb=lambda user: user not in match.nodes)
        for node in reversed(match.nodes):
            if not node.users:
                node.graph.erase_node(node)
        return bool(kept)

    def _kept(self, edit: Edit, match: Match, old: Node, new: Node) -> Node:
        made = tensor(old)
        outside = {s for n in match.nodes for i in n.all_input_nodes if i not in match.nodes for s in edit.state.storages(i)}
        if made is None or not outside.isdisjoint(edit.state.storages(old)) or not self.copied(old, edit.state):
            return new
        if not is_row_major(made):
            raise Refused(Decline("row_major"))
        return edit.call(torch.clone, new, memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class BareSubject(PassSubject):
    """A plain function that sweeps up after itself: in-place operators whose results are unused stay."""

    def apply(self, gm: GraphModule) -> Journal:
        journal = Journal(plan=self.name, nodes_before=len(gm.graph.nodes), stopped="the function returned")
        if self.run(gm.graph):
            gm.graph.lint()
            gm.recompile()
            journal.rewrites.append(Rewrite(1, self.name, 1, (), (), (), (), ()))
        journal.nodes_after = len(gm.graph.nodes)
        return journal


def bare(pattern: VerticalPattern, fit: Callable[[GraphState], bool] = calm, copied: Callable[[Node, GraphState], bool] = always) -> BareSubject:
    """``pattern`` as a plain function."""
    return BareSubject(pattern.name, Bare(pattern, fit, copied), pattern.cases, pattern.declines, pattern.exactness)
