"""What the patterns that are off by default save on a GPU: kernels launched and time of a call, through Inductor without and with each.

``python -m benchmarks.aten_batches [--small] [--jobs N] [--only TEXT] [--json FILE]``

A cell is a pattern and a workload of many small branches on which it fires. Cells are compiled in ``--jobs`` processes at once, and when
all are compiled timed one after the other: both ways in turn, medians of wall time, the time of the kernels alone from a replayed
CUDA graph, and the kernels that the profiler sees. Both ways are compared with eager. ``--small`` runs little ones, on the CPU,
where the kernels that Inductor generates are counted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import optimus
from benchmarks import inductor_ir
from benchmarks.inductor_ir import apart
from optimus.plan import Plan

ROWS, WIDTH = 64, 32
UNARY: dict[str, Callable[..., Any]] = {"batch_aten_tanh": torch.tanh, "batch_aten_sigmoid": torch.sigmoid, "batch_aten_relu": torch.relu}
BINARY: dict[str, Callable[..., Any]] = {
    "batch_aten_add": torch.add,
    "batch_aten_sub": torch.sub,
    "batch_aten_mul": torch.mul,
    "batch_aten_div": torch.div,
}
PATIENCE_S = 200
"""How long a process waits for the others to have compiled."""


@dataclass(frozen=True)
class Cell:
    """A pattern, and what it is tried on. ``count``: branches."""

    pattern: str
    workload: str
    count: int
    training: bool = False

    @property
    def name(self) -> str:
        """For a table."""
        return f"{self.pattern}: {self.count} {self.workload}{', training' if self.training else ''}"

    def program(self, device: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
        """What the cell computes, as a function of a list of tensors, and such a list."""
        return program(self, device)

    def plan(self, on: bool) -> Plan:
        """The pattern alone, or nothing."""
        return Plan.of(self.pattern) if on else Plan()


def cells(small: bool) -> list[Cell]:
    """All that is measured."""
    few, many = (6, 8) if small else (64, 256)
    found = [Cell("batch_linear_post_grad", w, n) for n in (many, few) for w in ("products", "products of one input")]
    found += [Cell("normalization_aten_pass", "pieces", many)]
    typical = ("batch_aten_tanh", "batch_aten_add")  # the others differ in what is computed for an element
    found += [Cell(p, "inputs", many) for p in typical]
    found += [Cell(p, w, few) for p in typical for w in ("inputs", "pieces of one tensor")]
    found += [Cell(p, "results of products", few) for p in (*UNARY, *BINARY)]
    found += [Cell(p, "results of products", few, True) for p in ("batch_aten_add", "batch_aten_mul")]
    found.append(Cell("batch_linear_post_grad", "products", few, True))
    return found + [Cell("group_kernels", w, 8 if small else inductor_ir.WORKLOADS[w][1]) for w in inductor_ir.WORKLOADS]


def program(cell: Cell, device: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """See :meth:`Cell.program`."""
    generator = torch.Generator(device).manual_seed(0)
    n = cell.count

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, generator=generator)

    if cell.pattern == "group_kernels":
        function, _, shape = inductor_ir.WORKLOADS[cell.workload]
        shape = (8, 8) if device == "cpu" else shape
        return function, [draw(*shape) for _ in range(n)]
    inputs = [draw(ROWS, WIDTH) for _ in range(n)]
    weights = [draw(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(n)]
    if cell.pattern == "batch_linear_post_grad":
        if cell.workload == "products":
            return (lambda t: torch.cat([torch.mm(x, w) for x, w in zip(t[:n], t[n:], strict=True)], 1)), inputs + weights
        return (lambda t: torch.cat([torch.mm(t[0], w) for w in t[1:]], 1)), [inputs[0], *weights]
    if cell.pattern == "normalization_aten_pass":
        return (lambda t: torch.cat([p * (k + 1) for k, p in enumerate(torch.split(t[0], WIDTH, 1))], -1)), [draw(ROWS, n * WIDTH)]
    one, two = UNARY.get(cell.pattern), BINARY.get(cell.pattern)
    others = [draw(ROWS, WIDTH).abs() + 0.5 for _ in range(n)]

    def joined(xs: Sequence[torch.Tensor], ys: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [one(x) for x in xs] if one is not None else [two(x, y) for x, y in zip(xs, ys, strict=True)]  # type: ignore[misc]

    if cell.workload == "inputs":
        return (lambda t: torch.cat(joined(t[:n], t[n:]), 1)), inputs + ([] if one else others)
    if cell.workload == "results of products":
        return (lambda t: torch.cat(joined([torch.mm(x, w) for x, w in zip(t[:n], t[n : 2 * n], strict=True)], t[2 * n :]), 1)), (
            inputs + weights + ([] if one else others)
        )

    def pieces(t: Sequence[torch.Tensor]) -> torch.Tensor:
        halves = [torch.split(x, WIDTH, 1) for x in t[n:]]
        return torch.cat([torch.mm(h, w) for h, w in zip(joined(halves[0], halves[-1]), t[:n], strict=True)], 1)

    return pieces, [*weights, torch.cat(inputs, 1), *([] if one else [torch.cat(others, 1)])]


class Measured:
    """A cell compiled both ways."""

    def __init__(self, cell: Cell, device: str) -> None:
        self.cell, self.device = cell, device
        function, self.inputs = cell.program(device)
        self.seconds: list[float] = []
        self.generated: list[int] = []
        self.calls: list[Callable[[], Any]] = []
        self.wrong = ""
        if cell.training:
            self.inputs = [t.requires_grad_() for t in self.inputs]
        expected = self._called(function)()
        optimus.clear_journals()
        for on in (False, True):
            self._compile(function, cell.plan(on), expected)
        self.fired = sum(len(j.rewrites) for j in optimus.journals())

    def _called(self, run: Callable[..., Any]) -> Callable[[], Any]:
        def step() -> Any:
            if not self.cell.training:
                with torch.no_grad():
                    return run(self.inputs)
            return torch.autograd.grad(run(self.inputs).square().sum(), self.inputs)

        return step

    def _compile(self, function: Callable[..., Any], plan: Plan, expected: Any) -> None:
        from torch._inductor import metrics

        metrics.reset()
        start = time.perf_counter()
        call = self._called(optimus.compile(apart(function), plan=plan))
        with torch._inductor.config.patch(force_disable_caches=True):
            found = call()
        self.seconds.append(time.perf_counter() - start)
        self.generated.append(metrics.generated_kernel_count)
        self.calls.append(call)
        for one, other in zip(tree_leaves(found), tree_leaves(expected), strict=True):
            if not torch.allclose(one, other, rtol=1e-3, atol=1e-3):
                self.wrong = f"differs from eager by {float((one - other).abs().max()):.3g}"

    def timed(self) -> Row:
        """What there is to know."""
        cuda = self.device == "cuda"
        for call in self.calls:
            call()
        kernels = [inductor_ir.launched(c) for c in self.calls] if cuda else self.generated
        before, after = (statistics.median(t) for t in inductor_ir.milliseconds(self.calls, cuda, rounds=9, each=10 if cuda else 1))
        alone = [inductor_ir.device_time(c) if cuda and not self.cell.training else float("nan") for c in self.calls]
        return Row(self.cell.name, self.fired, *kernels, before, after, *alone, *self.seconds, self.wrong)


@dataclass
class Row:
    """One line of the table."""

    cell: str
    fired: int
    kernels_before: int
    kernels_after: int
    ms_before: float
    ms_after: float
    device_ms_before: float
    device_ms_after: float
    compile_s_before: float
    compile_s_after: float
    wrong: str

    def __str__(self) -> str:
        return (
            f"| {self.cell} | {self.fired} | {self.kernels_before} | {self.kernels_after} | {self.ms_before:.3f} | {self.ms_after:.3f} "
            f"| {self.ms_before / self.ms_after:.2f}x | {self.device_ms_before:.3f} | {self.device_ms_after:.3f} "
            f"| {self.device_ms_before / self.device_ms_after:.2f}x | {self.compile_s_before:.1f} | {self.compile_s_after:.1f} | {self.wrong or 'as eager'} |"
        )


HEAD = (
    "| pattern: workload | rewrites | kernels before | after | ms before | after | faster | GPU ms alone before | after | faster | compile s before | after | results |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def work(share: Sequence[Cell], device: str, compiled: Any, turn: Any, found: Any) -> None:
    """Compile a share of the cells, wait for the other processes, and time them one at a time."""
    torch.set_num_threads(1)
    torch._dynamo.config.cache_size_limit = 64
    ready = []
    for cell in share:
        try:
            ready.append(Measured(cell, device))
            print(f"{cell.name}: compiled", file=sys.stderr, flush=True)
        except Exception as error:  # noqa: BLE001 - one cell must not cost the others
            found.put(f"| {cell.name} | failed: {type(error).__name__}: {str(error).splitlines()[0][:200]} |")
    try:
        compiled.wait(PATIENCE_S)
    except threading.BrokenBarrierError:
        found.put(f"(not all were compiled after {PATIENCE_S} s: what follows was timed beside compilers)")
    for measured in ready:
        with turn:
            try:
                found.put(measured.timed())
            except Exception as error:  # noqa: BLE001 - see above
                found.put(f"| {measured.cell.name} | failed: {type(error).__name__}: {str(error).splitlines()[0][:200]} |")
    found.put(None)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line for each cell as it is done."""
    return measure(cells, f"branches of {ROWS} x {WIDTH}, float32", __doc__ or "", argv)


def measure(cells: Callable[[bool], Sequence[Cell]], what: str, doc: str, argv: Sequence[str] | None) -> int:
    """The command of a benchmark of cells. ``what``: what they are of, for the head of the table."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--small", action="store_true", help="little ones, on the CPU")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile at once, at least 1")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cells whose name contains this, such as the name of a pattern")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too, a line each")
    a = parser.parse_args(argv)
    device = "cpu" if a.small else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA GPU; accepted is --small")
    wanted = [c for c in cells(a.small) if a.only in c.name]
    if a.jobs < 1 or not wanted:
        parser.error(f"--jobs {a.jobs} --only {a.only!r} leaves nothing to do; accepted are names such as {cells(a.small)[0].name!r}")
    jobs = min(a.jobs, len(wanted))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1" if a.small else "4")  # of each process
    context = multiprocessing.get_context("spawn")
    compiled, turn, found = context.Barrier(jobs), context.Lock(), context.Queue()
    workers = [context.Process(target=work, args=(wanted[k::jobs], device, compiled, turn, found), daemon=False) for k in range(jobs)]
    where = "CPU" if a.small else torch.cuda.get_device_name()
    print(f"PyTorch {torch.__version__}, {where}, optimus {optimus.__version__}, {what}\n\n{HEAD}", flush=True)
    for worker in workers:
        worker.start()
    going = jobs
    while going:
        row = found.get(timeout=PATIENCE_S * (10 if a.small else 2))
        going -= row is None
        if row is not None:
            print(row, flush=True)
        if a.json is not None and isinstance(row, Row):
            with a.json.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    for worker in workers:
        worker.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
