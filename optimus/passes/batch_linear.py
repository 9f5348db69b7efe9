from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import bound
from optimus.passes._batch import ROW_BIAS, bias_key, joint_bias, row_bias, stack_inputs, unbind_results
from optimus.pattern import Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule, Tensor
from optimus.state import GraphState
from optimus.values import tensor


@fires(*["m, k"] * 5, *["n, k"] * 5)
def without_bias(*t):
    return torch.cat([F.linear(x, w) for x, w in zip(t[:5], t[5:], strict=True)], dim=1)


@fires(*["m, k"] * 5, *["n, k"] * 5, *["n"] * 5)
def with_bias(*t):
    return torch.stack([F.linear(x, w, b) for x, w, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@fires("m, k", *["n, k"] * 5, *["n"] * 5)
def one_input(x, *t):
    return torch.stack([F.linear(x, w, bias=b) for w, b in zip(t[:5], t[5:], strict=True)])


@fires(*["l, m, k"] * 5, *["n, k"] * 5)
def higher_rank(*t):
    return torch.cat([F.linear(x, w) for x, w in zip(t[:5], t[5:], strict=True)], dim=2)


@fires("5, m, k", *["n, k"] * 5, *["n"] * 5)
def slices(x, *t):
    return torch.cat([F.linear(x[i], t[i], t[5 + i]) for i in range(5)])


@fires(*["k, k"] * 10, "m, k")
def two_layers(*t):
    hidden = [torch.relu(F.linear(t[10] + i, t[i])) for i in range(5)]
    return sum(F.linear(h, t[5 + i]) for i, h in enumerate(hidden))


@fires(*["m, k"] * 5, *["n, k"] * 5, *["n"] * 2)
def some_with_bias(*t):
    return torch.stack([F.linear(x, w, b) for x, w, b in zip(t[:5], t[5:10], (None, t[10], None, t[11], None), strict=True)])


@declines("too_few", *["m, k"] * 4, *["n, k"] * 4)
def four(*t):
    return torch.cat([F.linear(x, w) for x, w in zip(t[:4], t[4:], strict=True)])


@declines("too_few", "m, k", *["k, k"] * 5)
def chained(x, *ws):
    for w in ws:
        x = F.linear(x, w)
    return x.cos()


@declines("law:aliasing", *["m, k"] * 5, *["n, k"] * 5)
def returned(*t):
    return [F.linear(x, w) for x, w in zip(t[:5], t[5:], strict=True)]


@declines("matrix", *["k"] * 5, *["n, k"] * 5)
def vectors(*t):
    return torch.cat([F.linear(x, w) for x, w in zip(t[:5], t[5:], strict=True)])


@declines("row_bias", *["m, k"] * 5, *["m, k"] * 5, *["1"] * 5)
def scalar_bias(*t):
    return torch.cat([F.linear(x, w, b) for x, w, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@dataclass(frozen=True)
class BatchLinear(HorizontalPattern):
    """``linear(xk, wk, bk)  ->  unbind(baddbmm(stack(b)[:, None], stack(x), stack(w).mT))[k]``

    Independent linears of one shape become one batched matrix product (``bmm`` without bias). Leading dimensions are
    flattened first and restored after. One input that all members share is expanded instead of stacked. Where only some have a
    bias, it is added to their slices.

    Sound because row ``m`` of slice ``k`` of the product sums ``xk[m, j] * wk[n, j]`` over ``j`` and adds ``bk[n]``, which is
    the linear; the order of summation may differ, so rounding may. Stops where shapes, dtypes, devices or
    ``requires_grad`` differ, in less than float32 also the presence of bias, and where a bias is no vector with one entry per output.
    """

    name = "batch_linear"
    anchors = frozenset({"linear"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members of one shape stand near each other and do not need one another",
        "matrix": "inputs have at least two dimensions and weights have two",
        "row_bias": ROW_BIAS,
    }
    cases = (without_bias, with_bias, one_input, higher_rank, slices, two_layers, some_with_bias)
    declines = (four, chained, returned, vectors, scalar_bias)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of linears, with and without bias; rows may be any number of dimensions."""
        count, rows, inner, outer = rule.number("count", 1), rule.number("rows"), rule.number("inner"), rule.number("outer")
        x, w, b = rule.family("x", count, rows, inner), rule.family("w", count, outer, inner), rule.family("b", count, outer)

        def linear(x: Tensor, w: Tensor) -> Tensor:
            return rule.contract("mk,nk->mn", x, w)

        def biased(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            return rule.apply("add", linear(x, w), rule.expand(b, 0, rows))

        weights, bias = rule.move(rule.stack(w, 0), 1, 2), rule.expand(rule.stack(b, 0), 1, rows)
        joint = rule.contract("gmk,gkn->gmn", rule.stack(x, 0), weights)
        rule.equal("without bias", rule.each(linear, x, w), rule.unbind(joint, 0))
        rule.equal("with bias", rule.each(biased, x, w, b), rule.unbind(rule.apply("add", joint, bias), 0))
        one = rule.tensor("one", rows, inner)
        shared = rule.contract("gmk,gkn->gmn", rule.expand(one, 0, count), weights)
        rule.equal("one input", rule.each(lambda w: linear(one, w), w), rule.unbind(shared, 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        call = bound(node)
        x, weight, bias = (tensor(call[n]) for n in ("input", "weight", "bias"))
        if x is None or weight is None:
            return None
        if x.dim() < 2 or weight.dim() != 2:
            return Decline("matrix")
        if bias is not None and not row_bias(bias, weight):
            return Decline("row_bias")
        return shape_key(call["input"]), shape_key(call["weight"]), bias_key(node)

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        x = stack_inputs(tx, [c["input"] for c in calls])
        weight = tx.call(torch.transpose, stack_inputs(tx, [c["weight"] for c in calls]), 1, 2)
        result = tensor(members[0])
        assert result is not None
        if result.dim() > 2:
            x = tx.call(torch.flatten, x, 1, -2)
        biases = [c["bias"] for c in calls]
        if together := joint_bias(biases):
            joint = tx.call(torch.baddbmm, tx.call(torch.unsqueeze, stack_inputs(tx, biases), 1), x, weight)
        else:
            joint = tx.call(torch.bmm, x, weight)
        if result.dim() > 2:
            joint = tx.call(torch.reshape, joint, (len(members), *map(tx.size, result.shape)))
        unbind_results(tx, members, joint, () if together else biases)
