"""How soon each wrong rule of ``tests/broken`` is refuted, by fuzzing and by proof, and how small the program is that shows it.

python -m benchmarks.broken --out benchmarks/results/broken.md
"""

from __future__ import annotations

import argparse
import operator
import platform
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from fuzz.program import Program
from tests.broken import BROKEN, Broken
from verify.fuzzing import hunt
from verify.pieces import CUTS
from verify.proof import proofs
from verify.verdict import Refuted

LIMIT_S, MOST = 60.0, 5


@dataclass(frozen=True)
class Found:
    """Seconds until a witness objects, shrinking included; None: it did not within the limit."""

    rule: Broken
    proof_s: float | None
    fuzz_s: float | None
    programs: int
    program: Program | None

    @property
    def kept(self) -> bool:
        """Whether it was refuted in time, by a small program."""
        times = [t for t in (self.proof_s, self.fuzz_s) if t is not None]
        return bool(times) and min(times) <= LIMIT_S and (self.program is None or operators(self.program) <= MOST)

    def row(self) -> str:
        """A line of the table."""
        proof, fuzz = ("-" if t is None else f"{t:.1f}" for t in (self.proof_s, self.fuzz_s))
        sizes = "- | -" if self.program is None else f"{operators(self.program)} | {self.program.size()}"
        return f"| `{self.rule.name}` | {proof} | {fuzz} | {self.programs} | {sizes} | {'yes' if self.kept else 'no'} |"


def operators(program: Program) -> int:
    """How many operators a program calls: its steps but those that take one piece of what a cut returned."""
    steps = program.steps()
    cuts = {s.name for s in steps if s.target in CUTS}
    return sum(not (s.target is operator.getitem and s.used()[0] in cuts) for s in steps)


def measure(rule: Broken, seed: int) -> Found:
    """Ask both witnesses."""
    start = time.monotonic()
    refuted = any(isinstance(v, Refuted) for p in proofs(rule.subject, second_solver=False) for v in p.verdicts)
    proof_s = time.monotonic() - start if refuted else None
    start = time.monotonic()
    report = hunt(rule.subject, seconds=LIMIT_S, seed_number=seed)
    fuzz_s = time.monotonic() - start if report.finding is not None else None
    return Found(rule, proof_s, fuzz_s, report.tried, None if report.finding is None else report.finding.program)


def main() -> int:
    """Measure every rule, or those named, and write the table. 1 if one is not refuted in time or shown by more than five operators."""
    parser = argparse.ArgumentParser("benchmarks.broken", allow_abbrev=False)
    parser.add_argument("--rule", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for rule in BROKEN:
        if not options.rule or rule.name in options.rule:
            found.append(measure(rule, options.seed))
            print(found[-1].row(), flush=True)
    kept = sum(f.kept for f in found)
    head = [
        "# Wrong rules, and how soon they are refuted",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}, one thread, at most {LIMIT_S:.0f} s for fuzzing; "
        f"seconds by the wall, shrinking included; `python -m benchmarks.broken`. `operators`: those that the program calls that fuzzing shows; `lines`: with those that take a piece of what a cut returned.",
        "",
        f"{kept} of {len(found)} refuted within {LIMIT_S:.0f} s and shown by at most {MOST} operators.",
        "",
        "| rule | proof, s | fuzzing, s | programs | operators | lines | in time and small |",
        "|---|---|---|---|---|---|---|",
    ]
    if options.out:
        Path(options.out).write_text("\n".join([*head, *(f.row() for f in found)]) + "\n")
    return 0 if kept == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
