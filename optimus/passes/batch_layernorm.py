from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import Call, bound
from optimus.pattern import Decline, Exactness, HorizontalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule, Tensor
from optimus.state import GraphState
from optimus.values import same_size, tensor, value


@fires(*["n, 8"] * 5)
def plain(*xs):
    return torch.cat([F.layer_norm(x, (8,)) for x in xs])


@fires(*["n, 8"] * 5, *["8"] * 10)
def affine(*t):
    return torch.cat([F.layer_norm(x, (8,), w, b) for x, w, b in zip(t[:5], t[5:10], t[10:], strict=True)], dim=1)


@fires(*["n, m, 8"] * 5, *["8"] * 5)
def weight_only(*t):
    return sum(F.layer_norm(x, (8,), weight=w, eps=1e-6) for x, w in zip(t[:5], t[5:], strict=True))


@fires(*["n, 4, 6"] * 5, *["4, 6"] * 10)
def two_dimensions(*t):
    return torch.cat([F.layer_norm(x, (4, 6), w, b) for x, w, b in zip(t[:5], t[5:10], t[10:], strict=True)])


@fires("n, 5 * k")
def pieces(x, k):
    return torch.cat([F.layer_norm(p, (p.shape[1],)) for p in torch.split(x, k, dim=1)], dim=1)


@declines("too_few", *["n, 8"] * 5)
def other_eps(*xs):
    return torch.cat([F.layer_norm(x, (8,), eps=e) for x, e in zip(xs, (1e-5, 1e-6, 1e-4, 1e-3, 1e-2), strict=True)])


@declines("same_dtype", *["n, 8: bfloat16"] * 5, *["8"] * 5)
def wider_affine(*t):
    return torch.cat([F.layer_norm(x, (8,), w) for x, w in zip(t[:5], t[5:], strict=True)])


@dataclass(frozen=True)
class BatchLayernorm(HorizontalPattern):
    """``layer_norm(xk, d, wk, bk)  ->  unbind(layer_norm(stack(x), d) * stack(w) + stack(b))[k]``

    Independent layer norms of one shape become one over their stack, without weight and bias; those are stacked and
    multiplied and added once.

    Sound because mean and variance are taken over the last dimensions alone, so that each slice of the stack has its own,
    and weight and bias meet the slice they belong to. In exact arithmetic the results are equal; where eager fuses the
    affine part, rounding may differ. Stops where shapes, ``eps``, dtypes, presence of weight or bias, or ``requires_grad``
    differ, and where weight or bias have another dtype than the input. Inputs may lie in memory as they like: the result of
    a layer norm is row-major.
    """

    name = "batch_layernorm"
    anchors = frozenset({"layer_norm"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members of one shape and eps stand near each other and do not need one another",
        "same_dtype": "weight and bias have the dtype of the input",
    }
    cases = (plain, affine, weight_only, two_dimensions, pieces)
    declines = (other_eps, wider_affine)

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of norms of rows of any width, with and without weight and bias."""
        count, lead, width = rule.number("count", 1), rule.number("lead"), rule.number("width")
        x, w, b = rule.family("x", count, lead, width), rule.family("w", count, width), rule.family("b", count, width)

        def norm(x: Tensor) -> Tensor:
            return rule.rows("norm", x)

        def weighted(x: Tensor, w: Tensor) -> Tensor:
            return rule.apply("mul", norm(x), rule.expand(w, 0, lead))

        def affine(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            return rule.apply("add", weighted(x, w), rule.expand(b, 0, lead))

        joint = rule.rows("norm", rule.stack(x, 1))
        scaled = rule.apply("mul", joint, rule.expand(rule.stack(w, 0), 0, lead))
        shifted = rule.apply("add", scaled, rule.expand(rule.stack(b, 0), 0, lead))
        rule.equal("plain", rule.each(norm, x), rule.unbind(joint, 1))
        rule.equal("with weight", rule.each(weighted, x, w), rule.unbind(scaled, 1))
        rule.equal("with weight and bias", rule.each(affine, x, w, b), rule.unbind(shifted, 1))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        call = bound(node)
        x = tensor(call["input"])
        given = [t for n in ("weight", "bias") if (t := tensor(call[n])) is not None]
        rank = _rank(call)
        if x is None or rank is None or any(not same_size(a, b) for t in given for a, b in zip(t.shape, x.shape[-rank:], strict=True)):
            return None
        if any(t.dtype != x.dtype for t in given):
            return Decline("same_dtype")
        return tuple(shape_key(call[n]) for n in ("input", "weight", "bias")), rank, repr(call["eps"])

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        over, rank = calls[0]["normalized_shape"], _rank(calls[0])
        assert rank is not None
        x = tx.call(torch.stack, [c["input"] for c in calls], dim=0)
        joint = tx.call(F.layer_norm, x, over, None, None, calls[0]["eps"])
        fake = tensor(members[0])
        assert fake is not None
        for name, combine in (("weight", torch.mul), ("bias", torch.add)):
            if calls[0][name] is not None:
                stacked = tx.call(torch.stack, [c[name] for c in calls], dim=0)
                for _ in range(fake.dim() - rank):
                    stacked = tx.call(torch.unsqueeze, stacked, 1)
                joint = tx.call(combine, joint, stacked)
        slices = tx.call(torch.unbind, joint, dim=0)
        for index, member in enumerate(members):
            tx.replace(member, tx.item(slices, index))


def _rank(call: Call) -> int | None:
    """Over how many dimensions a layer norm goes; None where its sizes are no sequence of known length."""
    over = call["normalized_shape"]
    sizes = value(over) if isinstance(over, Node) else over
    return len(sizes) if isinstance(sizes, (tuple, list)) else None
