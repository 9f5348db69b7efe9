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
    """Programs of less: one output fewer, one step stood in for by what it reads, or a dead step gone; most without any dead steps."""
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
    used = {name for s in steps for name in s.used()} | set(program.outputs)
    dead = [_without(program, s.name) for s in reversed(steps) if s.name not in used]
    every = [*map(_alive, found), *dead, *found]
    return [p for p in every if p.size() < program.size() or len(p.outputs) < len(program.outputs)]


def _without(program: Program, name: str) -> Program:
    """The program less one step that nobody reads."""
    body = [replace(i, steps=tuple(s for s in i.steps if s.name != name)) if isinstance(i, Region) else i for i in program.body]
    return replace(program, body=tuple(i for i in body if isinstance(i, Region) or i.name != name))


def read_inputs(program: Program) -> Program:
    """The program without inputs that it neither reads nor returns."""
    used = {name for s in program.steps() for name in s.used()} | set(program.outputs)
    return replace(program, inputs=tuple(i for i in program.inputs if i.name in used))


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
