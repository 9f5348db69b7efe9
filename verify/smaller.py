"""Ways to make a captured graph with real inputs smaller. Each yields candidates; whether the fault lives on is asked elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from optimus.copies import fresh
from optimus.modes import modes_restored
from optimus.values import value
from verify.compare import USERS


@dataclass(frozen=True)
class Sample:
    """A captured graph and the inputs it runs on."""

    gm: GraphModule
    inputs: tuple[Any, ...]

    @property
    def calls(self) -> list[Node]:
        """The operators."""
        return [n for n in self.gm.graph.nodes if n.op in ("call_function", "call_method")]

    @property
    def size(self) -> int:
        """How many operators it has."""
        return len(self.calls)

    @property
    def elements(self) -> int:
        """How many elements its inputs have."""
        return sum(i.numel() for i in self.inputs if isinstance(i, torch.Tensor))


def rebuilt(graph: Graph, inputs: Sequence[Any]) -> Sample | None:
    """``graph`` less what is dead, with metadata for ``inputs``; inputs that nothing reads go, numbers become literals.

    None where the operators refuse such inputs.
    """
    made, fakes, kept = Graph(), FakeTensorMode(allow_non_fake_inputs=True), []
    nodes: dict[Node, Any] = {}
    live = _live(graph)
    try:
        with modes_restored():
            for node, given in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
                if not isinstance(given, torch.Tensor):
                    nodes[node] = given
                elif node in live:
                    nodes[node] = made.placeholder(node.name)
                    nodes[node].meta["example_value"] = fakes.from_tensor(given)
                    kept.append(given)
            with fakes:
                for node in graph.nodes:
                    if node in live and node.op in ("call_function", "call_method"):
                        nodes[node] = _copied(made, node, nodes)
    except USERS:
        return None
    made.output(map_arg(graph.output_node().args[0], lambda n: nodes[n]))
    return Sample(GraphModule(torch.nn.Module(), made), tuple(kept))


def _copied(made: Graph, node: Node, nodes: dict[Node, Any]) -> Node:
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: nodes[n])
    copied = made.create_node(node.op, node.target, args, kwargs, name=node.name)
    fake_args, fake_kwargs = map_arg((args, kwargs), lambda n: n.meta["example_value"])
    target: Any = node.target
    copied.meta["example_value"] = (
        getattr(fake_args[0], target)(*fake_args[1:], **fake_kwargs) if node.op == "call_method" else target(*fake_args, **fake_kwargs)
    )
    if "stack_trace" in node.meta:
        copied.meta["stack_trace"] = node.meta["stack_trace"]
    return copied


def _live(graph: Graph) -> set[Node]:
    """What is returned, what does more than compute its result, and all that these read."""
    from optimus.effects import effects

    live: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in live or (node.op.startswith("call_") and not effects(node).pure):
            live.update((node, *node.all_input_nodes))
    return live


def values_of(sample: Sample, wanted: Sequence[Node]) -> list[Any]:
    """What nodes hold when the graph runs on its inputs; nothing else is kept."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in sample.gm.graph.nodes:
        if node.op == "output":
            graph.output([copies[n] for n in wanted])
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output") or _does_more(n))
    torch.manual_seed(0)
    with modes_restored():
        found: list[Any] = GraphModule(sample.gm, graph).forward(*fresh(sample.inputs))
    return found


def _does_more(node: Node) -> bool:
    from optimus.effects import effects

    return node.op in ("call_function", "call_method") and not effects(node).pure


def part(sample: Sample, names: Collection[str], outputs: Collection[str] = ()) -> Sample | None:
    """The operators called ``names`` as a graph of their own, on the very values that they read in the whole.

    It returns what the whole reads of them, or ``outputs``. What cuts a tensor into several comes along with its pieces.
    """
    chosen = {n for n in sample.calls if n.name in names}
    while more := {u for n in chosen for u in n.all_input_nodes if u.op != "placeholder" and u not in chosen and _several(u)}:
        chosen |= more
    inputs = list(dict.fromkeys(u for n in sample.calls if n in chosen for u in n.all_input_nodes if u not in chosen))
    returned = [n for n in sample.calls if n in chosen and _tensor(n) and (n.name in outputs if outputs else any(u not in chosen for u in n.users))]
    if not returned:
        return None
    found = values_of(sample, inputs)
    graph, copies = Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
    for node in sample.calls:
        if node in chosen:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output(tuple(copies[n] for n in returned))
    return rebuilt(graph, [_leaf(v) for v in found])


def _several(node: Node) -> bool:
    return isinstance(value(node), (tuple, list))


def _tensor(node: Node) -> bool:
    return isinstance(value(node), torch.Tensor)


def _leaf(found: Any) -> Any:
    if not isinstance(found, torch.Tensor):
        return found
    return found.detach().clone(memory_format=torch.preserve_format).requires_grad_(found.requires_grad)


def surrounding(sample: Sample, names: Collection[str], depth: int) -> set[str]:
    """``names`` with all operators at most ``depth`` steps from them, in either direction."""
    found = {n for n in sample.calls if n.name in names}
    for _ in range(depth):
        found |= {m for n in found for m in (*n.users, *n.all_input_nodes) if m.op in ("call_function", "call_method")}
    return {n.name for n in found}


def readers(sample: Sample, names: Collection[str]) -> set[str]:
    """``names`` with the operators that read them."""
    found = {n for n in sample.calls if n.name in names}
    return {n.name for n in found | {u for n in found for u in n.users if u.op in ("call_function", "call_method")}}


# ----------------------------------------------------------------------------------------------------------- candidates


def candidates(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    """Ways to make ``sample`` smaller, the largest steps first."""
    yield from _fewer_outputs(sample)
    yield from _without_stretches(sample)
    yield from _inputs_for_values(sample)
    yield from _bypassed(sample)
    yield from _shorter_lists(sample)
    yield from _smaller_sizes(sample)


def _fewer_outputs(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    returned = sample.gm.graph.output_node().args[0]
    if isinstance(returned, (tuple, list)) and len(returned) > 1:
        for kept in range(len(returned)):
            yield lambda kept=kept: _edited(sample, lambda g: _set_output(g, [kept]))  # type: ignore[misc]
        for left in range(len(returned)):
            yield lambda left=left: _edited(sample, lambda g: _set_output(g, [k for k in range(len(returned)) if k != left]))  # type: ignore[misc]


def _set_output(graph: Graph, kept: Sequence[int]) -> None:
    output = graph.output_node()
    returned: Any = output.args[0]
    output.args = (tuple(returned[k] for k in kept),)


def _without_stretches(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    """Inputs in the place of all that a stretch of the graph computes: halves first, down to pairs."""
    names = [n.name for n in sample.calls]
    length = len(names) // 2
    while length > 1:
        for start in range(0, len(names), length):
            yield lambda start=start, length=length: part(sample, {*names[:start], *names[start + length :]}, _returned(sample))  # type: ignore[misc]
        length //= 2


def _inputs_for_values(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    """An input in the place of a value that is computed; where it is used last first, so that most goes at once."""
    for node in reversed(sample.calls):
        if _tensor(node) and not all(u.op == "output" for u in node.users):
            yield lambda node=node: part(sample, {n.name for n in sample.calls if n is not node}, _returned(sample, node))  # type: ignore[misc]


def _returned(sample: Sample, without: Node | None = None) -> list[str]:
    return [n.name for n in sample.gm.graph.output_node().all_input_nodes if n is not without]


def _bypassed(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    for node in reversed(sample.calls):
        for other in node.all_input_nodes:
            if _tensor(node) and _tensor(other) and value(node).shape == value(other).shape and value(node).dtype == value(other).dtype:
                yield lambda node=node, other=other: _edited(sample, lambda g: _bypass(g, node.name, other.name))  # type: ignore[misc]


def _bypass(graph: Graph, name: str, other: str) -> None:
    nodes = {n.name: n for n in graph.nodes}
    nodes[name].replace_all_uses_with(nodes[other])


def _shorter_lists(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    for node in sample.calls:
        for place, given in enumerate(node.args):
            if isinstance(given, (list, tuple)) and len(given) > 1 and all(isinstance(one, Node) for one in given):
                for k in reversed(range(len(given))):
                    yield lambda node=node, place=place, k=k: _edited(sample, lambda g: _drop(g, node.name, place, k))  # type: ignore[misc]


def _drop(graph: Graph, name: str, place: int, k: int) -> None:
    node = next(n for n in graph.nodes if n.name == name)
    given: Any = list(node.args[place])
    del given[k]
    node.args = (*node.args[:place], given, *node.args[place + 1 :])


def _edited(sample: Sample, change: Callable[[Graph], None]) -> Sample | None:
    graph = copy.deepcopy(sample.gm).graph
    try:
        change(graph)
    except USERS:
        return None
    return rebuilt(graph, sample.inputs)


# ---------------------------------------------------------------------------------------------------------------- sizes


def _smaller_sizes(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    """Every extent cut down, with the numbers in arguments that are equal to it, or as they are; sections of splits too."""
    yield from _smaller_sections(sample)
    extents = sorted({e for i in sample.inputs if isinstance(i, torch.Tensor) for e in i.shape if e > 1}, reverse=True)
    for old in extents:
        for new in dict.fromkeys(n for n in (1, 2, old // 2, old - 1) if 0 < n < old):
            for last in (False, True):
                yield lambda old=old, new=new, last=last: _resized(sample, old, new, last, {old: new})  # type: ignore[misc]
                yield lambda old=old, new=new, last=last: _resized(sample, old, new, last, {})  # type: ignore[misc]


def _smaller_sections(sample: Sample) -> Iterator[Callable[[], Sample | None]]:
    for node in sample.calls:
        for place, given in enumerate(node.args):
            if isinstance(given, (list, tuple)) and given and all(isinstance(g, int) for g in given):
                for k, size in enumerate(given):
                    if size > 1:
                        sizes = [*given[:k], 1, *given[k + 1 :]]
                        yield lambda node=node, place=place, sizes=sizes: _recut(sample, node, place, sizes)  # type: ignore[misc]


def _recut(sample: Sample, node: Node, place: int, sizes: list[int]) -> Sample | None:
    old, new = sum(node.args[place]), sum(sizes)  # type: ignore[arg-type]
    graph = copy.deepcopy(sample.gm).graph
    copied = next(n for n in graph.nodes if n.name == node.name)
    copied.args = (*copied.args[:place], sizes, *copied.args[place + 1 :])
    return rebuilt(_renumbered(graph, {old: new}), [_sliced(i, old, new, False) for i in sample.inputs])


def _resized(sample: Sample, old: int, new: int, last: bool, numbers: dict[int, int]) -> Sample | None:
    graph = _renumbered(copy.deepcopy(sample.gm).graph, numbers)
    return rebuilt(graph, [_sliced(i, old, new, last) for i in sample.inputs])


def _sliced(given: Any, old: int, new: int, last: bool) -> Any:
    """A tensor with each extent ``old`` cut down to its first, or last, ``new``."""
    if not isinstance(given, torch.Tensor) or old not in given.shape:
        return given
    cut = given.detach()
    for dim, extent in enumerate(given.shape):
        if extent == old:
            cut = cut.narrow(dim, old - new if last else 0, new)
    return cut.clone(memory_format=torch.preserve_format).requires_grad_(given.requires_grad)


def _renumbered(graph: Graph, numbers: dict[int, int]) -> Graph:
    def changed(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return type(given)(map(changed, given))
        if isinstance(given, slice):
            return slice(*map(changed, (given.start, given.stop, given.step)))
        return numbers.get(given, given) if type(given) is int else given

    for node in graph.nodes:
        if numbers and node.op in ("call_function", "call_method"):
            node.args, node.kwargs = tuple(map(changed, node.args)), {k: changed(v) for k, v in node.kwargs.items()}
    return graph


__all__ = ["Sample", "candidates", "part", "readers", "rebuilt", "surrounding", "values_of"]
