from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._batch import Pointwise
from optimus.passes._cases import of_one_tensor
from optimus.pattern import Exactness, declines, fires

CASES = of_one_tensor(torch.sigmoid)


@fires(*["n, k"] * 5)
def further_spellings(a, b, c, d, e):
    return a.sigmoid() + torch.sigmoid(b) * torch.sigmoid(input=c) - torch.special.expit(d) + torch.nn.functional.sigmoid(e)


@fires(*["n, k"] * 6)
def gates(*xs):
    return sum(torch.sigmoid(x) * x for x in xs)


@declines("plain_call", *["n, k"] * 5, grad=False)
def in_place(*xs):
    return torch.cat([(x + 1).sigmoid_() for x in xs])


@dataclass(frozen=True)
class BatchSigmoid(Pointwise):
    """``sigmoid(x1), ..., sigmoid(xn)  ->  unbind(sigmoid(stack(x1, ..., xn)))``

    Independent ``sigmoid`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking. Stops where shape, dtype, device or ``requires_grad``
    differ, and where eager's result is not row-major, for the slices are. PyTorch's CPU kernel rounds the last few numbers of
    a block of memory otherwise than those before them, so an element's last bit depends on its place, and the stack moves it.
    """

    name = "batch_sigmoid"
    anchors = frozenset({"sigmoid"})
    exactness = Exactness.REASSOCIATES
    function = staticmethod(torch.sigmoid)
    cases = (*CASES("functions", "spellings", "slices", "two_layers"), further_spellings, gates)
    declines = (*CASES("four", "chained", "returned", "another_shape", "another_dtype", "transposed"), in_place)
