"""The commands for authors of rules: their arguments, checked, and nothing that takes long to load."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from verify import cli


def add_rule_options(to: Any) -> None:
    """``--rule`` and ``--rule-dir``."""
    to.add_argument(
        "--rule", action="append", default=[], metavar="FILE:NAME", help="judge this rule, as MODULE:NAME too; may be given several times"
    )
    to.add_argument("--rule-dir", action="append", default=[], metavar="DIR", help="judge every rule in the files of this folder")


def add_commands(commands: Any) -> None:
    """The further commands."""
    new = commands.add_parser("new", help="write a rule that runs and is proved as it is, to be changed into your own")
    new.add_argument("name", metavar="NAME", help="its name in lower case, such as my_rule")
    new.add_argument("--dir", default=".", metavar="DIR", help="where the file goes (default: here)")
    new.set_defaults(run=_new)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Every option of a parser and of the commands inside it."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found |= options(inner)
    return found


Run = Callable[[argparse.Namespace], int]


def _new(arguments: argparse.Namespace) -> int:
    from verify.scaffold import new

    new(arguments.name, cli.path(arguments.dir, "--dir", "a folder") or ".")
    return 0
