"""Symbolic tensors, dimensions that are products, and storage with views."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from verify.semantics.logic import Cond, Index, Int, Logic, Term


@dataclass(frozen=True)
class Product:
    """The extent of several dimensions flattened into one, kept apart so that no product of symbols need be formed."""

    factors: tuple[Int, ...]

    def linear(self) -> Int:
        """The extent as one number."""
        return math.prod(self.factors)

    @property
    def static(self) -> bool:
        """Whether it is made of plain numbers."""
        return all(isinstance(f, int) for f in self.factors)

    def same_factors(self, other: Product) -> bool:
        """Whether the other is made of the same factors, in any order."""
        return sorted(map(_factor_key, self.factors)) == sorted(map(_factor_key, other.factors))


def _factor_key(factor: Int) -> tuple[bool, int]:
    return (True, factor) if isinstance(factor, int) else (False, factor.get_id())


CHAIN = 64  # longest case distinction made instead of a product or quotient of symbols


@dataclass(frozen=True)
class Place:
    """A position along a dimension whose extent is the product of ``factors``: one index per factor, row-major."""

    parts: tuple[Int, ...]
    factors: tuple[Int, ...]
    logic: Logic = field(compare=False, repr=False)

    def linear(self) -> Int:
        """The position as one number. An index with a known small range is told apart by cases, which stays linear."""
        at: Int = 0
        for k, part in enumerate(self.parts):
            at = at + times(self.logic, part, self.factors[k], self.factors[k + 1 :])
        return at

    def split_off(self, count: Int) -> tuple[Int, Any] | None:
        """The position among ``count`` equal pieces, and the position inside that piece; None if it does not fall into these."""
        if len(self.factors) < 2 or not isinstance(self.factors[0], int) or self.factors[0] != count:
            return None
        rest = self.parts[1] if len(self.parts) == 2 else Place(self.parts[1:], self.factors[1:], self.logic)
        return self.parts[0], rest


def times(logic: Logic, index: Int, extent: Int, factors: tuple[Int, ...]) -> Int:
    """``index`` (below ``extent``) times the product of ``factors``."""
    step = math.prod(factors)
    if isinstance(step, int) or isinstance(index, int) or not (isinstance(extent, int) and extent <= CHAIN):
        return index * step
    found: Int = max(extent - 1, 0) * step
    for k in range(extent - 2, -1, -1):
        found = logic.ite(index == k, k * step, found)
    return found


def flattened(dims: Sequence[Any]) -> Any:
    """The extent of several dimensions as one: the factors kept apart, those of 1 left out."""
    factors = [f for d in dims for f in (d.factors if isinstance(d, Product) else (d,)) if not (isinstance(f, int) and f == 1)]
    if any(isinstance(f, int) and f == 0 for f in factors):
        return 0
    return Product(tuple(factors)) if len(factors) > 1 else factors[0] if factors else 1


def number(extent_or_index: Any) -> Int:
    """A dimension or position as one number."""
    return extent_or_index.linear() if isinstance(extent_or_index, (Product, Place)) else extent_or_index


def symbolic(given: object) -> bool:
    """Whether ``given`` is an integer of the algebra that is no plain number."""
    return isinstance(given, (Product, Place)) or hasattr(given, "get_id")


def choose(logic: Logic, condition: Cond, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """``then()`` where ``condition`` holds, else ``other()``; computes only one of them if the condition is known."""
    if isinstance(condition, bool):
        return then() if condition else other()
    return logic.ite(condition, then(), other())


def same_number(left: Any, right: Any) -> Cond:
    """Whether two dimensions are equal."""
    if isinstance(left, Product) and isinstance(right, Product) and left.same_factors(right):
        return True
    one, other = number(left), number(right)
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return True if one is other or (hasattr(one, "eq") and hasattr(other, "eq") and one.eq(other)) else one == other


class Tensor:
    """Dimensions, an element for each index, a dtype. Elements are computed once per index."""

    def __init__(self, dims: tuple[Any, ...], element: Callable[[Index], Term], dtype: torch.dtype) -> None:
        self.dims = dims
        self.dtype = dtype
        self._element = element
        self._known: dict[Any, Term] = {}

    def __getitem__(self, index: Index) -> Term:
        key = tuple(map(_key, index))
        if key not in self._known:
            self._known[key] = (self._element(index), index)
        return self._known[key][0]

    def map(self, dims: tuple[Any, ...], index: Callable[[Index], Index]) -> Tensor:
        """The tensor that reads this one at ``index(i)``."""
        return Tensor(dims, lambda i: self[index(i)], self.dtype)


def _key(index: Any) -> Any:
    if isinstance(index, Place):
        return ("place", *map(_key, index.parts), *map(_key, index.factors))
    return index if isinstance(index, int) else ("term", index.get_id())


class Storage(ABC):
    """What a tensor value refers to: memory of its own, or a view of another value."""

    @abstractmethod
    def read(self) -> Tensor:
        """The present contents."""

    @abstractmethod
    def write(self, new: Tensor) -> None:
        """Replace the contents, here and in everything that shares them."""

    @abstractmethod
    def root(self) -> Memory:
        """The memory at the bottom."""


class Memory(Storage):
    """Memory of its own.

    ``owner`` is the same for inputs that share memory. ``sealed``: why a write to it has no meaning here, if it has none.
    """

    def __init__(self, contents: Tensor) -> None:
        self.contents = contents
        self.owner: object = self
        self.sealed = ""

    def read(self) -> Tensor:
        """See :class:`Storage`."""
        return self.contents

    def write(self, new: Tensor) -> None:
        """See :class:`Storage`."""
        if self.sealed:
            raise UnmodelledError(f"a write to {self.sealed}")
        self.contents = new

    def root(self) -> Memory:
        """See :class:`Storage`."""
        return self


class View(Storage):
    """A view: ``forward`` cuts it out of the contents of ``base``, ``backward`` puts new contents back into them."""

    def __init__(self, base: Storage, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor], Tensor] | None) -> None:
        self.base = base
        self.forward = forward
        self.backward = backward
        self._read: tuple[Tensor, Tensor] | None = None

    def read(self) -> Tensor:
        """See :class:`Storage`."""
        below = self.base.read()
        if self._read is None or self._read[0] is not below:
            self._read = (below, self.forward(below))
        return self._read[1]

    def write(self, new: Tensor) -> None:
        """See :class:`Storage`."""
        if self.backward is None:
            raise UnmodelledError("a write through a view that overlaps itself")
        self.base.write(self.backward(self.base.read(), new))

    def root(self) -> Memory:
        """See :class:`Storage`."""
        return self.base.root()


class UnmodelledError(Exception):
    """An operator, or a way of using one, that has no semantics here."""


class RaisesError(Exception):
    """An operator that raises whatever the sizes are."""


def broadcast(logic: Logic, tensor: Tensor, dims: tuple[Any, ...]) -> Tensor:
    """``tensor`` as seen through ``dims``, which it broadcasts to."""
    lead = len(dims) - len(tensor.dims)
    stretched = [_is_one(logic, own, wanted) for own, wanted in zip(tensor.dims, dims[lead:], strict=True)]
    if not lead and not any(s is not False for s in stretched):
        return tensor

    def index(i: Index) -> Index:
        own = i[lead:]
        return tuple(0 if s is True else a if s is False else logic.ite(s, 0, number(a)) for s, a in zip(stretched, own, strict=True))

    return tensor.map(dims, index)


def _is_one(logic: Logic, own: Any, wanted: Any) -> Cond:
    """True: always index 0. False: never needs it. Otherwise the condition."""
    if logic.decide(same_number(own, wanted)) is True and not (isinstance(own, int) and own == 1):
        return False
    one = same_number(own, 1)
    found = logic.decide(one)
    return one if found is None else found


def broadcast_dims(logic: Logic, shapes: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], list[Cond]]:
    """The common shape of ``shapes``, and what must hold for them to have one."""
    rank = max(map(len, shapes), default=0)
    dims: list[Any] = []
    needed: list[Cond] = []
    for d in range(rank):
        extents = [s[d - rank + len(s)] for s in shapes if d - rank + len(s) >= 0]
        wide = extents[0]
        for extent in extents[1:]:
            if logic.decide(same_number(wide, extent)) is True:
                continue
            one, other = logic.decide(same_number(wide, 1)), logic.decide(same_number(extent, 1))
            if one is True:
                wide = extent
            elif other is not True:
                needed.append(logic.any_of(same_number(wide, extent), same_number(wide, 1), same_number(extent, 1)))
                wide = wide if one is False else logic.ite(same_number(wide, 1), number(extent), number(wide))
        dims.append(wide)
    return tuple(dims), needed
