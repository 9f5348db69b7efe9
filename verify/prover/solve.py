"""Ask the solver, tie sums together as it needs them, and have a second solver confirm."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from verify.prover.laws import Stage
from verify.prover.logic import Extensional, SolverLogic
from verify.prover.session import Session
from verify.prover.terms import walk, wrapped

BOUNDS = (1, 2, 3, 4, 6, 9, 16, 64, None)
"""Sizes of a counterexample are tried below these in turn; None: any."""

LEMMAS = 50  # unlike pairs tied in one round


@dataclass(frozen=True)
class Valid:
    """The goal follows. ``smt2`` is the query.

    ``reordered``: sums by different kernels were taken for equal; ``regrouped``: additions were ordered otherwise.
    """

    smt2: str
    reordered: bool
    regrouped: bool = False


@dataclass(frozen=True)
class Invalid:
    """The goal fails for ``sizes``, in the part of it with the number ``part``. ``smt2`` is the query.

    ``doubtful``: unless sums that do not look alike are equal; nothing was asserted of those.
    """

    sizes: Mapping[str, int]
    smt2: str = ""
    part: int = 0
    doubtful: bool = False


@dataclass(frozen=True)
class Undecided:
    """The solver gave up, or two solvers disagree (``disputed``). ``smt2`` is the query, ``goal`` what it is about."""

    reason: str
    smt2: str = ""
    disputed: bool = False
    goal: str = ""


Answer = Valid | Invalid | Undecided
Pair = tuple[Extensional, Extensional]


def ask(
    logic: SolverLogic,
    premises: Sequence[z3.BoolRef],
    goal: z3.BoolRef,
    sizes: Sequence[z3.ArithRef],
    timeout_s: float,
    *,
    parts: Sequence[z3.BoolRef] = (),
    only_alike: bool = False,
) -> Answer:
    """Whether ``goal`` follows from ``premises``; if not, the smallest sizes for which it fails.

    ``parts``: the goals of which ``goal`` is the conjunction. ``only_alike``: tie no sums but those that look alike; where
    that may not be enough, the answer is doubtful.
    """
    session = logic.queries
    with session.under(premises) as own, session.under([z3.Not(goal)]):
        search = _Search(logic, session, [*own, goal], parts or [goal], time.monotonic() + timeout_s, only_alike)
        return _answer(search, sizes)


def _answer(search: _Search, sizes: Sequence[z3.ArithRef]) -> Answer:
    answer = search.check(())
    while answer == z3.sat and search.advance():
        answer = search.check(())
    if answer == z3.unsat:
        return Valid(search.smt2(), search.reordered, search.regrouped)
    if answer == z3.unknown:
        return Undecided(search.reason(), search.smt2())
    for bound in BOUNDS if sizes else (None,):
        answer = search.check(() if bound is None else tuple(s <= bound for s in sizes))
        if answer == z3.sat:
            return search.failure(sizes)
        if answer == z3.unknown:
            return Undecided(search.reason(), search.smt2())
    return Undecided("the solver contradicted itself", search.smt2())


class _Search:
    """One query with its growing set of lemmas."""

    def __init__(
        self,
        logic: SolverLogic,
        session: Session,
        formulas: Sequence[z3.BoolRef],
        parts: Sequence[z3.BoolRef],
        deadline: float,
        only_alike: bool,
    ) -> None:
        self.logic = logic
        self.parts = parts
        self.session = session
        self.deadline = deadline
        self.ways = WAYS[:2] if only_alike else WAYS
        self.solver = session.solver
        self.seen: set[int] = set()
        self.known: list[Extensional] = []
        self.tied: dict[Pair, z3.BoolRef] = {}
        self.reordered = False
        self.regrouped = False
        self.stages = {Stage.ALWAYS}
        self.waiting: dict[Stage, list[z3.BoolRef]] = {stage: [] for stage in Stage}
        for formula in formulas:
            self._take_in(formula)
        self.first = len(self.known)

    def _take_in(self, formula: z3.BoolRef, *, in_sum: bool = False) -> None:
        """Note the sums in a formula that is asserted, and what is known of its terms. ``in_sum``: they are summands."""
        found, laws = self.logic.mentioned(formula, self.seen, in_sum)
        self.known += found
        for stage, law in laws:
            self.waiting[stage].append(law)
        self._assert_laws()

    def _assert_laws(self) -> bool:
        """Assert the laws of the stages reached; whether there were any."""
        chosen = [stage for stage in self.stages if self.waiting[stage]]
        for stage in chosen:
            self.session.add(*self.waiting[stage])
            self.waiting[stage] = []
            self.reordered = self.reordered or stage is Stage.SWAPPED
            self.regrouped = self.regrouped or stage is Stage.REORDERED
        return bool(chosen)

    def advance(self) -> bool:
        """Let the laws of the next stage that has some hold; whether there was one."""
        for stage in Stage:
            if stage not in self.stages:
                self.stages.add(stage)
                if self._assert_laws():
                    return True
        return False

    def check(self, extra: tuple[z3.BoolRef, ...]) -> z3.CheckSatResult:
        """Satisfiable together with ``extra``, all lemmas that the answer breaks added?"""
        while True:
            answer = self.session.check(self.deadline, *extra)
            if answer != z3.sat or not self._tie(self.solver.model()):
                return answer

    def _tie(self, model: z3.ModelRef) -> bool:
        """Add lemmas for pairs that the model takes for different, likely ones first; whether there were any."""
        for way in self.ways:
            pairs = self._unlike(way, model)
            chosen = list(pairs if way is _alike else itertools.islice(pairs, LEMMAS))
            for one, other in chosen:
                lemma = self.tied[(one, other)] = self.logic.lemma(one, other)
                self.session.add(lemma)
                self._take_in(lemma, in_sum=True)
                self.reordered = self.reordered or one.kernel != other.kernel
            if chosen:
                return True
        return False

    def _unlike(self, way: Way, model: z3.ModelRef) -> Iterator[Pair]:
        """Pairs that nobody has tied and that the model takes for different."""
        groups = [g for g in way(self, model) if len(g) > 1]
        values = {e: model.eval(e.constant, model_completion=True) for g in groups for e in g if len(g) > 2 or way is not _alike}
        return (pair for g in groups for pair in itertools.combinations(g, 2) if self._open(pair, way) and _apart(pair, values))

    def failure(self, sizes: Sequence[z3.ArithRef]) -> Invalid:
        """What the last model shows."""
        model = self.solver.model()
        at = next((k for k, part in enumerate(self.parts) if _fails(model, part)), 0)
        doubtful = any(any(True for _ in self._unlike(way, model)) for way in WAYS if way not in self.ways)
        found = {str(v): model.eval(v, model_completion=True).as_long() for v in sizes}
        return Invalid(found, self.smt2(), at, doubtful)

    def _open(self, pair: Pair, way: Way) -> bool:
        return pair not in self.tied and (way is _any or pair[0].side != pair[1].side)

    def smt2(self) -> str:
        """The query as SMT-LIB 2, as it was stated: what the solver asked here makes of it is no matter for another one."""
        stated = z3.Solver()
        stated.add(self.session.stated())
        return str(stated.to_smt2())

    def reason(self) -> str:
        """Why there was no answer."""
        return "timeout" if time.monotonic() >= self.deadline else str(self.solver.reason_unknown())


def _apart(pair: Pair, values: Mapping[Extensional, z3.ExprRef]) -> bool:
    """Whether a model tells the two apart; taken for granted where it was not asked."""
    one, other = (values.get(e) for e in pair)
    return one is None or other is None or not one.eq(other)


# The ways to choose what to tie. A lemma about two constants of one height only brings up lower ones, and `_any` is asked
# about those of the goal alone, so the search for lemmas ends.


def _alike(search: _Search, model: z3.ModelRef) -> Groups:  # noqa: ARG001
    """Those whose bodies apply the same functions. Where there are only two, they are tied without asking the model."""
    return _grouped(search.known, lambda e: (e.family, e.height, e.likeness))


def _active(search: _Search, model: z3.ModelRef) -> Groups:
    """Those on which it depends, in the case that the model is about, that a goal fails."""
    found: dict[Extensional, None] = {}

    def visit(number: int, term: Any) -> bool:  # noqa: ARG001
        known = search.logic.extensional.get(number)
        if known is not None:
            found[known] = None
        return True

    seen: set[int] = set()
    roots = [part for part in search.parts if _fails(model, part)]
    waiting = {pair: lemma for pair, lemma in search.tied.items() if not _same(model, *pair)}
    while roots:
        walk(roots, seen, visit, lambda condition: z3.is_true(model.eval(wrapped(condition), model_completion=True)))
        reached = [pair for pair in waiting if pair[0] in found and pair[1] in found]
        roots = [waiting.pop(pair) for pair in reached]
    return _grouped(list(found), lambda e: (e.family, e.height))


def _across(search: _Search, model: z3.ModelRef) -> Groups:  # noqa: ARG001
    return _grouped(search.known, lambda e: (e.family, e.height))


def _any(search: _Search, model: z3.ModelRef) -> Groups:  # noqa: ARG001
    return _grouped(search.known[: search.first], lambda e: e.family)


Groups = Iterable[list[Extensional]]
Way = Callable[[_Search, z3.ModelRef], Groups]
WAYS: tuple[Way, ...] = (_alike, _active, _across, _any)


def _same(model: z3.ModelRef, one: Extensional, other: Extensional) -> bool:
    return bool(model.eval(one.constant, model_completion=True).eq(model.eval(other.constant, model_completion=True)))


def _fails(model: z3.ModelRef, goal: z3.BoolRef) -> bool:
    return bool(z3.is_false(model.eval(goal, model_completion=True)))


def _grouped(known: Sequence[Extensional], key: Callable[[Extensional], object]) -> Iterable[list[Extensional]]:
    groups: dict[object, list[Extensional]] = {}
    for e in known:
        groups.setdefault(key(e), []).append(e)
    return groups.values()


def confirm(smt2: str, timeout_s: float) -> bool | None:
    """Whether cvc5 agrees that a query is unsatisfiable; None if it is not installed or gives up.

    ``smt2``: a query with or without a logic; one without is asked in all theories.
    """
    try:
        import cvc5
    except ImportError:
        return None
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(max(1, int(timeout_s * 1000))))
    solver.setOption("preregister-mode", "lazy")  # of case distinctions, most cases are never looked at
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, smt2 if "(set-logic" in smt2 else "(set-logic ALL)\n" + smt2, "query")
    symbols = parser.getSymbolManager()
    answer = ""
    while True:
        command = parser.nextCommand()
        if command.isNull():
            break
        answer = str(command.invoke(solver, symbols)).strip() or answer
    return {"unsat": True, "sat": False}.get(answer)
