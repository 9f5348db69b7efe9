"""Judging passes that are not ours: a hunt on graphs, and ``torch.compile`` to confirm what it finds."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule

from fuzz.disturb import runs
from fuzz.program import Program
from fuzz.variants import variants
from optimus.journal import Journal
from optimus.pattern import IR, Case, Exactness
from optimus.plan import patterns
from optimus.rule import Rule
from verify.compare import compare
from verify.differential import Backend, quiet
from verify.fuzzing import Finding, FuzzReport, Method, UncapturedError, by_graphs, hunt, judge_symbolic
from verify.shipped import NONE, with_settings
from verify.spent import Spent
from verify.subject import PassError, Subject, one_rewrite

SCALES = (1, 12)
"""By how much the extents of a find are multiplied, one after the other, until ``torch.compile`` shows it: Inductor writes out products with
a matrix of up to 16 x 16 before a pass sees them, and finds have extents of 2."""


class Foreign(Subject, Protocol):
    """A subject that ``torch.compile`` can be given."""

    def compiler(self) -> Callable[..., Any]:
        """A backend that runs the pass and then Inductor."""


@dataclass(frozen=True)
class FunctionPass:
    """A function from graph to graph: of a :class:`torch.fx.Graph`, or of a :class:`torch.fx.GraphModule` where its first parameter is annotated
    so or called ``gm``, ``graph_module`` or ``module``. It may change what it is given, or return another."""

    name: str
    function: Callable[..., Any]
    ir: IR = IR.TORCH
    exactness: Exactness = Exactness.REASSOCIATES
    declines: tuple[Case, ...] = ()
    general: Callable[[Rule], None] | None = None

    @property
    def cases(self) -> tuple[Case, ...]:
        """See :class:`verify.subject.Subject`. One program of each pattern of the level, so that all operators that those read are there."""
        return tuple(pattern.cases[0] for pattern in patterns().values() if pattern.ir is self.ir)

    def apply(self, gm: GraphModule) -> Journal:
        """See :class:`verify.subject.Subject`. A change counts as one rewrite of everything."""

        def change() -> bool:
            before = str(gm.graph)
            _take_over(gm, self.function(gm if takes_module(self.function) else gm.graph))
            outputs = len(gm.graph.find_nodes(op="output"))
            if outputs != 1:
                raise ValueError(f"the pass left a graph with {outputs} outputs; accepted is one")
            return str(gm.graph) != before

        return one_rewrite(self.name, gm, change)

    def compiler(self) -> Callable[..., Any]:
        """See :class:`Foreign`."""
        return Backend(self, "inductor")


def _take_over(gm: GraphModule, returned: Any) -> None:
    """Make of ``gm`` what a pass returned, which may read from parameters, buffers and modules of its own."""
    if not (returned is None or isinstance(returned, (bool, Graph, GraphModule))):
        raise TypeError(f"the pass returned {type(returned).__name__}; accepted are None, a Graph and a GraphModule")
    if isinstance(returned, GraphModule) and returned is not gm:
        for place in ("_parameters", "_buffers", "_modules"):
            getattr(gm, place).update(getattr(returned, place))
        gm.__dict__.update({name: given for name, given in returned.__dict__.items() if isinstance(given, torch.Tensor)})
        gm.graph = returned.graph
    if isinstance(returned, Graph) and returned is not gm.graph:
        gm.graph = returned


def takes_module(function: Callable[..., Any]) -> bool:
    """Whether ``function`` is given a :class:`torch.fx.GraphModule`, by how its first parameter is annotated or called."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # a builtin, say
        return False
    annotated = "" if first is None or first.annotation is first.empty else str(getattr(first.annotation, "__name__", first.annotation))
    return first is not None and (annotated.endswith("GraphModule") or first.name in ("gm", "graph_module", "module"))


def functions(text: str, level: IR) -> list[FunctionPass]:
    """The pass, or the list of passes, called ``MODULE:NAME``. Raises ``ValueError`` where there is none."""
    where, _, name = text.partition(":")
    if not where or not name:
        raise ValueError(f"{text!r}: accepted is MODULE:NAME, of a function from graph to graph or a list of them")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(where), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a module raises when it is imported
        raise ValueError(f"{text}: cannot be loaded ({type(error).__name__}: {error})") from error
    passes = list(found) if isinstance(found, Sequence) else [found]
    wrong = next((p for p in passes if not callable(p)), None)
    if wrong is not None or not passes:
        raise ValueError(f"{text}: is {type(found).__name__}{f' with {wrong!r} in it' if passes else ' of nothing'}; accepted are functions")
    if len(passes) == 1:
        return [FunctionPass(text, passes[0], level)]
    single = [FunctionPass(f"{text}[{k}] {getattr(p, '__name__', type(p).__name__)}", p, level) for k, p in enumerate(passes)]
    return [*single, FunctionPass(f"{text}, all in turn", _in_turn(passes), level)]


def _in_turn(passes: Sequence[Callable[..., Any]]) -> Callable[[GraphModule], GraphModule]:
    def run(gm: GraphModule) -> GraphModule:
        for function in passes:
            FunctionPass("", function).apply(gm)
        return gm

    return run


# ----------------------------------------------------------------------------------------------------------- the verdict


@dataclass
class Judged:
    """What became of one pass that is not ours.

    ``differences``: what differs from eager in ``torch.compile`` with the pass on ``program``, where without it nothing does. ``dynamic``:
    compiled with symbols for sizes.
    ``dismissed``: finds on graphs that did not come back there, and what they were.
    """

    name: str
    tried: int = 0
    fired: int = 0
    seconds: float = 0.0
    program: Program | None = None
    dynamic: bool = False
    differences: tuple[str, ...] = ()
    dismissed: list[tuple[Program, str]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """One word or a few."""
        if self.differences:
            return "refuted"
        return "not confirmed" if self.dismissed else "nothing found" if self.fired else "never fired"


def judge(chosen: Foreign, seconds: float, seed: int = 0, watch: Callable[[Judged], None] | None = None) -> Judged:
    """Hunt for a program on which ``chosen`` is wrong, for about ``seconds``; shrinking and confirming a find comes on top.

    A find that ``torch.compile`` does not show, or shows without the pass too, is put aside, and the hunt goes on behind it. The same ``seed``
    draws the same programs. ``watch`` is told how far it is.
    """
    found, spent = Judged(chosen.name), Spent()
    while (left := seconds - spent.seconds()) > 0:
        with quiet():
            report: FuzzReport = hunt(chosen, seconds=left, seed_number=seed, skip=found.tried, method=_as_captured)
        found.tried += report.tried
        found.fired += report.fired
        if report.finding is None:
            break
        confirmed = confirm(chosen, report.finding.program, dynamic=report.finding.symbolic)
        if confirmed is not None:
            found.program, found.differences = confirmed
            found.dynamic = report.finding.symbolic
            break
        found.dismissed.append((report.finding.program, "; ".join(report.finding.differences)))
        if watch is not None:
            watch(found)
    found.seconds = spent.clock()
    return found


def _as_captured(subject: Subject) -> Method:
    """Programs that reach a compiler, as PyTorch captures them: with operators, and it says of every value what it is."""
    found = by_graphs(subject)

    def judged(subject: Subject, program: Program) -> tuple[bool, Finding | None]:
        if program.bare or not program.steps():
            raise UncapturedError("a graph that torch.compile makes of no program")
        return found.judge(subject, program)

    plain = (partial(judged, subject, program) for program in variants(subject.cases))
    symbolic = (partial(judge_symbolic, subject, case) for case in subject.cases)
    return replace(found, judge=judged, first=chain(plain, symbolic))


def confirm(chosen: Foreign, program: Program, *, dynamic: bool = False) -> tuple[Program, tuple[str, ...]] | None:
    """``program``, or one with larger tensors, and what ``torch.compile`` shows of it with the pass and not without; None where nothing.

    ``dynamic``: it is compiled with symbols for its sizes.
    """
    for scale in SCALES:
        larger = scaled(program, scale)
        if scale > 1 and (larger == program or not runs(larger)):
            continue
        ours = replayed(chosen.compiler(), larger, dynamic)
        if ours and not replayed(with_settings(NONE), larger, dynamic):
            return larger, ours
    return None


def replayed(backend: Callable[..., Any], program: Program, dynamic: bool = False) -> tuple[str, ...]:
    """What differs from eager behind ``backend``. ``dynamic``: with symbols for sizes."""
    function = program.function()
    with quiet():
        torch._dynamo.reset()
        try:
            found = compare(
                function, torch.compile(copy.copy(function), backend=backend, dynamic=dynamic or None), program.make_inputs, bitwise=False
            )
        except PassError as error:
            found = [str(error)]
        faults = getattr(backend, "faults", [])
        found = [*dict.fromkeys(faults)] if faults else found
        torch._dynamo.reset()
    return tuple(found)


def scaled(program: Program, factor: int) -> Program:
    """``program`` with every extent of its inputs that is larger than 1 multiplied by ``factor``."""
    inputs = tuple(replace(i, shape=tuple(s * factor if s > 1 else s for s in i.shape)) for i in program.inputs)
    return replace(program, inputs=inputs)
