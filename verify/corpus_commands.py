"""``optimus-verify corpus add|replay|minimise``."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fuzz.program import Program
from optimus.capture import capture
from optimus.plan import Plan
from verify.cli import UsageError
from verify.collecting import add, add_model, as_program
from verify.commands import factory_of
from verify.compare import USERS
from verify.corpus import Entry, chosen_plan, entries, replay
from verify.shrinking import minimise


def run_add(root: str, name: str, source: str | None, model: str | None, texts: dict[str, str | None]) -> int:
    """Add a fault from ``source``, or the model of the factory ``model``."""
    if (source is None) == (model is None):
        raise UsageError("corpus add: give a file or folder, or --model MODULE:FACTORY")
    if model is not None:
        folder = add_model(Path(root), name, factory_of(model), model)
    else:
        folder = add(Path(root), name, Path(str(source)), texts)
    print(f"{folder} written; optimus-verify corpus replay {name}")
    return 0


def run_replay(root: str, names: Sequence[str], patterns: Sequence[str], rules: Sequence[str]) -> int:
    """Replay entries, static and with dynamic sizes. 1: something differs from eager."""
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    plan = chosen_plan(patterns, rules)
    wrong = total = 0
    fired: Counter[str] = Counter()
    for found in entries(Path(root), names):
        for dynamic in (False, True):
            said = replay(found, plan, dynamic=dynamic)
            fired += said.fired
            for difference in said.differences:
                console.print(f"{found.folder.name}{', dynamic' if dynamic else ''}: {difference}", style="red", markup=False)
            wrong += bool(said.differences)
        total += 1
    console.print(f"{total} entries, {sum(fired.values())} rewrites, {wrong} runs that differ from eager", markup=False)
    return 1 if wrong else 0


def run_minimise(root: str, name: str, patterns: Sequence[str], rules: Sequence[str]) -> int:
    """Cut the program of an entry down in place, as long as the same happens: the same difference, or else the same patterns fire."""
    plan = chosen_plan(patterns, rules)
    (found,) = entries(Path(root), [name])
    graphs = capture(found.program, list(found.make_inputs()))
    if len(graphs) != 1:
        raise UsageError(f"corpus minimise {name}: breaks into {len(graphs)} graphs; accepted is one graph")
    whole = as_program(graphs[0].gm, name)
    if len(whole.inputs) != len(list(found.make_inputs())):
        raise UsageError(
            f"corpus minimise {name}: takes {len(whole.inputs)} of {len(list(found.make_inputs()))} inputs; accepted is a program of all"
        )
    wanted = _happens(found, whole, plan)
    if wanted is None or not any(wanted):
        raise UsageError(f"corpus minimise {name}: neither differs from eager nor fires; give the --pattern or --rule that it is about")
    small = minimise(whole, lambda p: _happens(found, p, plan) == wanted)
    file = found.folder / "program.py"
    if small.size() < len(graphs[0].gm.graph.nodes):
        file.write_text(_with_program(file.read_text(), small))
    print(f"{file}: {whole.size()} operators became {small.size()}")
    return 0


def _happens(found: Entry, program: Program, plan: Plan) -> tuple[bool, tuple[str, ...]] | None:
    """What is to stay: whether it differs from eager, and if not which patterns fire. None where eager refuses the program."""
    try:
        said = replay(replace(found, program=program.function(), about={**found.about, "fires": {}}), plan)
    except USERS:
        return None
    if said.differences and said.differences[0].startswith("eager refuses"):
        return None
    return bool(said.differences), () if said.differences else tuple(sorted(said.fired))


def _with_program(text: str, program: Program) -> str:
    """``text`` with its function ``program`` replaced; its docstring stays."""
    old: Any = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "program")
    documented = ast.get_docstring(old)
    head, *body = program.source().splitlines()
    new = [head, *([f'    """{documented}"""'] if documented else []), *body]
    lines = text.splitlines()
    return "\n".join([*lines[: old.lineno - 1], *new, *lines[old.end_lineno :]]) + "\n"
