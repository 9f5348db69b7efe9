"""Which branches of a pass a run takes, by coverage.py.

A branch is a jump from one line to another that is not the only one there, in the words of coverage.py. The files of a
pattern are those that its class and the classes it inherits from are written in, and the helpers of the same package that
these import. Cases, and what states a rule in general, are no part of the pass and are left out of account.
"""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import coverage
from coverage.exceptions import CoverageWarning, NoDataError

import optimus.passes
from optimus.pattern import Pattern
from verify.unreached import UNREACHED

NOT_THE_PASS = (r"^ *@(fires|declines)\b", r"^    def general\b", r"^def \w+\(rule: Rule\b")
"""What a file of a pattern holds besides the pass: its cases, and the rule in general."""

LEAST = 0.95
"""The part of the branches of each file that a fuzz run has to take; the rest has to be explained."""


@dataclass(frozen=True)
class Missing:
    """A branch that was not taken: the line it starts from, that to which it leads (0 or less: the way out), and the text of the first."""

    line: int
    to: int
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.text}"


@dataclass(frozen=True)
class FileBranches:
    """The branches of one file. ``path``: absolute."""

    path: str
    total: int
    missing: tuple[Missing, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file without its folder."""
        return Path(self.path).name

    @property
    def taken(self) -> int:
        """How many branches were taken."""
        return self.total - len(self.missing)

    @property
    def share(self) -> float:
        """The part that was taken, 1.0 where there are none."""
        return self.taken / self.total if self.total else 1.0

    def reason(self, missing: Missing) -> str | None:
        """Why no program takes a branch, see :data:`verify.unreached.UNREACHED`; None if nobody has said."""
        ours = Path(self.path).parent == Path(optimus.passes.__file__).parent
        return UNREACHED.get(self.name, {}).get(missing.text) if ours else None

    @property
    def unexplained(self) -> tuple[Missing, ...]:
        """Branches that were not taken, and for which no reason is given."""
        return tuple(m for m in self.missing if self.reason(m) is None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        missing = [{"line": m.line, "to": m.to, "text": m.text, "why": self.reason(m)} for m in self.missing]
        return {"file": self.name, "branches": self.total, "taken": self.taken, "missing": missing}


def together(measured: Iterable[Sequence[FileBranches]]) -> list[FileBranches]:
    """The branches of each file that some run took. Every run that saw a file counts all its branches."""
    found: dict[str, FileBranches] = {}
    for one in measured:
        for file in one:
            known = found.get(file.path)
            both = file.missing if known is None else tuple(m for m in known.missing if m in file.missing)
            found[file.path] = FileBranches(file.path, file.total, both)
    return list(found.values())


def sources(pattern: Pattern) -> list[Path]:
    """The files that a pattern is written in: its own first, then those it inherits from, and the helpers they import from beside them."""
    classes = [c for c in type(pattern).__mro__ if issubclass(c, Pattern) and c.__module__ != Pattern.__module__]
    modules = [sys.modules[c.__module__] for c in classes]
    modules += [helper for module in list(modules) for helper in _helpers(module)]
    found = [inspect.getsourcefile(m) if getattr(m, "__file__", None) else None for m in modules]
    return [path for path in map(Path, dict.fromkeys(f for f in found if f is not None)) if path.exists()]


def _helpers(module: ModuleType) -> list[ModuleType]:
    """The modules of the package of ``module`` whose functions and classes it has imported, its own left out."""
    package = module.__package__
    if not package:
        return []
    names = dict.fromkeys(getattr(thing, "__module__", None) for thing in vars(module).values())
    return [sys.modules[n] for n in names if n in sys.modules and n != module.__name__ and n.startswith(f"{package}.")]


def is_traced() -> bool:
    """Whether somebody traces this process already, a debugger or another measurement, so that none can begin."""
    return sys.gettrace() is not None


def branches_taken(paths: Sequence[Path], run: Callable[[], None]) -> list[FileBranches]:
    """The branches of the code in ``paths`` that ``run()`` takes, file by file, cases and general rules left out of account.

    Nothing else is traced. A file without branches has a total of 0. Raises ``RuntimeError`` if something traces this process already.
    """
    if is_traced():
        raise RuntimeError("branches_taken: this process is being traced already; accepted is one without a debugger or another measurement")
    measuring = coverage.Coverage(branch=True, include=[str(p) for p in paths], data_file=None, config_file=False, messages=False)
    for what in NOT_THE_PASS:
        measuring.exclude(what)
    measuring.start()
    try:
        run()
    finally:
        measuring.stop()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        report = Path(folder) / "branches.json"
        try:
            measuring.json_report(morfs=[str(p) for p in paths], outfile=str(report))
        except NoDataError:
            return []
        files = json.loads(report.read_text())["files"]
    measured = {str(path): _file(path, found) for name, found in files.items() if (path := Path(name).resolve())}
    return [measured[key] for path in paths if (key := str(path.resolve())) in measured]


def _file(path: Path, found: dict[str, Any]) -> FileBranches:
    lines = path.read_text().splitlines()
    missing = tuple(Missing(a, b, lines[a - 1].strip()) for a, b in found["missing_branches"])
    return FileBranches(str(path), found["summary"]["num_branches"], missing)
