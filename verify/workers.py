"""Workers of a campaign: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from optimus_verify import hunt_in_process
from verify.campaign import State, Task, work
from verify.cli import UsageError

READY = "ready"


def loop(pipe: Connection, root: Path, path: list[str]) -> None:
    """Do units until the pipe is closed. Each program is noted on disk before the next is drawn."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    sys.path[:] = path
    torch.set_num_threads(1)
    state = State(root, 0)
    with contextlib.suppress(EOFError, BrokenPipeError):
        pipe.send(READY)
        while True:
            task: Task = pipe.recv()
            pipe.send(_done(task, functools.partial(state.tick, task.key)))


def _done(task: Task, tick: Callable[[str], None]) -> dict[str, Any]:
    """What :func:`verify.campaign.work` returns; what it raises is the rule's, or ours, and ends the hunt on the subject."""
    try:
        return work(task, tick)
    except Exception as error:  # noqa: BLE001 - the campaign goes on with the other subjects
        return {"fault": f"raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


class _Process:
    def __init__(self, root: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=hunt_in_process, args=(theirs, root, list(sys.path)), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None

    def ready(self) -> None:
        """Wait until it can work. Raises :class:`verify.cli.UsageError` where it does not come so far."""
        try:
            self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(5)
            raise UsageError(f"a worker ended with code {self.process.exitcode} before it began; what it said stands above") from None


class Processes:
    """``count`` processes of this machine, ready to work. One that dies is replaced."""

    def __init__(self, count: int, root: Path) -> None:
        self.root = root
        self.all = [_Process(root) for _ in range(count)]
        for worker in self.all:
            worker.ready()

    def pids(self) -> list[int]:
        """Their process numbers."""
        return [p.process.pid for p in self.all if p.process.pid is not None]

    def free(self) -> int:
        """See :class:`verify.campaign.Workers`."""
        for k, worker in enumerate(self.all):
            if worker.task is None and not worker.process.is_alive():
                self.all[k] = _Process(self.root)
                self.all[k].ready()
        return sum(w.task is None for w in self.all)

    def start(self, task: Task) -> None:
        """See :class:`verify.campaign.Workers`."""
        worker = next(w for w in self.all if w.task is None)
        worker.task = task
        with contextlib.suppress(BrokenPipeError):  # it died; that is seen when its end is waited for
            worker.pipe.send(task)

    def finished(self, wait_s: float) -> list[tuple[Task, dict[str, Any] | None]]:
        """See :class:`verify.campaign.Workers`."""
        busy = {w.pipe: w for w in self.all if w.task is not None}
        found: list[tuple[Task, dict[str, Any] | None]] = []
        if not busy:
            time.sleep(wait_s)
        for pipe in wait(list(busy), wait_s):
            worker = busy[pipe]  # type: ignore[index]
            assert worker.task is not None
            try:
                found.append((worker.task, worker.pipe.recv()))
            except (EOFError, ConnectionResetError):
                found.append((worker.task, None))
                worker.process.join(5)
            worker.task = None
        return found

    def close(self) -> None:
        """See :class:`verify.campaign.Workers`."""
        for worker in self.all:
            worker.pipe.close()
            if worker.process.is_alive():
                worker.process.terminate()
        for worker in self.all:
            worker.process.join(5)


class RayActors:
    """``count`` actors of a Ray cluster, each with one CPU. One that dies is replaced.

    ``address``: as :func:`ray.init` takes it; ``local`` starts one on this machine. Every machine of the cluster needs this
    distribution, and a rule given by its file needs that file at the same path. Raises :class:`verify.cli.UsageError` where Ray
    is not installed or the cluster does not answer.
    """

    def __init__(self, count: int, address: str, state: State) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise UsageError("--address needs Ray: pip install 'optimus-verify[cluster]'") from None
        self.ray, self.state = ray, state
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(p for p in [str(Path(__file__).parent.parent), *sys.path] if p)}}
        place: dict[str, Any] = {"num_cpus": count} if address == "local" else {"address": address}
        try:
            ray.init(**place, runtime_env=environment, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UsageError(f"--address {address}: no Ray cluster answers ({str(error).splitlines()[0]})") from None
        self.hunter = ray.remote(num_cpus=1)(_Hunter)
        self.board = ray.remote(num_cpus=0)(_Board).remote()
        self.all: list[Any] = [self.hunter.remote(self.board) for _ in range(count)]
        self.busy: dict[Any, tuple[Any, Task]] = {}

    def pids(self) -> list[int]:
        """The process numbers of the actors, on their machines."""
        return list(self.ray.get([actor.pid.remote() for actor in self.all]))

    def free(self) -> int:
        """See :class:`verify.campaign.Workers`."""
        return len(self.all) - len(self.busy)

    def start(self, task: Task) -> None:
        """See :class:`verify.campaign.Workers`."""
        taken = [actor for actor, _ in self.busy.values()]
        actor = next(a for a in self.all if not any(a is t for t in taken))
        self.busy[actor.work.remote(task)] = (actor, task)

    def finished(self, wait_s: float) -> list[tuple[Task, dict[str, Any] | None]]:
        """See :class:`verify.campaign.Workers`."""
        if not self.busy:
            time.sleep(wait_s)
            return []
        ready, _ = self.ray.wait(list(self.busy), num_returns=len(self.busy), timeout=wait_s)
        for key, characters in self.ray.get(self.board.take.remote()).items():
            self.state.tick(key, characters)
        found: list[tuple[Task, dict[str, Any] | None]] = []
        for reference in ready:
            actor, task = self.busy.pop(reference)
            try:
                found.append((task, self.ray.get(reference)))
            except self.ray.exceptions.RayActorError:
                found.append((task, None))
                self.all = [a for a in self.all if a is not actor] + [self.hunter.remote(self.board)]
        for key, characters in self.ray.get(self.board.take.remote()).items() if found else ():
            self.state.tick(key, characters)
        return found

    def close(self) -> None:
        """See :class:`verify.campaign.Workers`."""
        with contextlib.suppress(self.ray.exceptions.RayError):
            for key, characters in self.ray.get(self.board.take.remote(), timeout=10).items():
                self.state.tick(key, characters)
        self.ray.shutdown()


class _Board:
    """What the hunters of a cluster have judged since it was last asked for."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}

    def tick(self, key: str, character: str) -> None:
        self.seen[key] = self.seen.get(key, "") + character

    def take(self) -> dict[str, str]:
        taken, self.seen = self.seen, {}
        return taken


class _Hunter:
    """One worker of a cluster."""

    def __init__(self, board: Any) -> None:
        import torch

        torch.set_num_threads(1)
        self.board = board

    def pid(self) -> int:
        return os.getpid()

    def work(self, task: Task) -> dict[str, Any]:
        last: list[Any] = []

        def tick(character: str) -> None:
            last[:] = [self.board.tick.remote(task.key, character)]

        found = _done(task, tick)
        if last:
            import ray

            ray.get(last)  # calls of one actor to another arrive in order: the board has them all
        return found
