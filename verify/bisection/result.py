"""The folder that a bisection leaves for a culprit: the graph cut down, its inputs, pictures, and a program that replays it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from optimus.engine import Engine
from optimus.limit import Limit, Limiter
from optimus.plan import Plan
from verify.bisection.hunt import Culprit
from verify.compare import USERS
from verify.intermediates import first_divergence
from verify.minimise import Minimised, Minimiser, rewritten_names
from verify.picture import draw
from verify.program_text import source
from verify.saved import load, read_plan, save
from verify.smaller import Sample
from verify.versions import versions

REPLAY = '''"""{title}

Exits with 1 while the fault lives, with 0 once it is gone.
"""

import sys
from pathlib import Path

from verify.bisection.result import replay

if __name__ == "__main__":
    sys.exit(replay(Path(__file__).parent))
'''


def patterns_of(culprit: Culprit, plan: Plan) -> Plan:
    """The part of ``plan`` that the rewrites of a culprit come from."""
    names = {a.pattern for a in culprit.applied}
    return Plan(tuple(p for p in plan if p.name in names))


def cut_down(sample: Sample, plan: Plan, culprit: Culprit, *, seconds: float = 120.0) -> Minimised | None:
    """The smallest graph found that shows the fault of ``culprit``; None if ``sample`` does not show it."""
    return Minimiser(patterns_of(culprit, plan), seconds=seconds).run(sample, _there(culprit))


def divergence(sample: Sample, plan: Plan, culprit: Culprit) -> str | None:
    """The first value of the whole graph that the rewrites of ``culprit`` change; None where they change none on the way forward."""
    after = copy.deepcopy(sample.gm)
    Engine(after, patterns_of(culprit, plan), limiter=Limiter(_there(culprit))).run()
    try:
        found = first_divergence(sample.gm, after, sample.inputs)
    except USERS:
        return None
    return None if found is None else str(found)


def _there(culprit: Culprit) -> Limit:
    """The rewrites of ``culprit`` and no others, in its graph by itself."""
    there = [a.identity.partition(".")[2] for a in culprit.applied if a.graph == culprit.guilty.graph]
    return Limit(only=frozenset(f"1.{t}" for t in there))


def write(folder: Path, culprit: Culprit, plan: Plan, found: Minimised, by_hand: Callable[[Limit], str]) -> None:
    """Write the folder of a culprit whose fault was cut down. Raises what :func:`verify.saved.save` raises."""
    chosen = patterns_of(culprit, plan)
    title = f"{culprit.guilty.pattern}: {found.fault.line}".replace('"""', "'''")
    before = found.sample.gm
    save(folder, before, found.sample.inputs, chosen, title)
    after = rewritten(found.sample, chosen)
    marked = rewritten_names(found.sample, chosen, Limit())
    draw(before, folder / "before.svg", "before", marked)
    draw(after, folder / "after.svg", "after", {n.name for n in after.graph.nodes} - {n.name for n in before.graph.nodes})
    (folder / "before.txt").write_text(source(before, "before") + "\n")
    (folder / "after.txt").write_text(source(after, "after") + "\n")
    (folder / "replay.py").write_text(REPLAY.format(title=title))
    (folder / "culprit.json").write_text(json.dumps(described(culprit, by_hand) | {"fault": asdict(found.fault)}, indent=1))


def rewritten(sample: Sample, plan: Plan) -> Any:
    """A copy of the graph of ``sample`` after ``plan``."""
    after = copy.deepcopy(sample.gm)
    Engine(after, plan, limiter=Limiter(Limit())).run()
    return after


def described(culprit: Culprit, by_hand: Callable[[Limit], str]) -> dict[str, Any]:
    """A culprit as plain data."""
    return {
        "rewrites": [a.to_json() for a in culprit.applied],
        "alone": culprit.alone,
        "seen": culprit.detail,
        "good": by_hand(culprit.good),
        "bad": by_hand(culprit.bad),
        "named_in": culprit.named_in,
        "runs": culprit.runs,
        "of": culprit.of,
        "versions": versions(),
    }


def replay(folder: Path) -> int:
    """Run the graph of a folder before and after its plan, and print what differs. 1: something; 0: nothing."""
    sample, plan = load(folder), read_plan(folder)
    minimiser = Minimiser(plan)
    found = minimiser.faults(sample)
    for fault in found:
        print(fault.line)
    if found:
        return 1
    journal = Engine(copy.deepcopy(sample.gm), plan, limiter=Limiter(Limit())).run()
    print(f"no difference, with {len(journal.rewrites)} rewrites")
    return 0
