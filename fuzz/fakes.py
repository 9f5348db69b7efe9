"""What the fake mode answered before, for the same question: for programs are drawn by the hundred and ask the same of it again and again.

The question is an operator of ATen with what its result follows from: sizes, strides, places in memory and types of fakes whose sizes are
numbers, and plain values. Autograd runs in front of it, so that gradients and kinds of views are those of the call at hand. Nothing here
knows an operator: a result is made again only if its memory is its own or that of one argument, as the fake mode said the first time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from optimus.versions import bare_fake

Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device, int, int | None]
"""Shape, strides, dtype, device, place in its memory, and the number of the argument whose memory that is; None: its own."""

Answer = tuple[type | None, tuple[Made | None, ...]]
"""In what the results come (None: there is one), and each of them, which may be None."""

BARE = "optimus_bare"
"""Metadata of a node of which its graph says nothing, or shall say nothing once it is lowered."""

KEPT = 30_000
"""How many answers are kept before all are forgotten."""

DEVICE = torch.ops.prim.device.default
CPU = torch.device("cpu")
PLAIN = {int, float, bool, str, complex, torch.dtype, torch.device, torch.memory_format, torch.layout}
ASKED_ANEW = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}

_answers: dict[Any, Answer | None] = {}


class Remembered:
    """Calls of operators on fakes of ``fake_mode``."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode
        self._default = torch.get_default_dtype()
        self._makers: dict[torch.device, Callable[[torch.Tensor, bool], FakeTensor]] = {}

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of ``func``, to be asked for below autograd."""
        if func is DEVICE and type(args[0]) is FakeTensor:
            return torch.device("meta") if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
        parts: list[Any] = [func, self._default]
        given: list[FakeTensor] = []
        if not _may_be_kept(func) or not self._describe(args, parts, given):
            return func(*args, **kwargs)
        if kwargs:
            parts += kwargs
            if not self._describe(kwargs.values(), parts, given):
                return func(*args, **kwargs)
        key = tuple(parts)
        known = _answers.get(key, False)
        if known is False:
            made = func(*args, **kwargs)
            if len(_answers) >= KEPT:
                _answers.clear()
            _answers[key] = self._note(made, given)
            return made
        if known is None:
            return func(*args, **kwargs)
        assert not isinstance(known, bool)
        kind, results = known
        found = [None if m is None else self._make(m, given) for m in results]
        return found[0] if kind is None else kind(found)

    def snapshot(self, fake: Any) -> Any:
        """``fake`` as it is now, in the same memory and without gradients."""
        if not (type(fake) is FakeTensor and self._is_plain(fake)):
            return fake.detach() if isinstance(fake, torch.Tensor) else fake
        return self._make((tuple(fake.shape), fake.stride(), fake.dtype, fake.fake_device, int(fake.storage_offset()), 0), [fake])

    def leaf(self, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, requires_grad: bool) -> FakeTensor:
        """A fake on the CPU of an input with these sizes and strides."""
        with torch._C._DisableTorchDispatch():
            bare = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        return self._maker(CPU)(bare, requires_grad)

    def _describe(self, arguments: Iterable[Any], parts: list[Any], given: list[FakeTensor]) -> bool:
        """Append to ``parts`` what a result follows from, and the fakes to ``given``; False where that is more than plain facts."""
        for a in arguments:
            if type(a) is FakeTensor:
                if not self._is_plain(a):
                    return False
                given.append(a)
                parts.append((a.shape, a.stride(), a.storage_offset(), a.dtype, a.fake_device))
            elif a is None or type(a) in PLAIN:
                parts.append((type(a), a))
            elif isinstance(a, (list, tuple)):
                parts.append(len(a))
                if not self._describe(a, parts, given):
                    return False
            else:
                return False
        return True

    def _is_plain(self, fake: FakeTensor) -> bool:
        if fake.fake_mode is not self.fake_mode or fake._has_symbolic_sizes_strides or fake.constant is not None or fake.is_nested:
            return False
        return fake.layout is torch.strided and not (fake.is_conj() or fake.is_neg() or fake.is_inference())

    def _note(self, made: Any, given: list[FakeTensor]) -> Answer | None:
        """What is kept of a result; None where it cannot be made again."""
        single = not isinstance(made, (tuple, list))
        results = [made] if single else list(made)
        if not any(isinstance(r, torch.Tensor) for r in results):
            return None
        memory = [g.untyped_storage()._cdata for g in given]
        own: set[int] = set()
        notes: list[Made | None] = []
        for r in results:
            if r is None:
                notes.append(None)
                continue
            if type(r) is not FakeTensor or not self._is_plain(r) or any(r is g for g in given):
                return None
            held = r.untyped_storage()._cdata
            if held in memory:
                source = memory.index(held) if memory.count(held) == 1 else None
                if source is None:
                    return None
            elif held in own or r.storage_offset() or r.untyped_storage().nbytes() != _extent(r) * r.itemsize:
                return None
            else:
                own.add(held)
                source = None
            notes.append((tuple(r.shape), r.stride(), r.dtype, r.fake_device, int(r.storage_offset()), source))
        return None if single else type(made), tuple(notes)

    def _make(self, note: Made, given: list[FakeTensor]) -> FakeTensor:
        shape, stride, dtype, device, offset, source = note
        with torch._C._DisableTorchDispatch():
            if source is None:
                bare = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
            else:
                bare = torch.empty(0, dtype=dtype, device="meta").set_(given[source].untyped_storage(), offset, shape, stride)
        return self._maker(device)(bare, False)

    def _maker(self, device: torch.device) -> Callable[[torch.Tensor, bool], FakeTensor]:
        maker = self._makers.get(device)
        if maker is None:
            maker = self._makers[device] = bare_fake(self.fake_mode, device)
        return maker


@cache
def _may_be_kept(func: Any) -> bool:
    """Whether ``func`` writes to none of its arguments, and what it gives follows from their sizes, strides and types."""
    return func.namespace in ("aten", "prims") and not func._schema.is_mutable and ASKED_ANEW.isdisjoint(func.tags)


def _extent(fake: torch.Tensor) -> int:
    """How many elements of memory a tensor spans."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(fake.shape, fake.stride(), strict=True)) if fake.numel() else 0


class RememberingMode(TorchDispatchMode):
    """On top of a fake mode: answers what it has answered before."""

    def __init__(self, remembered: Remembered) -> None:
        super().__init__()
        self.remembered = remembered

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against being compiled: nothing is compiled while fakes are made."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """The result of ``func`` on fakes."""
        return self.remembered(func, args, kwargs or {})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without PyTorch's log of operators that fakes refuse: that is an answer here, and not a fault."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True  # another level would empty the caches of all logs
    try:
        yield
    finally:
        log.disabled = before
