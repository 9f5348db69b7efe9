"""A captured graph as the text of a Python function that can be run, read and captured again."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from optimus.values import MISSING, value

INFIX: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.matmul: "@", operator.pow: "**",
    operator.floordiv: "//", operator.mod: "%", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.eq: "==", operator.ne: "!=", operator.and_: "&", operator.or_: "|", operator.xor: "^",
}  # fmt: skip

HOMES: tuple[tuple[Any, str], ...] = ((torch, "torch"), (torch.nn.functional, "torch.nn.functional"), (torch.Tensor, "torch.Tensor"))


class NoTextError(ValueError):
    """A graph of which no program can be written; the message says why."""


def source(gm: GraphModule, name: str = "program", *, notes: bool = True) -> str:
    """The graph as a function called ``name``. ``notes``: with dtype and shape behind each line.

    Raises :class:`NoTextError` for what has no text: attributes, modules, constants that are neither numbers nor PyTorch's.
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    lines = [f"def {name}({', '.join(n.name for n in inputs)}):"]
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method"):
            lines.append(f"    {_line(node)}{_note(node) if notes else ''}")
        elif node.op == "output":
            lines.append(f"    return {_text(node.args[0])}")
        elif node.op != "placeholder":
            raise NoTextError(f"{node.name} is a {node.op}; accepted are inputs, functions and methods")
    return "\n".join(lines)


def imports(text: str) -> list[str]:
    """The modules that a text of :func:`source` names."""
    found = {m.rsplit(".", 1)[0] for m in re.findall(r"\b((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)\(", text)}
    tops = sorted(m for m in found if m.startswith(("operator", "math", "builtins", "optimus")) or m == "torch.amp.autocast_mode")
    return [f"import {m}" for m in dict.fromkeys([*tops, "torch"])]


def _line(node: Node) -> str:
    target: Any = node.target
    args, kwargs = list(map(_text, node.args)), [f"{k}={_text(v)}" for k, v in node.kwargs.items()]
    if node.op == "call_method":
        return f"{node.name} = {args[0]}.{target}({', '.join([*args[1:], *kwargs])})"
    if target is operator.getitem:
        return f"{node.name} = {args[0]}[{_index(node.args[1])}]"
    if target is operator.setitem:
        return f"{args[0]}[{_index(node.args[1])}] = {args[2]}"
    if target in INFIX and len(args) == 2 and not kwargs:
        return f"{node.name} = {args[0]} {INFIX[target]} {args[1]}"
    return f"{node.name} = {_called(target)}({', '.join([*args, *kwargs])})"


def _called(target: Callable[..., Any]) -> str:
    """How to write a function."""
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return "torch.ops." + str(target).replace("::", ".")
    name = getattr(target, "__name__", "")
    for home, prefix in HOMES:
        if getattr(home, name, None) is target:
            return f"{prefix}.{name}"
    module = (getattr(target, "__module__", None) or "").removeprefix("_")  # operator's functions say that they are _operator's
    if not module or "<" in getattr(target, "__qualname__", "<"):
        raise NoTextError(f"{target!r} has no name by which it could be called; accepted are functions of modules")
    return f"{module}.{name}"


def _text(given: Any) -> str:
    if isinstance(given, Node):
        return given.name
    if isinstance(given, (list, tuple)):
        inside = ", ".join(map(_text, given))
        return f"[{inside}]" if isinstance(given, list) else f"({inside}{',' if len(given) == 1 else ''})"
    if isinstance(given, dict):
        return "{" + ", ".join(f"{k!r}: {_text(v)}" for k, v in given.items()) + "}"
    if isinstance(given, slice):
        return f"slice({_text(given.start)}, {_text(given.stop)}, {_text(given.step)})"
    if isinstance(given, torch.device):
        return f"torch.{given!r}"
    if isinstance(given, float) and (given != given or given in (float("inf"), float("-inf"))):
        return f'float("{given}")'
    if given is None or given is Ellipsis:
        return "None" if given is None else "..."
    if isinstance(given, (bool, int, float, complex, str, torch.dtype, torch.memory_format, torch.layout)):
        return str(given) if isinstance(given, (torch.memory_format, torch.layout)) else repr(given)
    raise NoTextError(
        f"a constant of type {type(given).__name__} has no text; accepted are numbers, texts, and dtypes, devices and formats of PyTorch"
    )


def _index(given: Any) -> str:
    if isinstance(given, tuple) and given:
        return ", ".join(map(_index, given)) + ("," if len(given) == 1 else "")
    if isinstance(given, slice):
        ends = [("" if e is None else _text(e)) for e in (given.start, given.stop)]
        return ":".join(ends if given.step is None else [*ends, _text(given.step)])
    return _text(given)


def _note(node: Node) -> str:
    held = note(node)
    return f"  # {held}" if held else ""


def note(node: Node) -> str:
    """What a node holds, in a few words: ``float32 (4, 8)``; empty if the graph does not say."""
    found = value(node)
    if found is MISSING:
        return ""
    if isinstance(found, torch.Tensor):
        return f"{str(found.dtype).removeprefix('torch.')} {tuple(found.shape)}"
    if isinstance(found, (tuple, list)):
        return f"{len(found)} tensors"
    return ""
