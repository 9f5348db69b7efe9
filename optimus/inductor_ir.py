"""Patterns on the nodes of Inductor's scheduler, through its hook in front of fusion.

Subclass :class:`InductorPattern`: give ``name``, ``anchors`` (kinds of nodes, see :func:`kind`), ``requirements``, ``exactness``,
and two functions. ``find(view)`` returns sets of nodes that may become one, and tells ``view.decline`` why others may not;
``rewrite(members, view)`` returns the node that stands for a set. Nodes are ``torch._inductor.scheduler.BaseSchedulerNode``; what
there is to know of them as a graph is in :class:`View`.

Whatever a pattern says, a result is kept only if every operation is in it exactly once and every node stands behind all that it
depends on; else the nodes stay as they were and the journal says why. The scheduler numbers memory by its own dependencies, so
that nothing of mutation or aliasing is lost by a change of grouping that keeps to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from optimus.caching import identity
from optimus.journal import Declined, Journal, Rewrite
from optimus.limit import Limiter, cache_key, current, graph_of
from optimus.pattern import IR, Decline, Pattern
from optimus.plan import Plan
from optimus.versions import SchedulerPassBase

HOOK = "_pre_fusion_custom_pass"

Record = Callable[[Journal], None]
SchedulerNode = Any
"""A ``torch._inductor.scheduler.BaseSchedulerNode``."""

POINTWISE, REDUCTION, OTHER = "pointwise", "reduction", "other"


def kind(node: SchedulerNode) -> str:
    """``pointwise`` or ``reduction`` for a single loop that Inductor generates and that writes nothing but a new buffer; else ``other``.

    Other are calls of libraries, templates, scans, sorts, scatters, groups, and whatever writes or returns memory that it was given.
    """
    from torch._inductor import ir
    from torch._inductor import scheduler as s

    if type(node) is not s.SchedulerNode or not isinstance(node.node, ir.ComputedBuffer):
        return OTHER
    data = node.node.data
    if node.is_template() or node.has_aliasing_or_mutation() or node.has_side_effects() or isinstance(data, ir.Scatter):
        return OTHER
    return REDUCTION if isinstance(data, ir.Reduction) else POINTWISE if isinstance(data, ir.Pointwise) else OTHER


@dataclass
class View:
    """The nodes of a scheduler as a graph. ``nodes``: in an order in which each stands behind what it depends on."""

    nodes: Sequence[SchedulerNode]
    declined: dict[str, Decline] = field(default_factory=dict)

    @property
    def scheduler(self) -> Any:
        """The scheduler."""
        return self.nodes[0].scheduler

    @cached_property
    def makers(self) -> Mapping[str, SchedulerNode]:
        """The node that makes each buffer."""
        return _makers(self.nodes)

    def producers(self, node: SchedulerNode) -> list[SchedulerNode]:
        """The nodes that ``node`` depends on, be it only by order."""
        return _producers(node, self.makers)

    @cached_property
    def depth(self) -> Mapping[SchedulerNode, int]:
        """The length of the longest chain of dependencies that ends in each node. Nodes of one depth do not depend on one another."""
        found: dict[SchedulerNode, int] = {}
        for node in self.nodes:
            found[node] = 1 + max((found[p] for p in self.producers(node)), default=-1)
        return found

    def decline(self, node: SchedulerNode, reason: str, detail: str = "") -> None:
        """Say why ``node`` is left alone."""
        self.declined[node.get_name()] = Decline(reason, detail)


def _makers(nodes: Sequence[SchedulerNode]) -> dict[str, SchedulerNode]:
    return {name: node for node in nodes for name in node.get_buffer_names()}


def _producers(node: SchedulerNode, makers: Mapping[str, SchedulerNode]) -> list[SchedulerNode]:
    found = {dep.name: makers[dep.name] for dep in node.unmet_dependencies if dep.name in makers}
    return [p for p in found.values() if p is not node]


@dataclass(frozen=True)
class InductorPattern(Pattern):
    """Makes one scheduler node of several; see the module."""

    ir = IR.INDUCTOR

    def find(self, view: View) -> list[tuple[SchedulerNode, ...]]:
        """Sets of nodes, no node in two of them, each of which may become one node."""
        raise NotImplementedError

    def rewrite(self, members: Sequence[SchedulerNode], view: View) -> SchedulerNode:
        """The node that stands for ``members``."""
        raise NotImplementedError


def apply(pattern: InductorPattern, nodes: Sequence[SchedulerNode], journal: Journal, limiter: Limiter | None = None) -> list[SchedulerNode]:
    """The nodes after one pattern; ``nodes`` themselves where it does nothing, or what it does is wrong.

    Of what it would do, only that happens which ``limiter`` allows; a set of nodes is counted under the name of its first.
    """
    if limiter is not None and not limiter.admits(pattern.name):
        return list(nodes)
    start = time.perf_counter()
    view = View(nodes)
    rewrites, counted = len(journal.rewrites), 0 if limiter is None else len(limiter.applied)
    try:
        groups = _allowed(pattern, [g for g in pattern.find(view) if len(g) > 1], view, journal, limiter)
        found = _rewritten(pattern, groups, view) if groups else list(nodes)
        wrong = _wrong(nodes, found)
        if wrong:
            raise ValueError(wrong)
    except Exception as error:  # noqa: BLE001 - a pass never makes a compile fail
        del journal.rewrites[rewrites:]
        if limiter is not None:
            del limiter.applied[counted:]
        journal.declined.append(Declined(pattern.name, "all", "error", f"{type(error).__name__}: {error}"))
        return list(nodes)
    journal.declined += [Declined(pattern.name, name, d.reason, d.detail) for name, d in view.declined.items()]
    journal.seconds[pattern.name] = journal.seconds.get(pattern.name, 0.0) + time.perf_counter() - start
    if groups:
        _register(found, view.scheduler)
    return found


def _allowed(
    pattern: InductorPattern, groups: Sequence[Sequence[SchedulerNode]], view: View, journal: Journal, limiter: Limiter | None
) -> list[Sequence[SchedulerNode]]:
    """Those of ``groups`` that ``limiter`` allows; it and the journal are told of them."""
    kept: list[Sequence[SchedulerNode]] = []
    for group in groups:
        first = group[0].get_name()
        if limiter is not None and not limiter.allows(pattern.name, first):
            view.decline(group[0], "limit")
            continue
        kept.append(group)
        names = tuple(n.get_name() for n in group)
        reads = tuple(sorted({d.name for n in group for d in n.read_writes.reads}))
        writes = tuple(sorted(name for n in group for name in n.get_buffer_names()))
        found = Rewrite(len(journal.rewrites) + 1, pattern.name, len(kept), reads, writes, names, ("_".join(names),), ())
        journal.rewrites.append(found)
        if limiter is not None:
            limiter.note(first, found)
    return kept


def _rewritten(pattern: InductorPattern, groups: Sequence[Sequence[SchedulerNode]], view: View) -> list[SchedulerNode]:
    """The nodes with each group as one, in order."""
    place = {member: pattern.rewrite(group, view) for group in groups for member in group[:1]}
    inside = {member for group in groups for member in group}
    mixed = [place.get(n, n) for n in view.nodes if n in place or n not in inside]
    ordered: list[SchedulerNode] = view.scheduler.topological_sort_schedule(mixed)
    return ordered


def _wrong(before: Sequence[SchedulerNode], after: Sequence[SchedulerNode]) -> str:
    """What is wrong with ``after``: an operation that is lost or there twice, or one in front of what it depends on."""
    old, new = (sorted(name for n in nodes for name in n.get_operation_names()) for nodes in (before, after))
    if old != new:
        return f"{len(old)} operations became {len(new)}, or others"
    makers, seen = _makers(after), set()
    for node in after:
        early = next((p for p in _producers(node, makers) if p not in seen), None)
        if early is not None:
            return f"{node.get_name()} would run before {early.get_name()}, which it depends on"
        seen.add(node)
    return ""


def _register(nodes: Sequence[SchedulerNode], scheduler: Any) -> None:
    for node in nodes:
        for inner in node.get_nodes():
            scheduler.name_to_fused_node[inner.get_name()] = node


@dataclass
class SchedulerPass(SchedulerPassBase):  # type: ignore[misc, valid-type]
    """The steps of a plan that are for Inductor's scheduler, behind the pass that was there before."""

    plan: Plan
    record: Record = field(repr=False)
    previous: Any = None

    def __call__(self, nodes: list[SchedulerNode]) -> list[SchedulerNode]:  # type: ignore[override]
        """The nodes to schedule in place of ``nodes``."""
        if self.previous is not None:
            nodes = self.previous(nodes)
        journal = Journal(plan=str(self.plan), ir=IR.INDUCTOR.value, nodes_before=len(nodes))
        with graph_of(current()) as limiter:
            for pattern in patterns_of(self.plan) if nodes else ():
                nodes = apply(pattern, nodes, journal, limiter)
        journal.nodes_after, journal.stopped = len(nodes), "every step of the plan was tried once"
        self.record(journal)
        return nodes

    def uuid(self) -> Any:
        """Part of Inductor's cache key: changes with the plan, its options and code, and the pass in front; see :func:`optimus.caching.identity`."""
        return identity(self.plan, self.previous) + cache_key()


def patterns_of(plan: Plan) -> list[InductorPattern]:
    """The steps of ``plan`` on scheduler nodes."""
    return [p for p in plan if isinstance(p, InductorPattern)]


def inductor_patches(plan: Plan, record: Record, previous: Any = None) -> dict[str, Any]:
    """Options of Inductor that run those steps; none where there are none. ``previous``: the pass that was set, which runs first."""
    if not patterns_of(plan):
        return {}
    if previous is not None and not callable(previous):
        raise TypeError(f"{HOOK}={previous!r} is a {type(previous).__name__}; accepted is a callable, or None")
    return {HOOK: SchedulerPass(plan, record, previous)}
