"""The command line. It is thin: it checks its arguments, calls the library, prints, and exits with the truth.

Exit codes: 0 fine, 1 refuted or different, 2 usage, 3 undecided.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from verify import authoring

LONGEST_S = 24 * 3600
LARGEST_SEED = 2**32 - 1
LEVELS = ("torch", "aten", "inductor")
"""The values of :class:`optimus.pattern.IR`, which takes too long to import for a mere ``--help``."""

SHIPPED = "inductor:"
"""Before the name of a pass that PyTorch ships."""

DESCRIPTION = """Judge rewrites of PyTorch graphs: a proof for all sizes on the code that ships, fuzzing, and runs in production mode.
Exit codes: 0 proved, 1 refuted or different, 2 usage error, 3 undecided."""


class UsageError(Exception):
    """Something the user can mend; printed as one line, exit code 2."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    top = _Parser("optimus-verify", allow_abbrev=False, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = top.add_argument_group("what to judge")
    chosen.add_argument("--pattern", action="append", default=[], metavar="NAME", help="judge this pattern; may be given several times")
    chosen.add_argument("--all", action="store_true", help="judge every pattern but those of inductor, of which nothing can be proved")
    _level(chosen, "with --all: judge the patterns of this level only")
    authoring.add_rule_options(chosen)
    top.add_argument("--rule-timeout", default="10s", metavar="TIME", help="time that a rule may take over one graph (default 10s)")
    top.add_argument("--junit", metavar="FILE", help="write the result as JUnit XML, one test for each witness")
    _common(top)
    top.add_argument("--budget", default="40s", metavar="TIME", help="time for each pattern, such as 30s, 5m or 1h (default 40s)")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", prog="optimus-verify")
    _level(commands.add_parser("list", help="the patterns and what they claim"), "list the patterns of this level only")
    explain = commands.add_parser("explain", help="what a pattern does, what it requires, its cases before and after")
    explain.add_argument("name", metavar="NAME")
    model = commands.add_parser("model", help="capture a model, rewrite it, validate every rewrite, compare outputs and gradients")
    model.add_argument("factory", metavar="MODULE:FACTORY", help="a function that returns (model, inputs)")
    model.add_argument("--pattern", action="append", default=[], metavar="NAME", help="use these patterns only, in this order")
    _common(model)
    _bisect(commands.add_parser("bisect", help="find the first rewrite that makes a script, a command, a function or a saved graph go wrong"))
    authoring.add_commands(commands)
    return top


def _level(to: argparse._ActionsContainer, what: str) -> None:
    to.add_argument("--ir", choices=LEVELS, metavar="LEVEL", help=f"{what}: {', '.join(LEVELS)}")


def _bisect(to: argparse.ArgumentParser) -> None:
    to.add_argument("--state", default="optimus-bisect", metavar="DIR", help="where runs are kept and results left (default optimus-bisect)")
    to.add_argument("--fresh", action="store_true", help="start anew, where else a bisection that was killed is gone on with")
    to.add_argument("--exclude", action="append", default=[], metavar="NAME", help="leave this pattern out; may be given several times")
    to.add_argument("--culprits", default="1", metavar="NUMBER", help="how many to look for, the pattern of each left out for the next, or all")
    to.add_argument("--timeout", metavar="TIME", help="time for each run of a command; one that takes longer ends the bisection")
    to.add_argument("--minimise", default="2m", metavar="TIME", help="time for cutting the graph of each culprit down (default 2m)")
    to.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")
    to.add_argument("--once", action="store_true", help="one run, under the limit in OPTIMUS_LIMIT; exit code 1 if it is bad")
    to.add_argument(
        "subject",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT.py | COMMAND | MODULE:FUNCTION | FOLDER",
        help="with its arguments; a command is bad if its exit code is not 0, a function if it raises or returns False",
    )


def _common(to: argparse.ArgumentParser) -> None:
    to.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")
    to.add_argument("--device", default="cpu", metavar="DEVICE", help="where programs run: cpu or cuda (default cpu)")
    to.add_argument("--seed", default="0", metavar="NUMBER", help="seed of everything random (default 0)")
    to.add_argument("--smt2", metavar="DIR", help="write every query to the solvers into this folder, as SMT-LIB 2, one a file")
    to.add_argument("--no-cache", action="store_true", help="prove everything anew, and keep nothing for later runs")
    to.add_argument("--solver-timeout", default="20s", metavar="TIME", help="time for each query to a solver (default 20s)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parsed(given)
        if arguments.command is not None and given[0] != arguments.command:
            raise UsageError(f"{given[0]} stands in front of {arguments.command}; accepted are options behind it")
        return _run(arguments)
    except UsageError as error:
        print(f"optimus-verify: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("optimus-verify: interrupted", file=sys.stderr)
        return 130


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """The arguments as they are given. An unknown option is told of as such: argparse may take its value for a command."""
    top = parser()
    known = authoring.options(top)
    unknown = [a for a in given if len(a) > 2 and a.startswith("--") and a.partition("=")[0] not in known]
    if unknown and given[0] != "bisect":  # which has options of its own, and those of what it runs
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    return top.parse_args(given)


def _run(arguments: argparse.Namespace) -> int:
    """Check the arguments, and only then load what takes long."""
    if arguments.command is None:
        return _judge(arguments)
    if arguments.command == "bisect":
        return _run_bisect(arguments)
    if hasattr(arguments, "run"):
        return int(arguments.run(arguments))
    common = _common_values(arguments) if arguments.command == "model" else {}
    from verify import commands

    if arguments.command == "list":
        return commands.list_patterns(arguments.ir)
    if arguments.command == "explain":
        return commands.explain(arguments.name)
    return commands.model(arguments.factory, arguments.pattern, **common)


def _run_bisect(arguments: argparse.Namespace) -> int:
    json, state = path(arguments.json, "--json", "a file, or - for standard output"), path(arguments.state, "--state", "a folder")
    timeout_s = None if arguments.timeout is None else seconds(arguments.timeout, "--timeout")
    minimise_s = seconds(arguments.minimise, "--minimise")
    from verify import bisect_command

    return bisect_command.run(
        arguments.subject,
        state=state or "",
        fresh=arguments.fresh,
        exclude=arguments.exclude,
        culprits=arguments.culprits,
        timeout_s=timeout_s,
        minimise_s=minimise_s,
        json_path=json,
        once=arguments.once,
    )


def _judge(arguments: argparse.Namespace) -> int:
    rules = bool(arguments.rule or arguments.rule_dir)
    if any(name.startswith(SHIPPED) for name in arguments.pattern):
        return _judge_shipped(arguments)
    if not arguments.pattern and not arguments.all and not rules:
        raise UsageError("nothing to judge; give --pattern NAME or --all, or --rule FILE:NAME for one of your own, or see --help")
    if arguments.pattern and arguments.all:
        raise UsageError("--pattern and --all exclude each other")
    if arguments.pattern and arguments.ir:
        raise UsageError(f"--pattern and --ir exclude each other; accepted is --all --ir {arguments.ir}")
    budget = seconds(arguments.budget, "--budget")
    limit_s = seconds(arguments.rule_timeout, "--rule-timeout")
    junit = path(arguments.junit, "--junit", "a file")
    common = _common_values(arguments)
    from verify import commands

    return commands.judge(
        None if rules and not arguments.pattern and not arguments.all else arguments.pattern,
        budget,
        level=arguments.ir,
        rules=arguments.rule,
        folders=arguments.rule_dir,
        limit_s=limit_s,
        junit=junit,
        **common,
    )


def _judge_shipped(arguments: argparse.Namespace) -> int:
    ours = [name for name in arguments.pattern if not name.startswith(SHIPPED)]
    if ours or arguments.all or arguments.rule or arguments.rule_dir or arguments.junit or arguments.smt2:
        raise UsageError(f"--pattern {SHIPPED}NAME is judged by itself: no proof is made; accepted beside it are --budget, --seed and --json")
    budget, number = seconds(arguments.budget, "--budget"), seed(arguments.seed)
    from verify import foreign_command

    return foreign_command.run_shipped(arguments.pattern, budget_s=budget, seed=number, json_path=path(arguments.json, "--json", "a file"), out=None)


def _common_values(arguments: argparse.Namespace) -> dict[str, Any]:
    """What :func:`_common` adds, checked."""
    json, smt2 = path(arguments.json, "--json", "a file, or - for standard output"), path(arguments.smt2, "--smt2", "a folder")
    if json is not None and smt2 is not None and os.path.realpath(json) == os.path.realpath(smt2):
        raise UsageError(f"--json {json} and --smt2 {smt2} are the same; accepted are a file and a folder")
    return {
        "json_path": json,
        "device": arguments.device,
        "seed": seed(arguments.seed),
        "smt2": smt2,
        "kept": not arguments.no_cache,
        "timeout_s": seconds(arguments.solver_timeout, "--solver-timeout"),
    }


def path(text: str | None, option: str, accepted: str) -> str | None:
    """A path as given. Raises :class:`UsageError` for an empty one, which the operating system takes for the current folder."""
    if text is not None and not text.strip():
        raise UsageError(f"{option} is empty; accepted is {accepted}")
    return text


def seed(text: str) -> int:
    """A seed. Raises :class:`UsageError` for what is no number, or one that a generator does not take."""
    try:
        found = int(text)
    except ValueError:
        found = -1
    if not 0 <= found <= LARGEST_SEED:
        raise UsageError(f"--seed {text}: accepted is a whole number from 0 to {LARGEST_SEED}")
    return found


def seconds(text: str, option: str) -> float:
    """A time such as ``90``, ``30s``, ``5m`` or ``1h`` in seconds. Raises :class:`UsageError` for any but a positive one up to a day."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    number = text[:-1] if unit is not None else text
    try:
        found = float(number) * (unit or 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= LONGEST_S:
        raise UsageError(f"{option} {text}: accepted is a positive time such as 30s, 5m or 1h, up to {LONGEST_S // 3600}h")
    return found


if __name__ == "__main__":  # the errors that commands raise are those of the module under its own name
    from verify import cli

    sys.exit(cli.main())
