"""A graph that shows a fault, cut down as far as it shows the same one: the same output, kind, and class of magnitude."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule

from optimus.copies import fresh
from optimus.engine import Engine
from optimus.limit import Limit, Limiter
from optimus.pattern import Exactness
from optimus.plan import Plan
from optimus.regions import Region
from verify.differential import quiet
from verify.fault import Fault, faults
from verify.smaller import Sample, candidates, part, readers, surrounding

DEPTHS = (1, 2, 4, 8, 16)
SECONDS = 120.0


@dataclass(frozen=True)
class Minimised:
    """The smallest sample found, its fault, and whether random inputs would show it too (then it has them)."""

    sample: Sample
    fault: Fault
    random: bool
    tried: int


class Minimiser:
    """Cuts samples down on which rewriting by ``plan`` makes a difference. ``seconds``: after which it stops where it is."""

    def __init__(self, plan: Plan, *, seconds: float = SECONDS) -> None:
        self.plan = plan
        self.deadline = time.monotonic() + seconds
        self.tried = 0

    def faults(self, sample: Sample, limit: Limit | None = None) -> list[Fault]:
        """What rewriting changes."""
        after = copy.deepcopy(sample.gm)
        journal = Engine(after, self.plan, limiter=Limiter(limit or Limit())).run()
        if not journal.rewrites:
            return []
        kinds = {p.name: p.exactness for p in self.plan}
        bitwise = all(kinds[r.pattern] is Exactness.BITWISE for r in journal.rewrites)
        return faults(sample.gm.forward, after.forward, lambda: fresh(sample.inputs), bitwise=bitwise)

    def between(self, before: GraphModule, after: GraphModule, inputs: Sequence[Any]) -> list[Fault]:
        """What differs between two graphs, of which the patterns of the plan have made the second."""
        bitwise = all(p.exactness is Exactness.BITWISE for p in self.plan)
        with quiet():
            return faults(before.forward, after.forward, lambda: fresh(inputs), bitwise=bitwise)

    def run(self, sample: Sample, limit: Limit) -> Minimised | None:
        """The smallest sample with the fault that ``sample`` has under ``limit``; None if it shows none there."""
        with quiet():
            return self._run(sample, limit)

    def _run(self, sample: Sample, limit: Limit) -> Minimised | None:
        seen = self.faults(sample, limit)
        if not seen:
            return None
        start, wanted = self._cut_out(sample, limit, min(seen, key=lambda f: f.rank))
        small, wanted = self._shrunk(start, wanted)
        drawn = self._drawn(small, wanted)
        return Minimised(drawn or small, wanted, drawn is not None, self.tried)

    def _cut_out(self, sample: Sample, limit: Limit, wanted: Fault) -> tuple[Sample, Fault]:
        """The region of the rewrites alone, or with as much around it as the fault needs; and the fault as it shows there."""
        core = rewritten_names(sample, self.plan, limit)
        grown: list[Collection[str]] = [core, readers(sample, core)]
        grown += [surrounding(sample, core, depth) for depth in DEPTHS]
        for names in grown:
            found = part(sample, names)
            alive = None if found is None else self._alive(found, wanted.same_kind)
            if found is not None and alive is not None:
                return found, alive
        return sample, wanted

    def _shrunk(self, sample: Sample, wanted: Fault) -> tuple[Sample, Fault]:
        """Greedily: the first candidate that keeps the fault is gone on with, until none does."""
        again = True

        def right(found: Fault) -> bool:
            return _same(found, wanted)

        while again and time.monotonic() < self.deadline:
            again = False
            for make in candidates(sample):
                found = make()
                alive = None if found is None or not _smaller(found, sample) else self._alive(found, right)
                if found is not None and alive is not None:
                    sample, wanted, again = found, replace(wanted, index=alive.index, line=alive.line), True
                    break
                if time.monotonic() > self.deadline:
                    break
        return sample, wanted

    def _drawn(self, sample: Sample, wanted: Fault) -> Sample | None:
        """The sample with random inputs, if these show the fault as well."""
        generator = torch.Generator().manual_seed(0)

        def draw(given: object) -> object:
            if not isinstance(given, torch.Tensor) or not given.is_floating_point():
                return given
            made = torch.empty_like(given).copy_(torch.randn(given.shape, generator=generator))
            return made.requires_grad_(given.requires_grad)

        with torch.no_grad():
            drawn = replace(sample, inputs=tuple(map(draw, sample.inputs)))
        return drawn if self._alive(drawn, lambda f: _same(f, wanted)) else None

    def _alive(self, sample: Sample, right: Callable[[Fault], bool]) -> Fault | None:
        """The fault of ``sample`` that is the right one, or None."""
        self.tried += 1
        return next(filter(right, self.faults(sample)), None)


def _same(found: Fault, wanted: Fault) -> bool:
    """The same fault, wherever the output or input stands among those that are left."""
    return replace(found, index=0).same(replace(wanted, index=0))


def _smaller(found: Sample, sample: Sample) -> bool:
    return (found.size, found.elements, len(found.inputs)) < (sample.size, sample.elements, len(sample.inputs))


def rewritten_names(sample: Sample, plan: Plan, limit: Limit) -> set[str]:
    """The operators of ``sample`` that are involved in the rewrites that happen under ``limit``."""
    regions: list[Region] = []
    Engine(copy.deepcopy(sample.gm), plan, lambda region: regions.append(region), limiter=Limiter(limit)).run()
    there = {n.name for n in sample.calls}
    return {n.name for r in regions for n in r.before.graph.nodes if n.op != "output"} & there
