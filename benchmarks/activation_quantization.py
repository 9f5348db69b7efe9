"""What 8-bit activations save and cost: peak memory, compile time, time of a step, and the loss beside the run without them.

``python -m benchmarks.activation_quantization`` trains a stack of ``nn.TransformerEncoderLayer`` (random weights, bfloat16, random
tokens with a pattern to be learnt) four ways: without the pass, and in each format and manner. It prints a Markdown table, and the
versions and the device. ``--json FILE`` keeps the loss of every
step. ``--small`` does the same in little, on the CPU, where there is no peak memory to be measured, so that what
is saved for the backward pass is counted instead (from the graphs, in bytes).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import optimus
from optimus.plan import Plan
from optimus.quantization import Partitioner

NAME = "activation_quantization_aten_pass"
WAYS: dict[str, dict[str, Any] | None] = {
    "without": None,
    "e5m2, scaled": {"quant_type": "float8_e5m2"},
    "e4m3, scaled": {"quant_type": "float8_e4m3fn"},
    "e5m2, not scaled": {"quant_type": "float8_e5m2", "use_scaling": False},
    "e5m2, scaled, from 100 MiB on": {"size_in_mb": 100},
    "e5m2, scaled, exponents too": {"exponents": True},
}
"""Options beside ``size_in_mb`` of :class:`Shape`, where none is given."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the run. ``least_mb``: the option ``size_in_mb``."""

    layers: int
    width: int
    heads: int
    tokens: int
    batch: int
    words: int
    steps: int
    least_mb: int
    device: str


LARGE = Shape(8, 1024, 16, 512, 32, 4096, 200, 4, "cuda")
SMALL = Shape(2, 64, 4, 32, 4, 97, 12, 0, "cpu")
WARM_UP = Shape(1, 64, 4, 32, 4, 97, 3, 0, "cuda")
"""Run first on a GPU, so that what a process does once is in the time of none."""


class Model(nn.Module):
    """Embeddings, a stack of encoder layers, and a guess of the next token."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.words, shape.width)
        self.places = nn.Parameter(torch.randn(shape.tokens, shape.width) * 0.02)
        layer = lambda: nn.TransformerEncoderLayer(shape.width, shape.heads, 4 * shape.width, 0.0, "gelu", batch_first=True, norm_first=True)  # noqa: E731
        self.layers = nn.ModuleList(layer() for _ in range(shape.layers))
        self.last = nn.LayerNorm(shape.width)
        self.guess = nn.Linear(shape.width, shape.words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens ``(batch, n)`` to scores ``(batch, n, words)``; every token is seen by all."""
        h = self.words(tokens) + self.places[: tokens.shape[1]]
        for layer in self.layers:
            h = layer(h)
        found: Tensor = self.guess(self.last(h))
        return found


def batches(shape: Shape) -> Callable[[], tuple[Tensor, Tensor]]:
    """Sequences ``a, a + d, a + 2 d, ...`` with some tokens hidden, which are to be told from the others."""
    generator = torch.Generator().manual_seed(0)

    def draw() -> tuple[Tensor, Tensor]:
        start, by = (torch.randint(0, high, (shape.batch, 1), generator=generator) for high in (shape.words, 17))
        tokens = (start + by * torch.arange(shape.tokens)) % (shape.words - 1) + 1
        hidden = torch.rand(tokens.shape, generator=generator) < 0.15
        return torch.where(hidden, 0, tokens).to(shape.device), tokens.to(shape.device)

    return draw


@dataclass
class Row:
    """What one way of training showed. ``peak``: bytes; ``saved``: bytes that the graphs save for the backward pass beside inputs."""

    name: str
    peak: int = 0
    saved: int = 0
    compile_s: float = 0.0
    step_ms: float = 0.0
    losses: tuple[float, ...] = ()
    quantised: int = 0


class Counted(Partitioner):
    """Counts the bytes that are saved, behind the pass if there is one."""

    saved = 0

    def __call__(self, gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
        """See :class:`Partitioner`."""
        forward, backward = super().__call__(gm, joint_inputs, **kwargs)
        returned = forward.graph.output_node().args[0][kwargs["num_fwd_outputs"] :]
        fakes = [n.meta["val"] for n in returned if n.op != "placeholder" and isinstance(n.meta.get("val"), Tensor)]
        self.saved += sum(f.numel() * f.element_size() for f in fakes)
        return forward, backward


def train(name: str, options: dict[str, Any] | None, shape: Shape) -> Row:
    """Train a fresh model ``shape.steps`` steps."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    row = Row(name)
    cuda = shape.device == "cuda"
    model = Model(shape).to(shape.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, foreach=True)
    draw = batches(shape)
    steps = () if options is None else ((NAME, {"size_in_mb": shape.least_mb, **options}),)
    journals: list[optimus.Journal] = []
    counted = Counted(Plan.of(*steps), journals.append)
    loss_of = torch.compile(lambda x, y: F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten()))
    losses, times = [], []
    with torch._inductor.config.patch(custom_partitioner_fn=counted, force_disable_caches=True):
        for k in range(shape.steps):
            x, y = draw()
            if cuda:
                torch.cuda.synchronize()
                if k == 2:
                    torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            loss = loss_of(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())  # waits for the device
            times.append(time.perf_counter() - start)
    row.peak = torch.cuda.max_memory_allocated() if cuda else 0
    row.saved, row.compile_s, row.step_ms = counted.saved, times[0], 1000 * statistics.median(times[2:])
    row.losses, row.quantised = tuple(losses), sum(len(j.rewrites) for j in journals)
    if cuda:
        torch.cuda.empty_cache()
    return row


def table(rows: list[Row]) -> str:
    """The rows as Markdown, beside the first."""
    first = rows[0]
    lines = [
        "| run | values in 8 bits | saved for backward, MiB | peak, MiB | first step, s | step, ms (median) | loss, last | loss, mean of last 20 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        less = f" ({100 * (r.saved / first.saved - 1):+.1f} %)" if first.saved and r is not first else ""
        peak = "not measured" if not r.peak else f"{r.peak / 2**20:.0f}" + (f" ({100 * (r.peak / first.peak - 1):+.1f} %)" if r is not first else "")
        more = f" ({r.compile_s - first.compile_s:+.1f})" if r is not first else ""
        mean = statistics.mean(r.losses[-20:])
        lines.append(
            f"| {r.name} | {r.quantised} | {r.saved / 2**20:.1f}{less} | {peak} | {r.compile_s:.1f}{more} | {r.step_ms:.1f} "
            f"| {r.losses[-1]:.4f} | {mean:.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--small", action="store_true", help="small, on the CPU")
    parser.add_argument("--steps", type=int, help="training steps of each run, at least 3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured here, a line for each run")
    parser.add_argument("--only", action="append", choices=list(WAYS), help="these runs, besides the one without")
    a = parser.parse_args()
    shape = SMALL if a.small else LARGE
    if a.steps is not None:
        if a.steps < 3:
            parser.error(f"--steps {a.steps}; accepted is 3 or more")
        shape = Shape(**{**vars(shape), "steps": a.steps})
    if shape.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA GPU here; accepted is --small")
    rows = []
    if shape.device == "cuda":
        for name in ("without", "e5m2, scaled"):
            train(name, WAYS[name], WARM_UP)
    for name, options in WAYS.items():
        if name == "without" or not a.only or name in a.only:
            rows.append(train(name, options, shape))
            if a.json is not None:
                with a.json.open("a") as file:
                    file.write(json.dumps(asdict(rows[-1])) + "\n")
            print(
                f"{name}: {rows[-1].saved / 2**20:.0f} MiB saved, peak {rows[-1].peak / 2**20:.0f} MiB, {rows[-1].compile_s:.1f} s to compile, loss {rows[-1].losses[0]:.4f} to {rows[-1].losses[-1]:.4f}",
                flush=True,
            )
    where = torch.cuda.get_device_name() if shape.device == "cuda" else "CPU"
    same = all(r.losses[0] == rows[0].losses[0] for r in rows)
    print(f"\nPyTorch {torch.__version__}, {where}; {shape}; first losses {'the same bits' if same else 'differ'}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
