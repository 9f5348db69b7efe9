"""From how many members, or pieces, on a pattern pays: through Inductor without and with it, for each number of them.

``python -m benchmarks.thresholds [--small] [--jobs N] [--only TEXT] [--json FILE]``

What ``min_fuse_set_size``, ``threshold_to_cat`` and ``max_own_inputs`` should be by default is read from its table. Cells and columns are those of
``benchmarks.aten_batches``; every pattern runs alone, with the least threshold that it accepts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.aten_batches import Cell, measure
from optimus.plan import Plan

ROWS, WIDTH = 1024, 64
MEMBERS = (2, 3, 4, 5, 8, 16)
PIECES = (2, 4, 8, 10, 16, 32)


def _joined(function: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[int], Callable[..., Any]]:
    """``function`` of each of ``n`` inputs, its weight and its bias, the results in one tensor."""

    def with_members(n: int) -> Callable[..., Any]:
        return lambda t: torch.cat([function(x, w, b) for x, w, b in zip(t[:n], t[n : 2 * n], t[2 * n :], strict=True)], 1)

    return with_members


def _joined_pieces(t: Sequence[torch.Tensor]) -> Any:
    """All pieces but the first and the last joined behind another tensor; those two are used too."""
    pieces = torch.split(t[0], WIDTH, 1)
    return torch.cat([t[1], *pieces[1:-1]], 1).exp(), pieces[0] * 2, pieces[-1] + 1


def _norms_of_slices(t: Sequence[torch.Tensor]) -> Any:
    """The norm of each slice of one tensor with its own weight and bias, the results in one tensor."""
    n = len(t[0])
    return torch.cat([_norm(x, w, b) for x, w, b in zip(torch.unbind(t[0]), t[1 : n + 1], t[n + 1 :], strict=True)], 1)


def _norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (WIDTH,), w[0], b)


def _tanh(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tanh(torch.addmm(b, x, w))


BATCHED: dict[str, Callable[[int], Callable[..., Any]]] = {
    "batch_linear": _joined(F.linear),
    "group_linear": _joined(F.linear),
    "batch_layernorm": _joined(_norm),
    "batch_tanh": _joined(_tanh),
}


@dataclass(frozen=True)
class Threshold(Cell):
    """A pattern and a number of members or pieces."""

    def program(self, device: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
        """See :class:`benchmarks.aten_batches.Cell`."""
        generator = torch.Generator(device).manual_seed(0)

        def draw(*shape: int) -> torch.Tensor:
            return torch.randn(shape, device=device, generator=generator)

        if self.workload == "slices":
            return _norms_of_slices, [draw(self.count, ROWS, WIDTH), *(draw(*s) for s in [(WIDTH, WIDTH)] * self.count + [(WIDTH,)] * self.count)]
        if self.pattern not in BATCHED:
            return _joined_pieces, [draw(ROWS, (self.count + 2) * WIDTH), draw(ROWS, WIDTH)]
        shapes = [(ROWS, WIDTH)] * self.count, [(WIDTH, WIDTH)] * self.count, [(WIDTH,)] * self.count
        return BATCHED[self.pattern](self.count), [draw(*s) for group in shapes for s in group]

    def plan(self, on: bool) -> Plan:
        """See :class:`benchmarks.aten_batches.Cell`."""
        options = {"min_fuse_set_size" if self.pattern in BATCHED else "threshold_to_cat": 2}
        if self.pattern == "batch_layernorm":
            options["max_own_inputs"] = MEMBERS[-1]
        after = ("unbind_stack_pass",) if self.workload == "slices" else ()
        return Plan.of("normalization_pass", (self.pattern, options), *after) if on else Plan()


def cells(small: bool) -> list[Cell]:
    """All that is measured."""
    found: list[Cell] = [Threshold(p, "members", n) for p in BATCHED for n in (MEMBERS[:2] if small else MEMBERS)]
    found += [Threshold("batch_layernorm", "slices", n) for n in (MEMBERS[:2] if small else MEMBERS)]
    return found + [Threshold("split_cat_to_slices_pass", "pieces", n) for n in (PIECES[:2] if small else PIECES)]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line for each cell as it is done."""
    return measure(cells, f"{ROWS} rows of {WIDTH}, float32", __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(main())
