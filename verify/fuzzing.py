"""Hunt for a program on which a subject changes what can be observed, and shrink it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz.disturb import runs
from fuzz.program import Program
from fuzz.strategies import programs
from optimus.pattern import Exactness
from verify.compare import compare
from verify.shrinking import read_inputs, smaller
from verify.subject import PassError, Subject, rewritten

BATCH = 60


GRACE_S = 30.0


@dataclass(frozen=True)
class Finding:
    """A program on which the subject is wrong, as small as it was found to get."""

    program: Program
    differences: tuple[str, ...]
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.program}\n\n" + "\n".join(self.differences)


@dataclass
class FuzzReport:
    """What a hunt saw: programs tried, those on which the subject fired, those that could not be captured, the find."""

    tried: int = 0
    fired: int = 0
    uncaptured: int = 0
    seconds: float = 0.0
    finding: Finding | None = None
    skipped: int = 0
    """Programs drawn and left aside, as an earlier hunt had judged them."""


class UncapturedError(Exception):
    """A program that cannot be captured, for instance as fakes refuse what eager runs."""


def judge(subject: Subject, program: Program) -> tuple[bool, Finding | None]:
    """Whether the subject fired on ``program``, and what it got wrong. Raises :class:`UncapturedError`."""
    try:
        before = program.graph()
    except Exception as error:  # whatever an operator raises on fakes
        raise UncapturedError(f"{type(error).__name__}: {error}") from error
    try:
        after, journal = rewritten(subject, before)
    except PassError as error:
        return True, Finding(program, (str(error),), before.code, "")
    if not journal.rewrites and before.code == after.code:
        return False, None
    found = compare_runs(before.forward, after.forward, program.make_inputs, subject.exactness)
    return True, Finding(program, tuple(found), before.code, after.code) if found else None


def compare_runs(
    before: Callable[..., object], after: Callable[..., object], make_inputs: Callable[[], Sequence[object]], exactness: Exactness
) -> list[str]:
    """What two callables do differently on the same inputs, by the exactness claimed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(before, after, make_inputs, bitwise=exactness is Exactness.BITWISE)


class _Found(Exception):
    pass


def hunt(
    subject: Subject,
    *,
    seconds: float,
    seed_number: int = 0,
    max_examples: int = 1_000_000,
    on_batch: Callable[[FuzzReport], None] | None = None,
    on_example: Callable[[FuzzReport], None] | None = None,
    skip: int = 0,
) -> FuzzReport:
    """Draw programs round the cases of ``subject``, and blind ones, until the time is up or one is wrong.

    As long as the subject has not fired, up to :data:`GRACE_S` seconds more are given: a hunt that never saw it fire says nothing.
    ``on_batch`` is called with the report so far after every few programs, ``on_example`` after each that was right. The same seed
    draws the same programs; the first ``skip`` of them are not judged.
    """
    report = FuzzReport()
    start = time.monotonic()
    number = seed_number
    grounds = [programs((*subject.cases, *subject.declines)), programs(subject.cases), programs()]
    while report.finding is None and report.tried + report.skipped < max_examples and not _over(report, start + seconds):
        strategy = grounds[(number - seed_number) % (len(grounds) - 1)] if (number - seed_number) % 8 else grounds[-1]
        examples = min(BATCH, max_examples - report.tried - report.skipped)
        _batch(subject, strategy, number, report, start + seconds, examples, skip, on_example or (lambda _: None))
        number += 1
        report.seconds = time.monotonic() - start
        if on_batch is not None:
            on_batch(report)
    return report


def _over(report: FuzzReport, deadline: float) -> bool:
    """Whether the time is up; shrinking a find gets more, and so does a hunt that has seen nothing."""
    return time.monotonic() > deadline + (GRACE_S if report.finding is not None or not report.fired else 0)


def _batch(
    subject: Subject,
    strategy: SearchStrategy[Program],
    number: int,
    report: FuzzReport,
    deadline: float,
    examples: int,
    skip: int,
    on_example: Callable[[FuzzReport], None],
) -> None:
    @seed(number)  # type: ignore[untyped-decorator]
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy)
    def attempt(program: Program) -> None:
        if _over(report, deadline):
            return
        if report.skipped < skip:
            report.skipped += 1
            return
        report.tried += report.finding is None
        try:
            fired, finding = judge(subject, program)
        except UncapturedError:
            report.uncaptured += 1
            on_example(report)
            return
        report.fired += fired and report.finding is None
        if finding is not None:
            if report.finding is None or program.size() <= report.finding.program.size():
                report.finding = finding
            raise _Found
        if report.finding is None:
            on_example(report)

    try:
        attempt()
    except _Found:
        assert report.finding is not None
        report.finding = _tidied(subject, report.finding)


def _tidied(subject: Subject, finding: Finding) -> Finding:
    """The find without steps and inputs that do not matter, if it stays one."""
    for less in filter(runs, _smaller(finding.program)):
        try:
            _, found = judge(subject, less)
        except UncapturedError:
            continue
        if found is not None:
            return _tidied(subject, found) if less.size() < finding.program.size() or len(less.outputs) < len(finding.program.outputs) else found
    return finding


def _smaller(program: Program) -> list[Program]:
    from dataclasses import replace

    pruned = program.keep_needed()
    found = [pruned] if pruned != program and pruned.size() < program.size() else []
    if len(program.outputs) > 1:
        found += [replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :]) for k in range(len(program.outputs))]
    return found + [read_inputs(less) for less in smaller(program) if less.outputs]
