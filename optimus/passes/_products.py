"""Matrix products of ATen-IR: ``mm``, ``bmm``, and those that add something, ``addmm`` and ``baddbmm``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.operators import bound
from optimus.passes._aten import aten
from optimus.values import Size, is_static, tensor

PLAIN = {aten.mm.default: ("self", "mat2"), aten.bmm.default: ("self", "mat2")}
ADDED = {aten.addmm.default: ("mat1", "mat2"), aten.baddbmm.default: ("batch1", "batch2")}


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
    def cuda(self) -> bool:
        """Whether it is computed on a CUDA device."""
        fake = tensor(self.node)
        return fake is not None and fake.device.type == "cuda"


def product_of(node: Node) -> Product | None:
    """The product that ``node`` computes, or None; also for those that give another dtype than their operands have."""
    target: Any = node.target
    if target not in PLAIN and target not in ADDED:
        return None
    call = bound(node)
    left, right = (call[name] for name in (PLAIN.get(target) or ADDED[target]))
    one, other = tensor(left), tensor(right)
    if one is None or other is None or tensor(node) is None:
        return None
    bias, beta, alpha = (None, 1, 1) if target in PLAIN else (call["self"], call["beta"], call["alpha"])
    if not all(isinstance(factor, (int, float)) for factor in (beta, alpha)):
        return None
    batch = one.shape[0] if one.dim() == 3 else None
    return Product(node, left, right, bias, beta, alpha, batch, one.shape[-2], one.shape[-1], other.shape[-1])


def number(size: Size) -> int | None:
    """A size as a number; None if it is none."""
    return int(size) if is_static(size) else None
