from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from optimus.passes._aten import aten
from optimus.passes._products import PLAIN_PRODUCT, ZERO_FACTOR, Product, number, product_of
from optimus.pattern import IR, Decline, Exactness, Match, VerticalPattern, at_least, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Number, Rule, Tensor
from optimus.state import GraphState
from optimus.values import Size, same_size, tensor

ALIGNMENT = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
"""How many elements of a dtype are 16 bytes."""


@fires("m, 7", "7, 5")
def product(x, y):
    return torch.mm(x, y) * 2


@fires("3, 6", "5, 6")
def transposed(x, y):
    return torch.mm(x, y.t()).exp()


@fires("6, 3", "6, n")
def stored_along_its_rows(x, y):
    return torch.mm(x.t(), y)


@fires("b, m, 7", "b, 7, 5")
def batched(x, y):
    return torch.bmm(x, y).cos()


@fires("5", "m, 7", "7, 5")
def with_a_vector(b, x, y):
    return torch.addmm(b, x, y, beta=2, alpha=3)


@fires("3, 1", "6, 3", "6, n")
def with_a_column(b, x, y):
    return torch.addmm(b, x.t(), y)


@fires("m, 5", "b, m, 7", "b, 7, 5")
def batched_with_a_matrix(c, x, y):
    return torch.baddbmm(c, x, y)


@declines("extents", "m, 8", "8, n")
def aligned(x, y):
    return torch.mm(x, y)


@declines("padded", "m, 7", "7, 5")
def padded_already(x, y):
    return torch.mm(F.pad(x, (0, 1)), F.pad(y, (0, 3, 0, 1)))[:, :5]


@declines("kernel", "m, 7: float64", "7, 5: float64")
def double_precision(x, y):
    return torch.mm(x, y)


@declines("long_sum", "m, 3", "3, 5")
def short_sum(x, y):
    return torch.mm(x, y)


@declines("long_sum", "m, 7", "7, 9")
def wide_result(x, y):
    return torch.mm(x, y)


@declines("zero_factor", "5", "m, 7", "7, 5")
def times_zero(b, x, y):
    return torch.addmm(b, x, y, alpha=0)


@declines("plain_product", "5", "m, 7", "7, 5")
def times_a_size(b, x, y, m):
    return torch.addmm(b, x, y, alpha=m)


@dataclass(frozen=True)
class PadAtenMm(VerticalPattern):
    """``mm(x, y)  ->  slice(mm(constant_pad_nd(x), constant_pad_nd(y)))``

    Factors of a matrix product (``mm``, ``bmm``, ``addmm``, ``baddbmm``) get zeros, so that rows begin at multiples of 16 bytes and
    kernels may load whole vectors; the part of the result that was asked for is cut out.

    Sound because the sum over the padded dimension has only products of zeros more, and the padded rows and columns are not
    read; NaN and infinity meet no zero. Only known extents other than 1 are padded: the columns, the inner dimension, and the rows
    where the first factor is stored along them. Stops at dtypes without such kernels, where nothing is to pad, and where the
    sum is too short to pay for the copies.

    Off by default: Inductor pads most products whose calls gain by it. Of five others on an H200, with a threshold of 0, three took 0.34 to 0.67
    of the time of the GPU, one 0.97 and one 1.12, and a call by the wall hardly less. On CUDA devices only: elsewhere nothing is gained;
    ``everywhere`` pads all the same, and so do the proofs.
    """

    name = "pad_aten_mm_pass"
    ir = IR.ATEN
    by_default = False
    anchors = frozenset({"mm", "bmm", "addmm", "baddbmm"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "kernel": "the result is float32, float16 or bfloat16, and on a CUDA device",
        "plain_product": PLAIN_PRODUCT,
        "zero_factor": ZERO_FACTOR,
        "padded": "no factor is padded already, as Inductor does by itself (shape_padding) where it measures a gain",
        "extents": "the number of columns, of summands, or of rows stored side by side is known, and no multiple of 16 bytes",
        "long_sum": "there are at least k_threshold_to_pad summands, and no more rows or columns than summands",
    }
    cases = (product, transposed, stored_along_its_rows, batched, with_a_vector, with_a_column, batched_with_a_matrix)
    declines = (aligned, padded_already, double_precision, short_sum, wide_result, times_zero, times_a_size)
    judged_with = {"everywhere": True, "k_threshold_to_pad": 4}

    k_threshold_to_pad: int = 8388608
    """The fewest summands for which padding is worth its copies; 0 pads whatever the number, and however many rows and columns there are."""
    everywhere: bool = False
    """Also on devices that gain nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "k_threshold_to_pad", 0)

    @staticmethod
    def general(rule: Rule) -> None:
        """A product of two matrices, alone and with a matrix added, padded along all three of its dimensions."""
        rows, inner, columns = (rule.number(name) for name in ("rows", "inner", "columns"))
        more_rows, more_inner, more_columns = (rule.number(f"more_{name}") for name in ("rows", "inner", "columns"))
        x, y, b = rule.tensor("x", rows, inner), rule.tensor("y", inner, columns), rule.tensor("b", rows, columns)

        def padded(x: Tensor, first: Number, second: Number) -> Tensor:
            return rule.pad(rule.pad(x, 0, first), 1, second)

        def asked_for(x: Tensor) -> Tensor:
            return rule.narrow(rule.narrow(x, 0, 0, rows), 1, 0, columns)

        product, larger = "mk,kn->mn", (padded(x, more_rows, more_inner), padded(y, more_inner, more_columns))
        rule.equal("the product", rule.contract(product, x, y), asked_for(rule.contract(product, *larger)))
        added = rule.apply("add", rule.contract(product, *larger), padded(b, more_rows, more_columns))
        rule.equal("the product and what is added", rule.apply("add", rule.contract(product, x, y), b), asked_for(added))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        found = product_of(node)
        if isinstance(found, Decline):
            return found
        if found.dtype not in ALIGNMENT or not (self.everywhere or found.cuda):
            return Decline("kernel", f"{found.dtype}")
        if found.alpha == 0:
            return Decline("zero_factor")
        padding = (0, 0, 0) if found.empty else _padding(found)  # what is empty would have the strides of what is padded
        if not any(padding):
            if any(factor.target is aten.constant_pad_nd.default for factor in (found.left, found.right)):
                return Decline("padded", f"to {found.rows}, {found.inner} and {found.columns}")
            return Decline("extents", f"{found.rows}, {found.inner} and {found.columns}")
        if not self._long(found):
            return Decline("long_sum", f"{found.inner} summands, {found.rows} rows, {found.columns} columns")
        return Match((node,), node, (found, padding))

    def _long(self, found: Product) -> bool:
        if not self.k_threshold_to_pad:
            return True
        inner = number(found.inner)
        sides = [known for side in (found.rows, found.columns) if (known := number(side)) is not None]
        return inner is not None and inner >= self.k_threshold_to_pad and all(side <= inner for side in sides)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found, (rows, inner, columns) = match.found
        left = _padded(tx, found.left, (inner, rows))
        right = _padded(tx, found.right, (columns, inner))
        result = _multiplied(tx, found, left, right, (rows, columns))
        for dim, added, size in ((-2, rows, found.rows), (-1, columns, found.columns)):
            if added:
                fake = tensor(result)
                assert fake is not None
                result = tx.call(aten.slice.Tensor, result, fake.dim() + dim, 0, number(size))
        tx.replace(found.node, result)


def _padding(found: Product) -> tuple[int, int, int]:
    """How much is added to rows, inner dimension, and columns."""
    multiple = ALIGNMENT[found.dtype]
    left = tensor(found.left)
    along_rows = left is not None and same_size(left.stride()[-2], 1) and not same_size(left.stride()[-1], 1)
    return (_missing(found.rows, multiple) if along_rows else 0, _missing(found.inner, multiple), _missing(found.columns, multiple))


def _missing(size: Size, multiple: int) -> int:
    known = number(size)
    return 0 if known is None or known <= 1 else -known % multiple


def _padded(tx: Transaction, node: Node, behind: Sequence[int]) -> Node:
    """``node`` with zeros behind its elements, so many along each dimension, the last first."""
    return tx.call(aten.constant_pad_nd.default, node, [p for added in behind for p in (0, added)]) if any(behind) else node


def _multiplied(tx: Transaction, found: Product, left: Node, right: Node, added: tuple[int, int]) -> Node:
    target: Any = found.node.target
    if found.bias is None:
        return tx.call(target, left, right)
    fake = tensor(found.bias)
    assert fake is not None
    behind = [new if not same_size(size, 1) else 0 for size, new in zip(reversed(fake.shape), reversed(added), strict=False)]
    factors = {name: factor for name, factor in (("beta", found.beta), ("alpha", found.alpha)) if factor != 1}
    return tx.call(target, _padded(tx, found.bias, behind), left, right, **factors)
