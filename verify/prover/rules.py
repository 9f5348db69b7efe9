"""Proof of a rule as its pattern states it, for all sizes, any number of pieces and any rank.

Sections of unknown number are two functions of the section's number, its size and its offset, with the facts

    offset(0) = 0,  offset(k + 1) = offset(k) + size(k),  size(k) >= 0,

and two that follow by induction: an offset does not fall, and every place below the total lies in one section. A query
gets the instances of these for the numbers that it mentions, so it stays free of quantifiers. Dimensions that a rule does
not touch are one axis with a row-major position, whatever their number.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import z3

from verify.prover.solve import Invalid, Undecided, Valid
from verify.prover.task import Task, formula
from verify.prover.terms import lifted
from verify.semantics.logic import Index, Int, Part, Symbol
from verify.verdict import ZEROS, Unknown, Vacuous, Verdict, in_words

TIMES = Symbol("mul", ("any", "any"), (("self", "#1"), ("other", "#2")), result="any")
"""The product of two elements of one dtype, whichever it is."""


def prove_rule(statement: Callable[[Any], None], *, timeout_s: float, second_solver: bool) -> Verdict:
    """Whether what ``statement`` says holds, see :class:`optimus.rule.Rule`. ``timeout_s`` bounds each query."""
    start = time.monotonic()
    rule = SolverRule(Task(timeout_s, second_solver))
    try:
        statement(rule)
    except Unprovable as error:
        return Unknown(str(error))
    task = rule.task
    if not rule.stated:
        return Vacuous("the rule states nothing")
    if task.contradictory(rule._facts([])):
        return Vacuous("what the rule supposes is contradictory")
    return task.proved(start)


class Unprovable(Exception):
    """Something that a rule states does not follow. The message says what, and for which numbers."""


class Ragged:
    """Sections of unknown sizes: two functions of the section's number."""

    def __init__(self, rule: SolverRule, name: str, count: Int, each: Int | None) -> None:
        self.rule, self.count, self.each = rule, count, each
        self._size = z3.Function(rule.task.logic.fresh(f"{name}_size"), z3.IntSort(), z3.IntSort())
        self._offset = z3.Function(rule.task.logic.fresh(f"{name}_offset"), z3.IntSort(), z3.IntSort())

    @property
    def total(self) -> Int:
        """See :class:`optimus.rule.Rule`."""
        return self.offset(self.count)

    def size(self, k: Int) -> Int:
        """See :class:`optimus.rule.Rule`."""
        return self._size(_simple(k)) if self.each is None else self.each

    def offset(self, k: Int) -> Int:
        """See :class:`optimus.rule.Rule`."""
        return self._offset(_simple(k))

    def between(self, first: Int, count: Int) -> Sections:
        """See :class:`optimus.rule.Rule`."""
        return _between(self, first, count)

    def facts(self, places: Sequence[z3.ArithRef]) -> list[z3.BoolRef]:
        """What is known of ``places``. Beyond the last section there are more, of sizes that do not matter."""
        found: list[z3.BoolRef] = [self._offset(z3.IntVal(0)) == 0]
        for k in places:
            found += [self.size(k) >= 0, self._offset(k + 1) == self._offset(k) + self.size(k)]
        for a, b in itertools.permutations(places, 2):
            found.append(z3.Implies(a < b, self._offset(a) + self.size(a) <= self._offset(b)))
        return found


@dataclass
class Sections:
    """Sections whose sizes and offsets are computed."""

    rule: SolverRule
    count: Int
    size: Callable[[Int], Int]
    offset: Callable[[Int], Int]

    @property
    def total(self) -> Int:
        """See :class:`optimus.rule.Rule`."""
        return self.offset(self.count)

    def between(self, first: Int, count: Int) -> Sections:
        """See :class:`optimus.rule.Rule`."""
        return _between(self, first, count)


AnySections = Ragged | Sections


def _between(sections: AnySections, first: Int, count: Int) -> Sections:
    rule = sections.rule
    rule.require("the sections lie in the axis", first >= 0, count >= 0, first + count <= sections.count)
    return Sections(rule, count, lambda k: sections.size(first + k), lambda k: sections.offset(first + k) - sections.offset(first))


@dataclass
class Tensor:
    """Axes and an element for each index."""

    axes: tuple[Int, ...]
    element: Callable[[Index], Any]


@dataclass
class Family:
    """Tensors by number; ``sections``: the sizes along the axis at which they were cut."""

    rule: SolverRule
    count: Int
    member: Callable[[Int], Tensor]
    sections: AnySections | None = None

    def __getitem__(self, k: Int) -> Tensor:
        return self.member(k)

    def between(self, first: Int, count: Int) -> Family:
        """See :class:`optimus.rule.Rule`."""
        self.rule.require("the tensors are there", first >= 0, count >= 0, first + count <= self.count)
        sections = None if self.sections is None else self.sections.between(first, count)
        return Family(self.rule, count, lambda k: self.member(first + k), sections)


class Spot(NamedTuple):
    """A position along joined sections, as the section and the position in it."""

    section: Int
    within: Int


@dataclass
class SolverRule:
    """The instance of :class:`optimus.rule.Rule` that proves what it is told."""

    task: Task
    stated: int = 0
    _ragged: list[Ragged] = field(default_factory=list)
    _spots: dict[Any, tuple[AnySections, Spot, list[z3.BoolRef]]] = field(default_factory=dict)
    _given: list[z3.BoolRef] = field(default_factory=list)
    _reshapes: dict[tuple[str, int], str] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------- numbers

    def number(self, name: str, least: int = 0) -> Int:
        """See :class:`optimus.rule.Rule`."""
        found = z3.Int(name)
        self.task._given.append(found)
        self.task.logic.premises.append(found >= least)
        return found

    def suppose(self, *conditions: Any) -> None:
        """See :class:`optimus.rule.Rule`."""
        self.task.logic.premises += conditions

    def choose(self, condition: Any, then: Int, other: Int) -> Int:
        """See :class:`optimus.rule.Rule`."""
        return self.task.logic.ite(condition, then, other)

    def require(self, what: str, *conditions: Any) -> None:
        """Prove that ``conditions`` hold for all numbers supposed."""
        goals = [c for c in conditions if not z3.is_true(z3.simplify(formula(c)))]
        _, answer = self.task.prove([*self._given, *self._facts(goals)], [(what, c) for c in goals])
        match answer:
            case Valid():
                return
            case Invalid(sizes):
                numbers = in_words(sizes)
                raise Unprovable(f"the rule does not hold: not always {what}" + (f", such as for {numbers}" if numbers else ""))
            case Undecided(reason):
                raise Unprovable(f"{what}: {reason}")

    def _facts(self, goals: Sequence[z3.BoolRef]) -> list[z3.BoolRef]:
        """What is known of the sections at the places that ``goals`` speak of, and of the positions that they look up."""
        found: list[z3.BoolRef] = []
        functions = {f.name(): r for r in self._ragged for f in (r._size, r._offset)}
        spots = {str(spot.section): known for _, spot, known in self._spots.values()}
        places: dict[Ragged, dict[Any, None]] = {}
        seen: set[int] = set()
        stack: list[Any] = [*goals, *self._given, *self.task.logic.premises]
        while stack:
            term = stack.pop()
            if term.get_id() in seen:
                continue
            seen.add(term.get_id())
            name = term.decl().name()
            if name in functions:
                ragged = functions[name]
                known = places.setdefault(ragged, {})
                known[term.arg(0)] = None
                for end in (z3.IntVal(0), _simple(ragged.count)):
                    known[end] = None
                    stack.append(end)
            elif name in spots:
                found += spots[name]
                stack += spots[name]
            stack += term.children()
            summed = self.task.logic.extensional.get(term.get_id())
            for part in summed.parts if summed is not None else ():
                stack.append(part.body(tuple(z3.Int(f"inside_{d}") for d in range(len(part.extents)))))
        return found + [f for ragged, known in places.items() for f in ragged.facts(list(known))]

    @contextmanager
    def somewhere(self, *extents: Int) -> Iterator[tuple[Int, ...]]:
        """Any position below each of ``extents``, as long as the context lasts."""
        found = tuple(self.task.logic.integer("i") for _ in extents)
        before = self._given
        self._given = [*before, *(c for i, n in zip(found, extents, strict=True) for c in (i >= 0, i < n))]
        try:
            yield found
        finally:
            self._given = before

    # ------------------------------------------------------------------------------------------------ sections

    def sections(self, name: str, count: Int, each: Int | None = None) -> Ragged:
        """See :class:`optimus.rule.Rule`."""
        found = Ragged(self, name, count, each)
        if not self._ragged:
            self._induct()
        self._ragged.append(found)
        return found

    def _induct(self) -> None:
        """The two facts that follow by induction, for any sections: the steps from ``k`` to ``k + 1``."""
        size, offset, inside = (z3.Function(f"any_{name}", z3.IntSort(), z3.IntSort()) for name in ("size", "offset", "inside"))
        a, k, p = z3.Ints("any_a any_k any_p")
        facts = [offset(0) == 0, size(a) >= 0, size(k) >= 0, offset(k + 1) == offset(k) + size(k), offset(a + 1) == offset(a) + size(a)]
        rises = z3.And(offset(a) <= offset(k), z3.Implies(a < k, offset(a) + size(a) <= offset(k)))
        rises_on = z3.And(offset(a) <= offset(k + 1), offset(a) + size(a) <= offset(k + 1))
        found = z3.And(inside(p) >= 0, inside(p) < k, offset(inside(p)) <= p, p < offset(inside(p)) + size(inside(p)))
        on = z3.If(p < offset(k), inside(p), k)
        found_on = z3.And(on >= 0, on < k + 1, offset(on) <= p, p < offset(on) + size(on))
        goals = [
            ("offsets do not fall", z3.Implies(z3.And(a <= k, rises), rises_on)),
            (
                "every place lies in a section",
                z3.Implies(z3.And(k >= 0, p >= 0, p < offset(k + 1), z3.Implies(p < offset(k), found)), found_on),
            ),
        ]
        _, answer = self.task.prove(facts, goals)
        if not isinstance(answer, Valid):
            why = f": {answer.reason}" if isinstance(answer, Undecided) else ""
            raise Unprovable(f"the facts about sections do not follow by induction{why}")

    def computed(self, count: Int, size: Callable[[Int], Int], offset: Callable[[Int], Int]) -> Sections:
        """See :class:`optimus.rule.Rule`."""
        with self.somewhere(count) as (k,):
            self.require("the offsets are the sums of the sizes", offset(0) == 0, offset(k + 1) == offset(k) + size(k), size(k) >= 0)
        return Sections(self, count, size, offset)

    def spot(self, sections: AnySections, position: Int) -> Spot:
        """In which section a position below the total lies, and where."""
        key = (id(sections), _simple(position))
        if key not in self._spots:
            k = self.task.logic.integer("k")
            inside = [k >= 0, k < sections.count, sections.offset(k) <= position, position < sections.offset(k) + sections.size(k)]
            below = z3.And(position >= 0, position < sections.total)
            self._spots[key] = (sections, Spot(k, position - sections.offset(k)), [z3.Implies(below, z3.And(inside))])
        return self._spots[key][1]

    # ------------------------------------------------------------------------------------------------- tensors

    def tensor(self, name: str, *axes: Int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        return Tensor(axes, lambda i: self.task.logic.element(name, i))

    def family(self, name: str, count: Int, *axes: Int | Callable[[Int], Int]) -> Family:
        """See :class:`optimus.rule.Rule`."""

        def member(k: Int) -> Tensor:
            return Tensor(tuple(a(k) if callable(a) else a for a in axes), lambda i: self.task.logic.element(name, (k, *i)))

        return Family(self, count, member)

    def sequence(self, count: Int, member: Callable[[Int], Tensor]) -> Family:
        """See :class:`optimus.rule.Rule`."""
        with self.somewhere(count) as (k,):
            member(k)
        return Family(self, count, member)

    def each(self, function: Callable[..., Tensor], *families: Family) -> Family:
        """See :class:`optimus.rule.Rule`."""
        for family in families[1:]:
            self.require("the families are of one length", family.count == families[0].count)
        return Family(self, families[0].count, lambda k: function(*(f[k] for f in families)))

    def split(self, x: Tensor, dim: int, sections: AnySections) -> Family:
        """See :class:`optimus.rule.Rule`."""
        self.require("the sections add up to the axis", sections.total == x.axes[dim])

        def piece(k: Int) -> Tensor:
            return Tensor(_put(x.axes, dim, sections.size(k)), lambda i: x.element(_put(i, dim, sections.offset(k) + i[dim])))

        return Family(self, sections.count, piece, sections)

    def unbind(self, x: Tensor, dim: int) -> Family:
        """See :class:`optimus.rule.Rule`."""
        return Family(self, x.axes[dim], lambda k: Tensor(_without(x.axes, dim), lambda i: x.element(_with(i, dim, k))))

    def cat(self, parts: Family, dim: int, sections: AnySections | None = None) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        sections = sections or parts.sections or _none(parts)
        first = parts[0].axes
        self.require("as many parts as sections", sections.count == parts.count)
        with self.somewhere(parts.count) as (k,):
            self.require("the parts have the sizes of the sections", parts[k].axes[dim] == sections.size(k))
            self.require("the parts agree along the other axes", *map(_equal, _without(parts[k].axes, dim), _without(first, dim)))

        def element(i: Index) -> Any:
            spot = self.spot(sections, i[dim])
            return parts[spot.section].element(_put(i, dim, spot.within))

        return Tensor(_put(first, dim, sections.total), element)

    def join(self, dim: int, *parts: Tensor) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        for part in parts[1:]:
            self.require("the parts agree along the other axes", *map(_equal, _without(part.axes, dim), _without(parts[0].axes, dim)))

        def element(i: Index) -> Any:
            starts = list(itertools.accumulate((p.axes[dim] for p in parts), initial=0))
            found = parts[-1].element(_put(i, dim, i[dim] - starts[-2]))
            for part, start, stop in reversed(list(zip(parts[:-1], starts, starts[1:], strict=False))):
                found = self.task.logic.ite(i[dim] < stop, part.element(_put(i, dim, i[dim] - start)), found)
            return found

        return Tensor(_put(parts[0].axes, dim, sum(p.axes[dim] for p in parts)), element)

    def stack(self, parts: Family, dim: int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        with self.somewhere(parts.count) as (k,):
            self.require("the parts have one shape", *map(_equal, parts[k].axes, parts[0].axes))
        return Tensor(_with(parts[0].axes, dim, parts.count), lambda i: parts[i[dim]].element(_without(i, dim)))

    def narrow(self, x: Tensor, dim: int, start: Int, length: Int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        self.require("the section lies in the axis", start >= 0, length >= 0, start + length <= x.axes[dim])
        return Tensor(_put(x.axes, dim, length), lambda i: x.element(_put(i, dim, start + i[dim])))

    def pad(self, x: Tensor, dim: int, behind: Int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        logic = self.task.logic
        logic.laws |= {ZEROS}
        self.require("as many zeros as a whole number says", behind >= 0)
        size = x.axes[dim]
        return Tensor(_put(x.axes, dim, size + behind), lambda i: logic.ite(i[dim] < size, x.element(i), logic.zero()))

    def expand(self, x: Tensor, dim: int, extent: Int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        return Tensor(_with(x.axes, dim, extent), lambda i: x.element(_without(i, dim)))

    def move(self, x: Tensor, source: int, to: int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        return Tensor(_with(_without(x.axes, source), to, x.axes[source]), lambda i: x.element(_with(_without(i, to), source, i[to])))

    def unflatten(self, x: Tensor, dim: int, sections: AnySections) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        size = self._size_of_all(sections)
        self.require("the sections add up to the axis", sections.total == x.axes[dim])
        axes = (*x.axes[:dim], sections.count, size, *x.axes[dim + 1 :])
        return Tensor(axes, lambda i: x.element((*i[:dim], sections.offset(i[dim]) + i[dim + 1], *i[dim + 2 :])))

    def flatten(self, x: Tensor, dim: int, sections: AnySections) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        size = self._size_of_all(sections)
        self.require("the sections are the two axes", sections.count == x.axes[dim], size == x.axes[dim + 1])

        def element(i: Index) -> Any:
            spot = self.spot(sections, i[dim])
            return x.element((*i[:dim], *spot, *i[dim + 1 :]))

        return Tensor((*x.axes[:dim], sections.total, *x.axes[dim + 2 :]), element)

    def _size_of_all(self, sections: AnySections) -> Int:
        with self.somewhere(sections.count) as (k,):
            self.require("the sections have one size", sections.size(k) == sections.size(0))
        return sections.size(0)

    def reshape(self, x: Tensor, kept: int, *axes: Int) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        source, key = x.axes[kept:], str((x.axes[kept:], axes))
        kinds = [z3.IntSort()] * len(axes)
        names = [self._reshapes.setdefault((key, k), self.task.logic.fresh("place")) for k in range(len(source))]
        places = [z3.Function(name, *kinds, z3.IntSort()) for name in names]

        def element(i: Index) -> Any:
            return x.element((*i[:kept], *(f(*map(_simple, i[kept:])) for f in places)))

        return Tensor((*x.axes[:kept], *axes), element)

    def rows(self, operator: str, x: Tensor) -> Tensor:
        """See :class:`optimus.rule.Rule`."""

        def element(i: Index) -> Any:
            row = Part((x.axes[-1],), lambda k: x.element((*i[:-1], *k)))
            return self.task.logic.whole(Symbol(operator), [row], (i[-1],))

        return Tensor(x.axes, element)

    def apply(self, operator: str, *operands: Tensor) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        for operand in operands[1:]:
            self.require(f"the operands of {operator} have one shape", *map(_equal, operand.axes, operands[0].axes))
        symbol = TIMES if operator == TIMES.op and len(operands) == 2 else Symbol(operator)
        return Tensor(operands[0].axes, lambda i: self.task.logic.apply(symbol, *(o.element(i) for o in operands)))

    def contract(self, equation: str, *operands: Tensor) -> Tensor:
        """See :class:`optimus.rule.Rule`."""
        left, _, right = equation.partition("->")
        letters = left.split(",")
        extents: dict[str, Int] = {}
        for spelled, operand in zip(letters, operands, strict=True):
            for letter, extent in zip(spelled, operand.axes, strict=True):
                self.require(f"the operands of {equation} agree", _equal(extents.setdefault(letter, extent), extent))
        summed = [x for x in extents if x not in right]
        kernel: Hashable = equation

        def element(i: Index) -> Any:
            def body(k: Index) -> Any:
                at = dict(zip(right, i, strict=True)) | dict(zip(summed, k, strict=True))
                terms = [o.element(tuple(at[x] for x in spelled)) for spelled, o in zip(letters, operands, strict=True)]
                product = terms[0]
                for term in terms[1:]:
                    product = self.task.logic.apply(TIMES, product, term)
                return product

            return self.task.logic.total(Symbol("sum"), Part(tuple(extents[x] for x in summed), body), kernel)

        return Tensor(tuple(extents[x] for x in right), element)

    # ----------------------------------------------------------------------------------------------- statements

    def equal(self, what: str, before: Tensor | Family, after: Tensor | Family) -> None:
        """See :class:`optimus.rule.Rule`."""
        self.stated += 1
        if isinstance(before, Family) and isinstance(after, Family):
            self.require(f"{what}: as many results", before.count == after.count)
            with self.somewhere(before.count) as (k,):
                self._same(what, before[k], after[k])
        elif isinstance(before, Tensor) and isinstance(after, Tensor):
            self._same(what, before, after)
        else:
            raise Unprovable(f"{what}: one side is a tensor, the other side are several")

    def _same(self, what: str, before: Tensor, after: Tensor) -> None:
        if len(before.axes) != len(after.axes):
            raise Unprovable(f"{what}: one side has {len(before.axes)} axes, the other {len(after.axes)}")
        self.require(f"{what}: the same shape", *map(_equal, before.axes, after.axes))
        with self.somewhere(*before.axes) as place:
            with self.task.logic.on("before"):
                one = before.element(place)
            with self.task.logic.on("after"):
                other = after.element(place)
            self.require(f"{what}: the same elements", one == other)


def _simple(given: Int) -> Any:
    return z3.simplify(lifted(given))


def _equal(one: Any, other: Any) -> Any:
    return True if one is other or (isinstance(one, z3.ExprRef) and isinstance(other, z3.ExprRef) and one.eq(other)) else one == other


def _put(given: tuple[Any, ...], dim: int, one: Any) -> tuple[Any, ...]:
    return (*given[:dim], one, *given[dim + 1 :])


def _with(given: tuple[Any, ...], dim: int, one: Any) -> tuple[Any, ...]:
    return (*given[:dim], one, *given[dim:])


def _without(given: Sequence[Any], dim: int) -> tuple[Any, ...]:
    return (*given[:dim], *given[dim + 1 :])


def _none(parts: Family) -> AnySections:
    raise Unprovable(f"cat of {parts.count} tensors: the sizes of the parts are not given")
