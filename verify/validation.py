"""Translation validation: are two captured graphs the same function, for all sizes that the capture admits?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from optimus.regions import Region
from optimus.values import MISSING, tensor, value
from verify.compare import differences, observe, reference
from verify.prover.solve import Invalid, Undecided
from verify.prover.task import Task
from verify.semantics.evaluate import Evaluator, Outcome
from verify.semantics.tensor import Place, Product, Tensor, UnmodelledError, number, same_number
from verify.verdict import Counterexample, Proved, Refuted, Unknown, Unmodelled, Vacuous, Verdict, explain

TIMEOUT_S = 20.0


def validate(
    before: GraphModule,
    after: GraphModule,
    *,
    private: frozenset[int] = frozenset(),
    timeout_s: float = TIMEOUT_S,
    second_solver: bool = True,
    grad: bool = True,
) -> Verdict:
    """Whether ``after`` computes what ``before`` computes, outputs, memory they share, and inputs at the end.

    Both must be captured graphs with metadata and the same inputs in the same order. A refutation has been replayed on
    real tensors; one that does not replay is reported as unknown. ``private``: outputs whose memory and strides do not
    matter (see :class:`optimus.regions.Region`). Raises ``ValueError`` if the inputs do not correspond.
    """
    start = time.monotonic()
    try:
        proof = _Proof(before, after, private, timeout_s, second_solver, grad)
        return proof.run(start)
    except UnmodelledError as error:
        return Unmodelled(str(error))


def validator(region: Region) -> str | None:
    """For ``validate="prove"``: None if the region is proved, else why not."""
    verdict = validate(region.before, region.after, private=region.private)
    return None if isinstance(verdict, Proved) else explain(verdict)


@dataclass(frozen=True)
class _Disagreement:
    """A goal that fails: what it is about, and sizes for which it does."""

    what: str
    sizes: dict[str, int]


class _Proof:
    def __init__(self, before: GraphModule, after: GraphModule, private: frozenset[int], timeout_s: float, second_solver: bool, grad: bool) -> None:
        self.before, self.after = before, after
        self.private = private
        self.grad = grad
        self.task = Task(timeout_s, second_solver)
        self.placeholders = _corresponding(before, after)

    def run(self, start: float) -> Verdict:
        task = self.task
        inputs = {str(k): self._input(str(k), node) for k, node in enumerate(self.placeholders)}
        task.assume()
        evaluator = Evaluator(task.logic, task.sizes.term, self.grad)
        left, right = evaluator.run(self.before, inputs), evaluator.run(self.after, inputs)
        if task.contradictory(left.required):
            return Vacuous("the premises of the graph contradict one another")
        found = self._compare(left, right)
        if isinstance(found, _Disagreement):
            return self._replay(found)
        if isinstance(found, Undecided):
            return Unknown(found.reason)
        return Proved("E1" if task.reordered else "E0", task.queries, task.confirmed, time.monotonic() - start)

    def _input(self, name: str, node: Node) -> Any:
        found = value(node)
        if isinstance(found, torch.Tensor):
            dims = tuple(self.task.sizes.term(s) for s in found.shape)
            return Tensor(dims, lambda i: self.task.logic.element(name, _flat_index(dims, i)), found.dtype)
        if isinstance(found, (torch.SymInt, int)):
            return self.task.sizes.term(found)
        if found is MISSING:
            raise UnmodelledError(f"the input {node.name} without metadata")
        raise UnmodelledError(f"the input {node.name}, a {type(found).__name__}")

    def _compare(self, left: Outcome, right: Outcome) -> _Disagreement | Undecided | None:
        if len(left.outputs) != len(right.outputs):
            return _Disagreement(f"{len(left.outputs)} outputs became {len(right.outputs)}", self.task.any_sizes())
        failed = self._follows("whether it raises", left.required, right.required) or self._follows(
            "whether it raises", right.required, left.required
        )
        if failed is not None:
            return failed
        for k, (one, other) in enumerate(zip(left.outputs, right.outputs, strict=True)):
            failed = self._equal(f"output {k}", one, other, left.required)
            if failed is not None:
                return failed
        for k, (one, other) in enumerate(zip(left.owners, right.owners, strict=True)):
            if one != other and k not in self.private:
                return _Disagreement(f"output {k}: the memory of {one} became that of {other}", self.task.any_sizes())
        for k, (one, other) in enumerate(zip(left.inputs, right.inputs, strict=True)):
            failed = None if one is other else self._equal(f"tensor input {k} after the call", one, other, left.required)
            if failed is not None:
                return failed
        return None

    def _follows(self, what: str, given: Sequence[Any], wanted: Sequence[Any]) -> _Disagreement | Undecided | None:
        return self._settle(what, given, self.task.logic.all_of(*wanted))

    def _settle(self, what: str, given: Sequence[Any], goal: Any) -> _Disagreement | Undecided | None:
        answer = self.task.prove(given, goal)
        match answer:
            case Invalid():
                return _Disagreement(what, dict(answer.sizes))
            case Undecided():
                return Undecided(f"{what}: {answer.reason}")
        return None

    def _equal(self, what: str, one: Any, other: Any, given: Sequence[Any]) -> _Disagreement | Undecided | None:
        if isinstance(one, Tensor) != isinstance(other, Tensor):
            return _Disagreement(f"{what} is a tensor on one side only", self.task.any_sizes())
        if not isinstance(one, Tensor):
            if one is other or (one is None and other is None):
                return None
            same = one == other if type(one) is type(other) or self.task.is_term(one) or self.task.is_term(other) else False
            return self._settle(what, given, same)
        if one.dtype != other.dtype or len(one.dims) != len(other.dims):
            return _Disagreement(
                f"{what}: {len(one.dims)} dimensions of {one.dtype} became {len(other.dims)} of {other.dtype}", self.task.any_sizes()
            )
        shapes = self.task.logic.all_of(*(same_number(a, b) for a, b in zip(one.dims, other.dims, strict=True)))
        failed = self._settle(f"{what}: shape", given, shapes)
        if failed is not None:
            return failed
        index, inside = self._somewhere(one.dims, other.dims)
        return self._settle(what, [*given, shapes, *inside], one[index] == other[index])

    def _somewhere(self, dims: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
        """An arbitrary index in range. Along a product that both sides keep apart it is a place, else a number."""
        index: list[Any] = []
        inside: list[Any] = []

        def position(extent: Any) -> Any:
            i = self.task.logic.integer("i")
            inside.extend([i >= 0, i < extent])
            return i

        for extent, other in zip(dims, others, strict=True):
            if isinstance(extent, Product) and extent == other:
                index.append(Place(tuple(position(f) for f in extent.factors), extent.factors, self.task.logic))
            elif isinstance(extent, int) and extent == 1:
                index.append(0)
            else:
                index.append(position(number(extent)))
        return tuple(index), inside

    def _replay(self, failed: _Disagreement) -> Verdict:
        inputs = real_inputs(self.placeholders, failed.sizes)
        seen = replay(self.before, self.after, inputs, self.private)
        if not seen:
            return Unknown(f"{failed.what}: differs in the semantics for {failed.sizes or 'the given sizes'}, but not on real tensors")
        return Refuted(Counterexample(failed.what, failed.sizes, tuple(seen), self.before.code.strip(), self.after.code.strip(), tuple(inputs)))


def _flat_index(dims: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index of an input, places along products taken apart."""
    flat: list[Any] = []
    for extent, i in zip(dims, index, strict=True):
        flat += i.parts if isinstance(extent, Product) and isinstance(i, Place) and i.factors == extent.factors else (number(i),)
    return tuple(flat)


def _corresponding(before: GraphModule, after: GraphModule) -> list[Node]:
    left, right = ([n for n in gm.graph.nodes if n.op == "placeholder"] for gm in (before, after))
    if len(left) != len(right):
        raise ValueError(f"validate: the graphs have {len(left)} and {len(right)} inputs; accepted are graphs with the same inputs")
    for one, other in zip(left, right, strict=True):
        a, b = tensor(one), tensor(other)
        if (a is None) != (b is None) or (a is not None and b is not None and (a.dtype, a.dim()) != (b.dtype, b.dim())):
            raise ValueError(f"validate: the inputs {one.name} and {other.name} do not correspond")
    return left


def real_inputs(placeholders: Sequence[Node], sizes: dict[str, int], seed: int = 0) -> list[Any]:
    """Random inputs for placeholders with metadata, their symbols having the values ``sizes``."""
    generator = torch.Generator().manual_seed(seed)
    known = {sympy.Symbol(name): number_ for name, number_ in sizes.items()}

    def plain(size: Any) -> int:
        if isinstance(size, int):
            return size
        expression = size.node.expr
        return int(expression.xreplace({s: known[sympy.Symbol(str(s))] for s in expression.free_symbols}))

    found: list[Any] = []
    for node in placeholders:
        what = value(node)
        if not isinstance(what, torch.Tensor):
            found.append(plain(what))
            continue
        shape = [plain(s) for s in what.shape]
        strides = [plain(s) for s in what.stride()]
        found.append(_random(shape, strides, what.dtype, what.requires_grad, generator))
    return found


def _random(shape: list[int], strides: list[int], dtype: torch.dtype, grad: bool, generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
    elif dtype is torch.bool:
        values = torch.randint(0, 2, shape, generator=generator).bool()
    else:
        values = torch.randint(-3, 4, shape, generator=generator).to(dtype)
    if 0 not in strides:
        values = torch.empty_strided(shape, strides, dtype=dtype).copy_(values)
    return values.requires_grad_(grad and (dtype.is_floating_point or dtype.is_complex))


def replay(before: GraphModule, after: GraphModule, inputs: Sequence[Any], private: frozenset[int] = frozenset()) -> list[str]:
    """Run both graphs on copies of ``inputs`` and list what differs, values bit by bit but for reassociation."""
    first, second, third = (_copies(inputs) for _ in range(3))
    one, other = observe(before.forward, first), observe(after.forward, second)
    exact = reference(before.forward, third, one)
    return differences(one, other, exact, bitwise=False, private=private)


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [i.detach().clone().requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in inputs]
