"""``optimus-verify bisect``: what it runs and what it prints."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from optimus.limit import ENVIRONMENT, Limit
from optimus.plan import lookup
from verify.bisection.drive import Outcome, bisect, probe_of
from verify.bisection.hunt import Culprit
from verify.bisection.probes import CallableProbe, CannotTellError, CommandProbe, GraphProbe, Probe
from verify.cli import UsageError
from verify.commands import _output, factory_of
from verify.minimise import Minimised
from verify.saved import PROGRAM, SavedError

MOST_CULPRITS = 100


def run(
    words: Sequence[str],
    *,
    state: str,
    fresh: bool,
    exclude: Sequence[str],
    culprits: str,
    timeout_s: float | None,
    minimise_s: float,
    json_path: str | None,
    once: bool,
) -> int:
    """Bisect what ``words`` name. 1: a culprit was found; 0: never bad; 3: undecided."""
    probe = _probe(list(words[1:] if words[:1] == ["--"] else words), timeout_s)
    wanted = _count(culprits)
    for name in exclude:
        _known(name)
    if once:
        return _once(probe)
    with _output(json_path) as write_json:
        tell: Callable[[str], None] = lambda line: print(line, file=sys.stderr if json_path == "-" else sys.stdout, flush=True)  # noqa: E731
        try:
            outcome = bisect(probe, state=state, fresh=fresh, exclude=exclude, culprits=wanted, timeout_s=timeout_s, minimise_s=minimise_s, tell=tell)
        except (ValueError, OSError) as error:
            raise UsageError(f"bisect: {error}") from None
        for line in summary(outcome, probe):
            tell(line)
        write_json(as_data(outcome, probe))
    return outcome.exit_code


def _count(text: str) -> int:
    if text == "all":
        return MOST_CULPRITS
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CULPRITS:
        raise UsageError(f"--culprits {text}: accepted is a whole number from 1 to {MOST_CULPRITS}, or all")
    return int(text)


def _known(name: str) -> None:
    """A pattern of the user's own plan need not be registered; one that looks like a slip is refused."""
    try:
        lookup(name)
    except ValueError as error:
        if "nearest" in str(error):
            raise UsageError(f"--exclude {name}: {error}") from None


def _probe(words: list[str], timeout_s: float | None) -> Probe:
    """What is bisected: the folder of a graph, a Python file, MODULE:FUNCTION, or any command."""
    if not words:
        raise UsageError("bisect: nothing to run; accepted are a script, a command, MODULE:FUNCTION, and the folder of a saved graph")
    first = words[0]
    if Path(first).is_dir():
        if not (Path(first) / PROGRAM).is_file():
            raise UsageError(f"bisect: the folder {first} holds no {PROGRAM}; accepted is one that a bisection saved, or one of the corpus")
        if words[1:]:
            raise UsageError(f"bisect: {' '.join(words[1:])} stands behind the folder {first}, which takes nothing; options stand in front of it")
        return _checked(first)
    if first.endswith(".py"):
        if not Path(first).is_file():
            raise UsageError(f"bisect: there is no file {first}")
        return CommandProbe((sys.executable, *words), timeout_s)
    if ":" in first and len(words) == 1 and shutil.which(first) is None:
        return CallableProbe(factory_of(first), first)
    if shutil.which(first) is None:
        raise UsageError(f"bisect: there is no command {first}; accepted are a script, a command, MODULE:FUNCTION, and the folder of a saved graph")
    return CommandProbe(tuple(words), timeout_s)


def _checked(folder: str) -> GraphProbe:
    try:
        found = probe_of(folder)
    except SavedError as error:
        raise UsageError(f"bisect: {error}") from None
    assert isinstance(found, GraphProbe)
    return found


def _once(probe: Probe) -> int:
    """One run under the limit of the environment, as bisect makes it. 1: bad; 0: good; 3: it cannot tell."""
    try:
        limit = Limit.parse(os.environ.get(ENVIRONMENT, ""))
    except ValueError as error:
        raise UsageError(f"environment variable {ENVIRONMENT}: {error}") from None
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "out"
        try:
            answer = probe.run(limit, log)
        except CannotTellError as error:
            print(f"cannot tell: {error}")
            return 3
    print(f"{'bad' if answer.bad else 'good'}: {answer.detail}; {len(answer.applied)} rewrites")
    return 1 if answer.bad else 0


# ------------------------------------------------------------------------------------------------------------ the result


def summary(outcome: Outcome, probe: Probe) -> list[str]:
    """The result in lines."""
    found = outcome.bisection
    lines: list[str] = []
    for number, culprit in enumerate(found.culprits, 1):
        lines += ["", *_of_culprit(number, culprit, probe)]
        diverged = outcome.divergences[number - 1]
        lines += [f"  {diverged}"] if diverged else []
        lines += _of_graph(outcome.minimised[number - 1], outcome.folders[number - 1])
    lines += ["", *outcome.problems]
    return [*lines, f"{found.status}: {found.message}; {found.runs} runs"]


def _of_culprit(number: int, culprit: Culprit, probe: Probe) -> list[str]:
    guilty = culprit.guilty
    rewrite = guilty.rewrite
    lines = [f"culprit {number}: {guilty.pattern}, rewrite {guilty.number} of {culprit.of} (number {rewrite.number} of graph {guilty.graph})"]
    lines += [f"  for {', '.join(rewrite.outputs[:5])}{', ...' if len(rewrite.outputs) > 5 else ''}", *(f"  at {line}" for line in rewrite.lines[:3])]
    for other in culprit.applied[:-1]:
        lines.append(
            f"  does harm only with rewrite {other.number}, {other.pattern} for {', '.join(other.rewrite.outputs[:3])} (graph {other.graph})"
        )
    lines += [f"  good: {probe.by_hand(culprit.good)}", f"  bad:  {probe.by_hand(culprit.bad)}"]
    lines.append(f"  without it: OPTIMUS_PATTERNS=-{guilty.pattern}, or options={{'disable': ['{guilty.pattern}']}}")
    lines.append(f"  named in {culprit.named_in} runs, {culprit.runs} with those that confirm it")
    return lines


def _of_graph(found: Minimised | None, folder: Path | None) -> list[str]:
    if found is None or folder is None:
        return []
    inputs = "random inputs" if found.random else "the real inputs, for random ones do not show it"
    return [
        f"  cut down to {found.sample.size} operators, with {inputs}: {found.fault.line}",
        f"  exits with 1 while the fault lives: python {folder / 'replay.py'}",
    ]


def as_data(outcome: Outcome, probe: Probe) -> dict[str, Any]:
    """The result as plain data."""
    from verify.bisection.result import described

    found = outcome.bisection
    culprits = [
        described(c, probe.by_hand) | {"folder": str(folder) if folder else None, "operators": small.sample.size if small else None}
        for c, folder, small in zip(found.culprits, outcome.folders, outcome.minimised, strict=True)
    ]
    return {"status": found.status, "message": found.message, "runs": found.runs, "problems": outcome.problems, "culprits": culprits}
