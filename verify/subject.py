"""What is judged: a pattern run by the engine, or any function from graph to graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch.fx import Graph, GraphModule, Node

from optimus.effects import effects
from optimus.engine import Engine
from optimus.journal import Journal, Rewrite
from optimus.laws import ALL_LAWS, Law
from optimus.pattern import IR, Case, Exactness, Pattern
from optimus.plan import Plan
from optimus.rule import Rule
from optimus.versions import graph_module
from verify.compare import USERS


class Subject(Protocol):
    """Something that rewrites graphs and says on which programs it must and must not."""

    @property
    def name(self) -> str:
        """How it is called."""

    @property
    def exactness(self) -> Exactness:
        """How equal its results claim to be."""

    @property
    def ir(self) -> IR:
        """The level of the graphs it is given."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """Programs on which it must fire."""

    @property
    def declines(self) -> tuple[Case, ...]:
        """Programs that it must leave alone."""

    @property
    def general(self) -> Callable[[Rule], None] | None:
        """States the rewrite for any sizes, number of pieces and rank, if it does."""

    def apply(self, gm: GraphModule) -> Journal:
        """Rewrite ``gm`` in place."""


@dataclass(frozen=True)
class PatternSubject:
    """A pattern, run by the engine as in production, on whatever device the judge has.

    Fewer ``laws`` than all are for judging the laws themselves.
    """

    pattern: Pattern
    laws: frozenset[Law] = ALL_LAWS

    @property
    def name(self) -> str:
        """See :class:`Subject`."""
        return self.pattern.name

    @property
    def exactness(self) -> Exactness:
        """See :class:`Subject`."""
        return self.pattern.exactness

    @property
    def ir(self) -> IR:
        """See :class:`Subject`."""
        return self.pattern.ir

    @property
    def cases(self) -> tuple[Case, ...]:
        """See :class:`Subject`."""
        return self.pattern.cases

    @property
    def declines(self) -> tuple[Case, ...]:
        """See :class:`Subject`."""
        return self.pattern.declines

    @property
    def general(self) -> Callable[[Rule], None] | None:
        """See :class:`Subject`."""
        found = self.pattern.general
        return None if found is Pattern.general else found

    def apply(self, gm: GraphModule) -> Journal:
        """See :class:`Subject`."""
        return Engine(gm, Plan((self.pattern.judged(),)), laws=self.laws).run()


def as_subject(given: Subject | Pattern) -> Subject:
    """A pattern as a subject; a subject as it is."""
    return PatternSubject(given) if isinstance(given, Pattern) else given


class PassError(Exception):
    """A pass that raised, or of which the engine undid a rewrite that did. The message says what."""


def applied(subject: Subject, gm: GraphModule) -> Journal:
    """Rewrite ``gm`` in place. Raises :class:`PassError`; ``gm`` is of no use then."""
    try:
        journal = subject.apply(gm)
    except USERS as error:
        raise PassError(f"the pass raised {type(error).__name__}: {error}") from error
    undone = next((d.detail for d in journal.declined if d.reason == "error"), None)
    if undone is not None:
        raise PassError(f"the pass raised {undone}")
    return journal


def rewritten(subject: Subject, before: GraphModule) -> tuple[GraphModule, Journal]:
    """What ``subject`` makes of a copy of ``before``. Raises :class:`PassError`."""
    after = copied(before)
    return after, applied(subject, after)


def copied(gm: GraphModule) -> GraphModule:
    """A copy of ``gm`` that shares with it neither nodes nor modules, parameters and constants."""
    if any(node.op in ("get_attr", "call_module") for node in gm.graph.nodes):
        return copy.deepcopy(gm)
    return graph_module(gm, copy.deepcopy(gm.graph))


def unchanged(before: GraphModule, after: GraphModule) -> bool:
    """Whether two modules say the same, names included."""
    ones, others = before.graph.nodes, after.graph.nodes
    alike = len(ones) == len(others) and all(_text(one) == _text(other) for one, other in zip(ones, others, strict=True))
    return alike or before.code == after.code


def _text(node: Node) -> tuple[object, ...]:
    return node.op, node.name, node.target, repr(node.args), repr(node.kwargs)


@dataclass(frozen=True)
class PassSubject:
    """A plain function that changes a graph in place and returns whether it did."""

    name: str
    run: Callable[[Graph], bool]
    cases: tuple[Case, ...]
    declines: tuple[Case, ...] = ()
    exactness: Exactness = Exactness.BITWISE
    general: Callable[[Rule], None] | None = None
    ir: IR = IR.TORCH

    def apply(self, gm: GraphModule) -> Journal:
        """See :class:`Subject`. A change counts as one rewrite of everything."""

        def change() -> bool:
            changed = self.run(gm.graph)
            if changed:
                _drop_dead(gm.graph)
            return changed

        return one_rewrite(self.name, gm, change)


def one_rewrite(name: str, gm: GraphModule, change: Callable[[], bool]) -> Journal:
    """The journal of a function that changes ``gm`` and returns whether it did: of one rewrite of everything, or of none."""
    journal = Journal(plan=name, nodes_before=len(gm.graph.nodes), stopped="the function returned")
    if change():
        gm.graph.lint()
        gm.recompile()
        _ = gm.code  # which is written when it is asked for
        journal.rewrites.append(Rewrite(1, name, 1, (), (), (), (), ()))
    journal.nodes_after = len(gm.graph.nodes)
    return journal


def _drop_dead(graph: Graph) -> None:
    """Erase what nobody uses and what does nothing but compute."""
    for node in reversed(graph.nodes):
        if not node.users and node.op in ("call_function", "call_method", "get_attr") and effects(node).pure:
            graph.erase_node(node)
