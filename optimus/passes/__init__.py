"""The pattern library. Adding a pattern is adding its file and its line here."""

from __future__ import annotations

from optimus.passes.batch_layernorm import BatchLayernorm
from optimus.passes.batch_linear import BatchLinear
from optimus.passes.batch_tanh import BatchTanh
from optimus.passes.einsum_to_pointwise import EinsumToPointwise
from optimus.passes.merge_splits import MergeSplits
from optimus.passes.move_reshape_out_of_split_stack import MoveReshapeOutOfSplitStack
from optimus.passes.normalization import Normalization
from optimus.passes.split_cat import SplitCat
from optimus.passes.unbind_stack import UnbindStack
from optimus.pattern import Pattern

BUILT_IN: tuple[Pattern, ...] = (
    BatchLinear(),
    BatchTanh(),
    BatchLayernorm(),
    Normalization(),
    MergeSplits(),
    SplitCat(),
    UnbindStack(),
    MoveReshapeOutOfSplitStack(),
    EinsumToPointwise(),
)
