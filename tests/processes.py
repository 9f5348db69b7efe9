"""What processes that tests start are given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SEARCH_PATH = tuple(p for p in sys.path if p and p != str(ROOT))
"""As it was before any test ran: some put folders of their own in front."""


def environment(*first: Path, **others: str) -> dict[str, str]:
    """This process's environment and search path, with the folders ``first`` and the repository in front, and no proofs from elsewhere."""
    path = [*map(str, first), str(ROOT), *SEARCH_PATH]
    found = {**os.environ, "OPTIMUS_CACHE_DIR": "none", **others, "PYTHONPATH": os.pathsep.join(path)}
    found.pop("PYTEST_ADDOPTS", None)
    return found
