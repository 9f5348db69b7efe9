"""Running a hostile program in eager and compiled, and saying what differs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.func import functional_call

from optimus.passes import BUILT_IN
from optimus.pattern import IR, Exactness, HorizontalPattern, Pattern
from optimus.plan import Plan, lookup, replace_options
from optimus.production import clear_journals, journals
from tests.hostile.registry import Hostile
from verify.compare import Reference, Run, differences, observe, reference
from verify.differential import quiet


def _eager(pattern: Pattern, **options: object) -> Pattern:
    pattern = pattern.judged()
    if isinstance(pattern, HorizontalPattern):
        return replace_options(pattern, {"min_fuse_set_size": 2, **options})
    return replace_options(pattern, {"threshold_to_cat": 2}) if "threshold_to_cat" in pattern.options() else pattern


ORDER = sorted(BUILT_IN, key=lambda p: p.name != "batch_linear_lhs")
"""What reads one input comes first, or linears of one shape would leave nothing to it."""

FULL = Plan(tuple(_eager(p, fuse_returned=True) for p in ORDER))
"""Every pattern, as eager to apply as it can be made."""

UNRETURNED = Plan(tuple(map(_eager, ORDER)))
"""The same, but for members whose results are returned: what Inductor gets."""
BARE = FULL.without("normalization_pass")
BACKWARDS = Plan(FULL.steps[::-1])


@dataclass(frozen=True)
class Outcome:
    """What the calls of a program did; if compiled, also the rewrites by pattern, those given up because a pattern raised, and the graphs."""

    run: Run
    again: Run | None
    fired: Counter[str] = field(default_factory=Counter)
    errors: tuple[str, ...] = ()
    graphs: int = 0

    @property
    def bitwise(self) -> bool:
        """Whether only patterns applied that promise the very same bits."""
        return all(lookup(name).exactness is Exactness.BITWISE for name in self.fired)


def eager(program: Hostile, way: str) -> Outcome:
    """The program without a compiler."""
    body = program.build()
    return _outcome(body, body, program, way)


def compiled(program: Hostile, way: str, compiler: str = "aot_eager", *, rewriting: bool = True) -> Outcome:
    """The program through ``compiler``, behind the plan or alone."""
    torch._dynamo.reset()
    counters.clear()
    clear_journals()
    plan = UNRETURNED if compiler == "inductor" else {"bare": BARE, "backwards": BACKWARDS}.get(way, FULL)
    if program.name.startswith("aten/"):
        plan = plan.at(IR.ATEN)
    options = {"compiler": compiler, "plan": plan} if rewriting else None
    body = program.build()
    captured = torch._dynamo.config.patch(capture_scalar_outputs=program.capture, capture_dynamic_output_shape_ops=program.capture)
    with captured, quiet():
        made = torch.compile(body, backend="optimus" if rewriting else compiler, options=options, dynamic=way == "dynamic" or None)
        found = _outcome(made, body, program, way)
    fired: Counter[str] = Counter()
    for journal in journals():
        fired += journal.counts()
    errors = tuple(str(d) for journal in journals() for d in journal.declined if d.reason == "error")
    graphs = counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    return Outcome(found.run, found.again, fired, errors, graphs)


def _outcome(call: Callable[..., Any], body: Any, program: Hostile, way: str) -> Outcome:
    run = _observe(call, body, program, way)
    return Outcome(run, None if program.other is None else _observe(call, body, program, way, resized=True))


def differing(program: Hostile, way: str, base: Outcome, got: Outcome, *, bitwise: bool) -> list[str]:
    """What ``got`` does that ``base`` does not, in the first call and in the second."""
    found = _differing(program, way, base.run, got.run, bitwise)
    if base.again is not None and got.again is not None:
        found += [f"called again: {d}" for d in _differing(program, way, base.again, got.again, bitwise, resized=True)]
    return found


def _differing(program: Hostile, way: str, base: Run, got: Run, bitwise: bool, *, resized: bool = False) -> list[str]:
    if not differences(base, got, bitwise=bitwise):
        return []
    return differences(base, got, _exact(program, way, base, resized), bitwise=bitwise)


def _exact(program: Hostile, way: str, run: Run, resized: bool) -> Reference | None:
    """The float64 run to judge by, or None where there is none that means the same."""
    if program.exact or run.raised is not None:
        return None
    body = program.build()
    inputs, count, names = _with_state(body, program, way, resized)
    if _share_memory(inputs[:count]) or any(isinstance(i, torch.Tensor) and i.is_complex() for i in inputs):
        return None

    def call(*given: Any) -> Any:
        if not isinstance(body, torch.nn.Module):
            return _call(body, program, way, given)
        state = dict(zip(names, given[count:], strict=True))
        return _call(lambda *args: functional_call(body, state, args), program, way, given[:count])

    if way == "inference":
        inputs = [i.detach() if isinstance(i, torch.Tensor) else i for i in inputs]
    with quiet():
        found = reference(call, inputs, run)
    return found if found is not None and _plausible(run, found) else None


def _plausible(run: Run, found: Reference) -> bool:
    """A reference far from eager computes something else; judging by it would excuse anything."""
    return all(_near(*zip(*pairs, strict=True)) for pairs in (_floats(run.outputs, found.outputs), _floats(run.gradients, found.gradients)) if pairs)


def _floats(ones: Sequence[Any], wides: Sequence[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    pairs = [(o, w) for o, w in zip(ones, wides, strict=False) if isinstance(o, torch.Tensor) and isinstance(w, torch.Tensor)]
    return [(o.double(), w.double()) for o, w in pairs if w.is_floating_point()]


def _near(ones: Sequence[torch.Tensor], wides: Sequence[torch.Tensor]) -> bool:
    finite = torch.cat([w[torch.isfinite(w)].abs() for w in wides])
    scale = float(finite.max()) if finite.numel() else 1.0
    pairs = zip(ones, wides, strict=True)
    return all(o.shape == w.shape and torch.allclose(o, w, rtol=0.05, atol=0.05 * scale, equal_nan=True) for o, w in pairs)


def _observe(call: Callable[..., Any], body: Any, program: Hostile, way: str, *, resized: bool = False) -> Run:
    """``call`` on new inputs; parameters and buffers of ``body`` count as inputs, so that they and their gradients are compared."""
    inputs, count, _ = _with_state(body, program, way, resized)
    with quiet():
        return observe(lambda *given: _call(call, program, way, given[:count]), inputs, gradients=way != "inference")


def _with_state(body: Any, program: Hostile, way: str, resized: bool) -> tuple[list[Any], int, list[str]]:
    inputs: list[Any] = list(program.make_inputs(way, resized=resized))
    state = {**dict(body.named_parameters()), **dict(body.named_buffers())} if isinstance(body, torch.nn.Module) else {}
    return [*inputs, *state.values()], len(inputs), list(state)


def _call(call: Callable[..., Any], program: Hostile, way: str, given: Sequence[Any]) -> Any:
    with program.around(), torch.no_grad() if way == "inference" else contextlib.nullcontext():
        return call(*given)


def _share_memory(inputs: Sequence[Any]) -> bool:
    storages = [i.untyped_storage().data_ptr() for i in inputs if isinstance(i, torch.Tensor) and i.numel()]
    return len(storages) != len(set(storages))
