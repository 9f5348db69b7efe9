"""A bisection from end to end: name the culprit, see it at work, cut it down, and leave a folder that replays it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optimus.plan import Plan
from verify.bisection.hunt import Bisection, Culprit, Hunt
from verify.bisection.observe import FIRST, OBSERVER, PROBLEM, SEEN
from verify.bisection.probes import CallableProbe, CannotTellError, CommandProbe, GraphProbe, Probe
from verify.bisection.result import cut_down, divergence, write
from verify.bisection.state import State
from verify.minimise import Minimised
from verify.saved import SavedError, load, read_plan
from verify.smaller import Sample

FOLDER = Path("optimus-bisect")


@dataclass
class Outcome:
    """What a bisection found, and the folder and the smallest graph of each culprit, None where the fault shows in no graph alone."""

    bisection: Bisection
    folders: list[Path | None] = field(default_factory=list)
    minimised: list[Minimised | None] = field(default_factory=list)
    divergences: list[str | None] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """See :class:`Bisection`."""
        return self.bisection.exit_code


def bisect(
    subject: Callable[[], Any] | Sequence[str] | Path | str | Probe,
    *,
    plan: Plan | None = None,
    state: Path | str = FOLDER,
    fresh: bool = False,
    exclude: Sequence[str] = (),
    culprits: int = 1,
    timeout_s: float | None = None,
    minimise_s: float = 120.0,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Find the first rewrite that makes ``subject`` bad.

    ``subject``: a function without arguments that compiles and runs a model (bad if it raises, or returns False or a list of
    differences); a command as a list of words (bad if its exit code is not 0; 125 says that it cannot tell); or the folder of
    a saved graph with inputs, rewritten by ``plan`` (default: the one saved with it). ``state``: the folder in which runs are
    kept and results left; a bisection that was killed is gone on with, unless ``fresh``. ``exclude``: patterns left out.
    ``culprits``: how many to look for, the pattern of each left out for the next. ``timeout_s``: for each run of a command.
    ``minimise_s``: the time for cutting each culprit down. ``tell``: called with a line for each run.

    Raises ``ValueError`` for a folder of state that is in use or of something else, or a folder without a graph.
    """
    probe = probe_of(subject, plan, timeout_s)
    kept = State(Path(state), probe.subject(), fresh=fresh)
    with kept.open():
        if kept.resumed:
            tell(f"{kept.resumed} runs are known from a bisection that did not come to its end")
        outcome = Outcome(Hunt(probe, kept, tell).run(exclude, culprits))
        for number, culprit in enumerate(outcome.bisection.culprits, 1):
            _cut(outcome, probe, culprit, kept.folder / f"culprit-{number}", kept, minimise_s, tell)
        kept.finish()
    return outcome


def probe_of(subject: Any, plan: Plan | None = None, timeout_s: float | None = None) -> Probe:
    """How ``subject`` is run; see :func:`bisect`. Raises ``TypeError`` for what cannot be run, ``SavedError`` for a folder without a graph."""
    if isinstance(subject, (GraphProbe, CallableProbe, CommandProbe)):
        return subject
    if isinstance(subject, (str, Path)):
        folder = Path(subject)
        sample = load(folder)
        return GraphProbe(sample.gm, sample.inputs, read_plan(folder) if plan is None else plan, str(folder))
    if callable(subject):
        return CallableProbe(subject)
    words = tuple(subject)
    if not words or not all(isinstance(w, str) for w in words):
        raise TypeError(f"bisect: {subject!r}; accepted are a function, a command as a list of texts, and the folder of a graph")
    return CommandProbe(words, timeout_s)


def _cut(outcome: Outcome, probe: Probe, culprit: Culprit, folder: Path, state: State, seconds: float, tell: Callable[[str], None]) -> None:
    """Cut one culprit down and write its folder, or say why there is none."""
    outcome.folders.append(None)
    outcome.minimised.append(None)
    outcome.divergences.append(None)
    try:
        sample, plan = _sample(probe, culprit, state, tell)
        outcome.divergences[-1] = divergence(sample, plan, culprit)
        tell(f"cutting down {sample.size} operators")
        found = cut_down(sample, plan, culprit, seconds=seconds)
        if found is None:
            raise SavedError("the graph by itself, in eager, computes the same with the rewrite and without: the compiler behind it takes part")
        shutil.rmtree(folder, ignore_errors=True)
        write(folder, culprit, plan, found, probe.by_hand)
    except (ValueError, TypeError, CannotTellError) as error:
        outcome.problems.append(f"not cut down: {error}")
        return
    outcome.folders[-1], outcome.minimised[-1] = folder, found


def _sample(probe: Probe, culprit: Culprit, state: State, tell: Callable[[str], None]) -> tuple[Sample, Plan]:
    """The graph in which the culprit does harm, and inputs with which it does."""
    if isinstance(probe, GraphProbe):
        return Sample(probe.gm, tuple(probe.inputs)), probe.plan
    observed = state.path("observed")
    shutil.rmtree(observed, ignore_errors=True)
    tell("one more run, to save the graph and its inputs")
    answer = probe.run(replace(culprit.isolated, record=str(state.path("observe.jsonl")), observe=OBSERVER), state.path("observe.out"))
    if not answer.bad:
        raise SavedError("the run that was to save the graph was good")
    folder = next((f for f in (observed / SEEN, observed / FIRST) if f.exists()), None)
    if folder is None:
        problem = observed / PROBLEM
        raise SavedError(
            problem.read_text().strip() if problem.exists() else "no graph was saved: the rewritten graph was never called, or is one behind autograd"
        )
    return load(folder), read_plan(folder)
