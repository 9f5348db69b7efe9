from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.passes._aten import aten
from optimus.passes._products import PLAIN_PRODUCT, ZERO_FACTOR, Product, number, product_of
from optimus.pattern import IR, Decline, Exactness, Match, VerticalPattern, at_least, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import Size, tensor

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
"""The dtype in which products are added up."""
WHOLE = {torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64}
SUPPORTED = {torch.float32, torch.float64, *WIDER, *WHOLE}


@fires("m, k", "k, n")
def product(x, y):
    return torch.mm(x, y) * 2


@fires("m, k", "n, k")
def transposed(x, y):
    return torch.mm(x, y.t()).exp()


@fires("b, m, k", "b, k, n")
def batched(x, y):
    return torch.bmm(x, y).cos()


@fires("n", "m, k", "k, n")
def with_a_vector(b, x, y):
    return torch.addmm(b, x, y, beta=2, alpha=3)


@fires("n", "m, k", "k, n", grad=False)
def not_added(b, x, y):
    return torch.addmm(b, x, y, beta=0)


@fires("m, 3", "3, n")
def short_sum(x, y):
    return torch.mm(x, y) * 2


@fires("n", "m, 2", "2, n")
def short_sum_with_a_vector(b, x, y):
    return torch.addmm(b, x, y, beta=2, alpha=3)


@fires("m, 2: bfloat16", "2, n: bfloat16")
def short_sum_in_half_precision(x, y):
    return torch.mm(x, y).exp()


@fires("m, k: bfloat16", "k, n: bfloat16", "n: bfloat16")
def half_precision(x, y, b):
    return torch.addmm(b, x, y) + torch.mm(x, y)


@fires("m, k: int32", "k, n: int32", "m, n: int32", grad=False)
def whole_numbers(x, y, c):
    return torch.addmm(c, x, y, beta=2, alpha=-1) + torch.mm(x, y)


@declines("small", "3, 4", "4, 5")
def many_rows(x, y):
    return torch.mm(x, y)


@declines("small", "b, 2049, k", "b, k, n")
def long_sides(x, y):
    return torch.bmm(x, y)


@declines("dtype", "m, k: complex64", "k, n: complex64", grad=False)
def complex_numbers(x, y):
    return torch.mm(x, y)


@declines("zero_factor", "n", "m, k", "k, n")
def times_zero(b, x, y):
    return torch.addmm(b, x, y, alpha=0)


@declines("plain_product", "n", "m, k", "k, n")
def times_a_size(b, x, y, k):
    return torch.addmm(b, x, y, beta=k)


@dataclass(frozen=True)
class DecomposeMm(VerticalPattern):
    """``mm(x, y)  ->  sum(x[:, :, None] * y[None], 1)``

    ``mm(x, y)  ->  x[:, 0:1] * y[0:1] + x[:, 1:2] * y[1:2] + ...``, where there are few terms

    A matrix product (``mm``, ``bmm``, ``addmm``) of matrices so narrow that no kernel for products pays is written as multiply and sum,
    which the compiler below fuses with what stands before and behind.

    Sound because element ``m, n`` sums ``x[m, k] * y[k, n]`` over ``k``; the order of summation may differ, so rounding may.
    Half precision is multiplied and added up in float32 and rounded once, whole numbers are in their own dtype, as eager has
    it. ``alpha`` and ``beta`` scale the sum and what is added before that; a ``beta`` of 0 adds nothing, be it NaN. Stops at large
    sizes, and at other dtypes.

    What is small differs between devices: on CUDA devices a first dimension of at least ``min_first_dimension_decomposition`` and others
    below ``max_other_dimension_decomposition`` (two of three for ``bmm``), elsewhere a first dimension of at most
    ``cpu_max_first_dimension_decomposition`` and others of at most ``cpu_max_other_dimension_decomposition``. Measured through Inductor on an
    H200, with ``relu`` behind: 0.04 to 0.68 of the time of the GPU on seven shapes of the paper's kind, 1.24 on one. On a CPU (float32, one row): 1.1 times
    as fast for 64 x 64, 0.9 for 512 x 512, 0.2 for 2048 x 2048. Off by default: no model was measured as a whole.
    """

    name = "decompose_mm_pass"
    ir = IR.ATEN
    by_default = False
    anchors = frozenset({"mm", "bmm", "addmm"})
    exactness = Exactness.REASSOCIATES
    requirements = {
        "small": "the sizes are known, and such that no kernel for products pays",
        "plain_product": PLAIN_PRODUCT,
        "zero_factor": ZERO_FACTOR,
        "dtype": "the result is of a floating-point dtype, or of one of whole numbers, of which eager makes no products on CUDA devices",
    }
    cases = (
        product, transposed, batched, with_a_vector, not_added, short_sum, short_sum_with_a_vector, short_sum_in_half_precision, half_precision,
        whole_numbers,
    )  # fmt: skip
    declines = (many_rows, long_sides, complex_numbers, times_zero, times_a_size)
    judged_with = {"skip_dynamic_shape_dim_check": True}

    min_first_dimension_decomposition: int = 10240
    """On CUDA devices: the least extent of the first dimension."""
    max_other_dimension_decomposition: int = 32
    """On CUDA devices: other dimensions are shorter."""
    cpu_max_first_dimension_decomposition: int = 1
    """Elsewhere: the greatest extent of the first dimension."""
    cpu_max_other_dimension_decomposition: int = 64
    """Elsewhere: the greatest extent of other dimensions (2048 in the paper; see above)."""
    max_written_out: int = 32
    """A sum of at most so many terms is written as additions, of which a compiler makes a plain loop, and no reduction of short rows (which was
    half as fast as the product itself for 8 terms of bfloat16 on an H200)."""
    skip_dynamic_shape_dim_check: bool = False
    """Take extents that are not known for such that it pays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, given in self.options().items():
            if not isinstance(given, bool):
                at_least(self, option, 0 if option == "max_written_out" else 1)

    @staticmethod
    def general(rule: Rule) -> None:
        """A product of two matrices. Multiply and sum is a contraction by its meaning."""
        x = rule.tensor("x", rule.number("m"), rule.number("k"))
        y = rule.tensor("y", x.axes[1], rule.number("n"))
        wide, high = rule.expand(x, 2, y.axes[1]), rule.expand(y, 0, x.axes[0])
        rule.equal("the product", rule.contract("mk,kn->mn", x, y), rule.contract("mkn,mkn->mn", wide, high))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        found = product_of(node)
        if isinstance(found, Decline):
            return found
        if found.dtype not in SUPPORTED or (found.cuda and found.dtype in WHOLE):
            return Decline("dtype", f"{found.dtype}{' on a CUDA device' if found.cuda else ''}")
        if found.alpha == 0:
            return Decline("zero_factor")
        if not self._small(found):
            return Decline("small", f"{found.batch or ''} {found.rows}, {found.inner}, {found.columns}")
        return Match((node,), node, found)

    def _small(self, found: Product) -> bool:
        first, *others = [s for s in (found.batch, found.rows, found.inner, found.columns) if s is not None]
        least = self.min_first_dimension_decomposition if found.cuda else 0
        most = math.inf if found.cuda else self.cpu_max_first_dimension_decomposition
        longest = self.max_other_dimension_decomposition - 1 if found.cuda else self.cpu_max_other_dimension_decomposition
        short = [self._fits(s, 0, longest) for s in others]
        return self._fits(first, least, most) and sum(short) >= (2 if found.cuda else len(others))

    def _fits(self, size: Size, least: int, most: float) -> bool:
        known = number(size)
        return self.skip_dynamic_shape_dim_check if known is None else least <= known <= most

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Product = match.found
        total = self._product(tx, _widened(tx, found.left), _widened(tx, found.right), found)
        total = _scaled(tx, total, found.alpha)
        if found.bias is not None and found.beta != 0:
            total = tx.call(aten.add.Tensor, total, _scaled(tx, _widened(tx, found.bias), found.beta))
        if found.dtype in WIDER:
            total = tx.call(torch.ops.prims.convert_element_type.default, total, found.dtype)
        tx.replace(found.node, total)

    def _product(self, tx: Transaction, left: Node, right: Node, found: Product) -> Node:
        """The sum of products of ``left`` and ``right``, in the dtype that they have."""
        inner = 1 if found.batch is None else 2
        terms = number(found.inner)
        if terms is not None and 0 < terms <= self.max_written_out:
            total = _term(tx, left, right, inner, 0)
            for k in range(1, terms):
                total = tx.call(aten.add.Tensor, total, _term(tx, left, right, inner, k))
            return total
        products = tx.call(aten.mul.Tensor, tx.call(aten.unsqueeze.default, left, inner + 1), tx.call(aten.unsqueeze.default, right, inner - 1))
        return _summed(tx, products, inner, found.dtype)


def _term(tx: Transaction, left: Node, right: Node, inner: int, k: int) -> Node:
    """Column ``k`` of ``left`` times row ``k`` of ``right``."""
    return tx.call(aten.mul.Tensor, tx.call(aten.slice.Tensor, left, inner, k, k + 1), tx.call(aten.slice.Tensor, right, inner - 1, k, k + 1))


def _widened(tx: Transaction, node: Node) -> Node:
    """``node`` in the dtype in which products are added up."""
    fake = tensor(node)
    assert fake is not None
    wider = WIDER.get(fake.dtype)
    return node if wider is None else tx.call(torch.ops.prims.convert_element_type.default, node, wider)


def _summed(tx: Transaction, products: Node, dim: int, dtype: torch.dtype) -> Node:
    """The sum along ``dim``; whole numbers stay in their dtype, where PyTorch would take a wider one."""
    own = {"dtype": dtype} if dtype in WHOLE else {}
    return tx.call(aten.sum.dim_IntList, products, [dim], **own)


def _scaled(tx: Transaction, node: Node, factor: float) -> Node:
    return node if factor == 1 else tx.call(aten.mul.Tensor, node, factor)
