"""Proof at ATen-IR: what autograd makes of both sides of a rewrite, forward and backward.

Both graphs are lowered and validated like Torch-IR, the forward graphs as they are, the joint graphs for any cotangents. What a
proof of values does not say is compared on the traces: which inputs get no gradient at all, and which outputs require one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy.functions import FloorDiv

from optimus.operators import bind
from optimus.values import leaves, value
from optimus.versions import generic_truth
from verify.lowering import Lowered, LoweringError, lower
from verify.prover.task import Task
from verify.semantics.tensor import UnmodelledError
from verify.smtlib import Query, asked_for, asked_part, attempt, pass_on
from verify.validation import TIMEOUT_S, Reading, validate
from verify.verdict import GROUPING, LAWS, NEUTRAL, REORDERED, UNIT, ZEROS, Counterexample, Proved, Refuted, Unknown, Unmodelled, Verdict
from verify.witness import FEW, witness

ALGEBRAS = ((), (ZEROS,), (NEUTRAL,), (GROUPING,), (GROUPING, UNIT), (GROUPING, NEUTRAL, UNIT), (GROUPING, NEUTRAL, UNIT, ZEROS))
"""The laws that a proof may use, fewest first: what the first that does uses is what the proof needs."""

SUMS = {"sum", "linear", "mm", "bmm", "addmm", "baddbmm", "matmul", "native_layer_norm_backward", "optimus::group_linear"}
MAKE_ZEROS = {"zeros", "new_zeros", "zeros_like", "full", "new_full", "number_as_tensor", "select_backward", "slice_backward", "constant_pad_nd"}
SPEAK_OF = {
    GROUPING: {"add", *SUMS},
    NEUTRAL: SUMS | MAKE_ZEROS,
    ZEROS: {"constant_pad_nd"},
    UNIT: {"ones", "new_ones", "ones_like", "full", "new_full", "number_as_tensor"},
}
"""Operators of a graph without which a law has nothing to say of it."""

BRIEF_S, FIRST_S = 1.0, 5.0
"""The time for each query of a try after which there are others: at first, and once more where it ran out."""


ACCUMULATIONS = ("nothing is proved", "the order may change", "the order is kept")
"""What is known of the order in which the gradients of several uses are added, the weakest first."""


@dataclass(frozen=True)
class Sides:
    """The side conditions of a statement about gradients, as the traces of both graphs have them.

    ``wanted``: the inputs that require a gradient. ``without``: those of them that get None, not zeros, before and after.
    ``requires_grad``: of each output, before and after. ``fan_out``: values whose gradient is a sum over several uses, before
    and after. ``assumed``: what PyTorch took for true of the sizes while it traced, beyond what the capture guards.
    """

    wanted: tuple[str, ...]
    without: tuple[tuple[str, ...], tuple[str, ...]]
    requires_grad: tuple[tuple[bool, ...], tuple[bool, ...]]
    fan_out: tuple[int, int]
    assumed: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Whether both graphs give the same inputs None, and let the same outputs require gradients."""
        return self.without[0] == self.without[1] and self.requires_grad[0] == self.requires_grad[1]


@dataclass(frozen=True)
class AtenProof:
    """Verdicts on the ATen-IR graphs. ``backward``: None where no output requires a gradient, or no input wants one."""

    forward: Verdict
    backward: Verdict | None
    sides: Sides | None
    seconds: float

    @property
    def verdicts(self) -> list[Verdict]:
        """Those that were asked for."""
        return [self.forward] if self.backward is None else [self.forward, self.backward]

    @property
    def accumulation(self) -> str:
        """What is proved of the order in which the gradients of several uses are added."""
        if not isinstance(self.backward, Proved):
            return ACCUMULATIONS[0]
        return ACCUMULATIONS[1 if {LAWS[REORDERED].text, LAWS[GROUPING].text} & set(self.backward.ledger) else 2]


def prove_aten(
    before: GraphModule, after: GraphModule, *, timeout_s: float = TIMEOUT_S, second_solver: bool = True, called: Mapping[str, str] | None = None
) -> AtenProof:
    """Prove that two captured graphs agree at ATen-IR, forward and backward. ``called``: what to call the symbols of sizes."""
    start = time.monotonic()
    both = _lowered(before, after, called or {})
    if not isinstance(both, tuple):
        return AtenProof(both, None, None, time.monotonic() - start)
    found = prove_lowered(*both, timeout_s=timeout_s, second_solver=second_solver, called=called, memory=False)
    return replace(found, seconds=time.monotonic() - start)


def prove_lowered(
    left: Lowered,
    right: Lowered,
    *,
    timeout_s: float = TIMEOUT_S,
    second_solver: bool = True,
    called: Mapping[str, str] | None = None,
    memory: bool = True,
) -> AtenProof:
    """Prove that the graphs of two programs agree, forward and backward; see :func:`prove_aten`.

    ``memory``: whether the memory that outputs and gradients share counts in the joint graphs too.
    """
    start = time.monotonic()
    names = _Names(left, called or {})
    try:
        assumed, unfounded = _assumed(left, right)
    except UnmodelledError as error:
        return AtenProof(Unmodelled(str(error)), None, None, time.monotonic() - start)
    sides = Sides(
        left.wanted,
        (left.without, right.without),
        (left.requires_grad, right.requires_grad),
        (left.fan_out, right.fan_out),
        tuple(map(names.size, assumed)),
    )
    if unfounded:
        reason = Unmodelled(f"a size that PyTorch specialises on: {names.size(unfounded[0])}")
        return AtenProof(reason, None, sides, time.monotonic() - start)
    with asked_for(f"{asked_part()}, ATen forward"):
        forward = names.verdict(least(left.forward, right.forward, frozenset(), timeout_s, second_solver))
    backward = None
    if left.wanted and any((*left.requires_grad, *right.requires_grad)):
        with asked_for(f"{asked_part()}, ATen backward"):
            # Where autograd made both graphs, the memory of gradients is nobody's business, and that of outputs the forward graph's.
            private = frozenset() if memory else frozenset(range(left.outputs + len(left.wanted)))
            backward = names.verdict(_backward(left, right, sides, private, timeout_s, second_solver))
    return AtenProof(forward, backward, sides, time.monotonic() - start)


def autograd_objects(before: GraphModule, after: GraphModule, called: Mapping[str, str] | None = None) -> Verdict | None:
    """Why autograd does not treat both graphs alike, as far as lowering them shows; None if nothing is shown. Cheaper than a proof."""
    both = _lowered(before, after, called or {})
    if not isinstance(both, tuple):
        return both
    left, right = both
    if left.without != right.without:
        return Unknown(f"inputs without a gradient: {', '.join(left.without) or 'none'} became {', '.join(right.without) or 'none'}")
    return None


def _lowered(before: GraphModule, after: GraphModule, called: Mapping[str, str]) -> tuple[Lowered, Lowered] | Verdict:
    """Both graphs at ATen-IR, or the verdict where one of them has no such form."""
    try:
        left = lower(before)
    except LoweringError as error:
        return Unmodelled(f"lowering to ATen-IR: {error}")
    try:
        return left, lower(after)
    except LoweringError as error:
        return _not_lowered(before, after, error, called)


def _not_lowered(before: GraphModule, after: GraphModule, error: LoweringError, called: Mapping[str, str]) -> Verdict:
    """The verdict where only the second graph cannot be lowered: refuted where real tensors show that it raises, or another difference."""
    reason = Unmodelled(f"lowering the second graph to ATen-IR: {error}")
    try:
        sizes = _premises(before).any_sizes()
        inputs, seen = witness(before, after, sizes, frozenset(), signed_zeros=False, draws=FEW)
    except (UnmodelledError, KeyError):
        return reason
    if not seen:
        return reason
    sizes = {called.get(symbol, symbol): size for symbol, size in sizes.items()}
    return Refuted(Counterexample(seen[0], sizes, tuple(seen), before.code.strip(), after.code.strip(), tuple(inputs)))


def _premises(*graphs: GraphModule) -> Task:
    """What the captures take for granted of the sizes of the inputs. Raises :class:`UnmodelledError` for sizes without a term."""
    task = Task(FIRST_S, False)
    for gm in graphs:
        for node in gm.graph.find_nodes(op="placeholder"):
            for size in _sizes(node):
                task.sizes.term(size)
    task.assume()
    return task


def _backward(left: Lowered, right: Lowered, sides: Sides, private: frozenset[int], timeout_s: float, second_solver: bool) -> Verdict:
    one, other = sides.requires_grad
    if one != other:
        k = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        what = f"output {k}: requires_grad {one[k : k + 1]} became {other[k : k + 1]}"
        if len(one) != len(other):
            what = f"{len(one)} outputs became {len(other)}"
        return Refuted(Counterexample(what, {}, (what,), left.joint.code.strip(), right.joint.code.strip()))
    try:
        return least(left.joint, right.joint, private, timeout_s, second_solver)
    except ValueError as error:  # the inputs of the forward graphs do correspond
        return Unknown(f"the cotangents do not correspond: {error}")


def least(before: GraphModule, after: GraphModule, private: frozenset[int], timeout_s: float, second_solver: bool) -> Verdict:
    """The verdict by as few laws as it takes; by all of them where none suffices."""
    *fewer, most = _algebras(before, after)
    tries = _Tries(before, after, private, second_solver)
    brief, first = min(timeout_s, BRIEF_S), min(timeout_s, FIRST_S)
    failed: list[frozenset[str]] = []
    late: list[frozenset[str]] = []
    found: tuple[Verdict, list[Query]] | None = None
    for laws in fewer:
        verdict, queries = tries.ask(laws, brief)
        if not isinstance(verdict, Unknown):
            found = verdict, queries
            break
        (failed if verdict.shown else late).append(laws)
    for laws in sorted(late, key=len, reverse=True):  # what does not follow from laws does not from fewer of them
        if any(laws <= more for more in failed):
            continue
        verdict, queries = tries.ask(laws, first)
        if isinstance(verdict, Unknown):
            failed.append(laws)
        else:
            found = verdict, queries
    if found is not None:
        pass_on(found[1])
        return found[0]
    reading = Reading(differentiated=True, laws=most)
    return validate(before, after, private=private, timeout_s=timeout_s, second_solver=second_solver, reading=reading)


@dataclass
class _Tries:
    """Tries to prove one statement by different laws. ``doubted``: the goal that the last one failed on."""

    before: GraphModule
    after: GraphModule
    private: frozenset[int]
    second_solver: bool
    doubted: str = ""

    def ask(self, laws: frozenset[str], timeout_s: float) -> tuple[Verdict, list[Query]]:
        """The verdict by ``laws``, each query within ``timeout_s``, and the queries; a difference is not replayed."""
        reading = Reading(differentiated=True, laws=laws, replayed=False, doubted=self.doubted)
        with attempt() as queries:
            found = validate(self.before, self.after, private=self.private, timeout_s=timeout_s, second_solver=self.second_solver, reading=reading)
        if isinstance(found, Unknown):
            self.doubted = found.goal or self.doubted
        return found, queries


def _algebras(*graphs: GraphModule) -> list[frozenset[str]]:
    """Those of the algebras that differ on the operators of ``graphs``."""
    called = {call.op for gm in graphs for node in gm.graph.nodes if (call := bind(node)) is not None}
    spoken = {law for law, operators in SPEAK_OF.items() if operators & called}

    def speaks(law: str, laws: Sequence[str]) -> bool:
        """Of sums, that 0 is neutral says something only where they are taken apart, which is where additions may be grouped."""
        return law in spoken and (law != NEUTRAL or GROUPING in laws or bool(MAKE_ZEROS & called))

    return list(dict.fromkeys(frozenset(law for law in laws if speaks(law, laws)) for laws in ALGEBRAS))


@dataclass(frozen=True)
class _Names:
    """What outputs of the joint graph and symbols of sizes are called."""

    lowered: Lowered
    called: Mapping[str, str]

    def size(self, text: str) -> str:
        """An expression of symbols in the words of the case."""
        return re.sub(r"\bs\d+\b", lambda m: self.called.get(m[0], m[0]), text)

    def output(self, text: str) -> str:
        """A text about outputs, those behind the outputs of the forward graph being gradients."""
        return re.sub(r"\boutput (\d+)", lambda m: self._output(int(m[1])), text)

    def _output(self, k: int) -> str:
        return f"output {k}" if k < self.lowered.outputs else f"the gradient of {self.lowered.wanted[k - self.lowered.outputs]}"

    def verdict(self, found: Verdict) -> Verdict:
        """The verdict in these words."""
        match found:
            case Refuted(seen):
                told = tuple(map(self.output, seen.differences))
                sizes = {self.size(symbol): size for symbol, size in seen.sizes.items()}
                return Refuted(replace(seen, what=self.output(seen.what), differences=told, sizes=sizes))
            case Unknown(reason):
                return Unknown(self.size(self.output(reason)))
        return found


def _assumed(*graphs: Lowered) -> tuple[tuple[str, ...], list[str]]:
    """What tracing took for true of the sizes and the premises do not entail; and of that, what is not so of all sizes of 2 and more."""
    task = _premises(*(graph.joint for graph in graphs))
    questions = dict.fromkeys(q for graph in graphs for q in graph.questions)
    open_ = [q for q in questions if not _entailed(task, q)]
    return tuple(map(str, open_)), [str(q) for q in open_ if generic_truth(q) is not True]


def _entailed(task: Task, question: Any) -> bool:
    formula = task.sizes.formula(_divided(task, question))
    return formula is not None and task.logic.decide(formula) is True


def _divided(task: Task, question: Any) -> Any:
    """The question with ``(k * b - 1) // b`` as ``k - 1`` where ``b`` is at least 1: so many whole pieces lie before the last."""

    def quotient(above: Any, below: Any) -> Any:
        whole = sympy.expand((above + 1) / below)
        sure = whole.is_Integer and _entailed(task, sympy.Ge(below, 1))
        return whole - 1 if sure else FloorDiv(above, below)

    return question.replace(lambda e: isinstance(e, FloorDiv) and not e.args[1].is_Integer, lambda e: quotient(*e.args))


def _sizes(node: Node) -> Sequence[Any]:
    """The sizes that an input has, or is."""
    found = value(node)
    return [found] if isinstance(found, (int, torch.SymInt)) else [s for t in leaves(found) for s in t.shape]
