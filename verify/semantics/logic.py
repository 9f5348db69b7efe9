"""The algebra in which the meaning of operators is written, and its instance on plain numbers.

``Int`` is a Python int or a solver's integer term, ``Cond`` a Python bool or a solver's formula, ``Term`` an element of a
tensor. Arithmetic and comparison of integers use Python's operators on both. Everything that would need ``and``, ``or``,
``not`` or ``if`` on a formula goes through the functions below, since on solver terms those words do something else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Int = Any
Cond = Any
Term = Any
Index = tuple[Any, ...]
UNINITIALISED = "uninitialised"
"""The functions that give the elements of memory to which nothing was written, by index."""


@dataclass(frozen=True)
class Symbol:
    """A function left uninterpreted: the operator, the dtypes of its operands, its literal arguments, the mode, the dtype it gives.

    Among the literals, ``#1`` stands for the first operand. All that the function depends on is said here.
    """

    op: str
    dtypes: tuple[str, ...] = ()
    literals: tuple[tuple[str, str], ...] = ()
    mode: str = ""
    result: str = ""

    def __str__(self) -> str:
        inside = ", ".join([*self.dtypes, *(f"{k}={v}" for k, v in self.literals)])
        return self.op + (f"[{inside}]" if inside else "") + (f"@{self.mode}" if self.mode else "") + (f"->{self.result}" if self.result else "")


@dataclass(frozen=True)
class Part:
    """A function over a range of indices, as far as it matters to a sum or to a black box: ``body`` on ``extents``."""

    extents: tuple[Int, ...]
    body: Callable[[Index], Term]


class Logic(Protocol):
    """What an instance of the algebra provides.

    ``widened``: products of half precision are read as kernels compute them, in float32 and rounded at the end, for a graph
    says so by itself. Otherwise they are functions of half precision of which no more is known than that they add products.
    """

    widened: bool

    def ite(self, condition: Cond, then: Any, other: Any) -> Any:
        """``then`` where ``condition`` holds, else ``other``; on integers, on formulas and on terms."""

    def all_of(self, *conditions: Cond) -> Cond:
        """The conjunction."""

    def any_of(self, *conditions: Cond) -> Cond:
        """The disjunction."""

    def negate(self, condition: Cond) -> Cond:
        """The negation."""

    def decide(self, condition: Cond) -> bool | None:
        """Whether the premises entail ``condition``, or its negation, or neither."""

    def element(self, name: str, index: Index) -> Term:
        """An element of an input tensor."""

    def apply(self, symbol: Symbol, *terms: Term) -> Term:
        """A function of elements."""

    def zero(self) -> Term:
        """The neutral element of sums."""

    def total(self, symbol: Symbol, part: Part, kernel: Hashable) -> Term:
        """The sum of ``part`` over its extents. Equal sums by one ``kernel`` round alike, those by another may not."""

    def whole(self, symbol: Symbol, parts: Sequence[Part], index: Index, kernel: Hashable = None) -> Term:
        """An element at ``index`` of a function of whole tensors of which only congruence is known; ``kernel`` as for sums."""


class NumberLogic:
    """The algebra on plain numbers: indices are ints, elements are 0-d tensors. For conformance tests.

    ``inputs``: tensors by name. ``function``: how to compute a symbol on 0-d tensors and ints, or on parts.
    """

    def __init__(self, inputs: dict[str, Any], function: Callable[[Symbol], Callable[..., Any]]) -> None:
        self.inputs = inputs
        self.function = function
        self.widened = False

    def ite(self, condition: Cond, then: Any, other: Any) -> Any:
        """See :class:`Logic`."""
        return then if condition else other

    def all_of(self, *conditions: Cond) -> Cond:
        """See :class:`Logic`."""
        return all(conditions)

    def any_of(self, *conditions: Cond) -> Cond:
        """See :class:`Logic`."""
        return any(conditions)

    def negate(self, condition: Cond) -> Cond:
        """See :class:`Logic`."""
        return not condition

    def decide(self, condition: Cond) -> bool | None:
        """See :class:`Logic`."""
        return bool(condition)

    def element(self, name: str, index: Index) -> Term:
        """See :class:`Logic`."""
        found = self.inputs[name]
        if not all(0 <= i < n for i, n in zip(index, found.shape, strict=True)):
            raise IndexError(f"element {index} of the input {name} of shape {tuple(found.shape)}")
        return found[tuple(index)]

    def apply(self, symbol: Symbol, *terms: Term) -> Term:
        """See :class:`Logic`."""
        return self.function(symbol)(*terms)

    def zero(self) -> Term:
        """See :class:`Logic`."""
        return 0

    def total(self, symbol: Symbol, part: Part, kernel: Hashable) -> Term:  # noqa: ARG002
        """See :class:`Logic`."""
        return sum((part.body(i) for i in _indices(part.extents)), start=0)

    def whole(self, symbol: Symbol, parts: Sequence[Part], index: Index, kernel: Hashable = None) -> Term:  # noqa: ARG002
        """See :class:`Logic`. The function gets the parts as they are."""
        return self.function(symbol)(*parts)[index]


def _indices(extents: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for extent in extents:
        found = [(*index, i) for index in found for i in range(extent)]
    return found
