"""A rule from outside as a subject: run by the engine as in production, but watched for what no registered pattern may do."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from fuzz.templates import captured
from optimus.engine import Engine
from optimus.journal import Journal
from optimus.pattern import Case, Decline, Pattern, VerticalPattern
from optimus.plan import Plan
from verify.compare import USERS
from verify.lowered import is_lowered
from verify.lowering import lower
from verify.subject import PatternSubject
from verify.watchdog import LIMIT_S, RuleHangError, limited

SURE = 100
"""How many graphs are rewritten twice to see that the same comes out; after that one in :data:`SELDOM`."""
SELDOM = 7

REPEATS = 3


class MisbehavedError(Exception):
    """A rule that hangs, is flaky, or changes a graph that it declines. ``kind`` is one of :data:`KINDS`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


KINDS = {
    "raises": "refuted",
    "hangs": "refuted",
    "flaky": "refuted",
    "mutates": "refuted",
    "never fires": "vacuous",
    "no cases": "vacuous",
}
"""What can be wrong with a rule before anything of it can be judged, and the verdict."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a rule itself. ``kind``: see :data:`KINDS`."""

    kind: str
    text: str

    @property
    def verdict(self) -> str:
        """One word."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        return f"{self.kind.upper()} - {self.text}"


@dataclass
class Watch:
    """What is known of a rule while it runs: where it is, whether it hung, and how often it was run."""

    limit_s: float = LIMIT_S
    strict: bool = False
    where: str = ""
    hung: str = ""
    mutated: str = ""
    runs: int = 0


@dataclass(frozen=True)
class RuleSubject(PatternSubject):
    """A pattern from outside. What it must not do raises: a hang :class:`RuleHangError`, all else :class:`MisbehavedError`."""

    watch: Watch = field(default_factory=Watch, compare=False, repr=False)

    def apply(self, gm: GraphModule) -> Journal:
        """See :class:`verify.subject.Subject`."""
        self.watch.runs += 1
        again = self.watch.strict or self.watch.runs <= SURE or self.watch.runs % SELDOM == 0
        twin = copy.deepcopy(gm) if again else None
        before = fingerprint(gm.graph)
        journal = self._run(gm)
        after = fingerprint(gm.graph)
        if not journal.rewrites and before != after:
            raise MisbehavedError("mutates", f"{self.name} changed a graph that it declined: {_change(before, after)}")
        if twin is not None:
            self._run(twin)
            apart = told_apart(gm.graph, twin.graph)
            if apart is not None:
                raise MisbehavedError("flaky", f"{self.name} made two things of the same graph: {apart}")
        return journal

    def _run(self, gm: GraphModule) -> Journal:
        pattern = self.pattern.judged()
        self.watch.hung = self.watch.mutated = ""
        for method in ("find", "rewrite") if isinstance(pattern, VerticalPattern) else ("key", "fuse"):
            object.__setattr__(pattern, method, partial(self._call, method, getattr(pattern, method), gm.graph))
        with limited(self.watch.limit_s, lambda: self.watch.where or "the engine"):
            journal = Engine(gm, Plan((pattern,)), laws=self.laws).run()
        if self.watch.hung:
            raise RuleHangError(self.watch.hung)
        if self.watch.mutated:
            raise MisbehavedError("mutates", self.watch.mutated)
        return journal

    def _call(self, method: str, run: Callable[..., Any], graph: Graph, *args: Any) -> Any:
        """Call a method of the pattern, and note where it is."""
        if self.watch.hung:  # the engine asks at the next node
            raise RuleHangError(self.watch.hung)
        self.watch.where = f"{self.name}.{method}()"
        before = fingerprint(graph) if self.watch.strict and method in ("find", "key") else None
        try:
            found = run(*args)
        except RuleHangError as error:
            self.watch.hung = str(error)
            raise
        finally:
            self.watch.where = ""
        if before is not None and (found is None or isinstance(found, Decline)) and before != (after := fingerprint(graph)):
            self.watch.mutated = f"{self.name}.{method}() changed a graph that it declined: {_change(before, after)}"
        return found


Line = tuple[str, str, str]


def fingerprint(graph: Graph) -> frozenset[Line]:
    """What a graph holds, in whatever order: the engine may put nodes in another one."""
    return frozenset((n.name, f"{n.op} {n.target}", f"{n.args} {n.kwargs}") for n in graph.nodes)


def _change(before: frozenset[Line], after: frozenset[Line]) -> str:
    """The first node that differs."""
    left, right = ({line[0]: f"{line[1]} {line[2]}" for line in found} for found in (before, after))
    for name in sorted({*left, *right}):
        if left.get(name) != right.get(name):
            return f"{name} is {left.get(name, 'not there')} here and {right.get(name, 'not there')} there"
    return "nothing"


def told_apart(one: Graph, other: Graph) -> str | None:
    """What one graph computes and the other does not; None if they do the same. Names do not count, nor does the order.

    A copy of a graph may give a new node another name than the graph itself does, for it knows only the names that are left.
    """
    known: dict[str, int] = {}
    mine, theirs = _numbers(one, known), _numbers(other, known)
    here, there = Counter(mine.values()), Counter(theirs.values())
    for numbers, more, where in ((mine, here - there, "here"), (theirs, there - here, "there")):
        for node, number in numbers.items():
            if more[number]:
                return f"{node.format_node()} stands more often {where}"
    return None


def _numbers(graph: Graph, known: dict[str, int]) -> dict[Node, int]:
    """A number for each node, the same for those that compute the same of the same inputs. ``known``: the numbers so far."""
    numbers: dict[Node, int] = {}
    for node in graph.nodes:
        args, kwargs = map_arg((node.args, node.kwargs), lambda used: _Number(numbers[used]))
        numbers[node] = known.setdefault(f"{node.op} {node.target} {args} {kwargs}", len(known))
    return numbers


class _Number(int):
    """Stands for a node among arguments, and prints as no number does."""

    def __repr__(self) -> str:
        return f"%{int(self)}"


# --------------------------------------------------------------------------------------------------------------- vetting


def vet(subject: RuleSubject) -> Fault | None:
    """What is wrong with a rule itself on its own cases, told before anything is proved; None if nothing is."""
    if not subject.cases:
        return Fault("no cases", f"{subject.name} has no case on which it must fire, so nothing can be judged; see optimus.fires")
    names = [c.name for c in (*subject.cases, *subject.declines)]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        return Fault("raises", f"two cases are called {twice[0]}; accepted are cases of different names")
    subject.watch.strict = True
    fired = 0
    try:
        for case in (*subject.cases, *subject.declines):
            found = _tried(subject, case)
            if isinstance(found, Fault):
                return found
            fired += found
    finally:
        subject.watch.strict = False
    if not fired:
        return Fault("never fires", f"none of the {len(subject.cases)} cases of {subject.name} was rewritten{_why(subject)}")
    return None


def _tried(subject: RuleSubject, case: Case) -> int | Fault:
    """How often the rule fires on a case that it must fire on; or what is wrong with it there."""
    try:
        graphs = _graphs(subject, case)
    except USERS as error:
        return Fault("raises", f"{case.name} cannot be captured: {_said(error)}")
    fired = 0
    for before in graphs:
        found = _tried_on(subject, case, before)
        if isinstance(found, Fault):
            return found
        fired += found
    return fired if case.must_fire else 0


def _graphs(subject: RuleSubject, case: Case) -> tuple[GraphModule, ...]:
    """The graphs that the rule is given of a case: the captured one, or at ATen-IR the forward and the joint graph."""
    gm = captured(case)
    if not is_lowered(subject):
        return (gm,)
    lowered = lower(gm)
    return lowered.forward, lowered.joint


def _tried_on(subject: RuleSubject, case: Case, before: GraphModule) -> int | Fault:
    """The same for one graph of the case."""
    outcomes: set[frozenset[Line]] = set()
    fired = 0
    for _ in range(REPEATS):
        after = copy.deepcopy(before)
        try:
            journal = subject.apply(after)
        except RuleHangError as error:
            return Fault("hangs", f"on {case.name}: {error}")
        except MisbehavedError as error:
            return Fault(error.kind, f"on {case.name}: {error}")
        except USERS as error:
            return Fault("raises", f"on {case.name}: {_said(error)}")
        undone = next((d.detail for d in journal.declined if d.reason == "error"), None)
        if undone is not None:
            return Fault("raises", f"on {case.name}: {undone.splitlines()[0]}")
        outcomes.add(fingerprint(after.graph))
        fired = len(journal.rewrites)
    if len(outcomes) > 1:
        return Fault("flaky", f"on {case.name}: {subject.name} made {len(outcomes)} things of the same graph in {REPEATS} runs")
    return fired


def _why(subject: RuleSubject) -> str:
    reasons: set[str] = set()
    for graph in (g for case in subject.cases for g in _graphs(subject, case)):
        reasons |= {f"{d.reason} ({d.detail})" if d.detail else d.reason for d in subject.apply(copy.deepcopy(graph)).declined}
    return (
        f"; declined for {', '.join(sorted(reasons)[:4])}" if reasons else "; it found no place that resembles it (do its anchors name the operator?)"
    )


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def rule_subject(pattern: Pattern, limit_s: float = LIMIT_S) -> RuleSubject:
    """A pattern as a watched subject that may take ``limit_s`` seconds over one graph."""
    return RuleSubject(pattern, watch=Watch(limit_s))
