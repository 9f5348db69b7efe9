"""The pattern library. Adding a pattern is adding its file and its line here."""

from __future__ import annotations

from optimus.passes.batch_linear import BatchLinear
from optimus.passes.batch_tanh import BatchTanh
from optimus.passes.group_linear import GroupLinear
from optimus.passes.merge_splits import MergeSplits
from optimus.passes.normalization import Normalization
from optimus.passes.split_cat import SplitCat
from optimus.passes.unbind_stack import UnbindStack
from optimus.pattern import Pattern

BUILT_IN: tuple[Pattern, ...] = (
    BatchLinear(),
    GroupLinear(),
    BatchTanh(),
    Normalization(),
    MergeSplits(),
    SplitCat(),
    UnbindStack(),
)
