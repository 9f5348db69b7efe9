"""What the numeric check costs: milliseconds for a training step without it, on a step that is not sampled, and on one that is.

Each compiled once, then timed in turns, so that what else the machine does meets all three alike; quartiles and median of all steps.

python -m benchmarks.numeric_check --models AutoInt,Ranking8 --device cuda
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import optimus
from benchmarks.models import make

STEPS, WARMUP, TURNS = 10, 5, 3
"""Steps of a turn, those in front of the first turn, and turns."""
KINDS = {"without": 0, "not sampled": 10**9, "each sampled": 1}


def seconds(step: Callable[[], None], device: str, count: int) -> list[float]:
    """The time of each of ``count`` steps."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def stepping(name: str, device: str, batch: int, every: int, options: dict[str, Any]) -> Callable[[], None]:
    """A training step of a model that is compiled anew."""
    model, inputs = make(name, batch, device=device)
    check = {"every": every, "tolerance": 1e-2, "on_failure": "report", "callback": lambda failure: print(failure)}
    fast = optimus.compile(model.to(device), numeric_check=check if every else None, options=options)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        fast(*inputs).sum().backward()

    return step


def measure(name: str, device: str, batch: int, options: dict[str, Any]) -> dict[str, Any]:
    """One model."""
    found: dict[str, Any] = {"model": name, "device": device, "batch": batch, **options, "threads": torch.get_num_threads()}
    torch._dynamo.reset()
    steps = {kind: stepping(name, device, batch, every, options) for kind, every in KINDS.items()}
    for step in steps.values():
        seconds(step, device, WARMUP)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    load = [os.getloadavg()[0]]
    for _ in range(TURNS):
        for kind, step in steps.items():
            times[kind] += seconds(step, device, STEPS)
    load.append(os.getloadavg()[0])
    quartiles = {kind: [round(1e3 * q, 2) for q in statistics.quantiles(ts, n=4)] for kind, ts in times.items()}
    found |= {"quartiles": quartiles, "longest": {kind: round(1e3 * max(ts), 1) for kind, ts in times.items()}, "load": load}
    sampled, plain = quartiles["each sampled"][1], quartiles["without"][1]
    found["counts"] = dict(optimus.numeric_check.counts)
    checked = found["counts"].get("checked", 0)
    found["every 100 adds"] = f"{(sampled - plain) / plain:.2f} %" if checked else "nothing was checked"
    return found


def main() -> int:
    """Print a line of JSON for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="Ranking8,AutoInt,MLR")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--compiler", default="inductor")
    parser.add_argument("--fallback-random", action="store_true", help="random numbers as eager draws them, which can be checked")
    parser.add_argument("--threads", type=int, default=1, help="more than there are free processors wait for one another")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    options = {"compiler": a.compiler} | ({"fallback_random": True} if a.fallback_random else {})
    for name in a.models.split(","):
        optimus.numeric_check.counts.clear()
        print(json.dumps(measure(name, a.device, a.batch, options)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
