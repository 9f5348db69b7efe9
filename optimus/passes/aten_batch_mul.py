from __future__ import annotations

import operator
from dataclasses import dataclass

import torch

from optimus.passes._aten import BINARY_REQUIREMENTS, AtenBinary, aten
from optimus.passes._cases import of_two_tensors

CASES = of_two_tensors(torch.mul, operator.mul)


@dataclass(frozen=True)
class BatchAtenMul(AtenBinary):
    """``x1 * y1, ..., xn * yn  ->  select(cat(x1[None], ..., xn[None]) * cat(y1[None], ..., yn[None]), k)``

    Independent ``aten.mul.Tensor`` of tensors of one shape become one over their stacks.

    Sound because an element-wise function commutes with stacking: slice ``k`` of the result reads slices ``k`` of the
    stacks, which are ``xk`` and ``yk``. Stops where shape, dtypes or device differ, where an operand is a number or is broadcast,
    and where the result is not row-major, for the slices are.
    """

    name = "batch_aten_mul"
    anchors = frozenset({"mul"})
    function = aten.mul.Tensor
    requirements = {name: text for name, text in BINARY_REQUIREMENTS.items() if name != "plain_scale"}
    cases = CASES("pairs", "spellings", "with_integers")
    declines = CASES("four", "chained", "returned", "another_dtype", "either_order", "transposed", "broadcast")
