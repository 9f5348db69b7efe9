"""Run programs in eager, through a compiler alone, and through the compiler behind the engine; say who changed what."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fuzz.disturb import runs
from fuzz.program import Program
from fuzz.templates import instantiate
from optimus.capture import names
from optimus.pattern import Exactness
from optimus.postgrad import HOOK, PostGradPass, aot_eager
from verify.compare import STAGES, Reference, Run, compared, observe, reference
from verify.lowered import is_lowered
from verify.spread import Spread, place_of
from verify.subject import PassError, Subject, applied


@dataclass(frozen=True)
class Comparison:
    """One program three ways. ``ours``: what differs from eager with the subject; ``theirs``: without it; ``unsteady``: see :class:`ThreeWay`."""

    name: str
    compiler: str
    dynamic: bool
    fired: int
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    unsteady: tuple[str, ...] = ()

    @property
    def blamed(self) -> bool:
        """Whether the subject changes something that the compiler alone does not."""
        return bool(set(self.ours) - set(self.theirs) - set(self.unsteady))


def differential(
    subject: Subject, compilers: Sequence[str] = ("aot_eager", "inductor"), device: str = "cpu", most: int = 100
) -> Iterator[Comparison]:
    """Compare the cases of ``subject`` at two sets of sizes, static and dynamic, through each of ``compilers``.

    Where a pattern of ATen-IR leaves alone what is saved for the backward pass, the case runs again without gradients. ``most``: programs per
    compiler at most.
    """
    for compiler in compilers:
        for number, (program, dynamic) in enumerate(_programs(subject)):
            if number >= most:
                break
            found = compare(subject, program, compiler, device, dynamic=dynamic)
            yield found
            if is_lowered(subject) and not found.fired:
                yield compare(subject, program, compiler, device, dynamic=dynamic, gradients=False)


def _programs(subject: Subject) -> Iterator[tuple[Program, bool]]:
    for dynamic, sizes in ((False, (2, 3, 4, 5, 6, 7, 8, 9)), (True, (3, 5, 2, 4, 7, 6, 9, 8))):
        for case in subject.cases:
            program = instantiate(case, dict(zip(names(case), sizes, strict=False)))
            if not runs(program):
                program = instantiate(case, dict.fromkeys(names(case), 2))
            yield program, dynamic


def compare(subject: Subject, program: Program, compiler: str, device: str = "cpu", *, dynamic: bool = False, gradients: bool = True) -> Comparison:
    """One program in eager, through ``compiler``, and through ``compiler`` behind ``subject``."""

    def inputs() -> list[torch.Tensor]:
        return [t.detach().to(device).requires_grad_(gradients and t.requires_grad) for t in program.make_inputs()]

    bitwise = subject.exactness is Exactness.BITWISE and compiler == "aot_eager"
    run = three_way(program.function(), inputs, backend(subject, compiler), compiler, bitwise=bitwise, dynamic=dynamic)
    name = program.origin if gradients else f"{program.origin} without gradients"
    return Comparison(name, compiler, dynamic, run.fired, run.ours, run.theirs, run.unsteady)


@dataclass(frozen=True)
class ThreeWay:
    """What differs from eager with and without the subject, and how often it fired.

    ``unsteady``: those of ``ours`` that are too large by no more than the compiler alone lies apart from run to run.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    fired: int
    unsteady: tuple[str, ...] = ()


class Backend:
    """A ``torch.compile`` backend that runs a subject and then a compiler; counts rewrites, and notes where the subject raises."""

    def __init__(self, subject: Subject, compiler: str) -> None:
        self.subject = subject
        self.compiler = compiler
        self.fired = 0
        self.faults: list[str] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """See :func:`torch.compile`."""
        if is_lowered(self.subject):
            return self._behind_autograd(gm, example_inputs)
        self._change(gm)
        inner: Callable[..., Any] = torch._dynamo.lookup_backend(self.compiler)
        compiled: Callable[..., Any] = inner(gm, example_inputs)
        return compiled

    def _change(self, gm: torch.fx.GraphModule) -> None:
        try:
            self.fired += len(applied(self.subject, gm).rewrites)
        except PassError as error:  # what Dynamo says of it hides what it was
            self.faults.append(str(error))
            raise

    def _behind_autograd(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """The subject on what autograd makes of the graph; ``inductor`` then compiles that, any other compiler runs it."""
        if self.compiler != "inductor":
            return aot_eager(self._change)(gm, example_inputs)
        from torch._inductor.compile_fx import compile_fx

        patches = {HOOK: PostGradPass(self._change, None)}
        return compile_fx(gm, example_inputs, config_patches=patches)  # type: ignore[arg-type, return-value]


def backend(subject: Subject, compiler: str) -> Backend:
    """The backend that runs ``subject`` in front of ``compiler``."""
    return Backend(subject, compiler)


def three_way(
    program: Callable[..., Any], make_inputs: Callable[[], Sequence[Any]], ours: Backend, compiler: str, *, bitwise: bool, dynamic: bool = False
) -> ThreeWay:
    """Run ``program`` in eager, through ``compiler``, and through ``ours``; compare the latter two with eager.

    Where ``ours`` alone differs, the compiler alone runs again, and compiles again, to see how far it lies apart from itself.
    """

    def compiled(chosen: Any) -> Callable[..., Any]:
        torch._dynamo.reset()
        return torch.compile(copy.copy(program), backend=chosen, dynamic=dynamic or None)

    with quiet():
        mine, eager, run = compared(program, compiled(ours), make_inputs, bitwise=bitwise)
        alone = compiled(compiler)
        theirs, _, once = compared(program, alone, make_inputs, bitwise=bitwise)
        unsteady: list[str] = []
        if set(mine) - set(theirs):
            runs = [once, observe(alone, make_inputs()), observe(compiled(compiler), make_inputs())]
            unsteady = _unsteady(set(mine) - set(theirs), runs, lambda: reference(program, make_inputs(), eager, 0, *STAGES[-1]), eager, run)
        torch._dynamo.reset()
    return ThreeWay((*dict.fromkeys(ours.faults), *mine), tuple(theirs), ours.fired, tuple(unsteady))


def _unsteady(lines: Iterable[str], runs: Sequence[Run], exact: Callable[[], Reference | None], eager: Run, run: Run) -> list[str]:
    """Those of ``lines`` that are too large by no more than ``runs`` of the compiler alone lie apart."""
    spread = Spread.between(runs)
    judge = exact() if spread.of else None
    return [line for line in lines if judge is not None and spread.explains(place_of(line), eager, run, judge)]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and the compiler's logs out of a report; what matters stands in the result."""
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
