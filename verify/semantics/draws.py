"""What an operator draws from the random number generator: all that decides which numbers later draws get, and where these lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.node import map_arg

from optimus.values import value
from verify.semantics.table import Use, literal
from verify.semantics.tensor import Storage, Tensor, symbolic


@dataclass(frozen=True)
class Draw:
    """One use of a random operator.

    ``what``: the operator, its plain arguments, and dtypes, ranks and devices. ``sizes``: the whole numbers among its arguments
    and the extents of its results. ``operands``: the tensors it reads, on whose values the number of draws may depend;
    ``fakes``: their metadata, since numbers are drawn in the order of memory.
    """

    what: str
    sizes: tuple[Any, ...]
    operands: tuple[Tensor, ...]
    fakes: tuple[torch.Tensor, ...]


def drawn(use: Use) -> Draw:
    """The draw that ``use`` is."""
    sizes: list[Any] = []
    operands: list[Tensor] = []
    fakes: list[torch.Tensor] = []

    def text(given: Any) -> str:
        if isinstance(given, Storage):
            operands.append(given.read())
            return f"#{operands[-1].dtype}:{len(operands[-1].dims)}"
        if isinstance(given, (list, tuple)):
            return "(" + "".join(f"{text(g)}, " for g in given) + ")"
        if symbolic(given) or type(given) is int:
            sizes.append(given)
            return "%"
        return literal(given)

    told = [f"{name}={text(given)}" for name, given in use.args.items() if given is not None]
    for name in use.args:
        map_arg(use.call.args[name], lambda n: fakes.append(value(n)) if isinstance(value(n), torch.Tensor) else None)
    results = [f"{dtype}:{len(dims)}" for dims, dtype, _ in use.results]
    sizes += [extent for dims, _, _ in use.results for extent in dims]
    places = [str(f.device) for f in fakes]
    what = f"{use.call.op}({', '.join([*told, *places])}) -> {', '.join(results)}" + (f" under {use.mode}" if use.mode else "")
    return Draw(what, tuple(sizes), tuple(operands), tuple(fakes))
