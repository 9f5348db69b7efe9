"""What rounding does to a program: its inputs, and every value inside, off by a rounding at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def nudged(wide: torch.Tensor, narrow: torch.dtype, generator: torch.Generator, roundings: float = 1.0) -> torch.Tensor:
    """``wide`` with each element off by at most so many times the relative precision of ``narrow``.

    Integers stay, unless ``narrow`` does not hold all integers of that size: as a number of a row, a count or a mask they are
    exact, and one that moved would read another row, which would excuse any result.
    """
    step, limit = roundings * torch.finfo(narrow).eps, 1 / torch.finfo(narrow).eps
    draw = torch.rand(wide.shape, generator=generator, dtype=torch.float32).to(wide.device)
    exact = (wide == wide.round()) & (wide.abs() < limit)
    return torch.where(exact, wide, wide * (1 + step * (2 * draw.double() - 1)))


class RandomRounding(TorchDispatchMode):
    """Rounds what each operator of a float64 program computes to ``narrow``, up or down at random.

    So a sum of which nothing is left, because its terms cancel whatever the inputs are, moves by what its terms are rounded
    by. What ``narrow`` holds exactly does not move: constants, masks, and copies of what was rounded before.
    """

    supports_higher_order_operators = True

    def __init__(self, narrow: torch.dtype, generator: torch.Generator) -> None:
        super().__init__()
        self.narrow, self.generator = narrow, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run ``func``, and round what is new in its result."""
        found = func(*args, **(kwargs or {}))
        if not isinstance(func, torch._ops.OpOverload):
            return found
        returns = func._schema.returns
        several = isinstance(found, (tuple, list)) and len(returns) == len(found) != 1
        done = [self._returned(r, f) for r, f in zip(returns, found if several else [found], strict=True)] if returns else []
        return type(found)(done) if several else (done[0] if done else found)

    def _returned(self, kind: Any, found: Any) -> Any:
        if kind.alias_info is None:
            return pytree.tree_map_only(torch.Tensor, self.rounded, found)
        if kind.alias_info.is_write:  # what was written to is rounded in place; a view has been rounded before
            pytree.tree_map_only(torch.Tensor, lambda t: t.copy_(self.rounded(t)), found)
        return found

    def rounded(self, wide: torch.Tensor) -> torch.Tensor:
        """``wide`` where ``narrow`` holds it or overflows; elsewhere a number of ``narrow`` at most 1.5 of its steps away."""
        if wide.dtype is not torch.float64 or self.narrow is torch.float64 or wide.layout is not torch.strided:
            return wide
        off = wide.to(self.narrow).double() != wide
        some = wide[off]
        if not some.numel():
            return wide
        near = nudged(some, self.narrow, self.generator, 0.5).to(self.narrow).double()
        return wide.masked_scatter(off, torch.where(torch.isfinite(near), near, some))
