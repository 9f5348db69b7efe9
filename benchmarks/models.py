"""Factories of public click-through models with random weights, from the package deepctr-torch.

Each returns ``(model, inputs)``: 26 sparse features with 1,000 values each, 13 dense features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SPARSE, DENSE, VALUES = 26, 13, 1000


def make(name: str, batch: int = 64, width: int = 8, device: str = "cpu") -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model class ``name`` of ``deepctr_torch.models`` in training mode, and a random batch."""
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


fibinet, autoint, dcnmix, xdeepfm, onn, deepfm = map(_factory, ("FiBiNET", "AutoInt", "DCNMix", "xDeepFM", "ONN", "DeepFM"))
