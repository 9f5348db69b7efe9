"""Sections and slices of one tensor that are taken one by one: together they may be what one ``split``, or one ``unbind``, makes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.forms import JOINS
from optimus.operators import bind
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import Size, is_static, same_size, size_key, tensor, value, wrap

PARTS = frozenset({"getitem", "narrow", "select"})


@dataclass(slots=True)
class Part:
    """``size`` positions of ``source`` along ``dim`` from ``start`` on; of a ``single`` one, the dimension goes."""

    source: Node
    dim: int
    start: Size
    size: Size
    single: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """All of a tensor along one dimension: the nodes that take each part, in the order of the parts."""

    first: Part
    sizes: tuple[Size, ...]
    takers: tuple[tuple[Node, ...], ...]

    def nodes(self) -> list[Node]:
        """All takers in graph order."""
        return sorted((n for taken in self.takers for n in taken), key=lambda n: n._sort_key)

    def cut(self, tx: Transaction) -> None:
        """One cut in the place of all."""
        source, dim = self.first.source, self.first.dim
        pieces = tx.call(torch.unbind, source, dim=dim) if self.first.single else tx.call(torch.split, source, [*map(tx.size, self.sizes)], dim=dim)
        for index, taken in enumerate(self.takers):
            piece = tx.item(pieces, index)
            for node in taken:
                tx.replace(node, piece)


def part_of(node: Node) -> Part | None:
    """The part of one tensor, along one dimension, that ``node`` takes; None if it is something else."""
    if node.target is operator.getitem and tensor(node.args[0]) is None:
        return None  # a piece of several results
    call = bind(node)
    source = None if call is None else call.args.get("self")
    whole, taken = tensor(source), tensor(node)
    if call is None or call.op not in PARTS or not isinstance(source, Node) or whole is None or taken is None:
        return None
    if call.op == "getitem":
        dim, at = _indexed(call["index"], whole.dim())
    else:
        dim, at = wrap(call["dim"], whole.dim()), call["start" if call.op == "narrow" else "index"]
    start = None if dim is None else _start(at, whole.shape[dim])
    if dim is None or start is None:
        return None
    single = taken.dim() < whole.dim()
    return Part(source, dim, start, 1 if single else taken.shape[dim], single)


def _indexed(index: Any, rank: int) -> tuple[int | None, Any]:
    """The one dimension that a basic index cuts, and from where; None if it cuts none, or several, or by steps."""
    items = index if isinstance(index, tuple) else (index,)
    ellipses = [k for k, item in enumerate(items) if item is Ellipsis]
    if ellipses:
        items = (*items[: ellipses[0]], *[slice(None)] * (rank - len(items) + 1), *items[ellipses[0] + 1 :])
    cutting = [(k, item) for k, item in enumerate(items) if item != slice(None)]
    if len(cutting) != 1 or any(item is None for item in items):  # None adds a dimension, and moves those behind it
        return None, None
    dim, item = cutting[0]
    if not isinstance(item, slice):
        return dim, item
    return dim if item.step in (None, 1) else None, item.start or 0


def _start(at: Any, extent: Size) -> Size | None:
    """Where a part starts, counted from the front; None if that is no number."""
    found = value(at) if isinstance(at, Node) else at
    if isinstance(found, bool) or not isinstance(found, (int, torch.SymInt)):
        return None
    if is_static(found) and int(found) < 0:
        return int(found) + int(extent) if is_static(extent) else None
    return found


def together(node: Node, first: Part, state: GraphState) -> Parts | None:
    """The parts that begin with ``first`` and make up their tensor, if one join at least reads two neighbours; else None.

    Of several nodes that take the first part, only one is told: what the others would be told is the same.
    """
    if not _starts(first):
        return None
    takers: dict[Any, list[Node]] = {}
    sizes: dict[Any, Size] = {}
    for user in first.source.users:
        part = part_of(user)
        if part is None or part.source is not first.source or (part.dim, part.single) != (first.dim, first.single) or same_size(part.size, 0):
            continue
        if not takers.get(0) and _starts(part) and user is not node:
            return None
        key = size_key(part.start)
        if same_size(sizes.setdefault(key, part.size), part.size):
            takers.setdefault(key, []).append(user)
    found: list[Any] = []
    at: Size = 0
    while size_key(at) in takers:
        found.append(size_key(at))
        at = at + sizes[size_key(at)]
    fake = tensor(first.source)
    if fake is None or len(found) < 2 or not same_size(at, fake.shape[first.dim]):
        return None
    parts = Parts(first, tuple(sizes[k] for k in found), tuple(tuple(takers[k]) for k in found))
    return parts if _joined(parts.takers, state) else None


def _starts(part: Part) -> bool:
    return is_static(part.start) and int(part.start) == 0


def _joined(takers: Sequence[Sequence[Node]], state: GraphState) -> bool:
    """Whether a join reads two neighbours."""
    joins = [{u for n in taken for u in n.users if state.ops.get(u) in JOINS} for taken in takers]
    return any(one & other for one, other in itertools.pairwise(joins))
