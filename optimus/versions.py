"""What differs between the supported versions of PyTorch, and what none of them has a public way for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental import proxy_tensor
from torch.utils._sympy.functions import Max


@contextlib.contextmanager
def asked_of_sizes(shape_env: Any) -> Iterator[list[Any]]:
    """Compute on fakes without adding a guard to ``shape_env`` (None: sizes are plain numbers); yields what was taken for true.

    These are the expressions that would have become guards, each with the answer that it got, as one that is true.

    No version has a public way to ask for this; the check that all of them call before guarding is replaced for the while.
    """
    taken: list[Any] = []
    if shape_env is None:
        yield taken
        return

    def ask(expression: Any, answer: Any = None) -> None:
        taken.append(sympy.Eq(expression, answer) if _is_number(answer) else expression if answer else sympy.Not(expression))

    outer = shape_env.__dict__.get("_check_frozen")
    shape_env._check_frozen = ask
    try:
        with shape_env.suppress_guards(), enable_python_dispatcher():
            yield taken
    finally:
        if outer is None:
            del shape_env._check_frozen
        else:
            shape_env._check_frozen = outer


@contextlib.contextmanager
def without_layout_notes() -> Iterator[None]:
    """Trace without notes on the layout of every tensor, for which sizes would be compared with one another."""
    notes = proxy_tensor._extract_tensor_metadata  # type: ignore[attr-defined]
    proxy_tensor._extract_tensor_metadata = lambda *_, **__: None  # type: ignore[assignment]
    try:
        yield
    finally:
        proxy_tensor._extract_tensor_metadata = notes  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_guard_profiles() -> Iterator[None]:
    """Compile without timing the guards of each graph, for which the caches of the processor are emptied first; no option leaves it out."""
    from torch._dynamo import guards

    timed = getattr(guards, "profile_guard_manager", None)
    if timed is None:
        yield
        return
    guards.profile_guard_manager = lambda *_: 0.0
    try:
        yield
    finally:
        guards.profile_guard_manager = timed


def graph_module(root: torch.nn.Module, graph: Graph) -> GraphModule:
    """A module of ``graph`` whose code is written when it is first asked for: what is rewritten and thrown away needs none."""
    return _LazyGraphModule(root, graph)


def known_of_sizes(shape_env: Any) -> tuple[Any, ...]:
    """What ``shape_env`` knows of its symbols so far: two answers are equal if it has learnt nothing between them."""
    parts = (getattr(shape_env, name, None) for name in ("replacements", "divisible", "var_to_range", "axioms"))
    return len(shape_env.guards), getattr(shape_env, "num_deferred_runtime_asserts", 0), *(part if part is None else part.copy() for part in parts)


def names_traced() -> list[str]:
    """The names of the nodes that ``make_fx`` has traced so far; to be called from the function that it traces."""
    mode = proxy_tensor.get_proxy_mode()
    return [] if mode is None else [node.name for node in mode.tracer.graph.nodes]


def forget_answers(shape_env: Any) -> None:
    """Have ``shape_env`` (None: sizes are plain numbers) ask again what it has answered under suppressed guards."""
    for name in ("_inner_evaluate_expr", "evaluate_expr"):
        clear = getattr(getattr(type(shape_env), name, None), "cache_clear", None)
        if clear is not None:
            clear()


@contextlib.contextmanager
def no_new_guards(shape_env: Any, refusal: Callable[[str], Exception] | None) -> Iterator[None]:
    """Compute on fakes without adding a guard to ``shape_env`` (None: sizes are plain numbers).

    A question that all sizes of 2 and more answer alike ("is this tensor not empty?") gets that answer: only strides
    of empty tensors and of dimensions of extent 1 can turn on it. Any other question raises ``refusal(detail)`` at the end;
    None instead of a refusal: the caller knows that no answer changes the result.
    """
    with asked_of_sizes(shape_env) as taken:
        yield
    doubtful = next((t for t in taken if generic_truth(t) is not True), None)
    if doubtful is not None and refusal is not None:
        raise refusal(f"{doubtful} would have to be True")


def _is_number(answer: Any) -> bool:
    return not isinstance(answer, (bool, sympy.logic.boolalg.BooleanAtom))


def generic_truth(expression: Any) -> bool | None:
    """What a comparison of sizes is for all sizes of at least 2; None where it depends on them, or is no comparison."""
    if not isinstance(expression, sympy.core.relational.Relational):
        return None
    sign = _sign(expression.lhs - expression.rhs)  # type: ignore[operator]
    if sign is None:
        return None
    match expression:
        case sympy.Eq():
            return sign == 0
        case sympy.Ne():
            return sign != 0
        case sympy.StrictLessThan():
            return sign < 0
        case sympy.LessThan():
            return sign <= 0
        case sympy.StrictGreaterThan():
            return sign > 0
        case sympy.GreaterThan():
            return sign >= 0
    return None


def without_unit_bounds(expression: Any) -> Any:
    """``Max(1, e)`` as ``e``: strides use the former, and they only differ where the tensor is empty."""
    return expression.replace(lambda e: isinstance(e, (Max, sympy.Max)) and 1 in e.args, lambda e: type(e)(*(a for a in e.args if a != 1)))


def _sign(difference: Any) -> int | None:
    symbols = sorted(difference.free_symbols, key=str)
    above = {s: sympy.Symbol(f"t{i}", nonnegative=True, integer=True) + 2 for i, s in enumerate(symbols)}
    expanded = sympy.expand(without_unit_bounds(difference).xreplace(above))
    try:
        coefficients = sympy.Poly(expanded, *sorted(expanded.free_symbols, key=str)).as_dict() if expanded.free_symbols else {(): expanded}
    except sympy.PolynomialError:
        return None
    values = [v for v in coefficients.values() if v != 0]
    constant = sum(v for powers, v in coefficients.items() if not any(powers))
    if not values:
        return 0
    if all(v >= 0 for v in values) and constant > 0:
        return 1
    if all(v <= 0 for v in values) and constant < 0:
        return -1
    return None


def view_kind(fake: torch.Tensor) -> object:
    """What autograd allows to be done in place to a view: the pieces of ``split`` and ``unbind`` are of another kind than slices."""
    return torch._C._autograd._get_creation_meta(fake) if fake._is_view() else None


def bare_fake(fake_mode: FakeTensorMode, device: torch.device) -> Callable[[torch.Tensor, bool], FakeTensor]:
    """A function that makes a fake of ``fake_mode`` out of a tensor on the meta device, and of whether it requires a gradient.

    The class itself prepares every fake anew, at several times the cost, and in each version by other attributes. All fakes
    of one device that are nothing special have the same, so those of the first one are used again.
    """
    with torch._C._DisableTorchDispatch():
        first = FakeTensor(fake_mode, torch.empty(1, device="meta"), device)
    attributes = dict(first.__dict__)
    unsafe = getattr(fake_mode, "_allow_unsafe_data_ptr_access", False)
    guard = torch._C._set_warn_deprecated_on_mutable_data_ptr if unsafe else torch._C._set_throw_on_mutable_data_ptr
    subclass = torch.Tensor._make_subclass

    def make(bare: torch.Tensor, requires_grad: bool) -> FakeTensor:
        made: Any = subclass(FakeTensor, bare, requires_grad, dispatch_device=True, device_for_backend_keys=device)
        guard(made)
        made.__dict__.update(attributes)
        return made  # type: ignore[no-any-return]

    return make


def shares_storage(given: torch.Tensor) -> bool:
    """Whether another tensor lies in the storage of ``given``, alive anywhere in the process."""
    return _holders(given) > _holders(torch.empty(1))


def _holders(given: torch.Tensor) -> int:
    return int(torch._C._storage_Use_Count(given.untyped_storage()._cdata))


def _scheduler_pass_base() -> type:
    """The class of passes on scheduler nodes that Inductor's cache takes: since 2.13 one of its own, before that the one for graphs."""
    from torch._inductor import custom_graph_pass

    found: type = getattr(custom_graph_pass, "CustomSchedulerPass", custom_graph_pass.CustomGraphPass)
    return found


SchedulerPassBase: type = _scheduler_pass_base()
"""What a pass for ``_pre_fusion_custom_pass`` derives from."""
