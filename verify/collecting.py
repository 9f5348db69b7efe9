"""Adding to the corpus: a find of the fuzzer, a program of one's own, or a captured model, written as plain Python."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fuzz.program import Input, Program, Step, Var
from optimus.capture import capture
from optimus.engine import Engine
from verify.cli import UsageError
from verify.compare import USERS
from verify.corpus import FAULT, MODEL, eager_plan, entry
from verify.paste import MOST, expression

MOST_DENSE = 10.0
"""An input of floats from 0 to beyond this holds indices, and is drawn from their range."""

WHOLE = "The graph, operator by operator."

HEAD = '"""{what}"""\n\nimport torch\n\n\n'


def add(root: Path, name: str, source: Path, texts: dict[str, str | None]) -> Path:
    """Add the program in ``source``, a file or a folder of ``optimus-failures``, as the fault ``name``.

    ``texts``: ``what``, ``broke``, ``right`` and ``address``; those left out are taken from a find. Raises
    :class:`verify.cli.UsageError`, and leaves nothing behind then.
    """
    file = next((f for f in (source / "replay.py", source / "program.py") if f.is_file()), source)
    if not file.is_file():
        raise UsageError(f"corpus add {source}: is not there; accepted is a file of Python, or a folder under optimus-failures")
    text = file.read_text()
    found = _run(file)
    if "INPUTS" in found:
        docstring = ast.get_docstring(ast.parse(text)) or ": "
        broke, _, what = docstring.splitlines()[0].partition(": ")
        texts = {**texts, "broke": texts["broke"] or broke, "what": texts["what"] or what}
        text = _plain(
            str(texts["what"]), _documented(_function(text, "program"), f"{texts['right']}".rstrip(".").capitalize() + "."), found["INPUTS"]
        )
    missing = next((k for k in ("what", "broke", "right") if not (texts[k] or "").strip()), None)
    if missing is not None:
        raise UsageError(f"corpus add {source}: --{missing} is missing; accepted is a line of text")
    address = texts["address"]
    if address is not None and not address.startswith("https://"):
        raise UsageError(f"corpus add {source}: --address {address}: accepted is one that begins with https://")
    about = {"what": texts["what"], "broke": texts["broke"], "address": address, "right": texts["right"]}
    return _write(root, name, text, FAULT, about)


def _run(file: Path) -> dict[str, Any]:
    try:
        return runpy.run_path(str(file))
    except USERS as error:
        raise UsageError(f"corpus add {file}: cannot be run ({type(error).__name__}: {error})") from None


def _function(text: str, name: str) -> str:
    """The source of a function at the top of ``text``."""
    found = next((n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    return ast.get_source_segment(text, found) or "" if found is not None else ""


def _documented(program: str, text: str) -> str:
    """A function on one line of signature, with a docstring."""
    first, _, rest = program.partition("\n")
    return f'{first}\n    """{text}"""\n{rest}'


def _plain(what: str, program: str, inputs: Sequence[Input]) -> str:
    """``program.py`` of a find. Values are written out as far as they are few."""
    made = [(i, i.make()) for i in inputs]
    needs = "from fuzz.program import Input\n" if any(t.numel() > MOST for _, t in made) else ""
    lines = "".join(f"        {expression(spec, t)},\n" for spec, t in made)
    head = HEAD.format(what=what.rstrip(".").replace("\\", "/") + ".").replace("import torch\n", f"import torch\n{needs}")
    return f'{head}def make_inputs():\n    """The same inputs every time."""\n    return (\n{lines}    )\n\n\n{program}\n'


def _write(root: Path, name: str, text: str, kind: str, about: dict[str, Any]) -> Path:
    """Write an entry, and see that it is one; else take it away again."""
    folder = root / name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UsageError(f"corpus add: --name {name}: accepted is a name in lower case such as split_cat_order")
    if folder.exists():
        raise UsageError(f"corpus add: {folder} is there already; accepted is a new name")
    folder.mkdir(parents=True)
    try:
        (folder / "program.py").write_text(text)
        (folder / kind).write_text(json.dumps(about, indent=2) + "\n")
        _check(folder)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


def _check(folder: Path) -> None:
    """Raise where an entry does not run in eager, or not twice alike."""
    found = entry(folder)
    try:
        runs = [found.program(*found.make_inputs()) for _ in range(2)]
    except USERS as error:
        raise UsageError(f"corpus add: eager refuses the program ({type(error).__name__}: {error})") from None
    one, other = (torch.utils._pytree.tree_leaves(r) for r in runs)
    alike = [
        torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True)
    ]
    if not all(alike):
        raise UsageError("corpus add: the program gives other results each time; accepted is one that seeds what it draws")


# ----------------------------------------------------------------------------------------------------------------- models


def add_model(root: Path, name: str, make: Callable[[], Any], source: str) -> Path:
    """Capture the model that ``make()`` returns with its inputs, as the entry ``name`` with parameters as inputs.

    Raises :class:`verify.cli.UsageError` for a model that is no single graph, or holds what cannot be written as Python.
    """
    try:
        model, inputs = make()
        graphs = capture(model, inputs if isinstance(inputs, (tuple, list)) else (inputs,))
    except USERS as error:
        raise UsageError(f"corpus add --model {source}: cannot be captured ({type(error).__name__}: {error})") from None
    if len(graphs) != 1:
        raise UsageError(f"corpus add --model {source}: breaks into {len(graphs)} graphs; accepted is one graph")
    program = as_program(graphs[0].gm, source)
    drawn = "".join(f"        {_drawn(i)},\n" for i in graphs[0].inputs if isinstance(i, torch.Tensor))
    made = f'def make_inputs():\n    """Numbers in place of inputs and parameters, the same every time."""\n    torch.manual_seed(0)\n    return (\n{drawn}    )\n'
    fires: Counter[str] = Engine(graphs[0].gm, eager_plan()).run().counts()
    what = f"Captured graph of {source}, {program.size()} operators."
    return _write(
        root,
        name,
        f"{HEAD.format(what=what)}{made}\n\n{_documented(program.source(), WHOLE)}\n",
        MODEL,
        {"what": what, "source": source, "fires": dict(fires)},
    )


def as_program(gm: GraphModule, source: str = "graph") -> Program:
    """A captured graph as a program; its inputs have the sizes of the placeholders. Raises :class:`verify.cli.UsageError`."""
    inputs: list[Input] = []
    steps: list[Step] = []
    values: dict[Node, Var] = {}
    outputs: tuple[str, ...] = ()
    for node in gm.graph.nodes:
        known = node.meta.get("example_value")
        if node.op == "placeholder":
            if not isinstance(known, torch.Tensor):
                raise UsageError(f"{source}: the input {node.name} is no tensor; accepted are tensors")
            values[node] = Var(f"x{len(inputs)}")
            inputs.append(Input(f"x{len(inputs)}", tuple(map(int, known.shape)), known.dtype, known.requires_grad))
        elif node.op == "output":
            outputs = tuple(values[n].name for n in torch.utils._pytree.tree_leaves(node.args[0]) if isinstance(n, Node))
        elif node.op in ("call_function", "call_method"):
            values[node] = Var(f"v{len(steps)}")
            args, kwargs = (torch.fx.node.map_aggregate(a, lambda item: _argument(item, values)) for a in (node.args, node.kwargs))
            steps.append(Step(values[node].name, node.target, tuple(args), tuple(kwargs.items())))  # type: ignore[arg-type,union-attr]
        else:
            raise UsageError(f"{source}: {node.op} {node.target} cannot be written as Python; accepted are calls of functions and methods")
    return Program(tuple(inputs), tuple(steps), outputs, source)


def _argument(item: Any, values: dict[Node, Var]) -> Any:
    if isinstance(item, Node):
        return values[item]
    return str(item) if isinstance(item, torch.device) else item


def _drawn(tensor: torch.Tensor) -> str:
    """An expression that draws numbers of the kind of ``tensor``."""
    shape = tuple(tensor.shape)
    if tensor.dtype is torch.bool:
        return f"torch.randint(0, 2, {shape}).bool()"
    if not tensor.dtype.is_floating_point:
        low, high = (int(tensor.min()), int(tensor.max())) if tensor.numel() else (0, 0)
        return f"torch.randint({low}, {high + 1}, {shape}).to({tensor.dtype})"
    grad = ".requires_grad_()" if tensor.requires_grad else ""
    dtype = "" if tensor.dtype is torch.float32 else f", dtype={tensor.dtype}"
    if not tensor.requires_grad and tensor.numel() and float(tensor.min()) >= 0 and float(tensor.max()) > MOST_DENSE:
        return f"torch.rand({shape}{dtype}) * {int(tensor.max())}"
    return f"torch.randn({shape}{dtype}){grad}"
