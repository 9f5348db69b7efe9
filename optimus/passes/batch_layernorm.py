from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.forms import JOINS
from optimus.horizontal import shape_key
from optimus.operators import Call, bound
from optimus.pattern import Decline, Exactness, HorizontalPattern, at_least, declines, fires
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


@fires("9, n, 8")
def slices_in_parts(x):
    halves = [torch.split(s, [3, 5], dim=1) for s in torch.unbind(x)]
    return torch.stack([F.layer_norm(torch.cat(h, dim=1), (8,)) for h in halves])


@fires("5, n, 8", *["n, 8"] * 9)
def slices_beside_tensors(x, *ys):
    return torch.cat([F.layer_norm(y, (8,)) for y in (*ys[:4], *torch.unbind(x), *ys[4:])])


@declines("own_inputs", *["n, 8"] * 9)
def many_tensors(*xs):
    return torch.cat([F.layer_norm(x, (8,)) for x in xs])


@declines("own_inputs", *["9, n, 4"] * 2)
def halves_of_two_tensors(x, y):
    return torch.cat([F.layer_norm(torch.cat(h, dim=1), (8,)) for h in zip(torch.unbind(x), torch.unbind(y), strict=True)])


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

    Stacking tensors copies each. Where they are parts of one tensor, or one join of parts of it, vertical patterns take the stack
    away again; a group that would stack more than ``max_own_inputs`` tensors is left alone, but for its members that share one.
    """

    name = "batch_layernorm"
    anchors = frozenset({"layer_norm"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "too_few": "at least min_fuse_set_size members of one shape and eps stand near each other and do not need one another",
        "same_dtype": "weight and bias have the dtype of the input",
        "own_inputs": "inputs are parts of no more than max_own_inputs tensors, for stacking more costs more than the launches that it saves",
    }
    cases = (plain, affine, weight_only, two_dimensions, pieces, slices_in_parts, slices_beside_tensors)
    declines = (other_eps, wider_affine, many_tensors, halves_of_two_tensors)
    judged_with = {"max_own_inputs": 8}

    max_own_inputs: int = 4
    """The most tensors of which the inputs of a group are parts. On an H200, joined norms of inputs of their own, each 1024 x 64, took
    0.86 and 0.81 of the time for 3 and 4 inputs, but 1.5, 1.5 and 1.8 for 5, 8 and 16, with 8, 11 and 20 kernels in place of 5, 8 and 16."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "max_own_inputs", 1)

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

    def worth(self, members: Sequence[Node], state: GraphState) -> Sequence[Node] | Decline:
        sources = {n: _source(bound(n)["input"], state) for n in members}
        shared = Counter(sources.values())
        if len(shared) <= self.max_own_inputs:
            return members
        found = [n for n in members if shared[sources[n]] > 1]
        if found and len({sources[n] for n in found}) <= self.max_own_inputs:
            return found
        return Decline("own_inputs", f"parts of {len(shared)} tensors, max_own_inputs={self.max_own_inputs}")

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


def _source(node: Node, state: GraphState) -> Hashable:
    """What a tensor is a part of, or a join of parts of: its memory. Joins of parts of several tensors are tensors of their own."""
    if state.ops.get(node) in JOINS:
        joined = {state.storages(part) for part in node.all_input_nodes}
        if len(joined) == 1:
            return joined.pop()
    return state.storages(node)


def _rank(call: Call) -> int | None:
    """Over how many dimensions a layer norm goes; None where its sizes are no sequence of known length."""
    over = call["normalized_shape"]
    sizes = value(over) if isinstance(over, Node) else over
    return len(sizes) if isinstance(sizes, (tuple, list)) else None
