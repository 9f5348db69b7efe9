"""Results of well-known functions on fakes, made again from what an earlier call with such arguments gave.

Sizes, strides, types, and which memory is shared follow from the arguments alone, so PyTorch is asked once for each kind of
call. What is made again says of itself all that laws ask, with one exception: to autograd it is a leaf and no view. The kind
of a view counts where its memory is written, so the rewriter recalls nothing that reads such memory, and asks ``views`` before
it compares kinds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Node

from optimus.fakes import PLAIN
from optimus.modes import DEVICES
from optimus.values import Storage, storage, value
from optimus.versions import bare_fake

F = torch.nn.functional
aten = torch.ops.aten

VIEWS = {
    torch.split, torch.unbind, torch.transpose, torch.unsqueeze, torch.movedim, torch.narrow, torch.unflatten, torch.squeeze,
    aten.unsqueeze.default, aten.select.int, aten.permute.default, aten.slice.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.expand.default, aten.view.default,
}  # fmt: skip
VIEWS_OR_COPIES = {torch.flatten, torch.reshape}
COPIES = {
    torch.stack, torch.cat, torch.bmm, torch.baddbmm, torch.tanh, torch.sigmoid, torch.relu, torch.clamp, torch.nan_to_num, torch.clone, F.linear,
    F.layer_norm, F.relu, torch.sum, torch.mul, torch.add, operator.mul, operator.add, aten.stack.default, aten.cat.default, aten.bmm.default,
    aten.baddbmm.default, aten.mm.default, aten.addmm.default, aten.clone.default, aten.tanh.default, aten.sigmoid.default, aten.relu.default,
    aten.mul.Tensor, aten.add.Tensor, aten.sum.dim_IntList,
}  # fmt: skip
RECALLED = VIEWS | VIEWS_OR_COPIES | COPIES
METHODS = {"expand", "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze"}

KEPT = 10_000
"""How many calls are kept before all are forgotten."""

Facts = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool]
"""Shape, strides, dtype, device, and whether it requires a gradient."""
Made = tuple[Facts, int | None]
"""How far behind the one argument a result starts in its memory; None: memory of its own."""

_known: dict[Any, tuple[type | None, tuple[Made, ...]] | None] = {}


class Recall:
    """Makes fakes of ``fake_mode`` for nodes whose arguments have such fakes."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode
        self.views: set[Storage | None] = set()
        """The storages of all views that were made here."""
        self._ambient = (torch.is_grad_enabled(), torch.get_default_dtype())
        self._makers: dict[torch.device, Callable[[torch.Tensor, bool], FakeTensor]] = {}
        self._facts: dict[int, tuple[FakeTensor, Facts | None]] = {}

    def __call__(self, node: Node, run: Callable[[Node], Any]) -> Any:
        """The result of ``node``; that of ``run`` where nothing like it is known, or can be."""
        target: Any = node.target
        if target not in (RECALLED if node.op == "call_function" else METHODS):
            return run(node)
        parts: list[Any] = [target, self._ambient]
        given: list[FakeTensor] = []
        if not self._describe(node.args, parts, given):
            return run(node)
        kwargs = node.kwargs
        if kwargs:
            parts += kwargs
            if not self._describe(kwargs.values(), parts, given):
                return run(node)
        key = tuple(parts)
        known = _known.get(key, False)
        if known is False:
            made = run(node)
            if len(_known) >= KEPT:
                _known.clear()
            known = _known[key] = self._note(made, given)
            if known is None:
                return made
        elif known is None:
            return run(node)
        assert not isinstance(known, bool)
        kind, results = known
        found = self._make(results, given[0])
        if results and results[0][1] is not None:
            self.views.add(storage(found[0]))
        return found[0] if kind is None else kind(found)

    def _describe(self, arguments: Iterable[Any], parts: list[Any], given: list[FakeTensor]) -> bool:
        """Append to ``parts`` what a result follows from, and the fakes to ``given``; False where that is more than plain facts."""
        for a in arguments:
            if isinstance(a, Node):
                fake = value(a)
                facts = self._facts_of(fake)
                if facts is None:
                    return False
                given.append(fake)
                parts.append(facts)
            elif type(a) in PLAIN or a is None:
                parts.append((type(a), a))
            elif isinstance(a, (list, tuple)):
                parts.append(len(a))
                if not self._describe(a, parts, given):
                    return False
            else:
                return False
        return True

    def made(self, fake: torch.Tensor) -> bool:
        """Whether ``fake`` is known here as an ordinary tensor of strides."""
        known = self._facts.get(id(fake))
        return known is not None and known[1] is not None

    def made_like(self, fake: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether ``fake`` is known here, and ``other`` is as plain, of the same shape, strides and type."""
        known = self._facts.get(id(fake))
        if known is None or known[1] is None or type(other) is not FakeTensor:
            return False
        facts = (other.shape, other.stride(), other.dtype, other.fake_device, other.requires_grad)
        return known[1] == facts and not (other.is_conj() or other.is_neg())

    def _facts_of(self, fake: Any) -> Facts | None:
        """Shape, strides and type of a fake, which never change while a graph is rewritten; None where it is more than that."""
        known = self._facts.get(id(fake))
        if known is not None:
            return known[1]
        if type(fake) is not FakeTensor:
            return None
        facts = (fake.shape, fake.stride(), fake.dtype, fake.fake_device, fake.requires_grad) if self._is_plain(fake) else None
        self._facts[id(fake)] = (fake, facts)
        return facts

    def _is_plain(self, fake: FakeTensor) -> bool:
        if fake.fake_mode is not self.fake_mode or fake._has_symbolic_sizes_strides or fake.constant is not None or fake.is_nested:
            return False
        return fake.layout is torch.strided and fake.numel() > 0 and not (fake.is_conj() or fake.is_neg() or fake.is_inference())

    def _note(self, made: Any, given: list[FakeTensor]) -> tuple[type | None, tuple[Made, ...]] | None:
        """What is kept of a result; None where it cannot be made again."""
        if not given or not (type(made) is FakeTensor or type(made) in (tuple, list)):
            return None
        results = (made,) if type(made) is FakeTensor else tuple(made)
        if not results or any(type(r) is not FakeTensor or not self._is_plain(r) or any(r is g for g in given) for r in results):
            return None
        memory = {storage(g) for g in given}
        held = [storage(r) for r in results]
        views = all(h in memory for h in held)
        if views and (len(given) > 1 or any(r.dtype is not given[0].dtype for r in results)):
            return None  # offsets count elements, so that of a view as another dtype says nothing of other starts
        if not views:
            apart = memory.isdisjoint(held) and len(set(held)) == len(held)
            if not apart or any(r.storage_offset() or r.untyped_storage().nbytes() != _extent(r) * r.itemsize for r in results):
                return None
        start = given[0].storage_offset()
        notes = [((r.shape, r.stride(), r.dtype, r.fake_device, r.requires_grad), r.storage_offset() - start if views else None) for r in results]
        return None if type(made) is FakeTensor else type(made), tuple(notes)

    def _make(self, notes: Sequence[Made], source: FakeTensor) -> list[FakeTensor]:
        (shape, stride, dtype, _, _), offset = notes[0]
        with torch._C._DisableTorchDispatch():
            if offset is None:
                bare = [torch.empty_strided(f[0], f[1], dtype=f[2], device="meta") for f, _ in notes]
            else:
                start = source.storage_offset()
                first = torch.empty(0, dtype=dtype, device="meta").set_(source.untyped_storage(), start + offset, shape, stride)
                bare = [first, *(first.as_strided(f[0], f[1], start + at) for f, at in notes[1:] if at is not None)]
        found = []
        for tensor, (facts, _) in zip(bare, notes, strict=True):
            device = facts[3]
            maker = self._makers.get(device)
            if maker is None:
                maker = self._makers[device] = bare_fake(self.fake_mode, device)
            fake = maker(tensor, facts[4])
            self._facts[id(fake)] = (fake, facts)
            found.append(fake)
        return found


def _extent(fake: torch.Tensor) -> int:
    """How many elements of memory a tensor spans."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(fake.shape, fake.stride(), strict=True))


def recall_for(fake_mode: FakeTensorMode | None) -> Recall | None:
    """Recalled fakes of ``fake_mode``; None where there is none, or where more than arguments counts: real tensors, autocast, inference mode."""
    if fake_mode is None or fake_mode.propagate_real_tensors or torch.is_inference_mode_enabled() or torch.compiler.is_exporting():
        return None
    return None if any(map(torch.is_autocast_enabled, DEVICES)) else Recall(fake_mode)
