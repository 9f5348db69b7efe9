from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.operators import bound
from optimus.passes._batch import Pointwise
from optimus.pattern import Decline, declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.nan_to_num(x) for x in xs])


@fires(*["n, k"] * 5)
def spellings(a, b, c, d, e):
    positional = torch.nan_to_num(a, 7.0, 8.0, -8.0) + b.nan_to_num(7.0, 8.0, -8.0)
    return (
        positional * torch.nan_to_num(c, nan=7.0, posinf=8.0, neginf=-8.0)
        + d.nan_to_num(7.0, posinf=8.0, neginf=-8.0)
        - torch.nan_to_num(e, 7.0, 8.0, -8.0)
    )


@declines("too_few", *["n, k"] * 5)
def other_fills(*xs):
    return torch.cat([torch.nan_to_num(x, fill) for x, fill in zip(xs, (0.0, 1.0, 2.0, 3.0, 4.0), strict=True)])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.nan_to_num(x.t()) for x in xs])


@declines("plain_call", *["n, k"] * 5, grad=False)
def in_place(*xs):
    return torch.cat([(x + 1).nan_to_num_() for x in xs])


@dataclass(frozen=True)
class BatchNanToNum(Pointwise):
    """``nan_to_num(x1, a, b, c), ..., nan_to_num(xn, a, b, c)  ->  unbind(nan_to_num(stack(x1, ..., xn), a, b, c))``

    Independent ``nan_to_num`` of one shape with the same replacements become one over their stack.

    Sound because an element-wise function commutes with stacking, and all members have the very same replacements,
    however they are written. Stops where replacements, shape, dtype, device or ``requires_grad`` differ, and where
    eager's result is not row-major.
    """

    name = "batch_nan_to_num"
    anchors = frozenset({"nan_to_num"})
    function = staticmethod(torch.nan_to_num)
    cases = (functions, spellings)
    declines = (other_fills, transposed, in_place)

    def further(self, node: Node) -> dict[str, Any] | Decline:
        call = bound(node)
        return {k: call[k] for k in ("nan", "posinf", "neginf")}
