"""What ``group_kernels`` saves: kernels launched and time of a call, through Inductor without and with it.

``python -m benchmarks.inductor_ir`` runs workloads of many small independent kernels on the GPU: kernels are counted with the profiler in one
call, times are medians over rounds in which both ways alternate. It prints a Markdown table. On a CPU, or with ``--cpu``, the kernels
that Inductor generates are counted instead.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import optimus
from optimus.plan import Plan

ROUNDS, CALLS = 15, 20


def activations(xs: Sequence[Tensor]) -> list[Tensor]:
    """A pointwise function of each of many features."""
    return [torch.tanh(x) * 2 + 1 for x in xs]


def norms(xs: Sequence[Tensor]) -> Tensor:
    """The norm of each of many tensors, as clipping takes it."""
    return torch.stack([x.float().square().sum() for x in xs]).sum().sqrt()


def rows(xs: Sequence[Tensor]) -> list[Tensor]:
    """The sum of squares of each row of many tensors."""
    return [x.float().square().sum(1) for x in xs]


def layer_norms(xs: Sequence[Tensor]) -> list[Tensor]:
    """A layer norm of each of many features."""
    return [F.layer_norm(x, (x.shape[-1],)) for x in xs]


def copies(xs: Sequence[Tensor]) -> list[Tensor]:
    """Each of many tensors transposed in memory and converted."""
    return [x.t().contiguous().half() for x in xs]


def large(xs: Sequence[Tensor]) -> list[Tensor]:
    """As :func:`activations`, of tensors whose work is more than a launch; declined by default."""
    return activations(xs)


WORKLOADS: dict[str, tuple[Callable[..., Any], int, tuple[int, int]]] = {
    "256 activations of 64 x 64": (activations, 256, (64, 64)),
    "256 activations of 512 x 512": (activations, 256, (512, 512)),
    "256 norms of 64 x 64": (norms, 256, (64, 64)),
    "256 row sums of 256 x 128": (rows, 256, (256, 128)),
    "256 layer norms of 128 x 64": (layer_norms, 256, (128, 64)),
    "128 layer norms of 512 x 512": (layer_norms, 128, (512, 512)),
    "256 transposed copies of 64 x 64": (copies, 256, (64, 64)),
    "32 activations of 2048 x 2048": (large, 32, (2048, 2048)),
}


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with code of its own, so that what is compiled of one is not taken for another's."""
    assert isinstance(function, types.FunctionType)
    code = function.__code__.replace(co_name=f"{function.__code__.co_name}_{next(_numbers)}")
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


_numbers = itertools.count()


def compiled(function: Callable[..., Any], on: bool, group: int) -> Callable[..., Any]:
    """``function`` through Inductor, with the pattern or without."""
    found: Callable[..., Any] = optimus.compile(apart(function), plan=Plan.of(("group_kernels", {"max_group": group})) if on else Plan())
    return found


def launched(call: Callable[[], Any]) -> int:
    """CUDA kernels, copies and fills in one call."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    return sum(e.device_type == torch.autograd.DeviceType.CUDA for e in seen.events())


def milliseconds(calls: Sequence[Callable[[], Any]], cuda: bool, rounds: int = ROUNDS, each: int = CALLS) -> list[list[float]]:
    """Times of each of ``calls`` in milliseconds, in rounds in which they alternate."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for k, call in enumerate(calls):
            if cuda:
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(each):
                call()
            if cuda:
                torch.cuda.synchronize()
            found[k].append(1000 * (time.perf_counter() - start) / each)
    return found


def device_time(call: Callable[[], Any]) -> float:
    """Time of the kernels of one call alone, in milliseconds; the median of some calls, replayed as a CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        call()
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def generated(function: Callable[..., Any], xs: Sequence[Tensor], on: bool, group: int) -> tuple[Callable[..., Any], int, float]:
    """The compiled function, how many kernels Inductor generated for it, and the seconds that took."""
    from torch._inductor import metrics

    metrics.reset()
    run = compiled(function, on, group)
    start = time.perf_counter()
    with torch._inductor.config.patch(force_disable_caches=True):
        run(xs)
    return run, metrics.generated_kernel_count, time.perf_counter() - start


def measure(name: str, device: str, group: int) -> str:
    """One row of the table."""
    function, count, shape = WORKLOADS[name]
    if device == "cpu":
        count = min(count, 48)
    xs = [torch.randn(shape, device=device) for _ in range(count)]
    runs, kernels, seconds = zip(*(generated(function, xs, on, group) for on in (False, True)), strict=True)
    expected = function(xs)
    for run in runs:
        for one, other in zip(torch.utils._pytree.tree_leaves(run(xs)), torch.utils._pytree.tree_leaves(expected), strict=True):
            torch.testing.assert_close(one, other)
    calls = [lambda run=run: run(xs) for run in runs]
    told = [f"{launched(c)}" if device == "cuda" else f"{k} generated" for c, k in zip(calls, kernels, strict=True)]
    before, after = map(statistics.median, milliseconds(calls, device == "cuda"))
    alone = " | ".join(f"{device_time(c):.3f}" for c in calls) if device == "cuda" else "- | -"
    return (
        f"| {name if device == 'cuda' else f'{count} of: {name}'} | {told[0]} | {told[1]} | {before:.3f} | {after:.3f} | {before / after:.2f}x "
        f"| {alone} | {seconds[0]:.1f} | {seconds[1]:.1f} |"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--group", type=int, default=16, help="the option max_group, at least 2")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS))
    a = parser.parse_args()
    device = "cpu" if a.cpu or not torch.cuda.is_available() else "cuda"
    torch._dynamo.config.cache_size_limit = 64
    where = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"PyTorch {torch.__version__}, {where}, optimus {optimus.__version__}, max_group={a.group}\n")
    print("| workload | kernels before | after | ms before | after | faster | GPU ms alone before | after | compile s before | after |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in a.only or WORKLOADS:
        print(measure(name, device, a.group), flush=True)


if __name__ == "__main__":
    main()
