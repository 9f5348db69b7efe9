"""Stacking the operands of a group and handing out the slices of the joint result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.fx import Node

from optimus.horizontal import kind_key, shape_key
from optimus.operators import bound
from optimus.pattern import Decline, Exactness, HorizontalPattern
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import is_row_major, same_sizes, tensor


def stack_inputs(tx: Transaction, operands: Sequence[Node]) -> Node:
    """``operands`` along a new first dimension; one tensor that all members share is expanded, not copied."""
    if all(o is operands[0] for o in operands):
        single = tx.call(torch.unsqueeze, operands[0], 0)
        fake = tensor(operands[0])
        assert fake is not None
        return tx.method("expand", single, len(operands), *[-1] * fake.dim())
    return tx.call(torch.stack, list(operands), dim=0)


def unbind_results(tx: Transaction, members: Sequence[Node], joint: Node, biases: Sequence[Node | None] = ()) -> None:
    """Replace each member by its slice of ``joint``, to which its bias is added, if it has one."""
    slices = tx.call(torch.unbind, joint, dim=0)
    for index, member in enumerate(members):
        result, bias = tx.item(slices, index), biases[index] if biases else None
        tx.replace(member, result if bias is None else tx.call(torch.add, result, bias))


ROW_BIAS = "a bias is a vector with one entry for each output column"


def row_bias(bias: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether ``bias`` has one entry for each row of ``weight``."""
    return same_sizes(bias.shape, weight.shape[:1])


ONCE = (torch.float32, torch.float64)
"""Where a sum is rounded like what it is made of, so that it makes no difference whether a bias is added in it or to it."""


def bias_key(node: Node) -> Hashable:
    """What members of a group must have in common of their bias: all, or, where one can be added to the joint result, nothing."""
    result, bias = tensor(node), tensor(bound(node)["bias"])
    apart = result is not None and result.dtype in ONCE and (bias is None or bias.dtype == result.dtype)
    return apart or kind_key(bias)


def joint_bias(biases: Sequence[Node | None]) -> bool:
    """Whether all members have a bias, of one kind, so that those can be joined."""
    return None not in biases and len({kind_key(tensor(b)) for b in biases}) == 1


POINTWISE_REQUIREMENTS = {
    "too_few": "at least min_fuse_set_size members of one shape stand near each other and do not need one another",
    "row_major": "the result of each member is contiguous",
    "plain_call": "members write no argument (in place or out=)",
}


@dataclass(frozen=True)
class Pointwise(HorizontalPattern):
    """The common part of the patterns that join one element-wise function of one tensor.

    ``function`` is called on the stack, with the further arguments that all members share, by name. Complex numbers are
    left alone: eager rounds those at the end of a tensor otherwise than those inside.
    """

    exactness = Exactness.BITWISE
    requirements = POINTWISE_REQUIREMENTS
    function: ClassVar[Callable[..., torch.Tensor]]

    @staticmethod
    def general(rule: Rule) -> None:
        """Any number of tensors of any one shape."""
        given = rule.family("x", rule.number("count", 1), rule.number("elements"))
        joint = rule.apply("function", rule.stack(given, 0))
        rule.equal("results", rule.each(lambda x: rule.apply("function", x), given), rule.unbind(joint, 0))

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        result = tensor(node)
        if result is None or result.is_complex():
            return None
        if bound(node).writes:
            return Decline("plain_call")
        further = self.further(node)
        if isinstance(further, Decline):
            return further
        if not is_row_major(result):
            return Decline("row_major")
        return shape_key(node), tuple((k, repr(v)) for k, v in sorted(further.items()))

    def further(self, node: Node) -> dict[str, Any] | Decline:
        """The arguments besides the tensor, by name; a refusal where they are nothing a group can share."""
        del node
        return {}

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        further = self.further(members[0])
        assert isinstance(further, dict)
        joint = tx.call(type(self).function, stack_inputs(tx, [bound(n)["self"] for n in members]), **further)
        unbind_results(tx, members, joint)
