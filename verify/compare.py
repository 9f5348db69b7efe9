"""What two runs of a program differ in. A comparison returns the differences, never a flag; it has no default tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from optimus.modes import modes_restored

USERS = (Exception, SystemExit, GeneratorExit)
"""What code of a user may raise: all but Ctrl-C."""

FACTOR = 8.0
"""How many times eager's own error, plus what rounding the inputs would do, a reassociated result may be off."""

ULPS = 4.0
"""Roundings of the exact result that are always allowed to one that is not compared bit by bit."""

NUDGES, MORE_NUDGES = 3, 12
"""How often the inputs are moved to see what rounding does: at first, and before a difference is reported. The largest of three
draws of a sum that cancels can be far below what its terms are rounded by."""

PLAUSIBLE = 0.05
"""A float64 run further from eager than this part of the largest element computes something else, and is no reference."""


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


@dataclass(frozen=True)
class Reference:
    """What is exact, and how far rounding the inputs moves it, element by element.

    ``by``: ``float64``, the same program in float64; or ``eager``, where that computes something else (it draws other random
    numbers, or does not overflow): the run itself, whose own error is then in the noise.
    """

    outputs: list[Any]
    gradients: list[torch.Tensor | None]
    output_noise: list[Any]
    gradient_noise: list[torch.Tensor | None]
    by: str = "float64"


def reference(program: Callable[..., Any], inputs: Sequence[Any], run: Run, seed: int = 0, nudges: int = MORE_NUDGES) -> Reference | None:
    """The float64 reference of ``run``, driven by the same rounded cotangents; None if the program cannot run again.

    The noise is the largest move of an element over ``nudges`` runs whose inputs are off by one rounding of their own dtype.
    A float64 run that fails, or lands far from eager, computes something else: ``run`` is then its own reference.
    """
    rounded = cotangents_like(run.outputs, seed)
    given = [c.double() for c in rounded]
    exact = observe(program, [_wide(i) for i in inputs], cotangents=given, seed=seed)
    wide = None if exact.raised is not None or not _plausible(run, exact) else exact
    if wide is None:
        exact = _as_wide(run)
    output_noise = [_no_noise(o) for o in exact.outputs]
    gradient_noise = [_no_noise(g) for g in exact.gradients]
    for k in range(nudges):
        generator = torch.Generator().manual_seed(100 * seed + k)
        if wide is None:
            moved = _as_wide(
                observe(program, [_nudged_leaf(i, generator) for i in inputs], cotangents=[_nudged(c, c, generator) for c in rounded], seed=seed)
            )
        else:
            nudged = [_nudged(c, r, generator) for c, r in zip(given, _floats(run), strict=True)]
            moved = observe(program, [_wide(i, generator) for i in inputs], cotangents=nudged, seed=seed)
        if moved.raised is not None or len(moved.gradients) != len(exact.gradients):
            return None
        output_noise = [_more(n, m, e) for n, m, e in zip(output_noise, moved.outputs, exact.outputs, strict=True)]
        gradient_noise = [_more(n, m, e) for n, m, e in zip(gradient_noise, moved.gradients, exact.gradients, strict=True)]
    return Reference(exact.outputs, exact.gradients, output_noise, gradient_noise, "float64" if wide is not None else "eager")


def _as_wide(run: Run) -> Run:
    """``run`` itself, widened, as its own reference."""
    widened = replace(run)
    widened.outputs = [o.double() if isinstance(o, torch.Tensor) and o.is_floating_point() else o for o in run.outputs]
    widened.gradients = [g.double() if g is not None and g.is_floating_point() else g for g in run.gradients]
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
    return _nudged(given.detach().double(), given, generator).to(given.dtype).requires_grad_(given.requires_grad)


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
        wide = _nudged(wide, given, generator)
    return wide.requires_grad_(given.requires_grad)


def _nudged(wide: torch.Tensor, narrow: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    step = torch.finfo(narrow.dtype).eps
    return wide * (1 + step * (2 * torch.rand(wide.shape, generator=generator, dtype=torch.float64).to(wide.device) - 1))


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
    found: list[str] = []
    for nudges in (NUDGES, MORE_NUDGES):
        exact = None if one.raised is not None else reference(before, make_inputs(), one, seed, nudges)
        found = differences(one, other, exact, bitwise=bitwise, private=private)
        if not found or exact is None:
            break
    return found, one, other


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
        found += [f"input {k} after the call: {d}" for d in _value(one, other, None, None, bitwise)]
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
    return _judged(wrong, one, other, exact, noise, by, accumulated)


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


def _judged(
    wrong: torch.Tensor, one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor, noise: torch.Tensor, by: str, accumulated: bool
) -> list[str]:
    finite = torch.isfinite(exact) & torch.isfinite(one.double())
    overflown = torch.isnan(one) != torch.isnan(other) if accumulated else torch.zeros_like(wrong)
    bad = wrong & ~finite & (torch.isfinite(one) | torch.isfinite(other) | ~overflown)
    if bool(bad.any()):
        return [_first(bad, one, other) + "; eager or the reference is not finite there"]
    info = torch.finfo(one.dtype)
    allowed = FACTOR * ((one.double() - exact).abs() + noise) + ULPS * (info.eps * exact.abs() + info.tiny)
    off = wrong & finite & ~((other.double() - exact).abs() <= allowed)
    if not bool(off.any()):
        return []
    at = _where(off)
    if by == "eager":
        return [_first(off, one, other) + f"; rounding the inputs moves it by {noise[at].item():.3g}"]
    return [_first(off, one, other) + f"; float64 says {exact[at].item()!r}, eager is off by {abs(one[at].item() - exact[at].item()):.3g}"]


def _where(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.nonzero(mask)[0].tolist()) if mask.dim() else ()


def _first(wrong: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> str:
    at = _where(wrong)
    return f"{int(wrong.sum())} of {math.prod(one.shape)} elements differ, first at {at}: {one[at].item()!r} became {other[at].item()!r}"
