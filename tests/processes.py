"""What processes that tests start are given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def environment(*first: Path, **others: str) -> dict[str, str]:
    """This process's environment and search path, with the folders ``first`` and the repository in front, and no proofs from elsewhere."""
    path = [*map(str, first), str(ROOT), *(p for p in sys.path if p and p != str(ROOT))]
    found = {**os.environ, "OPTIMUS_CACHE_DIR": "none", **others, "PYTHONPATH": os.pathsep.join(path)}
    found.pop("PYTEST_ADDOPTS", None)
    return found
