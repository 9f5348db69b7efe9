"""Factories of public click-through models with random weights, from the package deepctr-torch, and of a branch workload.

Each returns ``(model, inputs)``: 26 sparse features with 1,000 values each, 13 dense features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SPARSE, DENSE, VALUES = 26, 13, 1000


class Branches(torch.nn.Module):
    """``count`` branches cut from one tensor, split twice and joined again, normalised, projected, stacked and concatenated.

    Takes ``(count, 64, width)``, gives ``(64, count * width)``.
    """

    def __init__(self, count: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(count))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One result for all branches."""
        results = []
        for norm, layer, branch in zip(self.norms, self.layers, torch.unbind(x), strict=True):
            head, tail = torch.split(branch, [16, self.width - 16], dim=1)
            middle, end = torch.split(tail, [16, self.width - 32], dim=1)
            results.append(layer(norm(torch.cat([head, middle, end], dim=1))))
        return torch.cat(torch.unbind(torch.stack(results), dim=0), dim=1)


def make(name: str, batch: int = 64, width: int = 8, device: str = "cpu") -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model class ``name`` of ``deepctr_torch.models`` in training mode, and a random batch.

    ``Branches`` with a number behind it is :class:`Branches` of that many, in bfloat16, whatever the batch.
    """
    if name.startswith("Branches"):
        count = int(name.removeprefix("Branches"))
        torch.manual_seed(0)
        return Branches(count).to(torch.bfloat16), (torch.randn(count, 64, 64, dtype=torch.bfloat16, device=device),)
    import deepctr_torch.models as models
    from deepctr_torch.inputs import DenseFeat, SparseFeat

    torch.manual_seed(0)
    columns = [SparseFeat(f"C{k}", VALUES, embedding_dim=width) for k in range(SPARSE)]
    columns += [DenseFeat(f"I{k}", 1) for k in range(DENSE)]
    model = getattr(models, name)(columns, columns, task="binary", device=device)
    generator = torch.Generator().manual_seed(1)
    sparse = torch.randint(0, VALUES, (batch, SPARSE), generator=generator).float()
    return model, (torch.cat([sparse, torch.rand(batch, DENSE, generator=generator)], 1).to(device),)


def _factory(name: str) -> Callable[[], Any]:
    return lambda: make(name)


branches = _factory("Branches16")
fibinet, autoint, dcnmix, xdeepfm, onn, deepfm = map(_factory, ("FiBiNET", "AutoInt", "DCNMix", "xDeepFM", "ONN", "DeepFM"))
