from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._batch import Pointwise
from optimus.pattern import Exactness, declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.sigmoid(x) for x in xs])


@fires(*["n, k"] * 5)
def spellings(a, b, c, d, e):
    return a.sigmoid() + torch.sigmoid(b) * torch.sigmoid(input=c) - torch.special.expit(d) + torch.nn.functional.sigmoid(e)


@fires(*["n, k"] * 6)
def gates(*xs):
    return sum(torch.sigmoid(x) * x for x in xs)


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([torch.sigmoid(x) for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.sigmoid(x.t()) for x in xs])


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
    cases = (functions, spellings, gates)
    declines = (four, transposed, in_place)
