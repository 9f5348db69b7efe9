from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenBinary, aten
from optimus.pattern import declines, fires


@fires(*["n, k"] * 10)
def pairs(*t):
    return torch.cat([torch.add(x, y) for x, y in zip(t[:5], t[5:], strict=True)])


@fires(*["n, k"] * 6)
def spellings(a, b, c, d, e, f):
    return torch.stack([a + b, b.add(c), torch.add(input=c, other=d), torch.add(e, e), f + f, a + a, b + b, c + c, d + a, e + b])


@fires(*["n"] * 5, *["n: int64"] * 5)
def with_integers(*t):
    return torch.cat([x + y for x, y in zip(t[:5], t[5:], strict=True)])


@fires(*["n: int64"] * 10, grad=False)
def scaled(*t):
    return torch.cat([torch.add(x, y, alpha=3) for x, y in zip(t[:5], t[5:], strict=True)])


@declines("too_few", *["n, k"] * 4)
def four(*xs):
    return torch.cat([x + xs[0] for x in xs])


@declines("too_few", "n, k", "n, k")
def chained(x, y):
    for _ in range(5):
        x = x + y
    return x.cos()


@declines("law:aliasing", *["n, k"] * 5)
def returned(*xs):
    return [x + xs[0] for x in xs]


@declines("too_few", *["n, k"] * 5, *["n, k"] * 3, *["n, k: bfloat16"] * 2)
def another_dtype(*t):
    return torch.cat([x + y for x, y in zip(t[:5], t[5:], strict=True)])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([x.t() + xs[0].t() for x in xs])


@declines("same_shape", *["n, k"] * 5, *["k"] * 5)
def broadcast(*t):
    return torch.stack([x + y for x, y in zip(t[:5], t[5:], strict=True)])


@declines("plain_scale", *["n, k"] * 10)
def scaled_and_rounded(*t):
    return torch.cat([torch.add(x, y, alpha=3) for x, y in zip(t[:5], t[5:], strict=True)])


@dataclass(frozen=True)
class BatchAtenAdd(AtenBinary):
    """``x1 + y1, ..., xn + yn  ->  select(cat(x1[None], ..., xn[None]) + cat(y1[None], ..., yn[None]), k)``

    Independent ``aten.add.Tensor`` of tensors of one shape become one over their stacks.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slices ``k`` of the
    stacks, which are ``xk`` and ``yk``. Stops where shape, dtypes or device differ, where an operand is a number or is broadcast,
    and where the result is not row-major, for the slices are. A factor ``alpha``, which all share, must be 1 for
    floating-point numbers, for kernels do not round the product alike everywhere.
    """

    name = "batch_aten_add"
    anchors = frozenset({"add"})
    function = aten.add.Tensor
    cases = (pairs, spellings, with_integers, scaled)
    declines = (four, chained, returned, another_dtype, transposed, broadcast, scaled_and_rounded)
