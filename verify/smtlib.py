"""Queries to the solvers as SMT-LIB 2 files, one a file, for whoever wants to ask a solver of their own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

LOGIC = "ALL"


@dataclass(frozen=True)
class Query:
    """One question to the solvers: that no model of the premises and lemmas breaks a goal.

    ``part``: what it is asked for, such as the name of a case. ``goals``: what is to follow, in words. ``expected``: what z3
    answered, ``unsat`` where the goals follow. ``text``: the query as the solver prints it, without a logic.
    """

    part: str
    goals: tuple[str, ...]
    expected: str
    text: str


_lists: ContextVar[tuple[list[Query], ...]] = ContextVar("optimus_queries", default=())
_part: ContextVar[str] = ContextVar("optimus_part", default="query")


@contextlib.contextmanager
def recording() -> Iterator[list[Query]]:
    """Inside, every query that is answered goes into the list, in order. Results from a cache ask none, so that it is not read."""
    found: list[Query] = []
    token = _lists.set((*_lists.get(), found))
    try:
        yield found
    finally:
        _lists.reset(token)


@contextlib.contextmanager
def asked_for(name: str) -> Iterator[None]:
    """Queries inside are asked for ``name``."""
    token = _part.set(name)
    try:
        yield
    finally:
        _part.reset(token)


@contextlib.contextmanager
def attempt() -> Iterator[list[Query]]:
    """Queries inside go into the list alone, for :func:`pass_on` if the attempt is what a result rests on."""
    found: list[Query] = []
    token = _lists.set((found,))
    try:
        yield found
    finally:
        _lists.reset(token)


def pass_on(queries: Sequence[Query]) -> None:
    """Tell those who are recording of queries that were set aside."""
    for found in _lists.get():
        found += queries


def asked_part() -> str:
    """What queries are asked for now."""
    return _part.get()


def is_recording() -> bool:
    """Whether somebody wants the queries."""
    return bool(_lists.get())


def record(goals: Sequence[str], expected: str, text: str) -> None:
    """Tell those who are recording of a query."""
    for found in _lists.get():
        found.append(Query(_part.get(), tuple(goals), expected, text))


class ExportError(ValueError):
    """A folder that cannot take queries. The message says which, why, and what is accepted."""


@dataclass(frozen=True)
class Export:
    """A folder of queries, ``NAME/PART/NUMBER.smt2``. What belongs to one name appears whole or not at all."""

    root: Path
    versions: Mapping[str, str]

    def check(self, names: Sequence[str]) -> None:
        """Make the folder, and see that what belongs to ``names`` can be written. Raises :class:`ExportError` if not."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(tempfile.mkdtemp(dir=self.root, prefix=".probe."))
        except OSError as error:
            raise ExportError(f"{self.root}: cannot be written ({error.strerror or error}); accepted is a folder") from error
        for target in (self.root / _file_name(n) for n in names):
            stranger = _stranger(target)
            if stranger is not None:
                raise ExportError(f"{stranger} is no query; accepted for {target} is nothing, or a folder of an earlier export, which is replaced")

    def write(self, name: str, queries: Sequence[Query]) -> list[Path]:
        """Write the queries of ``name`` in place of those of an earlier export; their files. Raises :class:`ExportError`."""
        target = self.root / _file_name(name)
        self.check([name])
        try:
            return self._write(target, name, queries)
        except OSError as error:
            raise ExportError(f"{target}: cannot be written ({error.strerror or error})") from error

    def _write(self, target: Path, name: str, queries: Sequence[Query]) -> list[Path]:
        places = _places(queries)
        made = Path(tempfile.mkdtemp(dir=self.root, prefix=f".{target.name}."))
        try:
            for query, place in zip(queries, places, strict=True):
                (made / place).parent.mkdir(exist_ok=True)
                (made / place).write_text(script(name, query, int(place.stem), self.versions))
            made.chmod(0o777 & ~_umask())
            self._put(made, target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return [target / place for place in places]

    def _put(self, made: Path, target: Path) -> None:
        if not target.exists():
            made.rename(target)
            return
        old = Path(tempfile.mkdtemp(dir=self.root, prefix=f".{target.name}."))
        try:
            target.rename(old / "old")
            made.rename(target)
        finally:
            shutil.rmtree(old, ignore_errors=True)


def script(name: str, query: Query, number: int, versions: Mapping[str, str]) -> str:
    """A query as a script of its own, for any solver of SMT-LIB 2.6."""
    meaning = {
        "unsat": "the goals follow from the premises",
        "sat": "some sizes and elements break a goal; the first solver has such a model",
        "unknown": "the first solver gave up, or two disagree",
    }
    said = [
        f"rewrite: {name}",
        f"part: {query.part}",
        f"query: {number}",
        *(f"goal: {g}" for g in query.goals),
        f"expected: {query.expected}, that is, {meaning[query.expected]}",
        "The premises come first, then the goals, negated, then lemmas: two sums or two results of one unknown function are equal,",
        "or their bodies differ somewhere. T: elements of tensors, of any dtype. Ints: sizes, indices.",
        "versions: " + ", ".join(f"{package} {version}" for package, version in versions.items()),
    ]
    lines = [f"; {' '.join(line.split())}" for line in said]
    body = [line for line in query.text.strip().splitlines() if not line.startswith(";") and not line.startswith("(set-info :status")]
    return "\n".join([*lines, f"(set-logic {LOGIC})", f"(set-info :status {query.expected})", _renumbered("\n".join(body)), ""])


def _renumbered(text: str) -> str:
    """The same with local names numbered from 1; the solver's numbers change from run to run."""
    numbers: dict[str, str] = {}
    return re.sub(r"(?<=[?$]x)\d+\b", lambda m: numbers.setdefault(m[0], str(len(numbers) + 1)), text)


def _places(queries: Sequence[Query]) -> list[Path]:
    """Where each query goes: a folder for each part, numbers inside from 1."""
    folders: dict[str, str] = {}
    counts: dict[str, int] = {}
    found = []
    for query in queries:
        if query.part not in folders:
            plain = _file_name(query.part)
            taken = sum(f.lower() == plain.lower() or f.lower().startswith(f"{plain.lower()}~") for f in folders.values())
            folders[query.part] = f"{plain}~{taken + 1}" if taken else plain
        counts[query.part] = counts.get(query.part, 0) + 1
        found.append(Path(folders[query.part], f"{counts[query.part]:02d}.smt2"))
    return found


def _file_name(text: str) -> str:
    """A name as that of a file anywhere."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", text).lstrip(".")[:100] or "_"


def _stranger(target: Path) -> Path | None:
    """Something at ``target`` that no export made."""
    if not target.exists():
        return None
    if not target.is_dir() or target.is_symlink():
        return target
    return next((p for p in sorted(target.rglob("*")) if p.is_symlink() or not (p.is_dir() or p.suffix == ".smt2")), None)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
