"""``optimus-verify mutants``: judge mutants of patterns and rules, each in a process of its own, and say which witness saw which."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, defaultdict, deque
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
from verify.mutant import DIED, TIME, UNFIT, WITNESSES, Killed, Mutant, control
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
    """Judge mutants, ``workers`` at a time, each in a process of its own that is ended where it takes too long.

    ``until``: when to begin no more of them, by ``time.monotonic``.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    waiting = _Waiting(tasks)
    running: dict[Any, _Running] = {}
    while True:
        while len(running) < workers and time.monotonic() < until and (taken := waiting.take([r.group for r in running.values()])) is not None:
            task, alone = taken
            ours, theirs = context.Pipe()
            wanted = (str(task.mutant.file), task.mutant.source)
            process = context.Process(
                target=judge_in_process, args=(theirs, task.sources, task.fuzz_s, every, wanted if alone else None), daemon=True
            )
            with _no_main():
                process.start()
            theirs.close()
            running[ours] = _Running(ours, process, task, alone)
            if not alone:
                ours.send(wanted)
        if not running:
            return
        for pipe in wait(list(running), 0.5):
            worker = running[pipe]
            said = worker.hear()
            if said is None:
                continue
            task = worker.task
            if said == UNFIT:
                waiting.alone.append(task)
            else:
                yield task, Killed(task.mutant, *said)
            following = waiting.more(worker.group) if worker.serves and time.monotonic() < until else None
            if following is None:
                running.pop(pipe).end()
            else:
                worker.give(following)
        for pipe in [p for p, r in running.items() if time.monotonic() - r.since > LONGEST_S + r.task.fuzz_s]:
            worker = running.pop(pipe)
            worker.kill()
            yield worker.task, Killed(worker.task.mutant, *worker.failed(f"no end within {LONGEST_S + worker.task.fuzz_s:.0f} s"))


Group = tuple[tuple[str, ...], float]
SHARE = 4
"""For how many mutants it pays to begin another process that captures the same cases."""


class _Waiting:
    """Tasks that nobody has begun, by the patterns they are about, and those that need a process of their own from the start."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.groups: dict[Group, deque[Task]] = defaultdict(deque)
        self.alone: deque[Task] = deque()
        for task in tasks:
            self.groups[task.sources, task.fuzz_s].append(task)

    def take(self, busy: Sequence[Group | None]) -> tuple[Task, bool] | None:
        """What another process begins with, and whether it is for that alone. ``busy``: the groups of those that run."""
        if self.alone:
            return self.alone.popleft(), True
        left = [(group, len(queue), busy.count(group)) for group, queue in self.groups.items() if queue]
        if not left:
            return None
        first = next((group for group, size, at in left if not at or size >= SHARE * at), None)
        return self.groups[first or max(left, key=lambda g: g[1] / g[2])[0]].popleft(), False

    def more(self, group: Group | None) -> Task | None:
        """Another one of a group."""
        queue = self.groups[group] if group is not None else None
        return queue.popleft() if queue else None


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
    """A process that judges a mutant, and what it said last. ``alone``: it ends with that one."""

    pipe: Connection
    process: Any
    task: Task
    alone: bool
    start: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)
    doing: str = "its start"
    fork: int | None = None
    serves: bool = True

    @property
    def group(self) -> Group | None:
        """The tasks it can go on with."""
        return None if self.alone else (self.task.sources, self.task.fuzz_s)

    def give(self, task: Task) -> None:
        """Have it go on with another mutant."""
        self.task, self.doing, self.fork = task, "its start", None
        self.start = self.since = time.monotonic()
        self.pipe.send((str(task.mutant.file), task.mutant.source))

    def hear(self) -> Any:
        """What became of the mutant: what objected and seconds, or that it is unfit; None if the process goes on."""
        try:
            said = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.serves = False
            return self.failed("its process died")
        if said == DIED:
            return self.failed("its process died")
        if said != UNFIT and isinstance(said[0], int):
            self.fork, self.doing = said
            self.since = time.monotonic()
            return None
        return said

    def failed(self, what: str) -> tuple[tuple[tuple[str, str], ...], float]:
        """That it came to no end."""
        return ((TIME, f"{what} in {self.doing}"),), time.monotonic() - self.start

    def end(self) -> None:
        """Have it end by itself."""
        if self.serves and not self.alone:
            self.pipe.send(None)
        self.process.join()
        self.pipe.close()

    def kill(self) -> None:
        """End it, and what it has forked."""
        self.process.kill()
        self.process.join()
        if self.fork is not None and not self.alone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.fork, signal.SIGKILL)
        self.pipe.close()


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
