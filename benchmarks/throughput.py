"""Programs a second on one core: at graph level for every pattern, and apart from that through ``aot_eager``.

    python -m benchmarks.throughput --seconds 10 --out benchmarks/results/throughput.md

Seconds are those of the processor as well as by the wall, for others may use the machine.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

import optimus
from optimus.plan import provable
from verify.fuzzing import FuzzReport
from verify.hunting import differential, hunt
from verify.subject import PatternSubject

FLOOR = 50.0


def graph_level(name: str, seconds: float) -> tuple[FuzzReport, float, float]:
    """The report on one hunt, seconds of the processor and by the wall."""
    subject = PatternSubject(optimus.patterns()[name])
    hunt(subject, seconds=60, max_examples=60, seed_number=1)  # captures are made once
    cpu, wall = time.process_time(), time.monotonic()
    report = hunt(subject, seconds=seconds, seed_number=8)
    return report, time.process_time() - cpu, time.monotonic() - wall


def compile_level(name: str, most: int) -> tuple[int, float]:
    """Runs through ``aot_eager``, three ways each, and seconds of the processor."""
    cpu = time.process_time()
    runs = sum(1 for _ in differential(PatternSubject(optimus.patterns()[name]), ("aot_eager",), most=most))
    return runs, time.process_time() - cpu


def main() -> int:
    """Measure, print, and write the table. 1 if the average at graph level is below 50 programs a second of the processor."""
    parser = argparse.ArgumentParser("benchmarks.throughput", allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--pattern", action="append", default=[])
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, programs, cpus = [], 0, 0.0
    for name in options.pattern or [p.name for p in provable()]:
        report, cpu, wall = graph_level(name, options.seconds)
        runs, compiling = compile_level(name, options.runs)
        programs, cpus = programs + report.tried, cpus + cpu
        counts = f"{report.tried} | {report.fired} | {report.uncaptured} | {cpu:.1f}"
        rows.append(f"| `{name}` | {counts} | {report.tried / cpu:.0f} | {report.tried / wall:.0f} | {runs / compiling:.1f} |")
        print(rows[-1], flush=True)
    average = programs / cpus
    head = [
        "# Programs a second",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}, one thread; `python -m benchmarks.throughput`.",
        "",
        f"{average:.0f} programs a second of the processor on average at graph level: drawn, run in eager, rewritten, compared.",
        "",
        "Not captured: programs that fakes or lowering refuse, which are not compared.",
        "",
        "| pattern | programs | rewritten | not captured | seconds of the processor | a second of these | a second by the wall | runs through aot_eager a second |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print(f"average {average:.1f}")
    if options.out:
        Path(options.out).write_text("\n".join([*head, *rows]) + "\n")
    return 0 if average >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
