"""Rules that are known to be wrong, kept for ever: the judge has to refute each of them.

Three kinds: a pattern with a requirement left out or a step got wrong, run by the engine; the same as a plain function,
where the engine would have seen the wrong shape; and a right pattern run by an engine that does not keep one of its laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimus.laws import ALL_LAWS, Law
from optimus.passes.aten_batch_linear import BatchLinearPostGrad
from optimus.passes.aten_batch_sub import BatchAtenSub
from optimus.passes.aten_decompose_mm import DecomposeMm
from optimus.passes.aten_pad_mm import PadAtenMm
from optimus.passes.aten_select_cat import SelectCatAten
from optimus.passes.aten_split_cat import SplitCatAten
from optimus.passes.batch_clamp import BatchClamp
from optimus.passes.batch_detach import BatchDetach
from optimus.passes.batch_layernorm import BatchLayernorm
from optimus.passes.batch_linear import BatchLinear
from optimus.passes.batch_linear_lhs import BatchLinearLhs
from optimus.passes.batch_nan_to_num import BatchNanToNum
from optimus.passes.batch_relu import BatchRelu
from optimus.passes.batch_sigmoid import BatchSigmoid
from optimus.passes.einsum_to_pointwise import EinsumToPointwise
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
from verify.subject import PatternSubject, Subject

from . import groups, joins, lawful, linears, lowered, members, norms, parts, scalars, sections
from .bare import bare, if_returned, writing


@dataclass(frozen=True)
class Broken:
    """A wrong rule, the right one next to it, and whether proof has to see the fault.

    Fuzzing and differential runs have to see all of them. Proof sees what shows as values, shapes, memory or writes on the
    cases and declines; it does not see sizes, dtypes and programs that no case has, strides, and which gradients are None.
    """

    subject: Subject
    sound: Subject
    by_proof: bool

    @property
    def lacks(self) -> frozenset[Law]:
        """The laws that the engine does not keep for it."""
        return ALL_LAWS - self.subject.laws if isinstance(self.subject, PatternSubject) else frozenset()

    @property
    def name(self) -> str:
        """The name of the rule, with the law it lacks."""
        return self.subject.name + "".join(f"-{law.reason}" for law in self.lacks)


def wrong(subject: Pattern, sound: Pattern, *, by_proof: bool) -> Broken:
    """A wrong pattern, run by the engine."""
    return Broken(PatternSubject(subject), PatternSubject(sound), by_proof)


def without(law: Law, pattern: Pattern, *, by_proof: bool) -> Broken:
    """A right pattern, run by an engine that does not keep ``law``."""
    return Broken(PatternSubject(pattern, ALL_LAWS - {law}), PatternSubject(pattern), by_proof)


TANH = groups.joined("tanh_of_inputs", groups.shape, groups.dtype, groups.flag, groups.reached)

BROKEN: tuple[Broken, ...] = (
    wrong(joins.OrderIgnored(), joins.WholeCat(), by_proof=True),
    wrong(joins.CountNotCoverage(), joins.WholeCat(), by_proof=True),
    wrong(joins.StackDimUnread(), joins.AllSlices(), by_proof=False),
    Broken(bare(joins.RepeatAccepted()), PatternSubject(joins.WholeCat()), by_proof=False),
    Broken(bare(joins.DimUnread()), PatternSubject(joins.WholeCat()), by_proof=True),
    Broken(bare(joins.AxesSwapped()), PatternSubject(joins.AllSlices()), by_proof=True),
    Broken(bare(joins.CopiedIfReturned(), writing, if_returned), PatternSubject(joins.WholeCat()), by_proof=True),
    Broken(bare(sections.ExtraUserIgnored()), PatternSubject(MergeSplits()), by_proof=True),
    Broken(bare(sections.NegativeDimKept()), PatternSubject(SplitCat()), by_proof=True),
    Broken(bare(sections.DimDropped()), PatternSubject(Normalization()), by_proof=True),
    Broken(bare(sections.LastSectionFull()), PatternSubject(Normalization()), by_proof=False),
    Broken(bare(sections.EmptySectionsDropped()), PatternSubject(Normalization()), by_proof=True),
    Broken(bare(sections.OutDropped(), writing), PatternSubject(Normalization()), by_proof=True),
    wrong(linears.BiasesReversed(2), linears.Linears(2), by_proof=True),
    wrong(linears.WeightsByName(2), linears.Linears(2), by_proof=False),
    wrong(linears.SquaresUntransposed(2), linears.Linears(2), by_proof=True),
    wrong(linears.AnyBias(2), linears.Linears(2), by_proof=False),
    wrong(linears.EndsAgree(3), linears.Linears(3), by_proof=False),
    wrong(linears.BiasByLength(2), GroupLinear(2), by_proof=True),
    Broken(groups.joined("dtypes_mixed", groups.shape, groups.flag, groups.reached), TANH, by_proof=False),
    Broken(groups.joined("flags_mixed", groups.shape, groups.dtype, groups.reached), TANH, by_proof=False),
    Broken(groups.joined("unreached_joined", groups.shape, groups.dtype, groups.flag), TANH, by_proof=False),
    wrong(norms.ScalesReversed(2), BatchLayernorm(2), by_proof=True),
    wrong(norms.RepeatsUnseen(), EinsumToPointwise(), by_proof=True),
    wrong(norms.LeftInPlace(), MoveReshapeOutOfSplitStack(), by_proof=True),
    wrong(members.SameBitsClaimed(2), BatchSigmoid(2), by_proof=False),
    Broken(members.IN_PLACE_JOINED, PatternSubject(BatchRelu(2)), by_proof=True),
    wrong(members.UpperBoundUnread(2), BatchClamp(2), by_proof=True),
    wrong(members.PositionsDropped(2), BatchNanToNum(2), by_proof=True),
    Broken(PatternSubject(members.MemoryLost(2, fuse_returned=True), ALL_LAWS - {Law.ALIASING}), PatternSubject(BatchDetach(2)), by_proof=True),
    wrong(members.AnyInput(2), BatchLinearLhs(2), by_proof=True),
    Broken(bare(parts.OnePieceUsed()), PatternSubject(RemoveSplitWithSizeOne()), by_proof=True),
    wrong(parts.EmptiedSectionsDropped(), MergeGetitemCat(), by_proof=True),
    wrong(parts.EndsTell(), MutateCat(), by_proof=True),
    wrong(parts.StrangersLast(), SplitCatToSlices(), by_proof=True),
    wrong(parts.SlicesSwapped(), UnbindCatToView(), by_proof=True),
    wrong(parts.PiecesSwapped(), SplitStackToCats(), by_proof=True),
    wrong(parts.StartDropped(threshold_to_cat=2), UnbindStackToSlices(threshold_to_cat=2), by_proof=True),
    wrong(lowered.FactorDropped(2), BatchAtenSub(2), by_proof=True),
    wrong(lowered.BiasesTurned(2), BatchLinearPostGrad(2), by_proof=True),
    wrong(lowered.SourcesUnread(), SelectCatAten(), by_proof=True),
    wrong(lowered.StrangersBehind(), SplitCatAten(), by_proof=True),
    wrong(lowered.FactorsUnread(), DecomposeMm(), by_proof=True),
    wrong(lowered.PaddedWithOnes(), PadAtenMm(), by_proof=True),
    wrong(scalars.AlphaDropped(), scalars.PlainDifference(), by_proof=True),
    wrong(scalars.FactorsDropped(), scalars.Unfused(), by_proof=True),
    wrong(scalars.RoundingForgotten(), scalars.RoundTrip(), by_proof=True),
    wrong(scalars.NanLost(), scalars.WhereOfIntegers(), by_proof=True),
    wrong(scalars.PlaceNotTurned(), scalars.LeastOfAll(), by_proof=True),
    wrong(scalars.GradientLost(), scalars.ProductWithoutGradient(), by_proof=True),
    Broken(bare(scalars.BatchMoved()), PatternSubject(scalars.LastTwo()), by_proof=True),
    wrong(scalars.NotSaturated(), scalars.SaturatedTwice(), by_proof=True),
    Broken(scalars.EFFECT_DROPPED, scalars.DEAD_DROPPED, by_proof=True),
    without(Law.ALIASING, SplitCat(), by_proof=True),
    without(Law.ALIASING, MutateCat(), by_proof=True),
    without(Law.ALIASING, UnbindStack(), by_proof=True),
    without(Law.ALIASING, BatchLinear(2), by_proof=False),
    without(Law.MUTATION, lawful.OnceOnly(), by_proof=False),
    without(Law.LAYOUT, SplitCat(), by_proof=False),
    without(Law.LAYOUT, UnbindStack(), by_proof=True),
    without(Law.AMBIENT_MODE, MergeSplits(), by_proof=False),
    without(Law.AMBIENT_MODE, SplitCat(), by_proof=False),
    without(Law.AMBIENT_MODE, UnbindStack(), by_proof=False),
    without(Law.EFFECTS, lawful.OnceOnly(), by_proof=False),
    without(Law.TYPES, lawful.NoCast(), by_proof=False),
)

ALWAYS_KEPT: Mapping[Law, str] = {
    Law.SIZES: "no engine runs without it: a size that no node computes cannot be handed to an operator, and a guard cannot be taken back",
    Law.VALID_GRAPH: "no engine runs without it: a graph out of order, or without metadata, cannot be run to see the fault",
}
"""Laws that cannot be left out, so that no fault can be seen, and why."""
