"""Which branches of a pass a run takes, by coverage.py."""

from __future__ import annotations

import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
from coverage.exceptions import CoverageWarning, NoDataError

from optimus.pattern import Pattern

NOT_THE_PASS = (r"^@(fires|declines)\b", r"^    def general\b")
"""What a file of a pattern holds besides the pass: its cases, and the rule in general."""


@dataclass(frozen=True)
class Branches:
    """The branches of some files. ``missing``: (file, line, line never reached from it; 0 or less: the way out)."""

    total: int
    missing: tuple[tuple[str, int, int], ...] = ()

    @property
    def taken(self) -> int:
        """How many branches were taken."""
        return self.total - len(self.missing)

    @property
    def share(self) -> float:
        """The part that was taken, 1.0 where there are none."""
        return self.taken / self.total if self.total else 1.0


def sources(pattern: Pattern) -> list[Path]:
    """The files that the class of a pattern and those it inherits from are written in, the engine's own left out."""
    classes = [c for c in type(pattern).__mro__ if issubclass(c, Pattern) and c.__module__ != Pattern.__module__]
    found = [inspect.getsourcefile(c) for c in classes]
    return [path for path in map(Path, dict.fromkeys(f for f in found if f is not None)) if path.exists()]


def branches_taken(paths: Sequence[Path], run: Callable[[], None]) -> Branches:
    """The branches of the code in ``paths`` that ``run()`` takes, cases and general rules left out of account.

    Nothing else is traced. Another measurement by coverage.py in this process sees nothing while it runs.
    """
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
            return Branches(0)
        files = json.loads(report.read_text())["files"]
    missing = tuple((Path(name).name, a, b) for name, found in files.items() for a, b in found["missing_branches"])
    return Branches(sum(found["summary"]["num_branches"] for found in files.values()), missing)
