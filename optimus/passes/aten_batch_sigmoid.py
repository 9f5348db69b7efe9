from __future__ import annotations

from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenPointwise, aten
from optimus.passes._cases import of_one_tensor
from optimus.pattern import Exactness

CASES = of_one_tensor(torch.sigmoid)


@dataclass(frozen=True)
class BatchAtenSigmoid(AtenPointwise):
    """``aten.sigmoid(x1), ..., aten.sigmoid(xn)  ->  select(aten.sigmoid(cat(x1[None], ..., xn[None])), k)``

    Independent ``sigmoid`` of one shape become one over their stack.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slice ``k`` of the
    stack, which is ``xk``. Stops where shape, dtype or device differ, and where the result is not row-major, for the slices are.
    On the CPU the kernel rounds the end of a block of memory otherwise, so that bits may change.
    """

    name = "batch_aten_sigmoid"
    anchors = frozenset({"sigmoid"})
    exactness = Exactness.REASSOCIATES
    function = aten.sigmoid.default
    cases = CASES("functions", "spellings", "slices", "two_layers")
    declines = CASES("four", "chained", "returned", "another_shape", "another_dtype", "transposed")
