"""Sums taken apart: over ranges of known length into their summands, over joined ranges into the sums over the sections.

What a sum over ``0 <= w < n`` adds is often told by cases, ``w < a`` and the like, since its operands were joined. Where the
premises order the bounds ``a <= b <= ... <= n`` of all such cases, the sum is that of the sums over the sections between.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from verify.prover.terms import lifted
from verify.semantics.logic import Index, Part

SUMMANDS = 16
"""The longest range that is summed term by term."""

Atom = Any
AtMost = Callable[[Any, Any], bool]


def is_short(extent: Any) -> bool:
    """Whether a range is one that is summed term by term."""
    return isinstance(extent, int) and extent <= SUMMANDS


@dataclass(frozen=True)
class Cut:
    """A place ``at`` where the truth of ``atom`` changes, from ``below`` to its opposite; or, ``alone``, where only there it is true."""

    atom: Atom
    at: Any
    below: bool
    alone: bool = False


def cuts(bodies: Sequence[Any], inside: Callable[[Any], Sequence[Any]], variable: z3.ArithRef, others: Sequence[z3.ArithRef]) -> list[Cut]:
    """Where the cases in ``bodies`` depend on ``variable``.

    ``inside``: the terms that a constant stands for. Cases that depend on ``others`` too, or in another way than by a bound, are left out.
    """
    found: list[Cut] = []
    for atom in _atoms(bodies, inside, variable):
        cut = _cut(atom, variable)
        if cut is not None and not any(_mentions(cut.at, o) for o in others):
            found.append(cut)
    return found


def _atoms(bodies: Sequence[Any], inside: Callable[[Any], Sequence[Any]], variable: z3.ArithRef) -> Iterator[Atom]:
    seen: set[int] = set()
    stack: list[Any] = list(bodies)
    while stack:
        term = stack.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        if z3.is_bool(term) and term.num_args() == 2 and z3.is_int(term.arg(0)):
            if _mentions(term, variable):
                yield term
            continue
        stack.extend(inside(term))
        stack.extend(term.children())


def _mentions(term: Any, variable: z3.ArithRef) -> bool:
    seen: set[int] = set()
    stack = [term]
    while stack:
        at = stack.pop()
        if at.eq(variable):
            return True
        if at.get_id() not in seen:
            seen.add(at.get_id())
            stack.extend(at.children())
    return False


def _cut(atom: Atom, variable: z3.ArithRef) -> Cut | None:
    """The bound that an atom sets to ``variable``, if it is linear in it with a factor of 1 or -1."""
    difference = atom.arg(0) - atom.arg(1)
    rest = z3.simplify(z3.substitute(difference, (variable, z3.IntVal(0))))
    slope = z3.simplify(difference - rest - variable)
    if z3.is_int_value(slope) and slope.as_long() == 0:
        rising = True
    elif z3.is_int_value(z3.simplify(difference - rest + variable)) and z3.simplify(difference - rest + variable).as_long() == 0:
        rising = False
    else:
        return None
    bound = z3.simplify(-rest if rising else rest)  # the atom compares the variable with it
    kind = atom.decl().kind()
    if kind == z3.Z3_OP_EQ:
        return Cut(atom, bound, False, alone=True)
    less = kind in (z3.Z3_OP_LT, z3.Z3_OP_LE)
    if not less and kind not in (z3.Z3_OP_GT, z3.Z3_OP_GE):
        return None
    strict = kind in (z3.Z3_OP_LT, z3.Z3_OP_GT)
    below = less == rising  # true of small values of the variable
    return Cut(atom, bound if strict == below else z3.simplify(bound + 1), below)


@dataclass(frozen=True)
class Section:
    """``start <= w < stop``, and the truth of the atoms there."""

    start: Any
    stop: Any
    truths: tuple[tuple[Atom, bool], ...]


def sections(found: Sequence[Cut], extent: Any, at_most: AtMost) -> list[Section]:
    """The range below ``extent`` between cuts that ``at_most`` (the premises entail ``<=``) puts in order."""
    zero = z3.IntVal(0)
    places: list[Any] = []
    used: list[tuple[Cut, Any, Any]] = []
    for cut in found:
        first, last = cut.at, z3.simplify(cut.at + 1) if cut.alone else cut.at
        if at_most(zero, first) and at_most(last, extent) and all(at_most(p, q) or at_most(q, p) for p in places for q in (first, last)):
            used.append((cut, first, last))
            places += [p for p in dict.fromkeys((first, last)) if not any(at_most(p, q) and at_most(q, p) for q in places)]
    ordered: list[Any] = []
    for place in places:
        k = next((k for k, other in enumerate(ordered) if at_most(place, other)), len(ordered))
        ordered.insert(k, place)
    bounds = [zero, *ordered, extent]
    return [Section(a, b, _truths(used, a, b, at_most)) for a, b in itertools.pairwise(bounds) if not at_most(b, a)]


def _truths(used: Sequence[tuple[Cut, Any, Any]], start: Any, stop: Any, at_most: AtMost) -> tuple[tuple[Atom, bool], ...]:
    """The atoms that are true of all numbers from ``start`` to below ``stop``, and those that are false of all."""
    found: list[tuple[Atom, bool]] = []
    for cut, first, last in used:
        before, behind = at_most(stop, first), at_most(last, start)
        if before or behind:
            found.append((cut.atom, cut.below if before else not cut.below and not cut.alone))
        elif cut.alone and at_most(first, start) and at_most(stop, last):
            found.append((cut.atom, True))
    return tuple(found)


def within(part: Part, axis: int, section: Section, variable: z3.ArithRef) -> Part:
    """The summands of one section, counted from its start, their cases decided."""

    def body(given: Index) -> Any:
        place = z3.simplify(lifted(given[axis]) + section.start)
        term = part.body((*given[:axis], place, *given[axis + 1 :]))
        known = [(z3.substitute(atom, (variable, place)), z3.BoolVal(truth)) for atom, truth in section.truths]
        return z3.simplify(z3.substitute(term, *known))

    extent = z3.simplify(lifted(section.stop) - section.start)
    return Part((*part.extents[:axis], extent.as_long() if z3.is_int_value(extent) else extent, *part.extents[axis + 1 :]), body)


def at(part: Part, axis: int, k: int) -> Callable[[Index], Any]:
    """The summands at position ``k`` of an axis, over the other axes."""
    return lambda given: part.body((*given[:axis], k, *given[axis:]))
