"""Rules run by themselves, without the engine's checks on their results, so that a wrong shape comes through.

What the engine would have ensured is done here in the plainest way: a new tensor stays a new tensor, and a graph that
writes, draws numbers or switches modes is left alone. So a rule has no other fault than its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

from optimus.journal import Journal, Rewrite
from optimus.operators import bind
from optimus.pattern import Decline, Match, Refused, VerticalPattern
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import is_row_major, storage, tensor
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
        tx = Transaction(state, match)
        with no_new_guards(state.shape_env, None):
            try:
                self.pattern.rewrite(match, tx)
                kept = [(old, self._kept(tx, old, new)) for old, new in tx.replaced]
            except Refused:
                return False
        for old, new in kept:
            old.replace_all_uses_with(new, delete_user_cb=lambda user: user not in tx.inside)
        for node in reversed(match.nodes):
            if not node.users:
                node.graph.erase_node(node)
        return bool(kept)

    def _kept(self, tx: Transaction, old: Node, new: Node) -> Node:
        made = tensor(old)
        if made is None or storage(made) in tx.input_storages or not self.copied(old, tx.state):
            return new
        if not is_row_major(made):
            raise Refused(Decline("row_major"))
        return tx.call(torch.clone, new, memory_format=torch.contiguous_format)


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
