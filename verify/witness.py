"""Real inputs for a counterexample, and what eager shows on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from optimus.values import storages, value
from verify.compare import judged, observe

DRAWS = ("ordinary", *["small", "exact", "zeros"] * 6)
"""Ways to draw inputs, in turn. ``ordinary``: normal numbers, integers of both signs. ``small``: integers 0 and 1, which index
anything. ``exact``: numbers on which arithmetic hardly rounds, with zeros of both signs, infinities and NaN. ``zeros``: mostly
-0.0. None overflows by itself: where a sum or product is reordered, that it overflows sooner is a matter of rounding."""

FEW = ("ordinary", "small", "exact", "zeros")
"""For a first try."""

EXACT = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("-inf"), float("nan"))
CHOICES = {"exact": EXACT, "zeros": (-0.0, -0.0, -0.0, 0.0)}


def witness(
    before: GraphModule,
    after: GraphModule,
    sizes: Mapping[str, int],
    private: frozenset[int],
    signed_zeros: bool,
    draws: Sequence[str] = DRAWS,
    grad: bool = True,
) -> tuple[list[Any], list[str]]:
    """Inputs of the given sizes on which the graphs differ, and how they do; no lines if none were found.

    ``private``: see :class:`optimus.regions.Region`. ``signed_zeros``: whether -0.0 for 0.0 counts. ``draws``: how to draw
    inputs, in turn. ``grad``: whether gradients are recorded at the entry.
    """
    placeholders = list(before.graph.find_nodes(op="placeholder"))
    inputs: list[Any] = []
    if _share_memory(placeholders):
        return inputs, []
    for seed, draw in enumerate(draws):
        inputs = real_inputs(placeholders, sizes, draw, seed)
        seen = replay(before, after, inputs, private, signed_zeros, grad)
        if seen:
            return inputs, seen
    return inputs, []


def _share_memory(placeholders: Sequence[Node]) -> bool:
    """Whether some inputs are views of one another; inputs drawn apart would be no witness."""
    owned = [s for node in placeholders for s in storages(node)]
    return len(set(owned)) != len(owned)


def real_inputs(placeholders: Sequence[Node], sizes: Mapping[str, int], draw: str = "ordinary", seed: int = 0) -> list[Any]:
    """Random inputs for placeholders with metadata, their symbols having the values ``sizes``.

    Raises ``KeyError`` if a symbol of a shape has none.
    """
    generator = torch.Generator().manual_seed(seed)
    known = {sympy.Symbol(name): number for name, number in sizes.items()}

    def plain(size: Any) -> int:
        if isinstance(size, int):
            return size
        expression = size.node.expr
        return int(expression.xreplace({s: known[sympy.Symbol(str(s))] for s in expression.free_symbols}))

    return [_input(value(node), plain, draw, generator) for node in placeholders]


def _input(fake: Any, plain: Callable[[Any], int], draw: str, generator: torch.Generator) -> Any:
    if isinstance(fake, (tuple, list)):
        return tuple(map(plain, fake))
    if not isinstance(fake, torch.Tensor):
        return plain(fake)
    shape = [plain(s) for s in fake.shape]
    try:
        strides: list[int] | None = [plain(s) for s in fake.stride()]
    except KeyError:  # a stride may have a symbol of its own
        strides = None
    return _laid_out(_values(shape, fake.dtype, draw, generator), strides).requires_grad_(fake.requires_grad)


def _values(shape: list[int], dtype: torch.dtype, draw: str, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        low, high = (-3, 4) if draw == "ordinary" and dtype is not torch.uint8 else (0, 2)
        return torch.randint(low, high, shape, generator=generator).to(dtype)
    if draw in CHOICES:
        choice = CHOICES[draw]
        return torch.tensor(choice)[torch.randint(0, len(choice), shape, generator=generator)].to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)


def _laid_out(values: torch.Tensor, strides: list[int] | None) -> torch.Tensor:
    """The values with the given strides; along a stride of 0 the first of them is repeated."""
    if strides is None:
        return values
    once = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)]
    return torch.empty_strided(once.shape, strides, dtype=values.dtype).copy_(once).as_strided(values.shape, strides)


def replay(
    before: GraphModule,
    after: GraphModule,
    inputs: Sequence[Any],
    private: frozenset[int] = frozenset(),
    signed_zeros: bool = False,
    grad: bool = True,
) -> list[str]:
    """Run both graphs on copies of ``inputs`` and list what differs, values up to reassociation."""
    left, right = _entered(before, grad), _entered(after, grad)
    one, other = observe(left, _copies(inputs)), observe(right, _copies(inputs))
    return judged(left, lambda: _copies(inputs), one, other, bitwise=False, private=private, signed_zeros=signed_zeros)


def _entered(gm: GraphModule, grad: bool) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        with torch.set_grad_enabled(grad):
            return gm.forward(*inputs)

    return run


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [_copy(i) if isinstance(i, torch.Tensor) else i for i in inputs]


def _copy(given: torch.Tensor) -> torch.Tensor:
    return _laid_out(given.detach(), list(given.stride())).requires_grad_(given.requires_grad)
