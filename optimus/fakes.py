"""Fake results of well-known operators at less cost than PyTorch's fake mode takes, and the same.

Views of fakes whose sizes are numbers need none of its questions: their meta kernels run at once. For a few operators
that make new memory, the sizes and strides that the fake mode found are kept, and used again for arguments that agree in
all that matters. Every other call goes to the fake mode. Autograd runs in front of both, so that gradients and kinds of
views are the same too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

DEVICE = torch.ops.prim.device.default

VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.permute.default, aten.transpose.int, aten.unsqueeze.default, aten.squeeze.dim,
    aten.expand.default, aten.select.int, aten.slice.Tensor, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
}  # fmt: skip
"""Operators of one tensor and numbers, whose results lie in its storage."""

FRESH = {
    aten.stack.default, aten.cat.default, aten.clone.default, aten.bmm.default, aten.baddbmm.default, aten.mm.default, aten.addmm.default,
    aten.tanh.default, aten.sigmoid.default, aten.relu.default, aten.clamp.default, aten.nan_to_num.default, aten.mul.Tensor, aten.add.Tensor,
    aten.sum.dim_IntList, aten.native_layer_norm.default,
}  # fmt: skip
"""Operators whose results have memory of their own, and sizes, strides and types that follow from those of the arguments."""

JOINS = {aten.stack.default, aten.cat.default}

Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


KEPT = 10_000
"""How many calls are kept before all are forgotten."""

_made: dict[Any, tuple[Made, ...]] = {}


class QuickFakes(TorchDispatchMode):
    """On top of ``fake_mode``: answers what it can, and hands on the rest."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self.fake_mode = fake_mode

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against being compiled: nothing is compiled while fakes are made."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """The result of ``func`` on fakes."""
        if func is DEVICE:
            mode = args[0].fake_mode if type(args[0]) is FakeTensor else None
            if mode is not None:
                return torch.device("meta") if mode.in_kernel_invocation else args[0].fake_device
        elif func in VIEWS:
            if not kwargs and self._is_plain(args[0]) and _are_numbers(args[1:]) and _has_one_answer(func, args):
                return self._view(func, args)
        elif func in FRESH:
            key = self._key(func, args, kwargs)
            if key is not None:
                return self._fresh(key, func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _view(self, func: Any, args: tuple[Any, ...]) -> Any:
        with in_kernel_invocation_manager(self.fake_mode):
            made = func(*args)
        device = args[0].fake_device
        if isinstance(made, torch.Tensor):
            return FakeTensor(self.fake_mode, made, device)
        return [FakeTensor(self.fake_mode, m, device) for m in made]

    def _fresh(self, key: Any, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        known = _made.get(key)
        if known is not None:
            return self._make(known[0]) if len(known) == 1 else tuple(map(self._make, known))
        joined = self._joined(func, args) if func in JOINS and not kwargs else None
        if joined is not None:
            return self._make(joined)
        made = func(*args, **kwargs)
        notes = [self._note(m) for m in (made if isinstance(made, (tuple, list)) else (made,))]
        whole = tuple(n for n in notes if n is not None)
        if len(whole) == len(notes):
            if len(_made) >= KEPT:
                _made.clear()
            _made[key] = whole
        return made

    def _joined(self, func: Any, args: tuple[Any, ...]) -> Made | None:
        """What a join of several row-major tensors of one type makes: another; None where it would not be as plain as that."""
        first, dim = args[0][0], args[1] if len(args) > 1 else 0
        shape, like = list(first.shape), (first.dtype, first.fake_device)
        rank = len(shape) + (func is not aten.cat.default)
        if not shape or min(shape) < 2 or len(args[0]) < 2 or type(dim) is not int or not -rank <= dim < rank:
            return None
        dim %= rank
        total = 0
        for t in args[0]:
            extent = t.shape[dim] if func is aten.cat.default and t.dim() == rank else 0
            alike = t.shape == first.shape or (extent > 1 and [*t.shape[:dim], *t.shape[dim + 1 :]] == shape[:dim] + shape[dim + 1 :])
            if not alike or (t.dtype, t.fake_device) != like or not t.is_contiguous():
                return None
            total += extent
        if func is aten.cat.default:
            shape[dim] = total
        else:
            shape.insert(dim, len(args[0]))
        stride = [1]
        for extent in reversed(shape[1:]):
            stride.insert(0, stride[0] * extent)
        return tuple(shape), tuple(stride), first.dtype, first.fake_device

    def _note(self, made: Any) -> Made | None:
        if not self._is_plain(made) or made.storage_offset():
            return None
        return tuple(made.shape), made.stride(), made.dtype, made.fake_device

    def _make(self, known: Made) -> FakeTensor:
        shape, stride, dtype, device = known
        with in_kernel_invocation_manager(self.fake_mode):
            bare = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return FakeTensor(self.fake_mode, bare, device)

    def _is_plain(self, fake: Any) -> bool:
        if type(fake) is not FakeTensor or fake.fake_mode is not self.fake_mode or fake._has_symbolic_sizes_strides:
            return False
        return fake.constant is None and fake.layout is torch.strided and not fake.is_nested

    def _key(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Any:
        """What the result of a call follows from; None where that is more than sizes, strides and types."""
        parts: list[Any] = [func]
        if kwargs:
            parts += kwargs
            args = (*args, *kwargs.values())
        return tuple(parts) if self._describe(args, parts) else None

    def _describe(self, given: Iterable[Any], parts: list[Any]) -> bool:
        for a in given:
            if type(a) is FakeTensor:
                if not self._is_plain(a) or a.is_conj() or a.is_neg():
                    return False
                parts.append((a.shape, a.stride(), a.dtype, a.fake_device))
            elif isinstance(a, (list, tuple)):
                parts.append(len(a))
                if not self._describe(a, parts):
                    return False
            elif a is None or type(a) in PLAIN:
                parts.append((type(a), a))
            else:
                return False
        return True


def quick_fakes(fake_mode: FakeTensorMode | None) -> QuickFakes | None:
    """Quick fakes on top of ``fake_mode``; None where there is none, or where it carries real tensors along."""
    return None if fake_mode is None or fake_mode.propagate_real_tensors else QuickFakes(fake_mode)


PLAIN = {int, float, bool, torch.dtype, torch.memory_format}


def _has_one_answer(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether strides are laid down: those of dimensions of extent 1 that are viewed, and of empty tensors, the fake mode chooses in its own way."""
    if func is aten.view.default:
        return min(args[0].shape, default=0) > 1 and min(args[1], default=0) > 1
    return min(args[0].shape, default=1) > 0


def _are_numbers(args: Iterable[Any]) -> bool:
    return all(type(a) is int or a is None or (type(a) in (list, tuple, torch.Size) and all(type(i) is int for i in a)) for a in args)
