"""Patterns on the nodes of Inductor's scheduler: compiled and compared. Nothing of them is proved, and the verdict says so.

A case must fire, and a decline must be declined for its reason, in a real compile through Inductor; outputs and gradients are
compared with eager beside those of Inductor alone, as for all patterns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fuzz.program import Program
from fuzz.templates import instantiate
from optimus.capture import names
from optimus.inductor_ir import InductorPattern, inductor_patches
from optimus.journal import Journal
from optimus.pattern import Case, Exactness
from optimus.plan import Plan
from verify.differential import Backend, Comparison, three_way
from verify.proof import CaseProof
from verify.subject import PatternSubject, Subject
from verify.verdict import Proved, Unmodelled, Vacuous, Verdict

UNPROVED = Unmodelled("the scheduler nodes of Inductor; their code is compiled and compared")


def concerns(subject: Subject) -> bool:
    """Whether ``subject`` rewrites scheduler nodes."""
    return isinstance(subject, PatternSubject) and isinstance(subject.pattern, InductorPattern)


class Scheduled(Backend):
    """Inductor with the pattern in its scheduler; keeps the journals."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject, "inductor")
        self.journals: list[Journal] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """See :func:`torch.compile`."""
        from torch._inductor.compile_fx import compile_fx

        assert isinstance(self.subject, PatternSubject)
        plan = Plan((self.subject.pattern.judged(),))
        patches = inductor_patches(plan, self._record) | {"force_disable_caches": True}
        return compile_fx(gm, example_inputs, config_patches=patches)  # type: ignore[arg-type, return-value]

    def _record(self, journal: Journal) -> None:
        self.journals.append(journal)
        self.fired += len(journal.rewrites)
        self.faults += [d.detail for d in journal.declined if d.reason == "error"]


def compare(subject: Subject, case: Case, device: str = "cpu", *, dynamic: bool = False) -> tuple[Comparison, Scheduled]:
    """One case in eager, through Inductor, and through Inductor with the pattern."""
    program = _program(case, dynamic)

    def inputs() -> list[torch.Tensor]:
        return [t.detach().to(device).requires_grad_(t.requires_grad) for t in program.make_inputs()]

    ours = Scheduled(subject)
    bitwise = subject.exactness is Exactness.BITWISE
    run = three_way(program.function(), inputs, ours, "inductor", bitwise=bitwise, dynamic=dynamic)
    return Comparison(case.name, "inductor", dynamic, run.fired, run.ours, run.theirs, run.unsteady), ours


def _program(case: Case, dynamic: bool) -> Program:
    sizes = (9, 5, 7, 6, 8) if dynamic else (6, 8, 5, 7, 9)
    return instantiate(case, dict(zip(names(case), sizes, strict=False)))


def parts(subject: Subject, device: str = "cpu") -> Iterator[tuple[CaseProof, Comparison]]:
    """What is known of each case and decline, one by one: at best that it compiles to what eager computes."""
    for case in (*subject.cases, *subject.declines):
        start = time.monotonic()
        comparison, ours = compare(subject, case, device)
        verdict = _verdict(case, ours)
        yield CaseProof(case, bool(ours.fired), verdict, time.monotonic() - start), comparison


def _verdict(case: Case, ours: Scheduled) -> Verdict:
    reasons = sorted({d.reason for j in ours.journals for d in j.declined})
    if case.must_fire:
        return UNPROVED if ours.fired else Vacuous(f"{case.name} was not rewritten; declined for {', '.join(reasons) or 'nothing'}")
    if ours.fired:
        return Vacuous(f"{case.name} was to be declined for {case.reason!r}, but was rewritten")
    return Proved("E0", 0, 0, 0.0) if case.reason in reasons else Vacuous(f"{case.name} was to be declined for {case.reason!r}, not for {reasons}")
