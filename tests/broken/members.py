"""Wrong ways to join element-wise functions, and linears of one input."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, Node

from optimus.horizontal import shape_key
from optimus.operators import bind, bound
from optimus.passes import batch_clamp, batch_linear_lhs, batch_nan_to_num, batch_relu
from optimus.passes.batch_clamp import BatchClamp
from optimus.passes.batch_detach import BatchDetach
from optimus.passes.batch_linear_lhs import BatchLinearLhs
from optimus.passes.batch_nan_to_num import BatchNanToNum
from optimus.passes.batch_sigmoid import BatchSigmoid
from optimus.pattern import Decline, Exactness, declines, fires
from optimus.state import GraphState
from optimus.values import is_row_major, tensor

from .bare import BareSubject, Edit, writing
from .building import hand_out


@fires("n, k", "n, k")
def gates(x, y):
    return torch.cat([torch.sigmoid(x), torch.sigmoid(y)])


@dataclass(frozen=True)
class SameBitsClaimed(BatchSigmoid):
    """Says that a function gives the same bits wherever its operand lies in memory; it rounds by place."""

    name = "same_bits_claimed"
    exactness = Exactness.BITWISE
    cases = (gates,)
    declines = ()


@fires("n, k", "n, k")
def bounded(x, y):
    return torch.cat([torch.clamp(x, -1, 1), torch.clamp(y, -1, 1)])


@declines("too_few", "n, k", "n, k")
def bounded_otherwise(x, y):
    return torch.cat([torch.clamp(x, -1, 0.5), torch.clamp(y, -1, 1)])


@dataclass(frozen=True)
class UpperBoundUnread(BatchClamp):
    """Members with one lower bound are joined, whatever their upper bounds."""

    name = "upper_bound_unread"
    cases = (bounded,)
    declines = (bounded_otherwise, batch_clamp.other_bounds)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        found = super().key(node, state)
        return found if found is None or isinstance(found, Decline) else (shape_key(node), bound(node)["min"])


@fires("n, k", "n, k")
def replaced(x, y):
    return torch.cat([torch.nan_to_num(x, 7.0), torch.nan_to_num(y, 7.0)])


@dataclass(frozen=True)
class PositionsDropped(BatchNanToNum):
    """Replacements are read where they are given by name, and lost where they are given by position."""

    name = "positions_dropped"
    cases = (replaced, batch_nan_to_num.functions)
    declines = (batch_nan_to_num.other_fills,)

    def further(self, node: Node) -> dict[str, Any] | Decline:
        return {k: node.kwargs.get(k) for k in ("nan", "posinf", "neginf")}


@fires("n, k", "n, k")
def cut_off(x, y):
    return torch.cat([x.detach() * 2, y.detach() * 3])


@fires("n, k", "n, k")
def cut_off_and_returned(x, y):
    return x.detach(), y.detach()


@dataclass(frozen=True)
class MemoryLost(BatchDetach):
    """What is cut off shares no memory with its operand any more, whoever writes to it or gets it."""

    name = "memory_lost"
    cases = (cut_off, cut_off_and_returned)
    declines = ()

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        made = tensor(node)
        return shape_key(node) if made is not None and is_row_major(made) else None


@fires("m, k", "a, k", "b, k", "a", "b")
def columns(x, u, v, a, b):
    return torch.cat([F.linear(x, u, a), F.linear(x, v, b)], dim=1)


@declines("too_few", "m, k", "m, k", "a, k", "b, k")
def columns_of_two(x, y, u, v):
    return torch.cat([F.linear(x, u), F.linear(y, v)], dim=1)


@fires("m, k", "n, k", "n, k")
def columns_apart(x, u, v):
    return F.linear(x, u).view(-1), F.linear(x, v)


@dataclass(frozen=True)
class AnyInput(BatchLinearLhs):
    """Linears of inputs of one shape are taken for linears of one input."""

    name = "any_input"
    cases = (columns,)
    declines = (columns_of_two, batch_linear_lhs.vectors)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        found = super().key(node, state)
        return found if found is None or isinstance(found, Decline) else (shape_key(bound(node)["input"]), bound(node)["bias"] is None)


@fires("n, k", "n, k")
def positive(x, y):
    return torch.cat([F.relu(x), torch.relu(y)])


@declines("plain_call", "n, k", "n, k")
def positive_in_place(x, y):
    p, q = x + 1, y + 1
    return torch.cat([F.relu(p, inplace=True), F.relu(q, inplace=True)]), p, q


@dataclass(frozen=True)
class InPlaceJoined:
    """``relu`` with ``inplace=True`` is joined like any other: the operands are not written any more."""

    def __call__(self, graph: Graph) -> bool:
        state = GraphState.of(graph)
        found = [n for n in graph.nodes if (call := bind(n)) is not None and call.op == "relu"]
        alike = {tuple((shape_key(n), t.dtype, t.requires_grad) for n in (m, *m.all_input_nodes) if (t := tensor(n)) is not None) for m in found}
        if len(found) < 2 or len(alike) > 1 or not writing(state) or any(n in m.all_input_nodes for n in found for m in found):
            return False
        operands = [m.all_input_nodes[0] for m in found]
        last = max(operands, key=lambda n: n._sort_key)
        if any(u < last for m in found for u in m.users) or any(not is_row_major(tensor(n)) or n not in state.live for n in (*found, *operands)):
            return False
        edit = Edit(state, max(last, found[0], key=lambda n: n._sort_key).next)
        hand_out(edit, found, edit.call(torch.relu, edit.call(torch.stack, operands, dim=0)))
        for old, new in [(old, edit.call(torch.clone, new)) for old, new in edit.replaced]:
            old.replace_all_uses_with(new)
            graph.erase_node(old)
        return True


IN_PLACE_JOINED = BareSubject("in_place_joined", InPlaceJoined(), (positive,), (positive_in_place, *batch_relu.CASES("transposed")))
