"""Programs on which rewrites of graphs went wrong, in the open or in our own hands, and their neighbours.

Each module registers functions of plain PyTorch under the kind of fault that they provoke; ``test_hostile.py`` runs all
of them. A docstring gives the public record where there is one, and the right behaviour where it is not obvious.
"""

import importlib
import pkgutil

from tests.hostile.registry import PROGRAMS, Hostile

MODULES = tuple(
    importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__) if module.name not in ("judge", "registry")
)

__all__ = ["MODULES", "PROGRAMS", "Hostile"]
