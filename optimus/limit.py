"""Fewer rewrites than a plan would make: the first so many, chosen ones, or all but those of some patterns. For bisection.

Rewrites are numbered from 1 over all graphs of a process, in the order in which they are compiled. An ordinary run knows
no limit: there is one only inside :func:`limited`, or where the environment variable ``OPTIMUS_LIMIT`` is set.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from optimus.journal import Rewrite

ENVIRONMENT = "OPTIMUS_LIMIT"
"""A limit as text, such as ``first=12`` or ``first=12; without=batch_tanh``."""

ACCEPTED = "first=NUMBER, only=ID,ID or only=@FILE, without=PATTERN,PATTERN, record=FILE and observe=MODULE:FUNCTION, separated by semicolons"


@dataclass(frozen=True)
class Limit:
    """Which rewrites may happen.

    ``first``: that many and no more. ``only``: those with these identities, ``GRAPH.PATTERN.NODE``, which stay what they are
    when others are left out. ``without``: none of these patterns, which then do not count. ``record``: a file to which the
    rewrites of each graph are appended as a line of JSON. ``observe``: what :meth:`Limiter.observer` loads.
    """

    first: int | None = None
    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    record: str | None = None
    observe: str | None = None

    @classmethod
    def parse(cls, text: str) -> Limit:
        """The limit that a text means. Raises ``ValueError`` for anything else."""
        found: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in text.split(";"))):
            name, sign, given = (p.strip() for p in part.partition("="))
            if name not in READERS or not sign or name in found:
                raise ValueError(f"limit {text!r}: {part!r} is not understood; accepted are {ACCEPTED}")
            try:
                found[name] = READERS[name](given)
            except (ValueError, OSError) as error:
                raise ValueError(f"limit {text!r}: {part!r} is not understood ({error}); accepted are {ACCEPTED}") from None
        return cls(**found)

    def __str__(self) -> str:
        parts = [] if self.first is None else [f"first={self.first}"]
        parts += [] if self.only is None else [f"only={','.join(sorted(self.only))}"]
        parts += [f"without={','.join(sorted(self.without))}"] if self.without else []
        parts += [f"{name}={given}" for name, given in (("record", self.record), ("observe", self.observe)) if given is not None]
        return "; ".join(parts)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("no whole number from 0 on")
    return int(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, (n.strip() for n in text.split(","))))


def _identities(text: str) -> frozenset[str]:
    if not text.startswith("@"):
        return _names(text)
    listed = json.loads(Path(text[1:]).read_text())
    if not isinstance(listed, list) or not all(isinstance(i, str) for i in listed):
        raise ValueError("the file holds no JSON list of identities")
    return frozenset(listed)


def _file(text: str) -> str:
    if not text or Path(text).is_dir() or not Path(text).parent.is_dir():
        raise ValueError("no file that can be written")
    return text


READERS: dict[str, Callable[[str], Any]] = {"first": _number, "only": _identities, "without": _names, "record": _file, "observe": str}


@dataclass(frozen=True)
class Applied:
    """A rewrite that happened: its number over all graphs, its graph, both from 1, and its identity."""

    number: int
    graph: int
    identity: str
    rewrite: Rewrite

    @property
    def pattern(self) -> str:
        """The pattern that made it."""
        return self.rewrite.pattern

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Applied:
        """What :meth:`to_json` gave. Raises ``KeyError`` or ``TypeError`` for anything else."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data["rewrite"].items()}
        return cls(data["number"], data["graph"], data["identity"], Rewrite(**fields))


@dataclass
class Limiter:
    """A limit at work: counts graphs and rewrites, and keeps what was applied."""

    limit: Limit
    graphs: int = 0
    applied: list[Applied] = field(default_factory=list)
    before: int = 0
    """How many rewrites the graphs had that are not in ``applied``."""

    @property
    def count(self) -> int:
        """The number of the last rewrite."""
        return self.before + len(self.applied)

    @property
    def exhausted(self) -> bool:
        """Whether no further rewrite may happen."""
        return self.limit.first is not None and self.count >= self.limit.first

    def admits(self, pattern: str) -> bool:
        """Whether ``pattern`` may apply anywhere."""
        return pattern not in self.limit.without and not self.exhausted

    def allows(self, pattern: str, node: str) -> bool:
        """Whether ``pattern`` may apply at ``node`` of the graph at hand."""
        return self.admits(pattern) and (self.limit.only is None or self._identity(pattern, node) in self.limit.only)

    def _identity(self, pattern: str, node: str) -> str:
        return f"{self.graphs}.{pattern}.{node}"

    def enter(self) -> None:
        """The next graph begins."""
        self.graphs += 1

    def note(self, node: str, rewrite: Rewrite) -> None:
        """``rewrite`` was applied at ``node``."""
        self.applied.append(Applied(self.count + 1, self.graphs, self._identity(rewrite.pattern, node), rewrite))

    def leave(self) -> None:
        """The graph is done; it is recorded if the limit says where."""
        if self.limit.record is not None:
            line = {"process": os.getpid(), "graph": self.graphs, "applied": [a.to_json() for a in self.applied if a.graph == self.graphs]}
            with Path(self.limit.record).open("a") as file:
                file.write(json.dumps(line) + "\n")

    def observer(self) -> Any:
        """The function named ``observe``, or None. Raises ``ValueError`` where there is none of that name."""
        if self.limit.observe is None:
            return None
        module, _, name = self.limit.observe.partition(":")
        try:
            found = getattr(importlib.import_module(module), name, None)
        except (ImportError, ValueError):
            found = None
        if not callable(found):
            raise ValueError(f"observe={self.limit.observe}: no such function; accepted is MODULE:FUNCTION")
        return found


_inside: list[Limiter] = []
_of_environment: dict[str, Limiter] = {}


def current() -> Limiter | None:
    """The limiter in force: that of the innermost :func:`limited`, else that of the environment, else None.

    Raises ``ValueError`` if the environment variable says no limit.
    """
    if _inside:
        return _inside[-1]
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return None
    if text not in _of_environment:
        try:
            _of_environment[text] = Limiter(Limit.parse(text))
        except ValueError as error:
            raise ValueError(f"environment variable {ENVIRONMENT}: {error}") from None
    return _of_environment[text]


@contextlib.contextmanager
def graph_of(limiter: Limiter | None) -> Iterator[Limiter | None]:
    """Inside, the next graph is rewritten, if there is a limiter."""
    if limiter is not None:
        limiter.enter()
    yield limiter
    if limiter is not None:
        limiter.leave()


@contextlib.contextmanager
def limited(limit: Limit) -> Iterator[Limiter]:
    """Inside, every graph of this process is rewritten under ``limit``, with numbers that start anew."""
    limiter = Limiter(limit)
    _inside.append(limiter)
    try:
        yield limiter
    finally:
        _inside.remove(limiter)


def cache_key() -> str:
    """What a limit adds to a cache key: nothing where there is none, else a text that no other compile has.

    What was rewritten depends on how many rewrites came before, and a graph taken from a cache would not be counted.
    """
    return "" if current() is None else f":{uuid.uuid4()}"
