"""Branch coverage of every pattern's files by its fuzz run alone: the tests play no part.

python -m benchmarks.branches --seconds 60 --examples 1000 > benchmarks/results/branches.md
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import UTC, datetime

import torch

import optimus
from verify.branches import Branches, branches_taken, sources
from verify.fuzzing import FuzzReport, hunt
from verify.subject import PatternSubject


def measure(name: str, seconds: float, examples: int) -> tuple[Branches, FuzzReport]:
    """The branches that a hunt on one pattern takes."""
    pattern = optimus.patterns()[name]
    reports: list[FuzzReport] = []
    run = PatternSubject(pattern)
    found = branches_taken(sources(pattern), lambda: reports.append(hunt(run, seconds=seconds, max_examples=examples)))
    return found, reports[0]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--pattern", action="append", choices=list(optimus.patterns()))
    a = parser.parse_args()
    print(f"# Branches that fuzzing takes\n\n{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}; ", end="")
    print(f"at most {a.examples} programs and {a.seconds:.0f} s for each pattern.\n")
    print("| pattern | programs | rewritten | branches | taken | not taken |\n|---|---|---|---|---|---|")
    for name in a.pattern or optimus.patterns():
        found, report = measure(name, a.seconds, a.examples)
        missing = ", ".join(f"{file}:{line}" for file, line, _ in found.missing)
        print(f"| `{name}` | {report.tried} | {report.fired} | {found.total} | {found.taken} ({found.share:.0%}) | {missing} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
