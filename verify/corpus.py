"""The corpus: programs that broke a rewrite, and captured graphs of real models, in plain Python and JSON, replayed for ever.

An entry is a folder with ``program.py``, which holds ``program(*inputs)`` and ``make_inputs()`` and may say ``CAPTURE = True`` where
sizes come from values, and one of two files of texts: ``fault.json`` with ``what``, ``broke``, ``address`` (or null) and
``right``; or ``model.json`` with ``what``, ``source`` and ``fires``, the least number of rewrites by pattern.
"""

from __future__ import annotations

import json
import runpy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from optimus.engine import Engine
from optimus.journal import Journal
from optimus.levels import level
from optimus.passes import BUILT_IN
from optimus.pattern import IR, Case, Exactness, HorizontalPattern, Pattern
from optimus.plan import Plan, lookup, replace_options
from optimus.postgrad import aot_eager
from optimus.rule import Rule
from verify.cli import UsageError
from verify.compare import USERS, observe
from verify.differential import Backend, three_way
from verify.rules import rule_subject
from verify.rules_loading import load

FAULT, MODEL = "fault.json", "model.json"
KEYS = {FAULT: {"what", "broke", "address", "right"}, MODEL: {"what", "source", "fires"}}


@dataclass(frozen=True)
class Entry:
    """One folder of the corpus. ``about``: what its JSON file says."""

    folder: Path
    program: Callable[..., Any]
    make_inputs: Callable[[], Sequence[Any]]
    about: dict[str, Any]
    capture: bool = False

    @property
    def is_model(self) -> bool:
        """Whether it is a captured model, and no fault."""
        return "fires" in self.about


def entry(folder: Path) -> Entry:
    """The entry in ``folder``. Raises :class:`verify.cli.UsageError` for what is no entry, or an incomplete one."""
    kinds = [name for name in KEYS if (folder / name).is_file()]
    if not (folder / "program.py").is_file() or len(kinds) != 1:
        raise UsageError(f"corpus {folder}: accepted is a folder with program.py and one of {FAULT} and {MODEL}")
    try:
        about = json.loads((folder / kinds[0]).read_text())
        found = runpy.run_path(str(folder / "program.py"))
    except USERS as error:
        raise UsageError(f"corpus {folder}: cannot be read ({type(error).__name__}: {error})") from None
    if not isinstance(about, dict) or set(about) != KEYS[kinds[0]]:
        raise UsageError(f"corpus {folder}: {kinds[0]} holds {sorted(about)}; accepted are exactly {sorted(KEYS[kinds[0]])}")
    program, make_inputs = found.get("program"), found.get("make_inputs")
    if not callable(program) or not callable(make_inputs):
        raise UsageError(
            f"corpus {folder}: program.py defines {'make_inputs' if callable(program) else 'program'} nowhere; accepted are both functions"
        )
    return Entry(folder, program, make_inputs, about, bool(found.get("CAPTURE", False)))


def entries(root: Path, names: Sequence[str] = ()) -> Iterator[Entry]:
    """The entries called ``names``, or all. Raises :class:`verify.cli.UsageError` for one that is missing, and for none at all."""
    if not root.is_dir():
        raise UsageError(f"--corpus {root}: is {'no folder' if root.exists() else 'not there'}; accepted is a folder of entries")
    known = sorted(d.name for d in root.iterdir() if d.is_dir() and not d.name.startswith((".", "_")))
    missing = [n for n in names if n not in known]
    if missing:
        raise UsageError(f"corpus {root} has no entry {missing[0]!r}; it has {', '.join(known[:8]) or 'none'}{', ...' if len(known) > 8 else ''}")
    if not known:
        raise UsageError(f"corpus {root} has no entries; see optimus-verify corpus add")
    for name in names or known:
        yield entry(root / name)


# ----------------------------------------------------------------------------------------------------------------- replay


@dataclass(frozen=True)
class PlanSubject:
    """A whole plan as a subject. Its journal is kept: which patterns fired, and which raised."""

    plan: Plan
    fired: Counter[str]
    errors: list[str]
    name: str = "the plan"
    cases: tuple[Case, ...] = ()
    declines: tuple[Case, ...] = ()
    general: Callable[[Rule], None] | None = None
    ir: IR = IR.TORCH

    @property
    def exactness(self) -> Exactness:
        """That of the worst pattern."""
        bitwise = all(p.exactness is Exactness.BITWISE for p in self.plan)
        return Exactness.BITWISE if bitwise else Exactness.REASSOCIATES

    def apply(self, gm: torch.fx.GraphModule) -> Journal:
        """See :class:`verify.subject.Subject`: the part of the plan that is for the level of ``gm``."""
        journal = Engine(gm, self.plan.at(level(gm.graph))).run()
        self.fired.update(journal.counts())
        self.errors.extend(str(d) for d in journal.declined if d.reason == "error")
        return journal


class PlanBackend(Backend):
    """Runs a plan as it is run in production: what is for ATen-IR on the graphs that autograd makes, all else in front."""

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """See :func:`torch.compile`."""
        self._change(gm)
        return aot_eager(self._change)(gm, example_inputs)


def eager_plan(patterns: Sequence[Pattern] = BUILT_IN) -> Plan:
    """``patterns`` as eager to fire as they can be made: groups of two, returned members too, short runs."""
    wanted = {"min_fuse_set_size": 2, "fuse_returned": True, "threshold_to_cat": 2}
    found = []
    for pattern in (p.judged() for p in patterns):
        options = pattern.options()
        accepted = {k: v for k, v in wanted.items() if k in options and (k != "fuse_returned" or isinstance(pattern, HorizontalPattern))}
        found.append(replace_options(pattern, accepted))
    return Plan(tuple(sorted(found, key=lambda p: p.name != "batch_linear_lhs")))


def chosen_plan(names: Sequence[str], rules: Sequence[str]) -> Plan:
    """The plan of the named patterns and rules; without any, of every built-in pattern."""
    try:
        named = [lookup(n) for n in names]
    except ValueError as error:
        raise UsageError(str(error)) from None
    other = next((p for p in named if p.ir is IR.INDUCTOR or p.exactness is Exactness.LOSSY), None)
    if other is not None:
        what = "rewrites scheduler nodes" if other.ir is IR.INDUCTOR else "changes gradients within a bound"
        raise UsageError(f"{other.name} {what}, so that it cannot be compared with eager here; accepted are other patterns of torch and aten")
    mine = [rule_subject(r.pattern).pattern for r in load(rules)]
    return eager_plan([*named, *mine]) if named or mine else eager_plan()


@dataclass(frozen=True)
class Replayed:
    """What became of an entry: differences from eager by the rewrites, and the rewrites."""

    differences: tuple[str, ...]
    fired: Counter[str]


def replay(found: Entry, plan: Plan, *, dynamic: bool = False) -> Replayed:
    """Run an entry in eager, through ``aot_eager`` alone, and through it behind ``plan``."""
    subject = PlanSubject(plan, Counter(), [])
    ours = PlanBackend(subject, "aot_eager")
    before = observe(found.program, list(found.make_inputs()))
    if before.raised is not None:
        return Replayed((f"eager refuses the program: {before.raised}",), Counter())
    with torch._dynamo.config.patch(capture_scalar_outputs=found.capture, capture_dynamic_output_shape_ops=found.capture):
        bitwise = subject.exactness is Exactness.BITWISE
        run = three_way(found.program, lambda: list(found.make_inputs()), ours, "aot_eager", bitwise=bitwise, dynamic=dynamic)
    wrong = [d for d in run.ours if d not in run.theirs]
    wrong += [f"given up on account of an error: {e}" for e in subject.errors]
    return Replayed((*wrong, *_too_few(found, subject.fired, plan)), subject.fired)


def _too_few(found: Entry, fired: Counter[str], plan: Plan) -> Iterator[str]:
    """For a captured model, the patterns of the plan that fire less often than they did."""
    for name, least in found.about.get("fires", {}).items():
        if any(p.name == name for p in plan) and fired[name] < least:
            yield f"{name} fired {fired[name]} times, and {least} times when the model was captured"
