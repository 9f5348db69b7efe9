"""How far runs of one and the same thing lie apart: what a thing does not do the same way twice, nobody is to be blamed for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from verify.compare import allowance, differing_bits
from verify.observing import Run
from verify.reference import Reference


def places(run: Run) -> dict[str, Any]:
    """Each value of a run, by the name that its differences are reported with."""
    kinds = (("output {}", run.outputs), ("input {} after the call", run.inputs_after), ("gradient {}", run.gradients))
    return {name.format(k): value for name, values in kinds for k, value in enumerate(values)}


def place_of(difference: str) -> str:
    """The place of a difference of elements, as it is reported; nothing for any other difference."""
    found = re.match(r"(.*): \d+ of \d+ elements", difference)
    return found[1] if found else ""


def _exact(reference: Reference, place: str) -> tuple[Any, Any]:
    """The float64 value of a place, and its noise."""
    kind, number, *_ = place.split()
    values, noise = {
        "output": (reference.outputs, reference.output_noise),
        "input": (reference.inputs, reference.input_noise),
        "gradient": (reference.gradients, reference.gradient_noise),
    }[kind]
    return values[int(number)], noise[int(number)]


@dataclass(frozen=True)
class Spread:
    """The distance between the lowest and the highest of several runs, element by element, of the places where bits differ.

    What is finite in one run and not in another is infinitely far apart. ``others``: places with other shapes, dtypes or plain values.
    """

    of: Mapping[str, torch.Tensor]
    others: tuple[str, ...] = ()

    @classmethod
    def between(cls, runs: Sequence[Run]) -> Spread:
        """That of ``runs`` of one thing on equal inputs; of fewer than two nothing is known, and nothing lies apart."""
        first, *rest = map(places, runs)
        found, others = {}, []
        for place, one in first.items():
            values: list[Any] = [r.get(place) for r in rest]
            if not isinstance(one, torch.Tensor):
                others += [place] if any(type(v) is not type(one) or v != one for v in values) else []
            elif any(not isinstance(v, torch.Tensor) or v.dtype != one.dtype or v.shape != one.shape for v in values):
                others.append(place)
            elif any(bool(differing_bits(one, v).any()) for v in values):
                found[place] = _apart([one, *values])
        return cls(found, tuple(others))

    def __len__(self) -> int:
        return len(self.of) + len(self.others)

    def explains(self, place: str, eager: Run, run: Run, reference: Reference) -> bool:
        """Whether ``run`` is nowhere in ``place`` further off than is allowed by more than these runs lie apart among themselves.

        An element may lie as far beyond what is allowed as the runs lie apart there, or at any element that is allowed no more
        than it. Infinite distances explain nothing.
        """
        one, other, spread = places(eager).get(place), places(run).get(place), self.of.get(place)
        if spread is None or not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.shape != other.shape:
            return False
        exact, noise = _exact(reference, place)
        if noise is None or not one.is_floating_point():
            return False
        allowed = allowance(one, exact, noise).flatten()
        excess = ((other.double() - exact).abs().flatten() - allowed).clamp(min=0)
        excess = torch.where(differing_bits(one, other).flatten(), excess, 0.0)
        order = allowed.argsort(stable=True)
        reach = torch.where(torch.isfinite(spread), spread, 0.0).flatten()[order].cummax(0).values
        return bool((excess[order] <= reach).all())  # NaN is not within anything

    def worst(self, eager: Run, reference: Reference) -> float:
        """The largest distance, as a part of what is allowed there. Infinite where that is not known."""
        found = [float("inf")] if self.others else [0.0]
        for place, spread in self.of.items():
            exact, noise = _exact(reference, place)
            one = places(eager).get(place)
            if noise is None or not isinstance(one, torch.Tensor) or one.shape != spread.shape:
                found.append(float("inf"))
                continue
            part = spread / allowance(one, exact, noise)
            found.append(float(torch.nan_to_num(part, nan=float("inf")).max()))
        return max(found)


def _apart(values: Sequence[torch.Tensor]) -> torch.Tensor:
    if values[0].is_complex():
        return _apart([torch.view_as_real(v) for v in values]).amax(-1)
    wide = torch.stack([v.double() for v in values])
    same = ((wide == wide[:1]) | (torch.isnan(wide) & torch.isnan(wide[:1]))).all(0)
    lies = torch.nan_to_num(wide.amax(0) - wide.amin(0), nan=float("inf"), posinf=float("inf"))
    return torch.where(same, 0.0, lies)
