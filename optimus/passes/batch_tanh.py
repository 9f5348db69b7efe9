from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._batch import Pointwise
from optimus.passes._cases import of_one_tensor
from optimus.pattern import declines

CASES = of_one_tensor(torch.tanh)


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
    cases = CASES("functions", "spellings", "slices", "two_layers")
    declines = (*CASES("four", "chained", "returned", "another_shape", "another_dtype", "transposed"), in_place)
