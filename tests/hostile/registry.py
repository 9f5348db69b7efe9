"""How a hostile program is written down.

A program is a function of tensors, or a factory of a module. ``kind`` names what goes wrong in a rewrite that is not
careful; it is the name of the decorator that the programs of this kind carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

PROGRAMS: dict[str, Hostile] = {}


@dataclass(frozen=True)
class Hostile:
    """One program and the ways in which it is run.

    ``grad``: floating-point inputs require gradients (those that the builder made so do in any case).
    ``exact``: a float64 run is no reference (random draws, sizes taken from values), so bits must agree.
    ``capture``: sizes that depend on values are symbols, where they would break the graph otherwise.
    ``around``: the mode in which the program is called. ``refused``: eager raises.
    ``fires``: patterns that must apply, so that the program tests what it is meant to.
    ``other``: inputs of other sizes for a second call.
    """

    name: str
    kind: str
    body: Callable[..., Any]
    inputs: Callable[[], Sequence[Any]]
    module: bool = False
    grad: bool = True
    dynamic: bool = True
    inference: bool = True
    bare: bool = False
    exact: bool = False
    capture: bool = False
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    refused: bool = False
    inductor: bool = False
    fires: tuple[str, ...] = ()
    other: Callable[[], Sequence[Any]] | None = None

    @property
    def ways(self) -> tuple[str, ...]:
        """``plain``; ``inference``: no gradients at all; ``dynamic``: symbolic sizes; ``bare``: without ``normalization_pass`` in front.

        ``backwards``: the plan from its end, for programs that several vertical patterns could rewrite.
        """
        chosen = {"plain": True, "inference": self.grad and self.inference, "dynamic": self.dynamic, "bare": self.bare}
        chosen["backwards"] = self.name.partition("/")[0] in ("mutation", "sections", "split_cat", "stack_unbind")
        return tuple(way for way, wanted in chosen.items() if wanted)

    def build(self) -> Callable[..., Any]:
        """The function, or a new module with the same parameters every time."""
        torch.manual_seed(1)
        return self.body() if self.module else self.body

    def make_inputs(self, way: str = "plain", *, resized: bool = False) -> tuple[Any, ...]:
        """New inputs, the same every time."""
        torch.manual_seed(0)
        chosen = self.other if resized and self.other is not None else self.inputs
        made = tuple(chosen())
        for given in made:
            if (
                self.grad
                and way != "inference"
                and isinstance(given, torch.Tensor)
                and given.is_floating_point()
                and given.is_leaf
                and not given._is_view()
            ):
                given.requires_grad_()
        return made


def kind(what: str, **defaults: Any) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """The decorator for programs of one kind: ``@decorator(inputs, **options)``, options as in :class:`Hostile`."""

    def decorator(inputs: Callable[[], Sequence[Any]], **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(body: Callable[..., Any]) -> Callable[..., Any]:
            place = body.__module__.rpartition(".")[2]
            name = f"{place}/{body.__name__}"
            assert name not in PROGRAMS, f"two programs are called {name}"
            PROGRAMS[name] = Hostile(name, what, body, inputs, **{**defaults, **options})
            return body

        return register

    return decorator


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal draws."""
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def many(count: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Several tensors of normal draws."""
    return [randn(*shape, dtype=dtype) for _ in range(count)]


def ints(*shape: int, dtype: torch.dtype = torch.int64, low: int = -9, high: int = 10) -> torch.Tensor:
    """Whole numbers from ``low`` to ``high - 1``."""
    return torch.randint(low, high, shape).to(dtype)


def trained(given: torch.Tensor) -> torch.Tensor:
    """``given``, requiring gradients, for programs in which not all inputs do."""
    return given.requires_grad_()
