"""Matrix products of ATen-IR: ``mm``, ``bmm``, and those that add something, ``addmm`` and ``baddbmm``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.operators import bound
from optimus.passes._aten import aten, is_number
from optimus.pattern import Decline
from optimus.values import Size, is_static, tensor

FACTORS: dict[Any, tuple[str, str]] = {
    aten.mm.default: ("self", "mat2"),
    aten.bmm.default: ("self", "mat2"),
    aten.addmm.default: ("mat1", "mat2"),
    aten.baddbmm.default: ("batch1", "batch2"),
}
"""What each product calls the matrices that it multiplies."""


@dataclass(frozen=True)
class Product:
    """``beta * bias + alpha * left @ right``; ``bias`` is None where there is nothing to add.

    ``rows``, ``inner`` and ``columns``: the extents of the matrices. ``batch``: how many products, None for one of two matrices.
    """

    node: Node
    left: Node
    right: Node
    bias: Node | None
    beta: Any
    alpha: Any
    batch: Size | None
    rows: Size
    inner: Size
    columns: Size

    @property
    def dtype(self) -> torch.dtype:
        """That of the result."""
        fake = tensor(self.node)
        assert fake is not None
        return fake.dtype

    @property
    def empty(self) -> bool:
        """Whether the result is known to have no elements."""
        return any(size is not None and number(size) == 0 for size in (self.batch, self.rows, self.columns))

    @property
    def cuda(self) -> bool:
        """Whether it is computed on a CUDA device."""
        fake = tensor(self.node)
        return fake is not None and fake.device.type == "cuda"


def product_of(node: Node) -> Product | Decline:
    """The product that ``node`` computes, or the refusal to see one, see :data:`PLAIN_PRODUCT`."""
    call = bound(node)
    operands = [call[name] for name in FACTORS.get(node.target, ())]
    bias = call.args["self"] if "alpha" in call.args else None
    fakes = [fake for known in (node, *operands, *(() if bias is None else (bias,))) if (fake := tensor(known)) is not None]
    factors = [call.args.get(name, 1) for name in ("beta", "alpha")]
    said = operands and len(fakes) == (3 if bias is None else 4) and len({fake.dtype for fake in fakes}) == 1
    if not said or not all(is_number(factor, fakes[0]) for factor in factors):
        return Decline("plain_product", f"{node.target}, beta and alpha {factors}")
    (left, right), (one, other), (beta, alpha) = operands, fakes[1:3], factors
    batch = one.shape[0] if one.dim() == 3 else None
    return Product(node, left, right, bias, beta, alpha, batch, one.shape[-2], one.shape[-1], other.shape[-1])


def number(size: Size) -> int | None:
    """A size as a number; None if it is none."""
    return int(size) if is_static(size) else None


PLAIN_PRODUCT = (
    "the graph says what all operands and the result are, they are of one dtype, alpha and beta are numbers that eager takes for it and not "
    "computed from sizes, and the result is written to no tensor that is given"
)

ZERO_FACTOR = "the product is not multiplied by 0: whether NaN and infinity are read then, each kernel decides for itself"
