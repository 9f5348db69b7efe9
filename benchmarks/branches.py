"""Branch coverage of the files of the pass library by the fuzz runs alone: the tests play no part.

    python -m benchmarks.branches > benchmarks/results/branches.md
    python -m benchmarks.branches --overhead

Every pattern is hunted as the judge does it, for ``--seconds``; a file counts what the hunts on all patterns took that are
written in it. Exits with 1 if less than 95 % of the branches of a file are taken, if one that is not taken is not explained in
``verify/unreached.py``, if an explained one is taken after all, or if a hunt finds a fault. ``--overhead`` prints what measuring costs instead.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import torch

import optimus
from fuzz.templates import captured
from optimus.plan import provable
from verify.branches import LEAST, FileBranches, branches_taken, sources, together
from verify.fuzzing import FuzzReport
from verify.hunting import hunt
from verify.judgement import fuzzed
from verify.subject import PatternSubject
from verify.unreached import UNREACHED

PROGRAMS = 150


def measure(name: str, seconds: float) -> tuple[FuzzReport, tuple[FileBranches, ...]]:
    """A hunt on one pattern, and the branches that it took. Its cases are captured before, as the proof does in the judge."""
    subject = PatternSubject(optimus.patterns()[name])
    for case in (*subject.cases, *subject.declines):
        captured(case)
    report, files = fuzzed(subject, seconds)
    if files is None:
        raise RuntimeError("branches: this process is being traced; accepted is a run without a debugger or another measurement")
    return report, files


def faults(files: Sequence[FileBranches], names: Sequence[str]) -> list[str]:
    """What is wrong with the branches of all files."""
    found = [f"{f.name}: {f.share:.0%} of the branches taken, less than {LEAST:.0%}" for f in files if f.share < LEAST]
    found += [f"{f.name}, line {m}: not taken, and nobody has said why" for f in files for m in f.unexplained]
    if set(names) == {p.name for p in provable()}:
        left = {(f.name, m.text) for f in files for m in f.missing}
        found += [
            f"{name}: explained as never taken, but taken: {text}" for name, texts in UNREACHED.items() for text in texts if (name, text) not in left
        ]
    return found


def table(files: Sequence[FileBranches]) -> None:
    print("\n## By file\n\nOver the hunts on all patterns that are written in it.\n")
    print("| file | branches | taken | not taken |\n|---|---|---|---|")
    for f in sorted(files, key=lambda f: f.name):
        missing = "; ".join(f"line {m.line} to {m.to}" for m in f.missing)
        print(f"| `{f.name}` | {f.total} | {f.taken} ({f.share:.0%}) | {missing} |")
    print("\n## Not taken\n\n| file | line | why |\n|---|---|---|")
    for f in files:
        for m in f.missing:
            print(f"| `{f.name}` | `{m.text}` | {f.reason(m) or '**unexplained**'} |")


def overhead(names: Sequence[str]) -> int:
    """The seconds of processor time for the same programs, with and without measuring."""
    print("| pattern | programs | s without | s with | more |\n|---|---|---|---|---|")
    for name in names:
        subject = PatternSubject(optimus.patterns()[name])
        spent = []
        hunt(subject, seconds=600, max_examples=PROGRAMS)  # what is done once, such as captures, is done
        for measured in (False, True):
            reports: list[FuzzReport] = []

            def run(subject: PatternSubject = subject, reports: list[FuzzReport] = reports) -> None:
                reports.append(hunt(subject, seconds=600, max_examples=PROGRAMS))

            start = time.process_time()
            branches_taken(sources(subject.pattern), run) if measured else run()
            spent.append(time.process_time() - start)
        print(f"| `{name}` | {reports[0].tried} | {spent[0]:.2f} | {spent[1]:.2f} | {spent[1] / spent[0] - 1:+.0%} |", flush=True)
    return 0


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12.0, help="for each hunt; the judge has about that left of 40 s")
    parser.add_argument("--pattern", action="append", choices=[p.name for p in provable()])
    parser.add_argument("--overhead", action="store_true")
    a = parser.parse_args()
    names = a.pattern or [p.name for p in provable()]
    if a.overhead:
        return overhead(names)
    print(f"# Branches that fuzzing takes\n\n{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}; ", end="")
    print(f"{a.seconds:.0f} s for each pattern. Cases, and what states a rule in general, are no part of a pass.\n\n## By pattern\n")
    print("| pattern | programs | rewritten | branches of its file |\n|---|---|---|---|")
    measured, wrong = [], []
    for name in names:
        report, files = measure(name, a.seconds)
        measured.append(files)
        own = files[0]
        said = f"{own.taken} of {own.total}" if own.total else f"none in `{own.name}`"
        print(f"| `{name}` | {report.tried} | {report.fired} | {said} |", flush=True)
        if report.finding is not None:
            wrong.append(f"{name}: {report.finding}")
    files = together(measured)
    table(files)
    wrong += faults(files, names)
    for line in wrong:
        print(f"branches: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
