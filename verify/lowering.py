"""From Torch-IR to ATen-IR: the forward graph, and the joint graph of a forward pass and the gradients that follow it.

PyTorch's own dispatcher and autograd are traced on the fakes of a captured graph, so that sizes stay the symbols that they
are and both sides of a rewrite speak of the same ones. No decomposition is asked for: the graphs hold the operators that
eager runs. Gradients are those of ``torch.autograd.grad`` with ``allow_unused=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, disable_fake_tensor_cache
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from fuzz.fakes import BARE, RememberingMode, quiet
from optimus.state import fake_mode
from optimus.values import leaves, tensor, value
from optimus.versions import asked_of_sizes, forget_answers, graph_module, names_traced, without_layout_notes
from verify.recording import Recorder, UnrecordedError, recorded
from verify.running import runner


class LoweringError(ValueError):
    """A graph that cannot be traced to ATen-IR. The message says why."""


@dataclass(frozen=True)
class Lowered:
    """A captured graph at ATen-IR.

    ``forward``: inputs to outputs. ``joint``: inputs and one cotangent for each output that requires gradients, to outputs
    and then one gradient, or None, for each input that requires one (``wanted``, by name). ``requires_grad``: of each output, False
    for what is no tensor. ``questions``: what tracing took for true of the sizes, as expressions of their symbols.
    ``fan_out``: how many tensors of the captured graph require a gradient and are used more than once, so that theirs is a sum.
    """

    forward: GraphModule
    joint: GraphModule
    wanted: tuple[str, ...]
    requires_grad: tuple[bool, ...]
    questions: tuple[Any, ...]
    fan_out: int

    @property
    def outputs(self) -> int:
        """How many outputs the forward graph has, flat."""
        return len(self.requires_grad)

    @property
    def without(self) -> tuple[str, ...]:
        """The inputs that require a gradient and get None, by name."""
        gradients = _returned(self.joint)[self.outputs :]
        return tuple(name for name, found in zip(self.wanted, gradients, strict=True) if found is None)


def lower(gm: GraphModule, grad: bool = True) -> Lowered:
    """The ATen-IR graphs of a captured graph. ``grad``: whether gradients are recorded at its entry.

    Raises :class:`LoweringError` where PyTorch refuses to trace it, and where the trace is not what the metadata says.
    """
    given = list(gm.graph.find_nodes(op="placeholder"))
    mode = fake_mode(gm.graph)
    if mode is None:
        raise LoweringError("the graph has no fake tensors; accepted are captured graphs with metadata")
    # Remembered results and answers would come without the questions that were asked for them.
    forget_answers(mode.shape_env)
    with (
        quiet(),
        torch.set_grad_enabled(grad),
        mode,
        disable_fake_tensor_cache(mode),
        without_layout_notes(),
        asked_of_sizes(mode.shape_env) as questions,
    ):
        try:
            traced = _recorded(gm, given, mode) if mode.shape_env is None and not mode.propagate_real_tensors else None
            joint, told, sources = _traced(gm, given) if traced is None else traced
        except LoweringError:
            raise
        except Exception as error:  # whatever an operator raises on fakes
            raise LoweringError(f"{type(error).__name__}: {error}") from error
    wanted = tuple(given[k].name for k in sources)
    forward = _only_forward(joint, told, len(given))
    for node in (*joint.graph.nodes, *forward.graph.nodes) if told.bare else ():
        if node.name in told.bare:
            del node.meta["val"]
    return Lowered(forward, joint, wanted, tuple(told.requires_grad), tuple(questions), _fan_out(gm))


def _traced(gm: GraphModule, given: Sequence[Node]) -> tuple[GraphModule, _Told, list[int]]:
    """The joint graph, what is noted of it, and which inputs want a gradient."""
    told = _Told([], set(), names_traced)
    inputs, sources, cotangents = _begun(gm, given)
    return make_fx(_joint(gm, len(inputs), sources, told))(*inputs, *cotangents), told, sources


def _recorded(gm: GraphModule, given: Sequence[Node], mode: FakeTensorMode) -> tuple[GraphModule, _Told, list[int]] | None:
    """The same at less cost where all sizes are numbers; None for what takes more than that."""
    recorder = Recorder(mode)
    bare: set[str] = set()

    def seen(node: Node, made: Any) -> None:
        if BARE in node.meta:
            bare.update(found.name for fake in leaves(made) if (found := recorder.wrote(fake)) is not None)

    told = _Told([], set(), recorder.names, bare, seen)
    with RememberingMode(recorder.remembered):
        inputs, sources, cotangents = _begun(gm, given)
    try:
        return recorded(_joint(gm, len(inputs), sources, told), [*inputs, *cotangents], recorder), told, sources
    except UnrecordedError:
        return None


def _begun(gm: GraphModule, given: Sequence[Node]) -> tuple[list[Any], list[int], list[torch.Tensor]]:
    """The inputs, which of them want a gradient, and the cotangents."""
    inputs = [_leaf(value(node)) for node in given]
    sources = [k for k, i in enumerate(inputs) if isinstance(i, torch.Tensor) and i.requires_grad]
    return inputs, sources, [torch.empty_like(t).detach() for t in _shown(gm) if isinstance(t, torch.Tensor) and t.requires_grad]


def _leaf(given: Any) -> Any:
    """An input that autograd has not seen yet, in the memory of the one of the capture."""
    return given.detach().requires_grad_(given.requires_grad) if isinstance(given, torch.Tensor) else given


@dataclass(frozen=True)
class _Told:
    """What is noted while a joint graph is traced: which outputs require gradients, and the names of the nodes of the forward pass.

    ``names``: gives those of the nodes traced so far. ``bare``: the nodes of which the graphs shall say nothing (:data:`fuzz.fakes.BARE`),
    which ``seen`` finds.
    """

    requires_grad: list[bool]
    forward: set[str]
    names: Callable[[], list[str]]
    bare: set[str] = field(default_factory=set)
    seen: Callable[[Node, Any], None] | None = None


def _joint(gm: GraphModule, count: int, sources: Sequence[int], told: _Told) -> Any:
    """The function to be traced. ``sources``: which inputs want a gradient; others may come to require one by a write."""

    run = runner(gm, told.seen)

    def joint(*given: Any) -> list[Any]:
        inputs, cotangents = given[:count], given[count:]
        outputs = pytree.tree_leaves(run(*inputs))
        told.forward.update(told.names())
        told.requires_grad.extend(isinstance(o, torch.Tensor) and o.requires_grad for o in outputs)
        if sum(told.requires_grad) != len(cotangents):
            raise LoweringError(f"{sum(told.requires_grad)} outputs require gradients, {len(cotangents)} by the metadata")
        for k, i in enumerate(inputs):
            if k not in sources and isinstance(i, torch.Tensor) and i.requires_grad and not any(o is i for o in outputs):
                raise LoweringError(f"input {k} comes to require a gradient, and is not returned")
        wanted = [inputs[k] for k in sources]
        ends = [o for o, requires in zip(outputs, told.requires_grad, strict=True) if requires]
        gradients = torch.autograd.grad(ends, wanted, cotangents, allow_unused=True) if ends and wanted else [None] * len(wanted)
        return [*outputs, *gradients]

    return joint


def _only_forward(joint: GraphModule, told: _Told, inputs: int) -> GraphModule:
    """The joint graph without cotangents and without what stands behind the forward pass, writes included.

    Sizes are put into a graph where they are first used, so that one that is only returned stands behind it.
    """
    returned = _returned(joint)[: len(told.requires_grad)]
    forward = {n for n in joint.graph.nodes if n.op == "placeholder" or n.name in told.forward}
    late = [n for n in returned if isinstance(n, Node)]
    while late:
        node = late.pop()
        if node not in forward:
            if tensor(node) is not None:
                raise LoweringError(f"an output is {node.name}, which the backward pass computes")
            forward.add(node)
            late += node.all_input_nodes
    graph = torch.fx.Graph()
    copied: dict[Node, Node] = {}
    for node in joint.graph.nodes:
        if node in forward:
            copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output([copied[n] if isinstance(n, Node) else n for n in returned])
    graph.eliminate_dead_code()
    for node in list(graph.find_nodes(op="placeholder"))[inputs:]:
        if node.users:
            raise LoweringError(f"{next(iter(node.users)).name} of the forward pass depends on a cotangent")
        graph.erase_node(node)
    return graph_module(joint, graph)


def _fan_out(gm: GraphModule) -> int:
    return sum(t.requires_grad and len(node.users) > 1 for node in gm.graph.nodes if (t := tensor(node)) is not None)


def _returned(gm: GraphModule) -> Sequence[Any]:
    return pytree.tree_leaves(gm.graph.output_node().args[0])


def _shown(gm: GraphModule) -> list[Any]:
    """What the metadata says of each output, flat."""
    return [value(found) if isinstance(found, Node) else found for found in _returned(gm)]
