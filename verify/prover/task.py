"""One validation's dealings with the solvers: sizes, premises, queries, and their count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from verify.prover.logic import SolverLogic
from verify.prover.sizes import Sizes
from verify.prover.solve import Answer, Undecided, Valid, ask, confirm


class Task:
    """A shared algebra and premises for a set of goals."""

    def __init__(self, timeout_s: float, second_solver: bool) -> None:
        self.logic = SolverLogic()
        self.sizes = Sizes()
        self.timeout_s = timeout_s
        self.second_solver = second_solver
        self.queries = 0
        self.confirmed = 0
        self.reordered = False
        self.smt2: list[str] = []
        self._given: list[z3.ArithRef] = []

    def assume(self) -> None:
        """Take what the capture took for granted as premises. Call once all inputs are known."""
        self._given = list(self.sizes.variables.values())
        self.logic.premises = self.sizes.premises()

    def is_term(self, given: object) -> bool:
        """Whether ``given`` is a solver's term."""
        return isinstance(given, z3.ExprRef)

    def contradictory(self, required: Sequence[Any]) -> bool:
        """Whether the premises together with ``required`` admit no sizes at all."""
        solver = z3.Solver()
        solver.set("timeout", int(self.timeout_s * 1000))
        solver.add(*self.logic.premises, *(z3.BoolVal(r) if isinstance(r, bool) else r for r in required))
        return bool(solver.check() == z3.unsat)

    def any_sizes(self) -> dict[str, int]:
        """Small sizes that the premises admit."""
        answer = ask(self.logic, self.logic.premises, z3.BoolVal(False), self.variables(), self.timeout_s)
        return dict(getattr(answer, "sizes", {}))

    def variables(self) -> list[z3.ArithRef]:
        """The sizes of the graph's inputs as solver variables."""
        return self._given

    def prove(self, given: Sequence[Any], goal: Any) -> Answer:
        """Whether ``goal`` follows from the premises and ``given``, by both solvers where there are two."""
        if goal is True:
            return Valid("", False)
        formula = z3.BoolVal(goal) if isinstance(goal, bool) else goal
        premises = [*self.logic.premises, *(z3.BoolVal(g) if isinstance(g, bool) else g for g in given)]
        answer = ask(self.logic, premises, formula, self.variables(), self.timeout_s)
        self.queries += 1
        if not isinstance(answer, Valid):
            return answer
        self.reordered = self.reordered or answer.reordered
        self.smt2.append(answer.smt2)
        if self.second_solver:
            agreed = confirm(answer.smt2, self.timeout_s)
            if agreed is False:
                return Undecided("cvc5 finds a model where z3 finds none")
            self.confirmed += agreed is True
        return answer
