"""Programs from the cases of a pattern, at any sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import GraphModule, Node

from fuzz.program import AUTOCAST, Body, Input, Program, Region, Step, Var
from optimus.capture import ARGUMENT, capture_case, dtype_of, shape_of
from optimus.pattern import Case
from optimus.values import value
from optimus.versions import known_of_sizes

Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Size:
    """A size of a template, as an expression of symbols."""

    expression: Any


@dataclass(frozen=True)
class _Template:
    """What a captured graph says before anything is asked of it: lowering it may ask of its sizes what makes numbers of their symbols.

    ``inputs``: for each placeholder the tensor argument that it holds, or a size. ``symbols``: each with the dimension of a tensor
    argument or the name of a size that it stands for.
    """

    inputs: tuple[int | _Size, ...]
    symbols: tuple[tuple[Any, tuple[int, int] | str], ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]


@functools.lru_cache(maxsize=512)
def _capture(case: Case) -> tuple[GraphModule, _Template, tuple[Any, ...]]:
    """The symbolic graph of a case, what it says, and what is known of its sizes."""
    gm = capture_case(case)
    return gm, _template(case, gm), _known(gm)


def captured(case: Case) -> GraphModule:
    """The symbolic graph of a case, captured once."""
    return _capture(case)[0]


def untouched(case: Case) -> GraphModule:
    """The same, of which nothing has been asked that Dynamo did not: captured again where something has."""
    gm, _, known = _capture(case)
    return gm if _known(gm) == known else capture_case(case)


def _known(gm: GraphModule) -> tuple[Any, ...]:
    found = next((v for node in gm.graph.nodes if isinstance(v := value(node), torch.Tensor)), None)
    mode = getattr(found, "fake_mode", None)
    return () if mode is None or mode.shape_env is None else known_of_sizes(mode.shape_env)


def _template(case: Case, gm: GraphModule) -> _Template:
    values: dict[Node, Any] = {}
    inputs: list[int | _Size] = []
    symbols: dict[Any, tuple[int, int] | str] = {}
    steps: list[Step] = []
    outputs: tuple[str, ...] = ()
    for node in gm.graph.nodes:
        what = value(node)
        if node.op == "placeholder":
            inputs.append(node.meta[ARGUMENT] if isinstance(what, torch.Tensor) else _size(what))
            values[node] = Var(f"x{inputs[-1]}") if isinstance(inputs[-1], int) else inputs[-1]
            symbols.update(_symbols(case, node))
        elif node.op == "output":
            shown = [n for n in node.args[0] if isinstance(n, Node) and isinstance(value(n), torch.Tensor)]
            outputs = tuple(values[n].name for n in shown if isinstance(values[n], Var))
        elif isinstance(what, (torch.SymInt, int)) and not isinstance(what, bool):
            values[node] = _size(what)
        else:
            args, kwargs = _changed((node.args, node.kwargs), values)
            steps.append(Step(f"v{len(steps)}", node.target, args, tuple(kwargs.items())))
            values[node] = Var(steps[-1].name)
    return _Template(tuple(inputs), tuple(symbols.items()), tuple(steps), outputs)


def _size(given: Any) -> _Size:
    return _Size(given.node.expr if isinstance(given, torch.SymInt) else given)


def _symbols(case: Case, node: Node) -> dict[Any, tuple[int, int] | str]:
    """The symbols that an input shows, and what they stand for."""
    what, position = value(node), node.meta.get(ARGUMENT)
    if isinstance(what, torch.Tensor):
        extents: list[Any] = list(what.shape)
        return {e.node.expr: (node.meta[ARGUMENT], d) for d, e in enumerate(extents) if isinstance(e, torch.SymInt) and e.node.expr.is_Symbol}
    if isinstance(what, torch.SymInt) and what.node.expr.is_Symbol and position is not None:
        return {what.node.expr: case.sizes[position - len(case.shapes)]}
    return {}


def instantiate(case: Case, sizes: Mapping[str, int], seed: int = 0) -> Program:
    """The program of ``case`` for ``sizes``: the steps of its captured graph with every size a number."""
    shapes = [shape_of(text, sizes) for text in case.shapes]
    inputs = tuple(Input(f"x{k}", shape, dtype_of(case.shapes[k]), case.grad, seed=seed + k) for k, shape in enumerate(shapes))
    return Program(inputs, _body(case, tuple(sizes.items())), _capture(case)[1].outputs, case.name)


@functools.lru_cache(maxsize=4096)
def _body(case: Case, sizes: Sizes) -> Body:
    known = symbol_values(case, dict(sizes))
    return _with_regions([_changed(step, known) for step in _capture(case)[1].steps])


def symbolic_inputs(case: Case, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """What the captured graph of ``case`` is called with for ``sizes``: fresh tensors, and numbers for its symbols."""
    known = symbol_values(case, sizes)
    return [
        _number(k, known)
        if isinstance(k, _Size)
        else Input(f"x{k}", shape_of(case.shapes[k], sizes), dtype_of(case.shapes[k]), case.grad, seed=seed + k).make()
        for k in _capture(case)[1].inputs
    ]


def symbol_values(case: Case, sizes: Mapping[str, int]) -> dict[Any, int]:
    """The symbols of a captured case and their numbers for ``sizes``."""
    shapes = [shape_of(text, sizes) for text in case.shapes]
    return {symbol: sizes[at] if isinstance(at, str) else shapes[at[0]][at[1]] for symbol, at in _capture(case)[1].symbols}


def _number(size: _Size, known: Mapping[Any, int]) -> int:
    return size.expression if isinstance(size.expression, int) else int(size.expression.xreplace(known))


def _changed(given: Any, known: Mapping[Any, Any]) -> Any:
    """``given`` with what is ``known`` of nodes, or of the symbols of its sizes, in their place."""
    match given:
        case Node():
            return known[given]
        case torch.SymInt():
            return _size(given)
        case _Size():
            return _number(given, known)
        case Step():
            return Step(given.name, given.target, _changed(given.args, known), _changed(given.kwargs, known))
        case dict():
            return {k: _changed(v, known) for k, v in given.items()}
        case slice():
            return slice(*(_changed(g, known) for g in (given.start, given.stop, given.step)))
        case tuple():
            return tuple(_changed(g, known) for g in given)
        case list():
            return [_changed(g, known) for g in given]
    return given


def _with_regions(steps: Sequence[Step]) -> Body:
    """``steps`` with those inside a region of autocast as a :class:`Region`. Other regions stay steps that enter and leave."""
    body: list[Step | Region] = []
    inside: list[Step] | None = None
    for step in steps:
        if step.target is _enter_autocast and step.args == AUTOCAST and inside is None:
            inside = []
        elif step.target is _exit_autocast and inside is not None:
            body.append(Region("autocast", tuple(inside)))
            inside = None
        else:
            (body if inside is None else inside).append(step)
    return tuple(body)
