"""Bisection of the planted faults of ``tests/planted.py`` and ``tests/planted_below.py``: runs until each is named, and the graph that is left, as a table.

Of what is rewritten below graphs of operators no graph is saved, so that none is cut down.

python -m benchmarks.bisect --out benchmarks/results/2026-12-01-bisect.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

import verify
from optimus.plan import Plan, lookup
from tests import planted, planted_below
from verify.bisection.drive import Outcome
from verify.bisection.probes import CallableProbe, GraphProbe
from verify.bisection.search import runs_needed

BELOW = {
    "a saved value too large for 8 bits": lambda: planted_below.quantised(planted_below.TOO_LARGE),
    "scheduler nodes": lambda: planted_below.grouped(planted_below.TURNED),
    "the backward graph of ATen": lambda: planted_below.sloped(planted_below.BACKWARDS),
}
HEAD = (
    "| fault | rewrites | named in | at most | all runs | operators left | inputs | fault that is left | s |\n|---|---|---|---|---|---|---|---|---|"
)


def subjects() -> list[tuple[str, object, int]]:
    """Name, probe, and how many culprits to look for."""
    graph = planted.captured().gm
    found: list[tuple[str, object, int]] = [(f.name, GraphProbe(graph, planted.inputs(f.outlier), f.plan, f.name), 1) for f in planted.FAULTS]
    first, swapped = planted.FAULTS[0].pattern, planted.FAULTS[-1].pattern
    cat = lookup("mutate_cat_pass")
    found.append(("two at once", GraphProbe(graph, planted.inputs(), Plan((cat, first, swapped))), 2))
    found.append(("two together", GraphProbe(graph, planted.inputs(), Plan((cat, planted.SLOPPY))), 1))
    late = Plan((cat, planted.AFTER_FIFTY_STEPS))
    found.append(("after 50 steps", CallableProbe(lambda: planted.training(late), "training"), 1))
    found += [(name, CallableProbe(check, name), 1) for name, check in BELOW.items()]
    return found


def rows(name: str, outcome: Outcome, seconds: float) -> list[str]:
    """A row for each culprit."""
    lines = []
    for culprit, small in zip(outcome.bisection.culprits, outcome.minimised, strict=True):
        also = f" with {culprit.applied[0].identity}" if not culprit.alone else ""
        left = ("-", "-", "-")
        if small is not None:
            left = (str(small.sample.size), "random" if small.random else "real", f"{small.fault.where}: {small.fault.kind}")
        most = 2 + runs_needed(culprit.of)
        lines.append(
            f"| {name}: {culprit.guilty.identity}{also} | {culprit.of} | {culprit.named_in} | {most} | {culprit.runs} | {' | '.join(left)} | {seconds:.1f} |"
        )
    return lines or [f"| {name} | {outcome.bisection.status} | | | | | | | {seconds:.1f} |"]


def main() -> int:
    """Print the table. 1 if a fault is not named in time or not cut down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    torch.set_num_threads(1)
    lines = [f"Graph of {len(planted.captured().gm.graph.nodes)} nodes, torch {torch.__version__}.", "", HEAD]
    short = 0
    for name, probe, culprits in subjects():
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            outcome = verify.bisect(probe, state=Path(folder) / "state", culprits=culprits)  # type: ignore[arg-type]
        found = rows(name, outcome, time.perf_counter() - start)
        print("\n".join(found), flush=True)
        lines += found
        bad = [c for c in outcome.bisection.culprits if c.alone and c.named_in > 2 + runs_needed(c.of)]
        short += (
            bool(bad)
            or len(outcome.bisection.culprits) < culprits
            or any(m is None or m.sample.size > 8 for m in outcome.minimised if name not in BELOW)
        )
    if a.out:
        a.out.write_text("# Bisection of planted faults\n\n" + "\n".join(lines) + "\n")
    return int(short > 0)


if __name__ == "__main__":
    raise SystemExit(main())
