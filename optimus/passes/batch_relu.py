from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from optimus.passes._batch import Pointwise
from optimus.pattern import declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([F.relu(x) for x in xs])


@fires(*["n, k"] * 5)
def spellings(a, b, c, d, e):
    return a.relu() + torch.relu(b) * F.relu(c, inplace=False) - F.relu(input=d) + torch.relu(e)


@fires(*["n, k: int64"] * 5)
def integers(*xs):
    return torch.cat([torch.relu(x) for x in xs])


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([F.relu(x) for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([F.relu(x.t()) for x in xs])


@declines("plain_call", *["n, k"] * 5)
def in_place(*xs):
    return torch.cat([F.relu(x + 1, inplace=True) for x in xs])


@dataclass(frozen=True)
class BatchRelu(Pointwise):
    """``relu(x1), ..., relu(xn)  ->  unbind(relu(stack(x1, ..., xn)))``

    Independent ``relu`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking. Stops at ``inplace=True``, which writes its operand,
    where shape, dtype, device or ``requires_grad`` differ, and where eager's result is not row-major.
    """

    name = "batch_relu"
    anchors = frozenset({"relu"})
    function = staticmethod(torch.relu)
    cases = (functions, spellings, integers)
    declines = (four, transposed, in_place)
