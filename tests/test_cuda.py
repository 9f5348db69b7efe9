"""What only a GPU can show: the kernel of ``group_linear`` on the device, and behind Inductor."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import optimus
from optimus import grouped
from tests import test_kernels
from tests.test_kernels import DTYPES, KINDS, Member, distance
from verify.compare import differences, observe, reference

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

UNITS = {"float32": 1e-6, "float16": 6e-4, "bfloat16": 5e-3}
"""One rounding at the end, and a little for sums in float32."""


def on_device(member: Member) -> Member:
    """The member on the GPU, at the same strides and offsets."""
    x, w, b = member
    return moved(x), moved(w), None if b is None else moved(b)


def moved(given: Tensor) -> Tensor:
    storage = given.untyped_storage().cuda()
    return torch.empty(0, dtype=given.dtype, device="cuda").set_(storage, given.storage_offset(), given.shape, given.stride())


def larger(dtype: torch.dtype) -> list[Member]:
    return [test_kernels.made(m, n, k, dtype, bias=m % 2 == 0) for m, n, k in ((513, 257, 300), (1024, 512, 512), (4096, 8, 64), (100, 1, 4097))]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("kind", [*KINDS.values(), larger], ids=lambda f: f.__name__)
def test_kernel_as_float64(kind, name, monkeypatch):
    monkeypatch.setitem(test_kernels.DTYPES, name, (DTYPES[name][0], UNITS[name]))
    monkeypatch.setitem(test_kernels.KINDS, kind.__name__, lambda dtype: [on_device(m) for m in kind(dtype)])
    assert grouped.has_kernel(torch.device("cuda"))
    test_kernels.check(kind.__name__, name)


def test_tf32_only_where_it_is_allowed():
    x, w, _ = on_device(test_kernels.made(64, 64, 512, torch.float32))
    errors = {}
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        (found,) = grouped.group_linear([x], [w], [None])
        errors[precision] = distance(found, x, w, None)
    torch.set_float32_matmul_precision("highest")
    assert errors["highest"] < 1e-6 < errors["high"]


def test_another_stream_and_changed_addresses():
    members = [on_device(m) for m in larger(torch.float32)]
    operands = [list(side) for side in zip(*members, strict=True)]
    expected = [F.linear(*m) for m in members]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(20):
        with torch.cuda.stream(stream):
            found = grouped.group_linear(*operands)
        torch.cuda.current_stream().wait_stream(stream)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_a_cuda_graph_replays_it():
    members = [on_device(m) for m in larger(torch.float32)]
    operands = [list(side) for side in zip(*members, strict=True)]
    grouped.group_linear(*operands)
    for _ in range(2):
        [F.linear(*m) for m in members]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = grouped.group_linear(*operands)
    operands[0][0].mul_(2)
    graph.replay()
    torch.testing.assert_close(found[0], F.linear(operands[0][0], operands[1][0], operands[2][0]), rtol=1e-4, atol=1e-3)


class Towers(nn.Module):
    """Twenty linears of different shapes over one input, each followed by one more."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(64, 8 + 5 * i, bias=i % 3 > 0) for i in range(20))
        self.second = nn.ModuleList(nn.Linear(8 + 5 * i, 3 + i) for i in range(20))

    def forward(self, x: Tensor) -> Tensor:
        hidden = [torch.relu(layer(x)) for layer in self.first]
        return torch.cat([layer(h) for layer, h in zip(self.second, hidden, strict=True)], dim=1)


@pytest.mark.parametrize(("compiler", "name", "dynamic"), list(product(("aot_eager", "inductor"), DTYPES, (False, True))))
def test_model_as_eager(compiler, name, dynamic):
    torch._dynamo.reset()
    optimus.clear_journals()
    torch.manual_seed(0)
    dtype = DTYPES[name][0]
    model = Towers()
    names, values = zip(*model.named_parameters(), strict=True)

    def program(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (x,))

    def inputs() -> list[Tensor]:
        torch.manual_seed(1)
        return [t.detach().to("cuda", dtype).requires_grad_() for t in (torch.randn(33, 64), *values)]

    base = observe(program, inputs())
    compiled = torch.compile(program, backend=optimus.backend, options={"compiler": compiler, "plan": ["group_linear"]}, dynamic=dynamic or None)
    found = observe(compiled, inputs())
    assert differences(base, found, reference(program, inputs(), base), bitwise=False) == []
    assert sum(j.counts()["group_linear"] for j in optimus.journals()) >= 2


def test_model_under_autocast():
    torch._dynamo.reset()
    optimus.clear_journals()
    torch.manual_seed(0)
    model, x = Towers().cuda(), torch.randn(33, 64, device="cuda")
    compiled = torch.compile(model, backend=optimus.backend, options={"plan": ["group_linear"]})
    with torch.autocast("cuda", dtype=torch.bfloat16):
        base, found = model(x), compiled(x)
    assert found.dtype == base.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), base.float(), rtol=2e-2, atol=2e-2)
    assert sum(j.counts()["group_linear"] for j in optimus.journals()) >= 2
