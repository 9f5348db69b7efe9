"""ATen-IR in production: the plan on the forward and backward graphs that AOTAutograd makes.

With Inductor that is its hook ``post_grad_custom_pre_pass``, behind whatever stands there; with ``aot_eager`` the compilers that it
is given for the two graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule

from optimus.pattern import IR, HorizontalPattern, VerticalPattern
from optimus.plan import Plan

HOOK = "post_grad_custom_pre_pass"

Change = Callable[[GraphModule], object]
"""Rewrites a graph in place."""


def behind_autograd(plan: Plan) -> Plan:
    """Those of its steps that rewrite the graphs of ATen behind autograd."""
    return Plan(tuple(p for p in plan.at(IR.ATEN) if isinstance(p, (HorizontalPattern, VerticalPattern))))


class PostGradPass(CustomGraphPass):
    """``change`` as a pass for Inductor, behind ``previous``: one pass, a list of them, or None.

    ``identity``: what stands for ``change`` in Inductor's cache key; equal only if it does the same. None: nothing is cached.
    """

    def __init__(self, change: Change, identity: str | None, previous: Any = None) -> None:
        self.change = change
        self.identity = identity
        self.previous: tuple[Any, ...] = () if previous is None else tuple(previous) if isinstance(previous, (list, tuple)) else (previous,)

    def __call__(self, graph: Graph) -> None:
        """Rewrite ``graph`` in place."""
        for earlier in self.previous:
            earlier(graph)
        gm = graph.owning_module
        if isinstance(gm, GraphModule):
            self.change(gm)

    def uuid(self) -> Any:
        """Part of Inductor's cache key. None, so that nothing is cached, where this pass or one in front of it has none."""
        parts = [self.identity, *(earlier.uuid() if hasattr(earlier, "uuid") else None for earlier in self.previous)]
        return ":".join(map(str, parts)) if all(parts) else None


def aot_eager(change: Change | None, partitioner: Callable[..., Any] | None = None) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
    """The backend ``aot_eager`` with ``change`` on each of its graphs, cut apart by ``partitioner`` (default: as that backend does)."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def compiler(graph: GraphModule, inputs: Any) -> Any:
        if change is not None:
            change(graph)
        return boxed_nop(graph, inputs)

    cut = partitioner or min_cut_rematerialization_partition
    found: Callable[..., Any] = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=cut, keep_inference_input_mutations=True)
    return found
