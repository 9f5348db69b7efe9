from __future__ import annotations

import operator
from dataclasses import dataclass

import torch

from optimus.passes._aten import AtenBinary, aten
from optimus.passes._cases import of_two_tensors

CASES = of_two_tensors(torch.add, operator.add)


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
    cases = CASES("pairs", "spellings", "with_integers", "scaled")
    declines = CASES("four", "chained", "returned", "another_dtype", "either_order", "transposed", "broadcast", "scaled_and_rounded")
