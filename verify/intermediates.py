"""Where two graphs of one model part: run side by side, value by value, none kept longer than it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from optimus.copies import fresh
from optimus.effects import effects
from optimus.journal import source_line
from optimus.modes import modes_restored
from verify.compare import USERS, differing_bits


@dataclass(frozen=True)
class Divergence:
    """The first value that both graphs compute under one name and that differs.

    ``relative``: the largest error relative to the largest element; None where shapes or dtypes differ, or elements are not
    finite. ``lines``: where the model computes it. ``compared``: how many values agreed before it.
    """

    name: str
    text: str
    relative: float | None
    line: str | None
    compared: int

    def __str__(self) -> str:
        where = f", at {self.line}" if self.line else ""
        return f"{self.name} is the first of {self.compared + 1} values that differs{where}: {self.text}"


def first_divergence(before: GraphModule, after: GraphModule, inputs: Sequence[Any], *, tolerance: float = 0.0, seed: int = 0) -> Divergence | None:
    """The first value, in the order of ``before``, that is off in ``after`` by more than ``tolerance`` of its largest element.

    Both graphs take ``inputs``; values correspond by the names of their nodes, and those that only one graph computes are passed
    over. With a tolerance of 0, bits count. A value of ``after`` that ``before`` has not computed yet waits for it. Random
    numbers are drawn by both from the same state. None if all agree; raises what ``before`` raises.
    """
    ahead: dict[str, Any] = {}
    wanted = {n.name for n in before.graph.nodes} & {n.name for n in after.graph.nodes}
    compared = 0
    with torch.random.fork_rng(), torch.no_grad(), modes_restored():
        torch.manual_seed(seed)
        left, right = _Values(before, fresh(inputs)), _Values(after, fresh(inputs))
        other = iter(right)
        for node, one in left:
            if node.name not in wanted:
                continue
            try:
                found = _awaited(node.name, other, ahead, wanted)
            except USERS as error:
                return Divergence(node.name, f"the rewritten graph raises {type(error).__name__}: {error}", None, source_line(node), compared)
            text, relative = _difference(one, found, tolerance)
            if text:
                return Divergence(node.name, text, relative, source_line(node), compared)
            compared += 1
    return None


def _awaited(name: str, other: Iterator[tuple[Node, Any]], ahead: dict[str, Any], wanted: set[str]) -> Any:
    """The value called ``name``; others that come before it and will be asked for are held until then."""
    while name not in ahead:
        node, found = next(other)
        if node.name in wanted:
            ahead[node.name] = _held(found)
    return ahead.pop(name)


def _held(found: Any) -> Any:
    return found.detach().clone() if isinstance(found, torch.Tensor) else found


class _Values:
    """The values of a graph, one after the other; each is dropped behind its last reader. Draws from a generator state of its own."""

    def __init__(self, gm: GraphModule, inputs: Sequence[Any]) -> None:
        self.gm, self.inputs, self.state = gm, list(inputs), _generators()
        self.last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(gm.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.last.setdefault(node, []).append(used)

    def __iter__(self) -> Iterator[tuple[Node, Any]]:
        values: dict[Node, Any] = {}
        inputs = iter(self.inputs)
        for node in self.gm.graph.nodes:
            if node.op == "output":
                return
            values[node] = next(inputs) if node.op == "placeholder" else self._computed(node, values)
            yield node, values[node]
            for used in self.last.get(node, ()):
                del values[used]
            if not node.users:
                values.pop(node, None)

    def _computed(self, node: Node, values: dict[Node, Any]) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: values[n])
        target: Any = node.target
        if node.op == "get_attr":
            found: Any = self.gm
            for part in str(target).split("."):
                found = getattr(found, part)
            return found
        call: Callable[[], Any] = (
            (lambda: getattr(args[0], target)(*args[1:], **kwargs))
            if node.op == "call_method"
            else (lambda: (self.gm.get_submodule(target) if node.op == "call_module" else target)(*args, **kwargs))
        )
        effect = effects(node)
        if not (effect.random or effect.opaque):
            return call()
        outside = _generators()
        _set_generators(self.state)
        try:
            return call()
        finally:
            self.state = _generators()
            _set_generators(outside)


def _generators() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The states of the random number generators of the CPU and of the GPUs in use."""
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def _set_generators(states: tuple[torch.Tensor, list[torch.Tensor]]) -> None:
    torch.set_rng_state(states[0])
    if states[1]:
        torch.cuda.set_rng_state_all(states[1])


def _difference(one: Any, other: Any, tolerance: float) -> tuple[str, float | None]:
    """What differs in words, empty if nothing does, and by how much."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)) and len(one) == len(other):
        return next((d for d in (_difference(a, b, tolerance) for a, b in zip(one, other, strict=True)) if d[0]), ("", None))
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return "", None
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}", None
    wrong = differing_bits(one, other)
    if not bool(wrong.any()):
        return "", None
    error = torch.where(wrong, (one.to(torch.complex128) - other.to(torch.complex128)).abs(), 0.0)
    scale = float(one.to(torch.complex128).abs().max()) or 1.0
    relative = float(error.max()) / scale
    finite = relative == relative and relative != float("inf")
    if finite and relative <= tolerance and tolerance > 0:
        return "", None
    size = f"the largest error is {relative:.3g} of the largest element" if finite else "elements are not finite"
    return f"{int(wrong.sum())} of {wrong.numel()} elements differ, {size}", relative if finite else None
