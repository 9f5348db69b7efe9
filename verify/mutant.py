"""One mutant of a pass, judged by every witness in a process of its own.

Where the change is inside functions, these get other code in a fork of a process that has captured the cases: whoever holds such a
function runs the changed one. Where the source has other functions than before, the process has imported no pattern, and whoever asks
for the file gets the changed source. This module therefore imports nothing from which a pattern is reached.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

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


class UnfitError(Exception):
    """A source that differs from the one it stands for by more than the code inside functions."""


def exchange(file: Path, source: str) -> None:
    """Give the functions of ``file`` in this process the code that they have in ``source``. Raises :class:`UnfitError`; nothing is changed then."""
    old, new = (compile(text, str(file), "exec", dont_inherit=True) for text in (file.read_text(), source))
    changed = {before: after for before, after in _pairs(old, new) if before != after}
    held = [f for f in gc.get_objects() if type(f) is FunctionType and f.__code__ in changed]
    if (changed and not held) or any(f.__code__.co_freevars != changed[f.__code__].co_freevars for f in held):
        raise UnfitError(file.name)
    for function in held:
        function.__code__ = changed[function.__code__]


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of each function, before and after. What runs on import has to be the same."""
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    if [c.co_name for c in inner[0]] != [c.co_name for c in inner[1]] or (not old.co_flags & CO_OPTIMIZED and _done(old) != _done(new)):
        raise UnfitError(old.co_filename)
    if old.co_flags & CO_OPTIMIZED:
        yield old, new
    for before, after in zip(*inner, strict=True):
        yield from _pairs(before, after)


def _done(code: CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, tuple(c for c in code.co_consts if not isinstance(c, CodeType))


Report = Callable[[str], None]


def judge(sources: Sequence[str], fuzz_s: float, every: bool, at: Report) -> tuple[tuple[str, str], ...]:
    """The witnesses that object to what is loaded in this process, each with what it said.

    ``sources``: the patterns that may see it, each a name or ``FILE:NAME``, in the order in which they are asked.
    ``every``: ask all witnesses, not only up to the first that objects. ``at`` is told each time what is asked now.
    """
    by: list[tuple[str, str]] = []
    try:
        subjects = [_subject(source) for source in sources]
    except Exception as error:  # noqa: BLE001 - what the mutant raises when it is loaded
        return (("cases", f"raised {_said(error)}"),)
    for witness, subject in _order(subjects):
        if witness in dict(by):
            continue
        at(f"{witness} of {subject.name}")
        objection = _asked(witness, subject, fuzz_s)
        if objection is not None:
            by.append((witness, objection if len(subjects) == 1 else f"{subject.name}: {objection}"))
            if not every:
                break
    return tuple(by)


def _order(subjects: Sequence[PatternSubject]) -> Iterator[tuple[str, PatternSubject]]:
    """Who is asked what: the cheap witnesses of the first few, then of the others, then the costly ones of the first few."""
    first, others = subjects[:FEW], subjects[FEW:]
    for witnesses, group in ((CHEAP, first), (CHEAP, others), (COSTLY, first)):
        yield from ((witness, subject) for witness in witnesses for subject in group)


Wanted = tuple[str, str]
"""A file, and what stands in place of its text."""

DIED, UNFIT = "died", "unfit"


def alone(pipe: Connection, sources: Sequence[str], fuzz_s: float, every: bool, wanted: Wanted) -> None:
    """Judge one mutant in this process, which has imported no pattern: send its number and what is asked, and what came out."""
    _one_thread()
    instead(Path(wanted[0]), wanted[1])
    pipe.send(_outcome(pipe, sources, fuzz_s, every))


def serve(pipe: Connection, sources: Sequence[str], fuzz_s: float, every: bool) -> None:
    """Judge mutants as they come, until None comes, each in a fork of this process, which has captured the cases."""
    _one_thread()
    _captured([_subject(source) for source in sources[:FEW]])
    while (wanted := _received(pipe)) is not None:
        child = os.fork()
        if not child:
            _judge_and_exit(pipe, sources, fuzz_s, every, wanted)
        if os.waitpid(child, 0)[1]:
            pipe.send(DIED)


def _one_thread() -> None:
    """Kernels of one thread: others would not be there in a fork, which would wait for them for ever."""
    import torch

    torch.set_num_threads(1)


def _received(pipe: Connection) -> Wanted | None:
    try:
        wanted: Wanted | None = pipe.recv()
    except EOFError:  # whoever asked is gone
        return None
    return wanted


def _judge_and_exit(pipe: Connection, sources: Sequence[str], fuzz_s: float, every: bool, wanted: Wanted) -> NoReturn:
    status = 1
    try:
        try:
            exchange(Path(wanted[0]), wanted[1])
        except UnfitError:
            pipe.send(UNFIT)
        else:
            pipe.send(_outcome(pipe, sources, fuzz_s, every))
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(status)


def _outcome(pipe: Connection, sources: Sequence[str], fuzz_s: float, every: bool) -> tuple[tuple[tuple[str, str], ...], float]:
    start = time.monotonic()
    found = judge(sources, fuzz_s, every, lambda doing: pipe.send((os.getpid(), doing)))
    return found, time.monotonic() - start


def _captured(subjects: Sequence[PatternSubject]) -> None:
    from fuzz.templates import captured
    from verify.compare import USERS

    for case in (case for subject in subjects for case in (*subject.cases, *subject.declines)):
        with contextlib.suppress(*USERS):  # whoever asks for it again is told
            captured(case)


def _subject(source: str) -> PatternSubject:
    """What is judged: watched as a rule from outside is, for a mutant may do whatever such a rule may."""
    from verify import quantizer
    from verify.replay import subject_of
    from verify.rules import rule_subject
    from verify.subject import PatternSubject

    loaded = subject_of(source).pattern
    pattern = type(loaded)(**loaded.options())  # made by what is loaded now
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
