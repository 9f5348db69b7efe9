"""The table of operator meanings: canonical name to a function from arguments to results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from optimus.operators import Call
from verify.semantics.logic import Cond, Int, Logic, Symbol
from verify.semantics.tensor import Memory, RaisesError, Storage, Tensor, UnmodelledError, broadcast, same_number, symbolic

PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def literal(given: object) -> str:
    """A constant argument as text that tells it from every other constant."""
    if isinstance(given, (list, tuple)):
        return "(" + "".join(f"{literal(g)}, " for g in given) + ")"
    if isinstance(given, PLAIN):
        return repr(given)
    raise UnmodelledError(f"an argument of type {type(given).__name__}")


@dataclass
class Use:
    """One use of an operator: its call with symbolic arguments, what PyTorch says of the result, and the algebra.

    ``results``: (dims, dtype, whether it aliases an argument) of each tensor result by the graph's metadata; ``several``:
    whether they come as a sequence. ``mode``: the ambient mode as far as it differs from that at the entry of the graph.
    ``required``: filled with what must hold for the operator not to raise.
    """

    call: Call
    args: dict[str, Any]
    logic: Logic
    results: tuple[tuple[tuple[Any, ...], torch.dtype, bool], ...] = ()
    mode: str = ""
    several: bool = False
    required: list[Cond] = field(default_factory=list)

    def tensor(self, name: str) -> Tensor:
        """The present contents of a tensor argument."""
        return self.storage(name).read()

    def storage(self, name: str) -> Storage:
        """A tensor argument as storage."""
        given = self.args[name]
        if not isinstance(given, Storage):
            raise UnmodelledError(f"{self.call.op} with {name} that is no tensor")
        return given

    def storages(self, name: str) -> list[Storage]:
        """An argument that is a list of tensors."""
        given = self.args[name]
        if not isinstance(given, (list, tuple)) or not all(isinstance(g, Storage) for g in given):
            raise UnmodelledError(f"{self.call.op} with {name} that is no list of tensors")
        return list(given)

    def integer(self, given: Any) -> Int:
        """An argument, or an entry of one, that must be an integer."""
        if not (symbolic(given) or (isinstance(given, int) and not isinstance(given, bool))):
            raise UnmodelledError(f"{self.call.op} with a {type(given).__name__} for a number")
        return given

    def shape(self, name: str) -> list[Any]:
        """An argument that is a list of extents, which may stand in a list of its own."""
        given = self.args.get(name)
        if isinstance(given, (list, tuple)) and len(given) == 1 and isinstance(given[0], (list, tuple)):
            given = given[0]
        if not isinstance(given, (list, tuple)):
            raise UnmodelledError(f"{self.call.op} without a list of extents")
        return [self.integer(g) for g in given]

    def dim(self, given: Any, rank: int) -> int:
        """A dimension counted from the front; requires it to be in range. A scalar counts as having one."""
        if not isinstance(given, int):
            raise UnmodelledError(f"{self.call.op} with a symbolic dimension number")
        rank = max(rank, 1)
        self.demand(-rank <= given < rank)
        return given % rank

    def demand(self, condition: Cond) -> None:
        """Require ``condition`` for the operator to be defined. Raises :class:`RaisesError` if it is false outright."""
        if condition is False:
            raise RaisesError(self.call.op)
        if condition is not True:
            self.required.append(condition)

    def same(self, left: Any, right: Any) -> None:
        """Require two extents to be equal."""
        self.demand(same_number(left, right))

    def same_dims(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
        """Require two shapes to be equal."""
        self.demand(len(left) == len(right))
        for one, other in zip(left, right, strict=True):
            self.same(one, other)

    def fitted(self, tensor: Tensor, dims: tuple[Any, ...]) -> Tensor:
        """``tensor`` broadcast to ``dims``; requires that it can be."""
        self.demand(len(tensor.dims) <= len(dims))
        for own, wanted in zip(reversed(tensor.dims), reversed(dims), strict=False):
            self.demand(self.logic.any_of(same_number(own, wanted), same_number(own, 1)))
        return broadcast(self.logic, tensor, dims)

    def symbol(self, op: str, *dtypes: torch.dtype, literals: Mapping[str, str] | None = None, result: torch.dtype | None = None) -> Symbol:
        """An uninterpreted function under the ambient mode of this use. ``literals`` by name, as :func:`literal` writes them."""
        return Symbol(op, tuple(map(_name, dtypes)), tuple((literals or {}).items()), self.mode, "" if result is None else _name(result))

    def cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """``tensor`` in another dtype."""
        if tensor.dtype == dtype:
            return tensor
        symbol = self.symbol("cast", tensor.dtype, result=dtype)
        return Tensor(tensor.dims, lambda i: self.logic.apply(symbol, tensor[i]), dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the result, by PyTorch's rules."""
        return self._result()[1]

    @property
    def dims(self) -> tuple[Int, ...]:
        """The dimensions of the result, by PyTorch's rules."""
        return self._result()[0]

    @property
    def aliases(self) -> bool:
        """Whether the result shares the storage of an argument, by PyTorch's rules."""
        return self._result()[2]

    def _result(self) -> tuple[tuple[Any, ...], torch.dtype, bool]:
        if not self.results:
            raise UnmodelledError(f"{self.call.op} without metadata")
        return self.results[0]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


Meaning = Callable[[Use], Any]
"""Returns a :class:`Tensor` (a new one), a :class:`Storage` (a view), a list of them, or a plain value."""

TABLE: dict[str, Meaning] = {}


def means(*names: str) -> Callable[[Meaning], Meaning]:
    """Register the meaning of the operators called ``names``."""

    def keep(meaning: Meaning) -> Meaning:
        for name in names:
            if name in TABLE:
                raise ValueError(f"operator {name!r} has two meanings")
            TABLE[name] = meaning
        return meaning

    return keep


def stored(found: Any) -> Any:
    """A result as the evaluator keeps it: new tensors get memory of their own."""
    if isinstance(found, Tensor):
        return Memory(found)
    if isinstance(found, (list, tuple)):
        return type(found)(stored(f) for f in found)
    return found
