"""Programs on which rewrites of graphs went wrong, in the open or in our own hands, and their neighbours.

Each module registers functions of plain PyTorch under the kind of fault that they provoke; ``test_hostile.py`` runs all
of them. A docstring gives the public record where there is one, and the right behaviour where it is not obvious.
"""

from tests.hostile import (
    graphs,
    grouped,
    horizontal,
    layout,
    members,
    modes,
    mutation,
    norms,
    numerics,
    refused,
    sections,
    sizes,
    spelling,
    split_cat,
    stack_unbind,
)
from tests.hostile.registry import PROGRAMS, Hostile

MODULES = (
    graphs,
    grouped,
    horizontal,
    layout,
    members,
    modes,
    mutation,
    norms,
    numerics,
    refused,
    sections,
    sizes,
    spelling,
    split_cat,
    stack_unbind,
)

__all__ = ["MODULES", "PROGRAMS", "Hostile"]
