"""Tests of quantised activations on real tensors: what is compiled against its statement, and the bound of every saved value.

A program runs three times through a compiler: alone; with the pass; and *by the statement*, where saved values stay as they are and
the backward pass reads ``decode(encode(t))`` by the operators in eager. With the pass, whatever can be observed of the forward
pass must be as with the compiler alone, bit by bit. Gradients must be those by the statement: bit by bit through ``aot_eager``,
and through Inductor up to :data:`ROUNDINGS` of the largest element, for its kernels add in other orders. By the statement every saved
value is held against the bound of :mod:`optimus.fp8`, infinities, NaN and signs too, and what the pass saves against the memory
that is saved without it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.fx import GraphModule, Node

from fuzz.program import Input, Program, Step, Var
from fuzz.strategies import inputs, programs, shapes
from fuzz.templates import instantiate
from optimus.capture import names
from optimus.fp8 import FLUSHED, bound, fp8_decode, fp8_encode, fp8_step
from optimus.journal import Journal
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.pattern import Case
from optimus.plan import Plan
from optimus.quantization import Partitioner, copied, quantize
from optimus.values import storage, tensor
from verify import fuzzing
from verify.compare import USERS, Run, differences, observe
from verify.differential import Comparison, quiet
from verify.fuzzing import Finding, FuzzReport, Method, UncapturedError, changed_options, with_options
from verify.quantizer import pattern_of, returning
from verify.subject import Subject

ROUNDINGS = 64.0
"""How many roundings of the largest element a gradient through Inductor may be off: sums of the few terms that cases have, in any order."""


@dataclass
class Statement:
    """A partitioner whose backward graph reads what saved values come back as; notes what breaks the bound, and how much is saved."""

    pattern: ActivationQuantization
    eager: bool
    faults: list[str] = field(default_factory=list)
    fired: int = 0

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[GraphModule, GraphModule]:
        """See :class:`torch._inductor.custom_graph_pass.CustomPartitionerFn`."""
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        forward, backward = min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        outputs = kwargs["num_fwd_outputs"]
        found = quantize(forward, backward, outputs, self.pattern, Journal(), kwargs.get("static_lifetime_input_indices") or ())
        self.fired += len(found.names)
        if self.pattern.exclude_primals:  # a copy of what a caller holds is memory on top
            self.faults += _growth(forward, found.forward, outputs)
        if not self.eager:
            return forward, returning(backward, found.names, self.pattern)
        return forward, self._watched(backward, found.names)

    def _watched(self, backward: GraphModule, chosen: Sequence[str]) -> GraphModule:
        graph = copied(backward.graph)
        first = next(n for n in graph.nodes if n.op != "placeholder")
        for node in graph.find_nodes(op="placeholder"):
            if node.name in chosen:
                with graph.inserting_before(first):
                    back = graph.call_function(self.back, (node,))
                back.meta["val"] = node.meta["val"]
                node.replace_all_uses_with(back, delete_user_cb=lambda user, back=back: user is not back)
        return GraphModule(backward, graph)

    def back(self, saved: Tensor) -> Tensor:
        """What a saved value comes back as."""
        form = self.pattern.format
        step = fp8_step(saved, form) if self.pattern.use_scaling else None
        found: Tensor = fp8_decode(fp8_encode(saved, step, form), step, saved.dtype)
        self.faults += broken(saved, found, form, step)
        return found


def broken(saved: Tensor, found: Tensor, form: torch.dtype, step: Tensor | None) -> list[str]:
    """How ``found``, which ``saved`` comes back as, breaks the statement of :mod:`optimus.fp8`."""
    finite = torch.isfinite(saved)
    off = (found.double() - saved.double()).abs()
    wrong = {
        "a finite value off by more than the bound": finite & ~(off <= bound(saved, form, step)),
        "an infinity or NaN that is not kept": ~finite & (found != saved) & ~(torch.isnan(found) & torch.isnan(saved)),
        "a sign that is not kept": ~torch.isnan(saved) & (torch.signbit(found) != torch.signbit(saved)),
    }
    return [f"{what}: {saved[mask][0].item()!r} came back as {found[mask][0].item()!r} in {form}" for what, mask in wrong.items() if bool(mask.any())]


def _growth(before: GraphModule, after: GraphModule, outputs: int) -> list[str]:
    """Whether more memory is saved than before, where all sizes are numbers."""
    one, other = _saved(before, outputs), _saved(after, outputs)
    if one is None or other is None or other <= one:
        return []
    return [f"{one} bytes were saved, {other} are now"]


def _saved(forward: GraphModule, outputs: int) -> int | None:
    """The memory that is held for the backward pass alone, in bytes; None where it depends on sizes."""
    returned: Any = forward.graph.output_node().args[0]
    held = {storage(t) for n in (*forward.graph.find_nodes(op="placeholder"), *returned[:outputs]) if (t := tensor(n)) is not None}
    found = {storage(t): t.untyped_storage().nbytes() for n in returned[outputs:] if isinstance(n, Node) and (t := tensor(n)) is not None}
    sizes = [size for place, size in found.items() if place not in held]
    return sum(sizes) if all(isinstance(s, int) for s in sizes) else None


# --------------------------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Tested:
    """What one program showed. ``raised``: what it raises through the compiler alone."""

    fired: int
    differences: tuple[str, ...]
    raised: str | None = None


def run(program: Program, pattern: ActivationQuantization, compiler: str = "aot_eager", device: str = "cpu", *, dynamic: bool = False) -> Tested:
    """Run ``program`` alone, with the pass, and by the statement; see the module."""
    return run_function(program.function(), program.make_inputs, pattern, compiler, device, dynamic=dynamic)


def run_function(
    function: Callable[..., Any],
    make_inputs: Callable[[], Sequence[Tensor]],
    pattern: ActivationQuantization,
    compiler: str = "aot_eager",
    device: str = "cpu",
    *,
    dynamic: bool = False,
) -> Tested:
    """:func:`run` of any function of tensors."""

    def make() -> list[Tensor]:
        return [t.detach().to(device).requires_grad_(t.requires_grad) for t in make_inputs()]

    journals: list[Journal] = []
    statement = Statement(pattern, compiler == "aot_eager")
    ways: list[Any] = [None, Partitioner(Plan((pattern,)), journals.append, expanded=compiler == "aot_eager"), statement]
    with quiet():
        plain, ours, stated = (_observed(function, make(), compiler, way, dynamic) for way in ways)
    if plain.raised is not None:
        return Tested(0, (), plain.raised)
    if stated.raised is not None:
        return Tested(0, (f"by the statement it raises {stated.raised}",))
    found = [f"the pass raised {d.detail}" for j in journals for d in j.declined if d.reason == "error"]
    found += statement.faults
    found += differences(replace(plain, gradients=[]), replace(ours, gradients=[]), bitwise=True)
    found += [] if ours.raised is not None else _gradients(stated, ours, exactly=compiler == "aot_eager")
    fired = sum(len(j.rewrites) for j in journals)
    if fired != statement.fired:
        found.append(f"{statement.fired} saved values were to be quantised, {fired} are")
    return Tested(fired, tuple(dict.fromkeys(found)))


def _observed(function: Callable[..., Any], given: Sequence[Tensor], compiler: str, partition: Any, dynamic: bool) -> Run:
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    try:
        if compiler == "aot_eager":
            return observe(torch.compile(copy.copy(function), backend=_eager(partition), dynamic=dynamic or None), given)
        patches: dict[str, Any] = (
            {} if partition is None else {"custom_partitioner_fn": partition if isinstance(partition, Partitioner) else _Cached(partition)}
        )
        # Else it times kernels, takes the fastest, and so may add up in another order in another compilation.
        with inductor.patch(**patches, force_disable_caches=True, deterministic=True):
            return observe(torch.compile(copy.copy(function), backend=compiler, dynamic=dynamic or None), given)
    finally:
        torch._dynamo.reset()


def _eager(partition: Any) -> Any:
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.backends.debugging import boxed_nop
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return aot_autograd(
        fw_compiler=boxed_nop,
        bw_compiler=boxed_nop,
        partition_fn=partition or min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )


class _Cached(Partitioner):
    """A statement as Inductor asks for it."""

    def __init__(self, statement: Statement) -> None:
        super().__init__(Plan((statement.pattern,)), lambda _: None)
        self.statement = statement

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[GraphModule, GraphModule]:
        """See :class:`Statement`."""
        return self.statement(gm, joint_inputs, **kwargs)


def _gradients(stated: Run, ours: Run, *, exactly: bool) -> list[str]:
    if stated.backward_raised is not None or ours.backward_raised is not None:
        return [] if stated.backward_raised == ours.backward_raised else [f"backward: {stated.backward_raised} became {ours.backward_raised}"]
    found = []
    for k, (one, other) in enumerate(zip(stated.gradients, ours.gradients, strict=True)):
        if (one is None) != (other is None):
            found.append(f"gradient {k}: {'None' if one is None else 'a tensor'} became {'None' if other is None else 'a tensor'}")
        elif one is not None and other is not None:
            off = (one.double() - other.double()).abs()
            largest = one.double().abs()[torch.isfinite(one)].max() if bool(torch.isfinite(one).any()) else torch.zeros(())
            allowed = 0.0 if exactly else ROUNDINGS * torch.finfo(one.dtype).eps * float(largest)
            wrong = ~((off <= allowed) | (one == other) | (torch.isnan(one) & torch.isnan(other)))
            if bool(wrong.any()):
                found.append(f"gradient {k}: {one[wrong][0].item()!r} by the statement became {other[wrong][0].item()!r}")
    return found


def differential(subject: Subject, compilers: Sequence[str], device: str, most: int) -> Iterator[Comparison]:
    """The cases at two sets of sizes, static and dynamic, through each of ``compilers``; at most ``most`` for each."""
    pattern = pattern_of(subject)
    for compiler in compilers:
        for number, (case, dynamic) in enumerate((c, d) for d in (False, True) for c in subject.cases):
            if number >= most:
                break
            program = at_sizes(case, (7, 8, 5, 6, 9)) if dynamic else at_sizes(case)
            found = run(program, pattern, compiler, device, dynamic=dynamic)
            wrong = (*found.differences, *([] if found.raised is None else [f"the compiler alone raises {found.raised}"]))
            yield Comparison(case.name, compiler, dynamic, found.fired, wrong, ())


# --------------------------------------------------------------------------------------------------------------- fuzz


@st.composite
def products(draw: st.DrawFn) -> Program:
    """``h * u`` of two drawn tensors, of which ``h`` is saved as it is: any dtype, layout and special values."""
    shape = draw(shapes(max_extent=7))
    dtype = draw(st.sampled_from(tuple(FLUSHED)))
    h = draw(inputs("h", st.just(shape), (dtype,)))
    u = Input("u", shape, dtype, True, seed=draw(st.integers(0, 9)))
    return Program((h, u), (Step("v0", torch.mul, (Var("h"), Var("u"))),), ("v0",), "product")


def hunt(subject: Subject, **given: Any) -> FuzzReport:
    """:func:`verify.fuzzing.hunt`, which takes the same arguments, for what breaks the statement of this module."""
    return fuzzing.hunt(subject, method=by_statement, **given)


def by_statement(subject: Subject) -> Method:
    """The cases and what is declined, then programs round them, blind ones, and :func:`products`, whose inputs are quantised too; with any options."""
    cases = (*subject.cases, *subject.declines)
    grounds = [
        (products(), _subjects(subject, primals=True)),
        *((p, _subjects(subject)) for p in (programs(cases), programs(subject.cases), programs())),
    ]
    first = (partial(judge, subject, at_sizes(case)) for case in cases)
    return Method(judge, first, lambda number: grounds[number % len(grounds)], BATCH)


OPTIONS = st.fixed_dictionaries(
    {
        "quant_type": st.sampled_from(("float8_e5m2", "float8_e4m3fn")),
        "use_scaling": st.booleans(),
        "size_in_mb": st.sampled_from((0, 0, 0, 1)),
        "exponents": st.booleans(),
    }
)
BATCH = 25


def _subjects(subject: Subject, *, primals: bool = False) -> st.SearchStrategy[Subject]:
    return OPTIONS.map(lambda options: with_options(subject, tuple({**options, "exclude_primals": not primals}.items())))


def judge(subject: Subject, program: Program) -> tuple[bool, Finding | None]:
    """Whether the pass fired on ``program``, and what it got wrong. Raises :class:`UncapturedError`."""
    try:
        found = run(program, pattern_of(subject))
    except USERS as error:  # whatever a compiler raises beyond what it is asked to run
        found = Tested(0, (f"{type(error).__name__}: {error}",))
    if found.raised is not None:
        raise UncapturedError(found.raised)
    return bool(found.fired), Finding(program, found.differences, "", "", changed_options(subject)) if found.differences else None


def at_sizes(case: Case, sizes: Sequence[int] = (6, 5, 8, 7, 9)) -> Program:
    """A case with numbers for its sizes."""
    return instantiate(case, dict(zip(names(case), sizes, strict=False)))
