from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from optimus.passes._batch import Pointwise
from optimus.passes._cases import of_one_tensor
from optimus.pattern import declines, fires

CASES = of_one_tensor(torch.relu)


@fires(*["n, k"] * 5)
def further_spellings(a, b, c, d, e):
    return a.relu() + torch.relu(b) * F.relu(c, inplace=False) - F.relu(input=d) + torch.relu(e)


@fires(*["n, k: int64"] * 5)
def integers(*xs):
    return torch.cat([torch.relu(x) for x in xs])


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
    cases = (*CASES("functions", "spellings", "slices", "two_layers"), further_spellings, integers)
    declines = (*CASES("four", "chained", "returned", "another_shape", "another_dtype", "transposed"), in_place)
