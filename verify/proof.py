"""Proof on the shipped code: every case captured with symbolic sizes, rewritten by the real pass, and validated."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch.fx import GraphModule

from fuzz.templates import captured
from optimus.capture import size_symbols
from optimus.journal import Journal
from optimus.pattern import Case, Pattern
from verify.aten import ACCUMULATIONS, AtenProof, prove_aten
from verify.prover.rules import prove_rule
from verify.subject import Subject, as_subject
from verify.validation import TIMEOUT_S, validate
from verify.verdict import Counterexample, Proved, Refuted, Unknown, Vacuous, Verdict, explain, worst


@dataclass(frozen=True)
class CaseProof:
    """What became of one case or decline. ``before`` and ``after``: the code of its graph.

    ``verdict`` is that at Torch-IR; ``aten`` has those at ATen-IR, of cases that fired and were proved there.
    """

    case: Case
    fired: bool
    verdict: Verdict
    seconds: float
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    aten: AtenProof | None = None

    @property
    def verdicts(self) -> list[Verdict]:
        """At both levels."""
        return [self.verdict, *([] if self.aten is None else self.aten.verdicts)]


@dataclass(frozen=True)
class Report:
    """The proofs of all cases and declines of a subject."""

    name: str
    parts: tuple[CaseProof, ...]
    general: Verdict | None = None
    """The proof of the rule as the subject states it for all sizes, numbers of pieces and ranks; None if it states none."""

    @property
    def verdict(self) -> Verdict:
        """Proved only if every case fired and was proved, at both levels, every decline declined for its reason, and the general rule is proved.

        The claim is that about outputs; gradients have their own, see :attr:`backward`.
        """
        general = [] if self.general is None else [self.general]
        all_ = worst([v for p in self.parts for v in p.verdicts] + general)
        if not isinstance(all_, Proved):
            return all_
        outputs = worst([v for p in self.parts for v in (p.verdict, *([] if p.aten is None else [p.aten.forward]))] + general)
        return replace(all_, claim=outputs.claim, laws=outputs.laws) if isinstance(outputs, Proved) else outputs

    @property
    def covered(self) -> str:
        """For which graphs the proof speaks."""
        if self.general is not None:
            return "any sizes, any number of pieces, any rank"
        return "any sizes; number of pieces and rank as in the cases"

    @property
    def forward(self) -> Verdict | None:
        """That of all cases at ATen-IR; None if none came that far."""
        return _over([p.aten.forward for p in self.parts if p.aten is not None])

    @property
    def backward(self) -> Verdict | None:
        """That of the gradients of all cases that have any; None if none has."""
        return _over([p.aten.backward for p in self.parts if p.aten is not None and p.aten.backward is not None])

    @property
    def accumulation(self) -> str:
        """What is proved of the order in which the gradients of several uses are added."""
        found = {p.aten.accumulation for p in self.parts if p.aten is not None and p.aten.backward is not None}
        return next((a for a in ACCUMULATIONS if a in found), ACCUMULATIONS[0])

    @property
    def counterexample(self) -> tuple[CaseProof, Counterexample] | None:
        """The first one, and the case in which it was found."""
        return next(((p, v.counterexample) for p in self.parts for v in p.verdicts if isinstance(v, Refuted)), None)

    def __str__(self) -> str:
        lines = [f"{self.name}: {explain(self.verdict)}"]
        found = self.counterexample
        if found is not None:
            lines.append(f"in {found[0].case.name}, {found[1]}")
        return "\n".join(lines)


def _over(verdicts: list[Verdict]) -> Verdict | None:
    return worst(verdicts) if verdicts else None


def prove(subject: Subject | Pattern, *, timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> Report:
    """Prove every case of ``subject``; see :func:`proofs`."""
    subject = as_subject(subject)
    parts = tuple(proofs(subject, timeout_s=timeout_s, second_solver=second_solver))
    return Report(subject.name, parts, prove_general(subject, timeout_s, second_solver))


def prove_general(subject: Subject, timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> Verdict | None:
    """The proof of the rule that a pattern states in general, see :class:`optimus.rule.Rule`; None if it states none."""
    statement = subject.general
    return None if statement is None else prove_rule(statement, timeout_s=timeout_s, second_solver=second_solver)


def proofs(subject: Subject, *, timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> Iterator[CaseProof]:
    """The proofs of the cases, then of the declines, one by one."""
    for case in (*subject.cases, *subject.declines):
        yield prove_case(subject, case, timeout_s, second_solver)


def prove_case(subject: Subject, case: Case, timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> CaseProof:
    """The proof of one case: it must fire and be right. Of a decline: it must not fire, and say why."""
    start = time.monotonic()
    before = captured(case)
    after = copy.deepcopy(before)
    try:
        journal = subject.apply(after)
    except Exception as error:  # noqa: BLE001 - the subject is the user's
        return CaseProof(case, False, Unknown(f"{case.name}: the pass raised {type(error).__name__}: {error}"), time.monotonic() - start)
    verdict = _verdict(case, before, after, journal, timeout_s, second_solver)
    aten = None
    if journal.rewrites and case.must_fire and isinstance(verdict, Proved):
        aten = prove_aten(before, after, timeout_s=timeout_s, second_solver=second_solver, called=size_symbols(case, before))
    return CaseProof(case, bool(journal.rewrites), verdict, time.monotonic() - start, before.code.strip(), after.code.strip(), aten)


def _verdict(case: Case, before: GraphModule, after: GraphModule, journal: Journal, timeout_s: float, second_solver: bool) -> Verdict:
    errors = [d for d in journal.declined if d.reason == "error"]
    if errors:
        return Unknown(f"{case.name}: the pass raised {errors[0].detail}")
    if journal.rewrites:
        found = validate(before, after, timeout_s=timeout_s, second_solver=second_solver)
        if isinstance(found, Refuted):
            called = size_symbols(case, before)
            sizes = {called.get(symbol, symbol): size for symbol, size in found.counterexample.sizes.items()}
            return Refuted(replace(found.counterexample, sizes=sizes))
        if case.must_fire:
            return found
        return Vacuous(f"{case.name} was to be declined for {case.reason!r}, but was rewritten")
    given = sorted({d.reason for d in journal.declined})
    if case.must_fire:
        return Vacuous(f"{case.name} was not rewritten" + (f"; declined for {', '.join(given)}" if given else ""))
    if case.reason not in given:
        return Vacuous(f"{case.name} was to be declined for {case.reason!r}, but the reasons were {given}")
    return Proved("E0", 0, 0, 0.0)
