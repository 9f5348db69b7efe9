"""What can be observed of a run of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from optimus.modes import modes_restored

USERS = (Exception, SystemExit, GeneratorExit)
"""What code of a user may raise: all but Ctrl-C."""


@dataclass
class Run:
    """Everything about one run that anybody could observe."""

    outputs: list[Any]
    strides: list[tuple[int, ...]]
    requires_grad: list[bool]
    shared: list[str]
    inputs_after: list[torch.Tensor]
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    raised: str | None = None
    backward_raised: str | None = None


def observe(
    program: Callable[..., Any], inputs: Sequence[Any], *, gradients: bool = True, cotangents: list[torch.Tensor] | None = None, seed: int = 0
) -> Run:
    """Run ``program(*inputs)`` and write down what can be observed.

    Gradients are those of all floating-point inputs that require them, for random cotangents of the dtypes and shapes of
    the outputs (or the ones given). What the program raises is part of the observation.
    """
    _seed(seed)
    try:
        with modes_restored():
            result = program(*inputs)
    except USERS as error:
        return Run([], [], [], [], [], [], f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    outputs = pytree.tree_leaves(result)
    tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
    found = Run(
        [o.detach().clone() if isinstance(o, torch.Tensor) else o for o in outputs],
        [o.stride() for o in tensors],
        [o.requires_grad for o in tensors],
        _shared(tensors, [i for i in inputs if isinstance(i, torch.Tensor)]),
        [i.detach().clone() for i in inputs if isinstance(i, torch.Tensor)],
    )
    if gradients:
        try:
            found.gradients = _gradients(tensors, inputs, cotangents, seed)
        except RuntimeError as error:
            found.backward_raised = str(error).splitlines()[0]
    return found


def _seed(seed: int) -> None:
    """``torch.manual_seed``, which notes for devices that may come to be used, each time with the whole stack; without any there is nothing to note."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def cotangents_like(outputs: Sequence[Any], seed: int = 0) -> list[torch.Tensor]:
    """Random cotangents for the floating-point tensors among ``outputs``."""
    generator = torch.Generator().manual_seed(seed + 1)
    floats = [o for o in outputs if isinstance(o, torch.Tensor) and o.is_floating_point()]
    return [torch.randn(o.shape, generator=generator).to(device=o.device, dtype=o.dtype) for o in floats]


def _gradients(outputs: Sequence[torch.Tensor], inputs: Sequence[Any], cotangents: list[torch.Tensor] | None, seed: int) -> list[torch.Tensor | None]:
    wanted = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
    floats = [o for o in outputs if o.is_floating_point()]
    given = cotangents_like(floats, seed) if cotangents is None else cotangents
    heads = [(o, c) for o, c in zip(floats, given, strict=True) if o.requires_grad]
    if not wanted or not heads:
        return [None] * len(wanted)
    return list(torch.autograd.grad([o for o, _ in heads], wanted, [c.to(o.dtype) for o, c in heads], allow_unused=True))


def _shared(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[str]:
    """For each output the inputs and earlier outputs that it shares memory with."""
    found = []
    for k, o in enumerate(outputs):
        with_inputs = [f"input {j}" for j, i in enumerate(inputs) if _overlap(o, i)]
        with_outputs = [f"output {j}" for j in range(k) if _overlap(o, outputs[j])]
        found.append(", ".join(with_inputs + with_outputs))
    return found


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.numel() or not other.numel():
        return False
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())
