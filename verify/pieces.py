"""Cutting programs down by the pieces of what they cut: one piece read in place of another, or one piece fewer."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from fuzz.program import Input, Program, Region, Step, Var, substitute

SPLITS = (torch.split, "split")
UNBINDS = (torch.unbind, "unbind")
CUTS = (*SPLITS, *UNBINDS, torch.chunk, "chunk")


def fewer_pieces(program: Program) -> Iterator[Program]:
    """Programs that read one piece fewer. Whether they run is for the caller to ask; an input may be smaller by the piece."""
    steps = program.steps()
    for cut in (s for s in steps if s.target in CUTS):
        pieces = [s for s in steps if s.target is operator.getitem and s.args[0] == Var(cut.name) and isinstance(s.args[1], int)]
        for gone in reversed(pieces):
            less = without(program, gone)
            if less is not None:
                yield from _shorter(less, cut, pieces, gone.args[1])
                yield less
        for gone, kept in itertools.permutations(pieces, 2):
            other = _changed(program, partial(_reading, gone, kept))
            yield from _shorter(other, cut, pieces, gone.args[1])
            yield other


def without(program: Program, gone: Step) -> Program | None:
    """The program without a step that is only ever an item of a list with others; None for any other step."""
    readers = [s for s in program.steps() if gone.name in s.used()]
    if not readers or gone.name in program.outputs or not all(_left_out(s, gone.name) for s in readers):
        return None
    return _changed(program, lambda s: None if s.name == gone.name else _left_out(s, gone.name) or s)


def _left_out(step: Step, name: str) -> Step | None:
    """The step with one item fewer in its lists; None where it does not read ``name``, or not in lists alone, or has no other item."""

    def shorter(given: Any) -> Any:
        return type(given)(g for g in given if g != Var(name)) if isinstance(given, (list, tuple)) and Var(name) in given else given

    args, kwargs = tuple(map(shorter, step.args)), tuple((k, shorter(v)) for k, v in step.kwargs)
    less = replace(step, args=args, kwargs=kwargs)
    emptied = any(g in ([], ()) for g in (*args, *(v for _, v in kwargs)))
    return None if emptied or less == step or name in less.used() else less


def _reading(gone: Step, kept: Step, step: Step) -> Step | None:
    """``step`` with one piece in place of another, which goes."""
    if step.name == gone.name:
        return None

    def changed(var: Var) -> Var:
        return Var(kept.name) if var.name == gone.name else var

    return replace(step, args=substitute(step.args, changed), kwargs=tuple((k, substitute(v, changed)) for k, v in step.kwargs))


def _shorter(program: Program, cut: Step, pieces: Sequence[Step], index: int) -> Iterator[Program]:
    """The program with an input that lacks piece ``index``, where the cut is of an input and says how long each piece is."""
    named = dict(cut.kwargs)
    place = 1 if cut.target in UNBINDS else 2
    dim = named.get("dim", cut.args[place] if len(cut.args) > place else 0)
    source = next((i for i in program.inputs if cut.args and cut.args[0] == Var(i.name) and -len(i.shape) <= dim < len(i.shape)), None)
    if source is None or any(p.args[1] < 0 for p in pieces):
        return
    dim %= len(source.shape)
    sizes = cut.args[1] if cut.target in SPLITS and len(cut.args) > 1 else None
    left: Any = sizes
    if isinstance(sizes, (list, tuple)) and index < len(sizes):
        length, left = sizes[index], type(sizes)([*sizes[:index], *sizes[index + 1 :]])
    elif isinstance(sizes, int) or cut.target in UNBINDS:
        length = sizes if isinstance(sizes, int) else 1
    else:
        return
    if source.shape[dim] <= length:
        return

    def renumbered(step: Step) -> Step:
        if step.name == cut.name and left is not None:
            return replace(step, args=(step.args[0], left, *step.args[2:]))
        moved = step.target is operator.getitem and step.args[0] == Var(cut.name) and step.args[1] > index
        return replace(step, args=(step.args[0], step.args[1] - 1)) if moved else step

    shape = (*source.shape[:dim], source.shape[dim] - length, *source.shape[dim + 1 :])
    inputs: tuple[Input, ...] = tuple(replace(i, shape=shape) if i is source else i for i in program.inputs)
    yield replace(_changed(program, renumbered), inputs=inputs)


def _changed(program: Program, change: Callable[[Step], Step | None]) -> Program:
    """The program with every step changed, less those that become None."""

    def all_of(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(found for s in steps if (found := change(s)) is not None)

    body = [replace(i, steps=all_of(i.steps)) if isinstance(i, Region) else all_of((i,)) for i in program.body]
    flat = tuple(x for b in body for x in (b if isinstance(b, tuple) else (b,)))
    return replace(program, body=flat)
