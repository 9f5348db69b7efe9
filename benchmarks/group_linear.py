"""Linears of different shapes: eager, through Inductor, and through Inductor behind ``group_linear``.

Prints one JSON line for each dtype, phase and mode: compile seconds, CUDA kernels per step, median milliseconds per step
(wall time to the end of the step, and the kernels alone), how many linears were joined.

    python -m benchmarks.group_linear --linears 64 --batch 512 --out benchmarks/results/group_linear.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import optimus
from benchmarks.compare_models import kernels, median_ms

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
PHASES = ("forward", "training")
MODES = ("eager", "inductor", "optimus")


class Linears(nn.Module):
    """``count`` linears of different shapes, each with an input of its own; multiples of 8 unless ``odd``."""

    def __init__(self, count: int, odd: bool) -> None:
        super().__init__()
        sizes = [(32 + 8 * (i % 17) + odd, 16 + 8 * (i % 13) + odd) for i in range(count)]
        self.layers = nn.ModuleList(nn.Linear(k, n) for k, n in sizes)

    def forward(self, *xs: Tensor) -> Tensor:
        return torch.cat([torch.relu(layer(x)) for layer, x in zip(self.layers, xs, strict=True)], dim=1)


def device_ms(step: Any) -> float:
    """The time of the kernels and copies of one step, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    return sum(e.device_time_total for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA) / 1e3


COMPILERS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    "optimus": {"backend": optimus.backend, "options": {"enable": ["group_linear"]}},
}


def measure(dtype: str, phase: str, mode: str, count: int, batch: int, odd: bool) -> dict[str, Any]:
    """One measurement."""
    torch._dynamo.reset()
    optimus.clear_journals()
    torch.manual_seed(0)
    model = Linears(count, odd).to("cuda", DTYPES[dtype])
    inputs = [torch.randn(batch, layer.in_features, device="cuda", dtype=DTYPES[dtype], requires_grad=True) for layer in model.layers]
    run = model if mode == "eager" else torch.compile(model, **COMPILERS[mode])

    def step() -> None:
        if phase == "forward":
            with torch.no_grad():
                run(*inputs)
            return
        model.zero_grad(set_to_none=True)
        for x in inputs:
            x.grad = None
        run(*inputs).sum().backward()

    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    found = {"compile_s": round(seconds, 1), "kernels": kernels(step), "ms": round(median_ms(step, torch.cuda.synchronize), 3)}
    found["device_ms"] = round(device_ms(step), 3)
    if mode == "optimus":
        found["joined"] = sum(len(r.outputs) for j in optimus.journals() for r in j.rewrites if r.pattern == "group_linear")
    return found


def main() -> int:
    """Run the measurements that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linears", type=int, default=64)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--odd", action="store_true", help="odd extents, which allow no wide loads")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: a loop is all there would be to measure", file=sys.stderr)
        return 2
    for dtype, phase, mode in product(a.dtypes.split(","), a.phases.split(","), a.modes.split(",")):
        asked = {"dtype": dtype, "phase": phase, "mode": mode, "linears": a.linears, "batch": a.batch, "odd": a.odd}
        line = json.dumps({**asked, **measure(dtype, phase, mode, a.linears, a.batch, a.odd)})
        print(line, flush=True)
        if a.out:
            with a.out.open("a") as file:
                file.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
