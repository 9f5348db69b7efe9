"""``optimus-verify new``: a rule that runs and is proved as it is, to be changed into one's own."""

from __future__ import annotations

import keyword
from pathlib import Path

from verify.cli import UsageError

TEMPLATE = '''"""``{name}``: a rule for optimus, judged by ``optimus-verify --rule {name}.py:{cls}``."""

from dataclasses import dataclass

import torch

import optimus
from optimus.operators import bind
from optimus.pattern import Decline, Match
from optimus.values import tensor


@optimus.fires("n, m, k")
def there_and_back(x):
    """The rule must fire on this program. ``"n, m, k"`` is the shape of ``x``; every size is a symbol in the proof."""
    return torch.transpose(x.transpose(0, 2), 2, 0) * 2


@optimus.declines("same_dims", "n, m, k")
def further_round(x):
    """The rule must leave this program alone, and say ``same_dims``."""
    return x.transpose(0, 1).transpose(1, 2) * 2


@dataclass(frozen=True)
class {cls}(optimus.VerticalPattern):
    """``transpose(transpose(x, a, b), a, b)  ->  x``"""

    name = "{name}"
    anchors = frozenset({{"transpose"}})  # find() is asked at these operators
    exactness = optimus.Exactness.BITWISE  # data is moved, nothing is computed
    requirements = {{"same_dims": "both exchange the same dimensions"}}
    cases = (there_and_back,)
    declines = (further_round,)

    def find(self, node, state):
        """The match anchored at ``node``, a refusal, or None where nothing resembles the rule."""
        outer, inner = bind(node), bind(node.args[0])  # any spelling of an operator: its name and its arguments by name
        if inner is None or inner.op != "transpose":
            return None
        fake = tensor(node)  # its shape, strides and dtype without numbers; None where a graph does not say
        if fake is None:
            return None
        rank = fake.dim()
        first, second = ({{call["dim0"] % rank, call["dim1"] % rank}} for call in (outer, inner))
        if first != second:
            return Decline("same_dims")
        return Match(nodes=(node.args[0], node), before=node, found=inner["self"])

    def rewrite(self, match, tx):
        """Build what takes the place of the match. New nodes come from ``tx.call(torch.function, ...)``."""
        tx.replace(match.nodes[-1], match.found)

    @staticmethod
    def general(rule):
        """The rewrite for any sizes and any rank, where an axis may stand for any number of dimensions. May be left out."""
        x = rule.tensor("x", *(rule.number(name) for name in "abcde"))
        swapped = rule.move(rule.move(x, 1, 3), 2, 1)
        rule.equal("back in place", rule.move(rule.move(swapped, 1, 3), 2, 1), x)
'''


def new(name: str, folder: str) -> Path:
    """Write the template for the rule ``name`` as ``folder/name.py``. Raises :class:`verify.cli.UsageError`; overwrites nothing."""
    if not name.isidentifier() or not name.islower() or keyword.iskeyword(name):
        raise UsageError(f"new {name}: accepted is a name in lower case such as my_rule")
    root, file = Path(folder), Path(folder) / f"{name}.py"
    if not root.is_dir():
        raise UsageError(f"new {name}: {folder} is {'no folder' if root.exists() else 'not there'}; accepted is a folder that is there")
    cls = "".join(part.capitalize() for part in name.split("_"))
    try:
        with file.open("x") as out:
            out.write(TEMPLATE.format(name=name, cls=cls))
    except FileExistsError:
        raise UsageError(f"new {name}: {file} is there already; accepted is a new name") from None
    except OSError as error:
        raise UsageError(f"new {name}: {file} cannot be written ({error.strerror or error})") from None
    print(f"{file} written; it is proved as it is: optimus-verify --rule {file}:{cls}")
    return file
