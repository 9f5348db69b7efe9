"""From Torch-IR to ATen-IR: the forward graph, and the joint graph of a forward pass and the gradients that follow it.

PyTorch's own dispatcher and autograd are traced on the fakes of a captured graph, so that sizes stay the symbols that they
are and both sides of a rewrite speak of the same ones. No decomposition is asked for: the graphs hold the operators that
eager runs. Gradients are those of ``torch.autograd.grad`` with ``allow_unused=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import disable_fake_tensor_cache
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from optimus.state import GraphState
from optimus.values import tensor, value
from optimus.versions import asked_of_sizes, forget_answers, without_layout_notes


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
    mode = GraphState.of(gm.graph, grad).fake_mode
    if mode is None:
        raise LoweringError("the graph has no fake tensors; accepted are captured graphs with metadata")
    # Remembered results and answers would come without the questions that were asked for them.
    forget_answers(mode.shape_env)
    with torch.set_grad_enabled(grad), mode, disable_fake_tensor_cache(mode), without_layout_notes(), asked_of_sizes(mode.shape_env) as questions:
        inputs = [_leaf(value(node)) for node in given]
        cotangents = [torch.empty_like(t) for t in _shown(gm) if isinstance(t, torch.Tensor) and t.requires_grad]
        told: list[bool] = []
        try:
            joint = make_fx(_joint(gm, len(inputs), told))(*inputs, *(c.detach() for c in cotangents))
        except Exception as error:  # whatever an operator raises on fakes
            raise LoweringError(f"{type(error).__name__}: {error}") from error
    wanted = tuple(node.name for node, i in zip(given, inputs, strict=True) if isinstance(i, torch.Tensor) and i.requires_grad)
    return Lowered(_only_forward(joint, len(told), len(given)), joint, wanted, tuple(told), tuple(questions), _fan_out(gm))


def _leaf(given: Any) -> Any:
    """An input that autograd has not seen yet, in the memory of the one of the capture."""
    return given.detach().requires_grad_(given.requires_grad) if isinstance(given, torch.Tensor) else given


def _joint(gm: GraphModule, count: int, told: list[bool]) -> Any:
    """The function to be traced; it notes in ``told`` which outputs require gradients."""

    def joint(*given: Any) -> list[Any]:
        inputs, cotangents = given[:count], given[count:]
        outputs = pytree.tree_leaves(gm(*inputs))
        told.extend(isinstance(o, torch.Tensor) and o.requires_grad for o in outputs)
        if sum(told) != len(cotangents):
            raise LoweringError(f"{sum(told)} outputs require gradients, {len(cotangents)} by the metadata")
        sources = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
        ends = [o for o, requires in zip(outputs, told, strict=True) if requires]
        gradients = torch.autograd.grad(ends, sources, cotangents, allow_unused=True) if ends and sources else [None] * len(sources)
        return [*outputs, *gradients]

    return joint


def _only_forward(joint: GraphModule, outputs: int, inputs: int) -> GraphModule:
    """The joint graph without gradients and without cotangents."""
    graph = torch.fx.Graph()
    copied: dict[Node, Node] = {}
    graph.graph_copy(joint.graph, copied)
    graph.output([copied[n] if isinstance(n, Node) else n for n in _returned(joint)[:outputs]])
    graph.eliminate_dead_code()
    for node in list(graph.find_nodes(op="placeholder"))[inputs:]:
        graph.erase_node(node)
    return GraphModule(joint, graph)


def _fan_out(gm: GraphModule) -> int:
    return sum(t.requires_grad and len(node.users) > 1 for node in gm.graph.nodes if (t := tensor(node)) is not None)


def _returned(gm: GraphModule) -> Sequence[Any]:
    return pytree.tree_leaves(gm.graph.output_node().args[0])


def _shown(gm: GraphModule) -> list[Any]:
    """What the metadata says of each output, flat."""
    return [value(found) if isinstance(found, Node) else found for found in _returned(gm)]
