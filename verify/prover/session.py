"""One incremental solver for many queries under the same premises."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import z3

MODELS = 4  # of the premises, kept to see without a query what does not follow


class Session:
    """A solver in which premises stand.

    Those that multiply sizes are asserted only when a model breaks them: most proofs do not need them, and without them
    the arithmetic stays linear. A proof from fewer premises is one from all.
    """

    def __init__(self, linear: dict[int, tuple[z3.BoolRef, bool]] | None = None) -> None:
        self.solver = z3.SimpleSolver()
        self.linear = {} if linear is None else linear
        """Premises by number, and whether they are linear; sessions may share what they found out."""
        self._standing: dict[int, z3.BoolRef] = {}
        self._hard: list[z3.BoolRef] = []
        self._asserted: list[set[int]] = [set()]
        self._stated: list[list[z3.BoolRef]] = [[]]
        self._models: list[z3.ModelRef] = []
        self._stood = 0

    def stand(self, premises: Sequence[z3.BoolRef]) -> None:
        """Let ``premises`` hold in all queries to come. Called again with the same list, which may have grown."""
        if len(premises) == self._stood:
            return
        self._stood = len(premises)
        for premise in self._new(premises):
            self._standing[premise.get_id()] = premise
            self._models.clear()
            if self._is_linear(premise):
                self.add(premise)
            else:
                self._hard.append(premise)

    def _is_linear(self, premise: z3.BoolRef) -> bool:
        key = premise.get_id()
        if key not in self.linear:
            self.linear[key] = (premise, is_linear(premise))
        return self.linear[key][1]

    def add(self, *formulas: z3.BoolRef) -> None:
        """Assert ``formulas`` for as long as the innermost :meth:`under` lasts."""
        self.solver.add(*formulas)
        self._stated[-1] += formulas

    def stated(self) -> list[z3.BoolRef]:
        """What is asserted, as it was stated; the solver keeps what it made of it."""
        return [f for stated in self._stated for f in stated]

    def _new(self, premises: Sequence[z3.BoolRef]) -> list[z3.BoolRef]:
        found = {p.get_id(): p for p in premises}
        return [p for key, p in found.items() if key not in self._standing and not z3.is_true(p)]

    @contextmanager
    def under(self, premises: Sequence[z3.BoolRef]) -> Iterator[list[z3.BoolRef]]:
        """Let ``premises`` hold as long as the context lasts; gives those that did not stand before."""
        new = self._new(premises)
        self.solver.push()
        self._asserted.append(set())
        self._stated.append([])
        try:
            self.add(*new)
            yield new
        finally:
            self._asserted.pop()
            self._stated.pop()
            self.solver.pop()

    def check(self, deadline: float, *extra: z3.BoolRef) -> z3.CheckSatResult:
        """Whether everything asserted, and ``extra``, can hold; unknown when ``deadline`` has passed."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return z3.unknown
            self.solver.set("timeout", max(1, int(left * 1000)))
            answer = self.solver.check(*extra)
            if answer != z3.sat or not self._mend():
                return answer

    def _mend(self) -> bool:
        """Assert the premises that the model breaks; whether there were any."""
        known = set().union(*self._asserted)
        open_ = [p for p in self._hard if p.get_id() not in known]
        if not open_:
            return False
        model = self.solver.model()
        broken = [p for p in open_ if not z3.is_true(model.eval(p, model_completion=True))]
        self.add(*broken)
        self._asserted[-1].update(p.get_id() for p in broken)
        return bool(broken)

    def entails(self, condition: z3.BoolRef, timeout_s: float) -> bool | None:
        """Whether the premises entail ``condition``, or its negation, or neither as far as can be told in time."""
        values = [m.eval(condition, model_completion=True) for m in self._models]
        fails, holds = any(map(z3.is_false, values)), any(map(z3.is_true, values))
        for verdict, excluded in ((True, fails), (False, holds)):
            if not excluded and self._follows(condition if verdict else z3.Not(condition), timeout_s):
                return verdict
        return None

    def _follows(self, condition: z3.BoolRef, timeout_s: float) -> bool:
        with self.under([z3.Not(condition)]):
            answer = self.check(time.monotonic() + timeout_s)
            if answer == z3.sat:
                self._models = [self.solver.model(), *self._models[: MODELS - 1]]
        return bool(answer == z3.unsat)


def is_linear(formula: z3.ExprRef) -> bool:
    """Whether no two sizes are multiplied or divided by one another."""
    seen: set[int] = set()
    stack = [formula]
    while stack:
        term = stack.pop()
        if term.get_id() in seen or z3.is_const(term):
            continue
        seen.add(term.get_id())
        children = term.children()
        kind = term.decl().kind()
        if kind in PRODUCTS and sum(not z3.is_int_value(c) for c in children) > 1:
            return False
        if kind in QUOTIENTS and not z3.is_int_value(children[1]):
            return False
        stack += children
    return True


PRODUCTS = {z3.Z3_OP_MUL, z3.Z3_OP_POWER}
QUOTIENTS = {z3.Z3_OP_IDIV, z3.Z3_OP_DIV, z3.Z3_OP_MOD, z3.Z3_OP_REM}
