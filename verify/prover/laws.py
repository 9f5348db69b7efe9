"""What is known of functions of elements, term by term: which operands may be exchanged, and how additions may be ordered.

Elements are of a sort of which nothing is known, so additions are weighed: to each element of a dtype belongs a real number,
a sum weighs what its summands weigh together, and sums that weigh the same are the same. Weights of elements that are no
sums are arbitrary, and that of an element taken away has nothing to do with that of the same element added, so that two sums
always weigh the same only if they have the same summands, as often: nothing cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import z3

from verify.prover.terms import function_number, function_of, wrapped
from verify.semantics.logic import Symbol


class Stage(IntEnum):
    """When a law is asserted: at once, or in turn where what was asserted before is not enough.

    ``EXACT``: additions of integers in another order, which change no bit. ``SWAPPED``: the factors inside sums exchanged,
    and complex ones; a kernel that sums other products in another place need not round alike. ``REORDERED``: additions in another order.
    """

    ALWAYS = 0
    EXACT = 1
    SWAPPED = 2
    REORDERED = 3


FLOATS = ("float", "bfloat", "complex")
BOTH = {"self": "#1", "other": "#2"}


@dataclass(frozen=True)
class _Addition:
    """How a function adds: elements of one ``kind``, given first to last.

    ``constant``: what is added to the one operand, if there is one only. ``negated``: the operand that is taken away, 0 or 1,
    the constant being the last; none if -1.
    """

    kind: tuple[str, str]
    constant: str | None
    negated: int = -1

    @property
    def stage(self) -> Stage:
        return Stage.REORDERED if self.kind[0].startswith(FLOATS) else Stage.EXACT


@dataclass
class Laws:
    """The functions of which more is known than congruence, by number."""

    sort: z3.SortRef
    _commutative: dict[int, Symbol] = field(default_factory=dict)
    _fused: set[int] = field(default_factory=set)
    _additions: dict[int, _Addition] = field(default_factory=dict)
    _numbers: dict[tuple[str, ...], int] = field(default_factory=dict)

    def note(self, symbol: Symbol, function: z3.FuncDeclRef) -> None:
        """Remember what is known of the function that stands for ``symbol``."""
        if commutes(symbol):
            self._commutative[function_number(function)] = symbol
            if symbol.op == "mul" and symbol.result.startswith("complex"):  # of whose four products a kernel rounds two
                self._fused.add(function_number(function))
        addition = _addition(symbol)
        if addition is not None:
            self._additions[function_number(function)] = addition

    def _name(self, *what: str) -> str:
        """A name for the solvers that no text of a program gets into."""
        return f"{what[0]}_{self._numbers.setdefault(what, len(self._numbers))}"

    def commutative(self, term: Any) -> Symbol | None:
        """The function of a term, given by its handle, whose operands may be exchanged; None of others."""
        return self._commutative.get(function_of(term))

    def rounds(self, term: Any) -> bool:
        """Whether a term, given by its handle, is one that another order of its operands may round otherwise."""
        number = function_of(term)
        return number in self._fused or (number in self._additions and self._additions[number].stage is Stage.REORDERED)

    def of(self, term: Any, in_sum: bool) -> Iterator[tuple[Stage, z3.BoolRef]]:
        """What is known of a term, given by its handle. ``in_sum``: it is a summand of a sum that one kernel adds up."""
        number = function_of(term)
        if number in self._commutative:
            product = wrapped(term)
            yield Stage.SWAPPED if in_sum or number in self._fused else Stage.ALWAYS, product == product.decl()(product.arg(1), product.arg(0))
        if number in self._additions:
            addition, total = self._additions[number], wrapped(term)
            weight = z3.Function(self._name("weight", *addition.kind), self.sort, z3.RealSort())
            taken = z3.Function(self._name("taken", *addition.kind), self.sort, z3.RealSort())
            back = z3.Function(self._name("weighs", *addition.kind), z3.RealSort(), self.sort)
            parts = [(taken if k == addition.negated else weight)(total.arg(k)) for k in range(total.num_args())]
            if addition.constant is not None:
                sign = "less" if addition.negated == len(parts) else "plus"
                parts.append(z3.Real(self._name(sign, addition.constant, *addition.kind)))
            yield addition.stage, weight(total) == z3.Sum(parts)
            yield addition.stage, back(weight(total)) == total


def commutes(symbol: Symbol) -> bool:
    """Whether the operands of a function may be exchanged: tensors of one dtype added or multiplied. No bit changes, but in complex products."""
    return symbol.op in ("add", "mul") and dict(symbol.literals) == BOTH and len(set(symbol.dtypes)) == 1


def _addition(symbol: Symbol) -> _Addition | None:
    """What an addition or subtraction adds, if all is of one dtype; None of any other function, and of one that scales a summand."""
    literals = dict(symbol.literals)
    if symbol.op not in ("add", "sub") or {*symbol.dtypes} != {symbol.result} or set(literals) != {"self", "other"}:
        return None
    kind, less = (symbol.result, symbol.mode), symbol.op == "sub"
    if literals == BOTH:
        return _Addition(kind, None, 1 if less else -1)
    (constant,) = [text for text in literals.values() if text != "#1"] or [""]
    if not constant or constant.startswith(("#", "%")):
        return None
    first = literals["self"] == "#1"
    return _Addition(kind, constant, (1 if first else 0) if less else -1)
