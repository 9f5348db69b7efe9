"""The words in which a pattern states its rewrite for all sizes, any number of pieces and any rank.

A pattern may have a static method ``general(rule)`` that says what the rewrite replaces by what, in these words. Nothing
here is run when graphs are rewritten; ``verify.prover.rules`` proves what is stated. A tensor is a tuple of axes and an
element for each index; an axis may stand for any number of neighbouring dimensions that the rewrite does not touch, seen
as one in row-major order, and for none. Dimensions are counted over axes, from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Number = Any
"""A whole number of which only what is supposed is known. Python's operators and comparisons work."""


class Sections(Protocol):
    """Neighbouring sections of an axis: how many, how long, and where each starts."""

    count: Number

    @property
    def total(self) -> Number:
        """The extent of all together."""

    def size(self, k: Number) -> Number:
        """The extent of section ``k``."""

    def offset(self, k: Number) -> Number:
        """Where section ``k`` starts: the sum of the sizes before it."""

    def between(self, first: Number, count: Number) -> Sections:
        """``count`` of the sections, from ``first`` on."""


class Tensor(Protocol):
    """A tensor of unknown elements."""

    axes: tuple[Number, ...]


class Family(Protocol):
    """As many tensors as a number says, such as the pieces of a split."""

    count: Number

    def __getitem__(self, k: Number) -> Tensor:
        """The tensor at place ``k``."""

    def between(self, first: Number, count: Number) -> Family:
        """``count`` of the tensors, from ``first`` on."""


class Rule(Protocol):
    """What a statement is made of. What an operator demands of its arguments has to be proved, on both sides."""

    def number(self, name: str, least: int = 0) -> Number:
        """Any whole number from ``least`` on."""

    def suppose(self, *conditions: Any) -> None:
        """Speak only of numbers for which these hold."""

    def sections(self, name: str, count: Number, each: Number | None = None) -> Sections:
        """Sections of any sizes from 0 on, or of the size ``each``."""

    def computed(self, count: Number, size: Callable[[Number], Number], offset: Callable[[Number], Number]) -> Sections:
        """Sections of computed sizes. That ``offset`` is the sum of the sizes before is proved, by induction."""

    def choose(self, condition: Any, then: Number, other: Number) -> Number:
        """One number or the other."""

    def tensor(self, name: str, *axes: Number) -> Tensor:
        """Any tensor with these axes."""

    def family(self, name: str, count: Number, *axes: Number | Callable[[Number], Number]) -> Family:
        """Any ``count`` tensors with these axes, each a number or a function of the tensor's place."""

    def sequence(self, count: Number, member: Callable[[Number], Tensor]) -> Family:
        """``count`` tensors, each by its number."""

    def each(self, function: Callable[..., Tensor], *families: Family) -> Family:
        """``function`` of the tensors at each place."""

    def split(self, x: Tensor, dim: int, sections: Sections) -> Family:
        """The pieces of ``x`` along ``dim``."""

    def unbind(self, x: Tensor, dim: int) -> Family:
        """The slices of ``x`` along ``dim``, which they lose."""

    def cat(self, parts: Family, dim: int, sections: Sections | None = None) -> Tensor:
        """The parts one after the other along ``dim``; of the sizes ``sections``, by default those of the split."""

    def join(self, dim: int, *parts: Tensor) -> Tensor:
        """A few tensors one after the other along ``dim``."""

    def stack(self, parts: Family, dim: int) -> Tensor:
        """The parts along a new axis."""

    def narrow(self, x: Tensor, dim: int, start: Number, length: Number) -> Tensor:
        """A section of ``x``."""

    def pad(self, x: Tensor, dim: int, behind: Number) -> Tensor:
        """``x`` with so many zeros more at the end of ``dim``. Products of two of them add nothing to a sum, but for the sign of a zero."""

    def expand(self, x: Tensor, dim: int, extent: Number) -> Tensor:
        """``x`` again and again along a new axis."""

    def move(self, x: Tensor, source: int, to: int) -> Tensor:
        """``x`` with one axis taken out and put back at ``to``."""

    def unflatten(self, x: Tensor, dim: int, sections: Sections) -> Tensor:
        """One axis as two: which of the equal ``sections``, and where in it."""

    def flatten(self, x: Tensor, dim: int, sections: Sections) -> Tensor:
        """Axes ``dim`` and the next as one, of as many equal ``sections`` as the first is long."""

    def reshape(self, x: Tensor, kept: int, *axes: Number) -> Tensor:
        """``x`` with all axes but the first ``kept`` read in row-major order as ``axes``, of which there are as many elements.

        That a reshape reads what lies behind leading dimensions alike for each of their positions is a law of row-major order.
        """

    def rows(self, operator: str, x: Tensor) -> Tensor:
        """A function of each row, the elements along the last axis, that has as many elements."""

    def apply(self, operator: str, *operands: Tensor) -> Tensor:
        """An element-wise function of tensors with the same axes."""

    def contract(self, equation: str, *operands: Tensor) -> Tensor:
        """Sums of products as ``torch.einsum`` writes them, a letter for each axis."""

    def equal(self, what: str, before: Tensor | Family, after: Tensor | Family) -> None:
        """The statement: the left side may be replaced by the right side."""
