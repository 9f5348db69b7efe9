"""What a hunt tries before it draws: every case as it stands, then every case after one change at a time, in the same order each time.

A random draw hits each of these now and then. Here they come first, so that a short hunt has seen all of them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from fuzz.disturb import (
    JOINS,
    cut_otherwise,
    join_whole,
    of_three_operands,
    positions_that_fall,
    renamed,
    runs,
    taken_apart,
    uneven,
    with_another_inside,
    with_empty_vector,
    without_options,
)
from fuzz.program import Program, Region, Step, Var
from fuzz.templates import instantiate
from optimus.capture import names
from optimus.pattern import Case

Change = Callable[[Program], Program | None]

APART = (2, 3, 1, 4, 5, 2, 3, 1)
"""Different sizes, an extent of 1 among them."""


def variants(cases: Sequence[Case], *, complex_numbers: bool = True) -> Iterator[Program]:
    """Programs that eager runs: the cases at sizes of 2, then changed in each way of :data:`CHANGES`, then at other sizes and with uneven sections.

    ``complex_numbers``: also with complex inputs, whose results are only compared bit by bit.
    """
    plain = [p for case in cases if (p := _at(case, (2,))) is not None]
    yield from plain
    yield from _changed(plain, CHANGES if complex_numbers else tuple(c for c in CHANGES if c is not of_complex_numbers))
    yield from _changed([p for case in cases if (p := _at(case, APART)) is not None], OF_SHAPES)
    for sizes in (APART, (0,), (2, 0), (0, 2)):
        for case in cases:
            resized = _at(case, sizes)
            if resized is None:
                continue
            yield resized
            changed = _first(uneven)(resized)
            if changed is not None and runs(changed):
                yield changed


def _changed(programs: Sequence[Program], changes: Sequence[Change]) -> Iterator[Program]:
    """Each change of each program that can be made."""
    for change in changes:
        for program in programs:
            changed = change(program)
            if changed is not None and runs(changed):
                yield changed


def _at(case: Case, sizes: Sequence[int]) -> Program | None:
    """A case at sizes taken in turn; None where eager refuses it."""
    program = instantiate(case, {name: sizes[k % len(sizes)] for k, name in enumerate(names(case))})
    return program if runs(program) else None


def under_autocast(program: Program) -> Program | None:
    """All steps under autocast."""
    steps = tuple(item for item in program.body if isinstance(item, Step))
    return replace(program, body=(Region("autocast", steps),)) if len(steps) == len(program.body) else None


def last_without_gradients(program: Program) -> Program | None:
    """The latter half of the steps without gradients."""
    return _latter_half(program, "no_grad")


def last_under_autocast(program: Program) -> Program | None:
    """The latter half of the steps under autocast."""
    return _latter_half(program, "autocast")


def _latter_half(program: Program, mode: str) -> Program | None:
    steps = tuple(item for item in program.body if isinstance(item, Step))
    half = len(steps) // 2
    return replace(program, body=(*steps[:half], Region(mode, steps[half:]))) if half and len(steps) == len(program.body) else None


def of_complex_numbers(program: Program) -> Program | None:
    """Complex inputs for floating-point ones."""
    return replace(program, inputs=tuple(replace(i, dtype=torch.complex64) if i.dtype.is_floating_point else i for i in program.inputs))


def of_half_precision(program: Program) -> Program | None:
    """The first input, and all of its shape, in bfloat16."""
    if not program.inputs:
        return None
    shape = program.inputs[0].shape
    return replace(program, inputs=tuple(replace(i, dtype=torch.bfloat16) if i.shape == shape else i for i in program.inputs))


def of_one_input(program: Program) -> Program | None:
    """The first input in the place of all others of its shape."""
    first, *others = program.inputs or (None,)
    alike = {i.name: first.name for i in others if first is not None and (i.shape, i.dtype) == (first.shape, first.dtype)}
    return renamed(program, alike) if alike else None


def with_ends_alike(program: Program) -> Program | None:
    """The first input in the place of the last of its shape; those between stay."""
    first, *others = program.inputs or (None,)
    alike = [i.name for i in others if first is not None and (i.shape, i.dtype) == (first.shape, first.dtype)]
    return renamed(program, {alike[-1]: first.name}) if first is not None and len(alike) > 1 else None


def of_a_dimension_fewer(program: Program) -> Program | None:
    """The inputs of the lowest rank without their first dimension: numbers for vectors."""
    rank = min((len(i.shape) for i in program.inputs), default=0)
    return replace(program, inputs=tuple(replace(i, shape=i.shape[1:]) if len(i.shape) == rank else i for i in program.inputs)) if rank else None


def first_in_double_precision(program: Program) -> Program | None:
    """The first input in float64, the others as they are."""
    return _with_first(program, dtype=torch.float64)


def first_without_gradients(program: Program) -> Program | None:
    """The first input without gradients, the others as they are."""
    return _with_first(program, requires_grad=False)


def first_gradient_cut_off(program: Program) -> Program | None:
    """Gradients of the first input alone, and none through the first output: what is computed of it requires them, and none arrive."""
    if len(program.inputs) < 2 or len(program.outputs) < 2:
        return None
    inputs = (program.inputs[0], *(replace(i, requires_grad=False) for i in program.inputs[1:]))
    cut = Step("cut", "detach", (Var(program.outputs[0]),))
    return replace(program, inputs=inputs, body=(*program.body, cut), outputs=("cut", *program.outputs[1:]))


def _with_first(program: Program, **given: Any) -> Program | None:
    changed = replace(program, inputs=(replace(program.inputs[0], **given), *program.inputs[1:])) if len(program.inputs) > 1 else program
    return changed if changed != program else None


def transposed(program: Program) -> Program | None:
    """Inputs of two dimensions and more with the last two exchanged in memory."""
    return replace(program, inputs=tuple(replace(i, layout="transposed") if len(i.shape) > 1 else i for i in program.inputs))


def written_after(program: Program) -> Program | None:
    """Every input written to at the end, none with gradients."""
    inputs = tuple(replace(i, requires_grad=False) for i in program.inputs)
    writes = tuple(Step(f"late{k}", "add_", (Var(i.name), 1)) for k, i in enumerate(inputs))
    return replace(program, inputs=inputs, body=(*program.body, *writes))


def inputs_without_metadata(program: Program) -> Program | None:
    """A graph that does not say what its inputs are."""
    return replace(program, bare=frozenset(i.name for i in program.inputs))


def without_metadata_at(parity: int) -> Change:
    """A graph that does not say what comes of every other step on the way from inputs to outputs."""

    def changed(program: Program) -> Program | None:
        depth = {i.name: 0 for i in program.inputs}
        for step in program.steps():
            depth[step.name] = 1 + max((depth[name] for name in step.used()), default=0)
        return replace(program, bare=frozenset(s.name for s in program.steps() if depth[s.name] % 2 == parity))

    return changed


def first_result_alone(program: Program) -> Program | None:
    """The first output; what the others need is computed and not used."""
    return replace(program, outputs=program.outputs[:1]) if len(program.outputs) > 1 else None


def with_parts_unused(program: Program) -> Program | None:
    """The first join, or what reads most, returned alone."""
    steps = [s for s in program.steps() if s.target in JOINS]
    return replace(program, outputs=(steps[0].name,)) if steps else None


def _first(change: Callable[[Program, Step], Program | None]) -> Change:
    """``change`` at the first step where it can be made."""

    def changed(program: Program) -> Program | None:
        return next((found for step in program.steps() if (found := change(program, step)) is not None), None)

    return changed


CHANGES: tuple[Change, ...] = (
    inputs_without_metadata,
    without_metadata_at(1),
    without_metadata_at(0),
    under_autocast,
    _first(join_whole),
    _first(positions_that_fall),
    _first(with_empty_vector),
    _first(cut_otherwise),
    _first(taken_apart),
    _first(without_options),
    _first(with_another_inside),
    _first(of_three_operands),
    first_result_alone,
    with_parts_unused,
    of_complex_numbers,
    of_one_input,
    of_a_dimension_fewer,
    first_in_double_precision,
    first_without_gradients,
    first_gradient_cut_off,
    last_without_gradients,
    last_under_autocast,
    of_half_precision,
    transposed,
    written_after,
)

OF_SHAPES: tuple[Change, ...] = (of_one_input, with_ends_alike)
"""What is changed at different sizes too, where inputs of one shape are those that the case means to be alike."""
