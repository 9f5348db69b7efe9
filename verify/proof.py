"""Proof on the shipped code: every case captured with symbolic sizes, rewritten by the real pass, and validated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch.fx import GraphModule

from fuzz.templates import captured
from optimus.capture import size_symbols
from optimus.journal import Journal
from optimus.pattern import Case, Pattern
from verify import quantizer
from verify.aten import ACCUMULATIONS, AtenProof, Sides, prove_aten, prove_lowered
from verify.cache import Cache, remembered
from verify.content import case_key, general_key
from verify.edges import Edges, prove_edges
from verify.lowered import is_lowered, rewritten_both
from verify.lowering import LoweringError, lower
from verify.plain import from_plain, pack_proof, packed, unpack_proof
from verify.prover.rules import prove_rule
from verify.smtlib import Export, asked_for, recording
from verify.subject import PassError, Subject, as_subject, rewritten
from verify.validation import TIMEOUT_S, validate
from verify.verdict import Counterexample, Proved, Refuted, Unknown, Unmodelled, Vacuous, Verdict, explain, worst
from verify.versions import versions


@dataclass(frozen=True)
class CaseProof:
    """What became of one case or decline. ``before`` and ``after``: the code of its graph.

    ``verdict`` is that at Torch-IR; ``aten`` has those at ATen-IR, of cases that fired and were proved there. Of a subject that
    rewrites ATen-IR, ``verdict`` is that of the forward graph, which ``aten`` has too.
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
        """At both levels, each once."""
        return [self.verdict, *(v for v in ([] if self.aten is None else self.aten.verdicts) if v != self.verdict)]


@dataclass(frozen=True)
class Report:
    """The proofs of all cases and declines of a subject."""

    name: str
    parts: tuple[CaseProof, ...]
    general: Verdict | None = None
    """The proof of the rule as the subject states it for all sizes, numbers of pieces and ranks; None if it states none."""
    edges: Edges | None = None
    """The cases at sizes 0 and 1; None if they were not tried, as something else is not proved."""

    @property
    def verdict(self) -> Verdict:
        """Proved only if every case fired and was proved, at both levels, also at sizes 0 and 1 where it fired, every decline declined
        for its reason, and the general rule is proved.

        The claim is that about outputs; gradients have their own, see :attr:`backward`.
        """
        others = ([] if self.general is None else [self.general]) + (self.edges.verdicts if self.edges is not None else [])
        all_ = worst([v for p in self.parts for v in p.verdicts] + others)
        if not isinstance(all_, Proved):
            return all_
        outputs = worst([v for p in self.parts for v in (p.verdict, *([] if p.aten is None else [p.aten.forward]))] + others)
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
    def counterexample(self) -> tuple[str, Counterexample] | None:
        """The first one, and the name of the case in which it was found."""
        found = [(p.case.name, v) for p in self.parts for v in p.verdicts]
        found += [(e.case, e.verdict) for e in (self.edges.wrong if self.edges else ()) if e.verdict is not None]
        return next(((name, v.counterexample) for name, v in found if isinstance(v, Refuted)), None)

    def __str__(self) -> str:
        lines = [f"{self.name}: {explain(self.verdict)}"]
        found = self.counterexample
        if found is not None:
            lines.append(f"in {found[0]}, {found[1]}")
        return "\n".join(lines)


def _over(verdicts: list[Verdict]) -> Verdict | None:
    return worst(verdicts) if verdicts else None


def prove(
    subject: Subject | Pattern,
    *,
    timeout_s: float = TIMEOUT_S,
    second_solver: bool = True,
    edges: bool = True,
    smt2: str | Path | None = None,
    cache: Cache | None = None,
) -> Report:
    """Prove every case of ``subject``; see :func:`proofs`.

    ``edges``: also at sizes 0 and 1, once all else is proved. ``smt2``: a folder for all queries, see
    :class:`verify.smtlib.Export`; raises :class:`verify.smtlib.ExportError` if it cannot take them. ``cache``: where proofs
    are looked up and kept; not looked up if the queries are wanted.
    """
    subject = as_subject(subject)
    if smt2 is None:
        return _report(subject, timeout_s, second_solver, edges, cache)
    export = Export(Path(smt2), versions())
    export.check([subject.name])
    with recording() as queries:
        report = _report(subject, timeout_s, second_solver, edges, cache)
    export.write(subject.name, queries)
    return report


def _report(subject: Subject, timeout_s: float, second_solver: bool, edges: bool, cache: Cache | None) -> Report:
    parts = tuple(proofs(subject, timeout_s=timeout_s, second_solver=second_solver, cache=cache))
    report = Report(subject.name, parts, prove_general(subject, timeout_s, second_solver, cache))
    if not edges or not isinstance(report.verdict, Proved):
        return report
    return replace(report, edges=prove_edges(subject, timeout_s=timeout_s, second_solver=second_solver, cache=cache))


def prove_general(subject: Subject, timeout_s: float = TIMEOUT_S, second_solver: bool = True, cache: Cache | None = None) -> Verdict | None:
    """The proof of the rule that a pattern states in general, see :class:`optimus.rule.Rule`; None if it states none."""
    statement = subject.general
    if statement is None:
        return None

    def compute() -> Verdict:
        with asked_for("general"):
            return prove_rule(statement, timeout_s=timeout_s, second_solver=second_solver)

    return remembered(cache, lambda: general_key(subject, timeout_s, second_solver), compute, pack_proof, unpack_proof)


def proofs(subject: Subject, *, timeout_s: float = TIMEOUT_S, second_solver: bool = True, cache: Cache | None = None) -> Iterator[CaseProof]:
    """The proofs of the cases, then of the declines, one by one."""
    for case in (*subject.cases, *subject.declines):
        yield prove_case(subject, case, timeout_s, second_solver, cache)


def prove_case(subject: Subject, case: Case, timeout_s: float = TIMEOUT_S, second_solver: bool = True, cache: Cache | None = None) -> CaseProof:
    """The proof of one case: it must fire and be right. Of a decline: it must not fire, and say why."""
    start = time.monotonic()

    def compute() -> CaseProof:
        with asked_for(case.name):
            return _prove_case(subject, case, timeout_s, second_solver)

    def unpack(entry: dict[str, Any]) -> CaseProof:
        unpack_proof(entry)
        return CaseProof(case=case, seconds=time.monotonic() - start, **{name: from_plain(value, *KEPT) for name, value in entry.items()})

    return remembered(cache, lambda: case_key(subject, case, timeout_s, second_solver), compute, _pack, unpack)


KEPT: tuple[type, ...] = (AtenProof, Sides)
"""The dataclasses besides :class:`Proved` that a :class:`CaseProof` holds and the cache keeps. One that holds another is proved anew."""


def _pack(proof: CaseProof) -> dict[str, Any] | None:
    return packed({f.name: getattr(proof, f.name) for f in fields(proof) if f.name not in ("case", "seconds")}, *KEPT)


def _prove_case(subject: Subject, case: Case, timeout_s: float, second_solver: bool) -> CaseProof:
    start = time.monotonic()
    before = captured(case)
    if quantizer.concerns(subject):
        return _prove_partitioned(subject, case, before, timeout_s, second_solver)
    if is_lowered(subject):
        return _prove_lowered(subject, case, before, timeout_s, second_solver)
    try:
        after, journal = rewritten(subject, before)
    except PassError as error:
        return CaseProof(case, False, Unknown(f"{case.name}: {error}"), time.monotonic() - start, before.code.strip())
    verdict = _verdict(case, before, after, journal, lambda: validate(before, after, timeout_s=timeout_s, second_solver=second_solver))
    aten = None
    if journal.rewrites and case.must_fire and isinstance(verdict, Proved):
        aten = prove_aten(before, after, timeout_s=timeout_s, second_solver=second_solver, called=size_symbols(case, before))
    return CaseProof(case, bool(journal.rewrites), verdict, time.monotonic() - start, before.code.strip(), after.code.strip(), aten)


def _prove_lowered(subject: Subject, case: Case, gm: GraphModule, timeout_s: float, second_solver: bool) -> CaseProof:
    """The proof of a case of a subject that rewrites ATen-IR: of the forward graph, and of the joint graph."""
    start = time.monotonic()
    try:
        left = lower(gm)
        right, journal, _ = rewritten_both(subject, left)
    except (LoweringError, PassError) as error:
        wrong = Unmodelled(f"lowering to ATen-IR: {error}") if isinstance(error, LoweringError) else Unknown(f"{case.name}: {error}")
        return CaseProof(case, False, wrong, time.monotonic() - start, gm.code.strip())
    aten: list[AtenProof] = []

    def proved() -> Verdict:
        aten.append(prove_lowered(left, right, timeout_s=timeout_s, second_solver=second_solver, called=size_symbols(case, gm)))
        return aten[0].forward

    verdict = _verdict(case, left.forward, right.forward, journal, proved)
    codes = left.forward.code.strip(), right.forward.code.strip()
    return CaseProof(case, bool(journal.rewrites), verdict, time.monotonic() - start, *codes, aten[0] if aten and case.must_fire else None)


def _prove_partitioned(subject: Subject, case: Case, before: GraphModule, timeout_s: float, second_solver: bool) -> CaseProof:
    """That of a pattern that runs between the forward and the backward graph, see :mod:`verify.quantizer`."""
    start = time.monotonic()
    seen = quantizer.examine(subject, before, timeout_s, second_solver)
    if seen.verdict is None:
        verdict = _not_rewritten(case, seen.journal)
    elif case.must_fire or not isinstance(seen.verdict, Proved):
        verdict = seen.verdict
    else:
        verdict = _not_declined(case)
    return CaseProof(case, bool(seen.journal.rewrites), verdict, time.monotonic() - start, seen.before, seen.after)


def _verdict(case: Case, before: GraphModule, after: GraphModule, journal: Journal, proved: Callable[[], Verdict]) -> Verdict:
    if journal.rewrites:
        if before.code == after.code:
            return Vacuous(f"{case.name} was rewritten without a change")
        found = proved()
        if isinstance(found, Refuted):
            called = size_symbols(case, before)
            sizes = {called.get(symbol, symbol): size for symbol, size in found.counterexample.sizes.items()}
            return Refuted(replace(found.counterexample, sizes=sizes))
        if case.must_fire:
            return found
        return _not_declined(case)
    return _not_rewritten(case, journal)


def _not_declined(case: Case) -> Verdict:
    return Vacuous(f"{case.name} was to be declined for {case.reason!r}, but was rewritten")


def _not_rewritten(case: Case, journal: Journal) -> Verdict:
    """The verdict on a case that was left alone: proved of a decline with its reason."""
    given = sorted({d.reason for d in journal.declined})
    if case.must_fire:
        return Vacuous(f"{case.name} was not rewritten" + (f"; declined for {', '.join(given)}" if given else ""))
    if case.reason not in given:
        return Vacuous(f"{case.name} was to be declined for {case.reason!r}, but the reasons were {given}")
    return Proved("E0", 0, 0, 0.0)
