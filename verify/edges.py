"""Sizes 0 and 1 as cases of their own.

A capture with symbolic sizes takes every dimension of an input for 2 or more, since Dynamo makes plain numbers of extents
0 and 1. So each case is captured again with sizes fixed at these, rewritten by the real pass, and validated. Of gradients, only
what lowering shows is compared. The pass need not fire there, and a program may raise; what is rewritten has to be right.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.fx import GraphModule

from optimus.capture import call, capture_case, example, names, sample_sizes, size_symbols
from optimus.pattern import Case
from verify import quantizer
from verify.aten import autograd_objects, prove_lowered
from verify.cache import Cache, remembered
from verify.compare import USERS
from verify.content import edges_key
from verify.lowered import is_lowered, rewritten_both
from verify.lowering import LoweringError, lower
from verify.plain import from_plain, packed
from verify.smtlib import asked_for
from verify.subject import PassError, Subject, rewritten
from verify.validation import TIMEOUT_S, validate
from verify.verdict import Proved, Refuted, Unknown, Verdict, explain, in_words, word, worst

MOST = 13
"""Captures per subject at most."""

DECLINED = "left alone"
RAISES = "raises in eager"
UNCAPTURED = "not captured"


@dataclass(frozen=True)
class Edge:
    """One case with some sizes fixed.

    ``verdict``: of the rewrite, unknown where the program runs but was not captured; None where there was nothing to prove, which
    ``outcome`` explains.
    """

    case: str
    fixed: tuple[tuple[str, int], ...]
    outcome: str
    verdict: Verdict | None = None

    @property
    def name(self) -> str:
        """The case and the sizes, such as ``to_the_back, n = 0``."""
        return f"{self.case}, {in_words(dict(self.fixed))}"


@dataclass(frozen=True)
class Edges:
    """What became of the cases of a subject at sizes 0 and 1. ``possible``: how many ways to fix sizes there are."""

    parts: tuple[Edge, ...]
    possible: int
    cached: bool = False

    @property
    def verdicts(self) -> list[Verdict]:
        """Those of the rewrites, and of what was not captured."""
        return [p.verdict for p in self.parts if p.verdict is not None]

    def counts(self) -> Counter[str]:
        """How many had which outcome."""
        return Counter(p.outcome for p in self.parts)

    @property
    def wrong(self) -> list[Edge]:
        """Those not captured or whose rewrite is not proved, the refuted first."""
        found = [p for p in self.parts if p.verdict is not None and p.outcome != "proved"]
        return sorted(found, key=lambda p: not isinstance(p.verdict, Refuted))

    def __str__(self) -> str:
        said = ", ".join(f"{count} {outcome}" for outcome, count in self.counts().items()) or "no case has a size"
        said += ", cached" if self.cached else ""
        return "; ".join([said, *(f"{p.name}: {explain(p.verdict)}" for p in self.wrong[:1] if p.verdict is not None)])

    @property
    def covered(self) -> str:
        """Which of the ways to fix sizes were tried."""
        tried: dict[str, list[str]] = {}
        for part in self.parts:
            tried.setdefault(part.case, []).append(in_words(dict(part.fixed)))
        listed = "; ".join(f"{case}: {' | '.join(sizes)}" for case, sizes in tried.items())
        return f"{len(self.parts)} of {self.possible} captures" + (f", {listed}" if listed else "")


def prove_edges(
    subject: Subject,
    *,
    timeout_s: float = TIMEOUT_S,
    second_solver: bool = True,
    most: int = MOST,
    watch: Callable[[str], None] | None = None,
    cache: Cache | None = None,
) -> Edges:
    """The cases of ``subject`` with sizes fixed at 0 and 1, at most ``most`` of them; see :func:`chosen`.

    ``watch`` is told how far it is.
    """
    compute = lambda: _prove_edges(subject, timeout_s, second_solver, most, watch or (lambda _: None))  # noqa: E731
    return remembered(cache, lambda: edges_key(subject, most, timeout_s, second_solver), compute, _pack, _unpack)


def _prove_edges(subject: Subject, timeout_s: float, second_solver: bool, most: int, tell: Callable[[str], None]) -> Edges:
    parts: list[Edge] = []
    plan = chosen(subject.cases, most)
    for case, fixed in plan:
        parts.append(prove_edge(subject, case, fixed, timeout_s, second_solver))
        tell(f"{len(parts)} of {len(plan)} captures: {parts[-1].name} {parts[-1].outcome}")
    return Edges(tuple(parts), sum(len(ways(c)) for c in subject.cases))


def _pack(edges: Edges) -> dict[str, Any] | None:
    """Edges as plain data; None unless every rewrite is proved and every program was captured."""
    return packed({"edges": edges}, Edge, Edges)


def _unpack(entry: dict[str, Any]) -> Edges:
    found = from_plain(entry["edges"], Edge, Edges)
    if not isinstance(found, Edges):
        raise TypeError(f"cached edges of type {type(found).__name__}")
    return replace(found, cached=True)


def ways(case: Case) -> list[dict[str, int]]:
    """The ways to fix sizes of a case at 0 and 1: each alone, and all of them together."""
    called = names(case)
    alone = [{name: size} for name in called for size in (0, 1)]
    together = [dict.fromkeys(called, size) for size in (0, 1)] if len(called) > 1 else []
    return [*alone, *together]


def chosen(cases: Sequence[Case], most: int) -> list[tuple[Case, dict[str, int]]]:
    """At most ``most`` ways to fix sizes, the same at each call: one of every case in turn, each case starting at another of its ways."""
    rotated = [ways(c)[k % max(len(ways(c)), 1) :] + ways(c)[: k % max(len(ways(c)), 1)] for k, c in enumerate(cases)]
    rounds = itertools.zip_longest(*rotated)
    found = [(case, fixed) for one in rounds for case, fixed in zip(cases, one, strict=True) if fixed is not None]
    return found[:most]


def prove_edge(subject: Subject, case: Case, fixed: Mapping[str, int], timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> Edge:
    """One case with the sizes ``fixed``, the others symbols."""
    at = tuple(fixed.items())
    if _raises(case, fixed):
        return Edge(case.name, at, RAISES)
    try:
        before = capture_case(case, fixed)
    except USERS as error:
        return Edge(case.name, at, f"{UNCAPTURED} ({type(error).__name__})", Unknown(f"{UNCAPTURED}, {type(error).__name__}: {error}"))
    with asked_for(f"{case.name},{','.join(f'{name}={size}' for name, size in at)}"):
        verdict = _judged(subject, case, before, fixed, timeout_s, second_solver)
    return Edge(case.name, at, DECLINED if verdict is None else word(verdict), verdict)


def _raises(case: Case, fixed: Mapping[str, int]) -> bool:
    """Whether the program raises on tensors of these sizes, or there are none."""
    try:
        tensors, sizes = example(case, {**sample_sizes(case), **fixed})
        call(case, tensors, sizes)
    except USERS:
        return True
    return False


def _judged(subject: Subject, case: Case, before: GraphModule, fixed: Mapping[str, int], timeout_s: float, second_solver: bool) -> Verdict | None:
    """The verdict on what the subject makes of a graph; None if it leaves it alone."""
    if quantizer.concerns(subject):
        return quantizer.examine(subject, before, timeout_s, second_solver).verdict
    if is_lowered(subject):
        return _judged_lowered(subject, case, before, fixed, timeout_s, second_solver)
    try:
        after, journal = rewritten(subject, before)
    except PassError as error:
        return Unknown(str(error))
    if not journal.rewrites:
        return None
    found = validate(before, after, timeout_s=timeout_s, second_solver=second_solver)
    if isinstance(found, Proved):
        found = autograd_objects(before, after) or found
    return _named(found, size_symbols(case, before), fixed)


def _judged_lowered(subject: Subject, case: Case, gm: GraphModule, fixed: Mapping[str, int], timeout_s: float, second_solver: bool) -> Verdict | None:
    """The same for a subject that rewrites ATen-IR: of the forward graph, and of the gradients."""
    try:
        left = lower(gm)
        right, *journals = rewritten_both(subject, left)
    except (LoweringError, PassError) as error:
        return Unknown(str(error))
    if not any(journal.rewrites for journal in journals):
        return None
    found = prove_lowered(left, right, timeout_s=timeout_s, second_solver=second_solver, called=size_symbols(case, gm))
    return _named(worst(found.verdicts), {}, fixed)


def _named(found: Verdict, called: Mapping[str, str], fixed: Mapping[str, int]) -> Verdict:
    """The verdict with the sizes of a counterexample called what the case calls them, the fixed ones included."""
    if not isinstance(found, Refuted):
        return found
    sizes: dict[str, Any] = {**fixed, **{called.get(symbol, symbol): size for symbol, size in found.counterexample.sizes.items()}}
    return Refuted(replace(found.counterexample, sizes=sizes))


def to_json(edges: Edges) -> dict[str, Any]:
    """Plain data: counts, and each capture with its outcome."""
    return {
        "possible": edges.possible,
        "cached": edges.cached,
        "counts": dict(edges.counts()),
        "captures": [
            {"case": p.case, "sizes": dict(p.fixed), "outcome": p.outcome, "text": "" if p.verdict is None else explain(p.verdict)}
            for p in edges.parts
        ],
    }
