"""Ask the solver, tie sums together as it needs them, and have a second solver confirm."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import z3

from verify.prover.logic import Extensional, SolverLogic

BOUNDS = (1, 2, 3, 4, 6, 9, 16, 64, None)
"""Sizes of a counterexample are tried below these in turn; None: any."""

LEMMAS = 50  # unlike pairs tied in one round


@dataclass(frozen=True)
class Valid:
    """The goal follows. ``smt2`` is the query; ``reordered``: sums by different kernels were taken for equal."""

    smt2: str
    reordered: bool


@dataclass(frozen=True)
class Invalid:
    """The goal fails for ``sizes``. ``smt2`` is the query."""

    sizes: Mapping[str, int]
    smt2: str = ""


@dataclass(frozen=True)
class Undecided:
    """The solver gave up, or two solvers disagree (``disputed``). ``smt2`` is the query."""

    reason: str
    smt2: str = ""
    disputed: bool = False


Answer = Valid | Invalid | Undecided
Pair = tuple[Extensional, Extensional]


def ask(
    logic: SolverLogic,
    premises: Sequence[z3.BoolRef],
    goal: z3.BoolRef,
    sizes: Sequence[z3.ArithRef],
    timeout_s: float,
    *,
    only_alike: bool = False,
) -> Answer:
    """Whether ``goal`` follows from ``premises``; if not, the smallest sizes for which it fails.

    ``only_alike``: tie no sums but those that look alike, and give up where that is not enough.
    """
    search = _Search(logic, premises, goal, time.monotonic() + timeout_s, only_alike)
    answer = search.check(())
    if answer == z3.sat and search.swappable:
        search.swap()
        answer = search.check(())
    if answer == z3.unsat:
        return Valid(search.smt2(), search.reordered)
    if answer == z3.unknown:
        return Undecided(search.reason(), search.smt2())
    if only_alike:
        return Undecided("sums that look alike are not enough", search.smt2())
    for bound in BOUNDS if sizes else (None,):
        answer = search.check(() if bound is None else tuple(s <= bound for s in sizes))
        if answer == z3.sat:
            return Invalid(search.sizes(sizes), search.smt2())
        if answer == z3.unknown:
            return Undecided(search.reason(), search.smt2())
    return Undecided("the solver contradicted itself", search.smt2())


class _Search:
    """One query with its growing set of lemmas."""

    def __init__(self, logic: SolverLogic, premises: Sequence[z3.BoolRef], goal: z3.BoolRef, deadline: float, only_alike: bool) -> None:
        self.logic = logic
        self.deadline = deadline
        self.ways: tuple[Way, ...] = (_alike,) if only_alike else (_alike, _across, _any)
        self.solver = z3.SimpleSolver()
        self.asserted: list[z3.BoolRef] = []
        self._add(*premises, z3.Not(goal))
        self.seen: set[int] = set()
        self.known: list[Extensional] = []
        self.tied: set[Pair] = set()
        self.reordered = False
        self.swaps = z3.Bool("factors_in_sums_commute")
        self.swappable = False
        for formula in (*premises, goal):
            self._take_in(formula)
        self.first = len(self.known)

    def _add(self, *formulas: z3.BoolRef) -> None:
        self.solver.add(*formulas)
        self.asserted += formulas

    def _take_in(self, formula: z3.BoolRef, *, in_sums: bool = False) -> None:
        """Note the sums in a formula that is asserted, and assert what is known of its terms.

        ``in_sums``: only once the factors inside sums may be exchanged; a kernel that sums other products in another place
        need not round alike.
        """
        found, laws = self.logic.mentioned(formula, self.seen)
        self.known += found
        self.swappable = self.swappable or (in_sums and bool(laws))
        self._add(*(z3.Implies(self.swaps, law) if in_sums else law for law in laws))

    def swap(self) -> None:
        """Let factors inside sums be exchanged."""
        self._add(self.swaps)
        self.reordered = True

    def check(self, extra: tuple[z3.BoolRef, ...]) -> z3.CheckSatResult:
        """Satisfiable together with ``extra``, all lemmas that the answer breaks added?"""
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return z3.unknown
            self.solver.set("timeout", max(1, int(left * 1000)))
            answer = self.solver.check(*extra)
            if answer != z3.sat or not self._tie(self.solver.model()):
                return answer

    def _tie(self, model: z3.ModelRef) -> bool:
        """Add lemmas for pairs that the model takes for different, likely ones first; whether there were any."""
        for way in self.ways:
            groups = [g for g in way(self) if len(g) > 1]
            values = {e: model.eval(e.constant, model_completion=True) for g in groups for e in g if len(g) > 2 or way is not _alike}
            pairs = (pair for g in groups for pair in itertools.combinations(g, 2) if self._open(pair, way) and _apart(pair, values))
            chosen = list(pairs if way is _alike else itertools.islice(pairs, LEMMAS))
            for one, other in chosen:
                self.tied.add((one, other))
                lemma = self.logic.lemma(one, other)
                self._add(lemma)
                self._take_in(lemma, in_sums=True)
                self.reordered = self.reordered or one.kernel != other.kernel
            if chosen:
                return True
        return False

    def _open(self, pair: Pair, way: Way) -> bool:
        return pair not in self.tied and (way is _any or pair[0].side != pair[1].side)

    def sizes(self, variables: Sequence[z3.ArithRef]) -> dict[str, int]:
        """The sizes of the last model."""
        model = self.solver.model()
        return {str(v): model.eval(v, model_completion=True).as_long() for v in variables}

    def smt2(self) -> str:
        """The query as SMT-LIB 2, as it was stated: what the solver asked here makes of it is no matter for another one."""
        stated = z3.Solver()
        stated.add(*self.asserted)
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


def _alike(search: _Search) -> Iterable[list[Extensional]]:
    """Those whose bodies apply the same functions. Where there are only two, they are tied without asking the model."""
    return _grouped(search.known, lambda e: (e.family, e.height, e.likeness))


def _across(search: _Search) -> Iterable[list[Extensional]]:
    return _grouped(search.known, lambda e: (e.family, e.height))


def _any(search: _Search) -> Iterable[list[Extensional]]:
    return _grouped(search.known[: search.first], lambda e: e.family)


Way = Callable[[_Search], Iterable[list[Extensional]]]


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
