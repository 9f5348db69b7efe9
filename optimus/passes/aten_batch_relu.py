from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenPointwise, aten
from optimus.pattern import declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.relu(x) for x in xs])


@fires(*["n, k"] * 6)
def spellings(a, b, c, d, e, f):
    return a.relu() + torch.relu(b) * torch.relu(input=c) - d.relu() + e.relu() * f.relu()


@fires(*["n"] * 5)
def two_layers(*xs):
    once = [torch.relu(x) * 2 for x in xs]
    return sum(torch.relu(x) for x in once)


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([torch.relu(x) for x in xs])


@declines("too_few", "n, k")
def chained(x):
    for _ in range(5):
        x = torch.relu(x)
    return x.cos()


@declines("law:aliasing", *["n, k"] * 5)
def returned(*xs):
    return [torch.relu(x) for x in xs]


@declines("too_few", *["n, k"] * 4, "n, k: bfloat16")
def another_dtype(*xs):
    return torch.cat([torch.relu(x) for x in xs])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.relu(x.t()) for x in xs])


@dataclass(frozen=True)
class BatchAtenRelu(AtenPointwise):
    """``aten.relu(x1), ..., aten.relu(xn)  ->  select(aten.relu(cat(x1[None], ..., xn[None])), k)``

    Independent ``relu`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slice ``k`` of the
    stack, which is ``xk``. Stops where shape, dtype or device differ, and where the result is not row-major, for the slices are.
    """

    name = "batch_aten_relu"
    anchors = frozenset({"relu"})
    function = aten.relu.default
    cases = (functions, spellings, two_layers)
    declines = (four, chained, returned, another_dtype, transposed)
