"""Padding and decomposition of matrix products on a GPU: time before and after, the kernels that run, and the error.

``python -m benchmarks.aten_mm [--json FILE] [--only TEXT]``

Each shape is compiled by Inductor alone and behind the pattern. Times are medians of CUDA events. Kernels are those that the
profiler sees in one call. Errors are the largest element-wise distances from a product in float64, that of eager beside
them; where the float64 factors would not fit beside the others, rows are compared in blocks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import optimus
from optimus.plan import Plan

REPEATS, WARM_UP = 20, 5
BLOCK = 1 << 20
"""Rows or summands in one block of a float64 product."""

PAD = Plan.of(("pad_aten_mm_pass", {"everywhere": True, "k_threshold_to_pad": 1}))
DECOMPOSE = Plan.of("decompose_mm_pass")


@dataclass(frozen=True)
class Shape:
    """One product of ``rows x inner`` by ``inner x columns``."""

    rows: int
    inner: int
    columns: int
    dtype: str
    plan: Plan = field(repr=False)
    batch: int = 0

    @property
    def name(self) -> str:
        """Pattern, shape and dtype."""
        lead = f"{self.batch}, " if self.batch else ""
        return f"{self.plan.steps[0].name} {self.dtype} [{lead}{self.rows}, {self.inner}] x [{lead}{self.inner}, {self.columns}]"


SHAPES = (
    Shape(2, 15_541_760, 13, "bfloat16", PAD),
    Shape(2, 8_388_608, 13, "bfloat16", PAD),
    Shape(16, 1_048_575, 13, "bfloat16", PAD),
    Shape(4096, 4095, 4095, "bfloat16", PAD),
    Shape(2048, 2047, 2049, "float16", PAD),
    Shape(8192, 1023, 1023, "bfloat16", PAD),
    Shape(1024, 4095, 1001, "float32", PAD),
    Shape(512, 129, 65, "bfloat16", PAD, batch=256),
    Shape(18_583_840, 8, 8, "float32", DECOMPOSE),
    Shape(18_583_840, 8, 8, "bfloat16", DECOMPOSE),
    Shape(25_247_936, 4, 2, "float32", DECOMPOSE),
    Shape(25_247_936, 4, 2, "bfloat16", DECOMPOSE),
    Shape(1_048_576, 16, 16, "bfloat16", DECOMPOSE),
    Shape(65_536, 31, 31, "bfloat16", DECOMPOSE),
    Shape(10_240, 31, 31, "float32", DECOMPOSE),
    Shape(8, 8, 8, "bfloat16", DECOMPOSE, batch=1_048_576),
)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product, and something behind it that may be fused with it."""
    return torch.relu(torch.bmm(x, y) if x.dim() == 3 else torch.mm(x, y))


@dataclass
class Result:
    """What was measured of one shape. Times are in milliseconds, errors absolute."""

    shape: str
    fired: int
    eager_ms: float
    before_ms: float
    after_ms: float
    error_eager: float
    error_before: float
    error_after: float
    kernels_before: list[str]
    kernels_after: list[str]
    peak_gib: float

    def __str__(self) -> str:
        factor = self.error_after / self.error_eager if self.error_eager else float("inf") if self.error_after else 1.0
        return (
            f"{self.shape}: {self.fired} rewrites; eager {self.eager_ms:.3f} ms, Inductor {self.before_ms:.3f} ms, with us {self.after_ms:.3f} ms "
            f"({self.before_ms / self.after_ms:.2f}x); error {self.error_after:.2e}, {factor:.2f} times eager's; {self.peak_gib:.1f} GiB\n"
            f"  kernels before: {', '.join(self.kernels_before)}\n  kernels after: {', '.join(self.kernels_after)}"
        )


def measure(shape: Shape) -> Result:
    """Run one shape in eager, through Inductor, and through Inductor behind the pattern."""
    torch.cuda.reset_peak_memory_stats()
    x, y = _factors(shape)
    exact = _exact(x, y)
    optimus.clear_journals()
    torch._dynamo.reset()
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        alone = torch.compile(product)
        eager, before = product(x, y), alone(x, y)
        ours = optimus.compile(product, plan=shape.plan)
        after = ours(x, y)
        errors = [float((found.double() - exact).abs().max()) for found in (eager, before, after)]
        del eager, before, after
        times = [_time(call, x, y) for call in (product, alone, ours)]
        kernels = [_kernels(call, x, y) for call in (alone, ours)]
    fired = sum(len(journal.rewrites) for journal in optimus.journals())
    peak = torch.cuda.max_memory_allocated() / 2**30
    return Result(shape.name, fired, *times, *errors, *kernels, peak)


def _factors(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    dtype: torch.dtype = getattr(torch, shape.dtype)
    generator = torch.Generator("cuda").manual_seed(0)
    lead = (shape.batch,) if shape.batch else ()

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*lead, *sizes, device="cuda", dtype=dtype, generator=generator)

    return draw(shape.rows, shape.inner), draw(shape.inner, shape.columns)


def _exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``product`` in float64, factors widened block by block."""
    if x.dim() == 3:
        return torch.relu(torch.cat([torch.bmm(a.double(), b.double()) for a, b in zip(x.split(BLOCK // 8), y.split(BLOCK // 8), strict=True)]))
    if x.shape[0] > x.shape[1]:
        return torch.relu(torch.cat([a.double() @ y.double() for a in x.split(BLOCK)]))
    total = torch.zeros(x.shape[0], y.shape[1], device=x.device, dtype=torch.float64)
    for a, b in zip(x.split(BLOCK, 1), y.split(BLOCK), strict=True):
        total += a.double() @ b.double()
    return torch.relu(total)


def _time(call: Callable[..., Any], *inputs: torch.Tensor) -> float:
    """The median time of a call in milliseconds."""
    for _ in range(WARM_UP):
        call(*inputs)
    found = []
    for _ in range(REPEATS):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call(*inputs)
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop))
    return statistics.median(found)


def _kernels(call: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The names of the kernels that one call launches, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call(*inputs)
        torch.cuda.synchronize()
    return [event.name[:80] for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA and "Memcpy" not in event.name]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the shapes and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--only", default="", metavar="TEXT", help="only shapes whose name contains this, such as decompose")
    arguments = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("benchmarks.aten_mm: PyTorch sees no CUDA GPU; accepted is a machine with one", file=sys.stderr)
        return 2
    results = []
    for shape in SHAPES:
        if arguments.only in shape.name:
            results.append(measure(shape))
            print(results[-1], flush=True)
            torch.cuda.empty_cache()
    if arguments.json:
        versions = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
        Path(arguments.json).write_text(json.dumps({"versions": versions, "results": [asdict(r) for r in results]}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
