"""Ask the solver, tie sums together as it needs them, and have a second solver confirm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
    """The goal fails for ``sizes``."""

    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Undecided:
    """The solver gave up."""

    reason: str


Answer = Valid | Invalid | Undecided


def ask(logic: SolverLogic, premises: Sequence[z3.BoolRef], goal: z3.BoolRef, sizes: Sequence[z3.ArithRef], timeout_s: float) -> Answer:
    """Whether ``goal`` follows from ``premises``; if not, the smallest sizes for which it fails."""
    search = _Search(logic, premises, goal, time.monotonic() + timeout_s)
    answer = search.check(())
    if answer == z3.unsat:
        return Valid(search.smt2(), search.reordered)
    if answer == z3.unknown:
        return Undecided(search.reason())
    for bound in BOUNDS:
        small = () if bound is None else tuple(s <= bound for s in sizes)
        answer = search.check(small)
        if answer == z3.sat:
            return Invalid(search.sizes(sizes))
        if answer == z3.unknown:
            return Undecided(search.reason())
    return Undecided("the solver contradicted itself")


class _Search:
    """One query with its growing set of lemmas."""

    def __init__(self, logic: SolverLogic, premises: Sequence[z3.BoolRef], goal: z3.BoolRef, deadline: float) -> None:
        self.logic = logic
        self.deadline = deadline
        self.solver = z3.SimpleSolver()
        self.solver.add(*premises, z3.Not(goal))
        self.seen: set[int] = set()
        self.known: list[Extensional] = []
        self.tied: set[tuple[int, int]] = set()
        self.reordered = False
        self.extra: tuple[z3.BoolRef, ...] = ()
        for formula in (*premises, goal):
            self.known += logic.mentioned(formula, self.seen)

    def check(self, extra: tuple[z3.BoolRef, ...]) -> z3.CheckSatResult:
        """Satisfiable together with ``extra``, all lemmas that the answer breaks added?"""
        self.extra = extra
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return z3.unknown
            self.solver.set("timeout", max(1, int(left * 1000)))
            answer = self.solver.check(*extra)
            if answer != z3.sat or not self._tie(self.solver.model()):
                return answer

    def _tie(self, model: z3.ModelRef) -> bool:
        """Add a lemma for each pair that the model takes for different, alike ones first; whether there was one."""
        apart = [
            (one, other)
            for k, one in enumerate(self.known)
            for other in self.known[:k]
            if one.symbol == other.symbol
            and (one.constant.get_id(), other.constant.get_id()) not in self.tied
            and not z3.is_true(model.eval(one.constant == other.constant, model_completion=True))
        ]
        alike = [(one, other) for one, other in apart if one.likeness == other.likeness]
        added = False
        for one, other in alike or apart[:LEMMAS]:
            self.tied.add((one.constant.get_id(), other.constant.get_id()))
            lemma = self.logic.lemma(one, other)
            if lemma is not None:
                self.solver.add(lemma)
                self.known += self.logic.mentioned(lemma, self.seen)
                self.reordered = self.reordered or one.kernel != other.kernel
                added = True
        return added or (bool(apart) and not alike)

    def sizes(self, variables: Sequence[z3.ArithRef]) -> dict[str, int]:
        """The sizes of the last model."""
        model = self.solver.model()
        return {str(v): model.eval(v, model_completion=True).as_long() for v in variables}

    def smt2(self) -> str:
        """The query as SMT-LIB 2."""
        return str(self.solver.to_smt2())

    def reason(self) -> str:
        """Why there was no answer."""
        return "timeout" if time.monotonic() >= self.deadline else str(self.solver.reason_unknown())


def confirm(smt2: str, timeout_s: float) -> bool | None:
    """Whether cvc5 agrees that a query is unsatisfiable; None if it is not installed or gives up."""
    try:
        import cvc5
    except ImportError:
        return None
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(max(1, int(timeout_s * 1000))))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, "(set-logic ALL)\n" + smt2, "query")
    symbols = parser.getSymbolManager()
    answer = ""
    while True:
        command = parser.nextCommand()
        if command.isNull():
            break
        answer = str(command.invoke(solver, symbols)).strip() or answer
    return {"unsat": True, "sat": False}.get(answer)
