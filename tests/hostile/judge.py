"""Running a hostile program in eager and compiled, and saying what differs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.func import functional_call

from hostile.registry import Hostile
from optimus.pattern import Exactness, HorizontalPattern, Pattern
from optimus.plan import Plan, default_plan, lookup, replace_options
from optimus.production import clear_journals, journals
from verify.compare import Reference, Run, cotangents_like, differences, observe, reference
from verify.differential import quiet


def _eager_to_fuse(pattern: Pattern) -> Pattern:
    return replace_options(pattern, {"min_fuse_set_size": 2}) if isinstance(pattern, HorizontalPattern) else pattern


FULL = Plan(tuple(map(_eager_to_fuse, default_plan())))
BARE = FULL.without("normalization_pass")


@dataclass(frozen=True)
class Compiled:
    """What a compiled run did: observations, rewrites by pattern, rewrites given up because a pattern raised."""

    run: Run
    again: Run | None
    fired: Counter[str]
    errors: list[str]

    @property
    def bitwise(self) -> bool:
        """Whether only patterns applied that promise the very same bits."""
        return all(lookup(name).exactness is Exactness.BITWISE for name in self.fired)


def plan_of(way: str) -> Plan:
    """The plan of one way to run a program."""
    return BARE if way == "bare" else FULL


def eager(program: Hostile, way: str, *, resized: bool = False) -> Run:
    """The program without a compiler."""
    return _observe(program.build(), program, way, resized=resized)


def compiled(program: Hostile, way: str, compiler: str = "aot_eager", *, rewriting: bool = True) -> Compiled:
    """The program through ``compiler``, behind the plan or alone; with ``other`` sizes a second time if it has such."""
    torch._dynamo.reset()
    clear_journals()
    backend = "optimus" if rewriting else compiler
    options = {"compiler": compiler, "plan": plan_of(way)} if rewriting else None
    body = program.build()
    with quiet():
        made = torch.compile(body, backend=backend, options=options, dynamic=way == "dynamic" or None)
        run = _observe(made, program, way, module=body)
        again = _observe(made, program, way, module=body, resized=True) if _called_again(program, way) else None
    fired: Counter[str] = Counter()
    errors = []
    for journal in journals():
        fired += journal.counts()
        errors += [str(d) for d in journal.declined if d.reason == "error"]
    torch._dynamo.reset()
    return Compiled(run, again, fired, errors)


def _called_again(program: Hostile, way: str) -> bool:
    return way == "dynamic" and program.other is not None


def differing(program: Hostile, way: str, base: Run, got: Compiled, *, bitwise: bool, base_again: Run | None = None) -> list[str]:
    """What ``got`` does that ``base`` does not, in the first call and in the second."""
    found = differences(base, got.run, None if bitwise and _same(base, got.run) else exact(program, way, base), bitwise=bitwise)
    if got.again is not None:
        base_again = eager(program, way, resized=True) if base_again is None else base_again
        more = differences(base_again, got.again, exact(program, way, base_again, resized=True), bitwise=bitwise)
        found += [f"called again with other sizes: {d}" for d in more]
    return found


def _same(one: Run, other: Run) -> bool:
    return not differences(one, other, None, bitwise=True)


def exact(program: Hostile, way: str, run: Run, *, resized: bool = False) -> Reference | None:
    """The float64 run to judge by, or None where there is none that means the same."""
    if program.exact or run.raised is not None:
        return None
    body = program.build()
    inputs, count, names = _with_state(body, program, resized)
    if _share_memory(inputs[:count]):
        return None

    def call(*given: Any) -> Any:
        if not isinstance(body, torch.nn.Module):
            return _under(way, body, given)
        state = dict(zip(names, given[count:], strict=True))
        return _under(way, lambda *args: functional_call(body, state, args), given[:count])

    with quiet():
        found = reference(call, inputs, run)
    return found if found is not None and _plausible(run, found) else None


def _plausible(run: Run, found: Reference) -> bool:
    """A reference far from eager computes something else; judging by it would excuse anything."""
    pairs = [*zip(run.outputs, found.outputs, strict=True), *zip(run.gradients, found.gradients, strict=True)]
    for one, wide in pairs:
        if isinstance(one, torch.Tensor) and isinstance(wide, torch.Tensor) and one.is_floating_point() and one.numel():
            finite = wide[torch.isfinite(wide)].abs()
            scale = float(finite.max()) if finite.numel() else 1.0
            if one.shape != wide.shape or not torch.allclose(one.double(), wide, rtol=0.05, atol=0.05 * scale, equal_nan=True):
                return False
    return True


def _observe(call: Callable[..., Any], program: Hostile, way: str, *, module: Any = None, resized: bool = False) -> Run:
    """``call`` on new inputs, its parameters and buffers taken for inputs too, so that they and their gradients are compared."""
    inputs, count, _ = _with_state(call if module is None else module, program, resized)
    with quiet():
        found = observe(lambda *given: _under(way, call, given[:count]), inputs, cotangents=None)
    return replace(found, outputs=[_plain(o) for o in found.outputs])


def _with_state(body: Any, program: Hostile, resized: bool) -> tuple[list[Any], int, list[str]]:
    inputs: list[Any] = list(program.make_inputs(resized=resized))
    count = len(inputs)
    names: list[str] = []
    if isinstance(body, torch.nn.Module):
        state = {**dict(body.named_parameters()), **dict(body.named_buffers())}
        names = list(state)
        inputs += state.values()
    return inputs, count, names


def _under(way: str, call: Callable[..., Any], given: Sequence[Any]) -> Any:
    with torch.no_grad() if way == "no_grad" else contextlib.nullcontext():
        return call(*given)


def _plain(output: Any) -> Any:
    return output if isinstance(output, (torch.Tensor, str, type(None))) or not hasattr(output, "__int__") else type(output)(output)


def _share_memory(inputs: Sequence[Any]) -> bool:
    storages = [i.untyped_storage().data_ptr() for i in inputs if isinstance(i, torch.Tensor) and i.numel()]
    return len(storages) != len(set(storages))


__all__ = ["BARE", "FULL", "Compiled", "compiled", "cotangents_like", "differing", "eager", "exact", "plan_of"]
