from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from optimus.inductor_ir import POINTWISE, REDUCTION, InductorPattern, SchedulerNode, View, kind
from optimus.pattern import Exactness, at_least, declines, fires


@fires(*["n, k"] * 6)
def towers(*xs):
    return tuple(torch.tanh(x) * 2 for x in xs)


@fires(*["n, k"] * 5)
def norms(*xs):
    return torch.stack([x.square().sum(1) + 1 for x in xs])


@fires(*["n, k"] * 4)
def chains(*xs):
    return torch.cat([F.layer_norm(x.sin(), (x.shape[-1],)) for x in xs])


@fires(*["n, k"] * 3, "k, m")
def between_products(a, b, c, w):
    return torch.mm(a.exp(), w).relu(), torch.mm(b.exp(), w).relu(), torch.mm(c.exp(), w).relu()


@declines("too_few", "n, k", "k, n")
def unlike(a, b):
    return a.exp(), b.sum(0)


@declines("plain", "n, k", grad=False)
def written(a):
    a.mul_(2)
    return a.t()


INDEX = {"argmax", "argmin"}
"""Reductions whose result is a place. In one loop with groups of others, into which Inductor may fuse them, PyTorch 2.11 loses it."""


@dataclass(frozen=True)
class GroupKernels(InductorPattern):
    """``kernel(a1); ...; kernel(an)  ->  kernel(a1, ..., an)``, on Inductor's scheduler nodes

    Small loops over one shape that do not depend on one another become one kernel, though they read nothing in common, which is
    what Inductor's own fusion asks for: the many little kernels of models with a tower or a norm for each feature, where a
    launch costs more than its work. Inductor's fusion runs behind it, and joins the groups of a chain as it joins single nodes.

    Sound because members stand at the same depth of the dependencies, data and order alike: every dependency leads to a greater
    depth, so that groups cannot form a circle, and all members write new buffers alone. That their loops can be one kernel is asked
    of the code generator of their device. Stops at whatever is no plain loop, at user streams, at templates, which have fusions of
    their own, and where sizes are large or not known.
    """

    name = "group_kernels"
    anchors = frozenset({POINTWISE, REDUCTION})
    exactness = Exactness.REASSOCIATES  # a joint kernel may be vectorised, or cut into blocks, otherwise
    by_default = False
    cases = (towers, norms, chains, between_products)
    declines = (unlike, written)
    requirements = {
        "plain": "a loop that writes one new buffer, on the stream of the graph; no reduction where the graph has one that looks for a place",
        "large": "at most max_numel elements are read by the loop, for all sizes that the graph admits",
        "template": "it neither feeds nor follows a template, with which Inductor could fuse it",
        "too_few": "at least min_group loops over one shape stand at one depth on one device",
    }

    max_numel: int = 1 << 18
    """The most iterations of a loop, reduction included."""
    max_group: int = 16
    """The most loops in a kernel."""
    min_group: int = 2
    """The fewest loops that are worth it."""
    reductions: bool = True
    """Whether reductions are joined too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "max_numel", 1)
        at_least(self, "min_group", 2)
        at_least(self, "max_group", self.min_group)

    def find(self, view: View) -> list[tuple[SchedulerNode, ...]]:
        """See :class:`optimus.inductor_ir.InductorPattern`."""
        alike: dict[Hashable, list[SchedulerNode]] = {}
        beside = _beside_templates(view)
        index = any(_reduction(node) in INDEX for node in view.nodes)
        for node in view.nodes:
            what = kind(node)
            if what not in self.anchors or _stream(node) is not None or not _kept_apart().isdisjoint(node.get_buffer_names()):
                view.decline(node, "plain", what)
            elif what == REDUCTION and index:
                view.decline(node, "plain", "the graph looks for the place of a largest or smallest element")
            elif node in beside:
                view.decline(node, "template")
            elif (what == REDUCTION and not self.reductions) or not self._small(node):
                view.decline(node, "large", "reductions=False" if what == REDUCTION and not self.reductions else str(node.get_ranges()))
            else:
                alike.setdefault((view.depth[node], what, node.get_device(), _shape(node)), []).append(node)
        found = [group for nodes in alike.values() for group in self._groups(nodes, view)]
        joined = {n for group in found for n in group}
        for node in (n for nodes in alike.values() for n in nodes if n not in joined):
            view.decline(node, "too_few", f"fewer than min_group={self.min_group}")
        return found

    def rewrite(self, members: Sequence[SchedulerNode], view: View) -> SchedulerNode:
        """See :class:`optimus.inductor_ir.InductorPattern`."""
        from torch._inductor.scheduler import FusedSchedulerNode

        return FusedSchedulerNode(view.scheduler, list(members))

    def _small(self, node: SchedulerNode) -> bool:
        from torch._inductor.virtualized import V

        total: Any = 1
        for extents in node.get_ranges():
            for extent in extents:
                total = total * extent
        return bool(V.graph.sizevars.statically_known_leq(total, self.max_numel))

    def _groups(self, nodes: Sequence[SchedulerNode], view: View) -> list[tuple[SchedulerNode, ...]]:
        """Runs of ``nodes`` in order whose loops the code generator takes together."""
        backend = view.scheduler.get_backend(nodes[0].get_device())
        groups: list[list[SchedulerNode]] = []
        for node in nodes:
            if groups and len(groups[-1]) < self.max_group and backend.can_fuse_horizontal(groups[-1][0], node):
                groups[-1].append(node)
            else:
                groups.append([node])
        return [tuple(g) for g in groups if len(g) >= self.min_group]


def _shape(node: SchedulerNode) -> Hashable:
    return tuple(tuple(extents) for extents in node.get_ranges())


def _reduction(node: SchedulerNode) -> str:
    return str(getattr(getattr(node.node, "data", None), "reduction_type", ""))


def _stream(node: SchedulerNode) -> Any:
    return getattr(node.node, "stream_idx", None)


def _kept_apart() -> set[str]:
    """The buffers that lowering keeps out of fusions."""
    from torch._inductor.virtualized import V

    return set(getattr(V.graph, "no_fuse_buffer_names", ()))


def _beside_templates(view: View) -> set[SchedulerNode]:
    """The nodes that read what a template makes, or make what one reads."""
    found: set[SchedulerNode] = set()
    for node in view.nodes:
        producers = view.producers(node)
        if node.is_template():
            found.update(producers)
        if any(p.is_template() for p in producers):
            found.add(node)
    return found
