"""A pattern that is quickly proved, as text, so that tests can change it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

SOURCE = '''
from dataclasses import dataclass

import torch

import optimus
from optimus.operators import bind
from optimus.pattern import Decline, Match
{imports}

@optimus.fires("n, m")
def there_and_back(x):
    return torch.transpose(x.transpose(0, 1), 1, 0){then}


@optimus.declines("same_dims", "n, m, m")
def further_round(x):
    return x.transpose(0, 1).transpose(1, 2) * 2


@dataclass(frozen=True)
class Twice(optimus.VerticalPattern):
    """``transpose(transpose(x, a, b), a, b)  ->  x``"""

    name = "twice"
    anchors = frozenset({{"transpose"}})
    exactness = optimus.Exactness.BITWISE
    requirements = {{"same_dims": "both exchange the same dimensions"}}
    cases = (there_and_back,)
    declines = (further_round,)
    limit: int = 3

    def find(self, node, state):
        outer, inner = bind(node), bind(node.args[0])
        if inner is None or inner.op != "transpose":
            return None
        rank = node.meta["example_value"].dim()
        dims = [{{call["dim0"] % rank, call["dim1"] % rank}} for call in (outer, inner)]
        if dims[0] != dims[1]:
            return Decline("same_dims")
        return Match((node.args[0], node), node, inner["self"])

    def rewrite(self, match, tx):
        found = match.found
        {rewrite}
        tx.replace(match.nodes[-1], found)

    @staticmethod
    def general(rule):
        x = rule.tensor("x", rule.number("a"), rule.number("b"))
        rule.equal("back in place", rule.move(rule.move(x, 0, 1), 1, 0), x)
'''


def write(folder: Path, name: str = "small_pattern", rewrite: str = "pass", imports: str = "", then: str = " * 2") -> ModuleType:
    """The pattern as a module of a folder on the path, freshly imported."""
    (folder / f"{name}.py").write_text(SOURCE.format(rewrite=rewrite, imports=imports, then=then))
    for module in [m for m in sys.modules if m.startswith("small_")]:
        del sys.modules[module]
    importlib.invalidate_caches()
    return importlib.import_module(name)
