from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.operators import bound
from optimus.passes._batch import ROW_BIAS, bias_key, joint_bias, row_bias
from optimus.pattern import Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule, Tensor
from optimus.state import GraphState
from optimus.values import tensor


@fires("m, k", "a, k", "b, k", "c, k", "d, k", "e, k")
def without_bias(x, *ws):
    return torch.cat([F.linear(x, w) for w in ws], dim=1)


@fires("m, k", "a, k", "b, k", "c, k", "d, k", "e, k", "a", "b", "c", "d", "e")
def with_bias(x, *t):
    return [F.linear(x, w, b).sum(1) for w, b in zip(t[:5], t[5:], strict=True)]


@fires("l, m, k", *["n, k"] * 5)
def higher_rank(x, *ws):
    return sum(F.linear(x, w) for w in ws)


@fires("m, k", "a, k", "b, k", "c, k", "d, k", "e, k", "a", "d")
def some_with_bias(x, *t):
    return [F.linear(x, w, b).sum(1) for w, b in zip(t[:5], (t[5], None, None, t[6], None), strict=True)]


@declines("too_few", "m, k", *["n, k"] * 4)
def four(x, *ws):
    return torch.cat([F.linear(x, w) for w in ws], dim=1)


@declines("too_few", *["m, k"] * 5, "n, k")
def many_inputs(*t):
    return torch.cat([F.linear(x, t[5]) for x in t[:5]])


@declines("row_bias", "m, k", *["n, k"] * 5, *["1"] * 5)
def scalar_bias(x, *t):
    return torch.cat([F.linear(x, w, b) for w, b in zip(t[:5], t[5:], strict=True)])


@declines("matrix", "m, k", *["k"] * 5)
def vectors(x, *ws):
    return torch.stack([F.linear(x, w) for w in ws])


@dataclass(frozen=True)
class BatchLinearLhs(HorizontalPattern):
    """``linear(x, w1, b1), ..., linear(x, wn, bn)  ->  split(linear(x, cat(w), cat(b)), sizes, -1)``

    Linears that read one input become one linear with all their rows; their results are sections of its columns. Where only some
    have a bias, it is added to their sections.

    Sound because column ``i`` of the joint result sums ``x`` times row ``i`` of the joined weights, and the offsets of the
    sections are those of the weights in the join; the order of summation may differ, so rounding may. Stops where dtype,
    device or ``requires_grad`` differ, in less than float32 also the presence of bias, and where a bias is no vector with one entry per output. A result
    whose strides somebody can see is copied.
    """

    name = "batch_linear_lhs"
    anchors = frozenset({"linear"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members read one input, stand near each other and do not need one another",
        "matrix": "weights have two dimensions",
        "row_bias": ROW_BIAS,
    }
    cases = (without_bias, with_bias, higher_rank, some_with_bias)
    declines = (four, many_inputs, scalar_bias, vectors)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of linears of any numbers of outputs, with and without bias."""
        count, rows, inner = rule.number("count", 1), rule.number("rows"), rule.number("inner")
        outputs = rule.sections("output", count)
        x = rule.tensor("x", rows, inner)
        w, b = rule.family("w", count, outputs.size, inner), rule.family("b", count, outputs.size)
        joint = rule.contract("mk,kn->mn", x, rule.move(rule.cat(w, 0, outputs), 0, 1))
        bias = rule.expand(rule.cat(b, 0, outputs), 0, rows)

        def linear(w: Tensor) -> Tensor:
            return rule.contract("mk,nk->mn", x, w)

        def biased(w: Tensor, b: Tensor) -> Tensor:
            return rule.apply("add", linear(w), rule.expand(b, 0, rows))

        rule.equal("without bias", rule.each(linear, w), rule.split(joint, 1, outputs))
        rule.equal("with bias", rule.each(biased, w, b), rule.split(rule.apply("add", joint, bias), 1, outputs))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        call = bound(node)
        x, weight, bias = (tensor(call[n]) for n in ("input", "weight", "bias"))
        if x is None or weight is None:
            return None
        if weight.dim() != 2:
            return Decline("matrix")
        if bias is not None and not row_bias(bias, weight):
            return Decline("row_bias")
        return call["input"], bias_key(node)

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        weight = tx.call(torch.cat, [c["weight"] for c in calls], dim=0)
        biases = [c["bias"] for c in calls]
        together = joint_bias(biases)
        joint = tx.call(F.linear, calls[0]["input"], weight, tx.call(torch.cat, biases, dim=0) if together else None)
        sizes = []
        for c in calls:
            rows = tensor(c["weight"])
            assert rows is not None
            sizes.append(tx.size(rows.shape[0]))
        pieces = tx.call(torch.split, joint, sizes, dim=-1)
        for index, member in enumerate(members):
            result = tx.item(pieces, index)
            tx.replace(member, result if together or biases[index] is None else tx.call(torch.add, result, biases[index]))
