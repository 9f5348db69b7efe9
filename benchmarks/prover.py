"""How fast the prover is: rules, rewrites of all cases, 1,024 pieces, and a model with many rewrites.

    python -m benchmarks.prover
    python -m benchmarks.prover --part rules --part pieces

Every time is of one call of ``validate`` or ``prove_rule``, both solvers included. Capture and rewriting are not counted.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

import optimus
from benchmarks.models import make
from benchmarks.pieces import PROGRAMS, for_any_number
from fuzz.program import Input, Program, Step, Var
from fuzz.templates import captured
from optimus.capture import capture
from optimus.engine import Engine
from optimus.pattern import IR
from optimus.plan import Plan, default_plan, on_graphs
from optimus.regions import Region
from verify.prover.rules import prove_rule
from verify.validation import TIMEOUT_S, validate
from verify.verdict import Proved, Verdict, explain, word

COUNTS = {4: 2.0, 32: 15.0}
"""Numbers of pieces, and the seconds that all rules together may take with both solvers."""

PIECES, PIECES_S = 1024, 1.0
MEDIAN_S = 0.025
MODEL, MODEL_S = "FiBiNET", 179.0
"""The model, and the seconds that Inductor spent compiling it on a machine with an H200."""


@dataclass(frozen=True)
class Timed:
    """One verdict and how long it took: by the wall, and of this process."""

    what: str
    verdict: Verdict
    seconds: float
    cpu: float


def timed(what: str, ask: Callable[[], Verdict]) -> Timed:
    """Ask, and measure."""
    start, cpu = time.perf_counter(), time.process_time()
    verdict = ask()
    return Timed(what, verdict, time.perf_counter() - start, time.process_time() - cpu)


def seconds(found: Sequence[Timed]) -> float:
    return sum(t.seconds for t in found)


def quantile(found: Sequence[Timed], part: float) -> float:
    """The smallest time that ``part`` of all do not exceed."""
    ordered = sorted(t.seconds for t in found)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def judged(against: float, figure: float) -> str:
    return "reached" if figure <= against else "missed"


# -------------------------------------------------------------------------------------------------------------- measured


def general_rules() -> Iterator[Timed]:
    """The rules as the patterns state them, for all sizes, numbers of pieces and ranks."""
    for name, pattern in optimus.patterns().items():
        statement = pattern.general
        if statement is not None:
            yield timed(name, partial(prove_rule, statement, timeout_s=TIMEOUT_S, second_solver=True))


def rules_of(count: int) -> Iterator[Timed]:
    """Each pattern on a program of ``count`` pieces or members, all sizes symbols."""
    for name, program in PROGRAMS.items():
        pattern = optimus.patterns()[name]
        before = captured(program(count))
        after = copy.deepcopy(before)
        if not Engine(after, Plan((for_any_number(pattern),))).run().rewrites:
            raise RuntimeError(f"{name} does not fire on {count} pieces")
        yield timed(name, partial(validate, before, after))


def thousand_pieces() -> Iterator[Timed]:
    """A split into 1,024 pieces and a cat of them, against the tensor itself."""
    x = Input("x", (4, PIECES, 3))
    cut = Step("v", torch.split, (Var("x"), 1), (("dim", 1),))
    join = Step("r", torch.cat, (Var("v"),), (("dim", 1),))
    before = Program((x,), (cut, join, Step("z", torch.tanh, (Var("r"),))), ("z",)).graph()
    after = Program((x,), (Step("z", torch.tanh, (Var("x"),)),), ("z",)).graph()
    yield timed("plain sizes", lambda: validate(before, after))
    symbolic = captured(PROGRAMS["split_cat_pass"](PIECES))
    rewritten = copy.deepcopy(symbolic)
    Engine(rewritten, Plan((optimus.patterns()["split_cat_pass"],))).run()
    yield timed("all sizes symbols", lambda: validate(symbolic, rewritten))


def rewrites_of_cases() -> Iterator[Timed]:
    """Every rewrite of every case of every pattern, as validated while compiling: on its region."""
    for name, pattern in ((p.name, p) for p in on_graphs() if p.ir is IR.TORCH):
        for case in pattern.cases:
            gm = copy.deepcopy(captured(case))
            yield from _rewrites(gm, Plan((pattern.judged(),)), f"{name}, {case.name}")


def rewrites_of_model(name: str) -> Iterator[Timed]:
    """Every rewrite of a model by the default plan, on its region."""
    model, inputs = make(name)
    (found,) = capture(model, inputs)
    yield from _rewrites(found.gm, default_plan(), name)


def _rewrites(gm: Any, plan: Plan, what: str) -> list[Timed]:
    found: list[Timed] = []

    def judge(region: Region) -> str | None:
        found.append(timed(f"{what}: {region.pattern}", lambda: validate(region.before, region.after, private=region.private)))
        verdict = found[-1].verdict
        return None if isinstance(verdict, Proved) else explain(verdict)

    Engine(gm, plan, judge).run()
    return found


# ---------------------------------------------------------------------------------------------------------------- report


def _unproved(found: Sequence[Timed]) -> list[str]:
    return [f"* {t.what}: {explain(t.verdict)}" for t in found if not isinstance(t.verdict, Proved)]


def _figures(found: Sequence[Timed]) -> str:
    proved = sum(isinstance(t.verdict, Proved) for t in found)
    return (
        f"{proved} of {len(found)} proved, {seconds(found):.2f} s in all ({sum(t.cpu for t in found):.2f} s of CPU), "
        f"median {1000 * statistics.median(t.seconds for t in found):.0f} ms ({1000 * statistics.median(t.cpu for t in found):.0f} ms of CPU), p90 {1000 * quantile(found, 0.9):.0f} ms, "
        f"longest {1000 * max(t.seconds for t in found):.0f} ms"
    )


def rules() -> list[str]:
    """The rules in general, and on programs of 4 and of 32 pieces."""
    general = list(general_rules())
    lines = ["## Rules", "", f"As stated, for all sizes, numbers of pieces and ranks: {_figures(general)}.", *_unproved(general), ""]
    columns = {n: list(rules_of(n)) for n in COUNTS}
    lines += ["| pattern | general, ms | " + " | ".join(f"n = {n}, ms" for n in COUNTS) + " |", "|---|---|" + "---|" * len(COUNTS)]
    stated = {t.what: f"{1000 * t.seconds:.0f}" for t in general}
    for row in zip(*columns.values(), strict=True):
        lines.append(f"| `{row[0].what}` | {stated.get(row[0].what, '-')} | " + " | ".join(f"{1000 * t.seconds:.0f} {said(t)}" for t in row) + " |")
    for n, most in COUNTS.items():
        lines += ["", f"n = {n}: {_figures(columns[n])}; within {most:g} s: {judged(most, seconds(columns[n]))}.", *_unproved(columns[n])]
    return lines


def said(found: Timed) -> str:
    return found.verdict.claim if isinstance(found.verdict, Proved) else word(found.verdict)


def pieces() -> list[str]:
    """The cut and join of 1,024 pieces."""
    lines = [f"## A cut and join of {PIECES:,} pieces", ""]
    for t in thousand_pieces():
        lines.append(f"* {t.what}: {said(t)}, {t.seconds:.2f} s ({t.cpu:.2f} s of CPU); within {PIECES_S:g} s: {judged(PIECES_S, t.seconds)}.")
    return lines


def rewrites() -> list[str]:
    """All rewrites of all cases."""
    found = list(rewrites_of_cases())
    median = statistics.median(t.seconds for t in found)
    return [
        "## Rewrites of all cases",
        "",
        f"{_figures(found)}; median within {1000 * MEDIAN_S:.0f} ms: {judged(MEDIAN_S, median)}.",
        *_unproved(found),
    ]


def model() -> list[str]:
    """All rewrites of the model."""
    found = list(rewrites_of_model(MODEL))
    counts: dict[str, list[Timed]] = {}
    for t in found:
        counts.setdefault(t.what.partition(": ")[2], []).append(t)
    return [
        f"## {MODEL} of deepctr-torch",
        "",
        f"{_figures(found)}; within the {MODEL_S:g} s that Inductor spent compiling it on a machine with an H200: {judged(MODEL_S, seconds(found))}.",
        *_unproved(found),
        "",
        "| pattern | rewrites | seconds | longest, s |",
        "|---|---|---|---|",
        *(f"| `{name}` | {len(own)} | {seconds(own):.2f} | {max(t.seconds for t in own):.2f} |" for name, own in counts.items()),
    ]


PARTS: dict[str, Callable[[], list[str]]] = {"rules": rules, "pieces": pieces, "rewrites": rewrites, "model": model}


def main() -> None:
    """Measure the parts asked for, all if none is, print and write them."""
    import cvc5
    import z3

    parser = argparse.ArgumentParser("benchmarks.prover", allow_abbrev=False)
    parser.add_argument("--part", action="append", choices=list(PARTS), default=[])
    parser.add_argument("--out", default=f"benchmarks/results/{datetime.now(UTC):%Y-%m-%d}-prover.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    next(thousand_pieces())  # what is loaded once is not counted
    lines = [
        "# The prover",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}, z3 {z3.get_version_string()}, "
        f"cvc5 {cvc5.__version__}, {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f} processes at the start; `python -m benchmarks.prover`. "
        "Every query is asked of both solvers. Where other processes share the cores, the seconds of CPU say what the prover needs.",
    ]
    print("\n".join(lines), flush=True)
    for name in options.part or PARTS:
        part = ["", *PARTS[name]()]
        print("\n".join(part), flush=True)
        lines += part
        Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
