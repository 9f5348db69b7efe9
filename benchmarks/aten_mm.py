"""Padding and decomposition of matrix products on a GPU: time before and after, the kernels that run, and the error.

``python -m benchmarks.aten_mm [--small] [--json FILE] [--out FILE] [--only TEXT]``

Each shape runs in eager and is compiled several ways: by Inductor alone, with and without its own padding (``shape_padding``), and
behind the pattern. Times are medians of CUDA events about a call, and of a replayed CUDA graph, which takes the host out. Kernels are those that the profiler sees in one call. Errors are the largest
element-wise distances from a product in float64, as multiples of that of eager; where the float64 factors would not fit beside the others,
rows are compared in blocks. ``--small`` runs little shapes on the CPU, without kernels, to see that everything works.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import optimus
from benchmarks.inductor_ir import apart, device_time
from optimus.plan import Plan

REPEATS, WARM_UP = 20, 5
BLOCK = 1 << 20
"""Rows or summands in one block of a float64 product."""

PAD, DECOMPOSE = "pad_aten_mm_pass", "decompose_mm_pass"
PADDED = Plan.of((PAD, {"everywhere": True, "k_threshold_to_pad": 0}))
WHOLE = Plan.of((DECOMPOSE, {"max_written_out": 0, "cpu_max_first_dimension_decomposition": 1 << 30}))
WRITTEN = Plan.of((DECOMPOSE, {"max_written_out": 32, "cpu_max_first_dimension_decomposition": 1 << 30}))

WAYS: dict[str, dict[str, tuple[Plan, dict[str, Any]]]] = {
    PAD: {
        "Inductor that does not pad": (Plan(), {"shape_padding": False}),
        "Inductor": (Plan(), {}),
        "padded by us alone": (PADDED, {"shape_padding": False}),
        "padded by us behind Inductor": (PADDED, {}),
    },
    DECOMPOSE: {"Inductor": (Plan(), {}), "as a reduction": (WHOLE, {}), "written out": (WRITTEN, {})},
}
"""How each shape is compiled, by pattern: a plan, and options of Inductor."""


@dataclass(frozen=True)
class Shape:
    """One product of ``rows x inner`` by ``inner x columns``."""

    rows: int
    inner: int
    columns: int
    dtype: str
    pattern: str
    batch: int = 0

    @property
    def name(self) -> str:
        """Pattern, shape and dtype."""
        lead = f"{self.batch}, " if self.batch else ""
        return f"{self.pattern} {self.dtype} [{lead}{self.rows}, {self.inner}] x [{lead}{self.inner}, {self.columns}]"


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


SMALL = (
    Shape(2, 1021, 13, "bfloat16", PAD),
    Shape(5, 33, 9, "float32", PAD, batch=3),
    Shape(300, 4, 2, "float32", DECOMPOSE),
    Shape(300, 8, 8, "bfloat16", DECOMPOSE),
    Shape(300, 31, 5, "bfloat16", DECOMPOSE),
    Shape(8, 8, 8, "bfloat16", DECOMPOSE, batch=16),
)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product, and something behind it that may be fused with it."""
    return torch.relu(torch.bmm(x, y) if x.dim() == 3 else torch.mm(x, y))


@dataclass
class Way:
    """What was measured of one way. ``gpu_ms``: by the GPU alone; NaN on a CPU. ``declined``: the reasons that the pattern gave."""

    name: str
    ms: float
    gpu_ms: float
    error: float
    fired: int = 0
    declined: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    compile_s: float = 0.0

    @property
    def told(self) -> str:
        """What the pattern did, or why not."""
        return f"{self.fired} rewrites" if self.fired else f"declined: {', '.join(self.declined)}" if self.declined else ""

    def worse_than(self, eager: Way) -> float:
        """The error as a multiple of that of eager."""
        return self.error / eager.error if eager.error else float("inf") if self.error else 1.0


@dataclass
class Result:
    """What was measured of one shape. Times are in milliseconds, errors absolute."""

    shape: str
    ways: list[Way]
    peak_gib: float

    def __str__(self) -> str:
        eager = self.ways[0]
        lines = [f"{self.shape}: eager {eager.ms:.3f} ms, error {eager.error:.2e}; {self.peak_gib:.1f} GiB"]
        for way in self.ways[1:]:
            told = f"; {way.told}" if way.told else ""
            lines.append(
                f"  {way.name}: {way.ms:.3f} ms ({eager.ms / way.ms:.2f}x eager), GPU {way.gpu_ms:.3f} ms, error {way.worse_than(eager):.2f} times eager's, "
                f"compiled in {way.compile_s:.1f} s{told}; kernels: {', '.join(way.kernels)}"
            )
        return "\n".join(lines)

    def rows(self) -> str:
        """Lines of the table: what is faster is compared by the GPU alone."""
        eager = self.ways[0]
        lines = [f"| `{self.shape.split()[0]}` | {self.shape.partition(' ')[2]} | eager | {eager.ms:.3f} | {eager.gpu_ms:.3f} | | | | | |"]
        for way in self.ways[1:]:
            kernels = ", ".join(dict.fromkeys(SHORT.split(k.removeprefix("void "))[0] for k in way.kernels if not k.startswith("Memset")))
            lines.append(
                f"| | | {way.name} | {way.ms:.3f} | {way.gpu_ms:.3f} | {eager.gpu_ms / way.gpu_ms:.2f} | {way.worse_than(eager):.2f} | {way.compile_s:.1f} | {way.told} | {kernels} |"
            )
        return "\n".join(lines)


SHORT = re.compile(r"[<(]|_tst_|_hsh_|_gemm_")
"""What follows in the name of a kernel says how it was made, not what it is."""

HEADER = """| pattern | product | way | ms | GPU ms alone | faster than eager there | error | compile s | what was done | kernels |
|---|---|---|---|---|---|---|---|---|---|"""


def measure(shape: Shape, device: str) -> Result:
    """Run one shape in eager, and each way that it is compiled."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    x, y = _factors(shape, device)
    exact = _exact(x, y)
    torch._dynamo.reset()
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        ways = [Way("eager", _time(product, x, y), _alone(product, x, y), float((product(x, y).double() - exact).abs().max()))]
        for name, (plan, options) in WAYS[shape.pattern].items():
            optimus.clear_journals()
            call = optimus.compile(apart(product), plan=plan, options=dict(options))
            start = time.perf_counter()
            error = float((call(x, y).double() - exact).abs().max())
            seconds = time.perf_counter() - start
            fired = sum(len(journal.rewrites) for journal in optimus.journals())
            declined = [f"{d.reason} ({d.detail})" for journal in optimus.journals() for d in journal.declined]
            ways.append(Way(name, _time(call, x, y), _alone(call, x, y), error, fired, declined, _kernels(call, x, y), seconds))
    return Result(shape.name, ways, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0)


def _factors(shape: Shape, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    dtype: torch.dtype = getattr(torch, shape.dtype)
    generator = torch.Generator(device).manual_seed(0)
    lead = (shape.batch,) if shape.batch else ()

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*lead, *sizes, device=device, dtype=dtype, generator=generator)

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
    if not inputs[0].is_cuda:
        for _ in range(REPEATS):
            began = time.perf_counter()
            call(*inputs)
            found.append(1000 * (time.perf_counter() - began))
        return statistics.median(found)
    for _ in range(REPEATS):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call(*inputs)
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop))
    return statistics.median(found)


def _alone(call: Callable[..., Any], *inputs: torch.Tensor) -> float:
    return device_time(lambda: call(*inputs)) if inputs[0].is_cuda else float("nan")


def _kernels(call: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    """The names of the kernels that one call launches, in order; none on a CPU."""
    if not inputs[0].is_cuda:
        return []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call(*inputs)
        torch.cuda.synchronize()
    return [event.name[:80] for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA and "Memcpy" not in event.name]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the shapes and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--out", metavar="FILE", help="write the table here")
    parser.add_argument("--only", default="", metavar="TEXT", help="only shapes whose name contains this, such as decompose")
    parser.add_argument("--small", action="store_true", help="little shapes, on the CPU")
    arguments = parser.parse_args(argv)
    if not arguments.small and not torch.cuda.is_available():
        print("benchmarks.aten_mm: PyTorch sees no CUDA GPU; accepted is a machine with one, and --small", file=sys.stderr)
        return 2
    results = []
    device = "cpu" if arguments.small else "cuda"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"PyTorch {torch.__version__}, {name}, optimus {optimus.__version__}", flush=True)
    for shape in SMALL if arguments.small else SHAPES:
        if arguments.only not in shape.name:
            continue
        results.append(measure(shape, device))
        print(results[-1], flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()
        if arguments.json:
            versions = {"torch": torch.__version__, "device": name}
            Path(arguments.json).write_text(json.dumps({"versions": versions, "results": [asdict(r) for r in results]}, indent=1))
        if arguments.out:
            Path(arguments.out).write_text("\n".join([HEADER, *(r.rows() for r in results)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
