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
    fuzz = commands.add_parser("fuzz", help="a campaign: fuzz many patterns and rules for long, in several processes, and go on where it stopped")
    fuzz.add_argument("--all", action="store_true", help="every registered pattern")
    fuzz.add_argument("--pattern", action="append", default=[], metavar="NAME", help="this pattern; may be given several times")
    add_rule_options(fuzz)
    fuzz.add_argument("--time", default="10m", metavar="TIME", help="for how long, such as 30s, 5m or 8h (default 10m)")
    fuzz.add_argument("--workers", default="1", metavar="NUMBER", help="processes, or actors of a cluster (default 1)")
    fuzz.add_argument("--state", default="optimus-campaign", metavar="DIR", help="where it is kept how far it is (default optimus-campaign)")
    fuzz.add_argument("--seed", default="0", metavar="NUMBER", help="seed of everything random (default 0)")
    fuzz.add_argument("--rule-timeout", default="10s", metavar="TIME", help="time that a rule may take over one graph (default 10s)")
    fuzz.add_argument("--address", metavar="ADDRESS", help="a Ray cluster: auto, HOST:PORT, or local for one on this machine")
    fuzz.set_defaults(run=_fuzz)
    mutants = commands.add_parser("mutants", help="change the code of a pattern in one place at a time, and say which witness sees which change")
    mutants.add_argument("--all", action="store_true", help="every registered pattern")
    mutants.add_argument("--pattern", action="append", default=[], metavar="NAME", help="this pattern; may be given several times")
    add_rule_options(mutants)
    mutants.add_argument("--most", default="1000", metavar="NUMBER", help="mutants of each pattern at most (default 1000)")
    mutants.add_argument("--fuzz", default="5s", metavar="TIME", help="time for fuzzing each mutant (default 5s)")
    mutants.add_argument("--workers", default="1", metavar="NUMBER", help="processes at a time (default 1)")
    mutants.add_argument("--every-witness", action="store_true", help="ask every witness, also behind the first that sees the change")
    mutants.add_argument("--floor", default="0", metavar="SHARE", help="exit with 1 where fewer are seen, from 0 to 1 (default 0)")
    mutants.add_argument("--seed", default="0", metavar="NUMBER", help="which are drawn, where there are more than --most (default 0)")
    mutants.add_argument("--json", metavar="FILE", help="write the result as JSON")
    mutants.set_defaults(run=_mutants)
    _add_foreign(commands)
    _add_corpus(commands)


def _add_foreign(commands: Any) -> None:
    shipped = commands.add_parser("shipped", help="judge the passes that PyTorch ships for Inductor")
    shipped.add_argument("names", nargs="*", metavar="NAME", help="such as inductor:batch_tanh (default: all that this PyTorch has)")
    wrap = commands.add_parser("wrap", help="judge a function from graph to graph, or a list of them, such as those of a backend of your own")
    wrap.add_argument("names", nargs="+", metavar="MODULE:NAME", help="the function, or the list, whose members are judged alone and all in turn")
    wrap.add_argument("--ir", choices=cli.LEVELS[:2], default="torch", help="the level of the graphs they are given (default torch)")
    for command in (shipped, wrap):
        command.add_argument("--budget", default="40s", metavar="TIME", help="time for each pass, such as 30s or 5m (default 40s)")
        command.add_argument("--seed", default="0", metavar="NUMBER", help="seed of everything random (default 0)")
        command.add_argument("--json", metavar="FILE", help="write the result as JSON")
        command.add_argument("--out", metavar="DIR", help="write a table, and for each fault a program that needs PyTorch alone, into this folder")
        command.set_defaults(run=_foreign)


def _foreign(arguments: argparse.Namespace) -> int:
    budget_s, seed = cli.seconds(arguments.budget, "--budget"), cli.seed(arguments.seed)
    json_path, out = cli.path(arguments.json, "--json", "a file"), cli.path(arguments.out, "--out", "a folder")
    from verify import foreign_command

    if arguments.command == "shipped":
        return foreign_command.run_shipped(arguments.names, budget_s=budget_s, seed=seed, json_path=json_path, out=out)
    return foreign_command.run_wrapped(arguments.names, arguments.ir, budget_s=budget_s, seed=seed, json_path=json_path, out=out)


def _add_corpus(commands: Any) -> None:
    corpus = commands.add_parser("corpus", help="programs that broke a rewrite, and captured models, kept for ever: add, replay, minimise")
    actions = corpus.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="keep a find, a program of your own, or a captured model")
    add.add_argument("source", nargs="?", metavar="FILE", help="a folder under optimus-failures, or a file with program() and make_inputs()")
    add.add_argument("--model", metavar="MODULE:FACTORY", help="a function that returns (model, inputs), in place of FILE")
    add.add_argument("--name", required=True, metavar="NAME", help="the name of the entry")
    for text, what in (
        ("what", "what went wrong"),
        ("broke", "which pass it broke"),
        ("right", "what is right"),
        ("address", "a public report of it"),
    ):
        add.add_argument(f"--{text}", metavar="TEXT", help=what)
    replay = actions.add_parser("replay", help="run entries in eager and behind the patterns, and compare")
    replay.add_argument("names", nargs="*", metavar="NAME", help="entries (default: all)")
    small = actions.add_parser("minimise", help="cut the program of an entry down as long as the same happens")
    small.add_argument("names", nargs=1, metavar="NAME", help="the entry")
    for action in (replay, small):
        action.add_argument("--pattern", action="append", default=[], metavar="NAME", help="behind these patterns only")
        action.add_argument("--rule", action="append", default=[], metavar="FILE:NAME", help="behind these rules")
    for action in (add, replay, small):
        action.add_argument("--corpus", default="corpus", metavar="DIR", help="the folder of the corpus (default corpus)")
    corpus.set_defaults(run=_corpus)


def _corpus(arguments: argparse.Namespace) -> int:
    root = cli.path(arguments.corpus, "--corpus", "a folder") or "corpus"
    from verify import corpus_commands as corpus

    if arguments.action == "add":
        texts = {name: getattr(arguments, name) for name in ("what", "broke", "right", "address")}
        return corpus.run_add(root, arguments.name, arguments.source, arguments.model, texts)
    if arguments.action == "replay":
        return corpus.run_replay(root, arguments.names, arguments.pattern, arguments.rule)
    return corpus.run_minimise(root, arguments.names[0], arguments.pattern, arguments.rule)


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


def chosen(arguments: argparse.Namespace) -> list[str] | None:
    """The patterns named: empty for all, None for none. Raises :class:`verify.cli.UsageError` where nothing is chosen, or too much."""
    rules = bool(arguments.rule or arguments.rule_dir)
    if not arguments.pattern and not arguments.all and not rules:
        raise cli.UsageError(f"{arguments.command}: nothing to judge; give --pattern NAME, --all, or --rule FILE:NAME")
    if arguments.pattern and arguments.all:
        raise cli.UsageError("--pattern and --all exclude each other")
    names: list[str] = arguments.pattern
    return None if rules and not names and not arguments.all else names


def number(text: str, option: str, most: int) -> int:
    """A whole number from 1. Raises :class:`verify.cli.UsageError`."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise cli.UsageError(f"{option} {text}: accepted is a whole number from 1 to {most}")
    return int(text)


def _fuzz(arguments: argparse.Namespace) -> int:
    names = chosen(arguments)
    checked: dict[str, Any] = {
        "seconds": cli.seconds(arguments.time, "--time"),
        "workers": number(arguments.workers, "--workers", 1024),
        "state": cli.path(arguments.state, "--state", "a folder"),
        "seed": cli.seed(arguments.seed),
        "address": arguments.address,
        "limit_s": cli.seconds(arguments.rule_timeout, "--rule-timeout"),
    }
    from verify.campaigns import run

    return run(names, arguments.rule, arguments.rule_dir, **checked)


def share(text: str, option: str) -> float:
    """A number from 0 to 1. Raises :class:`verify.cli.UsageError`."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise cli.UsageError(f"{option} {text}: accepted is a number from 0 to 1, such as 0.9")
    return found


def _mutants(arguments: argparse.Namespace) -> int:
    names = chosen(arguments)
    checked: dict[str, Any] = {
        "most": number(arguments.most, "--most", 1_000_000),
        "seed": cli.seed(arguments.seed),
        "fuzz_s": cli.seconds(arguments.fuzz, "--fuzz"),
        "workers": number(arguments.workers, "--workers", 1024),
        "every": arguments.every_witness,
        "floor": share(arguments.floor, "--floor"),
        "json_path": cli.path(arguments.json, "--json", "a file"),
    }
    from verify.mutants import run

    return run(names, arguments.rule, arguments.rule_dir, **checked)
