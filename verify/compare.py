"""What two runs of a program differ in. A comparison returns the differences, never a flag; it has no default tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from verify.observing import USERS, Run, observe
from verify.reference import STAGES, Reference, reference

__all__ = ["STAGES", "USERS", "Reference", "Run", "allowance", "compare", "compared", "differences", "judged", "observe", "reference"]

FACTOR = 8.0
"""How many times eager's own error, plus what rounding would do, a reassociated result may be off."""

ULPS = 4.0
"""Roundings of the exact result that are always allowed to one that is not compared bit by bit."""


def compare(
    before: Callable[..., Any],
    after: Callable[..., Any],
    make_inputs: Callable[[], Sequence[Any]],
    *,
    bitwise: bool,
    private: frozenset[int] = frozenset(),
    seed: int = 0,
) -> list[str]:
    """Run two programs on the same inputs and list what differs; see :func:`differences`.

    Where they differ in bits, ``before`` is run again on copies that lie elsewhere in memory: what does not even agree
    with itself (matrix products may depend on how their operands are aligned) is judged against float64 instead.
    """
    return compared(before, after, make_inputs, bitwise=bitwise, private=private, seed=seed)[0]


def compared(
    before: Callable[..., Any],
    after: Callable[..., Any],
    make_inputs: Callable[[], Sequence[Any]],
    *,
    bitwise: bool,
    private: frozenset[int] = frozenset(),
    seed: int = 0,
) -> tuple[list[str], Run, Run]:
    """What :func:`compare` finds, and the two runs."""
    one, other = observe(before, make_inputs(), seed=seed), observe(after, make_inputs(), seed=seed)
    if not differences(one, other, bitwise=True, private=private):
        return [], one, other
    bitwise = bitwise and reproducible(before, make_inputs, one, seed)
    return judged(before, make_inputs, one, other, bitwise=bitwise, private=private, seed=seed), one, other


def judged(
    program: Callable[..., Any],
    make_inputs: Callable[[], Sequence[Any]],
    before: Run,
    after: Run,
    *,
    bitwise: bool,
    private: frozenset[int] = frozenset(),
    signed_zeros: bool = False,
    seed: int = 0,
) -> list[str]:
    """What differs between ``before``, a run of ``program``, and ``after``, see :func:`differences`; as much of a reference as it takes."""
    found = differences(before, after, bitwise=True, private=private)
    for nudges, inside in STAGES if found else ():
        exact = None if before.raised is not None else reference(program, make_inputs(), before, seed, nudges, inside)
        found = differences(before, after, exact, bitwise=bitwise, private=private, signed_zeros=signed_zeros)
        if not found or exact is None:
            break
    return found


def reproducible(program: Callable[..., Any], make_inputs: Callable[[], Sequence[Any]], run: Run, seed: int = 0) -> bool:
    """Whether ``program`` gives the bits of ``run`` again when its inputs lie elsewhere in memory."""
    for k in range(4):
        inputs = [_moved(i, k) for i in make_inputs()]
        if differences(run, observe(program, inputs, seed=seed), bitwise=True):
            return False
    return True


def _moved(given: Any, k: int) -> Any:
    """A copy of a dense leaf that starts ``4 * k`` elements into its memory; anything else as it is."""
    if not isinstance(given, torch.Tensor) or not given.is_contiguous() or not given.is_leaf:
        return given
    place = torch.empty(given.numel() + 4 * k, dtype=given.dtype, device=given.device)[4 * k :].view(given.shape)
    with torch.no_grad():
        place.copy_(given)
    return place.requires_grad_(given.requires_grad)


def differences(
    before: Run,
    after: Run,
    reference_run: Reference | None = None,
    *,
    bitwise: bool,
    private: frozenset[int] = frozenset(),
    signed_zeros: bool = False,
) -> list[str]:
    """What ``after`` does that ``before`` did not, one line each.

    ``bitwise``: outputs must have the same bits, any NaN for any NaN. Otherwise, and for gradients, each element may be as
    far from the reference as ``FACTOR`` times eager's error plus the noise of the inputs, plus ``ULPS`` roundings; an infinity
    of a gradient may become NaN, or NaN an infinity, for partial sums overflow in one order and not in another; with ``signed_zeros``, a zero
    of an output must keep its sign. ``private``: outputs, counted over tensors, of which strides and shared memory are not
    compared.
    """
    if before.raised is not None or after.raised is not None:
        if before.raised is not None and after.raised is not None:
            return []
        return [f"raises: {before.raised or 'nothing'} became {after.raised or 'nothing'}"]
    if after.backward_raised is not None and before.backward_raised is None:
        return [f"the backward pass raises: nothing became {after.backward_raised}"]
    if len(before.outputs) != len(after.outputs):
        return [f"{len(before.outputs)} outputs became {len(after.outputs)}"]
    found: list[str] = []
    for k, (one, other) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        exact = None if reference_run is None else reference_run.outputs[k]
        noise = None if reference_run is None else reference_run.output_noise[k]
        lines = _value(one, other, exact, noise, bitwise) or (_zeros(one, other) if signed_zeros else [])
        found += [f"output {k}: {d}" for d in lines]
    found += _observed(before, after, private)
    for k, (one, other) in enumerate(zip(before.inputs_after, after.inputs_after, strict=True)):
        exact, noise, by = (None, None, "float64") if reference_run is None else reference_run.after(k)
        found += [f"input {k} after the call: {d}" for d in _value(one, other, exact, noise, bitwise, by)]
    comparable = before.backward_raised is None  # what eager cannot differentiate, any compiler may
    for k, (g, h) in enumerate(zip(before.gradients, after.gradients, strict=True) if comparable else ()):
        found += [f"gradient {k}: {d}" for d in _gradient(g, h, reference_run, k)]
    return found


def _observed(before: Run, after: Run, private: frozenset[int]) -> list[str]:
    found = []
    places = [k for k, o in enumerate(before.outputs) if isinstance(o, torch.Tensor)]
    if places != [k for k, o in enumerate(after.outputs) if isinstance(o, torch.Tensor)]:
        return []  # a tensor for something else has been reported as another value
    for k, (place, one, other) in enumerate(zip(places, before.strides, after.strides, strict=True)):
        shape = before.outputs[place].shape
        if k not in private and len(one) == len(other) and not same_strides(shape, one, other):
            found.append(f"output {place}: strides {one} became {other}")
    for place, a, b in zip(places, before.requires_grad, after.requires_grad, strict=True):
        if a != b:
            found.append(f"output {place}: requires_grad {a} became {b}")
    for k, (place, c, d) in enumerate(zip(places, before.shared, after.shared, strict=True)):
        if c != d and k not in private:
            found.append(f"output {place}: memory shared with {c or 'nothing'} became {d or 'nothing'}")
    return found


def same_strides(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether strides agree where they mean something: not in empty tensors, nor in dimensions of extent 1."""
    return 0 in shape or all(a == b for n, a, b in zip(shape, one, other, strict=True) if n != 1)


def _gradient(one: torch.Tensor | None, other: torch.Tensor | None, reference_run: Reference | None, k: int) -> list[str]:
    if (one is None) != (other is None):
        return [f"{'None' if one is None else 'a tensor'} became {'None' if other is None else 'a tensor'}"]
    if one is None or other is None:
        return []
    exact = None if reference_run is None else reference_run.gradients[k]
    noise = None if reference_run is None else reference_run.gradient_noise[k]
    return _value(one, other, exact, noise, False, "float64" if reference_run is None else reference_run.by, accumulated=True)


def _value(one: Any, other: Any, exact: Any, noise: Any, bitwise: bool, by: str = "float64", accumulated: bool = False) -> list[str]:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        same = type(one) is type(other) and (one == other or one is other)
        return [] if same else [f"{one!r} became {other!r}"]
    for what in ("dtype", "device"):
        if getattr(one, what) != getattr(other, what):
            return [f"{what} {getattr(one, what)} became {getattr(other, what)}"]
    if one.shape != other.shape:
        return [f"shape {tuple(one.shape)} became {tuple(other.shape)}"]
    wrong = differing_bits(one, other)
    if not bool(wrong.any()):
        return []
    if bitwise or not one.is_floating_point():
        return [_first(wrong, one, other)]
    if exact is None or noise is None:
        return [_first(wrong, one, other) + "; there is no float64 reference to judge it by"]
    return _by_element(wrong, one, other, exact, noise, by, accumulated)


def _zeros(one: Any, other: Any) -> list[str]:
    """Where a zero has changed its sign."""
    if not isinstance(one, torch.Tensor) or not one.is_floating_point():
        return []
    wrong = (one == 0) & (other == 0) & (torch.signbit(one) != torch.signbit(other))
    return [_first(wrong, one, other)] if bool(wrong.any()) else []


def differing_bits(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where two tensors of one shape and dtype have other bits; one NaN equals another, -0.0 is not 0.0."""
    if one.dtype.is_complex:
        return differing_bits(torch.view_as_real(one), torch.view_as_real(other)).any(-1)
    if not one.is_floating_point():
        return one != other
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    bits = one.contiguous().view(width) != other.contiguous().view(width)
    return bits & ~(torch.isnan(one) & torch.isnan(other))


def _by_element(
    wrong: torch.Tensor, one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor, noise: torch.Tensor, by: str, accumulated: bool
) -> list[str]:
    finite = torch.isfinite(exact) & torch.isfinite(one.double())
    overflown = torch.isnan(one) != torch.isnan(other) if accumulated else torch.zeros_like(wrong)
    bad = wrong & ~finite & (torch.isfinite(one) | torch.isfinite(other) | ~overflown)
    if bool(bad.any()):
        return [_first(bad, one, other) + "; eager or the reference is not finite there"]
    allowed = allowance(one, exact, noise)
    distance = (other.double() - exact).abs()
    off = wrong & finite & ~(distance <= allowed)
    if not bool(off.any()):
        return []
    at = _where(off)
    far = f", at worst {float((distance[off] / allowed[off]).max()):.3g} times what is allowed"
    if by == "eager":
        return [_first(off, one, other) + f"; rounding moves it by {noise[at].item():.3g}{far}"]
    return [_first(off, one, other) + f"; float64 says {exact[at].item()!r}, eager is off by {abs(one[at].item() - exact[at].item()):.3g}{far}"]


def allowance(one: torch.Tensor, exact: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """How far from the reference ``exact`` each element may be, where eager computes ``one``."""
    info = torch.finfo(one.dtype)
    return FACTOR * ((one.double() - exact).abs() + noise) + ULPS * (info.eps * exact.abs() + info.tiny)


def _where(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.nonzero(mask)[0].tolist()) if mask.dim() else ()


def _first(wrong: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> str:
    at = _where(wrong)
    return f"{int(wrong.sum())} of {math.prod(one.shape)} elements differ, first at {at}: {one[at].item()!r} became {other[at].item()!r}"
