"""What kind of fault a difference is, so that a smaller program can be told to have the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from verify.compare import Run, compared, differences, observe, reproducible

KINDS = {
    "dtype": "dtype",
    "device": "device",
    "shape": "shape",
    "strides": "strides",
    "requires_grad": "requires_grad",
    "memory shared": "memory",
    "None became": "no gradient",
    "a tensor became": "no gradient",
}


@dataclass(frozen=True)
class Fault:
    """A fault of a rewritten program.

    ``where``: ``call``, ``backward``, ``output``, ``input`` (after the call) or ``gradient``; ``index``: which of them.
    ``kind``: ``raises NAME``, ``count``, one of ``KINDS``, ``NaN``, ``infinity``, ``zero`` (its sign), or ``value``.
    ``magnitude``: of a value, the power of ten of the largest error, relative to the largest element. ``line``: in words.
    """

    where: str
    index: int
    kind: str
    magnitude: int | None
    line: str

    def same_kind(self, other: Fault) -> bool:
        """Whether ``other`` is of this kind, at a place of this sort."""
        return (self.where, self.kind) == (other.where, other.kind)

    def same(self, other: Fault) -> bool:
        """Whether ``other`` is the same fault: at the same place, of the same kind and class of magnitude (a power of ten up or down)."""
        near = self.magnitude is None or other.magnitude is None or abs(self.magnitude - other.magnitude) <= 1
        return self.same_kind(other) and self.index == other.index and near

    @property
    def rank(self) -> int:
        """How telling it is, from 0: a wrong shape says more than the wrong values that follow from it."""
        order = [*dict.fromkeys(KINDS.values()), "infinity", "NaN", "value", "zero"]
        return order.index(self.kind) + 1 if self.kind in order else 0


def faults(
    before: Callable[..., Any], after: Callable[..., Any], make_inputs: Callable[[], Sequence[Any]], *, bitwise: bool, seed: int = 0
) -> list[Fault]:
    """The faults of ``after`` as against ``before``; see :func:`verify.compare.compare`.

    Where outputs differ that are to have the same bits, no reference is computed, and gradients are left out.
    """
    one, other = observe(before, make_inputs(), seed=seed), observe(after, make_inputs(), seed=seed)
    lines = [d for d in differences(one, other, bitwise=True) if not d.startswith("gradient")]
    if not (bitwise and lines and reproducible(before, make_inputs, one, seed)):
        lines, one, other = compared(before, after, make_inputs, bitwise=bitwise, seed=seed)
    return [classified(line, one, other) for line in lines]


def classified(line: str, before: Run, after: Run) -> Fault:
    """The fault that a line of :func:`verify.compare.differences` speaks of."""
    place, _, text = line.partition(": ")
    if place in ("raises", "the backward pass raises") or place.startswith("the backward pass raises"):
        where = "call" if place == "raises" else "backward"
        raised = text.partition(" became ")[2] or line
        return Fault(where, 0, "raises " + raised.partition(":")[0] if where == "call" else "raises", None, line)
    words = place.split()
    if words[0] not in ("output", "gradient", "input"):
        return Fault("call", 0, "count", None, line)
    where, index = words[0], int(words[1])
    for start, kind in KINDS.items():
        if text.startswith(start):
            return Fault(where, index, kind, None, line)
    one, other = ({"output": r.outputs, "gradient": r.gradients, "input": r.inputs_after}[where][index] for r in (before, after))
    kind, magnitude = _of_values(one, other)
    return Fault(where, index, kind, magnitude, line)


def _of_values(one: Any, other: Any) -> tuple[str, int | None]:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return "value", None
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    one, other = one.double(), other.double()
    if bool((torch.isnan(one) != torch.isnan(other)).any()):
        return "NaN", None
    if bool((torch.isinf(one) != torch.isinf(other)).any()):
        return "infinity", None
    error = float(torch.nan_to_num((one - other).abs(), nan=0.0, posinf=0.0).max())
    scale = float(torch.nan_to_num(one.abs(), nan=0.0, posinf=0.0).max()) or 1.0
    return ("zero", None) if error == 0 else ("value", math.floor(math.log10(error / scale)))
