"""Joins of all slices of one tensor, as ATen-IR writes them: ``select`` for each slice, or ``unbind`` for all."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from optimus.forms import cut_of, piece_index
from optimus.operators import bind
from optimus.passes._aten import aten
from optimus.pattern import Refused
from optimus.rewriter import Transaction
from optimus.values import is_static, tensor, wrap


@dataclass(frozen=True)
class Slice:
    """Slice ``index`` of ``source`` along ``dim``, both counted from the front."""

    source: Node
    dim: int
    index: int


def slice_of(node: Node) -> Slice | None:
    """The slice that ``node`` is, or None: also where the extent that it is counted by is no number."""
    call = bind(node)
    if call is None or not isinstance(call.args.get("self"), Node):
        return None
    if call.op == "getitem":
        cut, index = cut_of(call["self"]), piece_index(node)
        return None if cut is None or cut.op != "unbind" or index is None else Slice(cut.input, cut.dim, index)
    fake = tensor(call["self"])
    dim = wrap(call["dim"], fake.dim()) if call.op == "select" and fake is not None else None
    if fake is None or dim is None or not is_static(fake.shape[dim]):
        return None
    index = wrap(call["index"], int(fake.shape[dim]))
    return None if index is None else Slice(call["self"], dim, index)


def whole_of(slices: Sequence[Slice | None]) -> Slice | None:
    """The first of ``slices`` if they are all slices of one tensor along one dimension, each once and in their order."""
    first = slices[0]
    fake = None if first is None else tensor(first.source)
    if first is None or fake is None or not is_static(fake.shape[first.dim]) or len(slices) != int(fake.shape[first.dim]):
        return None
    return first if all(s == Slice(first.source, first.dim, k) for k, s in enumerate(slices)) else None


def moved(tx: Transaction, source: Node, dim: int, to: int) -> Node:
    """``source`` with dimension ``dim`` at place ``to``, the others in their order."""
    fake = tensor(source)
    assert fake is not None
    if dim == to:
        return source
    order = [d for d in range(fake.dim()) if d != dim]
    order.insert(to, dim)
    return tx.call(aten.permute.default, source, order)


def extents(tx: Transaction, node: Node) -> list[Node | int]:
    """Arguments that stand for the extents of ``node``: numbers, nodes that compute them, or questions to ``node`` itself."""
    fake = tensor(node)
    assert fake is not None
    found: list[Node | int] = []
    for dim, size in enumerate(fake.shape):
        try:
            found.append(tx.size(size))
        except Refused:
            found.append(tx.call(aten.sym_size.int, node, dim))
    return found


def times(tx: Transaction, left: Node | int, right: Node | int) -> Node | int:
    """An argument that stands for the product of two extents."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return tx.call(operator.mul, left, right)
