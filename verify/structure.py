"""A captured graph as text: equal for graphs that a validation cannot tell apart, different for all others.

Names of nodes do not count. What counts: operators and arguments, the metadata of every value (dtype, device, sizes,
strides, offset, ``requires_grad``, which values share memory), and what the shape environment takes for granted.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import _get_qualified_name

from optimus.values import MISSING, is_plain, storage, value
from verify.content import digest, settings

CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...))
NAMED = (torch.dtype, torch.device, torch.memory_format, torch.layout)
HOMES = ("torch", "_operator", "operator", "math", "builtins", "optimus")
"""Where functions live that a graph may call and still have a key."""


class _NoKeyError(Exception):
    """Something of which one cannot say what it is."""


def validation_key(before: GraphModule, after: GraphModule, private: frozenset[int], grad: bool, timeout_s: float, second_solver: bool) -> str | None:
    """The key of the validation of two graphs; None if a graph holds something of which one cannot say what it is."""
    writer = _Writer()
    try:
        texts = [writer.graph(before), writer.graph(after), *writer.environments()]
    except (_NoKeyError, RecursionError):  # a key is only a short cut, and what has none is validated
        return None
    return digest("validation", repr(sorted(private)), repr(grad), *texts, *settings(timeout_s, second_solver))


class _Writer:
    """Writes graphs that may share symbols and storages."""

    def __init__(self) -> None:
        self.storages: dict[int | None, int] = {}
        self.known: dict[Any, int] = {}

    def graph(self, gm: GraphModule) -> str:
        """All nodes in order, a line each."""
        number: dict[Node, int] = {}
        lines = []
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "call_function", "call_method", "output"):
                raise _NoKeyError(node.op)
            called = _target(node.target) if node.op.startswith("call_") else ""
            given = "" if node.op == "placeholder" else self.argument((node.args, node.kwargs), number)
            held = "" if node.op == "output" else self.held(value(node))
            lines.append(f"{node.op} {called} {given} -> {held}")
            number[node] = len(number)
        return "\n".join(lines)

    def argument(self, given: Any, number: Mapping[Node, int]) -> str:
        """An argument, types told apart."""
        if isinstance(given, Node):
            return f"%{number[given]}"
        if isinstance(given, slice):
            return f"slice{self.argument((given.start, given.stop, given.step), number)}"
        if isinstance(given, (tuple, list)):
            return f"{type(given).__name__}[{', '.join(self.argument(g, number) for g in given)}]"
        if isinstance(given, dict):
            return f"dict[{', '.join(f'{k!r}: {self.argument(g, number)}' for k, g in given.items())}]"
        return self.plain(given)

    def plain(self, given: Any) -> str:
        """A number, a symbol, or a constant of PyTorch."""
        if isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            environment = self.known.setdefault(given.node.shape_env, len(self.known))
            return f"{type(given).__name__}@{environment} {_expression(given.node.expr)}"
        if type(given) in CONSTANTS:
            return f"{type(given).__name__} {given!r}"
        if isinstance(given, NAMED):
            return str(given)
        raise _NoKeyError(type(given).__name__)

    def held(self, found: Any) -> str:
        """The metadata of a value."""
        if found is MISSING:
            return "nothing"
        if isinstance(found, torch.Tensor):
            return self.tensor(found)
        if isinstance(found, (tuple, list)):
            return f"{type(found).__name__}[{', '.join(map(self.held, found))}]"
        return self.plain(found)

    def tensor(self, fake: torch.Tensor) -> str:
        """The metadata of a tensor."""
        if not is_plain(fake):
            raise _NoKeyError(type(fake).__name__)
        memory = self.storages.setdefault(storage(fake), len(self.storages))
        sizes = [self.plain(s) for s in (*fake.shape, *fake.stride(), fake.storage_offset())]
        flags = (fake.requires_grad, fake.is_leaf, fake.is_conj(), fake.is_neg(), fake.is_inference(), fake._is_view())
        return f"{fake.dtype} {fake.device} rank {fake.dim()} {sizes} memory {memory} {flags}"

    def environments(self) -> Sequence[str]:
        """What the shape environments of all symbols met take for granted."""
        return [_granted(e) for e in self.known if e is not None]


@functools.lru_cache(maxsize=100_000)
def _expression(expression: Any) -> str:
    """An expression of sizes with the assumptions on its symbols."""
    return str(sympy.srepr(expression))


_written: WeakKeyDictionary[Any, tuple[tuple[int, ...], str]] = WeakKeyDictionary()


def _granted(environment: Any) -> str:
    state = (
        len(environment.guards),
        sum(map(len, environment.deferred_runtime_asserts.values())),
        len(environment.replacements),
        len(environment.var_to_range),
        int(getattr(environment, "_version_counter", 0)),
    )
    known = _written.get(environment)
    if known is None or known[0] != state:
        known = _written[environment] = (state, _environment(environment))
    return known[1]


def _environment(environment: Any) -> str:
    guards = sorted(_expression(g.expr) for g in environment.guards)
    asserted = sorted(_expression(a.expr) for listed in environment.deferred_runtime_asserts.values() for a in listed)
    same = sorted(f"{_expression(s)} = {_expression(e)}" for s, e in environment.replacements.items())
    ranges = sorted(f"{_expression(s)} in {r.lower} to {r.upper}" for s, r in environment.var_to_range.items())
    sizes = sorted(map(str, getattr(environment, "size_like", ())))
    return repr((guards, asserted, same, ranges, sizes))


@functools.lru_cache(maxsize=10_000)
def _target(target: Any) -> str:
    """What a node calls, so that the text names one function alone."""
    if isinstance(target, str):
        return f"method {target}"
    if isinstance(target, torch._ops.OpOverload):
        return f"operator {target} {target._schema}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return f"operators {target} {[str(getattr(target, name)._schema) for name in target.overloads()]}"
    try:
        name = _get_qualified_name(target)
    except (AttributeError, RuntimeError) as error:
        raise _NoKeyError(repr(target)) from error
    if name.partition(".")[0] not in HOMES or _found(name) is not target:
        raise _NoKeyError(name)
    return f"function {name}"


def _found(name: str) -> Any:
    """The object under a dotted name."""
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for attribute in parts[k:]:
            found = getattr(found, attribute, None)
        return found
    return None
