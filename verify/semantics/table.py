"""The table of operator meanings: canonical name to a function from arguments to results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from optimus.operators import Call
from verify.semantics.logic import Cond, Int, Logic, Symbol
from verify.semantics.tensor import Memory, Storage, Tensor, UnmodelledError


@dataclass
class Use:
    """One use of an operator: its call with symbolic arguments, what PyTorch says of the result, and the algebra.

    ``results``: (dims, dtype, whether it aliases an argument) of each tensor result by the graph's metadata; ``several``:
    whether they come as a sequence. ``mode``: the ambient mode, empty at the entry of the graph. ``required``: filled with what must hold for the operator not to raise.
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
        given = self.args[name]
        if not isinstance(given, Storage):
            raise UnmodelledError(f"{self.call.op} with {name} that is no tensor")
        return given.read()

    def storage(self, name: str) -> Storage:
        """A tensor argument as storage."""
        given = self.args[name]
        if not isinstance(given, Storage):
            raise UnmodelledError(f"{self.call.op} with {name} that is no tensor")
        return given

    def dim(self, given: Any, rank: int) -> int:
        """A dimension counted from the front; requires it to be in range."""
        if not isinstance(given, int):
            raise UnmodelledError(f"{self.call.op} with a symbolic dimension number")
        rank = max(rank, 1)
        if not -rank <= given < rank:
            self.demand(False)
            return 0
        return given % rank

    def demand(self, condition: Cond) -> None:
        """Require ``condition`` for the operator to be defined."""
        if condition is not True:
            self.required.append(condition)

    def symbol(self, op: str, *dtypes: torch.dtype, literals: Mapping[str, Any] | None = None) -> Symbol:
        """An uninterpreted function under the ambient mode of this use."""
        names = tuple(str(d).removeprefix("torch.") for d in dtypes)
        return Symbol(op, names, tuple((k, repr(v)) for k, v in (literals or {}).items()), self.mode)

    def cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """``tensor`` in another dtype."""
        if tensor.dtype == dtype:
            return tensor
        symbol = self.symbol("cast", tensor.dtype, dtype)
        return Tensor(tensor.dims, lambda i: self.logic.apply(symbol, tensor[i]), dtype)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the result, by PyTorch's rules."""
        if not self.results:
            raise UnmodelledError(f"{self.call.op} without metadata")
        return self.results[0][1]

    @property
    def dims(self) -> tuple[Int, ...]:
        """The dimensions of the result, by PyTorch's rules."""
        if not self.results:
            raise UnmodelledError(f"{self.call.op} without metadata")
        return self.results[0][0]

    @property
    def aliases(self) -> bool:
        """Whether the result shares the storage of an argument, by PyTorch's rules."""
        return bool(self.results) and self.results[0][2]


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
