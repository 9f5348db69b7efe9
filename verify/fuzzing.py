"""Hunt for a program on which a subject changes what can be observed, and shrink it."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch.fx import GraphModule

from fuzz.disturb import runs
from fuzz.program import Program
from fuzz.strategies import options, programs
from fuzz.templates import captured, instantiate, symbolic_inputs, untouched
from fuzz.variants import variants
from optimus.capture import sample_sizes
from optimus.pattern import Case, Exactness
from verify.compare import compare
from verify.lowered import compare_lowered, is_lowered, rewritten_both
from verify.lowering import LoweringError, lower
from verify.pieces import fewer_pieces
from verify.running import forward, runner
from verify.shrinking import read_inputs, smaller
from verify.spent import Spent
from verify.subject import PassError, PatternSubject, Subject, rewritten, unchanged

BATCH = 60


GRACE_S = 30.0


@dataclass(frozen=True)
class Finding:
    """A program on which the subject is wrong, as small as it was found to get.

    ``options``: those of the pattern that are not at their defaults. ``symbolic``: it was captured with symbols for its sizes.
    """

    program: Program
    differences: tuple[str, ...]
    before: str
    after: str
    options: tuple[tuple[str, Any], ...] = ()
    symbolic: bool = False

    def __str__(self) -> str:
        said = [f"with {name}={given!r}" for name, given in self.options] + (["captured with symbols for its sizes"] if self.symbolic else [])
        return "\n".join([f"{self.program}\n", *said, *self.differences])


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
        before = program.graph(marked=is_lowered(subject))
    except Exception as error:  # whatever an operator raises on fakes
        raise UncapturedError(f"{type(error).__name__}: {error}") from error
    return _judge_graph(subject, lambda: program, before, program.make_inputs)


def judge_symbolic(subject: Subject, case: Case) -> tuple[bool, Finding | None]:
    """The same for a case that was captured with symbols for its sizes, run on the sizes of the capture. Raises :class:`UncapturedError`."""
    sizes = sample_sizes(case)
    try:
        # Where the graph is lowered, here or in a proof, that may have asked of its sizes what makes numbers of their symbols.
        before = untouched(case) if case.must_fire or is_lowered(subject) else captured(case)
    except Exception as error:  # whatever Dynamo raises
        raise UncapturedError(f"{type(error).__name__}: {error}") from error
    fired, found = _judge_graph(subject, lambda: instantiate(case, sizes), before, lambda: symbolic_inputs(case, sizes))
    return fired, None if found is None else replace(found, symbolic=True)


def _judge_graph(
    subject: Subject, program: Callable[[], Program], before: GraphModule, make_inputs: Callable[[], Sequence[object]]
) -> tuple[bool, Finding | None]:
    """``program`` is asked for what to report."""
    if is_lowered(subject):
        return _judge_lowered(subject, program(), before, make_inputs)
    changed = changed_options(subject)
    try:
        after, journal = rewritten(subject, before)
    except PassError as error:
        return True, Finding(program(), (str(error),), before.code, "", changed)
    if not journal.rewrites and unchanged(before, after):
        return False, None
    found = compare_runs(runner(before), forward(after), make_inputs, subject.exactness)
    return True, Finding(program(), tuple(found), before.code, after.code, changed) if found else None


def changed_options(subject: Subject) -> tuple[tuple[str, Any], ...]:
    """The options of a pattern that are not at their defaults."""
    if not isinstance(subject, PatternSubject):
        return ()
    return tuple((f.name, given) for f in fields(subject.pattern) if (given := getattr(subject.pattern, f.name)) != f.default)


def _judge_lowered(subject: Subject, program: Program, gm: GraphModule, make_inputs: Callable[[], Sequence[object]]) -> tuple[bool, Finding | None]:
    """The same for a subject that rewrites ATen-IR."""
    changed = changed_options(subject)
    try:
        before = lower(gm)
    except LoweringError as error:
        raise UncapturedError(str(error)) from error
    try:
        after, *journals = rewritten_both(subject, before)
    except PassError as error:
        return True, Finding(program, (str(error),), before.forward.code, "", changed)
    if not any(journal.rewrites for journal in journals):
        return False, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_lowered(before, after, make_inputs, subject.exactness)
    return True, Finding(program, tuple(found), before.joint.code, after.joint.code, changed) if found else None


def compare_runs(
    before: Callable[..., object], after: Callable[..., object], make_inputs: Callable[[], Sequence[object]], exactness: Exactness
) -> list[str]:
    """What two callables do differently on the same inputs, by the exactness claimed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compare(before, after, make_inputs, bitwise=exactness is Exactness.BITWISE)


class _Found(Exception):
    pass


Attempt = Callable[[], tuple[bool, Finding | None]]
"""Whether the subject fired on some program, and what it got wrong. Raises :class:`UncapturedError`."""


@dataclass(frozen=True)
class Method:
    """How a subject is hunted.

    ``judge``: an attempt on one program. ``first``: attempts that come before any draw. ``ground``: where the programs of a batch are
    drawn, by its number, and the subjects with them. ``batch``: how many.
    """

    judge: Callable[[Subject, Program], tuple[bool, Finding | None]]
    first: Iterable[Attempt]
    ground: Callable[[int], tuple[SearchStrategy[Program], SearchStrategy[Subject]]]
    batch: int = BATCH


@dataclass(frozen=True)
class Limit:
    """The time that a hunt has, and what is spent of it."""

    spent: Spent
    seconds: float


def hunt(
    subject: Subject,
    *,
    seconds: float,
    seed_number: int = 0,
    max_examples: int = 1_000_000,
    on_batch: Callable[[FuzzReport], None] | None = None,
    on_example: Callable[[FuzzReport], None] | None = None,
    skip: int = 0,
    method: Callable[[Subject], Method] | None = None,
) -> FuzzReport:
    """Try the cases of ``subject``, then draw programs round them, and blind ones, until the time is up or one is wrong.

    Options of a pattern are drawn too, within their ranges.
    As long as the subject has not fired, up to :data:`GRACE_S` seconds more are given: a hunt that never saw it fire says nothing.
    ``on_batch`` is called with the report so far after every few programs, ``on_example`` after each that was right. The same seed
    draws the same programs; the first ``skip`` of them are not judged. ``method``: another than to run graphs as they are (:mod:`verify.lossy`).
    """
    with _one_thread():
        return _hunted(
            subject, (method or by_graphs)(subject), seconds, seed_number, max_examples, on_batch or _nothing, on_example or _nothing, skip
        )


def by_graphs(subject: Subject) -> Method:
    """Cases and programs round them, and blind ones, rewritten as graphs and run."""
    grounds = [programs((*subject.cases, *subject.declines)), programs(subject.cases), programs()]
    chosen = _settings(subject)
    return Method(judge, _first_graphs(subject), lambda number: (grounds[number % (len(grounds) - 1) if number % 8 else -1], chosen))


def _nothing(_: FuzzReport) -> None:
    """What is called where nobody listens."""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Kernels of one thread: tensors here are tiny, and on a busy machine threads wait for one another a hundred times longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _hunted(
    subject: Subject,
    method: Method,
    seconds: float,
    seed_number: int,
    max_examples: int,
    on_batch: Callable[[FuzzReport], None],
    on_example: Callable[[FuzzReport], None],
    skip: int,
) -> FuzzReport:
    report = FuzzReport()
    limit = Limit(Spent(), seconds)
    _first(subject, method, report, limit, max_examples, on_example, skip)
    report.seconds = limit.spent.clock()
    for number in itertools.count():
        if report.finding is not None or report.tried + report.skipped >= max_examples or _over(report, limit):
            return report
        examples = min(method.batch, max_examples - report.tried - report.skipped)
        _batch(subject, method, number, seed_number, report, limit, examples, skip, on_example)
        report.seconds = limit.spent.clock()
        on_batch(report)
    return report


def _first(
    subject: Subject, method: Method, report: FuzzReport, limit: Limit, most: int, on_example: Callable[[FuzzReport], None], skip: int
) -> None:
    for attempt in method.first:
        if report.tried + report.skipped >= most or _over(report, limit):
            return
        if report.skipped < skip:
            report.skipped += 1
            continue
        _count(report, attempt)
        if report.finding is not None:
            report.finding = _tidied(subject, method, report.finding)
            return
        on_example(report)


def _first_graphs(subject: Subject) -> Iterator[Attempt]:
    """Every case and decline as it stands, then changed in one way at a time, and as it is captured with symbols for its sizes.

    What is declined with symbols comes early: it costs little, and no proof of equal results runs through it. In front of it stands one
    program on which the subject must fire, so that a slow machine sees that it does.
    """
    cases = (*subject.cases, *subject.declines)
    exact = subject.exactness is Exactness.BITWISE
    plain = iter(variants(cases, complex_numbers=exact))
    yield from (partial(judge, subject, program) for program in itertools.islice(plain, 1))
    yield from (partial(judge_symbolic, subject, case) for case in subject.declines)
    yield from (partial(judge, subject, program) for program in plain)
    yield from (partial(judge_symbolic, subject, case) for case in subject.cases)


def _count(report: FuzzReport, attempt: Attempt) -> None:
    """Carry out one attempt and enter it into the report."""
    report.tried += 1
    try:
        fired, report.finding = attempt()
    except UncapturedError:
        report.uncaptured += 1
        return
    report.fired += fired


def _over(report: FuzzReport, limit: Limit) -> bool:
    """Whether the time is up; shrinking a find gets more, and so does a hunt that has seen nothing."""
    return limit.spent.seconds() > limit.seconds + (GRACE_S if report.finding is not None or not report.fired else 0)


def _batch(
    subject: Subject,
    method: Method,
    number: int,
    seed_number: int,
    report: FuzzReport,
    limit: Limit,
    examples: int,
    skip: int,
    on_example: Callable[[FuzzReport], None],
) -> None:
    strategy, subjects = method.ground(number)

    @seed(seed_number + number)  # type: ignore[untyped-decorator]
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy, subjects)
    def attempt(program: Program, chosen: Subject) -> None:
        if _over(report, limit):
            return
        if report.skipped < skip:
            report.skipped += 1
            return
        report.tried += report.finding is None
        try:
            fired, finding = method.judge(chosen, program)
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
        report.finding = _tidied(subject, method, report.finding)


def _settings(subject: Subject) -> SearchStrategy[Subject]:
    """The subject, and for a pattern the same with other options."""
    if not isinstance(subject, PatternSubject):
        return st.just(subject)
    return options(subject.pattern).map(lambda pattern: replace(subject, pattern=pattern))


def with_options(subject: Subject, given: Sequence[tuple[str, Any]]) -> Subject:
    """The subject with options of its pattern as a find has them."""
    return replace(subject, pattern=replace(subject.pattern, **dict(given))) if isinstance(subject, PatternSubject) and given else subject


def _tidied(subject: Subject, method: Method, finding: Finding) -> Finding:
    """The find without steps and inputs that do not matter, if it stays one.

    One that was captured with symbols for its sizes stays as it is if the subject is right on the same program without: what its graph
    is, no smaller program says.
    """
    subject = with_options(subject, finding.options)
    if finding.symbolic:
        plain = _found_again(subject, method, finding.program)
        return finding if plain is None else _tidied(subject, method, plain)
    for less in filter(runs, _smaller(finding.program)):
        found = _found_again(subject, method, less)
        if found is not None:
            return (
                _tidied(subject, method, found) if less.size() < finding.program.size() or len(less.outputs) < len(finding.program.outputs) else found
            )
    return finding


def _found_again(subject: Subject, method: Method, program: Program) -> Finding | None:
    try:
        return method.judge(subject, program)[1]
    except UncapturedError:
        return None


def _smaller(program: Program) -> list[Program]:
    pruned = program.keep_needed()
    found = [pruned] if pruned != program and pruned.size() < program.size() else []
    found += [replace(program, bare=frozenset())] if program.bare else []
    if len(program.outputs) > 1:
        found += [replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :]) for k in range(len(program.outputs))]
    return found + [read_inputs(less) for less in (*smaller(program), *fewer_pieces(program)) if less.outputs]
