"""All witnesses on one subject, within a budget, as one result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis.errors import Flaky

from optimus.pattern import Exactness
from verify import edges, quantizer, scheduled
from verify.aten import AtenProof
from verify.branches import FileBranches, branches_taken, is_traced, sources
from verify.cache import Cache
from verify.differential import Comparison
from verify.fuzzing import FuzzReport
from verify.hunting import differential, hunt
from verify.proof import CaseProof, Report, proofs, prove_general
from verify.rules import Fault, RuleSubject, vet
from verify.spent import Spent
from verify.subject import PatternSubject, Subject
from verify.validation import TIMEOUT_S
from verify.verdict import CLAIMS, Proved, Refuted, Unknown, Unmodelled, Vacuous, Verdict, explain, word

FUZZ_SHARE = 0.5
"""The most of what is left of the budget after the proof that fuzzing gets; the differential runs get the rest."""

RUNS_S, LEAST_S = 14.0, 8.0
"""What is kept for the differential runs, as long as fuzzing has the least that it gets."""

INDUCTOR_RUNS = 3

EXIT = {"proved": 0, "refuted": 1, "vacuous": 3, "unknown": 3, "unmodelled": 3}


@dataclass
class Judgement:
    """What the witnesses say of one subject.

    ``branches``: those of the files of the pass that fuzzing took, its own file first; None where they were not measured: the subject is
    no pattern, or somebody else, a debugger for instance, traces the process.
    """

    name: str
    exactness: str
    proof: Report
    fuzz: FuzzReport = field(default_factory=FuzzReport)
    branches: tuple[FileBranches, ...] | None = None
    runs: list[Comparison] = field(default_factory=list)
    seconds: float = 0.0
    fault: Fault | None = None
    """What is wrong with the rule itself, if that was seen; the other witnesses have then seen nothing, or not all."""

    @property
    def verdict(self) -> str:
        """One word: refuted if any witness objects, else what the proof says; vacuous if fuzzing never saw it fire."""
        if self.fault is not None:
            return self.fault.verdict
        if self.fuzz.finding is not None or any(c.blamed for c in self.runs):
            return "refuted"
        tested = self.fuzz.tried or self.exactness == Exactness.LOSSY.name  # of which a bound is claimed that nothing but fuzzing checks
        if isinstance(self.proof.verdict, Proved) and tested and not self.fuzz.fired:
            return "vacuous"
        return word(self.proof.verdict)

    @property
    def line(self) -> str:
        """The verdict in one line."""
        if self.fault is not None:
            return f"{self.name}: {self.fault}"
        if self.verdict != "refuted":
            return f"{self.name}: {self.verdict.upper()} - {self._assurance()}"
        if isinstance(self.proof.verdict, Refuted):
            return f"{self.name}: REFUTED by proof - {self.proof.verdict.counterexample.differences[0]}"
        if self.fuzz.finding is not None:
            return f"{self.name}: REFUTED by fuzzing - {self.fuzz.finding.differences[0]}"
        blamed = next(c for c in self.runs if c.blamed)
        return f"{self.name}: REFUTED by a differential run of {blamed.name} through {blamed.compiler} - {blamed.ours[0]}"

    def _assurance(self) -> str:
        verdict = self.proof.verdict
        if not isinstance(verdict, Proved):
            return explain(verdict)
        if self.verdict == "vacuous":
            return f"none of {self.fuzz.tried} fuzzed programs made it fire"
        proved = sum(p.case.must_fire for p in self.proof.parts)
        gradients = f"gradients {back.claim}; " if isinstance(back := self.proof.backward, Proved) else ""
        scope = "the rule in general and " if self.proof.general is not None else ""
        parts = [
            f"{self._sense()}{scope}{proved} cases for all sizes ({verdict.claim}; {gradients}{verdict.confirmed} of {verdict.queries} queries confirmed by cvc5)"
        ]
        fuzzed = f"{self.fuzz.fired} of {self.fuzz.tried} fuzzed programs rewritten without a difference"
        own = self.branches[0] if self.branches else None
        parts.append(fuzzed + (f", which took {own.taken} of {own.total} branches of {own.name}" if own is not None and own.total else ""))
        parts.append(f"{len(self.runs)} differential runs")
        return ", ".join(parts)

    def _sense(self) -> str:
        """In which sense what changes values is proved."""
        if self.exactness != Exactness.LOSSY.name:
            return ""
        names = sum(len(not_the_same(p)) for p in self.proof.parts)
        return f"outputs the same; gradients the same but for {names} saved values that come back from 8 bits, each within its bound as tested: "

    def to_json(self) -> dict[str, Any]:
        """The judgement as plain data."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "line": self.line,
            "fault": None if self.fault is None else {"kind": self.fault.kind, "text": self.fault.text},
            "exactness": self.exactness,
            "seconds": round(self.seconds, 3),
            "proof": [_case_json(p) for p in self.proof.parts],
            "general": None if self.proof.general is None else _verdict_json(self.proof.general),
            "covered": self.proof.covered,
            "edges": None if self.proof.edges is None else edges.to_json(self.proof.edges),
            "aten": _level_json(self.proof),
            "fuzz": {
                "tried": self.fuzz.tried,
                "fired": self.fuzz.fired,
                "uncaptured": self.fuzz.uncaptured,
                "seconds": round(self.fuzz.seconds, 3),
                "finding": None
                if self.fuzz.finding is None
                else {"program": str(self.fuzz.finding.program), "differences": list(self.fuzz.finding.differences)},
            },
            "branches": None if self.branches is None else [f.to_json() for f in self.branches],
            "differential": [
                {"case": c.name, "compiler": c.compiler, "dynamic": c.dynamic, "fired": c.fired, "ours": list(c.ours), "theirs": list(c.theirs)}
                for c in self.runs
            ],
        }


def _case_json(part: CaseProof) -> dict[str, Any]:
    found: dict[str, Any] = {
        "case": part.case.name,
        "must_fire": part.case.must_fire,
        "reason": part.case.reason,
        "fired": part.fired,
        "seconds": round(part.seconds, 3),
    }
    aten = {"aten": None if part.aten is None else _aten_json(part.aten)}
    return found | _verdict_json(part.verdict) | ({"text": said} if (said := declined(part)) else {}) | aten


def declined(part: CaseProof) -> str:
    """What to say of a decline that declined as it must; nothing of any other part."""
    if part.case.must_fire or not isinstance(part.verdict, Proved):
        return ""
    return f"declined: {part.case.reason}{', cached' if part.verdict.cached else ''}"


def not_the_same(part: CaseProof) -> tuple[str, ...]:
    """Where the proof of a pattern that changes values says that it does."""
    return tuple(law for law in part.verdict.laws if law.startswith(quantizer.SAYS)) if isinstance(part.verdict, Proved) else ()


def _aten_json(proof: AtenProof) -> dict[str, Any]:
    """The verdicts at ATen-IR, and the side conditions of the statement about gradients."""
    found: dict[str, Any] = {
        "forward": _verdict_json(proof.forward),
        "backward": None if proof.backward is None else _verdict_json(proof.backward),
        "seconds": round(proof.seconds, 3),
    }
    sides = proof.sides
    if sides is None:
        return found
    return found | {
        "inputs": list(sides.wanted),
        "without_gradient": {"before": list(sides.without[0]), "after": list(sides.without[1])},
        "requires_grad": {"before": list(sides.requires_grad[0]), "after": list(sides.requires_grad[1])},
        "side_conditions_agree": sides.agree,
        "used_twice": {"before": sides.fan_out[0], "after": sides.fan_out[1]},
        "accumulation": proof.accumulation,
        "assumed_sizes": list(sides.assumed),
    }


def _level_json(report: Report) -> dict[str, Any]:
    """What is proved at ATen-IR over all cases."""
    forward, backward = report.forward, report.backward
    return {
        "forward": None if forward is None else _verdict_json(forward),
        "backward": None if backward is None else _verdict_json(backward),
        "accumulation": report.accumulation,
    }


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = {"verdict": word(verdict), "text": explain(verdict)}
    match verdict:
        case Proved(claim, queries, confirmed):
            says = CLAIMS[claim]
            found |= {"claim": claim, "means": says.means, "laws": list(verdict.ledger), "gradients": says.gradients}
            found |= {"queries": queries, "confirmed": confirmed, "cached": verdict.cached}
        case Refuted(counterexample):
            found["counterexample"] = {
                "what": counterexample.what,
                "sizes": dict(counterexample.sizes),
                "differences": list(counterexample.differences),
                "before": counterexample.before,
                "after": counterexample.after,
            }
        case Vacuous() | Unknown() | Unmodelled():
            pass
    return found


def judge(
    subject: Subject,
    *,
    budget_s: float,
    seed: int = 0,
    device: str = "cpu",
    watch: Callable[[str, str], None] | None = None,
    timeout_s: float = TIMEOUT_S,
    cache: Cache | None = None,
) -> Judgement:
    """Run every witness on ``subject`` within about ``budget_s`` seconds, see :class:`verify.spent.Spent`; proof and the runs through ``aot_eager`` always finish.

    ``watch`` is told the witness and how far it is. ``timeout_s`` bounds each query to a solver. ``cache``: proofs kept there
    are not made again; the other witnesses always run.
    """
    spent = Spent()
    tell = watch or (lambda *_: None)
    if scheduled.concerns(subject):
        return _scheduled(subject, device, tell)
    if isinstance(subject, RuleSubject):
        tell("rule", f"{len(subject.cases)} cases, {len(subject.declines)} declines")
        fault = vet(subject)
        if fault is not None:
            return Judgement(subject.name, subject.exactness.name, Report(subject.name, ()), seconds=spent.clock(), fault=fault)
    parts: list[CaseProof] = []
    total = len(subject.cases) + len(subject.declines)
    tell("proof", f"0 of {total} cases")
    for part in proofs(subject, timeout_s=timeout_s, cache=cache):
        parts.append(part)
        tell("proof", f"{len(parts)} of {total} cases: {part.case.name} {_outcome(part)}")
    tell("proof", "the rule in general")
    report = Report(subject.name, tuple(parts), prove_general(subject, timeout_s, cache=cache))
    if isinstance(report.verdict, Proved):
        report = replace(report, edges=edges.prove_edges(subject, timeout_s=timeout_s, watch=lambda far: tell("sizes 0 and 1", far), cache=cache))
    found = Judgement(subject.name, subject.exactness.name, report)
    left = budget_s - spent.seconds()
    seconds = max(min(left * FUZZ_SHARE, left - RUNS_S), min(LEAST_S, budget_s))
    try:
        found.fuzz, found.branches = fuzzed(subject, seconds, seed, lambda r: tell("fuzz", f"{r.tried} programs, {r.fired} rewritten"))
    except Flaky as error:  # a program on which it was wrong, and then was not
        found.fault = Fault(
            "flaky", f"{subject.name} was wrong on a program that fuzzing drew, and not on the same program again ({str(error).splitlines()[0]})"
        )
        return found
    if found.fuzz.finding is None:
        _run(subject, found, lambda: spent.seconds() > budget_s, device, tell)
    found.seconds = spent.clock()
    return found


def fuzzed(
    subject: Subject, seconds: float, seed: int = 0, on_batch: Callable[[FuzzReport], None] | None = None
) -> tuple[FuzzReport, tuple[FileBranches, ...] | None]:
    """A hunt, see :func:`verify.fuzzing.hunt`, and the branches of the pass that it took, see :class:`Judgement`."""
    reports: list[FuzzReport] = []

    def run() -> None:
        reports.append(hunt(subject, seconds=seconds, seed_number=seed, on_batch=on_batch))

    if not isinstance(subject, PatternSubject) or is_traced():
        run()
        return reports[0], None
    taken = branches_taken(sources(subject.pattern), run)
    return reports[0], tuple(taken)


def _scheduled(subject: Subject, device: str, tell: Callable[[str, str], None]) -> Judgement:
    """The judgement on a pattern of Inductor-IR, of which nothing is proved; see :mod:`verify.scheduled`."""
    start = time.monotonic()
    parts: list[CaseProof] = []
    runs: list[Comparison] = []
    for part, run in scheduled.parts(subject, device):
        parts.append(part)
        runs.append(run)
        tell("differential", f"{len(runs)} runs, {run.name} through {run.compiler}")
    runs += [scheduled.compare(subject, case, device, dynamic=True)[0] for case in subject.cases]
    found = Judgement(subject.name, subject.exactness.name, Report(subject.name, tuple(parts)), runs=runs)
    found.seconds = time.monotonic() - start
    return found


def _outcome(part: CaseProof) -> str:
    if part.case.must_fire or not isinstance(part.verdict, Proved):
        return word(part.verdict)
    return f"declined ({part.case.reason})"


def _run(subject: Subject, found: Judgement, over: Callable[[], bool], device: str, tell: Callable[[str, str], None]) -> None:
    for compiler, most in (("aot_eager", 100), ("inductor", INDUCTOR_RUNS)):
        for comparison in differential(subject, (compiler,), device, most):
            found.runs.append(comparison)
            tell("differential", f"{len(found.runs)} runs, {comparison.name} through {compiler}")
            if comparison.blamed or (compiler == "inductor" and over()):
                return


def undecided(verdict: Verdict) -> bool:
    """Whether a verdict is neither proved nor refuted."""
    return not isinstance(verdict, (Proved, Refuted))
