"""What holds for every test."""

from __future__ import annotations

import pytest

from verify import cache


@pytest.fixture(autouse=True)
def _no_proof_from_elsewhere(monkeypatch):
    """Nothing is taken from the user's cache, or from another test's."""
    monkeypatch.setenv(cache.FOLDER, "none")
    cache._shared.cache_clear()
