"""Running a graph as it stands: for a graph that runs once or twice, writing and compiling its code costs more than that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule, Node

RUN = {"placeholder", "call_function", "call_method", "output"}


def runner(gm: GraphModule, seen: Callable[[Node, Any], None] | None = None) -> Callable[..., Any]:
    """What ``gm.forward`` does, node by node; ``gm.forward`` itself for a graph that reads from its module.

    A value is let go after its last use, as by the code. ``seen`` is told of each node and its value.
    """
    nodes = list(gm.graph.nodes)
    if any(node.op not in RUN for node in nodes):
        return forward(gm)
    late = _last_uses(nodes)

    def run(*inputs: Any) -> Any:
        values: dict[Node, Any] = {}
        given = iter(inputs)
        for node in nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "output":
                return _filled(node.args[0], values)
            else:
                args, kwargs = _filled(node.args, values), _filled(node.kwargs, values)
                target: Any = node.target
                values[node] = target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)
                del args, kwargs
            if seen is not None:
                seen(node, values[node])
            for read in late.get(node, ()):
                del values[read]
        return None

    return run


def forward(gm: GraphModule) -> Callable[..., Any]:
    """``gm.forward`` as its code says it, which is written now if it is not yet: written by the first call, it would print what it raises."""
    _ = gm.code
    found: Callable[..., Any] = gm.forward
    return found


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """For each node the values that nothing reads behind it."""
    found: dict[Node, list[Node]] = {}
    read: set[Node] = set()
    for node in reversed(nodes):
        if node.op == "output":
            read.update(node.all_input_nodes)
            continue
        unread = [n for n in dict.fromkeys((*node.all_input_nodes, node)) if n not in read]
        if unread:
            found[node] = unread
            read.update(unread)
    return found


def _filled(given: Any, values: Mapping[Node, Any]) -> Any:
    if isinstance(given, Node):
        return values[given]
    if isinstance(given, tuple):
        filled = [_filled(g, values) for g in given]
        return type(given)(*filled) if hasattr(given, "_fields") else tuple(filled)
    if isinstance(given, list):
        return [_filled(g, values) for g in given]
    if isinstance(given, dict):
        return {k: _filled(v, values) for k, v in given.items()}
    if isinstance(given, slice):
        return slice(_filled(given.start, values), _filled(given.stop, values), _filled(given.step, values))
    return given
