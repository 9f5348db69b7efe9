"""What is exact, and how far rounding moves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from verify.observing import Run, cotangents_like, observe
from verify.rounding import RandomRounding, nudged

STAGES = ((3, False), (3, True), (12, True))
"""How often the inputs are moved to see what rounding does, and whether values inside are rounded at random, too: at first, and
before a difference is reported. The largest of three draws of a sum that cancels can be far below what its terms are rounded by."""

PLAUSIBLE = 0.05
"""A float64 run further from eager than this part of the largest element computes something else, and is no reference."""


@dataclass(frozen=True)
class Reference:
    """What is exact, and how far rounding moves it, element by element; ``inputs``: of the inputs after the call.

    ``by``: ``float64``, the same program in float64; or ``eager``, where that computes something else (it draws other random
    numbers, or does not overflow): the run itself, whose own error is then in the noise.
    """

    outputs: list[Any]
    gradients: list[torch.Tensor | None]
    output_noise: list[Any]
    gradient_noise: list[torch.Tensor | None]
    by: str = "float64"
    inputs: list[Any] = field(default_factory=list)
    input_noise: list[Any] = field(default_factory=list)

    def after(self, k: int) -> tuple[Any, Any, str]:
        """What is exact of input ``k`` after the call, if that is known, its noise, and by what."""
        return (self.inputs[k], self.input_noise[k], self.by) if self.inputs else (None, None, self.by)


def reference(
    program: Callable[..., Any], inputs: Sequence[Any], run: Run, seed: int = 0, nudges: int = STAGES[-1][0], inside: bool = True
) -> Reference | None:
    """The float64 reference of ``run``, driven by the same rounded cotangents; None if the program cannot run again.

    The noise is the largest move of an element over ``nudges`` runs whose inputs are off by one rounding of their own dtype,
    and with ``inside`` so are all values that operators compute, see :class:`verify.rounding.RandomRounding`.
    A float64 run that fails, or lands far from eager, computes something else: ``run`` is then its own reference.
    """
    rounded = cotangents_like(run.outputs, seed)
    given = [c.double() for c in rounded]
    exact = observe(program, [_wide(i) for i in inputs], cotangents=given, seed=seed)
    if exact.raised is not None:  # what it makes anew in the default dtype may not go with float64
        program = _making_float64(program)
        exact = observe(program, [_wide(i) for i in inputs], cotangents=given, seed=seed)
    wide = None if exact.raised is not None or not _plausible(run, exact) else exact
    if wide is None:
        exact = _as_wide(run)
    noise = [[_no_noise(v) for v in values] for values in _values(exact)]
    for k in range(nudges):
        generator = torch.Generator().manual_seed(100 * seed + k)
        if wide is None:
            cotangents = [nudged(c.double(), c.dtype, generator).to(c.dtype) for c in rounded]
            moved = _as_wide(observe(program, [_nudged_leaf(i, generator) for i in inputs], cotangents=cotangents, seed=seed))
        else:
            cotangents = [nudged(c, r.dtype, generator) for c, r in zip(given, _floats(run), strict=True)]
            moved = _moved_run(program, [_wide(i, generator) for i in inputs], cotangents, seed, _finest(inputs), generator, inside)
        if moved.raised is not None or len(moved.gradients) != len(exact.gradients):
            return None
        noise = [
            [_more(n, m, e) for n, m, e in zip(before, ms, es, strict=True)]
            for before, ms, es in zip(noise, _values(moved), _values(exact), strict=True)
        ]
    return Reference(exact.outputs, exact.gradients, noise[0], noise[1], "float64" if wide is not None else "eager", exact.inputs_after, noise[2])


def _making_float64(program: Callable[..., Any]) -> Callable[..., Any]:
    """``program`` where float64 is the default dtype when its inputs are float64."""

    def run(*inputs: Any) -> Any:
        kept = torch.get_default_dtype()
        wide = any(isinstance(i, torch.Tensor) and i.dtype is torch.float64 for i in inputs)
        torch.set_default_dtype(torch.float64 if wide else kept)
        try:
            return program(*inputs)
        finally:
            torch.set_default_dtype(kept)

    return run


def _moved_run(
    program: Callable[..., Any],
    inputs: list[Any],
    cotangents: list[torch.Tensor],
    seed: int,
    narrow: torch.dtype,
    generator: torch.Generator,
    inside: bool,
) -> Run:
    """A run in float64 on moved inputs, the values inside rounded at random if that is wanted and the program bears it."""
    if inside:
        again = [i.detach().clone().requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in inputs]
        with RandomRounding(narrow, generator):
            found = observe(program, again, cotangents=cotangents, seed=seed)
        if found.raised is None and found.backward_raised is None:
            return found
    return observe(program, inputs, cotangents=cotangents, seed=seed)


def _finest(inputs: Sequence[Any]) -> torch.dtype:
    """The dtype of the inputs that rounds least."""
    dtypes = [i.dtype for i in inputs if isinstance(i, torch.Tensor) and i.is_floating_point()]
    return min(dtypes, key=lambda d: torch.finfo(d).eps, default=torch.float32)


def _values(run: Run) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    return run.outputs, run.gradients, run.inputs_after


def _as_wide(run: Run) -> Run:
    """``run`` itself, widened, as its own reference."""
    widened = replace(run)
    widened.outputs = [o.double() if isinstance(o, torch.Tensor) and o.is_floating_point() else o for o in run.outputs]
    widened.gradients = [g.double() if g is not None and g.is_floating_point() else g for g in run.gradients]
    widened.inputs_after = [i.double() if i.is_floating_point() else i for i in run.inputs_after]
    return widened


def _more(noise: Any, moved: Any, exact: Any) -> Any:
    if noise is None or moved is None or exact is None or moved.shape != exact.shape:
        return noise
    return torch.maximum(noise, torch.nan_to_num((moved - exact).abs(), nan=0.0))


def _nudged_leaf(given: Any, generator: torch.Generator) -> Any:
    """``given`` off by one rounding of its own dtype."""
    if not isinstance(given, torch.Tensor):
        return given
    if not given.is_floating_point():
        return given.detach().clone()
    return nudged(given.detach().double(), given.dtype, generator).to(given.dtype).requires_grad_(given.requires_grad)


def _no_noise(exact: Any) -> Any:
    return torch.zeros_like(exact) if isinstance(exact, torch.Tensor) and exact.is_floating_point() else None


def _plausible(run: Run, exact: Run) -> bool:
    """Whether the float64 run computes what ``run`` does: a reference far from eager would excuse anything."""
    return _near(run.outputs, exact.outputs) and _near(run.gradients, exact.gradients)


def _near(ones: Sequence[Any], wides: Sequence[Any]) -> bool:
    pairs = [(one, wide) for one, wide in zip(ones, wides, strict=False) if _no_noise(wide) is not None]
    sizes = [wide[torch.isfinite(wide)].abs().max() for _, wide in pairs if bool(torch.isfinite(wide).any())]
    scale = float(max(sizes, default=1.0))
    return all(
        isinstance(one, torch.Tensor)
        and one.shape == wide.shape
        and torch.allclose(one.double(), wide.double(), rtol=PLAUSIBLE, atol=PLAUSIBLE * scale, equal_nan=True)
        for one, wide in pairs
    )


def _floats(run: Run) -> list[torch.Tensor]:
    return [o for o in run.outputs if isinstance(o, torch.Tensor) and o.is_floating_point()]


def _wide(given: Any, generator: torch.Generator | None = None) -> Any:
    if not isinstance(given, torch.Tensor):
        return given
    if not given.is_floating_point():
        return given.detach().clone()
    wide = given.detach().to(torch.float64, copy=True)
    if generator is not None:
        wide = nudged(wide, given.dtype, generator)
    return wide.requires_grad_(given.requires_grad)
