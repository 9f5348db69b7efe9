from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.operators import bound
from optimus.passes._batch import POINTWISE_REQUIREMENTS, Pointwise
from optimus.pattern import Decline, declines, fires


@fires(*["n, k"] * 5)
def functions(*xs):
    return torch.cat([torch.clamp(x, -0.5, 0.5) for x in xs])


@fires(*["n, k"] * 5)
def spellings(a, b, c, d, e):
    return a.clamp(-1, 1) + torch.clamp(b, min=-1, max=1) * torch.clip(c, -1, max=1) - d.clip(-1, 1) + torch.clamp(e, -1, 1)


@fires(*["n, k"] * 5)
def one_bound(*xs):
    return torch.cat([x.clamp(min=0.25) for x in xs])


@fires(*["n, k"] * 10)
def bounds_by_name_of_the_function(*xs):
    low = torch.clamp_min(xs[0], 0.5) + xs[1].clamp_min(min=0.5) * torch.clamp(xs[2], min=0.5) - xs[3].clamp(0.5) * torch.clip(xs[4], min=0.5)
    high = [torch.clamp_max(xs[5], 1), xs[6].clamp_max(1), *(torch.clamp(x, max=1) for x in xs[7:])]
    return low, torch.cat(high)


@declines("too_few", *["n, k"] * 5)
def hard_tanh(*xs):
    clamped = [torch.clamp(x, -1, 1) for x in xs[:3]]
    return torch.cat([*clamped, torch.nn.functional.hardtanh(xs[3]), torch.nn.functional.relu6(xs[4])])


@declines("too_few", *["n, k"] * 5)
def other_bounds(*xs):
    return torch.cat([torch.clamp(x, min=bound) for x, bound in zip(xs, (0, 0.5, 1, 1.5, 2), strict=True)])


@declines("row_major", *["n, k"] * 5)
def transposed(*xs):
    return torch.stack([torch.clamp(x.t(), min=0) for x in xs])


@declines("plain_call", *["n, k"] * 5, grad=False)
def in_place(*xs):
    return torch.cat([(x + 1).clamp_(0, 1) for x in xs])


@declines("scalar_bounds", *["n, k"] * 5, "n, k")
def tensor_bounds(*xs):
    return torch.cat([torch.clamp(x, min=xs[5]) for x in xs[:5]])


@dataclass(frozen=True)
class BatchClamp(Pointwise):
    """``clamp(x1, a, b), ..., clamp(xn, a, b)  ->  unbind(clamp(stack(x1, ..., xn), a, b))``

    Independent ``clamp`` of one shape with the same bounds become one over their stack.

    Sound because an element-wise function commutes with stacking, and all members have the very same bounds, however
    they are written; ``clamp_min`` and ``clamp_max`` are ``clamp`` with one bound. ``hardtanh`` and ``relu6`` are not: their
    gradient at a bound is 0, and that of ``clamp`` is 1. Stops at bounds that are tensors (they would broadcast against the stack), where bounds, shape,
    dtype, device or ``requires_grad`` differ, and where eager's result is not row-major.
    """

    name = "batch_clamp"
    anchors = frozenset({"clamp"})
    function = staticmethod(torch.clamp)
    requirements = {**POINTWISE_REQUIREMENTS, "scalar_bounds": "the bounds are numbers"}
    cases = (functions, spellings, one_bound, bounds_by_name_of_the_function)
    declines = (hard_tanh, other_bounds, transposed, in_place, tensor_bounds)

    def further(self, node: Node) -> dict[str, Any] | Decline:
        call = bound(node)
        bounds = {"min": call["min"], "max": call["max"]}
        return Decline("scalar_bounds") if any(isinstance(b, Node) for b in bounds.values()) else bounds
