"""The Triton kernel by itself, run on the CPU by Triton's interpreter, against float64."""

from __future__ import annotations

import copy
import importlib.metadata
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fuzz.templates import captured
from optimus.capture import capture
from optimus.engine import Engine
from optimus.grouped import _matrix, group_linear
from optimus.grouped import check as check_operands
from optimus.passes.batch_linear import BatchLinear
from optimus.passes.group_linear import GroupLinear
from optimus.plan import Plan

ROOT = Path(__file__).parent.parent
EDGES = (1, 15, 16, 17, 33, 65)
DTYPES = {"float32": (torch.float32, 1e-6), "float16": (torch.float16, 1e-3), "bfloat16": (torch.bfloat16, 8e-3)}
"""The dtypes, and one unit in the last place: the interpreter cuts bfloat16 off where a device rounds."""

Member = tuple[Tensor, Tensor, Tensor | None]


def made(m: int, n: int, k: int, dtype: torch.dtype, *, bias: bool = True) -> Member:
    return torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype), torch.randn(n).to(dtype) if bias else None


def edges(dtype: torch.dtype) -> list[Member]:
    sizes = ((EDGES[i], EDGES[(i + j) % 6], EDGES[(i + 2 * j + 1) % 6]) for i, j in product(range(6), range(3)))
    return [made(m, n, k, dtype, bias=bool(i % 2)) for i, (m, n, k) in enumerate(sizes)]


def wide(dtype: torch.dtype) -> list[Member]:
    """What may be loaded 16 bytes at a time, and what must not: extents or strides or addresses that 16 bytes do not divide."""
    x, w, b = made(64, 48, 64, dtype)
    whole = torch.randn(70, 72).to(dtype)
    return [
        (x, w, b),
        (x.t(), w[:, :], None),
        (whole[:64, :64], w, None),
        (whole[:64, 1:65], w, b),
        (x, whole[:48, 4:68], b),
        (x[:, :40], w[:, 8:48], b),
    ]


def nothing(dtype: torch.dtype) -> list[Member]:
    return [made(*sizes, dtype, bias=bias) for sizes in ((0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 0, 0), (3, 1, 0)) for bias in (True, False)]


def strides(dtype: torch.dtype) -> list[Member]:
    x, w, b = made(40, 33, 48, dtype)
    wide = torch.randn(80, 96).to(dtype)
    turned = x.t().contiguous().t(), w.t().contiguous().t()
    return [(turned[0], w, b), (x, turned[1], b), (*turned, None), (wide[::2, ::2], w, b), (x, wide[:66:2, ::2], torch.randn(66).to(dtype)[::2]),
            (x[:1].expand(7, 48), w, b), (x, w[:1].expand(9, 48), b[:1].expand(9)), (x[:, :1], w[:, :1], b), (x, w[:1], b[:1]), (x[:1], w, None)]  # fmt: skip


def ranks(dtype: torch.dtype) -> list[Member]:
    w = torch.randn(5, 24).to(dtype)
    return [(torch.randn(*lead, 24).to(dtype), w, None) for lead in ((), (3,), (2, 3), (2, 1, 3, 1), (2, 0))] + [
        (torch.randn(24, 3, 2).to(dtype).transpose(0, 2), w, None)
    ]


KINDS = {f.__name__: f for f in (edges, wide, nothing, strides, ranks)}


def distance(found: Tensor, x: Tensor, w: Tensor, b: Tensor | None) -> float:
    """The largest error, relative to the sum of what is added; below the normal numbers, to the smallest of these."""
    exact = F.linear(x.double(), w.double(), None if b is None else b.double())
    scale = F.linear(x.double().abs(), w.double().abs(), None if b is None else b.double().abs()).clamp_min(torch.finfo(x.dtype).tiny)
    assert (found.shape, found.dtype, found.is_contiguous()) == (exact.shape, x.dtype, True)
    return float(((found.double() - exact).abs() / scale).max()) if found.numel() else 0.0


def main(name: str) -> None:
    """What runs under the interpreter."""
    import optimus.grouped
    from optimus.kernels.group_linear import group_linear as kernel

    torch.library.impl(optimus.grouped.NAME, "CPU")(kernel)  # from here on the operator is the kernel, its backward pass too
    for kind in KINDS:
        print(kind, flush=True)
        check(kind, name)


def check(kind: str, name: str) -> None:
    """Forward and backward on all members of ``kind`` at once."""
    torch.manual_seed(0)
    dtype, unit = DTYPES[name]
    members = KINDS[kind](dtype)
    inputs, weights, biases = map(list, zip(*members, strict=True))
    results, again = group_linear(inputs, weights, biases), group_linear(inputs, weights, biases)
    assert all(torch.equal(a, b) for a, b in zip(results, again, strict=True))
    assert len({r.untyped_storage().data_ptr() for r in results if r.numel()}) == sum(r.numel() > 0 for r in results)
    for result, member in zip(results, members, strict=True):
        assert distance(result, *member) <= unit, [t if t is None else (t.shape, t.stride()) for t in member]

    operands = [[None if t is None else t.detach().requires_grad_() for t in side] for side in (inputs, weights, biases)]
    grads = [torch.randn(r.shape).to(r) for r in results]
    torch.autograd.backward(group_linear(*operands), grads)
    for grad, x, w, b in zip(grads, *operands, strict=True):
        across, rows = _matrix(grad).t(), _matrix(x.detach())
        assert distance(x.grad.contiguous(), grad, w.detach().t(), None) <= unit
        assert distance(w.grad.contiguous(), across, rows.t(), None) <= unit
        if b is not None:
            assert distance(b.grad.contiguous().unsqueeze(1), across, across.new_ones(1, across.shape[1]), None) <= unit


def _release(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in importlib.metadata.version(package).split(".")[:2])


@pytest.mark.skipif(
    _release("triton") < (3, 7) and _release("numpy") >= (2, 4), reason="the interpreter of Triton 3.6 asks NumPy for what 2.4 refuses"
)
@pytest.mark.parametrize("name", DTYPES)
def test_kernel_as_float64(name: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    code = f"from tests.test_kernels import main; main({name!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == list(KINDS)


def test_operator_is_well_formed() -> None:
    members = [*ranks(torch.float32), *strides(torch.float32)]
    operands = [[None if t is None else t.detach().requires_grad_() for t in side] for side in zip(*members, strict=True)]
    found = torch.library.opcheck(group_linear, tuple(operands))
    assert set(found.values()) == {"SUCCESS"}


def test_gradients_of_gradients() -> None:
    x, w, b = (t.double().requires_grad_() for t in made(3, 2, 4, torch.float32))

    def twice(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
        return group_linear([x, x[0] * 2], [w, w], [b, None])

    assert torch.autograd.gradcheck(twice, (x, w, b))
    assert torch.autograd.gradgradcheck(twice, (x, w, b))


def test_results_without_gradient_give_none() -> None:
    x, w, b = (t.requires_grad_() for t in made(3, 2, 4, torch.float32))
    v = torch.randn(5, 4, requires_grad=True)
    _, used = group_linear([x, x], [w, v], [b, None])
    assert [g is None for g in torch.autograd.grad(used.sum(), [x, w, v, b], allow_unused=True)] == [False, True, False, True]


def test_refusals_say_what_is_accepted() -> None:
    x, w, b = made(3, 2, 4, torch.float32)
    for operands, message in (
        (([x], [w], []), "1 inputs, 1 weights, 0 biases; accepted are as many of each, at least 1"),
        (([x], [w.t()], [None]), r"member 0 has shapes \(3, 4\), \(4, 2\); accepted are"),
        (([x, x], [w, w], [b, b[:1]]), r"member 1 has shapes \(3, 4\), \(2, 4\), \(1,\); accepted are"),
        (([x, x.double()], [w, w.double()], [b, None]), "member 1 has a torch.float64 on cpu; accepted is torch.float32 on cpu"),
        (([x.int()], [w.int()], [None]), "inputs of torch.int32; accepted are floating-point dtypes"),
    ):
        with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
            check_operands(*operands)


def test_joined_by_default_only_where_there_is_a_kernel() -> None:
    case = GroupLinear.cases[0]
    gm = copy.deepcopy(captured(case))
    journal = Engine(gm, Plan((GroupLinear(),))).run()
    assert not journal.rewrites
    assert {(d.reason, d.detail) for d in journal.declined} == {("kernel", "torch.float32 on cpu")}


def test_linears_of_one_shape_are_left_to_batch_linear() -> None:
    def program(*t: Tensor) -> Tensor:
        return torch.cat([F.linear(x, w) for x, w in zip(t[:12], t[12:], strict=True)], dim=1)

    inputs = [torch.randn(3, 4) for _ in range(12)]
    weights = [torch.randn(n, 4) for n in (5, 5, 5, 5, 5, 5, 5, 1, 2, 3, 6, 7)]
    (found,) = capture(program, [*inputs, *weights])
    journal = Engine(found.gm, Plan((BatchLinear(), GroupLinear().judged()))).run()
    assert [(r.pattern, len(r.outputs)) for r in journal.rewrites if "linear" in r.pattern] == [("batch_linear", 7), ("group_linear", 5)]
