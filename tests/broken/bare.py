"""Rules run by themselves, without the engine's checks on their results, so that a wrong shape comes through.

What the engine would have ensured is done here in the plainest way: a new tensor stays a new tensor, and a graph that
writes, draws numbers or switches modes is left alone. So a rule has no other fault than its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

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


def always(node: Node) -> bool:
    """Copy every new tensor."""
    return True


@dataclass(frozen=True)
class Bare:
    """Carries out the first match of a vertical pattern in a graph that is ``fit``; ``copied``: which results are copied."""

    pattern: VerticalPattern
    fit: Callable[[GraphState], bool] = calm
    copied: Callable[[Node], bool] = always

    def __call__(self, graph: Graph) -> bool:
        state = GraphState.of(graph)
        if not self.fit(state):
            return False
        anchors = [n for n in graph.nodes if (call := bind(n)) is not None and call.op in self.pattern.anchors]
        return any(self._apply(match, state) for node in anchors if isinstance(match := self.pattern.find(node, state), Match))

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
        return bool(kept)

    def _kept(self, tx: Transaction, old: Node, new: Node) -> Node:
        made = tensor(old)
        if made is None or storage(made) in tx.input_storages or not self.copied(old):
            return new
        if not is_row_major(made):
            raise Refused(Decline("row_major"))
        return tx.call(torch.clone, new, memory_format=torch.contiguous_format)


def bare(pattern: VerticalPattern, fit: Callable[[GraphState], bool] = calm, copied: Callable[[Node], bool] = always) -> PassSubject:
    """``pattern`` as a plain function."""
    return PassSubject(pattern.name, Bare(pattern, fit, copied), pattern.cases, pattern.declines, pattern.exactness)
