"""What the passes cost: our default plan beside PyTorch's own passes for the same patterns, on the same graphs.

Seconds of processor time per node of the captured Torch-IR graph, the best of ``--runs``, each on a copy of its own.
Where PyTorch's passes raise, the error is printed and the table says ``nan``. Models are those of
:mod:`benchmarks.models`; ``Chain`` with a number behind it has about that many nodes, and shows how the cost grows.

    python -m benchmarks.pass_time FiBiNET AutoInt Branches256 Chain1000 Chain10000 Chain100000 --alone --plot passes.svg
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, GraphModule

import optimus
from benchmarks.models import make
from optimus.capture import capture
from optimus.plan import default_plan

PYTORCH_LIMIT_S = 300.0
"""PyTorch's passes are asked for larger graphs only while they stay under this."""


def chain(nodes: int) -> tuple[GraphModule, list[torch.Tensor]]:
    """Blocks of six linears over the pieces of a split, tanh, and cat, one after the other: about ``nodes`` nodes."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = Graph()
    with FakeTensorMode() as mode:
        x, w = graph.placeholder("x"), graph.placeholder("w")
        inputs = [torch.randn(4, 48), torch.randn(8, 8)]
        for node, real in zip((x, w), inputs, strict=True):
            node.meta["example_value"] = mode.from_tensor(real)

        def call(target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            node = graph.call_function(target, args, kwargs)
            fakes = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["example_value"])
            node.meta["example_value"] = target(*fakes[0], **fakes[1])
            return node

        while len(graph.nodes) < nodes:
            pieces = call(torch.split, x, 8, dim=1)
            parts = [call(torch.tanh, call(torch.nn.functional.linear, _item(graph, pieces, k), w)) for k in range(6)]
            x = call(torch.cat, parts, dim=1)
        graph.output((x,))
    return GraphModule(torch.nn.Module(), graph), inputs


def _item(graph: Graph, pieces: Any, k: int) -> Any:
    import operator

    node = graph.call_function(operator.getitem, (pieces, k))
    node.meta["example_value"] = pieces.meta["example_value"][k]
    return node


def graph_of(name: str) -> tuple[GraphModule, list[Any]]:
    """The graph called ``name`` and its inputs."""
    if name.startswith("Chain"):
        return chain(int(name.removeprefix("Chain")))
    model, inputs = make(name)
    found = max(capture(model, inputs), key=lambda c: len(c.gm.graph.nodes))
    return found.gm, list(found.inputs)


def ours(gm: GraphModule, inputs: list[Any]) -> int:
    """Run the default plan; the number of rewrites."""
    del inputs
    return len(optimus.rewrite(gm).rewrites)


def pytorch(gm: GraphModule, inputs: list[Any]) -> int:
    """Run PyTorch's passes of the same names as far as it has them; the number of pattern matches that it counts."""
    import torch._inductor.config as inductor
    from torch._dynamo.utils import counters
    from torch._inductor.fx_passes.group_batch_fusion import PRE_GRAD_FUSIONS
    from torch._inductor.fx_passes.pre_grad import pre_grad_passes
    from torch._inductor.fx_passes.split_cat import PRE_GRAD_PATTERNS

    counters.clear()
    known = [p.name for p in default_plan() if p.name in PRE_GRAD_PATTERNS or p.name in PRE_GRAD_FUSIONS]
    with inductor.patch(pre_grad_fusion_options={name: {} for name in known}, force_disable_caches=True):
        pre_grad_passes(gm, inputs)
    return int(sum(counters["inductor"].values()))


def best(run: Callable[[GraphModule, list[Any]], int], gm: GraphModule, inputs: list[Any], runs: int) -> tuple[float, int]:
    """The least processor time of some runs in seconds, and what the last one counts."""
    least, count = float("inf"), 0
    for _ in range(runs):
        fresh = copy.deepcopy(gm)
        start = time.process_time()
        count = run(fresh, inputs)
        least = min(least, time.process_time() - start)
        if least > 30:
            break
    return least, count


def main() -> int:
    """Measure the graphs that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without PyTorch's passes")
    parser.add_argument("--plot", type=Path, help="where to draw the time over the number of nodes, as SVG (needs matplotlib)")
    a = parser.parse_args()
    print("| graph | nodes | ours µs/node | rewrites | PyTorch µs/node | matches | ratio |\n|---|---|---|---|---|---|---|", flush=True)
    points: list[tuple[int, float]] = []
    slow = a.alone
    for name in a.graphs:
        gm, inputs = graph_of(name)
        nodes = len(gm.graph.nodes)
        mine, rewrites = best(ours, gm, inputs, a.runs)
        try:
            theirs, matches = (float("nan"), 0) if slow else best(pytorch, gm, inputs, a.runs)
        except Exception as error:  # noqa: BLE001 - PyTorch's passes let the errors of their patterns through
            print(f"{name}: PyTorch's passes raise {type(error).__name__}: {error}", file=sys.stderr)
            theirs, matches = float("nan"), 0
        slow = slow or theirs > PYTORCH_LIMIT_S / 10
        points.append((nodes, mine))
        print(
            f"| {name} | {nodes} | {mine / nodes * 1e6:.0f} | {rewrites} | {theirs / nodes * 1e6:.0f} | {matches} | {mine / theirs:.2f} |", flush=True
        )
    if a.plot:
        draw(points, a.plot)
    return 0


def draw(points: list[tuple[int, float]], path: Path) -> None:
    """Seconds over nodes on logarithmic axes, beside a straight line through the first point. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    nodes, seconds = zip(*sorted(points), strict=True)
    axes.loglog(nodes, seconds, "o-", label="default plan")
    axes.loglog(nodes, [seconds[0] * n / nodes[0] for n in nodes], ":", label="proportional to the number of nodes")
    axes.set_xlabel("nodes")
    axes.set_ylabel("processor time of all passes (s)")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
