"""What holds for every test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
import torch._dynamo.guards
from torch._subclasses.fake_tensor import FakeTensorMode

from optimus.modes import autocast_nesting
from verify import cache


@pytest.fixture(autouse=True)
def _no_proof_from_elsewhere(monkeypatch):
    """Nothing is taken from the user's cache, or from another test's."""
    monkeypatch.setenv(cache.FOLDER, "none")
    cache._shared.cache_clear()


@pytest.fixture(autouse=True, scope="session")
def _less_beside_the_work() -> Iterator[None]:
    """Dynamo times the guards of all it compiles, with the caches of the processor emptied, for a log that nobody reads here: a quarter of a
    small compile. What was imported is looked through by no collection."""
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(torch._dynamo.guards, "profile_guard_manager"):
            patch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
        yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def _nothing_compiled_is_kept() -> Iterator[None]:
    """PyTorch keeps what it compiled, and what operators make of fakes, for as long as the process lives."""
    yield
    torch._dynamo.reset()
    FakeTensorMode.cache_clear()


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
