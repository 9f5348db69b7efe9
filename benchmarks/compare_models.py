"""Models in eager, through Inductor, through Inductor with PyTorch's own Optimus options, and through this backend.

Every measurement runs in a process of its own and prints one JSON line: compile seconds, CUDA kernels per step (on a
GPU), median milliseconds per step over 20 steps after 3, peak memory. ``check`` compares outputs and all gradients of the
compiled model with eager instead, judged against float64. With ``--jobs`` above 1 several measurements compile at a time
(compile seconds then include the crowd); when all have compiled, steps are timed in one process after the other.
``optimus_pack`` packs parameters; ``+graphs`` behind a mode adds CUDA graphs.

    python -m benchmarks.compare_models --device cuda --models AutoInt,DCNMix --batch 4096 --out results.jsonl
"""

from __future__ import annotations

import argparse
import json
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

MODES = ("check", "check_pack", "eager", "inductor", "inductor_own", "optimus", "optimus_pack")
GRAPHS = "+graphs"
PHASES = ("inference", "training")
OWN = ("normalization_pass", "batch_linear", "batch_layernorm", "merge_splits_pass", "split_cat_pass", "unbind_stack_pass", "unbind_cat_to_view_pass")
RUNS, WARMUP = 20, 3


def measure(model_name: str, mode: str, phase: str, device: str, batch: int, compiler: str) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch
    import torch._inductor.config as inductor

    import optimus
    from benchmarks.models import make

    inductor.force_disable_caches = True
    model, inputs = make(model_name, batch, device=device)
    model = model.to(device).train(phase == "training")
    if mode in ("check", "check_pack"):
        return check(model, inputs, phase, compiler, mode == "check_pack")
    mode, graphs = mode.removesuffix(GRAPHS), "reduce-overhead" if mode.endswith(GRAPHS) else None
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown; accepted are {', '.join(MODES)}, with {GRAPHS} or without")
    if mode == "inductor_own":
        inductor.pre_grad_fusion_options = {name: {} for name in OWN}
    if mode.startswith("optimus"):
        run: Any = optimus.compile(model, pack=mode == "optimus_pack", mode=graphs)
    else:
        run = model if mode == "eager" else torch.compile(model, mode=graphs)

    def step() -> None:
        if phase == "inference":
            with torch.no_grad():
                run(*inputs)
        else:
            model.zero_grad(set_to_none=True)
            run(*inputs).sum().backward()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    start = time.perf_counter()
    step()
    synchronize()
    found: dict[str, Any] = {"compile_s": round(time.perf_counter() - start, 1)}
    await_turn()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        found["kernels"] = kernels(step)
    found["ms"] = round(median_ms(step, synchronize), 3)
    if device == "cuda":
        found["peak_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    if mode.startswith("optimus"):
        found["rewrites"] = sum(len(j.rewrites) for j in optimus.journals())
        found["passes_s"] = round(sum(j.seconds["all"] for j in optimus.journals()), 2)
    return found


def check(model: Any, inputs: tuple[Any, ...], phase: str, compiler: str, pack: bool) -> dict[str, Any]:
    """What differs between eager and the compiled model, outputs and gradients, seen against float64."""
    import torch
    from torch.func import functional_call

    import optimus
    from verify.compare import differences, observe, reference
    from verify.differential import quiet

    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)

    def program(*values: Any) -> Any:
        given = dict(zip(names, values, strict=False))
        x = tuple(i.to(values[0].dtype) if i.is_floating_point() else i for i in values[len(names) :])
        with torch.set_grad_enabled(phase == "training"):
            return functional_call(model, given, x)

    values = [*state.values(), *inputs]

    def fresh() -> list[Any]:
        return [type(v)(v.detach().clone(), v.requires_grad) if isinstance(v, torch.nn.Parameter) else v.detach().clone() for v in values]

    with quiet():
        eager = observe(program, fresh())
        compiled = observe(torch.compile(program, backend=optimus.backend, options={"compiler": compiler, "pack": pack}), fresh())
        exact = reference(program, fresh(), eager)
        found = differences(eager, compiled, exact, bitwise=False)
    return {
        "differences": found[:5],
        "raised": [eager.raised, compiled.raised],
        "reference": exact is not None,
        "gradients": sum(g is not None for g in compiled.gradients),
        "rewrites": sum(len(j.rewrites) for j in optimus.journals()),
        "packed": sum(len(j.packed) for j in optimus.journals()),
    }


def kernels(step: Callable[[], None]) -> int:
    """CUDA kernels and copies of one step."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        step()
        torch.cuda.synchronize()
    return sum(e.device_type == torch.autograd.DeviceType.CUDA for e in seen.events())


def median_ms(step: Callable[[], None], synchronize: Callable[[], None]) -> float:
    """The median wall time of a step."""
    for _ in range(WARMUP):
        step()
    times = []
    for _ in range(RUNS):
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[RUNS // 2] * 1e3


def main() -> int:
    """Run the measurements that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="AutoInt,DCNMix,FiBiNET")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one measurement")
    parser.add_argument("--jobs", type=int, default=1, help="measurements that compile at a time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compiler", default="inductor", help="what is behind the rewrites in check")
    parser.add_argument("--one", action="store_true", help="measure the single combination given, in this process")
    a = parser.parse_args()
    if a.one:
        print(RESULT + json.dumps(measure(a.models, a.modes, a.phases, a.device, a.batch, a.compiler)))
        return 0
    wanted = list(product(a.models.split(","), a.phases.split(","), a.modes.split(",")))
    compiling, timing = threading.Semaphore(a.jobs), threading.Lock()
    barrier = threading.Barrier(len(wanted))

    def one(name: str, phase: str, mode: str) -> None:
        found = Apart(name, phase, mode, a)
        with compiling:
            found.compile()
        barrier.wait()
        with timing:
            result = found.time()
            line = json.dumps({"model": name, "phase": phase, "mode": mode, "batch": a.batch, "device": a.device, **result})
            print(line, flush=True)
            if a.out:
                with a.out.open("a") as file:
                    file.write(line + "\n")

    with ThreadPoolExecutor(len(wanted)) as pool:
        for done in [pool.submit(one, *combination) for combination in wanted]:
            done.result()
    return 0


READY, RESULT = "READY", "RESULT "


def await_turn() -> None:
    """Tell the parent process that all is compiled, and wait until it is this one's turn to be timed."""
    print(READY, flush=True)
    sys.stdin.readline()


class Apart:
    """One measurement in a process of its own."""

    def __init__(self, name: str, phase: str, mode: str, a: argparse.Namespace) -> None:
        self.command = [sys.executable, "-m", "benchmarks.compare_models", "--one", "--models", name, "--phases", phase, "--modes", mode]
        self.command += ["--device", a.device, "--batch", str(a.batch), "--compiler", a.compiler]
        self.timeout = a.timeout
        self.late = False
        self.seen: list[str] = []

    def compile(self) -> None:
        """Start, and return when the process is ready to be timed, or has ended, or was too late and is killed."""
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the process has ended
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        timer = threading.Timer(self.timeout, self._kill)
        timer.start()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line)
            if line.strip() == READY:
                break
        timer.cancel()

    def time(self) -> dict[str, Any]:
        """Let it time its steps; what it found, or why there is nothing."""
        try:
            rest, _ = self.process.communicate("go\n", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            self._kill()
            rest, _ = self.process.communicate()
        if self.late:
            return {"failed": f"not done after {self.timeout:.0f} s"}
        found = [line.removeprefix(RESULT) for line in [*self.seen, *rest.splitlines()] if line.startswith(RESULT)]
        if not found:
            self.errors.seek(0)
            return {"failed": (self.errors.read().strip().splitlines() or ["no output"])[-1][:300]}
        result: dict[str, Any] = json.loads(found[0])
        return result

    def _kill(self) -> None:
        self.late = True
        self.process.kill()


if __name__ == "__main__":
    sys.exit(main())
