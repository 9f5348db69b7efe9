"""A captured graph with real inputs as a folder: ``program.py``, ``inputs.json``, ``inputs.bin``, ``plan.json``. No pickle.

Folders of the corpus, which have a ``program.py`` that makes its own inputs, are read too.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.fx import GraphModule

from optimus.capture import capture
from optimus.pattern import Pattern
from optimus.plan import Plan, default_plan, lookup, patterns, replace_options
from verify.compare import USERS
from verify.differential import quiet
from verify.program_text import imports, source
from verify.smaller import Sample, rebuilt
from verify.tensors import write_inputs

PROGRAM, PLAN = "program.py", "plan.json"

MAKE_INPUTS = '''def make_inputs():
    """The inputs on which it was seen, the same every time."""
    return read_inputs(Path(__file__).parent)
'''


class SavedError(ValueError):
    """A folder that holds no graph that can be run; the message says why."""


def save(folder: Path, gm: GraphModule, inputs: Sequence[Any], plan: Plan, title: str = "A captured graph.") -> None:
    """Write the graph, its inputs, and the plan by which it is to be rewritten.

    Raises ``NoTextError`` or ``TypeError`` for a graph or input that has no plain form.
    """
    text = source(gm)
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(folder, inputs)
    named = "\n".join(sorted({*imports(text), "import torch"}))
    head = f'"""{title}"""\n\nfrom pathlib import Path\n\n{named}\n\nfrom verify.tensors import read_inputs\n'
    (folder / PROGRAM).write_text(f"{head}\n\n{text}\n\n\n{MAKE_INPUTS}")
    (folder / PLAN).write_text(json.dumps([_described(p) for p in plan], indent=1))


def _described(pattern: Pattern) -> dict[str, Any]:
    """A pattern by name where it is registered, by its class where it is not."""
    data: dict[str, Any] = {"pattern": pattern.name, "options": pattern.options()}
    known = patterns().get(pattern.name)
    if type(known) is not type(pattern):
        kind = type(pattern)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        data |= {"class": f"{kind.__module__}:{kind.__qualname__}", "file": file}
    return data


def read_plan(folder: Path) -> Plan:
    """The plan of a folder; the default plan where it has none. Raises :class:`SavedError` for a pattern that is not found."""
    file = folder / PLAN
    if not file.exists():
        return default_plan()
    try:
        return Plan(tuple(_pattern(data) for data in json.loads(file.read_text())))
    except USERS as error:
        raise SavedError(f"{file} names a pattern that cannot be had ({type(error).__name__}: {error})") from None


def _pattern(data: dict[str, Any]) -> Pattern:
    if "class" not in data:
        return replace_options(lookup(data["pattern"]), data["options"])
    module, _, name = data["class"].partition(":")
    made: Any = _module(module, data.get("file"))
    for part in name.split("."):
        made = getattr(made, part)
    found: Pattern = replace_options(made(), data["options"])
    return found


def _module(name: str, file: str | None) -> Any:
    """A module by its name, or by its file where it was a script."""
    if name != "__main__":
        try:
            return importlib.import_module(name)
        except ImportError:
            if file is None:
                raise
    if file is None:
        raise ImportError("it was defined in an interactive session")
    spec = importlib.util.spec_from_file_location(f"_of_{Path(file).stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load(folder: Path) -> Sample:
    """The graph of a folder, captured anew, and its inputs. Raises :class:`SavedError`."""
    file = folder / PROGRAM
    if not file.is_file():
        raise SavedError(f"{folder} holds no {PROGRAM}; accepted is a folder that a bisection or optimus-verify saved, or one of the corpus")
    try:
        module = runpy.run_path(str(file))
        program, inputs = module["program"], tuple(module["make_inputs"]())
        with quiet():
            graphs = capture(program, inputs)
    except USERS as error:
        raise SavedError(f"{file} cannot be run ({type(error).__name__}: {next(iter(str(error).splitlines()), '')})") from None
    if len(graphs) != 1:
        raise SavedError(f"{file} makes {len(graphs)} graphs; accepted is a program that makes one")
    _name_nodes(graphs[0].gm, file)
    sample = rebuilt(graphs[0].gm.graph, graphs[0].inputs)
    if sample is None:
        raise SavedError(f"{file} cannot be traced on its own inputs")
    return sample


def _name_nodes(gm: GraphModule, file: Path) -> None:
    """Call the operators what the program calls their results, where each line of it is one operator."""
    (function,) = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef) and n.name == "program"]
    lines = [s for s in function.body if isinstance(s, (ast.Assign, ast.Expr)) and not isinstance(s.value, ast.Constant)]
    calls = [n for n in gm.graph.nodes if n.op in ("call_function", "call_method")]
    if len(lines) != len(calls):
        return
    for line, node in zip(lines, calls, strict=True):
        target = line.targets[0] if isinstance(line, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id != node.name and target.id not in {n.name for n in gm.graph.nodes}:
            node._rename(target.id)
