from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus import grouped
from optimus.horizontal import kind_key
from optimus.operators import bound
from optimus.passes._batch import ROW_BIAS, row_bias
from optimus.pattern import Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule, Tensor
from optimus.state import GraphState
from optimus.values import known, tensor

WIDTHS = ("p", "q", "r", "p", "q")


def linears(t, biases=()):
    return [F.linear(x, w, b) for x, w, b in zip(t[:5], t[5:10], [*t[10:], *biases], strict=True)]


NONE = (None,) * 5


@fires(*["m, k"] * 5, *[f"{n}, k" for n in WIDTHS])
def without_bias(*t):
    return torch.cat(linears(t, NONE), dim=1)


@fires(*["m, k"] * 5, *[f"{n}, k" for n in WIDTHS], *WIDTHS)
def with_bias(*t):
    return torch.cat(linears(t), dim=1).cos()


@fires("m, k", "m, l", "m, k", "m, l", "m, k", "n, k", "n, l", "n, k", "n, l", "n, k")
def different_inputs(*t):
    return sum(linears(t, NONE))


@fires("m, k", *[f"{n}, k" for n in WIDTHS], *WIDTHS)
def one_input(x, *t):
    return torch.cat([torch.relu(y) for y in linears([x] * 5 + list(t))], dim=1)


@fires("l, m, k", "m, k", "k", "l, m, k", "m, k", *["n, k"] * 5)
def different_ranks(*t):
    return sum(linears(t, NONE))


@fires(*["m, k"] * 5, *[f"{n}, k" for n in WIDTHS], *WIDTHS)
def returned(*t):
    return linears(t)


@fires("m, k", "p, k", "q, k", "r, k", "p, k", "q, k", "k, p", "k, q", "k, r", "k, p", "k, q")
def two_layers(x, *t):
    hidden = [torch.relu(F.linear(x, w)) for w in t[:5]]
    return sum(F.linear(h, w) for h, w in zip(hidden, t[5:], strict=True))


@declines("too_few", *["m, k"] * 4, *[f"{n}, k" for n in WIDTHS[:4]])
def four(*t):
    return torch.cat([F.linear(x, w) for x, w in zip(t[:4], t[4:], strict=True)], dim=1)


@declines("too_few", "m, k", "p, k", "q, p", "r, q", "p, r", "q, p")
def chained(x, *ws):
    for w in ws:
        x = F.linear(x, w)
    return x.cos()


@declines("too_few", *["m, k"] * 5, *[f"{n}, k" for n in WIDTHS], "p", "q")
def some_with_bias(*t):
    b, c = t[10:]
    return torch.cat(linears(t[:10], (b, None, None, None, c)), dim=1)


@declines("matrix", *["m, k"] * 5, *["k"] * 5)
def vectors(*t):
    return torch.cat(linears(t, NONE))


@declines("row_bias", *["m, k"] * 5, *[f"{n}, k" for n in WIDTHS], *["1"] * 5)
def scalar_bias(*t):
    return torch.cat(linears(t), dim=1)


@declines("kernel", *["m, k: float64"] * 5, *[f"{n}, k: float64" for n in WIDTHS])
def double_precision(*t):
    return torch.cat(linears(t, NONE), dim=1)


@declines("small", *["m, k"] * 5, *["k"] * 5)
def large_weights(*t):
    wide = [row.expand(513 + i, -1) for i, row in enumerate(t[5:])]
    return torch.cat(linears([*t[:5], *wide], NONE), dim=1)


@dataclass(frozen=True)
class GroupLinear(HorizontalPattern):
    """``linear(x1, w1, b1), ..., linear(xn, wn, bn)  ->  group_linear([x1, ..., xn], [w1, ..., wn], [b1, ..., bn])``

    Independent linears of different shapes become one operator: on a GPU one launch of a Triton
    kernel, forward, and a few backward. Those of one shape are left to ``batch_linear``, which stands in front.

    Sound because the operator is the tuple of linears, each in memory of its own; the order of summation may differ, so
    rounding may. Stops where dtypes, devices, presence of bias or ``requires_grad`` differ, where the kernel does not take the dtype, and
    where weights are so large that one linear fills the device. Under autocast the casts are made explicit.

    Off by default, until its gain on real models is measured. Where it is on, on CUDA devices only: elsewhere the operator
    is a loop, which changes nothing and gains nothing.
    """

    name = "group_linear"
    by_default = False
    anchors = frozenset({"linear"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members of one dtype stand near each other and do not need one another",
        "matrix": "weights have two dimensions",
        "row_bias": ROW_BIAS,
        "kernel": "the result is float32, float16 or bfloat16, and on a CUDA device",
        "small": "no side of a weight is known to exceed max_width",
    }
    cases = (without_bias, with_bias, different_inputs, one_input, different_ranks, returned, two_layers)
    declines = (four, chained, some_with_bias, vectors, scalar_bias, double_precision, large_weights)
    judged_with = {"everywhere": True}

    @staticmethod
    def general(rule: Rule) -> None:
        """Any one of the linears as a launch computes it, with and without bias: tiles of one list, whatever tiles stand before and behind its own.

        A tile is ``high`` rows of ``across`` columns, and zero is read beyond the ends of what it reads.
        """
        rows, inner, outer = (rule.number(name) for name in ("rows", "inner", "outer"))
        more_rows, more_inner, more_outer = (rule.number(f"more_{name}") for name in ("rows", "inner", "outer"))
        down, along, high, across = (rule.number(name, 1) for name in ("down", "along", "high", "across"))
        row_blocks, column_blocks = rule.sections("row_block", down, high), rule.sections("column_block", along, across)
        rule.suppose(row_blocks.total == rows + more_rows, column_blocks.total == outer + more_outer)
        in_rows = rule.sections("tile", down, along)
        x, w, b = rule.tensor("x", rows, inner), rule.tensor("w", outer, inner), rule.tensor("b", outer)
        front, behind = (rule.tensor(name, rule.number(f"tiles_{name}"), high, across) for name in ("front", "behind"))
        x_blocks = rule.unflatten(rule.pad(rule.pad(x, 0, more_rows), 1, more_inner), 0, row_blocks)
        w_blocks = rule.unflatten(rule.pad(rule.pad(w, 0, more_outer), 1, more_inner), 0, column_blocks)
        sums = rule.contract("imk,jnk->ijmn", x_blocks, w_blocks)
        b_blocks = rule.unflatten(rule.pad(b, 0, more_outer), 0, column_blocks)
        added = rule.apply("add", sums, rule.expand(rule.expand(b_blocks, 1, high), 0, down))

        def launched(blocks: Tensor) -> Tensor:
            """What is stored of the tiles, once they stand in the list of all."""
            programs = rule.join(0, front, rule.flatten(blocks, 0, in_rows), behind)
            own = rule.unflatten(rule.narrow(programs, 0, front.axes[0], in_rows.total), 0, in_rows)
            rows_of_tiles = rule.flatten(rule.move(own, 2, 1), 0, row_blocks)
            stored = rule.flatten(rows_of_tiles, 1, column_blocks)
            return rule.narrow(rule.narrow(stored, 0, 0, rows), 1, 0, outer)

        linear = rule.contract("mk,nk->mn", x, w)
        rule.equal("without bias", linear, launched(sums))
        rule.equal("with bias", rule.apply("add", linear, rule.expand(b, 0, rows)), launched(added))

    fuse_returned: bool = True
    """Also join members whose results are returned: each has memory of its own."""
    everywhere: bool = False
    """Also on devices that have no kernel."""
    max_width: int = 512
    """The longest side of a weight. Linears of larger ones fill a GPU by themselves."""

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        call, result = bound(node), tensor(node)
        if result is None:
            return None
        weight, bias = tensor(call["weight"]), tensor(call["bias"])
        if weight is None or weight.dim() != 2:
            return Decline("matrix")
        if bias is not None and not row_bias(bias, weight):
            return Decline("row_bias")
        if result.dtype not in grouped.DTYPES or not (self.everywhere or grouped.has_kernel(result.device)):
            return Decline("kernel", f"{result.dtype} on {result.device.type}")
        if any(known(side > self.max_width) for side in weight.shape):
            return Decline("small", f"a weight of {tuple(weight.shape)}")
        return "linear", kind_key(bias)

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        operands: dict[str, list[Node | None]] = {"input": [], "weight": [], "bias": []}
        for member in members:
            for name, found in operands.items():
                found.append(self.cast(bound(member)[name], member, tx))
        joint = tx.call(grouped.group_linear, *operands.values())
        for index, member in enumerate(members):
            tx.replace(member, tx.item(joint, index))

    def cast(self, operand: Node | None, member: Node, tx: Transaction) -> Node | None:
        """``operand`` in the dtype of the result, which autocast may have chosen."""
        given, result = tensor(operand), tensor(member)
        if operand is None or given is None or result is None or given.dtype == result.dtype:
            return operand
        return tx.method("to", operand, result.dtype)
