"""Inside the process that is bisected: finds the call on which the guilty rewrites make a difference, and saves its inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from optimus.copies import fresh
from optimus.engine import Engine
from optimus.limit import Limiter
from optimus.modes import modes_restored
from optimus.plan import Plan
from optimus.rewriter import Validator
from optimus.values import is_static, size_key, value
from verify.compare import USERS
from verify.minimise import Minimiser
from verify.saved import save
from verify.smaller import Sample, rebuilt
from verify.witness import real_inputs

OBSERVER = "verify.bisection.observe:observer"
SEEN, FIRST, PROBLEM = "seen", "first", "problem.txt"


def observer(
    limiter: Limiter, number: int, original: GraphModule, plan: Plan, validate: Validator | None, compiled: Callable[..., Any] | None
) -> Any:
    """What is called in the place of ``compiled``: the same, which saves the graph and the inputs of the first call that differs.

    ``original``: the graph before it was rewritten under the limit of ``limiter``, which counted it as ``number``. Without ``compiled``, where nobody sees the
    calls, the graph is saved with random inputs.
    """
    assert limiter.limit.record is not None
    folder = Path(limiter.limit.record).parent / "observed"
    if not any(a.graph == number for a in limiter.applied):
        return compiled
    watch = _Watch(folder, limiter, number, original, plan, validate)
    if compiled is None:
        watch.keep(FIRST, _drawn(original))
        return None

    def call(*inputs: Any) -> Any:
        watch.look(inputs)
        return compiled(*inputs)

    return call


class _Watch:
    def __init__(self, folder: Path, limiter: Limiter, number: int, original: GraphModule, plan: Plan, validate: Validator | None) -> None:
        self.folder, self.plan, self.original = folder, plan, original
        self.grad = torch.is_grad_enabled()
        self.done = False
        names = {a.pattern for a in limiter.applied if a.graph == number}
        self.chosen = Plan(tuple(p for p in plan if p.name in names))
        self.rewritten = copy.deepcopy(original)
        again = Limiter(limiter.limit, graphs=number - 1)
        Engine(self.rewritten, plan, validate, grad=self.grad, limiter=_silent(again)).run()

    def look(self, inputs: Sequence[Any]) -> None:
        """Compare the graph before and after on copies of ``inputs``; save them if there is a difference, or at the first call."""
        if self.done:
            return
        kept = fresh(inputs)
        devices = sorted({i.device.index for i in kept if isinstance(i, torch.Tensor) and i.device.type == "cuda"})
        with torch.random.fork_rng(devices), modes_restored():
            found = Minimiser(self.chosen).between(self.original, self.rewritten, kept)
        if found:
            self.done = True
            self.keep(SEEN, kept, found[0].line)
        elif not (self.folder / FIRST).exists():
            self.keep(FIRST, kept)

    def keep(self, name: str, inputs: Sequence[Any], title: str = "The graph and inputs of the first call.") -> None:
        """Save the graph with ``inputs``; a graph that cannot be saved leaves a note why."""
        if (self.folder / SEEN).exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            sample = rebuilt(self.original.graph, inputs) or Sample(self.original, tuple(inputs))
            save(self.folder / name, sample.gm, sample.inputs, self.chosen, title)
        except USERS as error:
            (self.folder / PROBLEM).write_text(f"{type(error).__name__}: {error}\n")


def _silent(limiter: Limiter) -> Limiter:
    from dataclasses import replace

    return Limiter(replace(limiter.limit, record=None, observe=None), limiter.graphs)


def _drawn(gm: GraphModule) -> list[Any]:
    """Random inputs of the sizes that the graph was traced with."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    sizes: dict[str, int] = {}
    for node in placeholders:
        held = value(node)
        for size in held.shape if isinstance(held, torch.Tensor) else [held]:
            if isinstance(size, torch.SymInt) and not is_static(size):
                sizes.update({str(s): int(size.node.shape_env.backed_var_to_val[s]) for s in size_key(size).free_symbols})  # type: ignore[attr-defined]
    return real_inputs(placeholders, sizes)
