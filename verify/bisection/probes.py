"""Running what is bisected once under a limit: a command, a Python callable, or a graph with inputs."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.fx import GraphModule

from optimus.copies import fresh
from optimus.engine import Engine
from optimus.limit import ENVIRONMENT, Applied, Limit, Limiter, limited
from optimus.modes import modes_restored
from optimus.pattern import Exactness
from optimus.plan import Plan, engine_digest
from optimus.production import ENVIRONMENT as PATTERNS
from verify.compare import USERS
from verify.differential import quiet
from verify.fault import Fault, faults

SKIP = 125
"""The exit code by which a command says that it cannot tell, as for ``git bisect run``."""


class CannotTellError(Exception):
    """A run that says neither good nor bad; the message says why."""


@dataclass(frozen=True)
class Answer:
    """Whether a run was bad, a line about it, and what was applied."""

    bad: bool
    detail: str
    applied: tuple[Applied, ...]


class Probe(Protocol):
    """Something that can be run under a limit."""

    def run(self, limit: Limit, log: Path) -> Answer:
        """One run. ``log``: where output goes. Raises :class:`CannotTellError`."""

    def subject(self) -> dict[str, Any]:
        """What is run, as plain data."""

    def by_hand(self, limit: Limit) -> str:
        """How to do the same by hand."""


@dataclass(frozen=True)
class CommandProbe:
    """A command: bad if its exit code is not 0, undecided if it is 125 or takes longer than ``timeout_s``."""

    command: tuple[str, ...]
    timeout_s: float | None = None

    def subject(self) -> dict[str, Any]:
        """See :class:`Probe`."""
        files = {word: _digest(Path(word)) for word in self.command if Path(word).is_file()}
        return {"command": list(self.command), "files": files, **_surroundings()}

    def by_hand(self, limit: Limit) -> str:
        """See :class:`Probe`."""
        return f"{ENVIRONMENT}={shlex.quote(str(limit))} {shlex.join(self.command)}"

    def run(self, limit: Limit, log: Path) -> Answer:
        """See :class:`Probe`. Compile caches are off, for a graph from a cache would not be counted."""
        record = Path(limit.record) if limit.record else log.resolve().with_suffix(".jsonl")
        record.unlink(missing_ok=True)
        told = Limit(limit.first, limit.only, limit.without, str(record), limit.observe)
        environment = {**os.environ, ENVIRONMENT: str(told), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
        if told.only is not None:  # a list of any length
            listed = record.with_suffix(".only.json")
            listed.write_text(json.dumps(sorted(told.only)))
            environment[ENVIRONMENT] = str(Limit(told.first, frozenset([f"@{listed}"]), told.without, told.record, told.observe))
        with log.open("w") as output:
            try:
                process = subprocess.Popen(
                    self.command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
                )
            except OSError as error:
                raise CannotTellError(f"the command cannot be run ({error.strerror})") from None
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                raise CannotTellError(f"a run took longer than {self.timeout_s:g} s; its output is in {log}") from None
            finally:
                _end(process)
        if code == SKIP:
            raise CannotTellError(f"the command exited with {SKIP}, which says that it cannot tell; its output is in {log}")
        said = "exit code 0" if code == 0 else f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
        return Answer(code != 0, said, _recorded(record))


def _surroundings() -> dict[str, Any]:
    """What a run depends on besides what it runs."""
    return {"folder": str(Path.cwd()), "patterns": os.environ.get(PATTERNS, ""), "engine": engine_digest(), "torch": torch.__version__}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process that still runs, and those it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _recorded(record: Path) -> tuple[Applied, ...]:
    """What the process that rewrote most applied; of several ranks, all do the same."""
    processes: dict[int, list[Applied]] = {}
    for line in record.read_text().splitlines() if record.exists() else ():
        data = json.loads(line)
        processes.setdefault(data["process"], []).extend(map(Applied.from_json, data["applied"]))
    most: list[Applied] = []
    for found in processes.values():
        most = found if len(found) > len(most) else most
    return tuple(most)


@dataclass(frozen=True)
class CallableProbe:
    """A function without arguments that compiles and runs: bad if it raises, or returns False or a list of differences."""

    check: Callable[[], Any]
    name: str = ""

    def subject(self) -> dict[str, Any]:
        """See :class:`Probe`."""
        code = getattr(getattr(self.check, "__code__", None), "co_filename", "")
        return {"callable": self._name(), "file": _digest(Path(code)) if code and Path(code).is_file() else "", **_surroundings()}

    def _name(self) -> str:
        return self.name or f"{getattr(self.check, '__module__', '?')}:{getattr(self.check, '__qualname__', repr(self.check))}"

    def by_hand(self, limit: Limit) -> str:
        """See :class:`Probe`."""
        if self.name:
            return f"{ENVIRONMENT}={shlex.quote(str(limit))} optimus-verify bisect --once {shlex.quote(self.name)}"
        return f"with optimus.limit.limited(optimus.limit.Limit.parse({str(limit)!r})): {self._name().rpartition(':')[2]}()"

    def run(self, limit: Limit, log: Path) -> Answer:
        """See :class:`Probe`."""
        import torch._inductor.config as inductor

        torch._dynamo.reset()
        with quiet(), limited(limit) as limiter, inductor.patch(force_disable_caches=True), modes_restored():
            try:
                told = self.check()
            except USERS as error:
                bad, detail = True, f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            else:
                bad, detail = _read(told)
        torch._dynamo.reset()
        log.write_text(detail + "\n")
        return Answer(bad, detail, tuple(limiter.applied))


def _read(told: Any) -> tuple[bool, str]:
    if told is None or told is True:
        return False, "good"
    if told is False:
        return True, "returned False"
    if isinstance(told, (list, tuple)):
        return bool(told), str(told[0]) if told else "good"
    raise CannotTellError(f"the callable returned a {type(told).__name__}; accepted are None, True, False and a list of differences")


@dataclass(frozen=True)
class GraphProbe:
    """A captured graph with real inputs: bad if it computes something else once it is rewritten by ``plan``."""

    gm: GraphModule
    inputs: Sequence[Any]
    plan: Plan
    name: str = ""

    def subject(self) -> dict[str, Any]:
        """See :class:`Probe`."""
        return {"graph": self.name, "nodes": len(self.gm.graph.nodes), "plan": self.plan.digest()}

    def by_hand(self, limit: Limit) -> str:
        """See :class:`Probe`."""
        return f"{ENVIRONMENT}={shlex.quote(str(limit))} optimus-verify bisect --once {shlex.quote(self.name)}"

    def run(self, limit: Limit, log: Path) -> Answer:
        """See :class:`Probe`."""
        found, applied = self.fault(limit)
        detail = "good" if found is None else found.line
        log.write_text(detail + "\n")
        return Answer(found is not None, detail, applied)

    def fault(self, limit: Limit) -> tuple[Fault | None, tuple[Applied, ...]]:
        """What differs first under ``limit``, and what was applied."""
        after = copy.deepcopy(self.gm)
        limiter = Limiter(limit)
        Engine(after, self.plan, limiter=limiter).run()
        kinds = {p.name: p.exactness for p in self.plan}
        bitwise = all(kinds[a.pattern] is Exactness.BITWISE for a in limiter.applied)
        with quiet():
            found = faults(self.gm.forward, after.forward, lambda: fresh(self.inputs), bitwise=bitwise)
        return next(iter(found), None), tuple(limiter.applied)
