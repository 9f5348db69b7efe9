"""Programs that know nothing of any pattern: operators drawn one after the other, each valid for the values it meets."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from fuzz.program import LAYOUTS, Input, Program, Step, Var, run_steps, tensor_names

Maker = Callable[[st.DrawFn, str, list[str], dict[str, Any]], Step]


@st.composite
def blind_programs(draw: st.DrawFn, max_steps: int = 12) -> Program:
    """A program of up to ``max_steps`` operators over one to three inputs, which eager runs."""
    inputs = tuple(_input(draw, k) for k in range(draw(st.integers(1, 3))))
    program = Program(inputs, (), (inputs[0].name,))
    for number in range(max_steps):
        if number and not draw(st.booleans()):
            break
        grown = _grown(draw, program, number)
        if grown is not None:
            program = grown
    values = run_steps(program, program.make_inputs())
    made = [s.name for s in program.steps() if isinstance(values[s.name], torch.Tensor)]
    outputs = tuple(made[-3:]) or (inputs[0].name,)
    return Program(program.inputs, program.body, outputs)


def _input(draw: st.DrawFn, number: int) -> Input:
    shape = tuple(draw(st.lists(st.sampled_from((2, 4, 1, 3, 0)), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from((torch.float32, torch.float32, torch.bfloat16, torch.int64)))
    return Input(f"x{number}", shape, dtype, draw(st.booleans()), draw(st.sampled_from(LAYOUTS)), draw(st.booleans()), number)


def _grown(draw: st.DrawFn, program: Program, number: int) -> Program | None:
    values = run_steps(program, program.make_inputs())
    make = draw(st.sampled_from(MAKERS))
    step = make(draw, f"v{number}", tensor_names(values), values)
    grown = Program(program.inputs, (*program.body, step), program.outputs)
    try:
        found = run_steps(grown, grown.make_inputs())[step.name]
    except Exception:  # noqa: BLE001 - eager refuses this step
        return None
    if isinstance(found, (tuple, list)) and not found:
        return None
    if isinstance(found, (tuple, list)):
        items = [Step(f"{step.name}_{k}", operator.getitem, (Var(step.name), k)) for k in range(min(len(found), 6))]
        grown = Program(program.inputs, (*grown.body, *items), program.outputs)
    return grown


def _one(draw: st.DrawFn, names: list[str]) -> Var:
    return Var(draw(st.sampled_from(list(reversed(names)))))


def _unary(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    target = draw(st.sampled_from((torch.tanh, torch.relu, torch.neg, torch.sigmoid, torch.abs, torch.exp, torch.square, torch.detach, torch.clone)))
    return Step(name, target, (_one(draw, names),))


def _binary(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    target = draw(st.sampled_from((operator.add, operator.mul, operator.sub, torch.maximum)))
    return Step(name, target, (_one(draw, names), _one(draw, names)))


def _scalar(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    target = draw(st.sampled_from((operator.add, operator.mul, operator.sub, operator.truediv)))
    return Step(name, target, (_one(draw, names), draw(st.sampled_from((2, 0.5, -1, 3)))))


def _split(draw: st.DrawFn, name: str, names: list[str], values: dict[str, Any]) -> Step:
    x = _one(draw, names)
    rank = values[x.name].dim()
    dim = draw(st.integers(-rank, max(rank - 1, 0)))
    if not rank or draw(st.booleans()):
        return Step(name, torch.split, (x, draw(st.integers(1, 3)), dim))
    extent = values[x.name].shape[dim]
    cuts = sorted(draw(st.lists(st.integers(0, extent), max_size=4)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]
    target: Any = draw(st.sampled_from((torch.split, "split")))
    return Step(name, target, (x, sizes, dim))


def _unbind(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    target: Any = draw(st.sampled_from((torch.unbind, "unbind")))
    return Step(name, target, (_one(draw, names), draw(st.integers(-2, 2))))


def _join(draw: st.DrawFn, name: str, names: list[str], values: dict[str, Any]) -> Step:
    first = _one(draw, names)
    alike = [n for n in names if values[n].shape == values[first.name].shape]
    inputs = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=5))
    target = draw(st.sampled_from((torch.cat, torch.stack)))
    return Step(name, target, ([Var(n) for n in inputs],), (("dim", draw(st.integers(-2, 2))),))


def _pieces(draw: st.DrawFn, name: str, names: list[str], values: dict[str, Any]) -> Step:
    """A join of all pieces of one cut, in order: what random choice would hardly ever hit."""
    cuts = [n for n, v in values.items() if isinstance(v, (tuple, list))]
    if not cuts:
        return _unary(draw, name, names, values)
    cut = draw(st.sampled_from(cuts))
    pieces = [Var(n) for n in names if n.startswith(f"{cut}_")]
    return Step(name, draw(st.sampled_from((torch.cat, torch.stack))), (pieces or [Var(names[0])],), (("dim", draw(st.integers(-2, 2))),))


def _shape(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    x = _one(draw, names)
    return draw(
        st.sampled_from(
            (
                Step(name, "reshape", (x, -1)),
                Step(name, "transpose", (x, 0, -1)),
                Step(name, "unsqueeze", (x, 0)),
                Step(name, "flatten", (x,)),
                Step(name, torch.movedim, (x, 0, -1)),
                Step(name, "contiguous", (x,)),
                Step(name, operator.getitem, (x, 0)),
                Step(name, operator.getitem, (x, slice(1, None))),
                Step(name, "squeeze", (x,)),
            )
        )
    )


def _matrix(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    target = draw(st.sampled_from((torch.nn.functional.linear, torch.matmul)))
    return Step(name, target, (_one(draw, names), _one(draw, names)))


def _reduce(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    return Step(name, draw(st.sampled_from(("sum", "mean"))), (_one(draw, names), draw(st.integers(-1, 1))))


def _write(draw: st.DrawFn, name: str, names: list[str], _: dict[str, Any]) -> Step:
    x = _one(draw, names)
    return draw(st.sampled_from((Step(name, "add_", (x, 1)), Step(name, "mul_", (x, 2)), Step(name, "zero_", (x,)))))


MAKERS: tuple[Maker, ...] = (_unary, _split, _join, _pieces, _unbind, _binary, _scalar, _shape, _matrix, _reduce, _write, _pieces)
