"""What the numeric check costs: milliseconds for a training step without it, on a step that is not sampled, and on one that is.

python -m benchmarks.numeric_check --models AutoInt,Ranking8 --device cuda
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import optimus
from benchmarks.models import make

STEPS, WARMUP = 30, 5


def milliseconds(step: Callable[[], None], device: str) -> float:
    """The median time of a step."""
    times = []
    for k in range(STEPS + WARMUP):
        start = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        if k >= WARMUP:
            times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def measure(name: str, device: str, batch: int, compiler: str) -> dict[str, Any]:
    """One model."""
    found: dict[str, Any] = {"model": name, "device": device, "batch": batch, "compiler": compiler}
    for what, every in (("without", 0), ("not sampled", 10**9), ("each sampled", 1)):
        torch._dynamo.reset()
        model, inputs = make(name, batch, device=device)
        check = {"every": every, "tolerance": 1e-2, "on_failure": "report", "callback": lambda failure: print(failure)}
        fast = optimus.compile(model.to(device), numeric_check=check if every else None, options={"compiler": compiler})

        def step(model: Any = model, fast: Any = fast, inputs: Any = inputs) -> None:
            model.zero_grad(set_to_none=True)
            fast(*inputs).sum().backward()

        found[what] = round(milliseconds(step, device), 3)
    sampled, plain = found["each sampled"], found["without"]
    found["counts"] = dict(optimus.numeric_check.counts)
    checked = found["counts"].get("checked", 0)
    found["every 100 adds"] = f"{(sampled - plain) / plain:.2f} %" if checked else "nothing was checked"
    return found


def main() -> int:
    """Print a line of JSON for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="Ranking8,AutoInt")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--compiler", default="inductor")
    a = parser.parse_args()
    for name in a.models.split(","):
        optimus.numeric_check.counts.clear()
        print(json.dumps(measure(name, a.device, a.batch, a.compiler)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
