"""A numeric check in production: on some calls the graph as it was runs beside the compiled one, and results are compared.

What the model returns, its gradients and the state of random number generators are never changed by it.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from optimus.copies import beside
from optimus.engine import Engine
from optimus.limit import Limit, Limiter
from optimus.plan import Plan
from optimus.postgrad import aot_eager, behind_autograd
from optimus.rewriter import Validator
from optimus.state import GraphState

ON_FAILURE = ("raise", "report", "disable")


@dataclass(frozen=True)
class NumericCheck:
    """How to check.

    ``every``: the first call of each graph and every so many after it. ``tolerance``: how far an element may be off, relative to
    its own size or to the root mean square of its tensor, whichever is larger; 0 asks for equal values. ``on_failure``:
    ``raise`` a :class:`NumericError`; ``report`` to the callback, or as a warning where there is none; ``disable``: report,
    and switch the guilty pattern off for the rest of the process. ``callback``: called with each :class:`NumericFailure`.
    """

    every: int
    tolerance: float
    on_failure: str = "raise"
    callback: Callable[[NumericFailure], None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"numeric_check: every={self.every!r}; accepted is a whole number from 1 on")
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, (int, float)) or not 0 <= self.tolerance < float("inf"):
            raise ValueError(f"numeric_check: tolerance={self.tolerance!r}; accepted is a number from 0 on")
        if self.on_failure not in ON_FAILURE:
            raise ValueError(f"numeric_check: on_failure={self.on_failure!r}; accepted are {', '.join(ON_FAILURE)}")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"numeric_check: callback={self.callback!r}; accepted is a function of one argument")

    @classmethod
    def of(cls, given: Any) -> NumericCheck | None:
        """The check that an option asks for: a :class:`NumericCheck`, a mapping of its fields, or None. Raises ``ValueError``."""
        if given is None or isinstance(given, NumericCheck):
            return given
        known = [f.name for f in fields(cls)]
        if not isinstance(given, Mapping) or not {"every", "tolerance"} <= set(given) <= set(known):
            raise ValueError(f"numeric_check={given!r}; accepted is a mapping with every and tolerance, and perhaps {', '.join(known[2:])}")
        return cls(**given)


@dataclass(frozen=True)
class NumericFailure:
    """A result that is not what the graph computed before it was rewritten.

    ``call``: the number of the call, from 1. ``what``: the result and how it differs. ``pattern`` and ``rewrite``: the first
    rewrite with which it differs, numbered as in the journal, or over the forward and the backward graph where the pattern is
    one of ATen-IR; None where the rewritten graphs are right in eager, so that the compiler behind them makes the difference.
    ``switched_off``: whether the pattern was switched off.
    """

    call: int
    what: str
    pattern: str | None
    rewrite: int | None
    switched_off: bool = False

    def __str__(self) -> str:
        by = f"rewrite {self.rewrite} of {self.pattern}" if self.pattern else "the compiler behind the rewrites"
        return f"numeric check, call {self.call}: {self.what}; made by {by}" + ("; the pattern is switched off" if self.switched_off else "")


class NumericError(RuntimeError):
    """Raised where ``on_failure`` is ``raise``; ``failure`` says what was found."""

    def __init__(self, failure: NumericFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class NumericWarning(UserWarning):
    """Shown where a failure is reported and nobody takes the report."""


counts: Counter[str] = Counter()
"""How often results were ``checked``, ``failed``, or ``skipped: REASON``, and gradients likewise, in this process."""

_off: set[str] = set()


def switched_off() -> tuple[str, ...]:
    """The patterns that failed checks have switched off in this process."""
    return tuple(sorted(_off))


def switch_on() -> None:
    """Forget which patterns are switched off. Graphs that are compiled already stay as they are."""
    _off.clear()


@dataclass
class Watched:
    """A compiled graph with the graph as it was: call it as the compiled one.

    ``finishing``: what compiles a graph that is rewritten by a plan, steps behind autograd included. ``faithful``: whether random
    numbers are drawn as eager draws them.
    """

    check: NumericCheck
    original: GraphModule
    compiled: Callable[..., Any]
    plan: Plan
    validate: Validator | None
    finishing: Callable[[Plan], Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]]
    faithful: Callable[[], bool]
    grad: bool = field(default_factory=torch.is_grad_enabled)
    calls: int = 0

    def __post_init__(self) -> None:
        state = GraphState.of(self.original.graph, self.grad)
        inputs = list(self.original.graph.find_nodes(op="placeholder"))
        self.written = frozenset(k for k, node in enumerate(inputs) if any(state.writes.get(s) for s in state.storages(node)))
        self.random = any(effect.random for effect in state.effect.values())
        self.opaque = any(effect.opaque for effect in state.effect.values())
        self.off: frozenset[str] = frozenset()

    def __call__(self, *inputs: Any) -> Any:
        """The results of the compiled graph."""
        self._renew()
        self.calls += 1
        if (self.calls - 1) % self.check.every:
            return self.compiled(*inputs)
        reason = "random numbers of the compiler's own" if self.random and not self.faithful() else "effects" if self.opaque else ""
        if reason:
            counts[f"skipped: {reason}"] += 1
            return self.compiled(*inputs)
        return self._sampled(inputs)

    def _renew(self) -> None:
        """Compile anew where a pattern has been switched off since."""
        wanted = frozenset(p.name for p in self.plan if p.name in _off)
        if wanted != self.off:
            self.off = wanted
            gm = copy.deepcopy(self.original)
            plan = self.plan.without(*wanted)
            Engine(gm, plan, self.validate, grad=self.grad).run()
            self.compiled = torch.compile(gm, backend=self.finishing(plan))

    def _sampled(self, inputs: Sequence[Any]) -> Any:
        kept = beside(inputs, self.written)
        given = beside(inputs, self.written)
        edges = [_edge(i) for i in inputs]
        call = self.calls
        try:
            with _generators_kept(inputs):
                expected = pytree.tree_leaves(self.original.forward(*given))
        except Exception as error:  # noqa: BLE001 - what the graph raises, the compiled one is to raise, or not
            counts[f"skipped: {type(error).__name__} in eager"] += 1
            return self.compiled(*inputs)
        result = self.compiled(*inputs)
        found = pytree.tree_leaves(result)
        counts["checked"] += 1
        wrong = self._wrong(expected, given, found, inputs)
        if wrong is not None:
            self._failed(call, wrong, kept, None)
        elif any(isinstance(o, torch.Tensor) and o.requires_grad for o in expected):
            _Backward(self, call, kept, given, expected, found, edges).watch()
        return result

    def _wrong(self, expected: Sequence[Any], given: Sequence[Any], found: Sequence[Any], inputs: Sequence[Any]) -> str | None:
        """What differs of outputs and of inputs that were written, or None."""
        if len(expected) != len(found):
            return f"{len(expected)} outputs became {len(found)}"
        pairs = [(f"output {k}", one, other) for k, (one, other) in enumerate(zip(expected, found, strict=True))]
        pairs += [(f"input {k} after the call", given[k], inputs[k]) for k in sorted(self.written)]
        return first_difference(pairs, self.check.tolerance)

    def _failed(self, call: int, what: str, kept: Sequence[Any], cotangents: Sequence[Any] | None) -> None:
        counts["failed"] += 1
        guilty = self._guilty(kept, cotangents)
        disable = self.check.on_failure == "disable" and guilty is not None
        pattern, rewrite = guilty or (None, None)
        failure = NumericFailure(call, what, pattern, rewrite, switched_off=disable)
        if disable and failure.pattern is not None:
            _off.add(failure.pattern)
        if self.check.callback is not None:
            self.check.callback(failure)
        if self.check.on_failure == "raise":
            raise NumericError(failure)
        if self.check.callback is None:
            warnings.warn(str(failure), NumericWarning, stacklevel=4)

    def _guilty(self, kept: Sequence[Any], cotangents: Sequence[Any] | None) -> tuple[str, int] | None:
        """The first rewrite with which the graph, run in eager on the same inputs, differs from what it was; None if none does."""
        expected = self._observed(self.original.forward, kept, cotangents)
        plan = self.plan.without(*self.off)
        whole = copy.deepcopy(self.original)
        Engine(whole, plan, self.validate, grad=self.grad, limiter=Limiter(Limit())).run()

        def rewritten(limiter: Limiter) -> Callable[..., Any]:
            gm = copy.deepcopy(self.original)
            Engine(gm, plan, self.validate, grad=self.grad, limiter=limiter).run()
            return gm.forward

        def rewritten_below(limiter: Limiter) -> Callable[..., Any]:
            later = behind_autograd(plan)
            backend = aot_eager(lambda gm: Engine(gm, later, self.validate, limiter=limiter).run())
            with torch.set_grad_enabled(self.grad):  # in a hook of the backward pass it is off
                compiled: Callable[..., Any] = backend(copy.deepcopy(whole), beside(kept, self.written))
            return compiled

        def differs(make: Callable[[Limiter], Callable[..., Any]], first: int | None) -> tuple[bool, Limiter]:
            limiter = Limiter(Limit(first=first))
            found = self._observed(make(limiter), kept, cotangents)
            pairs = [(name, one, other) for (name, one), (_, other) in zip(expected, found, strict=False)]
            return len(expected) != len(found) or first_difference(pairs, self.check.tolerance) is not None, limiter

        for make in (rewritten, rewritten_below) if behind_autograd(plan) else (rewritten,):
            wrong, limiter = differs(make, None)
            low, high = 0, len(limiter.applied)
            if not wrong or not high or (make is rewritten_below and differs(make, 0)[0]):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if differs(make, middle)[0] else (middle, high)
            return limiter.applied[high - 1].pattern, high
        return None

    def _observed(self, program: Callable[..., Any], kept: Sequence[Any], cotangents: Sequence[Any] | None) -> list[tuple[str, Any]]:
        """Outputs and written inputs of one run, or gradients where cotangents are given."""
        given = beside(kept, self.written)
        with _generators_kept(kept), torch.set_grad_enabled(self.grad):
            outputs = pytree.tree_leaves(program(*given))
            if cotangents is None:
                return [*enumerated("output", outputs), *((f"input {k} after the call", given[k]) for k in sorted(self.written))]
            return enumerated("gradient of input", gradients(outputs, given, cotangents))


def enumerated(what: str, found: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each of ``found`` with ``what`` and its number."""
    return [(f"{what} {k}", f) for k, f in enumerate(found)]


def gradients(outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[torch.Tensor | None]:
    """The gradient of each input, None where it has none, for the cotangents of outputs that are not None."""
    heads = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if c is not None and isinstance(o, torch.Tensor) and o.requires_grad]
    wanted = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
    if not heads or not wanted:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad([o for o, _ in heads], wanted, [c for _, c in heads], allow_unused=True))
    return [next(found) if isinstance(i, torch.Tensor) and i.requires_grad else None for i in inputs]


class _Backward:
    """Compares the gradients of one call: what its backward pass is given and gives is seen through hooks that change nothing."""

    def __init__(
        self,
        owner: Watched,
        call: int,
        kept: Sequence[Any],
        given: Sequence[Any],
        expected: Sequence[Any],
        found: Sequence[Any],
        edges: Sequence[Any],
    ) -> None:
        self.owner, self.call, self.kept, self.given, self.expected, self.found, self.edges = owner, call, kept, given, expected, found, edges
        self.cotangents: list[torch.Tensor | None] = [None] * len(found)
        self.handles: list[Any] = []

    def watch(self) -> None:
        """Attach the hooks, if the compiler has made one backward pass of the graph."""
        node = _compiled_node(self.found)
        if node is None:
            counts["skipped gradients: no backward pass of the compiler"] += 1
            return
        self.edges = [None if e is None else _place(node, e) for e in self.edges]
        for k, output in enumerate(self.found):
            if isinstance(output, torch.Tensor) and output.requires_grad and output.grad_fn is not None:
                self.handles.append(output.register_hook(lambda grad, k=k: self._keep(k, grad)))  # type: ignore[misc]
        self.handles.append(node.register_hook(lambda grads, _: self._compare(grads)))
        del self.found

    def _keep(self, k: int, grad: torch.Tensor | None) -> None:
        if grad is not None:  # as for an output that nobody used, beside one that somebody did
            self.cotangents[k] = grad.detach().clone()

    def _compare(self, grads: Sequence[Any]) -> None:
        for handle in self.handles:
            handle.remove()
        try:
            with torch.enable_grad(), _generators_kept(self.kept):
                expected = gradients(self.expected, self.given, self.cotangents)
        except RuntimeError:  # what the graph kept for its backward pass has been written since
            counts["skipped gradients: inputs were written"] += 1
            return
        pairs = []
        for k, (one, place) in enumerate(zip(expected, self.edges, strict=True)):
            if place is not None:
                other = grads[place]
                if one is None or other is None:  # no gradient and one of zeros are the same
                    one, other = (torch.zeros_like(g) if f is None and g is not None else f for f, g in ((one, other), (other, one)))
                pairs.append((f"gradient of input {k}", one, other))
        counts["checked gradients"] += 1
        wrong = first_difference(pairs, self.owner.check.tolerance)
        if wrong is not None:
            self.owner._failed(self.call, wrong, self.kept, self.cotangents)


def _edge(given: Any) -> Any:
    """Where the gradient of an input goes, or None."""
    if not isinstance(given, torch.Tensor) or not given.requires_grad:
        return None
    return torch.autograd.graph.get_gradient_edge(given)


def _place(node: Any, edge: Any) -> int | None:
    """The number of the gradient that ``node`` sends along ``edge``."""
    return next((k for k, (target, number) in enumerate(node.next_functions) if target == edge.node and number == edge.output_nr), None)


def _compiled_node(outputs: Sequence[Any]) -> Any:
    """The backward pass that the compiler made, found behind the outputs and the views among them."""
    queue = [o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    for _ in range(100):
        if not queue:
            return None
        node = queue.pop(0)
        if node.name().startswith("CompiledFunction"):
            return node
        queue += [n for n, _ in node.next_functions if n is not None]
    return None


@contextlib.contextmanager
def _generators_kept(inputs: Sequence[Any]) -> Iterator[None]:
    """Leave the random number generators, and the grad mode, as they were."""
    devices = sorted({i.device.index for i in inputs if isinstance(i, torch.Tensor) and i.device.type == "cuda"})
    with torch.random.fork_rng(devices), torch.set_grad_enabled(torch.is_grad_enabled()):
        yield


def first_difference(pairs: Sequence[tuple[str, Any, Any]], tolerance: float) -> str | None:
    """The first of named (expected, found) pairs that differ, and how, or None. See :class:`NumericCheck` for ``tolerance``."""
    for name, one, other in pairs:
        how = _difference(one, other, tolerance)
        if how is not None:
            return f"{name}: {how}"
    return None


def _difference(one: Any, other: Any, tolerance: float) -> str | None:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        same = one is other or (type(one) is type(other) and bool(one == other))
        return None if same else f"{one!r} became {other!r}"
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}"
    with torch.no_grad():
        wrong = _off_by(one.detach(), other.detach(), tolerance)
        if not bool(wrong.any()):
            return None
        at = tuple(int(i) for i in wrong.nonzero()[0].tolist())
        return f"{int(wrong.sum())} of {wrong.numel()} elements are off by more than {tolerance}, first at {at}: {one[at].item()!r} became {other[at].item()!r}"


def _off_by(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> torch.Tensor:
    if not (one.is_floating_point() or one.is_complex()):
        return one != other
    wide = torch.complex128 if one.is_complex() else torch.float64 if one.dtype is torch.float64 else torch.float32
    one, other = one.to(wide), other.to(wide)
    size, same = one.abs(), (one == other) | (torch.isnan(one) & torch.isnan(other))
    finite = torch.where(torch.isfinite(size), size, 0.0)
    allowed = tolerance * torch.maximum(finite, finite.square().mean().sqrt() if size.numel() else finite)
    return ~same & ~((one - other).abs() <= allowed)
