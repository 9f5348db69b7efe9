"""What holds after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fuzz.modes import autocast_nesting


def ambient() -> dict[str, object]:
    """The modes that change what operators compute."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": tuple((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")),
        "autocast nesting": autocast_nesting(),
        "default dtype": torch.get_default_dtype(),
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


@pytest.fixture(autouse=True)
def no_mode_is_left_behind() -> Iterator[None]:
    """A test that leaves a mode behind changes what the next one computes."""
    before = ambient()
    yield
    assert ambient() == before
