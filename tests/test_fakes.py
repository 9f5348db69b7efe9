"""Quick fakes say what PyTorch's fake mode says."""

from __future__ import annotations

import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from optimus import fakes
from optimus.fakes import FRESH, VIEWS, QuickFakes, quick_fakes
from optimus.versions import view_kind

F = torch.nn.functional


def laid_out(rng, rank, grad):
    """A tensor of ``rank`` dimensions, extents of 0 and 1 among them, whose strides come from a permutation and a slice."""
    order = rng.sample(range(rank), rank)
    base = torch.randn([rng.choice((0, 1, 1, 2, 3, 4)) for _ in range(rank)]).permute(order)
    if rank and rng.random() < 0.3:
        base = base.expand(2, *base.shape).select(0, 1)
    if rank and base.shape[0] > 1 and rng.random() < 0.3:
        base = base[1:]
    return base.requires_grad_() * 1 if grad == "inner" else base.requires_grad_(grad == "leaf")


def some_shape(rng, x):
    """A shape that ``view`` may take, or may refuse."""
    extents = [e for e in x.shape if e != 1 or rng.random() < 0.5]
    if len(extents) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(extents) - 1)
        extents[at : at + 2] = [extents[at] * extents[at + 1]]
    if rng.random() < 0.5:
        extents.insert(rng.randint(0, len(extents)), 1)
    return extents


def sections(rng, extent):
    """Sizes, some of them 0, that sum to ``extent``."""
    found = []
    while sum(found) < extent or not found:
        found.append(rng.randint(0, extent - sum(found)))
    return found


CALLS = {
    "view": lambda x, dim, rng: x.view(some_shape(rng, x)),
    "flatten": lambda x, dim, rng: torch.flatten(x, min(dim, x.dim() - 2), min(dim, x.dim() - 2) + 1),
    "unflatten": lambda x, dim, rng: torch.unflatten(x, dim, (x.shape[dim], 1)),
    "reshape": lambda x, dim, rng: x.reshape(some_shape(rng, x)),
    "permute": lambda x, dim, rng: x.permute(rng.sample(range(x.dim()), x.dim())),
    "movedim": lambda x, dim, rng: torch.movedim(x, dim, 0),
    "transpose": lambda x, dim, rng: x.transpose(dim, -1),
    "unsqueeze": lambda x, dim, rng: x.unsqueeze(rng.randint(0, x.dim())),
    "squeeze": lambda x, dim, rng: x.squeeze(dim),
    "expand": lambda x, dim, rng: x.unsqueeze(0).expand(rng.randint(0, 3), *x.shape),
    "expand_from_one": lambda x, dim, rng: x.expand([rng.randint(1, 3) if e == 1 else e for e in x.shape]),
    "expand_more": lambda x, dim, rng: x.expand(rng.randint(1, 3), *x.shape),
    "select": lambda x, dim, rng: x.select(dim, 0),
    "narrow": lambda x, dim, rng: torch.narrow(x, dim, 0, rng.randint(0, x.shape[dim])),
    "slice": lambda x, dim, rng: x[rng.randint(0, 2) : rng.choice((None, 2, 9)) : rng.randint(1, 2)],
    "split": lambda x, dim, rng: torch.split(x, rng.randint(1, 3), dim=dim),
    "sections": lambda x, dim, rng: torch.split(x, sections(rng, x.shape[dim]), dim=dim),
    "chunk": lambda x, dim, rng: torch.chunk(x, 2, dim=dim),
    "unbind": lambda x, dim, rng: torch.unbind(x, dim=dim),
    "stack": lambda x, dim, rng: torch.stack([x, x.detach(), x * 2], dim=dim),
    "cat": lambda x, dim, rng: torch.cat([x, x.unsqueeze(0).expand(2, *x.shape).select(0, 0)], dim=dim),
    "clone": lambda x, dim, rng: torch.clone(x, memory_format=rng.choice((torch.contiguous_format, torch.preserve_format))),
    "linear": lambda x, dim, rng: F.linear(x, torch.ones(3, x.shape[-1]), torch.ones(3)),
    "tanh": lambda x, dim, rng: torch.tanh(x),
    "clamp": lambda x, dim, rng: torch.clamp(x, rng.choice((0, 0.5)), 1),
    "mul": lambda x, dim, rng: x.long() * rng.choice((2, 2.0, True)),
    "sum": lambda x, dim, rng: x.sum(dim, keepdim=rng.random() < 0.5),
    "layer_norm": lambda x, dim, rng: F.layer_norm(x, x.shape[-1:]),
}  # fmt: skip


def facts(result, inputs):
    """All that laws ask of the fakes that a call gives."""
    if isinstance(result, Exception):
        return "refused"
    if isinstance(result, (tuple, list)):
        return type(result), [facts(r, inputs) for r in result]
    shared = [result.numel() and result.untyped_storage()._cdata == i.untyped_storage()._cdata for i in inputs]  # what is empty shares nothing
    kind = (result._is_view(), view_kind(result), result.is_leaf, result.requires_grad, type(result), result.is_inference())
    return tuple(result.shape), result.stride(), result.storage_offset(), result.dtype, result.device, shared, kind


def outcome(name, x, dim, seed):
    """The result of a call, or its error."""
    try:
        return CALLS[name](x, dim, random.Random(seed))
    except (RuntimeError, IndexError, ValueError) as error:
        return error


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("grad", ["none", "leaf", "inner"])
def test_same_as_the_fake_mode(name, grad):
    mode = FakeTensorMode()
    quick = QuickFakes(mode)
    for seed in range(80):
        rng = random.Random(seed)
        rank = rng.randint(2, 4)
        with mode:
            x = laid_out(rng, rank, grad)
            slow = facts(outcome(name, x, rng.randrange(rank) if rank else 0, seed), [x])
            rng = random.Random(seed)
            rng.randint(2, 4)
            again = laid_out(rng, rank, grad)
            with quick:
                fast = facts(outcome(name, again, rng.randrange(rank) if rank else 0, seed), [again])
        assert fast == slow, (seed, x.shape, x.stride())


@pytest.mark.parametrize("grad_mode", [torch.no_grad, torch.inference_mode])
def test_grad_modes(grad_mode):
    mode = FakeTensorMode()
    for name in ("unbind", "transpose", "stack", "tanh"):
        found = []
        for top in (mode, QuickFakes(mode)):
            with mode, top:
                x = torch.randn(2, 3, requires_grad=True)
                with grad_mode():
                    found.append(facts(outcome(name, x, 0, 0), [x]))
        assert found[0] == found[1]


def called(run):
    """The operators that reach the mode below while ``run`` runs under quick fakes."""
    seen = []

    class Below(FakeTensorMode):
        def dispatch(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().dispatch(func, types, args, kwargs or {})

    mode = Below()
    with mode:
        x = torch.randn(4, 6)
        seen.clear()
        with QuickFakes(mode):
            run(x)
    return {f for f in seen if f in VIEWS | FRESH}


def test_the_fake_mode_is_asked_once(monkeypatch):
    monkeypatch.setattr(fakes, "_made", {})
    assert called(lambda x: torch.unbind(x.transpose(0, 1).unsqueeze(0))) == set()
    assert called(lambda x: [torch.tanh(x) for _ in range(3)]) == {torch.ops.aten.tanh.default}
    assert called(lambda x: (torch.tanh(x), torch.relu(x))) == {torch.ops.aten.relu.default}


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(fakes, "_made", {})
    monkeypatch.setattr(fakes, "KEPT", 2)
    mode = FakeTensorMode()
    with mode, QuickFakes(mode):
        for size in range(2, 7):
            assert torch.tanh(torch.randn(size)).shape == (size,)
    assert len(fakes._made) <= 2


def test_results_are_apart():
    mode = FakeTensorMode()
    with mode, QuickFakes(mode):
        x = torch.randn(2, 3)
        results = [torch.tanh(x) for _ in range(3)]
    assert len({r.untyped_storage()._cdata for r in (x, *results)}) == 4


def test_symbolic_sizes_are_left_to_the_fake_mode():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(torch.randn(5, 6))
    with mode, QuickFakes(mode):
        assert torch.transpose(x, 0, 1).shape[0] == x.shape[1]


def test_no_quick_fakes_beside_real_tensors():
    assert quick_fakes(None) is None
    assert quick_fakes(FakeTensorMode()) is not None
    real = FakeTensorMode()
    real.propagate_real_tensors = True
    assert quick_fakes(real) is None
