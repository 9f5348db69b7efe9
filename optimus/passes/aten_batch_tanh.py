from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenPointwise, aten
from optimus.pattern import declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.tanh(x) for x in xs])


@fires(*["n, k"] * 6)
def spellings(a, b, c, d, e, f):
    return a.tanh() + torch.tanh(b) * torch.tanh(input=c) - d.tanh() + e.tanh() * f.tanh()


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


@declines("too_few", *["n, k"] * 4, "n, k: bfloat16")
def another_dtype(*xs):
    return torch.cat([torch.tanh(x) for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.tanh(x.t()) for x in xs])


@dataclass(frozen=True)
class BatchAtenTanh(AtenPointwise):
    """``aten.tanh(x1), ..., aten.tanh(xn)  ->  select(aten.tanh(cat(x1[None], ..., xn[None])), k)``

    Independent ``tanh`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slice ``k`` of the
    stack, which is ``xk``. Stops where shape, dtype or device differ, and where the result is not row-major, for the slices are.
    """

    name = "batch_aten_tanh"
    anchors = frozenset({"tanh"})
    function = aten.tanh.default
    cases = (functions, spellings, two_layers)
    declines = (four, chained, returned, another_dtype, transposed)
