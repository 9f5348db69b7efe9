from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenPointwise, aten
from optimus.passes._cases import of_one_tensor

CASES = of_one_tensor(torch.tanh)


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
    cases = CASES("functions", "spellings", "slices", "two_layers")
    declines = CASES("four", "chained", "returned", "another_shape", "another_dtype", "transposed")
