"""Campaigns: hunts on many subjects at once, for hours, in processes or on a Ray cluster, that go on where they stopped.

The work is cut into units of :data:`UNIT` programs of one subject, each drawn from a seed of its own. What is done stands in a
folder: ``done.jsonl`` has a line for each finished unit, ``current/`` a file for each unit begun with one character for
each program judged. A unit whose worker was killed is given to another one, which draws the same programs and leaves those
aside that were judged before, and the one that was being judged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from verify.cli import UsageError
from verify.findings import FOLDER, Saved

UNIT = 480
SEEDS = 8
"""Batches, and so seeds, of a unit."""

DEADLY = 3
"""So many workers that die in a row, at one program each, are laid at the subject's door."""

FIRED, QUIET, UNCAPTURED, LOST = "+", ".", "u", "x"
"""What the characters of a unit mean: rewritten, not rewritten, not captured, lost with its worker."""


@dataclass(frozen=True)
class Task:
    """A unit to be done. ``source``: a pattern's name or ``FILE:NAME``. ``skip``: programs judged before."""

    source: str
    unit: int
    seed: int
    skip: int
    seconds: float
    limit_s: float

    @property
    def key(self) -> str:
        """A name for its file."""
        safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in self.source)
        return f"{safe}@{self.unit}"


@dataclass(frozen=True)
class Result:
    """What became of a unit: counts over all its programs, and the find. ``fault``: what is wrong with the rule itself."""

    source: str
    unit: int
    tried: int
    fired: int
    uncaptured: int
    lost: int
    seconds: float
    finding: dict[str, str] | None = None
    differences: tuple[str, ...] = ()
    fault: str = ""


def work(task: Task, tick: Callable[[str], None]) -> dict[str, Any]:
    """Hunt one unit in this process. ``tick`` is given a character after each program. Returns a find as plain data, if any."""
    from hypothesis.errors import Flaky

    from verify.findings import as_text
    from verify.fuzzing import FuzzReport
    from verify.hunting import hunt
    from verify.replay import subject_of
    from verify.rules import RuleSubject

    subject = subject_of(task.source)
    if isinstance(subject, RuleSubject):
        subject.watch.limit_s = task.limit_s
    seen = {"fired": 0, "uncaptured": 0}

    def judged(report: FuzzReport) -> None:
        now = {"fired": report.fired, "uncaptured": report.uncaptured}
        tick(FIRED if now["fired"] > seen["fired"] else UNCAPTURED if now["uncaptured"] > seen["uncaptured"] else QUIET)
        seen.update(now)

    try:
        report = hunt(subject, seconds=task.seconds, seed_number=task.seed, max_examples=UNIT, on_example=judged, skip=task.skip)
    except Flaky as error:
        return {"fault": f"flaky: wrong on a program, and not on the same program again ({str(error).splitlines()[0]})"}
    if report.finding is None:
        return {"complete": report.tried + report.skipped >= UNIT}
    saved = as_text(report.finding, subject.name, task.source if ":" in task.source else "")
    return {"complete": True, "finding": asdict(saved), "differences": list(report.finding.differences)}


class Workers(Protocol):
    """Where units are done."""

    def free(self) -> int:
        """How many workers wait for a unit. Workers that died are replaced first."""

    def start(self, task: Task) -> None:
        """Give a unit to a free worker."""

    def finished(self, wait_s: float) -> list[tuple[Task, dict[str, Any] | None]]:
        """The units that came to an end within ``wait_s``: what :func:`work` returned, or None where the worker died."""

    def close(self) -> None:
        """Stop all workers."""


# ------------------------------------------------------------------------------------------------------------- the state


@dataclass
class State:
    """What a campaign knows, in a folder. Raises :class:`verify.cli.UsageError` for a folder of something else."""

    root: Path
    seed: int
    results: list[Result] = field(default_factory=list)

    @classmethod
    def at(cls, root: Path, seed: int) -> State:
        """The state in ``root``, a new one if it is not there."""
        head = root / "campaign.json"
        try:
            (root / "current").mkdir(parents=True, exist_ok=True)
            if not head.exists():
                others = [p.name for p in root.iterdir() if p.name not in ("current", "done.jsonl")]
                if others:
                    raise UsageError(f"--state {root}: holds {others[0]}, and is no campaign; accepted is a folder of a campaign, or a new one")
                head.write_text(json.dumps({"seed": seed, "unit": UNIT}) + "\n")
            known = json.loads(head.read_text())
        except OSError as error:
            raise UsageError(f"--state {root}: cannot be written ({error.strerror or error}); accepted is a folder") from None
        except ValueError:
            raise UsageError(f"--state {root}: campaign.json is damaged; accepted is a folder of a campaign, or a new one") from None
        if known.get("unit") != UNIT or known.get("seed") != seed:
            raise UsageError(f"--state {root}: is a campaign of seed {known.get('seed')}; give --seed {known.get('seed')}, or another folder")
        return cls(root, seed, list(_lines(root / "done.jsonl")))

    def begun(self) -> dict[str, str]:
        """The units that were begun and not finished: their keys, and what is known of their programs."""
        return {p.name: p.read_text() for p in sorted((self.root / "current").iterdir())}

    def tick(self, key: str, characters: str) -> None:
        """Note programs of a unit as judged."""
        with (self.root / "current" / key).open("a") as out:
            out.write(characters)

    def known(self, key: str) -> str:
        """What is known of the programs of a unit."""
        file = self.root / "current" / key
        return file.read_text() if file.exists() else ""

    def finish(self, task: Task, said: dict[str, Any]) -> Result:
        """A unit that came to an end."""
        seen = self.known(task.key)
        result = Result(
            task.source, task.unit, len(seen) + ("finding" in said), seen.count(FIRED) + ("finding" in said), seen.count(UNCAPTURED),
            seen.count(LOST), 0.0, said.get("finding"), tuple(said.get("differences", ())), said.get("fault", ""),
        )  # fmt: skip
        with (self.root / "done.jsonl").open("a") as out:
            out.write(json.dumps(asdict(result)) + "\n")
        (self.root / "current" / task.key).unlink(missing_ok=True)
        self.results.append(result)
        return result


def _lines(file: Path) -> Iterator[Result]:
    """The results in a file. A last line that was cut short is left out: its unit is done again."""
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found = json.loads(line)
            found["differences"] = tuple(found["differences"])
            yield Result(**found)
        except (ValueError, TypeError, KeyError):
            continue


# ---------------------------------------------------------------------------------------------------------- the campaign


@dataclass
class Campaign:
    """Units handed out in turn, until the time is up or nothing is left to hunt."""

    state: State
    sources: Sequence[str]
    workers: Workers
    limit_s: float
    root: Path = FOLDER
    killed: int = 0
    running: dict[str, Task] = field(default_factory=dict)

    def run(self, seconds: float, tell: Callable[[Campaign], None] | None = None) -> None:
        """Hunt for about ``seconds``. A subject on which something was found is left alone from then on."""
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and (self.running or self.open()):
                while time.monotonic() < deadline and self.workers.free() and (task := self._next(deadline)) is not None:
                    self.running[task.key] = task
                    self.workers.start(task)
                for task, said in self.workers.finished(0.2):
                    self._ended(task, said)
                if tell is not None:
                    tell(self)
        finally:
            self.workers.close()

    def open(self) -> list[str]:
        """The subjects on which nothing was found yet."""
        shut = {r.source for r in self.state.results if r.finding is not None or r.fault}
        return [s for s in self.sources if s not in shut]

    def _next(self, deadline: float) -> Task | None:
        """The subject with the fewest units; units that were begun come first."""
        left = max(deadline - time.monotonic(), 1.0)
        begun = self.state.begun()
        candidates = []
        for source in self.open():
            numbers = {r.unit for r in self.state.results if r.source == source} | {t.unit for t in self.running.values() if t.source == source}
            unit = next(k for k in range(len(numbers) + 1) if k not in numbers)
            task = Task(source, unit, self.state.seed + SEEDS * unit, 0, left, self.limit_s)
            candidates.append((task.key not in begun, len(numbers), task))
        if not candidates:
            return None
        task = min(candidates, key=lambda c: c[:2])[2]
        return Task(task.source, task.unit, task.seed, len(begun.get(task.key, "")), left, self.limit_s)

    def _ended(self, task: Task, said: dict[str, Any] | None) -> None:
        self.running.pop(task.key, None)
        if said is None:
            self.killed += 1
            self.state.tick(task.key, LOST)
            if self.state.known(task.key).endswith(DEADLY * LOST):
                self.state.finish(task, {"fault": f"killed {DEADLY} workers in a row, at programs that follow one another"})
            return
        if said.get("complete") or said.get("fault"):
            result = self.state.finish(task, said)
            if result.finding is not None:
                Saved(**result.finding).write(self.root)

    def counts(self) -> dict[str, Result]:
        """What is known of each subject, over all runs of the campaign."""
        return {source: self._count(source) for source in self.sources}

    def _count(self, source: str) -> Result:
        mine = [r for r in self.state.results if r.source == source]
        key = Task(source, 0, 0, 0, 0, 0).key.rpartition("@")[0]
        begun = "".join(seen for name, seen in self.state.begun().items() if name.rpartition("@")[0] == key)
        found = next((r for r in mine if r.finding is not None or r.fault), None)
        return Result(
            source, len(mine), sum(r.tried for r in mine) + len(begun), sum(r.fired for r in mine) + begun.count(FIRED),
            sum(r.uncaptured for r in mine) + begun.count(UNCAPTURED), sum(r.lost for r in mine) + begun.count(LOST), 0.0,
            found.finding if found else None, found.differences if found else (), found.fault if found else "",
        )  # fmt: skip
