from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._batch import Pointwise
from optimus.pattern import declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.tanh(x) for x in xs])


@fires(*["n, k"] * 6)
def spellings(a, b, c, d, e, f):
    return a.tanh() + torch.tanh(b) * torch.tanh(input=c) - d.tanh() + e.tanh() * f.tanh()


@fires("5, n, k")
def slices(x):
    return torch.stack([torch.tanh(s) for s in torch.unbind(x)])


@fires(*["n"] * 5)
def two_layers(*xs):
    once = [torch.tanh(x) * 2 for x in xs]
    return sum(torch.tanh(x) for x in once)


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([torch.tanh(x) for x in xs])


@declines("too_few", "n, k")
def chained(x):
    for _ in range(5):
        x = torch.tanh(x)
    return x.cos()


@declines("law:aliasing", *["n, k"] * 5)
def returned(*xs):
    return [torch.tanh(x) for x in xs]


@declines("too_few", *["n, k"] * 4, "m, k")
def another_shape(*xs):
    return torch.cat([torch.tanh(x) for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.tanh(x.t()) for x in xs])


@declines("plain_call", *["n, k"] * 5, grad=False)
def in_place(*xs):
    return torch.cat([(x + 1).tanh_() for x in xs])


@dataclass(frozen=True)
class BatchTanh(Pointwise):
    """``tanh(x1), ..., tanh(xn)  ->  unbind(tanh(stack(x1, ..., xn)))``

    Independent ``tanh`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slice ``k`` of the
    stack, which is ``xk``. Stops where shape, dtype, device or ``requires_grad`` differ, and where eager's result is not
    row-major, for the slices are.
    """

    name = "batch_tanh"
    anchors = frozenset({"tanh"})
    function = staticmethod(torch.tanh)
    cases = (functions, spellings, slices, two_layers)
    declines = (four, chained, returned, another_shape, transposed, in_place)
