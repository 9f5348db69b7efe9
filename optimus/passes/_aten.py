"""Stacking the operands of a group in ATen-IR, and handing out the slices of the joint result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import Call, bound
from optimus.pattern import IR, Decline, Exactness, HorizontalPattern
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import is_row_major, tensor

aten = torch.ops.aten


def stack(tx: Transaction, operands: Sequence[Node]) -> Node:
    """``operands`` along a new first dimension, as Inductor takes it: each with a dimension more, one after the other."""
    return tx.call(aten.cat.default, [tx.call(aten.unsqueeze.default, o, 0) for o in operands], 0)


def hand_out(tx: Transaction, members: Sequence[Node], joint: Node) -> None:
    """Replace each member by its slice of ``joint``."""
    for index, member in enumerate(members):
        tx.replace(member, tx.call(aten.select.int, joint, 0, index))


ATEN_REQUIREMENTS = {
    "too_few": "at least min_fuse_set_size members of one shape stand near each other and do not need one another",
    "row_major": "the result of each member is contiguous",
}


@dataclass(frozen=True)
class AtenPointwise(HorizontalPattern):
    """The common part of the patterns that join one element-wise operator of one tensor.

    Off by default: on an H200 behind Inductor calls took 1.3 to 1.5 times as long, for the copies, and 0.75 where what is joined is
    the pieces of one tensor. Complex numbers are left alone: eager rounds those at the end of a tensor otherwise than those inside.
    """

    ir = IR.ATEN
    by_default = False
    exactness = Exactness.BITWISE
    requirements = ATEN_REQUIREMENTS
    function: ClassVar[Callable[..., Any]]

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of tensors of any one shape."""
        given = rule.family("x", rule.number("count", 1), rule.number("elements"))
        joint = rule.apply("function", rule.stack(given, 0))
        rule.equal("results", rule.each(lambda x: rule.apply("function", x), given), rule.unbind(joint, 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        result = tensor(node)
        if node.target is not type(self).function or result is None or result.is_complex():
            return None
        return shape_key(node) if is_row_major(result) else Decline("row_major")

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        hand_out(tx, members, tx.call(type(self).function, stack(tx, [bound(n)["self"] for n in members])))


BINARY_REQUIREMENTS = ATEN_REQUIREMENTS | {
    "same_shape": "both operands are tensors of the shape of the result",
    "plain_scale": "the second operand is taken once (alpha is 1), or the result is no floating-point number",
}


@dataclass(frozen=True)
class AtenBinary(HorizontalPattern):
    """The common part of the patterns that join one element-wise operator of two tensors of one shape.

    Off by default, as :class:`AtenPointwise`. A factor ``alpha`` is shared by all members of a group. Where it is not 1 floating-point numbers are left alone: the kernel
    rounds the product at the end of a tensor and not inside, or the other way round.
    """

    ir = IR.ATEN
    by_default = False
    exactness = Exactness.BITWISE
    requirements = BINARY_REQUIREMENTS
    function: ClassVar[Callable[..., Any]]

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of pairs of any one shape."""
        count, elements = rule.number("count", 1), rule.number("elements")
        left, right = rule.family("left", count, elements), rule.family("right", count, elements)
        joint = rule.apply("function", rule.stack(left, 0), rule.stack(right, 0))
        rule.equal("results", rule.each(lambda x, y: rule.apply("function", x, y), left, right), rule.unbind(joint, 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        result = tensor(node)
        if node.target is not type(self).function or result is None or result.is_complex():
            return None
        call = bound(node)
        shapes = {shape_key(call[name]) for name in ("self", "other")}
        if shapes != {shape_key(node)}:
            return Decline("same_shape")
        alpha = call.args.get("alpha", 1)
        if not is_number(alpha, result) or (alpha != 1 and result.is_floating_point()):
            return Decline("plain_scale", f"alpha={alpha}")
        if not is_row_major(result):
            return Decline("row_major")
        return shape_key(node), alpha, call["self"] is call["other"], _dtypes(call)

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        operands = [stack(tx, [c[name] for c in calls]) for name in ("self", "other")]
        alpha = calls[0].args.get("alpha", 1)
        hand_out(tx, members, tx.call(type(self).function, *operands, **({} if alpha == 1 else {"alpha": alpha})))


def is_number(factor: Any, result: torch.Tensor) -> bool:
    """Whether a factor is written down, and not computed from sizes, and of a type that eager takes for ``result``: no bool, and no fraction of whole numbers."""
    return type(factor) is int or (type(factor) is float and (result.is_floating_point() or result.is_complex()))


def _dtypes(call: Call) -> tuple[torch.dtype | None, ...]:
    """Those of both operands in their order; the engine sees the set of inputs, which does not tell ``x - y`` from ``y - x``."""
    fakes = [tensor(call[name]) for name in ("self", "other")]
    return tuple(None if fake is None else fake.dtype for fake in fakes)
