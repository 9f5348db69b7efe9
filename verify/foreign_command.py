"""``optimus-verify shipped`` and ``wrap``: judge passes that are not ours, print a table, and write programs that show the faults."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from optimus.pattern import IR
from verify import shipped, standalone
from verify.cli import UsageError
from verify.foreign import Foreign, Judged, functions, judge

EXIT = {"refuted": 1, "nothing found": 0, "not confirmed": 3, "never fired": 3}


def run_shipped(names: Sequence[str], *, budget_s: float, seed: int, json_path: str | None, out: str | None) -> int:
    """Judge passes that PyTorch ships, by name (none: all).

    The exit code is 1 if one is wrong, 3 if one never changed a program, or no find on its graphs could be confirmed, else 0.
    """
    try:
        chosen: list[Foreign] = [shipped.subject(name) for name in names or shipped.shipped()]
    except ValueError as error:
        raise UsageError(str(error)) from None
    return _run(chosen, budget_s, seed, json_path, out)


def run_wrapped(names: Sequence[str], level: str, *, budget_s: float, seed: int, json_path: str | None, out: str | None) -> int:
    """The same for functions from graph to graph."""
    try:
        chosen: list[Foreign] = [f for name in names for f in functions(name, IR(level))]
    except ValueError as error:
        raise UsageError(str(error)) from None
    return _run(chosen, budget_s, seed, json_path, out)


def _run(chosen: Sequence[Foreign], budget_s: float, seed: int, json_path: str | None, out: str | None) -> int:
    _check(json_path, out)
    console = Console(highlight=False, emoji=False, width=None if Console().is_terminal else 120)
    found: list[Judged] = []
    for subject in chosen:
        found.append(judge(subject, budget_s, seed))
        console.print(_said(found[-1]), markup=False)
    table = Table()
    for column in ("pass", "programs", "changed", "verdict", "operators", "put aside", "s"):
        table.add_column(column, overflow="fold")
    for judged in found:
        table.add_row(*_row(judged))
    console.print(table)
    try:
        if json_path is not None:
            Path(json_path).write_text(json.dumps({"torch": torch.__version__, "passes": [_plain(j) for j in found]}, indent=1))
        if out is not None:
            _write(Path(out), chosen, found, f"budget {budget_s:.0f} s for each, seed {seed}")
    except OSError as error:
        raise UsageError(f"the result cannot be written ({error.strerror or error}); accepted are a file and a folder that can be") from None
    codes = {EXIT[j.verdict] for j in found}
    return 1 if 1 in codes else max(codes)


def _check(json_path: str | None, out: str | None) -> None:
    """Raise :class:`verify.cli.UsageError` where the results could not be written, before they are made."""
    if json_path is not None and (Path(json_path).is_dir() or not Path(json_path).resolve().parent.is_dir()):
        raise UsageError(f"--json {json_path}: cannot be written; accepted is a file in a folder that is there")
    if out is not None:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be made ({error.strerror or error}); accepted is a folder") from None


def _row(judged: Judged) -> tuple[str, ...]:
    size = str(judged.program.size()) if judged.program is not None else ""
    return (
        judged.name, str(judged.tried), str(judged.fired), judged.verdict, size, str(len(judged.dismissed) or ""), f"{judged.seconds:.0f}",
    )  # fmt: skip


def _said(judged: Judged) -> str:
    lines = [f"{judged.name}: {judged.verdict} ({judged.tried} programs, {judged.fired} changed, {judged.seconds:.0f} s)"]
    if judged.program is not None:
        how = ["compiled with symbols for its sizes"] if judged.dynamic else []
        lines += ["", str(judged.program), "", *how, *judged.differences, ""]
    return "\n".join(lines)


def _plain(judged: Judged) -> dict[str, Any]:
    return {
        "name": judged.name,
        "verdict": judged.verdict,
        "programs": judged.tried,
        "changed": judged.fired,
        "seconds": round(judged.seconds, 1),
        "program": None if judged.program is None else str(judged.program),
        "dynamic": judged.dynamic,
        "differences": list(judged.differences),
        "put aside": [{"program": str(program), "differences": what} for program, what in judged.dismissed],
    }


def _write(folder: Path, chosen: Sequence[Foreign], found: Sequence[Judged], how: str) -> None:
    """A table, and for each fault of a shipped pass a program that needs nothing but PyTorch and exits with 1 while the fault lives."""
    lines = [
        f"PyTorch {torch.__version__}, Python {platform.python_version()}; {how}.",
        "",
        "| pass | programs tried | changed by it | verdict | operators | what differs from eager with the pass, and not without | put aside |",
        "|---|---|---|---|---|---|---|",
    ]
    for subject, judged in zip(chosen, found, strict=True):
        shown = ""
        if judged.program is not None and isinstance(subject, shipped.ShippedPass):
            name = f"{subject.option}.py"
            (folder / name).write_text(standalone.script(judged.program, subject, judged.differences, judged.dynamic))
            shown = f" ([{name}]({name}))"
        what = "; ".join(judged.differences).replace("|", "\\|")
        _, tried, fired, verdict, size, aside, _ = _row(judged)
        lines.append(f"| `{judged.name}` | {tried} | {fired} | {verdict}{shown} | {size} | {what} | {aside} |")
    (folder / "README.md").write_text("# Passes judged\n\n" + "\n".join(lines) + "\n")
