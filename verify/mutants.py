"""``optimus-verify mutants``: judge mutants of patterns and rules, each in a process of its own, and say which witness saw which."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.table import Table

from optimus.pattern import Pattern
from optimus.plan import provable
from optimus_verify import judge_in_process
from verify.branches import sources
from verify.cli import UsageError
from verify.hunting import hunted
from verify.mutant import TIME, WITNESSES, Killed, Mutant, control
from verify.mutation import mutants, sample
from verify.rules_loading import load

LONGEST_S = 120.0
"""Seconds that a witness may take over a mutant of one pattern besides its fuzzing; one that takes more does not come to an end."""

HEAVY = ["optimus_verify", "torch", "hypothesis", "z3", "coverage", "torch._dynamo", "torch._dynamo.backends.debugging", "torch._inductor.utils"]
"""What every process that judges a mutant needs and no mutant changes, imported once for all of them."""


@dataclass(frozen=True)
class Task:
    """A mutant, and the patterns that may see it, each a name or ``FILE:NAME``."""

    sources: tuple[str, ...]
    mutant: Mutant
    fuzz_s: float
    """Seconds for fuzzing each pattern."""


class ControlError(Exception):
    """A witness objects to what was not changed, so that what it says of mutants means nothing. The message says which and to what."""


def run(
    names: Sequence[str] | None,
    rules: Sequence[str],
    folders: Sequence[str],
    *,
    most: int,
    seed: int,
    fuzz_s: float,
    workers: int,
    every: bool,
    floor: float,
    json_path: str | None,
) -> int:
    """Judge mutants of patterns by name (empty: all; None: none) and of rules.

    1 if a score is below ``floor``, 3 if a witness objects to what was not changed, else 0.
    """
    try:
        named: list[Pattern] = [] if names is None else [hunted(n) for n in names] or provable()
    except ValueError as error:
        raise UsageError(str(error)) from None
    chosen = [(p.name, p) for p in named] + [(r.source, r.pattern) for r in load(rules, folders)]
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    found: dict[str, list[Killed]] = {}
    for source, pattern in chosen:
        drawn = sample(mutants(pattern), most, seed)
        try:
            check_control(next(judged([Task((source,), control(sources(pattern)[0]), fuzz_s)], 1, True))[1])
        except ControlError as error:
            print(f"optimus-verify mutants: {error}", file=sys.stderr)
            return 3
        found[source] = []
        for _, killed in judged([Task((source,), mutant, fuzz_s) for mutant in drawn], workers, every):
            found[source].append(killed)
            who = ", ".join(w for w, _ in killed.by) or "SURVIVED"
            where = f"{killed.mutant.file.name}:{killed.mutant.line}"
            console.print(f"{source}: {len(found[source])} of {len(drawn)}: {where} {killed.mutant.operator}: {who}", markup=False)
    _show(console, found)
    if json_path is not None:
        _write(json_path, found)
    return 1 if any(score(k) < floor for k in found.values()) else 0


def check_control(judgement: Killed) -> None:
    """Raise :class:`ControlError` unless a mutant that changes nothing survived."""
    if judgement.by:
        said = "; ".join(f"{witness}: {text}" for witness, text in judgement.by)
        raise ControlError(f"{judgement.mutant.file.name} is objected to as it stands, so no score would mean anything: {said}")


def score(found: Sequence[Killed]) -> float:
    """The part of the mutants that a witness saw; 1 where there are none."""
    return sum(bool(k.by) for k in found) / len(found) if found else 1.0


def judged(tasks: Iterable[Task], workers: int, every: bool, until: float = math.inf) -> Iterator[tuple[Task, Killed]]:
    """Judge mutants, ``workers`` at a time, each in a fresh process that is ended where it takes too long.

    ``until``: when to begin no more of them, by ``time.monotonic``.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    waiting = iter(tasks)
    running: dict[Any, _Running] = {}
    while True:
        while len(running) < workers and time.monotonic() < until and (task := next(waiting, None)) is not None:
            ours, theirs = context.Pipe()
            plain = (task.sources, str(task.mutant.file), task.mutant.operator, task.mutant.line, task.mutant.source)
            process = context.Process(target=judge_in_process, args=(theirs, *plain, task.fuzz_s, every), daemon=True)
            with _no_main():
                process.start()
            theirs.close()
            running[ours] = _Running(process, task)
        if not running:
            return
        for pipe in wait(list(running), 0.5):
            judgement = running[pipe].heard(pipe)  # type: ignore[arg-type]
            if judgement is not None:
                ended = running.pop(pipe)
                ended.process.join()
                yield ended.task, judgement
        for pipe in [p for p, r in running.items() if time.monotonic() - r.since > LONGEST_S + r.task.fuzz_s]:
            ended = running.pop(pipe)
            yield ended.task, ended.killed()


@contextlib.contextmanager
def _no_main() -> Iterator[None]:
    """Processes that are started do not import the main module of this one, which may import what a mutant changes."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@dataclass
class _Running:
    """A process that judges a mutant, and what it said last."""

    process: Any
    task: Task
    start: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)
    doing: str = "its start"

    def heard(self, pipe: Connection) -> Killed | None:
        """What became of the mutant; None if the process goes on."""
        try:
            said = pipe.recv()
        except EOFError:
            return self._died("its process died")
        if isinstance(said, str):
            self.doing, self.since = said, time.monotonic()
            return None
        by, seconds = said
        return Killed(self.task.mutant, by, seconds)

    def killed(self) -> Killed:
        """End the process."""
        self.process.kill()
        self.process.join()
        return self._died(f"no end within {LONGEST_S + self.task.fuzz_s:.0f} s")

    def _died(self, what: str) -> Killed:
        return Killed(self.task.mutant, ((TIME, f"{what} in {self.doing}"),), time.monotonic() - self.start)


def _show(console: Console, found: dict[str, list[Killed]]) -> None:
    table = Table()
    for column in ("subject", "mutants", "score", *WITNESSES, TIME, "survived"):
        table.add_column(column, overflow="fold")
    for source, killed in found.items():
        by = Counter(w for k in killed for w, _ in k.by)
        survived = sum(not k.by for k in killed)
        table.add_row(source, str(len(killed)), f"{score(killed):.0%}", *(str(by[w]) for w in (*WITNESSES, TIME)), str(survived))
    console.print(table)
    for source, killed in found.items():
        for k in killed:
            if not k.by:
                console.print(f"\nsurvived, {source}\n{k.mutant.diff()}", markup=False)


def _write(path: str, found: dict[str, list[Killed]]) -> None:
    plain: dict[str, Any] = {source: {"score": score(killed), "mutants": [_plain(k) for k in killed]} for source, killed in found.items()}
    try:
        Path(path).write_text(json.dumps(plain, indent=1))
    except OSError as error:
        raise UsageError(f"--json {path}: cannot be written ({error.strerror or error})") from None


def _plain(killed: Killed) -> dict[str, Any]:
    mutant = killed.mutant
    return {
        "file": mutant.file.name,
        "line": mutant.line,
        "operator": mutant.operator,
        "killed by": dict(killed.by),
        "seconds": round(killed.seconds, 2),
        "diff": mutant.diff(),
    }
