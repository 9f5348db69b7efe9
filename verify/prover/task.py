"""One validation's dealings with the solvers: sizes, premises, queries, and their count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import z3

from verify.prover.logic import SolverLogic
from verify.prover.sizes import Sizes, environment_of
from verify.prover.solve import Answer, Invalid, Undecided, Valid, ask, confirm
from verify.semantics.tensor import UnmodelledError, same_number
from verify.smtlib import record
from verify.verdict import GROUPING, REORDERED, Proved, proved

Shows = Callable[[str, Mapping[str, int]], bool]
"""Whether what a goal is named after can be seen to fail for some sizes."""

ROOMY, SPREAD = (6, 4), 3
"""The least of sizes that leave room, tried in turn, and how much larger they may be."""

TOGETHER_S = 1.0
"""The time for a query about sums that can be asked in parts."""


class Task:
    """A shared algebra and premises for a set of goals."""

    def __init__(self, timeout_s: float, second_solver: bool, laws: frozenset[str] = frozenset()) -> None:
        self.logic = SolverLogic(laws=laws)
        self.sizes = Sizes()
        self.timeout_s = timeout_s
        self.second_solver = second_solver
        self.asked = 0
        self.queries = 0
        self.confirmed = 0
        self.reordered = False
        self.regrouped = False
        self._given: list[z3.ArithRef] = []

    def assume(self) -> None:
        """Take what the capture took for granted as premises. Call once all inputs are known."""
        self._given = list(dict.fromkeys(v for v in self.sizes.variables.values() if z3.is_const(v) and not z3.is_int_value(v)))
        assumed, _ = self.sizes.assumptions()
        self.logic.premises = [a for a in assumed if not z3.is_true(a)]

    def other_sizes(self, pairs: Sequence[tuple[Any, Any]]) -> Sizes:
        """The sizes of the second graph. ``pairs``: what a size of an input is in the first and in the second.

        Where the second was captured on its own, its symbols stand for what the first calls the same sizes. Raises
        ``ValueError`` if those need not be equal, :class:`UnmodelledError` if the second capture took more for granted.
        """
        environments = {id(e): e for _, other in pairs if (e := environment_of(other)) is not None}
        own = environments and self.sizes.environment not in environments.values()
        found = Sizes(prefix="after_") if own else self.sizes
        for one, other in pairs if own else ():
            found.identify(other, self.sizes.term(one))
        for one, other in pairs:
            if self.logic.decide(same_number(self.sizes.term(one), found.term(other))) is not True:
                raise ValueError(f"validate: the inputs do not correspond, since the size {one} is {other} in the second graph")
        formulas, unsaid = found.assumptions() if own else ([], [])
        unfounded = [str(f) for f in formulas if self.logic.decide(f) is not True] + unsaid
        if unfounded:
            raise UnmodelledError(f"a second graph captured for fewer sizes, those with {unfounded[0]}")
        return found

    def is_term(self, given: object) -> bool:
        """Whether ``given`` is a solver's term."""
        return isinstance(given, z3.ExprRef)

    def contradictory(self, required: Sequence[Any]) -> bool:
        """Whether the premises together with ``required`` admit no sizes at all."""
        return self.logic.contradictory([formula(r) for r in required], self.timeout_s)

    def any_sizes(self) -> dict[str, int]:
        """Small sizes that the premises admit."""
        answer = ask(self.logic, self.logic.premises, z3.BoolVal(False), self.variables(), self.timeout_s)
        return dict(getattr(answer, "sizes", {}))

    def larger_sizes(self) -> dict[str, int]:
        """Sizes that the premises admit and that leave room for many different elements; none if there are no such."""
        session = self.logic.queries
        for least in ROOMY if self.variables() else ():
            room = [c for s in self.variables() for c in (s >= least, s <= least + SPREAD)]
            if session.check(time.monotonic() + self.timeout_s, *room) == z3.sat:
                model = session.solver.model()
                return {str(s): model.eval(s, model_completion=True).as_long() for s in self.variables()}
        return {}

    def variables(self) -> list[z3.ArithRef]:
        """The sizes of the graph's inputs as solver variables."""
        return self._given

    def prove(self, given: Sequence[Any], goals: Sequence[tuple[str, Any]], shows: Shows | None = None, doubted: str = "") -> tuple[str, Answer]:
        """Whether all ``goals`` follow from the premises and ``given``, by both solvers where there are two.

        Asked as one query where that works. Otherwise one by one; the answer is then that to the first goal that does
        not follow, under the name it comes with. Goals that are plainly true are not asked about. ``shows``: whether a goal is
        seen to fail for some sizes; asked where the solver would have to look at sums that do not look alike, which takes long.
        ``doubted``: the goals of this name are asked first, for if they do not follow, no other matters.
        """
        open_goals = [(what, formula(goal)) for what, goal in goals if goal is not True]
        premises = [*self.logic.premises, *map(formula, given)]
        for what, goal in open_goals:
            answer = self._answer(premises, [what], [goal], last=True) if what == doubted else None
            if answer is not None and not isinstance(answer, Valid):
                return what, answer
        if len(open_goals) > 1 or (open_goals and shows is not None):
            names = [what for what, _ in open_goals]
            answer = self._answer(premises, names, [goal for _, goal in open_goals])
            match answer:
                case Valid():
                    return "", answer
                case Undecided() if answer.disputed:
                    return ", ".join(dict.fromkeys(names)), answer
                case Invalid(sizes, _, part, doubtful) if not doubtful or (shows is not None and shows(open_goals[part][0], sizes)):
                    return open_goals[part][0], Invalid(sizes)
        for what, goal in open_goals:
            answer = self._answer(premises, [what], [goal], last=True)
            if not isinstance(answer, Valid):
                return what, answer
        return "", Valid("", False)

    def recheck_decided(self) -> Undecided | None:
        """Ask again, both solvers now, whether all that was decided about sizes on the way follows; why not, or None.

        Which dimensions hold as much as others, and the like, were questions to the first solver alone. Where one gives up
        on all of them together, this is a query that was not confirmed.
        """
        decided = self.logic.decided()
        if not decided:
            return None
        names = [f"of sizes: {' '.join(d.sexpr().split())}" for d in decided]
        answer = self._answer(self.logic.premises, names, decided, last=True)
        match answer:
            case Invalid():
                return Undecided("what was decided about sizes: the first solver contradicts itself")
            case Undecided():
                self.queries += 1
                return answer if answer.disputed else None
        return None

    def proved(self, start: float) -> Proved:
        """The verdict where everything asked since ``start``, by the clock of ``time.monotonic``, follows."""
        laws = self.logic.laws | ({REORDERED} if self.regrouped else set())
        jumps = self.logic.jumps() if self.reordered or laws & {REORDERED, GROUPING} else ()
        return proved(laws, self.reordered, self.queries, self.confirmed, time.monotonic() - start, jumps)

    def _answer(self, premises: Sequence[z3.BoolRef], what: Sequence[str], goals: Sequence[z3.BoolRef], *, last: bool = False) -> Answer:
        """The answer to one query. If it is not the ``last`` one about its goals, giving up early is better."""
        limit = self.timeout_s if last or not self.logic.laws else min(self.timeout_s, TOGETHER_S)
        goal = z3.And(goals) if len(goals) > 1 else goals[0]
        answer = ask(self.logic, premises, goal, self.variables(), limit, parts=goals, only_alike=not last)
        agreed = confirm(answer.smt2, limit) if self.second_solver and isinstance(answer, Valid) else None
        if agreed is False:
            record(what, "unknown", answer.smt2)
            return Undecided(f"the solvers disagree on query {self.asked + 1}: cvc5 finds a model where z3 finds none", answer.smt2, disputed=True)
        if not last and isinstance(answer, Valid) and self.second_solver and agreed is None:
            return Undecided("the second solver gave up", answer.smt2)
        if not last and (isinstance(answer, Undecided) or (isinstance(answer, Invalid) and answer.doubtful)):
            return answer
        self.asked += 1
        record(what, {Valid: "unsat", Invalid: "sat", Undecided: "unknown"}[type(answer)], answer.smt2)
        if isinstance(answer, Valid):
            self.queries += 1
            self.confirmed += agreed is True
            self.reordered = self.reordered or answer.reordered
            self.regrouped = self.regrouped or answer.regrouped
        return answer


def formula(given: Any) -> z3.BoolRef:
    """A condition, or what is known to be true or false, as a formula."""
    return z3.BoolVal(given) if isinstance(given, bool) else given
