"""Translation validation: are two captured graphs the same function, for all sizes that the capture admits?"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from optimus.levels import level
from optimus.pattern import IR
from optimus.regions import Region
from optimus.values import MISSING, returns_argument, storages, tensor, value
from verify.cache import Cache, remembered, shared
from verify.plain import pack_proof, unpack_proof
from verify.prover.solve import Invalid, Undecided
from verify.prover.task import Task
from verify.semantics.evaluate import Evaluator, Outcome
from verify.semantics.tensor import Place, Product, Tensor, UnmodelledError, number, same_number
from verify.structure import validation_key
from verify.verdict import Counterexample, Proved, Refuted, Unknown, Unmodelled, Vacuous, Verdict, explain
from verify.witness import DRAWS, FEW, witness
from verify.writes import refused

TIMEOUT_S = 20.0

RAISING = "whether it raises"

CONVERT = torch.ops.prims.convert_element_type.default
"""The cast that is written where the dtype in which is computed counts."""

DEPTH = 10_000
"""Python's recursion limit while terms are built; they nest as deep as the graph."""


@dataclass(frozen=True)
class Reading:
    """How two graphs are read.

    ``grad``: whether gradients are recorded at their entry. ``differentiated``: they stand behind autograd (ATen-IR), so that
    ``detach`` is a view of everything. ``laws``: names of :data:`verify.verdict.LAWS` that may be used. ``replayed``: a
    difference is shown on real tensors; otherwise it is reported as unknown, which is for those who then ask again. ``doubted``: the
    goal that is asked first, alone, as it did not follow with fewer laws.
    """

    grad: bool = True
    differentiated: bool = False
    laws: frozenset[str] = frozenset()
    replayed: bool = True
    doubted: str = ""


TORCH_IR = Reading()


def validate(
    before: GraphModule,
    after: GraphModule,
    *,
    private: frozenset[int] = frozenset(),
    timeout_s: float = TIMEOUT_S,
    second_solver: bool = True,
    reading: Reading = TORCH_IR,
) -> Verdict:
    """Whether ``after`` computes what ``before`` computes, outputs, memory they share, and inputs at the end.

    Both must be captured graphs with metadata and the same inputs in the same order. A refutation has been replayed on
    real tensors; one that does not replay is reported as unknown. ``private``: outputs, counted over tensors, whose memory
    and strides do not matter (see :class:`optimus.regions.Region`). Raises ``ValueError`` if the inputs do not correspond.
    """
    start = time.monotonic()
    try:
        with _deep():
            proof = _Proof(before, after, private, timeout_s, second_solver, reading)
            return proof.run(start)
    except UnmodelledError as error:
        return Unmodelled(str(error))
    except RecursionError:
        return Unknown("the terms of the graph nest too deep")
    except ctypes.ArgumentError as error:
        if "RecursionError" not in str(error):
            raise
        return Unknown("the terms of the graph nest too deep")


def validate_region(region: Region, *, timeout_s: float = TIMEOUT_S, cache: Cache | None = None) -> Verdict:
    """:func:`validate` for a region. ``cache``: where regions of one structure are proved once.

    At ATen-IR, where gradients are graphs of their own, laws of arithmetic may be used, as few as it takes.
    """
    from verify.aten import least  # which asks for validations

    def compute() -> Verdict:
        if level(region.before.graph) is IR.ATEN:
            return least(region.before, region.after, region.private, timeout_s, True)
        return validate(region.before, region.after, private=region.private, timeout_s=timeout_s, reading=Reading(grad=region.grad))

    def key() -> str | None:
        return validation_key(region.before, region.after, region.private, region.grad, timeout_s, True)

    return remembered(cache, key, compute, pack_proof, unpack_proof)


def validator(region: Region) -> str | None:
    """For ``validate="prove"``: None if the region is proved, else why not. Proofs are kept, see :mod:`verify.cache`."""
    verdict = validate_region(region, cache=shared())
    return None if isinstance(verdict, Proved) else explain(verdict)


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@dataclass(frozen=True)
class _Disagreement:
    """A goal that fails: what it is about, and sizes for which it does."""

    what: str
    sizes: dict[str, int]


Failure = _Disagreement | Undecided | None


class _Proof:
    def __init__(
        self, before: GraphModule, after: GraphModule, private: frozenset[int], timeout_s: float, second_solver: bool, reading: Reading
    ) -> None:
        self.before, self.after = before, after
        self.private = private
        self.reading = reading
        self.task = Task(timeout_s, second_solver, reading.laws)
        self.pairs = _corresponding(before, after)
        self.seen: Refuted | None = None

    def run(self, start: float) -> Verdict:
        task, reading = self.task, self.reading
        task.logic.widened = any(node.target is CONVERT for gm in (self.before, self.after) for node in gm.graph.nodes)
        inputs = {str(k): self._input(str(k), node) for k, (node, _) in enumerate(self.pairs)}
        task.assume()
        self.other_size = task.other_sizes([pair for one, other in self.pairs for pair in _sizes(one, other)]).term
        left = Evaluator(task.logic, task.sizes.term, reading.grad, reading.differentiated).run(self.before, inputs)
        right = Evaluator(task.logic, self.other_size, reading.grad, reading.differentiated).run(self.after, inputs)
        if left.raises:
            return Vacuous(f"the first graph raises for all sizes, at {left.raises}")
        if task.contradictory(left.required):
            return Vacuous("the premises of the graph contradict one another")
        if not left.outputs and not left.inputs:
            return Vacuous("the graph neither takes nor returns anything")
        found = self._compare(left, right)
        if isinstance(found, _Disagreement):
            return self.seen or self._replay(found)
        if isinstance(found, Undecided):
            return self._tried(found)
        error = "" if reading.differentiated else refused(self.before, self.after, reading.grad)
        if not error:
            return task.proved(start)
        what = f"gradients of the second graph: {error}"
        shown = self._witnessed(self._differ(what), FEW)
        return shown if isinstance(shown, Refuted) else Unmodelled(what)

    def _input(self, name: str, node: Node) -> Any:
        found = value(node)
        if isinstance(found, torch.Tensor):
            dims = tuple(self.task.sizes.term(s) for s in found.shape)
            return Tensor(dims, lambda i: _element(self.task.logic, name, dims, i), found.dtype)
        if isinstance(found, (torch.SymInt, int)):
            return self.task.sizes.term(found)
        if isinstance(found, (tuple, list)) and all(isinstance(s, (torch.SymInt, int)) for s in found):
            return tuple(map(self.task.sizes.term, found))
        if found is MISSING:
            raise UnmodelledError(f"the input {node.name} without metadata")
        raise UnmodelledError(f"the input {node.name}, a {type(found).__name__}")

    # ------------------------------------------------------------------------------------------------------- comparison

    def _compare(self, left: Outcome, right: Outcome) -> Failure:
        if right.raises:
            return self._differ(f"whether it raises: the second graph does for all sizes, at {right.raises}")
        if left.structure != right.structure:
            return self._differ(f"{len(left.outputs)} outputs became {len(right.outputs)}, or they are nested differently")
        drawn = [[d.what for d in outcome.draws] for outcome in (left, right)]
        if drawn[0] != drawn[1]:
            return self._differ(f"the random operators {'; '.join(drawn[0]) or 'none'} became {'; '.join(drawn[1]) or 'none'}")
        if left.mode != right.mode:
            return self._differ(f"the ambient mode left behind: {left.mode or 'that of the entry'} became {right.mode or 'that of the entry'}")
        pairs = [(f"output {k}", one, other) for k, (one, other) in enumerate(zip(left.outputs, right.outputs, strict=True))]
        pairs += [
            (f"tensor input {k} after the call", one, other)
            for k, (one, other) in enumerate(zip(left.inputs, right.inputs, strict=True))
            if one is not other
        ]
        pairs += self._drawn(left, right)
        return (
            self._all_equal(pairs, left.required, right.required)
            or self._owners(left, right)
            or self._metadata(left)
            or self._stopped()
            or self._drawn_in_order(left, right)
            or self.task.recheck_decided()
        )

    def _drawn(self, left: Outcome, right: Outcome) -> list[tuple[str, Any, Any]]:
        """What must be equal for draws to leave the generator alike: sizes and operands, in pairs."""
        found: list[tuple[str, Any, Any]] = []
        for k, (one, other) in enumerate(zip(left.draws, right.draws, strict=True)):
            found += [(f"random operator {k}: sizes", a, b) for a, b in zip(one.sizes, other.sizes, strict=True)]
            found += [(f"random operator {k}: operand", a, b) for a, b in zip(one.operands, other.operands, strict=True)]
        return found

    def _drawn_in_order(self, left: Outcome, right: Outcome) -> Failure:
        """Numbers are drawn in the order of memory."""
        for k, (one, other) in enumerate(zip(left.draws, right.draws, strict=True)):
            if not all(map(self._same_strides, one.fakes, other.fakes)):
                return self._differ(f"random operator {k}: strides of an operand")
        return None

    def _all_equal(self, pairs: Sequence[tuple[str, Any, Any]], given: Sequence[Any], other: Sequence[Any]) -> Failure:
        """Whether both raise alike; where the first does not, shapes, elements at an arbitrary index, and values that are no tensors."""
        raising = [(RAISING, self._implied(given, other)), (RAISING, self._implied(other, given))]
        for what, left, right in pairs:
            if isinstance(left, Tensor) != isinstance(right, Tensor):
                return self._settle(raising) or self._differ(f"{what} is a tensor on one side only")
            if isinstance(left, Tensor) and (left.dtype != right.dtype or len(left.dims) != len(right.dims)):
                return self._settle(raising) or self._differ(
                    f"{what}: {len(left.dims)} dimensions of {left.dtype} became {len(right.dims)} of {right.dtype}"
                )
        tensors = [(what, left, right) for what, left, right in pairs if isinstance(left, Tensor)]
        shapes = [(f"{what}: shape", same_number(a, b)) for what, left, right in tensors for a, b in zip(left.dims, right.dims, strict=True)]
        first = [*raising, *((what, self._implied(given, [same])) for what, same in shapes)]
        given = [*given, *(same for _, same in shapes if same is not True)]
        try:
            goals = [
                (what, self._implied(given, [self._same_elements(left, right) if isinstance(left, Tensor) else self._same_value(left, right)]))
                for what, left, right in pairs
            ]
        except UnmodelledError:
            failed = self._settle(first)
            if failed is not None:
                return failed
            raise
        return self._settle([*first, *goals])

    def _implied(self, given: Sequence[Any], wanted: Sequence[Any]) -> Any:
        """That ``wanted`` holds where ``given`` does; what is in both is left out."""
        logic = self.task.logic
        known = {g.get_id() for g in given if self.task.is_term(g)}
        rest = [w for w in wanted if not (self.task.is_term(w) and w.get_id() in known)]
        goal = logic.all_of(*rest)
        return goal if isinstance(goal, bool) and goal else logic.any_of(logic.negate(logic.all_of(*given)), goal)

    def _same_elements(self, one: Tensor, other: Tensor) -> Any:
        logic = self.task.logic
        index, inside = self._somewhere(one.dims, other.dims)
        with logic.on("before"):
            left = one[index]
        with logic.on("after"):
            right = other[index]
        return logic.any_of(logic.negate(logic.all_of(*inside)), left == right)

    def _same_value(self, one: Any, other: Any) -> Any:
        if isinstance(one, Product) or isinstance(other, Product) or self.task.is_term(one) or self.task.is_term(other):
            return same_number(one, other) if all(map(self._is_number, (one, other))) else False
        return bool(type(one) is type(other) and (one is other or one == other))

    def _is_number(self, given: Any) -> bool:
        return isinstance(given, (int, Product)) or self.task.is_term(given)

    def _somewhere(self, dims: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
        """An arbitrary index in range. Along a product of plain numbers, or one that both sides keep apart, it is a place."""
        index: list[Any] = []
        inside: list[Any] = []

        def position(extent: Any) -> Any:
            i = self.task.logic.integer("i")
            inside.extend([i >= 0, i < extent])
            return i

        for extent, other in zip(dims, others, strict=True):
            apart = _kept_apart(extent, other)
            if apart is not None:
                index.append(Place(tuple(map(position, apart.factors)), apart.factors, self.task.logic))
            elif isinstance(extent, int) and extent == 1:
                index.append(0)
            else:
                index.append(position(number(extent)))
        return tuple(index), inside

    def _owners(self, left: Outcome, right: Outcome) -> Failure:
        at = -1
        for k, (one, other) in enumerate(zip(left.owners, right.owners, strict=True)):
            at += bool(one)
            if one != other and at not in self.private:
                return self._differ(f"output {k}: the memory of {one} became that of {other}")
        return None

    def _metadata(self, left: Outcome) -> Failure:
        """What no element shows: device, whether gradients are asked for, and, where somebody can tell, strides."""
        at = -1
        for k, (one, other) in enumerate(zip(_shown(self.before), _shown(self.after), strict=True)):
            if not isinstance(left.outputs[k], Tensor):
                continue
            at += 1
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
                raise UnmodelledError(f"output {k} without metadata")
            for what in ("device", "requires_grad"):
                if getattr(one, what) != getattr(other, what):
                    return self._differ(f"output {k}: {what} {getattr(one, what)} became {getattr(other, what)}")
            if at not in self.private and not self._same_strides(one, other):
                return self._differ(f"output {k}: strides {tuple(one.stride())} became {tuple(other.stride())}")
        return None

    def _stopped(self) -> Failure:
        """Where no gradients are recorded at the entry, a gradient passes through an output only if that is an input itself."""
        if self.reading.grad or self.reading.differentiated:
            return None
        for k, (one, other) in enumerate(zip(_returned(self.before), _returned(self.after), strict=True)):
            if _passes_gradients(one) != _passes_gradients(other):
                return self._differ(f"output {k}: whether a gradient passes")
        return None

    def _same_strides(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether strides agree where they mean something: not in empty tensors, nor in dimensions of extent 1."""
        term, decide = self.task.sizes.term, self.task.logic.decide
        pairs = [(n, same_number(term(s), self.other_size(t))) for n, s, t in zip(one.shape, one.stride(), other.stride(), strict=True)]
        unlike = [(term(n), same) for n, same in pairs if same is not True]
        if not unlike or any(decide(same_number(term(n), 0)) is True for n in one.shape):
            return True
        return all(decide(same_number(n, 1)) is True or decide(same) is True for n, same in unlike)

    # ---------------------------------------------------------------------------------------------------------- answers

    def _settle(self, goals: Sequence[tuple[str, Any]]) -> Failure:
        what, answer = self.task.prove([], goals, self._shows, self.reading.doubted)
        match answer:
            case Invalid():
                return _Disagreement(what, dict(answer.sizes))
            case Undecided():
                return Undecided(f"{what}: {answer.reason}" if what else answer.reason, disputed=answer.disputed, goal=what)
        return None

    def _shows(self, what: str, sizes: Mapping[str, int]) -> bool:
        """Whether a few real tensors show a difference; if so, it is kept as ``seen``."""
        if self.task.logic.reads_uninitialised:
            return False
        verdict = self._witnessed(_Disagreement(what, dict(sizes)), FEW)
        self.seen = verdict if isinstance(verdict, Refuted) else None
        return self.seen is not None

    def _differ(self, what: str) -> _Disagreement:
        return _Disagreement(what, self.task.any_sizes())

    def _tried(self, failed: Undecided) -> Verdict:
        """Where the solver gave up, real tensors of small sizes may still show a difference."""
        found = (
            None
            if failed.disputed or not self.reading.replayed
            else self._replay(self._differ(f"real tensors; the solver gave up on {failed.reason}"))
        )
        return found if isinstance(found, Refuted) else Unknown(failed.reason, failed.goal)

    def _replay(self, failed: _Disagreement) -> Verdict:
        """What real tensors of the sizes found show, or, where they show nothing, larger ones."""
        if self.task.logic.reads_uninitialised:  # two runs of one graph may differ
            raise UnmodelledError(f"{failed.what}: reads memory to which nothing was written")
        found = self._witnessed(failed, DRAWS)
        if isinstance(found, Refuted) or not self.reading.replayed:
            return found
        larger = self.task.larger_sizes()
        again = self._witnessed(replace(failed, sizes=larger), DRAWS) if larger else found
        return again if isinstance(again, Refuted) else found

    def _witnessed(self, failed: _Disagreement, draws: Sequence[str]) -> Verdict:
        if not self.reading.replayed:
            return Unknown(f"{failed.what}: differs in the semantics for {failed.sizes or 'the given sizes'}", failed.what, shown=True)
        exact = not self.task.logic.has_sums and not self.reading.laws
        try:
            inputs, seen = witness(self.before, self.after, failed.sizes, self.private, signed_zeros=exact, draws=draws, grad=self.reading.grad)
        except KeyError:
            return Unknown(f"{failed.what}: differs in the semantics, but no sizes were found to replay it with")
        if not seen:
            return Unknown(f"{failed.what}: differs in the semantics for {failed.sizes or 'the given sizes'}, but not on real tensors")
        return Refuted(Counterexample(failed.what, failed.sizes, tuple(seen), self.before.code.strip(), self.after.code.strip(), tuple(inputs)))


def _kept_apart(extent: Any, other: Any) -> Product | None:
    """The product as whose place an index along an extent is best written."""
    products = [e for e in (extent, other) if isinstance(e, Product)]
    return next((e for e in products if e.static), products[0] if products else None)


def _element(logic: Any, name: str, dims: tuple[Any, ...], index: tuple[Any, ...]) -> Any:
    """An element of an input, places along products taken apart.

    The factors of a place may stand in another order than those of the extent; that order goes into the name, for it tells
    which element is meant. That such an element is also one of another order, or at a number, is then not known.
    """
    flat: list[Any] = []
    for extent, i in zip(dims, index, strict=True):
        if isinstance(extent, Product) and isinstance(i, Place) and Product(i.factors).same_factors(extent):
            flat += i.parts
            name += "" if i.factors == extent.factors else f", by {i.factors}"
        else:
            flat.append(number(i))
    return logic.element(name, tuple(flat))


def _shown(gm: GraphModule) -> list[Any]:
    """What the metadata says of each output, flat."""
    return pytree.tree_leaves([value(a) if isinstance(a, Node) else a for a in _returned(gm)])


def _returned(gm: GraphModule) -> list[Any]:
    """The arguments of the output, flat."""
    return pytree.tree_leaves(map_aggregate(gm.graph.output_node().args[0], lambda a: a))


def _passes_gradients(returned: Any) -> bool:
    """Whether ``returned`` requires a gradient and is an input, or what an operator returns as it was given."""
    fake = tensor(returned)
    return fake is not None and fake.requires_grad and (returned.op == "placeholder" or returns_argument(returned))


def _corresponding(before: GraphModule, after: GraphModule) -> list[tuple[Node, Node]]:
    left, right = (list(gm.graph.find_nodes(op="placeholder")) for gm in (before, after))
    if len(left) != len(right):
        raise ValueError(f"validate: the graphs have {len(left)} and {len(right)} inputs; accepted are graphs with the same inputs")
    for one, other in zip(left, right, strict=True):
        a, b = tensor(one), tensor(other)
        if (a is None) != (b is None) or (a is not None and b is not None and _kind(a) != _kind(b)):
            raise ValueError(f"validate: the inputs {one.name} and {other.name} do not correspond, {_described(a)} and {_described(b)}")
    if _sharing(left) != _sharing(right):
        raise ValueError("validate: the inputs of the graphs do not share memory in the same way")
    return list(zip(left, right, strict=True))


def _kind(fake: torch.Tensor) -> tuple[Any, ...]:
    numbers = tuple(s if isinstance(s, int) else None for s in fake.stride()) if all(isinstance(n, int) and n > 1 for n in fake.shape) else ()
    return fake.dtype, fake.dim(), fake.device, fake.requires_grad, numbers


def _described(fake: torch.Tensor | None) -> str:
    if fake is None:
        return "no tensor"
    grad = ", with gradients" if fake.requires_grad else ""
    return f"{fake.dtype} of shape {tuple(fake.shape)} and strides {tuple(fake.stride())} on {fake.device}{grad}"


def _sharing(placeholders: Sequence[Node]) -> list[list[int]]:
    """For each input the first ones that own its storages."""
    first: dict[int, int] = {}
    return [[first.setdefault(s, k) for s in storages(node)] for k, node in enumerate(placeholders)]


def _sizes(one: Node, other: Node) -> list[tuple[Any, Any]]:
    """The sizes of an input by the metadata of both graphs."""
    a, b = value(one), value(other)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return list(zip(a.shape, b.shape, strict=True))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return list(zip(a, b, strict=True))
    return [(a, b)]
