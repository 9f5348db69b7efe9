"""The algebra on solver terms: quantifier-free, integers linear, elements of an uninterpreted sort.

Sums and black boxes are fresh constants. Two of them with one symbol are tied by a ground lemma when a goal needs it:
they are equal, or their bodies differ at some place. That is extensionality without quantifiers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import z3

from verify.prover import sums
from verify.prover.jumps import Jumps
from verify.prover.laws import Laws, Stage, commutes
from verify.prover.session import Session
from verify.prover.terms import function_of, is_addition, lifted, term_number, walk, wrapped
from verify.semantics.logic import UNINITIALISED, Cond, Index, Part, Symbol, Term
from verify.semantics.tensor import number
from verify.verdict import GROUPING, NEUTRAL, UNIT, ZEROS

ELEMENT = z3.DeclareSort("T")
WHOLE = z3.DeclareSort("U")
DECIDE_S = 2.0


@dataclass(eq=False)
class Extensional:
    """A constant that stands for a sum, or for a whole result, and the functions it depends on.

    ``bodies``: those of the parts, written with the variables ``bound``; where ``height`` is 1, they hold no other constant.
    ``family``: only members of one can be equal. ``height``: how deep sums nest in the bodies. ``likeness``: the functions in
    the bodies; constants that agree here are worth tying together first. ``side``: of the two programs, the one it comes from.
    """

    constant: z3.ExprRef
    parts: tuple[Part, ...]
    is_total: bool
    kernel: Hashable
    bound: tuple[tuple[z3.ArithRef, ...], ...]
    bodies: tuple[z3.ExprRef, ...]
    family: int
    height: int
    likeness: frozenset[int]
    side: str
    masked: dict[int, z3.ExprRef] = field(default_factory=dict)


@dataclass
class SolverLogic:
    """An instance of :class:`verify.semantics.logic.Logic`. ``premises`` hold throughout.

    ``laws``: names of :data:`verify.verdict.LAWS` that hold besides. Where additions may be grouped, elements are numbers of which
    only additions are known, so that what is proved is what holds of sums of arbitrary summands.
    """

    premises: list[z3.BoolRef] = field(default_factory=list)
    laws: frozenset[str] = frozenset()
    widened: bool = False
    extensional: dict[int, Extensional] = field(default_factory=dict)
    _functions: dict[Any, z3.FuncDeclRef] = field(default_factory=dict)
    _constants: dict[Any, z3.ExprRef] = field(default_factory=dict)
    _families: dict[Any, int] = field(default_factory=dict)
    _laws: Laws = field(init=False)
    _numbers: dict[int, tuple[z3.ExprRef, Any]] = field(default_factory=dict)
    _decided: dict[int, tuple[Any, bool | None]] = field(default_factory=dict)
    _jumps: Jumps = field(default_factory=Jumps)
    _facts: Session = field(default_factory=Session)
    _queries: Session = field(init=False)
    _names: int = 0
    _depth: int = 0
    _uninitialised: bool = False
    _side: str = ""

    def __post_init__(self) -> None:
        self._laws = Laws(self.sort)
        self._queries = Session(self._facts.linear)

    def fresh(self, prefix: str) -> str:
        """A name not used before."""
        self._names += 1
        return f"{prefix}{self._names}"

    def integer(self, prefix: str) -> z3.ArithRef:
        """A new integer variable."""
        return z3.Int(self.fresh(prefix))

    @contextmanager
    def on(self, side: str) -> Iterator[None]:
        """Sums and black boxes made inside come from ``side``."""
        before, self._side = self._side, side
        try:
            yield
        finally:
            self._side = before

    @property
    def has_sums(self) -> bool:
        """Whether any sum has been formed."""
        return any(e.is_total for e in self.extensional.values())

    @property
    def reads_uninitialised(self) -> bool:
        """Whether an element has been asked for that memory holds before anything is written to it."""
        return self._uninitialised

    def ite(self, condition: Cond, then: Any, other: Any) -> Any:
        """See :class:`Logic`."""
        if isinstance(condition, bool):
            return then if condition else other
        if z3.is_true(condition):
            return then
        if z3.is_false(condition):
            return other
        if isinstance(then, int) and isinstance(other, int):
            return then if then == other and type(then) is type(other) else z3.If(condition, lifted(then), lifted(other))
        return z3.If(condition, lifted(then), lifted(other))

    def all_of(self, *conditions: Cond) -> Cond:
        """See :class:`Logic`."""
        if any(c is False for c in conditions):
            return False
        rest = [c for c in conditions if c is not True]
        return (z3.And(rest) if len(rest) > 1 else rest[0]) if rest else True

    def any_of(self, *conditions: Cond) -> Cond:
        """See :class:`Logic`."""
        if any(c is True for c in conditions):
            return True
        rest = [c for c in conditions if c is not False]
        return (z3.Or(rest) if len(rest) > 1 else rest[0]) if rest else False

    def negate(self, condition: Cond) -> Cond:
        """See :class:`Logic`."""
        return (not condition) if isinstance(condition, bool) else z3.Not(condition)

    def decide(self, condition: Cond) -> bool | None:
        """See :class:`Logic`."""
        if isinstance(condition, bool):
            return condition
        key = condition.get_id()
        if key not in self._decided:
            self._decided[key] = (condition, self._entailed(condition))
        return self._decided[key][1]

    def decided(self) -> list[z3.BoolRef]:
        """What :meth:`decide` found to follow from the premises, less what is plain from the expression alone."""
        found = [condition if answer else z3.Not(condition) for condition, answer in self._decided.values() if answer is not None]
        return [f for f in found if not z3.is_true(z3.simplify(f))]

    def _entailed(self, condition: z3.BoolRef) -> bool | None:
        simple = z3.simplify(condition)
        if z3.is_true(simple):
            return True
        if z3.is_false(simple):
            return False
        self._facts.stand(self.premises)
        return self._facts.entails(condition, DECIDE_S)

    def contradictory(self, required: Sequence[z3.BoolRef], timeout_s: float) -> bool:
        """Whether the premises together with ``required`` cannot hold."""
        self._facts.stand(self.premises)
        with self._facts.under(required):
            return bool(self._facts.check(time.monotonic() + timeout_s) == z3.unsat)

    @property
    def queries(self) -> Session:
        """The solver for queries, in which the premises stand. Not the one that decides conditions while terms are built."""
        self._queries.stand(self.premises)
        return self._queries

    @property
    def sort(self) -> z3.SortRef:
        """That of elements."""
        return z3.RealSort() if self.grouping else ELEMENT

    @property
    def grouping(self) -> bool:
        """Whether additions may be grouped and ordered otherwise."""
        return GROUPING in self.laws

    def element(self, name: str, index: Index) -> Term:
        """See :class:`Logic`."""
        places = [lifted(number(i)) for i in index]
        return self._function(("input", name, len(places)), [z3.IntSort()] * len(places), self.sort)(*places)

    def apply(self, symbol: Symbol, *terms: Term) -> Term:
        """See :class:`Logic`."""
        operands = [lifted(t) for t in terms]
        if self.grouping and symbol.op == "add" and not symbol.mode and commutes(symbol):
            return operands[0] + operands[1]
        if self.grouping and NEUTRAL in self.laws and _number_of(symbol) == 0:
            return self.zero()
        sorts = [t.sort() for t in operands]
        function = self._function((symbol, *(s.name() for s in sorts)), sorts, self.sort)
        self._laws.note(symbol, function)
        self._uninitialised = self._uninitialised or symbol.op == UNINITIALISED
        found = function(*operands)
        self._jumps.note(symbol, found, operands, self._side)
        if _number_of(symbol) in (0, 1):
            self._numbers[found.get_id()] = (found, _number_of(symbol))
        return found

    def zero(self) -> Term:
        """See :class:`Logic`."""
        return z3.RealVal(0) if self.grouping and NEUTRAL in self.laws else self._function(("zero",), [], self.sort)()

    def total(self, symbol: Symbol, part: Part, kernel: Hashable) -> Term:
        """See :class:`Logic`."""
        if self.grouping:
            return self._taken_apart(symbol, part, kernel, 0)
        return self._extensional(symbol, (part,), self.sort, kernel, is_total=True)

    def _taken_apart(self, symbol: Symbol, part: Part, kernel: Hashable, axis: int) -> Term:
        """A sum as one of sums, see :mod:`verify.prover.sums`; axes before ``axis`` have been looked at."""
        if axis == len(part.extents):
            return self._summed(symbol, part, kernel) if part.extents else part.body(())
        if self._is_listed(part, axis):
            rest = part.extents[:axis] + part.extents[axis + 1 :]
            terms = [self._taken_apart(symbol, Part(rest, sums.at(part, axis, k)), kernel, axis) for k in range(part.extents[axis])]
        else:
            sections = self._sections(part, axis)
            terms = [self._taken_apart(symbol, s, kernel, axis + (not self._is_listed(s, axis))) for s in sections]
        return sum(terms[1:], start=terms[0]) if terms else self.zero()

    def _is_listed(self, part: Part, axis: int) -> bool:
        """Whether a sum is written term by term along an axis. A kernel adds to 0; where the terms are no sums themselves, that tells."""
        return sums.is_short(part.extents[axis]) and (len(part.extents) > 1 or NEUTRAL in self.laws)

    def _summed(self, symbol: Symbol, part: Part, kernel: Hashable) -> Term:
        """A sum that cannot be taken apart; one of zeros is zero, if that is neutral."""
        (body,), _ = self._written_out((part,))
        if NEUTRAL in self.laws and z3.simplify(body).eq(self.zero()):
            return self.zero()
        return self._extensional(symbol, (part,), self.sort, kernel, is_total=True)

    def _sections(self, part: Part, axis: int) -> list[Part]:
        (bodies, variables) = self._written_out((part,))
        variable, others = variables[0][axis], [v for k, v in enumerate(variables[0]) if k != axis]
        found = sums.cuts(bodies, self._stands_for, variable, others)
        if not found:
            return [part]
        return [sums.within(part, axis, s, variable) for s in sums.sections(found, lifted(part.extents[axis]), self._at_most)]

    def _stands_for(self, term: Any) -> Sequence[Any]:
        return self._bodies(term.get_id())

    def _bodies(self, number: int) -> Sequence[Any]:
        known = self.extensional.get(number)
        return () if known is None else known.bodies

    def _at_most(self, left: Any, right: Any) -> bool:
        return self.decide(left <= right) is True

    def whole(self, symbol: Symbol, parts: Sequence[Part], index: Index, kernel: Hashable = None) -> Term:
        """See :class:`Logic`."""
        token = self._extensional(symbol, tuple(parts), WHOLE, kernel, is_total=False)
        self._jumps.note(symbol, token, self.extensional[token.get_id()].bodies, self._side)
        places = [lifted(number(i)) for i in index]
        return self._function(("whole", symbol, len(places)), [WHOLE, *[z3.IntSort()] * len(places)], self.sort)(token, *places)

    def _written_out(self, parts: Sequence[Part]) -> tuple[tuple[Any, ...], list[tuple[z3.ArithRef, ...]]]:
        """Bodies, written with bound variables that no enclosing body uses, and those variables."""
        self._depth += 1
        try:
            bound = [tuple(z3.Int(f"bound{self._depth}_{k}") for k in range(len(part.extents))) for part in parts]
            return tuple(lifted(part.body(own)) for part, own in zip(parts, bound, strict=True)), bound
        finally:
            self._depth -= 1

    def _extensional(self, symbol: Symbol, parts: tuple[Part, ...], sort: z3.SortRef, kernel: Hashable, is_total: bool) -> z3.ExprRef:
        """One constant for all uses with the same bodies."""
        bodies, bound = self._written_out(parts)
        key = (symbol, kernel, is_total, self._depth, tuple(part.extents for part in parts), tuple(b.get_id() for b in bodies))
        if key not in self._constants:
            constant = z3.Const(self.fresh("r"), sort)
            shape = (symbol, is_total, tuple(len(part.extents) for part in parts))
            family = self._families.setdefault(shape, len(self._families))
            self._constants[key] = constant
            likeness, below = self._inside(bodies)
            self.extensional[constant.get_id()] = Extensional(
                constant, parts, is_total, kernel, tuple(bound), bodies, family, below + 1, likeness, self._side
            )
        return self._constants[key]

    def _function(self, key: Any, sorts: list[z3.SortRef], result: z3.SortRef) -> Any:
        if key not in self._functions:
            self._functions[key] = z3.Function(self.fresh("f"), *sorts, result)
        return self._functions[key]

    # ------------------------------------------------------------------------------------------------------- lemmas

    def _inside(self, bodies: Sequence[z3.ExprRef]) -> tuple[frozenset[int], int]:
        """The functions that bodies apply, and the height of the highest constant in them."""
        functions: set[int] = set()
        height = 0

        def visit(number: int, term: Any) -> bool:
            nonlocal height
            known = self.extensional.get(number)
            if known is None:
                functions.add(function_of(term))
                return True
            functions.update(known.likeness)
            height = max(height, known.height)
            return False

        walk(bodies, set(), visit)
        return frozenset(functions), height

    def mentioned(self, formula: z3.ExprRef, seen: set[int], in_sum: bool) -> tuple[list[Extensional], list[tuple[Stage, z3.BoolRef]]]:
        """The sums and black boxes in ``formula`` that ``seen`` does not hold yet, and what is known of its terms, see :mod:`laws`."""
        found: list[Extensional] = []
        laws: list[tuple[Stage, z3.BoolRef]] = []

        def visit(number: int, term: Any) -> bool:
            known = self.extensional.get(number)
            if known is not None:
                found.append(known)
            else:
                laws.extend(self._laws.of(term, in_sum))
                laws.extend((Stage.ALWAYS, law) for law in self._neutral(term))
            return True

        walk([formula], seen, visit)
        return found, laws

    def _neutral(self, term: Any) -> Iterator[z3.BoolRef]:
        """What a sum with 0 and a product with 1 are, if those laws hold. ``term``: given by its handle."""
        symbol = self._laws.commutative(term) if self.laws else None
        if symbol is None:
            return
        law, neutral = {"add": (NEUTRAL, 0), "mul": (UNIT, 1)}[symbol.op]
        if symbol.op == "mul" and ZEROS in self.laws:
            yield from self._zeros(wrapped(term))
        if law in self.laws and not (law == UNIT and symbol.result.startswith("complex")):  # inf * (1 + 0i) is not inf
            found = wrapped(term)
            left, right = found.arg(0), found.arg(1)
            for constant in [constant for constant, number in self._numbers.values() if number == neutral]:
                yield z3.Or(left != constant, found == right)
                yield z3.Or(right != constant, found == left)

    def _zeros(self, product: Any) -> Iterator[z3.BoolRef]:
        """That a product of two zeros adds nothing to a sum."""
        zeros = [constant for constant, number in self._numbers.values() if number == 0]
        for one, other in itertools.product([*zeros, self.zero()], repeat=2):
            yield z3.Or(product.arg(0) != one, product.arg(1) != other, product == self.zero())

    def jumps(self) -> tuple[str, ...]:
        """The operators that jump and read what may have been added up in another order."""

        def rounds(term: Any) -> bool:
            known = self.extensional.get(term_number(term))
            return self._laws.rounds(term) or (known.kernel is not None if known is not None else self.grouping and is_addition(term))

        return self._jumps.reached(rounds, self._bodies, not self.grouping)

    def lemma(self, one: Extensional, other: Extensional) -> z3.BoolRef:
        """Two of one family are equal, or their bodies differ somewhere."""
        ways: list[Any] = [one.constant == other.constant]
        for k, (left, right) in enumerate(zip(one.parts, other.parts, strict=True)):
            place = tuple(self.integer("w") for _ in left.extents)
            ways.append(self._masked(one, k, place) != self._masked(other, k, place))
            if not one.is_total:
                ways += [lifted(a) != lifted(b) for a, b in zip(left.extents, right.extents, strict=True)]
        return z3.Or(ways)

    def _masked(self, e: Extensional, k: int, place: Index) -> z3.ExprRef:
        """A body with zero outside its extents; a sum over all integers of that is the sum over the extents."""
        if e.height > 1:  # the sums in the body are others at every place
            with self.on(e.side):
                return self._cut_off(e.parts[k], place, e.parts[k].body(place))
        if k not in e.masked:
            e.masked[k] = self._cut_off(e.parts[k], e.bound[k], e.bodies[k])
        return z3.substitute(e.masked[k], *zip(e.bound[k], place, strict=True))

    def _cut_off(self, part: Part, place: Index, body: Term) -> Any:
        inside = self.all_of(*(c for w, e in zip(place, part.extents, strict=True) for c in (w >= 0, w < e)))
        return lifted(self.ite(inside, body, self.zero()))


def _number_of(symbol: Symbol) -> float | None:
    """The number that a constant is; None of other symbols."""
    text = dict(symbol.literals).get("value", "") if symbol.op == "constant" else ""
    return float(text) if text in ("0", "0.0", "-0.0", "1", "1.0") else None
