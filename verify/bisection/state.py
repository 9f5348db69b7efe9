"""What a bisection has found out so far, in one folder: killed at any time, the next call goes on from there.
One that has come to its end is not gone on with.

Nothing reads this folder but the bisection that is told of it; an ordinary run never does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SUBJECT, RUNS, OUTPUT, LOCK, DONE = "subject.json", "runs.jsonl", "runs", "lock", "done"


class StateError(ValueError):
    """A folder that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Ran:
    """One run: under which limit, for the how-manieth time, and whether it was bad. ``applied``: of a run without a limit, as data."""

    limit: str
    attempt: int
    bad: bool
    detail: str
    applied: tuple[dict[str, Any], ...]
    seconds: float


class State:
    """The folder. ``subject``: what is bisected, as plain data; a folder of another subject is refused.

    Raises :class:`StateError` for a folder that holds something else, or is in use.
    """

    def __init__(self, folder: Path, subject: dict[str, Any], *, fresh: bool = False) -> None:
        if ";" in str(folder):
            raise StateError(f"the folder {folder} has a semicolon in its name; accepted is a name without")
        self.folder = folder.resolve()
        self.subject = subject
        self.fresh = fresh
        self.runs: dict[tuple[str, int], Ran] = {}
        self.resumed = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[State]:
        """Inside, the folder belongs to this process."""
        file = self.folder / SUBJECT
        if self.folder.exists() and (not self.folder.is_dir() or (any(self.folder.iterdir()) and not file.exists())):
            raise StateError(f"{self.folder} is no folder of a bisection; accepted is one, an empty folder, or a new name")
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"{self.folder} is in use by another bisection; accepted is another folder") from None
            if self.fresh or (self.folder / DONE).exists():
                self._clear()
            self._begin(file)
            yield self

    def _clear(self) -> None:
        for found in self.folder.iterdir():
            if found.name == OUTPUT or found.name.startswith("culprit-"):
                shutil.rmtree(found)
            elif found.name in (SUBJECT, RUNS, DONE):
                found.unlink()

    def _begin(self, file: Path) -> None:
        (self.folder / OUTPUT).mkdir(exist_ok=True)
        if file.exists():
            known = json.loads(file.read_text())
            if known != json.loads(json.dumps(self.subject)):
                changed = ", ".join(sorted(k for k in {*known, *self.subject} if known.get(k) != self.subject.get(k)))
                raise StateError(f"{self.folder} belongs to another bisection (other {changed}); start anew with --fresh, or give another folder")
        else:
            file.write_text(json.dumps(self.subject, indent=1))
        path = self.folder / RUNS
        whole = 0
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if not line.endswith("\n"):  # the run before was killed while it wrote
                break
            data = json.loads(line)
            ran = Ran(**{**data, "applied": tuple(data["applied"])})
            self.runs[ran.limit, ran.attempt] = ran
            whole += len(line.encode())
        if path.exists():
            with path.open("rb+") as cut:
                cut.truncate(whole)
        self.resumed = len(self.runs)

    def known(self, limit: str, attempt: int) -> Ran | None:
        """What is known of a run, or None."""
        return self.runs.get((limit, attempt))

    def add(self, ran: Ran) -> None:
        """Keep a run."""
        self.runs[ran.limit, ran.attempt] = ran
        with (self.folder / RUNS).open("a") as file:
            file.write(json.dumps(asdict(ran)) + "\n")

    def finish(self) -> None:
        """The bisection has come to its end: the next one in this folder starts anew, for the subject may be another by then."""
        (self.folder / DONE).touch()

    def path(self, name: str) -> Path:
        """A file for what a run leaves."""
        return self.folder / OUTPUT / name
