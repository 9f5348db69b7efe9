"""The command line. It is thin: it checks its arguments, calls the library, prints, and exits with the truth.

Exit codes: 0 fine, 1 refuted or different, 2 usage, 3 undecided.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

DESCRIPTION = """Judge rewrites of PyTorch graphs: a proof for all sizes on the code that ships, fuzzing, and runs in production mode.
Exit codes: 0 proved, 1 refuted or different, 2 usage error, 3 undecided."""


class UsageError(Exception):
    """Something the user can mend; printed as one line, exit code 2."""


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    top = argparse.ArgumentParser("optimus-verify", allow_abbrev=False, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = top.add_argument_group("what to judge")
    chosen.add_argument("--pattern", action="append", default=[], metavar="NAME", help="judge this pattern; may be given several times")
    chosen.add_argument("--all", action="store_true", help="judge every pattern")
    _common(top)
    top.add_argument("--budget", default="40s", metavar="TIME", help="time for each pattern, such as 30s, 5m or 1h (default 40s)")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list", help="the patterns and what they claim")
    explain = commands.add_parser("explain", help="what a pattern does, what it requires, its cases before and after")
    explain.add_argument("name", metavar="NAME")
    model = commands.add_parser("model", help="capture a model, rewrite it, validate every rewrite, compare outputs and gradients")
    model.add_argument("factory", metavar="MODULE:FACTORY", help="a function that returns (model, inputs)")
    model.add_argument("--pattern", action="append", default=[], metavar="NAME", help="use these patterns only, in this order")
    _common(model)
    return top


def _common(to: argparse.ArgumentParser) -> None:
    to.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")
    to.add_argument("--device", default="cpu", metavar="DEVICE", help="where programs run: cpu or cuda (default cpu)")
    to.add_argument("--seed", type=int, default=0, help="seed of everything random (default 0)")
    to.add_argument("--smt2", metavar="DIR", help="write every query to the solvers into this folder, as SMT-LIB 2, one a file")
    to.add_argument("--no-cache", action="store_true", help="prove everything anew, and keep nothing for later runs")
    to.add_argument("--solver-timeout", default="20s", metavar="TIME", help="time for each query to a solver (default 20s)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command is None:
            return _judge(arguments)
        from verify import commands

        if arguments.command == "list":
            return commands.list_patterns()
        if arguments.command == "explain":
            return commands.explain(arguments.name)
        return commands.model(arguments.factory, arguments.pattern, arguments.json, arguments.device, arguments.seed, **_proving(arguments))
    except UsageError as error:
        print(f"optimus-verify: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("optimus-verify: interrupted", file=sys.stderr)
        return 130


def _judge(arguments: argparse.Namespace) -> int:
    if not arguments.pattern and not arguments.all:
        raise UsageError("nothing to judge; give --pattern NAME or --all, or see --help")
    if arguments.pattern and arguments.all:
        raise UsageError("--pattern and --all exclude each other")
    budget = seconds(arguments.budget)
    from verify import commands

    return commands.judge(arguments.pattern, budget, arguments.json, arguments.device, arguments.seed, **_proving(arguments))


def _proving(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"smt2": arguments.smt2, "kept": not arguments.no_cache, "timeout_s": seconds(arguments.solver_timeout, "--solver-timeout")}


def seconds(text: str, option: str = "--budget") -> float:
    """A time such as ``90``, ``30s``, ``5m`` or ``1h`` in seconds. Raises :class:`UsageError` for anything but a positive one."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    number = text[:-1] if unit is not None else text
    try:
        found = float(number) * (unit or 1)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise UsageError(f"{option} {text}: accepted is a positive time such as 30s, 5m or 1h")
    return found


if __name__ == "__main__":  # the errors that commands raise are those of the module under its own name
    from verify import cli

    sys.exit(cli.main())
