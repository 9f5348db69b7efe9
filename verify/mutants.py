"""``optimus-verify mutants``: judge mutants of patterns and rules, each in a process of its own, and say which witness saw which."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from optimus.pattern import Pattern
from optimus.plan import provable
from optimus_verify import judge_in_process
from verify.cli import UsageError
from verify.hunting import hunted
from verify.mutation import TIME, WITNESSES, Killed, Mutant, judge_mutant, mutants, sample
from verify.rules_loading import load

LONGEST_S = 240.0
"""Seconds that one mutant may take with all witnesses besides its fuzzing; one that takes more does not come to an end."""


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
    """Judge mutants of patterns by name (empty: all; None: none) and of rules. 1 if a score is below ``floor``, else 0."""
    try:
        named: list[Pattern] = [] if names is None else [hunted(n) for n in names] or provable()
    except ValueError as error:
        raise UsageError(str(error)) from None
    chosen = [(p.name, p) for p in named] + [(r.source, r.pattern) for r in load(rules, folders)]
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    found: dict[str, list[Killed]] = {}
    for source, pattern in chosen:
        drawn = sample(mutants(pattern), most, seed)
        found[source] = []
        for killed in judged(source, drawn, fuzz_s, workers, every):
            found[source].append(killed)
            who = ", ".join(w for w, _ in killed.by) or "SURVIVED"
            where = f"{killed.mutant.file.name}:{killed.mutant.line}"
            console.print(f"{source}: {len(found[source])} of {len(drawn)}: {where} {killed.mutant.operator}: {who}", markup=False)
    _show(console, found)
    if json_path is not None:
        _write(json_path, found)
    return 1 if any(score(k) < floor for k in found.values()) else 0


def score(found: Sequence[Killed]) -> float:
    """The part of the mutants that a witness saw; 1 where there are none."""
    return sum(bool(k.by) for k in found) / len(found) if found else 1.0


def judged(source: str, drawn: Sequence[Mutant], fuzz_s: float, workers: int, every: bool) -> Iterator[Killed]:
    """Judge mutants, ``workers`` at a time, each in a fresh process that is ended where it takes too long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["optimus_verify", "torch"])
    waiting = list(reversed(drawn))
    running: dict[Any, tuple[Any, Mutant, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            mutant = waiting.pop()
            ours, theirs = context.Pipe()
            process = context.Process(target=judge_in_process, args=(theirs, source, mutant, fuzz_s, every), daemon=True)
            process.start()
            theirs.close()
            running[ours] = (process, mutant, time.monotonic())
        for pipe in wait(list(running), 0.5):
            process, mutant, start = running.pop(pipe)
            yield _said(pipe, mutant, start)  # type: ignore[arg-type]
            process.join()
        for pipe, (process, mutant, start) in list(running.items()):
            if time.monotonic() - start > LONGEST_S + fuzz_s:
                process.kill()
                process.join()
                del running[pipe]
                yield Killed(mutant, ((TIME, f"no end within {LONGEST_S + fuzz_s:.0f} s"),), time.monotonic() - start)


def _said(pipe: Connection, mutant: Mutant, start: float) -> Killed:
    try:
        found: Killed = pipe.recv()
    except EOFError:
        return Killed(mutant, ((TIME, "its process died"),), time.monotonic() - start)
    return found


def send(pipe: Connection, source: str, mutant: Mutant, fuzz_s: float, every: bool) -> None:
    """Judge one mutant in this process and send what came out."""
    import torch

    torch.set_num_threads(1)
    pipe.send(judge_mutant(source, mutant, fuzz_s, every))


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
