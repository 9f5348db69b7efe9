"""The pattern library. Adding a pattern is adding its file and its line here."""

from __future__ import annotations

from optimus.passes.activation_quantization import ActivationQuantization
from optimus.passes.aten_batch_add import BatchAtenAdd
from optimus.passes.aten_batch_div import BatchAtenDiv
from optimus.passes.aten_batch_linear import BatchLinearPostGrad
from optimus.passes.aten_batch_mul import BatchAtenMul
from optimus.passes.aten_batch_relu import BatchAtenRelu
from optimus.passes.aten_batch_sigmoid import BatchAtenSigmoid
from optimus.passes.aten_batch_sub import BatchAtenSub
from optimus.passes.aten_batch_tanh import BatchAtenTanh
from optimus.passes.aten_decompose_mm import DecomposeMm
from optimus.passes.aten_normalization import NormalizationAten
from optimus.passes.aten_pad_mm import PadAtenMm
from optimus.passes.aten_select_cat import SelectCatAten
from optimus.passes.aten_split_cat import SplitCatAten
from optimus.passes.aten_unbind_stack import UnbindStackAten
from optimus.passes.batch_clamp import BatchClamp
from optimus.passes.batch_detach import BatchDetach
from optimus.passes.batch_layernorm import BatchLayernorm
from optimus.passes.batch_linear import BatchLinear
from optimus.passes.batch_linear_lhs import BatchLinearLhs
from optimus.passes.batch_nan_to_num import BatchNanToNum
from optimus.passes.batch_relu import BatchRelu
from optimus.passes.batch_sigmoid import BatchSigmoid
from optimus.passes.batch_tanh import BatchTanh
from optimus.passes.einsum_to_pointwise import EinsumToPointwise
from optimus.passes.group_kernels import GroupKernels
from optimus.passes.group_linear import GroupLinear
from optimus.passes.merge_getitem_cat import MergeGetitemCat
from optimus.passes.merge_splits import MergeSplits
from optimus.passes.move_reshape_out_of_split_stack import MoveReshapeOutOfSplitStack
from optimus.passes.mutate_cat import MutateCat
from optimus.passes.normalization import Normalization
from optimus.passes.remove_split_with_size_one import RemoveSplitWithSizeOne
from optimus.passes.split_cat import SplitCat
from optimus.passes.split_cat_to_slices import SplitCatToSlices
from optimus.passes.split_stack_to_cats import SplitStackToCats
from optimus.passes.unbind_cat_to_view import UnbindCatToView
from optimus.passes.unbind_stack import UnbindStack
from optimus.passes.unbind_stack_to_slices import UnbindStackToSlices
from optimus.pattern import Pattern

BUILT_IN: tuple[Pattern, ...] = (
    BatchLinear(),
    BatchLinearLhs(),
    GroupLinear(),
    BatchTanh(),
    BatchSigmoid(),
    BatchRelu(),
    BatchDetach(),
    BatchClamp(),
    BatchNanToNum(),
    BatchLayernorm(),
    BatchLinearPostGrad(),
    BatchAtenTanh(),
    BatchAtenSigmoid(),
    BatchAtenRelu(),
    BatchAtenAdd(),
    BatchAtenSub(),
    BatchAtenDiv(),
    BatchAtenMul(),
    Normalization(),
    RemoveSplitWithSizeOne(),
    MergeGetitemCat(),
    MergeSplits(),
    MutateCat(),
    SplitCat(),
    UnbindStack(),
    SplitCatToSlices(),
    UnbindCatToView(),
    SplitStackToCats(),
    UnbindStackToSlices(),
    MoveReshapeOutOfSplitStack(),
    EinsumToPointwise(),
    SplitCatAten(),
    NormalizationAten(),
    UnbindStackAten(),
    SelectCatAten(),
    PadAtenMm(),
    DecomposeMm(),
)

LOWER: tuple[Pattern, ...] = (ActivationQuantization(), GroupKernels())
"""Patterns that run below the graphs of operators: on what a partitioner makes, and on Inductor's scheduler nodes."""
