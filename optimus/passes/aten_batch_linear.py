from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import bound
from optimus.passes._aten import aten, hand_out, stack
from optimus.passes._products import PLAIN_PRODUCT, ZERO_FACTOR, product_of
from optimus.pattern import IR, Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule, Tensor
from optimus.state import GraphState
from optimus.values import tensor


@fires(*["m, k"] * 5, *["k, n"] * 5)
def products(*t):
    return torch.cat([torch.mm(x, y) for x, y in zip(t[:5], t[5:], strict=True)], dim=1)


@fires(*["m, k"] * 5, *["n, k"] * 5, *["n"] * 5)
def linears(*t):
    return torch.stack([torch.nn.functional.linear(x, w, b) for x, w, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@fires(*["m, k"] * 5, *["k, n"] * 5, *["m, n"] * 5)
def with_matrices(*t):
    return torch.cat([torch.addmm(b, x, y) for x, y, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@fires("m, k", *["k, n"] * 5, *["1"] * 5)
def scaled(x, *t):
    return sum(torch.addmm(b, x, y, beta=2, alpha=0.5) for y, b in zip(t[:5], t[5:], strict=True))


@fires(*["k, k"] * 10, "m, k")
def two_layers(*t):
    hidden = [torch.relu(torch.mm(t[10] + i, t[i])) for i in range(5)]
    return sum(torch.mm(h, t[5 + i]) for i, h in enumerate(hidden))


@declines("too_few", *["m, k"] * 4, *["k, n"] * 4)
def four(*t):
    return torch.cat([torch.mm(x, y) for x, y in zip(t[:4], t[4:], strict=True)])


@declines("too_few", "m, k", *["k, k"] * 5)
def chained(x, *ws):
    for w in ws:
        x = torch.mm(x, w)
    return x.cos()


@declines("too_few", "m, k", *["k, n"] * 5, "n")
def other_factors(x, *t):
    return sum(torch.addmm(t[5], x, y, alpha=i + 1) for i, y in enumerate(t[:5]))


@declines("too_few", *["m, k"] * 5, *["k, n"] * 5, *["m, n"] * 3, *["n"] * 2)
def other_biases(*t):
    return torch.cat([torch.addmm(b, x, y) for x, y, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@declines("law:aliasing", *["m, k"] * 5, *["k, n"] * 5)
def returned(*t):
    return [torch.mm(x, y) for x, y in zip(t[:5], t[5:], strict=True)]


@declines("zero_factor", *["m, k"] * 5, *["k, n"] * 5, "n")
def times_zero(*t):
    return torch.cat([torch.addmm(t[10], x, y, alpha=0) for x, y in zip(t[:5], t[5:10], strict=True)])


@declines("plain_product", *["m, k"] * 5, *["k, n"] * 5, "n")
def times_a_size(*t):
    xs, ys, b, m = t[:5], t[5:10], t[10], t[0].shape[0]
    return torch.cat([torch.addmm(b, x, y, alpha=m) for x, y in zip(xs, ys, strict=True)])


@dataclass(frozen=True)
class BatchLinearPostGrad(HorizontalPattern):
    """``mm(xk, yk), addmm(bk, xk, yk)  ->  select(bmm(cat(x[None]), cat(y[None])), k), select(baddbmm(cat(b[None]), ..), k)``

    Independent matrix products of one shape become one batched product, those with a bias by one ``baddbmm`` that adds it
    before the result is rounded, as ``addmm`` does.

    Sound because element ``m, n`` of slice ``k`` of the product sums ``xk[m, j] * yk[j, n]`` over ``j``; the order of summation may
    differ, so rounding may. Stops where shapes, dtypes, devices, presence and shape of the bias, or the factors ``beta`` and ``alpha``
    differ. A ``beta`` of 0 keeps its meaning: the bias is not read, be it NaN.

    Off by default: on an H200 behind Inductor, 256 products took a quarter of the time on the GPU, but 0.9 to 1.5 of the wall time,
    and compiled five times as long.
    """

    name = "batch_linear_post_grad"
    ir = IR.ATEN
    by_default = False
    anchors = frozenset({"mm", "addmm"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members of one shape stand near each other and do not need one another",
        "plain_product": PLAIN_PRODUCT,
        "zero_factor": ZERO_FACTOR,
    }
    cases = (products, linears, with_matrices, scaled, two_layers)
    declines = (four, chained, other_factors, other_biases, returned, times_zero, times_a_size)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of products, and of products to each of which a matrix is added."""
        count, rows, inner, outer = rule.number("count", 1), rule.number("rows"), rule.number("inner"), rule.number("outer")
        x, y, b = rule.family("x", count, rows, inner), rule.family("y", count, inner, outer), rule.family("b", count, rows, outer)

        def product(x: Tensor, y: Tensor) -> Tensor:
            return rule.contract("mk,kn->mn", x, y)

        joint = rule.contract("gmk,gkn->gmn", rule.stack(x, 0), rule.stack(y, 0))
        rule.equal("products", rule.each(product, x, y), rule.unbind(joint, 0))
        added = rule.each(lambda x, y, b: rule.apply("add", product(x, y), b), x, y, b)
        rule.equal("products and sums", added, rule.unbind(rule.apply("add", joint, rule.stack(b, 0)), 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        found = product_of(node)
        if isinstance(found, Decline):
            return found
        if found.alpha == 0:
            return Decline("zero_factor")
        return tuple(map(shape_key, (found.bias, found.left, found.right))), found.beta, found.alpha

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        plain = calls[0].op == "mm"
        left, right = (stack(tx, [c[name] for c in calls]) for name in ("self" if plain else "mat1", "mat2"))
        if plain:
            hand_out(tx, members, tx.call(aten.bmm.default, left, right))
            return
        bias = stack(tx, [c["self"] for c in calls])
        while (fake := tensor(bias)) is not None and fake.dim() < 3:
            bias = tx.call(aten.unsqueeze.default, bias, 1)
        factors = {name: calls[0][name] for name in ("beta", "alpha") if calls[0][name] != 1}
        hand_out(tx, members, tx.call(aten.baddbmm.default, bias, left, right, **factors))
