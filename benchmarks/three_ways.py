"""One model three ways: eager, a compiler alone, the compiler behind optimus; each runs twice, and differences are put down to one of them."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

import optimus
from benchmarks.models import ENCODERS, IMAGES, SPARSE, make
from verify.compare import STAGES, differences, observe, reference
from verify.differential import quiet
from verify.observing import Run
from verify.reference import Reference
from verify.spread import Spread, place_of

BATCHES, STEPS, RATE = (32, 24, 17), 5, 0.05
OF_IMAGES = (8, 6, 5)
"""Batches of models that read images."""
TURNS = 2
"""How often each compiled function runs on the same batch, and is trained from the same start."""
SLACK = 8.0
"""How many times further off than the compiler alone a value may be, and than it and eager a loss, from float64."""
INSTEAD = {"aot_eager": ("aot_eager_decomp_partition", "inductor")}
"""What a model is compared by where a compiler alone cannot run it: the first that can."""
COMPILERS, NONDETERMINISTIC, SAME_GRAPH, UNEXPLAINED = "the compiler's", "nondeterministic", "same graph", "unexplained"
"""What a difference is put down to. ``the compiler's``: without optimus it is there too, about as large; ``nondeterministic``: the compiler
alone lies as far apart from run to run; ``same graph``: it lies apart from run to run, not so far, and got the very graph that it gets
without optimus."""

Compiler = str | Callable[..., Any]


class RefusedError(RuntimeError):
    """The compiler alone cannot run the model."""


def measure(
    name: str, device: str, compiler: Compiler, batches: tuple[int, ...] | None = None, sparse: int = SPARSE, plan: optimus.Plan | None = None
) -> dict[str, Any]:
    """What differs for one model, in this process. ``plan``: another than the default one."""
    start = time.monotonic()
    torch.backends.cudnn.allow_tf32 = False  # convolutions of float32 with 10 bits of mantissa are judged as what they are not
    model = Model.of(name, device, batches or (OF_IMAGES if name in IMAGES else BATCHES), sparse)
    found: dict[str, Any] = {"model": name}
    with quiet():
        judges = {batch: Judge(model.program, lambda batch=batch: model.given(batch)) for batch in model.batches}
        found["reference"] = [judge.by for judge in judges.values()]
        found["compared"] = judges[model.batches[0]].counts
        compiler, theirs, found["refused"] = _usable(model, compiler)
        optimus.clear_journals()
        options = {"plan": plan} if plan is not None else {}
        ours = run(model, compiler, lambda inner: (optimus.backend, {"compiler": inner, **options}))
        found["compiler"] = compiler if isinstance(compiler, str) else getattr(compiler, "__name__", "a function")
        found["graphs"] = ours.unique
        found["rewrites"] = sum(len(j.rewrites) for j in optimus.journals())
        found["patterns"] = sorted({r.pattern for j in optimus.journals() for r in j})
        eager = Way(losses=[losses(model.program, model.given(model.batches[0])) for _ in range(TURNS)])
        wide = losses(model.program, model.given(model.batches[0], torch.float64), wide=True)
        same = bool(ours.graphs) and ours.graphs == theirs.graphs
        verdict = Verdict.of(judges, eager, theirs, ours, wide, same)
        found["compiled again"] = bool(verdict.open)
        if verdict.open:
            with torch._inductor.config.patch(force_disable_caches=True):
                theirs.add(run(model, compiler))
            verdict = Verdict.of(judges, eager, theirs, ours, wide, same)
    found |= {"one graph": same, "steps": {"eager": eager.losses, "theirs": theirs.losses, "ours": ours.losses, "float64": [wide]}}
    found |= verdict.as_data()
    found["seconds"] = round(time.monotonic() - start, 1)
    return found


def _usable(model: Model, compiler: Compiler) -> tuple[Compiler, Way, str]:
    """The compiler, or the first in its stead, that runs the model without optimus; what it gave; and why the ones before it did not."""
    refusals = []
    for chosen in (compiler, *(INSTEAD.get(compiler, ()) if isinstance(compiler, str) else ())):
        try:
            return chosen, run(model, chosen), "; ".join(refusals)
        except RefusedError as error:
            refusals.append(str(error))
    raise RuntimeError("; ".join(refusals))


@dataclass
class Model:
    """A model as a function of its parameters, buffers and inputs."""

    program: Callable[..., Any]
    values: Callable[[], list[Any]]
    inputs: Sequence[torch.Tensor]
    batches: Sequence[int]

    @classmethod
    def of(cls, name: str, device: str, batches: Sequence[int], sparse: int) -> Model:
        """The model ``name`` of :func:`benchmarks.models.make`."""
        made, inputs = make(name, max(batches), device=device, sparse=sparse)
        made = made.to(device)
        program, values = functional(made.eval() if name in ENCODERS else made)
        return cls(program, values, inputs, batches)

    def given(self, batch: int, dtype: torch.dtype | None = None) -> list[Any]:
        """Fresh values and the first rows of the inputs, the values in ``dtype``."""
        values = [v.detach().to(dtype).requires_grad_(v.requires_grad) if dtype and v.is_floating_point() else v for v in self.values()]
        return [*values, *(torch.clone(i[:batch]) for i in self.inputs)]


def functional(model: Any) -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    """The model as a function of its parameters, buffers and inputs, and fresh values for the former."""
    from torch.func import functional_call

    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)

    def program(*given: Any) -> Any:
        x = tuple(i.to(given[0].dtype) if i.is_floating_point() else i for i in given[len(names) :])
        return functional_call(model, dict(zip(names, given, strict=False)), x)

    return program, lambda: [v.detach().clone().requires_grad_(v.requires_grad) for v in state.values()]


@dataclass
class Way:
    """What one way of running a model gave: runs by batch, losses by run, and the graphs that its compiler got, as text."""

    runs: dict[int, list[Run]] = field(default_factory=dict)
    losses: list[list[float]] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    unique: int = 0

    def add(self, other: Way) -> None:
        """The runs of another compile of the same."""
        for batch, runs in other.runs.items():
            self.runs[batch] += runs
        self.losses += other.losses


def run(model: Model, compiler: Compiler, behind: Callable[[Any], tuple[Any, Any]] | None = None) -> Way:
    """The model compiled once: runs on each batch, and steps of training. ``behind``: backend and options that put ``compiler`` behind optimus.

    Raises :class:`RefusedError` where the compiler alone cannot run it.
    """
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    found = Way()
    with received(compiler, found.graphs) as told:
        backend, options = (told, None) if behind is None else behind(told)
        fast = torch.compile(model.program, backend=backend, options=options)
        for batch in model.batches:
            found.runs[batch] = []
            for _ in range(TURNS):
                given = model.given(batch)
                for i in given[-len(model.inputs) :]:
                    torch._dynamo.mark_dynamic(i, 0)
                once = observe(fast, given)
                if behind is None and (once.raised or once.backward_raised):
                    raise RefusedError(
                        f"{compiler if isinstance(compiler, str) else 'the compiler'} alone raises {once.raised or once.backward_raised}"
                    )
                found.runs[batch].append(once)
        raised = any(r.raised or r.backward_raised for runs in found.runs.values() for r in runs)
        for _ in range(TURNS):
            found.losses.append([math.nan] * STEPS if raised else losses(fast, model.given(model.batches[0])))
    found.unique = counters["stats"]["unique_graphs"]
    return found


@contextlib.contextmanager
def received(compiler: Compiler, texts: list[str]) -> Iterator[Compiler]:
    """Inside, what the compiler is given is printed to ``texts``: graphs of operators, and those of ATen that it runs or lowers."""
    if not isinstance(compiler, str):
        yield lambda gm, inputs: (texts.append(printed(gm)), compiler(gm, inputs))[1]
        return
    from torch._dynamo.backends import common, debugging

    def noting(function: Any) -> Any:
        return lambda gm, *args, **kwargs: (texts.append(printed(gm)), function(gm, *args, **kwargs))[1]

    with (
        mock.patch.object(common, "aot_module_simplified", noting(common.aot_module_simplified)),
        mock.patch.object(debugging, "boxed_nop", noting(debugging.boxed_nop)),
        torch._inductor.config.patch(post_grad_custom_post_pass=Noting(texts)),
    ):
        yield compiler


class Noting(CustomGraphPass):
    """Prints the graphs that Inductor lowers."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Change nothing."""
        assert isinstance(graph.owning_module, torch.fx.GraphModule)
        self.texts.append(printed(graph.owning_module))

    def uuid(self) -> Any:
        """None: a graph from a cache would not be seen."""
        return None


def printed(gm: torch.fx.GraphModule) -> str:
    """A graph with shapes, strides and devices as text."""
    return gm.print_readable(print_output=False, include_stride=True, include_device=True)


class Judge:
    """Eager on one batch, and how far off it other runs are. Raises ``RuntimeError`` if eager cannot run, or has no gradient."""

    def __init__(self, program: Callable[..., Any], inputs: Callable[[], list[Any]]) -> None:
        self.program, self.inputs = program, inputs
        self.eager, *others = (observe(program, inputs()) for _ in range(TURNS))
        if self.eager.raised or self.eager.backward_raised:
            raise RuntimeError(f"eager raises {self.eager.raised or self.eager.backward_raised}")
        self.spread = Spread.between([self.eager, *others])
        self.exact: list[Reference | None] = [reference(program, inputs(), self.eager, 0, *STAGES[0])]
        self.counts = {
            "outputs": len(self.eager.outputs),
            "gradients": sum(g is not None for g in self.eager.gradients),
            "buffers": sum(not same(a, b) for a, b in zip(inputs(), self.eager.inputs_after, strict=True)),
        }
        if not self.counts["gradients"]:
            raise RuntimeError("eager has no gradient")

    @property
    def by(self) -> str:
        """What it is judged by."""
        return "none" if self.exact[0] is None else self.exact[0].by

    def __call__(self, run: Any) -> tuple[int, list[str]]:
        """How many outputs, gradients and buffers have other bits than in eager, and what is further off than rounding explains."""
        bits, lines = len(differences(self.eager, run, bitwise=True)), []
        for k, stage in enumerate(STAGES if bits else ()):
            if k == len(self.exact):
                self.exact.append(reference(self.program, self.inputs(), self.eager, 0, *stage))
            lines = differences(self.eager, run, self.exact[k], bitwise=False)
            if not lines or self.exact[k] is None:
                break
        return bits, lines

    def explains(self, spread: Spread, place: str, run: Run) -> bool:
        """See :meth:`Spread.explains`."""
        exact = self.exact[-1]
        return exact is not None and spread.explains(place, self.eager, run, exact)

    def worst(self, spread: Spread) -> float:
        """See :meth:`Spread.worst`."""
        exact = self.exact[-1]
        return spread.worst(self.eager, exact) if exact is not None else math.inf if len(spread) else 0.0


def same(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same values, NaN for NaN."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def losses(program: Callable[..., Any], given: list[Any], *, wide: bool = False) -> list[float]:
    """The losses of several steps of SGD with momentum. ``wide``: what the model makes anew is float64."""
    optimizer = torch.optim.SGD([v for v in given if v.requires_grad], lr=RATE, momentum=0.9)
    found = []
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    try:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = (program(*given) - 0.25).square().mean()
            loss.backward()
            optimizer.step()
            found.append(float(loss))
    finally:
        torch.set_default_dtype(torch.float32)
    return found


@dataclass
class Verdict:
    """What differs, and what each difference is put down to."""

    bits: dict[str, int]
    lines: dict[str, list[str]]
    apart: dict[str, int]
    """How many outputs, gradients and buffers have other bits from run to run: of eager, of the compiler alone, and behind optimus."""
    furthest: dict[str, float]
    """How far from run to run at most, as a part of what is allowed."""
    classes: dict[str, list[str]]

    @property
    def open(self) -> bool:
        """Whether another compile of the compiler alone could tell more."""
        return any(self.classes[c] for c in (SAME_GRAPH, UNEXPLAINED))

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {"bits": self.bits, "differences": self.lines, "apart": self.apart, "furthest": self.furthest, **self.classes}

    @classmethod
    def of(cls, judges: dict[int, Judge], eager: Way, theirs: Way, ours: Way, exact: Sequence[float], same: bool) -> Verdict:
        """That of all runs there are."""
        ways = {"ours": ours, "theirs": theirs}
        bits = {way: sum(judges[b](runs[0])[0] for b, runs in ran.runs.items()) for way, ran in ways.items()}
        found = {way: [(b, r, line) for b, runs in ran.runs.items() for r in runs for line in judges[b](r)[1]] for way, ran in ways.items()}
        spreads = {way: {b: Spread.between(runs) for b, runs in ran.runs.items()} for way, ran in ways.items()}
        spreads["eager"] = {b: judge.spread for b, judge in judges.items()}
        apart = {way: sum(map(len, by.values())) for way, by in spreads.items()}
        furthest = {way: max(judges[b].worst(s) for b, s in by.items()) for way, by in spreads.items()}
        lines = {way: _once([(f"batch {b}: {line}") for b, _, line in all_]) for way, all_ in found.items()}
        classes: dict[str, list[str]] = {c: [] for c in (COMPILERS, NONDETERMINISTIC, SAME_GRAPH, UNEXPLAINED)}
        for b, r, line in found["ours"]:
            place, said, spread = size_of(line)[0], f"batch {b}: {line}", spreads["theirs"][b]
            if excused(said, lines["theirs"]):
                classes[COMPILERS].append(said)
            elif judges[b].explains(spread, place, r):
                classes[NONDETERMINISTIC].append(said)
            elif same and place in spread.of:
                classes[SAME_GRAPH].append(said)
            else:
                classes[UNEXPLAINED].append(said)
        for what, said in of_steps(eager.losses, theirs.losses, ours.losses, exact, same):
            classes[what].append(said)
        return cls(bits, lines, apart, furthest, {c: _once(said) for c, said in classes.items()})


def _once(lines: Sequence[str]) -> list[str]:
    """One line for each place, that of the largest difference."""
    found: dict[str, str] = {}
    for line in lines:
        place, size = size_of(line)
        if place not in found or size > size_of(found[place])[1]:
            found[place] = line
    return list(found.values())


def excused(line: str, alone: Sequence[str]) -> bool:
    """Whether the compiler alone has the same difference, or at the same place one that is not much smaller."""
    place, size = size_of(line)
    return line in alone or any(size <= SLACK * other for where, other in map(size_of, alone) if where == place)


def size_of(difference: str) -> tuple[str, float]:
    """Where a difference is, and how many times what is allowed it is; NaN where that is not known, which nothing explains."""
    place = place_of(difference) or difference
    worst = re.search(r"at worst (\S+) times what is allowed$", difference)
    return place, float(worst[1]) if worst else math.nan


def of_steps(
    eager: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]], exact: Sequence[float], same: bool
) -> Iterator[tuple[str, str]]:
    """Losses of ours that are further from float64 than those of eager and of the compiler alone in their first runs, and what that is put down to."""
    for step, right in enumerate(exact):
        off = {way: abs(runs[0][step] - right) for way, runs in (("eager", eager), ("theirs", theirs))}
        allowed = SLACK * max(off.values()) + 1e-6 * abs(right)
        values = [run[step] for run in theirs]
        spread = math.inf if any(map(math.isnan, values)) else max(values) - min(values)
        worst = max((abs(run[step] - right) for run in ours), key=lambda o: (math.isnan(o), o))
        if worst <= allowed:
            continue
        said = f"step {step + 1}: the loss is off by {worst:.3g}, eager's by {off['eager']:.3g}, the compiler's by {off['theirs']:.3g}"
        said += f", which lies apart by {spread:.3g} from run to run"
        yield (NONDETERMINISTIC if worst - allowed <= spread < math.inf else SAME_GRAPH if same and spread else UNEXPLAINED), said
