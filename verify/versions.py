"""The versions that a result depends on."""

from __future__ import annotations

import contextlib
import functools
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

import optimus
from verify.prover.versions import solver_versions


@functools.cache
def versions() -> dict[str, str]:
    """Package names and versions, Python's included."""
    found = {"optimus": optimus.__version__, "torch": torch.__version__, **solver_versions()}
    with contextlib.suppress(PackageNotFoundError):
        found["hypothesis"] = version("hypothesis")
    return {**found, "python": platform.python_version()}
