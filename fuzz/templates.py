"""Programs from the cases of a pattern, at any sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import GraphModule, Node

from fuzz.program import AUTOCAST, Body, Input, Program, Region, Step, Var
from optimus.capture import ARGUMENT, capture_case, dtype_of, shape_of
from optimus.pattern import Case
from optimus.values import value


@functools.lru_cache(maxsize=512)
def captured(case: Case) -> GraphModule:
    """The symbolic graph of a case, captured once."""
    return capture_case(case)


@functools.lru_cache(maxsize=512)
def _template(case: Case) -> GraphModule:
    """The same for this module alone: lowering a graph may ask of its sizes what makes numbers of their symbols."""
    return capture_case(case)


def instantiate(case: Case, sizes: Mapping[str, int], seed: int = 0) -> Program:
    """The program of ``case`` for ``sizes``: the steps of its captured graph with every size a number."""
    gm = _template(case)
    shapes = [shape_of(text, sizes) for text in case.shapes]
    inputs = tuple(Input(f"x{k}", shape, dtype_of(case.shapes[k]), case.grad, seed=seed + k) for k, shape in enumerate(shapes))
    known = _sizes(case, gm, sizes)
    values: dict[Node, Any] = {}
    steps: list[Step] = []
    tensors = iter(_input_order(gm))
    outputs: tuple[str, ...] = ()
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = Var(f"x{next(tensors)}") if isinstance(value(node), torch.Tensor) else known(value(node))
        elif node.op == "output":
            found: list[str] = []
            for item in node.args[0]:
                if isinstance(item, Node) and isinstance(values[item], Var) and isinstance(value(item), torch.Tensor):
                    found.append(values[item].name)
            outputs = tuple(found)
        elif isinstance(value(node), (torch.SymInt, int)) and not isinstance(value(node), bool):
            values[node] = known(value(node))
        else:
            args, kwargs = _plain((node.args, node.kwargs), values, known)
            name = f"v{len(steps)}"
            steps.append(Step(name, node.target, args, tuple(kwargs.items())))
            values[node] = Var(name)
    return Program(inputs, _with_regions(steps), outputs, case.name)


def symbolic_inputs(case: Case, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """What the captured graph of ``case`` is called with for ``sizes``: fresh tensors, and numbers for its symbols."""
    gm = _template(case)
    known = _sizes(case, gm, sizes)
    tensors = iter(_input_order(gm))
    given: list[Any] = []
    for node in gm.graph.find_nodes(op="placeholder"):
        if isinstance(value(node), torch.Tensor):
            k = next(tensors)
            given.append(Input(f"x{k}", shape_of(case.shapes[k], sizes), dtype_of(case.shapes[k]), case.grad, seed=seed + k).make())
        else:
            given.append(known(value(node)))
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


def _plain(given: Any, values: dict[Node, Any], known: Any) -> Any:
    if isinstance(given, Node):
        return values[given]
    if isinstance(given, dict):
        return {k: _plain(v, values, known) for k, v in given.items()}
    if isinstance(given, slice):
        return slice(*(_plain(g, values, known) for g in (given.start, given.stop, given.step)))
    if isinstance(given, tuple):
        return tuple(_plain(g, values, known) for g in given)
    if isinstance(given, list):
        return [_plain(g, values, known) for g in given]
    return known(given) if isinstance(given, torch.SymInt) else given


def _input_order(gm: GraphModule) -> list[int]:
    """For each tensor placeholder in order, which tensor argument of the case it is."""
    found = []
    for node in gm.graph.nodes:
        if node.op == "placeholder" and isinstance(value(node), torch.Tensor):
            found.append(node.meta[ARGUMENT])
    return found


def symbol_values(case: Case, gm: GraphModule, sizes: Mapping[str, int]) -> dict[Any, int]:
    """The symbols of a captured case and their numbers for ``sizes``."""
    symbols: dict[Any, int] = {}
    order = iter(_input_order(gm))
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        found = value(node)
        if isinstance(found, torch.Tensor):
            for extent, number in zip(found.shape, shape_of(case.shapes[next(order)], sizes), strict=True):
                if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                    symbols[extent.node.expr] = number
        elif isinstance(found, torch.SymInt) and found.node.expr.is_Symbol and ARGUMENT in node.meta:
            symbols[found.node.expr] = sizes[case.sizes[node.meta[ARGUMENT] - len(case.shapes)]]
    return symbols


def _sizes(case: Case, gm: GraphModule, sizes: Mapping[str, int]) -> Any:
    """A function from a SymInt of the graph to its number for ``sizes``."""
    symbols = symbol_values(case, gm, sizes)

    def known(given: Any) -> int:
        if isinstance(given, int):
            return given
        return int(given.node.expr.xreplace(symbols))

    return known
