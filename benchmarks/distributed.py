"""Training over several processes, with and without this backend: the same trajectory, plan and cache keys, and what it gains.

Every job (a model, a way to distribute it, a mode) has processes of its own, one for each rank; on GPUs each sees one
device alone. A job trains ``--steps`` steps of SGD from the same parameters on batches of its rank's own. ``eager`` also
trains in float64, and from parameters that are off by one rounding: the losses and parameters of the other modes are judged
against that by the rules of :mod:`verify.compare`. Every rank also tells the plan, its journals and the keys of Inductor's
cache, and rank 0 compares them. When all jobs have trained, their steps are timed, one job after the other, and traced.

    python -m benchmarks.distributed --ranks 2 --device cuda --models Ranking32,FiBiNET --batch 2048 --jobs 8 --out results.jsonl
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import optimus
from benchmarks.compare_models import READY, RESULT, await_turn, median_ms
from benchmarks.models import make

MODES = ("eager", "inductor", "optimus", "optimus_pack")
WRAPS = ("ddp", "fsdp2")
RATE = 0.01
BUCKET_MB = 1
"""Small, so that models of this size have several buckets of gradients."""
NUDGES = 3


class Job:
    """One combination in this process, one of several ranks."""

    def __init__(self, a: argparse.Namespace) -> None:
        self.a = a
        self.rank = dist.get_rank()
        self.keys: list[str] = []
        self.model, self.inputs = make(a.models, a.batch, device=a.device)
        self.model = self.model.to(a.device).train()
        self.start = [p.detach().clone() for p in self.model.parameters()]

    def batches(self, dtype: torch.dtype) -> list[torch.Tensor]:
        """The batches of this rank: rows of one big batch, in another order on every rank and at every step."""
        generator = torch.Generator().manual_seed(1000 + self.rank)
        (x,) = self.inputs
        order = [torch.randperm(len(x), generator=generator).to(x.device) for _ in range(4)]
        return [x[o].to(dtype) for o in order]

    def wrapped(self, parameters: list[torch.Tensor], mode: str) -> tuple[torch.nn.Module, Callable[..., Any]]:
        """A fresh distributed model with ``parameters``, and how to call it."""
        dtype = parameters[0].dtype
        model, _ = make(self.a.models, 2, device=self.a.device)
        model = model.to(self.a.device, dtype).train()
        with torch.no_grad():
            for p, value in zip(model.parameters(), parameters, strict=True):
                p.copy_(value)
        if self.a.wraps == "ddp":
            model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            fully_shard(model, mesh=init_device_mesh(self.a.device, (dist.get_world_size(),)))
        if mode == "eager":
            return model, model
        options = {} if self.a.compiler == "inductor" else {"compiler": self.a.compiler}
        if mode == "inductor":
            return model, torch.compile(model, backend=self.a.compiler)
        return model, optimus.compile(model, pack=mode == "optimus_pack", options=options)

    def train(self, mode: str, *parameters: torch.Tensor) -> list[torch.Tensor]:
        """The losses [steps] and the parameters, whole, after training from ``parameters``."""
        torch._dynamo.reset()
        self.net, self.run = self.wrapped(list(parameters), mode)
        self.data = self.batches(parameters[0].dtype)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=RATE)
        losses = [self.step(k) for k in range(self.a.steps)]
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in self.net.parameters()]
        return [torch.stack(losses), *(w.detach().clone() for w in whole)]

    def step(self, k: int = 0) -> torch.Tensor:
        """One step; its loss."""
        self.optimiser.zero_grad()
        loss = self.run(self.data[k % len(self.data)]).square().mean()
        loss.backward()
        self.optimiser.step()
        return loss.detach()


def measure(a: argparse.Namespace) -> dict[str, Any]:
    """What this job finds, over all ranks; only rank 0 returns something."""
    job = Job(a)
    job.keys = record_keys()
    found: dict[str, Any] = {}
    start = time.perf_counter()
    trajectory = job.train(a.modes, *job.start)
    found["train_s"] = round(time.perf_counter() - start, 1)
    journals = [json.loads(j.to_json()) for j in optimus.journals()]
    for journal in journals:
        journal.pop("seconds")
    plan = optimus.production.effective_plan().digest() if a.modes.startswith("optimus") else ""
    told = {"plan": plan, "journals": _digest(journals), "keys": job.keys, "rewrites": sum(len(j["rewrites"]) for j in journals)}
    told["packed"] = sum(len(j["packed"]) for j in journals)
    torch.save([t.cpu() for t in trajectory], Path(a.folder) / f"{a.models}-{a.wraps}-{a.modes}-{job.rank}.pt")
    if a.modes == "eager":
        exact = [job.train("eager", *(p.double() for p in job.start))]
        for k in range(NUDGES):
            generator = torch.Generator().manual_seed(k)
            exact.append(job.train("eager", *(_nudged(p, generator) for p in job.start)))
        torch.save([[t.cpu() for t in e] for e in exact], Path(a.folder) / f"{a.models}-{a.wraps}-exact-{job.rank}.pt")
        job.train("eager", *job.start)
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, told)
    found |= {"rewrites": told["rewrites"], "packed": told["packed"], "keys": len(told["keys"])}
    found["ranks_agree"] = {what: all(t[what] == told[what] for t in everybody) for what in ("plan", "journals", "keys", "rewrites")}
    dist.barrier()
    if job.rank == 0:
        await_turn()
    dist.barrier()
    synchronize = torch.cuda.synchronize if a.device == "cuda" else lambda: None
    found["ms"] = round(median_ms(lambda: job.step(), synchronize), 3)
    if a.device == "cuda":
        found |= overlap(job)
    return found


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _nudged(parameter: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``parameter`` in float64, each element off by up to one rounding of its own dtype."""
    sign = torch.randint(0, 2, parameter.shape, generator=generator).to(parameter.device) * 2 - 1
    return parameter.double() * (1 + sign * torch.finfo(parameter.dtype).eps)


def record_keys() -> list[str]:
    """The list into which every key of Inductor's cache goes from now on, in order."""
    import torch._inductor.codecache as codecache

    keys: list[str] = []
    make_key = codecache.compiled_fx_graph_hash

    def recording(*args: Any, **kwargs: Any) -> Any:
        found = make_key(*args, **kwargs)
        keys.append(found[0])
        return found

    codecache.compiled_fx_graph_hash = recording
    return keys


def overlap(job: Job) -> dict[str, Any]:
    """Of one step: kernels, time of communication in ms, and the part of it during which this rank also computes."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        job.step()
        torch.cuda.synchronize()
    events = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA and "Activity Buffer" not in e.name]
    talk = [(e.time_range.start, e.time_range.end) for e in events if "nccl" in e.name.lower()]
    work = [(e.time_range.start, e.time_range.end) for e in events if "nccl" not in e.name.lower()]
    together = sum(max(0.0, min(b, d) - max(a, c)) for a, b in talk for c, d in work)
    total = sum(b - a for a, b in talk)
    return {
        "kernels": len(work),
        "collectives": len(talk),
        "communication_ms": round(total / 1e3, 3),
        "overlapped": round(together / total, 3) if total else 0.0,
    }


def agreement(folder: Path, model: str, wrap: str, mode: str, ranks: int) -> list[str]:
    """What differs, on any rank, between the trajectory of ``mode`` and eager's, by the differential runner's judgement."""
    from verify.compare import Reference, Run, differences

    found = []
    for rank in range(ranks):
        plain, ours = (_load(folder / f"{model}-{wrap}-{m}-{rank}.pt") for m in ("eager", mode))
        exact, *moved = _load(folder / f"{model}-{wrap}-exact-{rank}.pt")
        noise = [torch.stack([(m[k] - e).abs() for m in moved]).amax(0) for k, e in enumerate(exact)]
        runs = [Run(list(t), [x.stride() for x in t], [False] * len(t), [""] * len(t), []) for t in (plain, ours)]
        found += [f"rank {rank}: {d}" for d in differences(*runs, Reference(exact, [], noise, []), bitwise=False)]
    return found


def _load(path: Path) -> Any:
    return torch.load(path, weights_only=True)


# ------------------------------------------------------------------------------------------------------------ processes


class Ranks:
    """The processes of one job."""

    def __init__(self, a: argparse.Namespace, model: str, wrap: str, mode: str, ranks: int) -> None:
        self.seen: list[str] = []
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the processes have ended
        self.timeout, self.late = a.timeout, False
        port = _free_port()
        command = [sys.executable, "-m", "benchmarks.distributed", "--one", "--models", model, "--wraps", wrap, "--modes", mode]
        command += ["--device", a.device, "--batch", str(a.batch), "--steps", str(a.steps), "--folder", a.folder, "--compiler", a.compiler]
        self.processes = []
        for rank in range(ranks):
            own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
            own["TORCHINDUCTOR_CACHE_DIR"] = str(Path(a.folder) / f"cache-{model}-{wrap}-{mode}-{ranks}-{rank}")
            if a.device == "cuda":
                own["CUDA_VISIBLE_DEVICES"] = str(rank)
            out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            self.processes.append(subprocess.Popen(command, env=os.environ | own, stdin=subprocess.PIPE, stdout=out, stderr=self.errors, text=True))

    def ready(self) -> None:
        """Return when all have trained, or ended, or were too late and are killed."""
        timer = threading.Timer(self.timeout, self._kill)
        timer.start()
        assert self.processes[0].stdout is not None
        for line in self.processes[0].stdout:
            self.seen.append(line)
            if line.strip() == READY:
                break
        timer.cancel()

    def finish(self) -> dict[str, Any]:
        """Let them time their steps; what they found, or why there is nothing."""
        try:
            rest, _ = self.processes[0].communicate("go\n", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            self.late = True
            rest = ""
        self._kill(self.late)
        found = [line.removeprefix(RESULT) for line in [*self.seen, *(rest or "").splitlines()] if line.startswith(RESULT)]
        if found:
            result: dict[str, Any] = json.loads(found[0])
            return result
        self.errors.seek(0)
        return {"failed": "too late" if self.late else "; ".join(self.errors.read().strip().splitlines()[-3:])[:600]}

    def _kill(self, late: bool = True) -> None:
        self.late = self.late or late
        for process in self.processes:
            if not late and process.poll() is None:
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
            elif process.poll() is None:
                process.kill()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> int:
    """Run the jobs that the arguments ask for; 1 if one failed, differs, or its ranks do not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="Ranking32")
    parser.add_argument("--wraps", default=",".join(WRAPS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--ranks", default="2", help="numbers of processes, such as 1,2")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--batch", type=int, default=256, help="rows for each rank")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--compiler", default="inductor", help="what is behind the rewrites, and alone in mode inductor")
    parser.add_argument("--timeout", type=float, default=500, help="seconds for one job to train, and to be timed")
    parser.add_argument("--jobs", type=int, default=1, help="jobs that train at a time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", help="where trajectories are kept (default: a temporary folder)")
    parser.add_argument("--one", action="store_true", help="be one rank of a single job, as the environment says")
    a = parser.parse_args()
    if a.one:
        dist.init_process_group("nccl" if a.device == "cuda" else "gloo")
        found = measure(a)
        if dist.get_rank() == 0:
            print(RESULT + json.dumps(found), flush=True)
        dist.destroy_process_group()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        a.folder = a.folder or folder
        return _run_all(a)


def _run_all(a: argparse.Namespace) -> int:
    wanted = list(product(map(int, a.ranks.split(",")), a.models.split(","), a.wraps.split(","), a.modes.split(",")))
    training, timing, bad = threading.Semaphore(a.jobs), threading.Lock(), []
    barrier = threading.Barrier(len(wanted))

    def one(ranks: int, model: str, wrap: str, mode: str) -> None:
        own = argparse.Namespace(**{**vars(a), "folder": str(Path(a.folder) / str(ranks))})
        Path(own.folder).mkdir(exist_ok=True, parents=True)
        with training:
            job = Ranks(own, model, wrap, mode, ranks)
            job.ready()
        barrier.wait()
        with timing:
            result = job.finish()
            agrees = list(result.get("ranks_agree", {}).values())
            if mode != "eager" and "failed" not in result:
                result["differences"] = agreement(Path(own.folder), model, wrap, mode, ranks)[:5]
            if "failed" in result or not all(agrees) or result.get("differences"):
                bad.append((ranks, model, wrap, mode))
            line = json.dumps({"ranks": ranks, "model": model, "wrap": wrap, "mode": mode, "device": a.device, "batch": a.batch, **result})
            print(line, flush=True)
            if a.out:
                with a.out.open("a") as file:
                    file.write(line + "\n")

    with ThreadPoolExecutor(len(wanted)) as pool:
        for done in [pool.submit(one, *combination) for combination in wanted]:
            done.result()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
