"""Which part of all changes to the code of the passes the judge sees: every mutant of every file of every pattern, each once.

A mutant of a module that several patterns use is seen if a witness sees it through any of these. First each pattern is judged as
it stands: where a witness objects to one, nothing is scored. The file holds the mutants themselves, so that a run can begin on a
machine with cosmic-ray and go on without it:

    python -m benchmarks.mutation_score --total 0 --out mutants.json
    python -m benchmarks.mutation_score --resume mutants.json --out mutants.json --workers 15 --total 560
    python -m benchmarks.mutation_score --table mutants.json > benchmarks/results/mutation-score.md

``benchmarks/results/mutation-equivalent.json`` says of mutants that survive why they compute the same, by their diffs.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import platform
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import optimus.passes
from optimus.pattern import Pattern
from optimus.plan import provable
from verify.branches import sources
from verify.cli import UsageError
from verify.mutant import CONTROL, TIME, WITNESSES, Killed, Mutant, control
from verify.mutants import ControlError, Task, check_control, judged
from verify.mutation import mutants_of

HOME = Path(optimus.passes.__file__).parent
EQUIVALENT = Path(__file__).parent / "results" / "mutation-equivalent.json"
FUZZ_S = 5.0
WRITE_S = 5.0


@dataclass
class Entry:
    """A mutant, or a pattern as it stands, and what became of it. ``by``: None as long as nobody has judged it."""

    mutant: Mutant
    names: tuple[str, ...]
    key: str
    by: dict[str, str] | None = None
    seconds: float = 0.0

    def task(self) -> Task:
        """What is to be judged."""
        return Task(self.names, self.mutant, FUZZ_S)

    def to_json(self) -> dict[str, Any]:
        """Plain data: the change as lines that are replaced, so that a machine without cosmic-ray can make it."""
        before, after = (text.splitlines() for text in (self.mutant.file.read_text(), self.mutant.source))
        first = _shared(before, after)
        last = min(_shared(before[::-1], after[::-1]), len(before) - first, len(after) - first)
        return {
            "key": self.key,
            "file": self.mutant.file.name,
            "operator": self.mutant.operator,
            "line": self.mutant.line,
            "patterns": self.names,
            "first": first,
            "was": before[first : len(before) - last],
            "is": after[first : len(after) - last],
            "killed by": self.by,
            "seconds": round(self.seconds, 2),
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Entry | None:
        """What :meth:`to_json` gave, wherever it stands now; None where the file has changed there since."""
        file = HOME / plain["file"]
        lines, was = file.read_text().splitlines(), plain["was"]
        places = [k for k in range(len(lines)) if lines[k : k + len(was)] == was]
        for at in sorted(places, key=lambda k: abs(k - plain["first"])):
            line = plain["line"] + at - plain["first"]
            source = "\n".join([*lines[:at], *plain["is"], *lines[at + len(was) :]]) + "\n"
            mutant = Mutant(file, plain["operator"], line, source)
            if key_of(mutant, ".".join(enclosing(file.read_text(), line))) == plain["key"].split("\n#")[0]:
                return cls(mutant, tuple(plain["patterns"]), plain["key"], plain["killed by"], plain["seconds"])
        return None


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))


# -------------------------------------------------------------------------------------------------- what is to be judged


def controls() -> Iterator[Entry]:
    """Every pattern as it stands. The key changes with any of its files."""
    for pattern in provable():
        files = sources(pattern)
        digest = hashlib.sha256("".join(f.read_text() for f in files).encode()).hexdigest()[:16]
        yield Entry(control(files[0]), (pattern.name,), f"{pattern.name} {digest} torch {torch.__version__}")


def entries() -> Iterator[Entry]:
    """Every mutant of every file of a pattern, once, with the patterns that may see it, those first that call what it changes."""
    users: dict[Path, list[Pattern]] = defaultdict(list)
    for pattern in provable():
        for file in sources(pattern):
            users[file].append(pattern)
    texts = {file: file.read_text() for file in users}
    for file in sorted(users):
        seen: Counter[str] = Counter()
        orders: dict[tuple[str, ...], tuple[str, ...]] = {}
        for mutant in sorted(mutants_of(file), key=lambda m: m.line):
            inside = enclosing(texts[file], mutant.line)
            if inside not in orders:
                orders[inside] = _ordered(users[file], file, inside, texts)
            key = key_of(mutant, ".".join(inside))
            seen[key] += 1
            yield Entry(mutant, orders[inside], key if seen[key] == 1 else f"{key}\n#{seen[key]}")


def key_of(mutant: Mutant, inside: str) -> str:
    """The diff, with the name of the function in place of the numbers of lines, so that it stays where other functions change."""
    lines = mutant.diff().splitlines()[1:]
    return "\n".join(f"@@ {inside}" if line.startswith("@@") else line for line in lines)


def enclosing(text: str, line: int) -> tuple[str, ...]:
    """The names of the classes and functions round a line, outermost first."""
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return tuple(node.name for node in sorted(found, key=lambda n: n.lineno))


def _ordered(users: Sequence[Pattern], file: Path, inside: Sequence[str], texts: dict[Path, str]) -> tuple[str, ...]:
    """The names of patterns, those first whose other files name what is changed, then those of few cases, which are soon judged."""

    def rank(pattern: Pattern) -> tuple[bool, int]:
        others = [texts[f] for f in sources(pattern) if f != file]
        named = any(re.search(rf"\b{re.escape(name)}\b", text) for name in inside for text in others)
        return not named, len(pattern.cases) + len(pattern.declines)

    return tuple(pattern.name for pattern in sorted(users, key=rank))


# ------------------------------------------------------------------------------------------------------------ the result


@dataclass
class Score:
    """All mutants and controls."""

    controls: list[Entry]
    mutants: list[Entry]

    @classmethod
    def of(cls, path: str | None, again: bool) -> Score:
        """What is known from ``path``, and what there is besides. ``again``: what survived is judged anew.

        Without cosmic-ray the mutants are those of ``path``. Raises :class:`verify.cli.UsageError` where there is neither.
        """
        known = json.loads(Path(path).read_text()) if path is not None else {"controls": [], "mutants": []}
        passed = {plain["key"] for plain in known["controls"] if plain["killed by"] == {}}
        before = {plain["key"]: plain for plain in known["mutants"]}
        try:
            found = list(entries())
        except UsageError:
            found = [entry for plain in known["mutants"] if (entry := Entry.from_json(plain)) is not None]
            print(f"without cosmic-ray, as {path} has them: {len(found)} of its {len(known['mutants'])} mutants", file=sys.stderr)
            if not found:
                raise
        for entry in found:
            plain = before.get(entry.key, {})
            entry.by, entry.seconds = plain.get("killed by"), plain.get("seconds", 0.0)
            if again and entry.by == {}:
                entry.by = None
        standing = list(controls())
        for entry in standing:
            entry.by = {} if entry.key in passed else None
        return cls(standing, found)

    def judge(self, workers: int, until: float, out: Path, files: Sequence[str]) -> None:
        """Judge what is left, until it is time, and write as results come in. Raises :class:`verify.mutants.ControlError`.

        ``files``: the names of those whose mutants are judged; empty: all.
        """
        mutants = [e for e in self.mutants if e.by is None and (not files or e.mutant.file.name in files)]
        concerned = {name for e in mutants for name in e.names}
        left = [*(e for e in self.controls if e.by is None and e.names[0] in concerned), *mutants]
        waiting = {(e.mutant.file, e.mutant.operator, e.mutant.source, e.names): e for e in left}
        self.write(out)
        written = time.monotonic()
        for number, (task, killed) in enumerate(judged([e.task() for e in left], workers, every=False, until=until), 1):
            entry = waiting[task.mutant.file, task.mutant.operator, task.mutant.source, task.sources]
            entry.by, entry.seconds = dict(killed.by), killed.seconds
            if entry.mutant.operator == CONTROL:
                check_control(killed)
            print(f"{number} of {len(left)}: {_said(entry, killed)}", flush=True)
            if time.monotonic() - written > WRITE_S:
                self.write(out)
                written = time.monotonic()
        self.write(out)

    def write(self, out: Path) -> None:
        """Put the file in place whole."""
        plain = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "controls": [e.to_json() for e in self.controls],
            "mutants": [e.to_json() for e in self.mutants],
        }
        part = out.with_suffix(".part")
        part.write_text(json.dumps(plain, indent=1))
        part.replace(out)


def _said(entry: Entry, killed: Killed) -> str:
    who = ", ".join(f"{witness} ({said[:80]})" for witness, said in killed.by) or ("stands" if entry.mutant.operator == CONTROL else "SURVIVED")
    return f"{entry.mutant.file.name}:{entry.mutant.line} {entry.mutant.operator}: {who}, {killed.seconds:.1f} s"


def equivalent() -> dict[str, str]:
    """Why mutants that survive compute the same, by their keys."""
    return {entry["key"]: entry["why"] for entry in json.loads(EQUIVALENT.read_text())} if EQUIVALENT.exists() else {}


def table(found: Score) -> str:
    """The result as Markdown."""
    reasons = equivalent()
    rows = []
    files = sorted({e.mutant.file for e in found.mutants})
    for name, chosen in [*((f"`{f.name}`", [e for e in found.mutants if e.mutant.file == f]) for f in files), ("all", found.mutants)]:
        by = Counter(next(iter(e.by)) for e in chosen if e.by)
        survived = [e for e in chosen if e.by == {}]
        same = sum(e.key in reasons for e in survived)
        judged_ = sum(e.by is not None for e in chosen)
        differing = judged_ - same
        score = f"{sum(bool(e.by) for e in chosen) / differing:.1%}" if differing else "-"
        counts = [len(chosen), judged_, *(by[w] for w in (*WITNESSES, TIME)), len(survived), same]
        rows.append([name, *map(str, counts), score])
    columns = ("file", "mutants", "judged", *WITNESSES, "no end", "survived", "equivalent", "score")
    seconds = sorted(e.seconds for e in found.mutants if e.by)
    median = seconds[len(seconds) // 2] if seconds else math.nan
    lines = [
        "# Mutation score of the passes",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}; `python -m benchmarks.mutation_score`.",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "A mutant counts for the first witness that saw it, in the order of the columns, through any pattern that uses the file. `score`: the",
        "part that was seen of those that were judged and are not equivalent. `equivalent`: survived, and a reason is given why it computes the",
        f"same. Median of a mutant that was seen: {median:.1f} s. Patterns that were judged as they stand, and to which no witness objected:",
        f"{sum(e.by == {} for e in found.controls)} of {len(found.controls)}.",
    ]
    for title, chosen in (
        ("Survived, and no reason is given", [e for e in found.mutants if e.by == {} and e.key not in reasons]),
        ("Survived, equivalent", [e for e in found.mutants if e.by == {} and e.key in reasons]),
    ):
        if chosen:
            lines += ["", f"## {title}"]
        for entry in chosen:
            lines += ["", *([reasons[entry.key]] if entry.key in reasons else []), "", "```diff", entry.key, "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Judge, or print the table. 1 if a mutant is not judged, or survived without a reason; 3 if a pattern is objected to as it stands."""
    parser = argparse.ArgumentParser("benchmarks.mutation_score", allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--total", type=float, default=math.inf, metavar="SECONDS", help="begin no mutant after that")
    parser.add_argument("--out", default="mutation-score.json", metavar="FILE")
    parser.add_argument("--resume", metavar="FILE", help="leave out what was judged there")
    parser.add_argument("--only", metavar="FILE", help="judge what survived there, or was not judged")
    parser.add_argument("--file", action="append", default=[], metavar="NAME", help="judge mutants of this file alone, such as split_cat.py")
    parser.add_argument("--table", metavar="FILE", help="judge nothing, print the table of that file")
    options = parser.parse_args()
    start = time.monotonic()
    unknown = [name for name in options.file if not (HOME / name).is_file()]
    if unknown:
        parser.error(f"--file {unknown[0]}: is not there; accepted is the name of a file in {HOME.name}/")
    found = Score.of(options.table or options.only or options.resume, again=options.only is not None)
    if options.table is None:
        try:
            found.judge(options.workers, start + options.total, Path(options.out), options.file)
        except ControlError as error:
            print(f"benchmarks.mutation_score: {error}", file=sys.stderr)
            return 3
    else:
        print(table(found), end="")
    reasons = equivalent()
    unexplained = [e for e in found.mutants if not e.by and (e.by is None or e.key not in reasons)]
    left = sum(e.by is None for e in found.mutants)
    print(f"{len(found.mutants)} mutants, {left} not judged, {len(unexplained) - left} survived without a reason", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
