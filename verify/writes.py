"""What autograd says of in-place writes: of two programs that compute the same, one may raise on the way back."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from optimus.effects import effects
from optimus.values import tensor
from verify.lowering import LoweringError, lower


def refused(before: GraphModule, after: GraphModule, grad: bool) -> str:
    """Why PyTorch refuses to differentiate ``after``, which writes in place, where it does not refuse ``before`` for the same reason.

    Empty where it does not. ``grad``: whether gradients are recorded at the entry.
    """
    if not _wants_gradients(after) or not any(effects(node).writes for node in after.graph.nodes):
        return ""
    found = _error(after, grad)
    return found if found and found != _error(before, grad) else ""


def _wants_gradients(gm: GraphModule) -> bool:
    return any(isinstance(t := tensor(node), torch.Tensor) and t.requires_grad for node in gm.graph.find_nodes(op="placeholder"))


def _error(gm: GraphModule, grad: bool) -> str:
    try:
        lower(gm, grad)
    except LoweringError as error:
        return str(error)
    return ""
