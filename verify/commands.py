"""What the commands do once their arguments are known to be in order."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fuzz.templates import captured
from optimus.pattern import IR, Case, Pattern
from optimus.plan import Plan, default_plan, lookup, patterns
from verify import quantizer
from verify.aten import AtenProof, Sides
from verify.branches import LEAST, FileBranches, together
from verify.cache import Cache, default_folder
from verify.cli import UsageError
from verify.compare import USERS
from verify.findings import save
from verify.judgement import EXIT, Judgement, declined, not_the_same
from verify.judgement import judge as judge_subject
from verify.junit import check as check_junit
from verify.junit import write as write_junit
from verify.lowered import start
from verify.models import ModelError, ModelReport, check_model
from verify.paste import paste
from verify.rules import rule_subject
from verify.rules_loading import load
from verify.smtlib import Export, ExportError, recording
from verify.subject import PassError, PatternSubject, rewritten
from verify.verdict import Proved, Verdict, tidy, word
from verify.verdict import explain as explain_verdict
from verify.versions import versions
from verify.watchdog import LIMIT_S

COLOURS = {"proved": "green", "refuted": "red"}


def _console() -> Console:
    width = None if sys.stdout.isatty() else 120
    return Console(width=width, highlight=False)


def _patterns(names: Sequence[str]) -> list[Pattern]:
    try:
        return [lookup(n) for n in names]
    except ValueError as error:
        _usage(str(error))


def _of_level(level: str | None, *, provable: bool = False) -> list[Pattern]:
    """Every pattern, or those that read graphs of one level. ``provable``: without those of Inductor-IR, of which nothing can be proved."""
    known = list(patterns().values())
    found = [p for p in known if (level is None or p.ir is IR(level)) and not (provable and p.ir is IR.INDUCTOR)]
    if not found:
        there = ", ".join(dict.fromkeys(p.ir.value for p in known)) or "none"
        _usage(f"--ir {level}: no pattern reads graphs of this level; accepted are those of {there}")
    return found


def _usage(message: str) -> NoReturn:
    raise UsageError(message)


def _check_device(device: str) -> None:
    try:
        found = torch.device(device)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda") or (found.type == "cpu" and found.index is not None):
        _usage(f"--device {device}: accepted are cpu and cuda")
    if found.type == "cuda" and not torch.cuda.is_available():
        _usage(f"--device {device}: PyTorch {torch.__version__} sees no CUDA GPU here; accepted is cpu")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        _usage(f"--device {device}: PyTorch sees {torch.cuda.device_count()} CUDA GPUs here, numbered from 0")


@contextlib.contextmanager
def _output(path: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes the result. A file appears whole or not at all; that it can be written is checked first."""
    if path is None or path == "-":
        yield (lambda _: None) if path is None else (lambda result: print(json.dumps(result, indent=1)))
        return
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            _usage(f"--json {path}: is {'a directory' if target.is_dir() else 'no regular file'}; accepted is a file, or - for standard output")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except (OSError, RuntimeError) as error:  # a RuntimeError: links that lead in a circle
        _usage(f"--json {path}: cannot be written ({getattr(error, 'strerror', None) or error})")

    def write(result: dict[str, Any]) -> None:
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(result, file, indent=1)
            Path(temporary).replace(target)
        except OSError as error:
            _usage(f"--json {path}: cannot be written ({error.strerror or error})")

    try:
        yield write
    finally:
        Path(temporary).unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------------------- judge


def judge(
    names: Sequence[str] | None,
    budget_s: float,
    *,
    level: str | None,
    json_path: str | None,
    device: str,
    seed: int,
    smt2: str | None,
    kept: bool,
    timeout_s: float,
    rules: Sequence[str] = (),
    folders: Sequence[str] = (),
    limit_s: float = LIMIT_S,
    junit: str | None = None,
) -> int:
    """Judge patterns by name (empty: all, or all of a level; None: none), and rules from outside. The exit code is the worst of theirs.

    ``level``: a value of :class:`optimus.pattern.IR`, or None. ``smt2``: a folder for the queries. ``kept``: whether proofs are
    taken from the cache. ``timeout_s``: for each query. ``rules`` and ``folders``: see :func:`verify.rules_loading.load`; each
    rule may take ``limit_s`` over one graph. ``junit``: a file.
    """
    named = [] if names is None else _patterns(names) if names else _of_level(level, provable=level is None)
    _check_device(device)
    if junit is not None:
        check_junit(junit)
    loaded = load(rules, folders)
    chosen: list[PatternSubject] = [PatternSubject(p) for p in named] + [rule_subject(r.pattern, limit_s) for r in loaded]
    sources = [p.name for p in named] + [r.source for r in loaded]
    console = Console(stderr=True, highlight=False) if json_path == "-" else _console()
    cache = _cache(console, kept)
    with _output(json_path) as write, _queries(console, smt2, [p.name for p in chosen]) as exported:
        found: list[Judgement] = []
        replays: list[str] = []
        for subject, source in zip(chosen, sources, strict=True):
            with _progress(console, subject.name) as watch, exported(subject.name):
                found.append(judge_subject(subject, budget_s=budget_s, seed=seed, device=device, watch=watch, timeout_s=timeout_s, cache=cache))
            replays.append(_show(console, found[-1], source))
        if junit is not None:
            write_junit(junit, found, replays)
        shared = _shared(found)
        result = {"versions": versions(), "device": device, "seed": seed, "patterns": [j.to_json() for j in found]}
        write(result | {"shared_branches": [f.to_json() for f in shared]})
    for file in shared:
        console.print(f"{file.name}, which several patterns share: {_branches(file)}", markup=False)
    for judgement in found:
        console.print(Text(judgement.line, style=COLOURS.get(judgement.verdict, "yellow")))
    _show_cache(console, cache)
    codes = {EXIT[j.verdict] for j in found}
    return 1 if 1 in codes else max(codes)


def _shared(judged: Sequence[Judgement]) -> list[FileBranches]:
    """The files that several of the patterns share, and the branches that the hunts on all of them took."""
    measured = [j.branches for j in judged if j.branches]
    seen = Counter(f.path for files in measured for f in files)
    return [f for f in together(measured) if seen[f.path] > 1 and f.total]


def _branches(file: FileBranches, listed: bool = True) -> str:
    """How many branches were taken, and, if they are to be ``listed``, which of the others nobody has explained."""
    said = f"{file.taken} of {file.total} branches taken ({file.share:.0%})"
    explained = len(file.missing) - len(file.unexplained)
    said += f", {explained} explained in verify/unreached.py" if explained else ""
    return said + (f"; not taken: {'; '.join(map(str, file.unexplained))}" if listed and file.unexplained else "")


def _cache(console: Console, kept: bool) -> Cache | None:
    return Cache(default_folder(), lambda what: console.print(what, style="yellow", markup=False)) if kept else None


def _show_cache(console: Console, cache: Cache | None) -> None:
    if cache is not None and cache.hits:
        console.print(f"{cache}; --no-cache proves anew", markup=False)


@contextlib.contextmanager
def _queries(console: Console, folder: str | None, names: Sequence[str]) -> Iterator[Callable[[str], contextlib.AbstractContextManager[None]]]:
    """A context for each name, after which the queries asked inside lie under ``folder``. That they can be is checked first."""
    if folder is None:
        yield lambda _: contextlib.nullcontext()
        return
    export = Export(Path(folder), versions())
    made = [p for p in (export.root, *export.root.parents) if not os.path.lexists(p)]

    @contextlib.contextmanager
    def exported(name: str) -> Iterator[None]:
        with recording() as queries:
            yield
        files = export.write(name, queries)
        parts = len({f.parent for f in files})
        console.print(f"{name}: {len(files)} queries of {parts} parts written to {folder}; all were asked anew", markup=False)

    try:
        export.check(names)
        yield exported
    except ExportError as error:
        _usage(f"--smt2 {error}")
    finally:
        for left in made:
            with contextlib.suppress(OSError):  # it is in use, or was never made
                left.rmdir()


@contextlib.contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[str, str], None]]:
    """Live on a terminal; one line per witness and stretch of time elsewhere."""
    if console.is_terminal:
        with console.status(f"{name}: starting") as status:
            yield lambda witness, far: status.update(f"{name}: {witness}: {far}")
        return
    last: dict[str, float] = {}

    def tell(witness: str, far: str) -> None:
        now = time.monotonic()
        if witness not in last or now - last[witness] > 5:
            last[witness] = now
            console.print(f"{name}: {witness}: {far}")

    yield tell


def _show(console: Console, judgement: Judgement, source: str) -> str:
    """Print what the witnesses say. Returns the command that replays what fuzzing found, if it found something."""
    if judgement.fault is not None:
        return ""
    table = Table(title=f"{judgement.name}, claims {judgement.exactness}", title_justify="left")
    for column in ("witness", "on", "result"):
        table.add_column(column, overflow="fold")
    for part in judgement.proof.parts:
        what = "proof" if part.case.must_fire else "decline"
        result = declined(part) or "; ".join((explain_verdict(part.verdict), *not_the_same(part)))
        table.add_row(what, part.case.name, Text(result, style=COLOURS.get(word(part.verdict), "yellow")))
        if part.aten is not None:
            _show_aten(table, part.case.name, part.aten, forward=part.aten.forward != part.verdict)
    general = judgement.proof.general
    result = "not stated: number of pieces and rank as in the cases" if general is None else explain_verdict(general)
    table.add_row("proof", "the rule in general", Text(result, style="yellow" if general is None else COLOURS.get(word(general), "yellow")))
    if judgement.proof.edges is not None:
        edges = judgement.proof.edges
        table.add_row("sizes 0 and 1", edges.covered, Text(str(edges), style="yellow" if edges.wrong else "green"))
    fuzz = judgement.fuzz
    result = "no difference" if fuzz.finding is None else fuzz.finding.differences[0]
    table.add_row(
        "fuzz", f"{fuzz.tried} programs, {fuzz.fired} rewritten, {fuzz.seconds:.0f} s", Text(result, style="green" if fuzz.finding is None else "red")
    )
    for number, file in enumerate(judgement.branches or ()):
        if file.total:
            own = not number  # a helper that patterns share has branches for the others too
            style = "yellow" if own and file.share < LEAST and file.unexplained else "green"
            table.add_row("branches", file.name, Text(_branches(file, listed=own), style=style))
    for compiler in dict.fromkeys(c.compiler for c in judgement.runs):
        runs = [c for c in judgement.runs if c.compiler == compiler]
        wrong = [c for c in runs if c.blamed]
        result = f"{wrong[0].name}: {wrong[0].ours[0]}" if wrong else "no difference"
        table.add_row("differential", f"{len(runs)} runs through {compiler}", Text(result, style="red" if wrong else "green"))
    console.print(table)
    return _show_fault(console, judgement, source)


def _show_aten(table: Table, name: str, proof: AtenProof, *, forward: bool) -> None:
    """A row for each graph at ATen-IR; for the ``forward`` graph only if it has none yet."""
    if forward:
        table.add_row("ATen forward", name, _coloured(proof.forward))
    if proof.backward is None:
        text = "no output requires a gradient, before and after" if isinstance(proof.forward, Proved) else "not asked"
        table.add_row("ATen backward", name, text)
        return
    told = _coloured(proof.backward)
    if isinstance(proof.backward, Proved) and proof.sides is not None:
        told.append(f"; by {', '.join(proof.backward.ledger)}; {_sides(proof.sides)}; accumulation: {proof.accumulation}")
    table.add_row("ATen backward", name, told)


def _sides(sides: Sides) -> str:
    """The side conditions of a proof of gradients, in words."""
    none = ", ".join(sides.without[0])
    assumed = f"; as PyTorch takes its branches where {', '.join(sides.assumed)}" if sides.assumed else ""
    return f"None for {none or 'no input'}, before and after; requires_grad of outputs unchanged{assumed}"


def _coloured(verdict: Verdict) -> Text:
    return Text(explain_verdict(verdict), style=COLOURS.get(word(verdict), "yellow"))


def _show_fault(console: Console, judgement: Judgement, source: str) -> str:
    if judgement.proof.counterexample is not None:
        name, seen = judgement.proof.counterexample
        console.print(f"\ncounterexample in {name}, {seen}", markup=False)
    if judgement.fuzz.finding is None:
        return ""
    folder = save_finding(judgement, source=source)
    command = f"python {folder / 'replay.py'}"
    console.print("\nSmallest program found:\n", style="red")
    console.print("\n".join(judgement.fuzz.finding.differences) + "\n", markup=False)
    console.print(paste(judgement.fuzz.finding.program), markup=False)
    console.print(f"\nsaved; it fails while the fault lives: {command}", markup=False)
    return command


def save_finding(judgement: Judgement, root: Path | None = None, source: str = "") -> Path:
    """Keep a find as a folder with a program that replays it. The same find goes to the same folder.

    ``source``: what ``--rule`` took, for a rule from outside.
    """
    assert judgement.fuzz.finding is not None
    return save(judgement.fuzz.finding, judgement.name, root, source)


# ------------------------------------------------------------------------------------------------------- list, explain


def list_patterns(level: str | None = None) -> int:
    """Print every pattern, or those of one level."""
    chosen = _of_level(level)
    console = _console()
    table = Table()
    table.add_column("pattern", min_width=max(len(p.name) for p in chosen))
    for column in ("IR", "kind", "default", "exactness", "rewrites"):
        table.add_column(column, overflow="fold")
    for pattern in chosen:
        kind = "horizontal" if hasattr(pattern, "min_fuse_set_size") or hasattr(pattern, "max_group") else "vertical"
        rewrite = (inspect.getdoc(pattern) or "").split("\n\n")[0].replace("``", "")
        default = "on" if pattern.by_default else "off"
        table.add_row(pattern.name, pattern.ir.value, kind, default, pattern.exactness.name, Text(rewrite))  # brackets would be taken for styles
    console.print(table)
    return 0


def explain(name: str) -> int:
    """Print what a pattern does, its options and requirements, and its cases before and after."""
    (pattern,) = _patterns([name])
    print(pattern.name)
    print(f"\n{inspect.getdoc(pattern)}\n".replace("``", ""))
    print(f"exactness: {pattern.exactness.name}, {pattern.exactness.value}")
    print("options: " + ", ".join(f"{k}={v}" for k, v in pattern.options().items()))
    print("\nrequirements")
    for reason, text in pattern.requirements.items():
        print(f"  {reason}: {text}")
    for case in pattern.cases:
        before, after = _before_and_after(pattern, case)
        print(f"\ncase {case.name}{_shapes(case)}\n  before\n{_indent(before)}\n  after\n{_indent(after)}")
    for case in pattern.declines:
        before, _ = _before_and_after(pattern, case)
        print(f"\nleft alone: {case.name}{_shapes(case)}, because {case.reason}\n{_indent(before)}")
    return 0


def _before_and_after(pattern: Pattern, case: Case) -> tuple[str, str]:
    subject = PatternSubject(pattern)
    if quantizer.concerns(subject):
        seen = quantizer.examine(subject, captured(case))
        return tidy(seen.before), tidy(seen.after)
    before = start(subject, captured(case))
    try:
        after, _ = rewritten(subject, before)
    except PassError as error:
        return tidy(before.code), f"  {error}"
    return tidy(before.code), tidy(after.code)


def _shapes(case: Case) -> str:
    return f" ({'; '.join(case.shapes[:6])}{'; ...' if len(case.shapes) > 6 else ''})"


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


# --------------------------------------------------------------------------------------------------------------- model


def model(
    factory: str, names: Sequence[str], *, json_path: str | None, device: str, seed: int, smt2: str | None, kept: bool, timeout_s: float
) -> int:
    """Capture, rewrite, validate and compare a model. 0: all proved and equal; 1: something differs; 3: undecided."""
    plan = Plan(tuple(_patterns(names))) if names else default_plan()
    _check_device(device)
    console = Console(stderr=True, highlight=False) if json_path == "-" else _console()
    make = factory_of(factory)
    cache = _cache(console, kept)
    with _output(json_path) as write, _queries(console, smt2, [factory]) as exported:
        try:
            with _progress(console, factory) as watch, exported(factory):
                report = check_model(make, plan, device=device, seed=seed, watch=watch, timeout_s=timeout_s, cache=cache)
        except ModelError as error:
            _usage(f"model {factory}: {error}")
        _show_model(console, report)
        write({"versions": versions(), "model": factory, "device": device, **report.to_json()})
    console.print(Text(report.line, style={0: "green", 1: "red"}.get(report.exit_code, "yellow")))
    _show_cache(console, cache)
    return report.exit_code


def factory_of(text: str) -> Callable[[], Any]:
    """The function called ``MODULE:FACTORY``. Raises :class:`verify.cli.UsageError`."""
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        _usage(f"model {text}: accepted is MODULE:FACTORY, such as mypackage.models:make")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except USERS as error:
        _usage(f"model {text}: the module {module_name} cannot be imported ({type(error).__name__}: {error})")
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        near = [n for n in vars(module) if callable(getattr(module, n)) and not n.startswith("_")][:8]
        _usage(f"model {text}: {module_name} has no function {name}; it has {', '.join(near) or 'none'}")
    return found


def _show_model(console: Console, report: ModelReport) -> None:
    table = Table(title=f"{report.nodes_before} nodes became {report.nodes_after}", title_justify="left")
    for column in ("pattern", "rewrites", "proved", "not proved", "declined"):
        table.add_column(column, overflow="fold")
    for row in report.rows():
        table.add_row(*row)
    console.print(table)
    for text in report.rolled_back[:10]:
        console.print(f"rolled back: {text}", style="yellow", markup=False)
    for text in report.differences[:10]:
        console.print(f"differs: {text}", style="red", markup=False)
    if report.divergence is not None:
        console.print(report.divergence, style="red", markup=False)
