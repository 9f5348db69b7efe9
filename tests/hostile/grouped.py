"""Linears of different shapes side by side."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import kind, many, randn, trained

shapes = kind("shapes of members")


def operands(*sizes: tuple[int, int, int], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """An input, a weight and a bias for each (rows, columns, inner)."""
    return [t for m, n, k in sizes for t in (randn(m, k, dtype=dtype), randn(n, k, dtype=dtype), randn(n, dtype=dtype))]


@shapes(lambda: operands((3, 4, 5), (2, 7, 1), (6, 1, 3)), fires=("group_linear",), inductor=True)
def nothing_alike(*t):
    return tuple(F.linear(*t[i : i + 3]) for i in range(0, 9, 3))


@shapes(lambda: [randn(3, 4), randn(5, 4), randn(2, 4), randn(7, 4), randn(5)])
def one_input(x, u, v, w, b):
    return F.linear(x, v), F.linear(x, u, b), F.linear(x, w)


@shapes(lambda: [randn(4), randn(2, 4), randn(2, 3, 4), randn(1, 2, 1, 4), randn(5, 4), randn(3, 4)], fires=("group_linear",))
def every_rank(a, b, c, d, u, v):
    return F.linear(a, u), F.linear(b, v), F.linear(c, u), F.linear(d, v).sum(), F.linear(c[0], v).view(-1)


@shapes(lambda: operands((0, 4, 5), (3, 0, 5), (3, 4, 0), (2, 3, 4)), fires=("group_linear",), dynamic=False)
def extents_of_zero(*t):
    """Where there is nothing to sum, the bias is left."""
    return tuple(F.linear(*t[i : i + 3]) for i in range(0, 12, 3))


@shapes(lambda: [randn(4, 3), randn(8, 6), randn(3, 8), randn(12, 6)], fires=("group_linear",))
def strided_operands(a, b, v, w):
    return F.linear(a.t(), v[:, ::2]), F.linear(b[::2, 1::2], w[::3, ::2]), F.linear(b[:1].expand(4, 6), w), F.linear(b.t()[:2], v[:2])


@shapes(lambda: [randn(3, 4), randn(5, 4), randn(6, 4), randn(7, 4)])
def results_seen_by_stride(x, u, v, w):
    a, b, c = F.linear(x, u), F.linear(x, v), F.linear(x, w)
    return a.view(-1), b.t().contiguous().view(3, 6), c.as_strided((7,), (1,), 7), torch.zeros(a.stride())


@shapes(lambda: [*many(2, 4, 4), randn(3, 4), randn(5, 4)], fires=("group_linear",))
def weight_is_an_input_too(a, b, u, v):
    return F.linear(u, a), F.linear(v, u), F.linear(a, v), F.linear(b, b)


memory = kind("memory of members", dynamic=False)


@memory(lambda: operands((3, 4, 5), (2, 7, 5), (6, 2, 3)), fires=("group_linear",))
def results_written_afterwards(*t):
    """Each has memory of its own."""
    a, b, c = (F.linear(*t[i : i + 3]) for i in range(0, 9, 3))
    a.mul_(2)
    b[0] = 1.0
    return a, b + 1, c, a[0]


@memory(lambda: [randn(3, 5), *many(2, 4, 5), *many(2, 7, 5)], grad=False)
def weight_written_in_between(x, u, v, w, z):
    a = F.linear(x, u)
    w.add_(1)
    b = F.linear(x, w)
    u.zero_()
    return a, b, F.linear(x, v), F.linear(x, z)


@memory(lambda: operands((3, 4, 5), (2, 7, 5), (6, 2, 3)), fires=("group_linear",))
def returned_twice(*t):
    a, b, c = (F.linear(*t[i : i + 3]) for i in range(0, 9, 3))
    return a, b, c, a, [b, {"c": c}]


flags = kind("gradients of members", dynamic=False)


@flags(lambda: operands((3, 4, 5), (2, 7, 5), (6, 2, 3), (3, 3, 3)), fires=("group_linear",))
def some_reached_by_no_gradient(*t):
    """Those get none, rather than zeros."""
    a, b, c, d = (F.linear(*x) for x in (t[0:3], t[3:6], t[6:9], t[9:12]))
    return a.cos() * 2, b.detach(), c, d.argmax(0)


def half_trained() -> list[torch.Tensor]:
    given = operands((3, 4, 5), (2, 7, 5), (6, 2, 3), (3, 3, 4))
    return [trained(t) if k % 3 == 1 or k in (0, 3) else t for k, t in enumerate(given)]


@flags(half_trained, grad=False, fires=("group_linear",), inductor=True)
def some_operands_trained(*t):
    return tuple(F.linear(*t[i : i + 3]) for i in range(0, 12, 3))


@flags(lambda: [randn(3, 4)], module=True, fires=("group_linear",), inductor=True)
def towers():
    """A weight that two members share gets the sum of their gradients."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.ModuleList(nn.Linear(4, n) for n in (3, 5, 6))
            self.second = nn.ModuleList(nn.Linear(n, 2) for n in (3, 5, 6))
            self.head = nn.Linear(6, 1)

        def forward(self, x):
            hidden = [torch.relu(layer(x)) for layer in self.first]
            joined = torch.cat([layer(h) for layer, h in zip(self.second, hidden, strict=True)], 1)
            return self.head(joined) * self.second[0](hidden[0] + 1), F.linear(x, self.first[0].weight)

    return Model()


modes = kind("modes of members", dynamic=False)


@modes(lambda: operands((3, 4, 5), (2, 7, 5), (6, 2, 3)), fires=("group_linear",))
def under_autocast(*t):
    """Operands become bfloat16 first; their gradients are float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return tuple(F.linear(*t[i : i + 3]) for i in range(0, 9, 3))


@modes(lambda: operands((3, 4, 5), (2, 7, 5), (6, 2, 3), (3, 3, 4)), fires=("group_linear",))
def half_without_gradients(*t):
    a, b = F.linear(*t[0:3]), F.linear(*t[3:6])
    with torch.no_grad():
        c, d = F.linear(*t[6:9]), F.linear(*t[9:12])
    return a, b, c, d


@modes(
    lambda: [t for k in range(6) for t in operands((3, 4 + k, 5), dtype=(torch.float32, torch.bfloat16, torch.float64)[k % 3])],
    fires=("group_linear",),
)
def three_precisions(*t):
    return tuple(F.linear(*t[i : i + 3]) for i in range(0, 18, 3))


needs = kind("members that need one another", dynamic=False)


@needs(lambda: [randn(3, 4), randn(5, 4), randn(6, 5), randn(2, 6), randn(7, 4)])
def a_row_and_one_beside(x, u, v, w, z):
    return F.linear(F.linear(F.linear(x, u), v), w), F.linear(x, z)
