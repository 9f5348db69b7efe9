"""Rules that are known to be wrong, kept for ever: the judge has to refute each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch.fx import Node

from optimus.laws import ALL_LAWS, Law
from optimus.passes.batch_linear import BatchLinear
from optimus.passes.batch_tanh import BatchTanh
from optimus.passes.merge_splits import MergeSplits
from optimus.passes.normalization import Normalization
from optimus.passes.split_cat import SplitCat
from optimus.passes.unbind_stack import UnbindStack
from optimus.pattern import Pattern
from verify.subject import PatternSubject, Subject

from . import groups, joins, lawful, linears, sections
from .bare import bare, writing


@dataclass(frozen=True)
class Broken:
    """A wrong rule, the right one next to it, and what must come to light.

    ``by_proof``: whether the fault shows as values, shapes, memory or writes on its cases and declines. ``steps``: the most
    that a program found by fuzzing may have. ``compiler``: behind which the differential run shows it.
    """

    subject: Subject
    sound: Subject
    by_proof: bool
    steps: int
    compiler: str = "aot_eager"

    @property
    def name(self) -> str:
        """The name of the rule, with the law it lacks."""
        laws = ALL_LAWS - self.subject.laws if isinstance(self.subject, PatternSubject) else ()
        return self.subject.name + "".join(f"-{law.reason}" for law in laws)


def without(law: Law, pattern: Pattern, by_proof: bool, steps: int, compiler: str = "aot_eager") -> Broken:
    """``pattern`` run by an engine that does not keep ``law``."""
    return Broken(PatternSubject(pattern, ALL_LAWS - {law}), PatternSubject(pattern), by_proof, steps, compiler)


def returned(node: Node) -> bool:
    """Whether the graph returns ``node`` itself."""
    return any(user.op == "output" for user in node.users)


ALL_KEYS = (groups.shape, groups.dtype, groups.flag, groups.reached)
TANH = groups.joined("tanh_of_inputs", *ALL_KEYS)

BROKEN: tuple[Broken, ...] = (
    Broken(PatternSubject(joins.OrderIgnored()), PatternSubject(joins.WholeCat()), True, 8),
    Broken(PatternSubject(joins.CountNotCoverage()), PatternSubject(joins.WholeCat()), True, 8),
    Broken(bare(joins.RepeatAccepted()), PatternSubject(SplitCat()), False, 8),
    Broken(bare(joins.DimUnread()), PatternSubject(SplitCat()), True, 8),
    Broken(PatternSubject(joins.StackDimUnread()), PatternSubject(UnbindStack()), False, 8),
    Broken(bare(joins.AxesSwapped()), PatternSubject(UnbindStack()), True, 8),
    Broken(bare(joins.CopiedIfReturned(), writing, returned), PatternSubject(joins.WholeCat()), False, 8),
    Broken(bare(sections.ExtraUserIgnored()), PatternSubject(MergeSplits()), True, 8),
    Broken(bare(sections.NegativeDimKept()), PatternSubject(SplitCat()), True, 8),
    Broken(bare(sections.DimDropped()), PatternSubject(Normalization()), True, 8),
    Broken(bare(sections.LastSectionFull()), PatternSubject(Normalization()), False, 8),
    Broken(bare(sections.EmptySectionsDropped()), PatternSubject(Normalization()), False, 8),
    Broken(bare(sections.OutDropped(), writing), PatternSubject(Normalization()), True, 8),
    Broken(PatternSubject(linears.BiasesReversed(2)), PatternSubject(BatchLinear(2)), True, 8),
    Broken(PatternSubject(linears.WeightsByName(2)), PatternSubject(BatchLinear(2)), False, 8),
    Broken(PatternSubject(linears.SquaresUntransposed(2)), PatternSubject(BatchLinear(2)), True, 8),
    Broken(PatternSubject(linears.AnyBias(2)), PatternSubject(BatchLinear(2)), False, 8),
    Broken(PatternSubject(linears.EndsAgree(3)), PatternSubject(BatchLinear(3)), False, 8),
    Broken(groups.joined("dtypes_mixed", groups.shape, groups.flag, groups.reached), TANH, False, 8),
    Broken(groups.joined("flags_mixed", groups.shape, groups.dtype, groups.reached), TANH, False, 8),
    Broken(groups.joined("unreached_joined", groups.shape, groups.dtype, groups.flag), TANH, False, 8),
    without(Law.ALIASING, SplitCat(), True, 8),
    without(Law.MUTATION, SplitCat(), False, 8),
    without(Law.MUTATION, lawful.OnceOnly(), False, 8),
    without(Law.LAYOUT, UnbindStack(), False, 8),
    without(Law.AMBIENT_MODE, MergeSplits(), False, 8),
    without(Law.AMBIENT_MODE, lawful.OnceOnly(), False, 8),
    without(Law.EFFECTS, lawful.OnceOnly(), False, 8, "eager"),
    without(Law.TYPES, SplitCat(), False, 8),
    without(Law.TYPES, lawful.TimesOne(), False, 8),
)

WITHOUT_FAULT: Mapping[Law, str] = {}
