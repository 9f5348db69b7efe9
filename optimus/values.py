"""What a graph says of its own values: metadata, sizes, storages.

Torch-IR graphs keep the fake result of a node under ``example_value``, ATen-IR graphs under ``val``. Nothing else in
the package reads those keys. A fake tensor shares its storage with the fakes that alias it, so storage identity tells
which values of a graph are views of one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch import SymInt
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import is_symbolic, statically_known_true

from optimus.versions import without_unit_bounds

Size = int | SymInt
Storage = int

MISSING: Any = object()


def value(node: Node) -> Any:
    """The fake result of ``node``, or ``MISSING`` if the graph carries none."""
    meta = node.meta
    found = meta.get("example_value", MISSING)
    return meta.get("val", MISSING) if found is MISSING else found


def value_key(node: Node) -> str:
    """The metadata key that the graph of ``node`` uses."""
    return "val" if "val" in node.meta and "example_value" not in node.meta else "example_value"


def tensor(node: object) -> torch.Tensor | None:
    """The fake tensor that ``node`` produces, or None if it is no node or produces something else."""
    if not isinstance(node, Node):
        return None
    meta = node.meta
    found = meta.get("example_value", MISSING)
    if found is MISSING:
        found = meta.get("val")
    return found if type(found) is FakeTensor or isinstance(found, torch.Tensor) else None  # the former is told sooner


ORDINARY = (FakeTensor, torch.Tensor, torch.nn.Parameter)


def is_plain(fake: torch.Tensor) -> bool:
    """Whether ``fake`` stands for an ordinary strided tensor (no subclass, not sparse, not nested, not under ``vmap``)."""
    ordinary = type(fake) in ORDINARY and fake.layout is torch.strided and not fake.is_nested
    return ordinary and not torch._C._functorch.is_functorch_wrapped_tensor(fake)


def leaves(found: Any) -> Iterator[torch.Tensor]:
    """The tensors inside a value: itself, or those of a list, tuple or mapping."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, (tuple, list)):
        for item in found:
            yield from leaves(item)
    elif isinstance(found, Mapping):
        for item in found.values():
            yield from leaves(item)


def requires_grad(found: Any) -> bool:
    """Whether a value is, or holds, a tensor that requires a gradient."""
    return found.requires_grad if isinstance(found, torch.Tensor) else any(t.requires_grad for t in leaves(found))


def has_symbols(found: Any) -> bool:
    """Whether a value is, or holds, a symbolic number, or a tensor with a symbolic size, stride or offset."""
    if isinstance(found, torch.Tensor):
        return bool(found._has_symbolic_sizes_strides)
    if isinstance(found, (tuple, list)):
        return any(map(has_symbols, found))
    if isinstance(found, Mapping):
        return any(map(has_symbols, found.values()))
    return isinstance(found, (SymInt, torch.SymFloat, torch.SymBool))


def storage(fake: torch.Tensor) -> Storage | None:
    """A number that two fakes share exactly if they alias; None where a subclass has no storage of its own."""
    try:
        return int(fake.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def storages(node: Node) -> tuple[Storage, ...]:
    """The storages that ``node`` produces or forwards, each once."""
    found = value(node)
    if isinstance(found, torch.Tensor):
        alone = storage(found)
        return () if alone is None else (alone,)
    seen: dict[Storage, None] = {}
    for item in found if isinstance(found, (tuple, list)) else (found,):
        for one in (item,) if isinstance(item, torch.Tensor) else leaves(item):
            if (s := storage(one)) is not None:
                seen[s] = None
    return tuple(seen)


def returns_argument(node: Node) -> bool:
    """Whether the result of ``node`` is a tensor that it was given, as that of ``contiguous`` may be, and no new one."""
    found = tensor(node)
    return found is not None and any(value(used) is found for used in node.all_input_nodes)


def is_static(size: object) -> bool:
    """Whether ``size`` is a plain number: an int, or a SymInt that holds a constant, be it one that a guard has made of a symbol."""
    return isinstance(size, int) or (isinstance(size, SymInt) and (not is_symbolic(size) or size.node.expr.is_Integer))


def known(condition: Any) -> bool:
    """Whether ``condition`` is true for every size the graph admits; adds no guard."""
    return condition if isinstance(condition, bool) else bool(statically_known_true(condition))


def same_size(left: Any, right: Any) -> bool:
    """Whether two sizes are equal for every input the graph admits; adds no guard."""
    if left is right:
        return True
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return known(left == right) or _equal_by_guards(left, right)


def _equal_by_guards(left: Any, right: Any) -> bool:
    """Whether the equations among the guards of the graph make two sizes the same expression."""
    symbolic = left if isinstance(left, SymInt) else right
    if not isinstance(symbolic, SymInt):
        return False
    difference = sympy.sympify(size_key(left)) - sympy.sympify(size_key(right))
    for symbol, solved in _equations(symbolic.node.shape_env):
        difference = difference.subs(symbol, solved)
    return bool(sympy.expand(difference) == 0)


_solved: WeakKeyDictionary[Any, tuple[int, list[tuple[Any, Any]]]] = WeakKeyDictionary()


def _equations(environment: Any) -> list[tuple[Any, Any]]:
    """The equations among the guards, each solved for one symbol in terms of those not solved for before it."""
    known = _solved.get(environment)
    if known is not None and known[0] == len(environment.guards):
        return known[1]
    solved: list[tuple[Any, Any]] = []
    for guard in environment.guards:
        if not isinstance(guard.expr, sympy.Eq):
            continue
        difference = guard.expr.lhs - guard.expr.rhs
        for symbol, expression in solved:
            difference = difference.subs(symbol, expression)
        difference = sympy.expand(difference)
        unit = next(
            (
                s
                for s in sorted(difference.free_symbols, key=str)
                if difference.coeff(s) in (1, -1) and s not in (difference - difference.coeff(s) * s).free_symbols
            ),
            None,
        )
        if unit is not None:
            solved.append((unit, sympy.expand(unit - difference / difference.coeff(unit))))
    _solved[environment] = (len(environment.guards), solved)
    return solved


def same_sizes(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Pairwise :func:`same_size` of two sequences of equal length."""
    left, right = tuple(left), tuple(right)
    return len(left) == len(right) and all(map(same_size, left, right))


def same_layout(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two fakes of one shape have equal strides, extents of 1 and empty tensors left out of account."""
    if any(same_size(extent, 0) for extent in left.shape):
        return True
    return all(_same_stride(s, t) or same_size(extent, 1) for s, t, extent in zip(left.stride(), right.stride(), left.shape, strict=True))


def same_strides(left: torch.Tensor, right: torch.Tensor) -> bool:
    """:func:`same_layout`, dimensions of extent 1 included: ``view`` as another dtype looks at those too."""
    return any(same_size(extent, 0) for extent in left.shape) or all(map(_same_stride, left.stride(), right.stride()))


def _same_stride(left: Size, right: Size) -> bool:
    if same_size(left, right):
        return True
    symbolic = next((s for s in (left, right) if isinstance(s, SymInt)), None)
    if symbolic is None:
        return False
    one, other = (without_unit_bounds(sympy.sympify(size_key(s))) for s in (left, right))
    environment = symbolic.node.shape_env
    return one == other or same_size(environment.create_symintnode(one, hint=None), environment.create_symintnode(other, hint=None))


def size_key(size: Size) -> object:
    """A hashable stand-in for a size: equal for sizes that are the same number or the same expression."""
    return size if isinstance(size, int) else size.node.expr


def wrap(dim: object, rank: int) -> int | None:
    """``dim`` counted from the front, or None where PyTorch would refuse it for ``rank`` dimensions."""
    if not isinstance(dim, int) or isinstance(dim, bool) or not -rank <= dim < rank:
        return None
    return dim + rank if dim < 0 else dim


def is_row_major(fake: torch.Tensor) -> bool:
    """Whether ``fake`` is contiguous for every input the graph admits; adds no guard."""
    expected: Any = 1
    for extent, stride in zip(reversed(fake.shape), reversed(fake.stride()), strict=True):
        if not (same_size(extent, 1) or _same_stride(stride, expected)):
            return False
        expected = expected * extent
    return True
