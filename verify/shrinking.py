"""Cutting programs down: by outputs, and by steps that what they read stands in for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

import torch

from fuzz.program import Program, Region, Step, Var, substitute


def minimise(program: Program, holds: Callable[[Program], bool]) -> Program:
    """The smallest program that ``holds`` still accepts, by leaving out outputs and steps. The inputs stay as they are."""
    changed = True
    while changed:
        changed = False
        for less in smaller(program):
            if holds(less):
                program, changed = less, True
                break
    return program


def smaller(program: Program) -> list[Program]:
    """Programs of less: one output fewer, or one step stood in for by what it reads; dead steps are gone."""
    found = []
    for k in range(len(program.outputs) if len(program.outputs) > 1 else 0):
        found.append(replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :]))
    steps = program.steps()
    for step in reversed(steps):
        if step.target is operator.getitem and len(step.used()) == 1 and any(s.name == step.used()[0] and _cuts(s) for s in steps):
            continue
        for other in dict.fromkeys(step.used()):
            found.append(_stood_in(program, step.name, other))
    for step in reversed(steps):
        if step.name not in program.outputs:
            found.append(replace(program, outputs=(step.name,)))
    return [p for p in map(_alive, found) if p.size() < program.size() or len(p.outputs) < len(program.outputs)]


def _cuts(step: Step) -> bool:
    return step.target in (torch.split, torch.chunk, torch.unbind, "split", "chunk", "unbind")


def _stood_in(program: Program, name: str, other: str) -> Program:
    def changed(var: Var) -> Var:
        return Var(other) if var.name == name else var

    def stood_in(step: Step) -> Step:
        return replace(step, args=substitute(step.args, changed), kwargs=tuple((k, substitute(v, changed)) for k, v in step.kwargs))

    body: list[Step | Region] = []
    for item in program.body:
        if isinstance(item, Region):
            body.append(replace(item, steps=tuple(stood_in(s) for s in item.steps if s.name != name)))
        elif item.name != name:
            body.append(stood_in(item))
    return replace(program, body=tuple(body), outputs=tuple(other if o == name else o for o in program.outputs))


def _alive(program: Program) -> Program:
    """Without dead steps; every input stays, for ``make_inputs`` gives them all."""
    return replace(program.keep_needed(), inputs=program.inputs)
