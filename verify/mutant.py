"""One mutant of a pass, judged by every witness in a process of its own, where the changed source is what is imported.

A process that judges a mutant has imported no pattern before: whoever asks for the file gets the changed source, so that no
part of the process knows another. This module therefore imports nothing from which a pattern is reached.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from verify.subject import PatternSubject

CHEAP = ("cases", "proof")
COSTLY = ("edges", "fuzz", "differential")
WITNESSES = (*CHEAP, *COSTLY)
TIME = "time"
"""What is named as the witness where a mutant does not come to an end."""

FEW = 3
"""Through how many patterns, the first ones, a costly witness looks at a mutant of a module that several use."""

DIFFERENTIAL_S = 10.0
"""After how many seconds no further case is compiled."""

CONTROL = "control"
"""What is named as the operator of a mutant that changes nothing."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: Path
    operator: str
    line: int
    source: str

    def diff(self) -> str:
        """The change as a unified diff of one line of context."""
        before, after = self.file.read_text().splitlines(), self.source.splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.file.name, f"{self.file.name}, {self.operator}", lineterm="", n=1))


@dataclass(frozen=True)
class Killed:
    """What became of a mutant: the witnesses that saw it, each with what it said. None did: it survived."""

    mutant: Mutant
    by: tuple[tuple[str, str], ...]
    seconds: float


def control(file: Path) -> Mutant:
    """The mutant that changes nothing: a witness that sees it sees something that is not there."""
    return Mutant(file, CONTROL, 0, file.read_text())


def instead(file: Path, source: str) -> None:
    """From now on, whoever imports ``file`` in this process gets ``source``. Raises ``RuntimeError`` where it was imported before."""
    known = next((name for name, m in list(sys.modules.items()) if _is(getattr(m, "__file__", None), file)), None)
    if known is not None:
        raise RuntimeError(f"instead: {known} was imported before; accepted is a process that has not imported {file.name}")
    usual: Callable[..., CodeType | None] = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = loader.get_filename(fullname)
        return compile(source, path, "exec", dont_inherit=True) if _is(path, file) else usual(loader, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def _is(path: str | None, file: Path) -> bool:
    return path is not None and path.endswith(file.name) and Path(path).resolve() == file.resolve()


def judge_mutant(
    sources: Sequence[str],
    mutant: Mutant,
    fuzz_s: float,
    every: bool,
    at: Callable[[str], None] = lambda _: None,
) -> Killed:
    """Judge one mutant in this process, which is of no other use afterwards.

    ``sources``: the patterns that may see it, each a name or ``FILE:NAME``, in the order in which they are asked.
    ``every``: ask all witnesses, not only up to the first that objects. ``at`` is told each time what is asked now.
    """
    import torch

    torch.set_num_threads(1)
    start = time.monotonic()
    by: list[tuple[str, str]] = []
    instead(mutant.file, mutant.source)
    try:
        subjects = [_subject(source) for source in sources]
    except Exception as error:  # noqa: BLE001 - what the mutant raises when it is loaded
        return Killed(mutant, (("cases", f"raised {_said(error)}"),), time.monotonic() - start)
    for witness, subject in _order(subjects):
        if witness in dict(by):
            continue
        at(f"{witness} of {subject.name}")
        objection = _asked(witness, subject, fuzz_s)
        if objection is not None:
            by.append((witness, objection if len(subjects) == 1 else f"{subject.name}: {objection}"))
            if not every:
                break
    return Killed(mutant, tuple(by), time.monotonic() - start)


def _order(subjects: Sequence[PatternSubject]) -> Iterator[tuple[str, PatternSubject]]:
    """Who is asked what: the cheap witnesses of the first few, then of the others, then the costly ones of the first few."""
    first, others = subjects[:FEW], subjects[FEW:]
    for witnesses, group in ((CHEAP, first), (CHEAP, others), (COSTLY, first)):
        yield from ((witness, subject) for witness in witnesses for subject in group)


def send(pipe: Connection, sources: Sequence[str], file: str, operator: str, line: int, source: str, fuzz_s: float, every: bool) -> None:
    """Judge one mutant in this process, and send what is asked and what came out."""
    found = judge_mutant(sources, Mutant(Path(file), operator, line, source), fuzz_s, every, pipe.send)
    pipe.send((found.by, found.seconds))


def _subject(source: str) -> PatternSubject:
    """What is judged: watched as a rule from outside is, for a mutant may do whatever such a rule may."""
    from verify import quantizer
    from verify.replay import subject_of
    from verify.rules import rule_subject
    from verify.subject import PatternSubject

    pattern = subject_of(source).pattern
    plain = PatternSubject(pattern)
    return plain if quantizer.concerns(plain) else rule_subject(pattern)


def _asked(witness: str, subject: PatternSubject, fuzz_s: float) -> str | None:
    """What a witness objects to; None if to nothing."""
    try:
        return _objection(witness, subject, fuzz_s)
    except Exception as error:  # noqa: BLE001 - what the mutant raises when it is judged
        return f"raised {_said(error)}"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _objection(witness: str, subject: Any, fuzz_s: float) -> str | None:
    from verify import quantizer
    from verify.edges import prove_edges
    from verify.hunting import differential, hunt
    from verify.proof import proofs
    from verify.rules import vet
    from verify.verdict import Proved, explain

    if witness == "cases":
        if quantizer.concerns(subject):
            return quantizer.misfired(subject)
        fault = vet(subject)
        return None if fault is None else str(fault)
    if witness == "proof":
        wrong = next((v for p in proofs(subject, second_solver=False) for v in p.verdicts if not isinstance(v, Proved)), None)
        return None if wrong is None else explain(wrong)
    if witness == "edges":
        edges = prove_edges(subject, second_solver=False)
        return str(edges) if edges.wrong else None
    if witness == "fuzz":
        report = hunt(subject, seconds=fuzz_s)
        return report.finding.differences[0] if report.finding is not None else None if report.fired else "it never fired"
    start = time.monotonic()
    for run in differential(subject, ("aot_eager",)):
        if run.blamed:
            return f"{run.name}: {run.ours[0]}"
        if time.monotonic() - start > DIFFERENTIAL_S:
            break
    return None
