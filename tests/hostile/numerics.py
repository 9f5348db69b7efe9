"""Products, sums, precision, special values, quantisation; and false matches of well-known patterns."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import ints, kind, many, randn

einsum = kind("einsum", dynamic=False)


@einsum(lambda: [randn(3, 4, 16), randn(3, 16, 16), randn(3, 1, 16)])
def batched_weights(x, w, b):
    """https://github.com/pytorch/pytorch/issues/179575"""
    return torch.einsum("bid,bdh->bih", x, w) + b


@einsum(lambda: [randn(3, 2, 4), randn(3, 2, 4, 5), randn(5)])
def weights_for_every_row(x, w, b):
    """https://github.com/pytorch/pytorch/issues/179575"""
    return torch.einsum("abc,abcd->abd", x, w) + b


@einsum(lambda: [randn(2, 3, 3), randn(2, 3, 3, 5), randn(2, 3, 5)])
def repeated_letters_mean_the_diagonal(x, w, b):
    return torch.einsum("bnn,bnnf->bnf", x, w) + b


@einsum(lambda: [randn(2, 3, 4), randn(2, 3, 4, 4), randn(2, 3, 4)])
def repeated_letters_without_a_sum(x, w, b):
    return torch.einsum("bnd,bndd->bnd", x, w) + b


@einsum(lambda: [ints(2, 3, 4), ints(2, 3, 4, 5)])
def einsum_of_whole_numbers(x, w):
    small = torch.einsum("bni,bnio->bno", x.to(torch.int32), w.to(torch.int32))
    return small + 1, torch.einsum("bni,bnio->bno", x, w)


@einsum(lambda: [randn(1, 3, 4), randn(2, 3, 4, 5)])
def einsum_with_extents_of_one(x, w):
    return torch.einsum("bni,bnio->bno", x, w) + 1, torch.einsum("b n i, b n i o -> b n o", x, w)


products = kind("matrix products", dynamic=False)


@products(lambda: [randn(4), randn(3, 5), randn(5, 4)])
def both_factors(c, a, b):
    """https://github.com/pytorch/pytorch/issues/167313"""
    return F.relu(torch.addmm(c, a, b, alpha=0.25, beta=0.5))


@products(lambda: [torch.full((24,), 10.0), randn(1, 20), randn(20, 24)])
def one_row_with_factors(c, a, b):
    """https://github.com/pytorch/pytorch/issues/196577"""
    return torch.addmm(c, a, b, beta=0.0), torch.addmm(c, a, b, alpha=3.0)


@products(lambda: [randn(4), torch.full((1, 4), float("nan")), randn(4, 4)], grad=False)
def product_times_zero(c, a, b):
    """https://github.com/pytorch/pytorch/issues/196596 Whatever eager makes of NaN here, a rewrite keeps."""
    return torch.addmm(c, a, b, alpha=0)


@products(lambda: [torch.full((3, 4), float("nan")), randn(3, 5), randn(5, 4)], grad=False)
def nan_times_a_factor_of_zero(c, a, b):
    return torch.addmm(c, a, b, beta=0), torch.baddbmm(c[None], a[None], b[None], beta=0)


@products(lambda: [randn(1, 4), randn(4, 3), randn(1, 2), randn(2, 1)])
def sum_of_products_that_broadcasts(a, b, c, d):
    """https://github.com/pytorch/pytorch/issues/100670"""
    return torch.mm(a, b) + torch.mm(c, d)


@products(lambda: [randn(4, 8, dtype=torch.bfloat16), randn(4, 8, dtype=torch.bfloat16), randn(4, 4)])
def narrow_product_wide_sum(x, w, c):
    """https://github.com/pytorch/pytorch/issues/159492"""
    return F.linear(x, w) + c


@products(lambda: [randn(1, 3, 5), randn(6, 5), randn(1, 6)])
def row_bias_for_rank_three(x, w, b):
    """https://github.com/pytorch/pytorch/issues/99649"""
    return F.linear(x, w, b)


@products(lambda: [randn(7, 5), randn(7, 9), randn(5, 3), randn(9, 3)])
def sum_of_turned_products(a, b, c, d):
    """https://github.com/pytorch/pytorch/pull/184029"""
    return a.t() @ b + c @ d.t()


@products(lambda: [torch.full((1, 1, 5), 7, dtype=torch.int8), torch.full((1, 5, 3), 6, dtype=torch.int8)])
def bytes_wrap(a, b):
    """https://github.com/pytorch/pytorch/issues/191308"""
    return torch.matmul(a, b)


@products(lambda: [randn(3, 8), randn(4, 3)])
def product_written_as_a_sum(a, b):
    """https://github.com/pytorch/pytorch/issues/189401"""
    at, bt = a.t(), b.t()
    return (at.unsqueeze(2) * bt.unsqueeze(0)).sum(1), at @ bt


@products(lambda: [torch.empty(2, 3, 0), torch.empty(4, 0), randn(4)])
def inner_extent_of_zero(x, w, b):
    """https://github.com/pytorch/pytorch/issues/104937"""
    return F.linear(x, w, b)


@products(lambda: [randn(9), randn(2, 5), randn(5, 4)])
def bias_is_a_slice(p, x, w):
    """https://github.com/pytorch/pytorch/issues/185533"""
    return torch.addmm((p * 2)[3:7], x, w)


@products(lambda: [randn(2, 3, 4), randn(5, 4)])
def linear_then_turned(x, w):
    """https://github.com/pytorch/pytorch/issues/95912"""
    return F.linear(x, w).permute(0, 2, 1)


@products(lambda: [*many(3, 64, 128), *many(3, 32, 128), *many(3, 32)], fires=("batch_linear",), inductor=True)
def long_sums(*t):
    return tuple(F.linear(t[i] * 100, t[3 + i] / 100, t[6 + i]) for i in range(3))


@products(
    lambda: [*many(3, 16, 64, dtype=torch.bfloat16), *many(3, 8, 64, dtype=torch.bfloat16), *many(3, 8, dtype=torch.bfloat16)],
    fires=("batch_linear",),
)
def narrow_linears(*t):
    return tuple(F.linear(t[i], t[3 + i], t[6 + i]) for i in range(3))


@products(lambda: [*many(3, 16, 64, dtype=torch.float16), *many(3, 8, 64, dtype=torch.float16), *many(3, 8, dtype=torch.float16)])
def half_linears(*t):
    return tuple(F.linear(t[i], t[3 + i], t[6 + i]) for i in range(3))


@products(lambda: [*[ints(3, 4) for _ in range(3)], *[ints(5, 4) for _ in range(3)]])
def whole_linears(*t):
    return tuple(F.linear(t[i], t[3 + i]) for i in range(3))


@products(lambda: [torch.full((3, 4), float("inf")), *many(1, 3, 4), torch.full((3, 4), float("nan")), *many(3, 4, 4)], grad=False)
def members_that_are_not_finite(*t):
    """NaN and infinity of one member stay there."""
    return tuple(F.linear(t[i], t[3 + i]) for i in range(3)), tuple(torch.tanh(x) for x in t[:3])


@products(lambda: [torch.full((3, 4), 0.0), torch.full((3, 4), -0.0), *many(2, 4, 4)], grad=False)
def signed_zeros(a, b, v, w):
    return F.linear(a, v), F.linear(b, w), torch.tanh(a), torch.tanh(b), torch.cat(torch.split(b, 2, 1), 1)


precision = kind("precision and special values", dynamic=False)


@precision(lambda: [randn(2, 30, 50)], module=True)
def long_normalisation():
    """https://github.com/pytorch/pytorch/issues/143182"""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm([30, 50])

        def forward(self, x):
            return self.norm(x)

    return Model()


@precision(lambda: many(3, 5, dtype=torch.float16))
def difference_of_equals(a, b, c):
    """https://github.com/pytorch/pytorch/issues/163435 Exactly zero, also when narrow."""
    h = torch.tanh(a)
    t = h * h * (b + a + c + a)
    return t - t


@precision(lambda: many(2, 5, dtype=torch.float16), fires=("batch_tanh",))
def narrow_tanh_is_the_narrow_tanh(a, b):
    return torch.tanh(a) - torch.tanh(a), torch.tanh(b) - torch.tanh(b * 1)


@precision(lambda: [torch.tensor([0.0, -0.0, 1e-40, -1e-40, 1e38, -1e38, float("inf"), -float("inf"), float("nan")]) for _ in range(3)], grad=False)
def special_values_of_tanh(a, b, c):
    return torch.tanh(a), torch.tanh(b), torch.cat(torch.split(c, 3)), torch.tanh(c)


@precision(lambda: [torch.tensor([0x7FC00001, -1, 0x7F800001], dtype=torch.int32).view(torch.float32)], grad=False)
def moved_nan(x):
    y = torch.cat(torch.split(x, 1))
    return y.isnan(), torch.stack(x.unbind())


@precision(lambda: [randn(3, 4), torch.tensor([[1.0, 2.0, 3.0, 4.0]])])
def softmax_over_ones(x, scale):
    """https://github.com/pytorch/pytorch/issues/103924"""
    return torch.softmax(x / torch.ones(3)[..., None], dim=1), x / scale


@precision(lambda: [torch.arange(-3, 4, dtype=torch.float16), torch.zeros(7, dtype=torch.float16), torch.arange(-3, 4)], grad=False)
def bounds_and_nan(a, b, i):
    """https://github.com/pytorch/pytorch/issues/93784"""
    a, b = a.clone(), b.clone()
    a[1], b[5] = float("nan"), float("nan")
    return torch.clamp_min(a, 0.5), torch.maximum(a, b), torch.clamp_min(i, 0.5)


@precision(lambda: [randn(2)], grad=False)
def running_sum_of_flags(x):
    """https://github.com/pytorch/pytorch/issues/189518"""
    m = torch.ones((2, 5, 3), dtype=torch.bool)
    return m.cumsum(1, dtype=torch.bfloat16), x


@precision(lambda: [torch.ones(3, 4, dtype=torch.bool), randn(3, 4, dtype=torch.float16), randn(3, 4)], grad=False)
def scaled_by_powers_of_two(m, h, s):
    """https://github.com/pytorch/pytorch/issues/197091"""
    return torch.ldexp(m, h), torch.ldexp(h, s)


@precision(lambda: [randn(2)])
def running_sum_of_a_number(x):
    """https://github.com/pytorch/pytorch/issues/193265"""
    return torch.full((), 5.0).cumsum(0) + x


@precision(lambda: [randn(3, 8, 4), randn(3, 3, 4)])
def slice_put_in(x, y):
    """https://github.com/pytorch/pytorch/issues/180164"""
    return torch.slice_scatter(x, y, dim=1, start=2, end=5).sum(dim=1)


@precision(lambda: [randn(12, 1), torch.tensor([0, 0, 1, 1, 1, 1, 0, 2, 2, 0, 1, 2])])
def totals_read_back(v, g):
    """https://github.com/pytorch/pytorch/issues/171493"""
    u = v**2 + 0.01
    total = torch.zeros(3, v.shape[1]).index_add_(0, g, u)
    return u / (total[g] + 1e-6)


@precision(lambda: [randn(6, 5)])
def part_of_a_join_depends_on_another(x):
    """https://github.com/pytorch/pytorch/issues/194858"""
    r = x * 3
    return torch.argmax(torch.cat((r, -r), dim=-1), dim=-1)


attention = kind("false matches", dynamic=False)


@attention(lambda: many(3, 2, 4, 4, 4))
def keys_turned_too_far(q, k, v):
    """https://github.com/pytorch/pytorch/issues/195320 Not attention, though shapes agree."""
    s = torch.matmul(q, k.permute(0, 2, 3, 1)) / 2.0
    return torch.matmul(torch.softmax(s, dim=-1), v)


@attention(lambda: many(3, 1, 1, 6, 16))
def attention_that_drops_nothing(q, k, v):
    """https://github.com/pytorch/pytorch/issues/179578"""
    s = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 4.0, dim=-1)
    return torch.matmul(F.dropout(s, 0.0), v)


@attention(lambda: [randn(2, 5, 8), *many(3, 8, 8), *many(3, 8)], fires=("batch_linear_lhs",), inductor=True)
def projections_of_attention(x, u, v, w, a, b, c):
    """Three linears of one input, each cut into heads by ``view``."""

    def heads(t):
        return t.view(2, 5, 2, 4).transpose(1, 2)

    q, k, v = heads(F.linear(x, u, a)), heads(F.linear(x, v, b)), heads(F.linear(x, w, c))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8)


@attention(lambda: [randn(2, 5, 24)])
def packed_projection(x):
    q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in x.chunk(3, dim=-1))
    packed = torch.cat([q, k, v], dim=-1)
    return torch.matmul(torch.softmax(q @ k.transpose(-2, -1), -1), v), packed


@attention(lambda: [randn(2, 3, 8)])
def halves_rotated(x):
    """Rotary embedding: halves swapped, one negated."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1), torch.cat((b, a), dim=-1), torch.cat((a, b), dim=-1)


@attention(lambda: [randn(2, 8)])
def gated_halves(x):
    a, b = x.chunk(2, dim=-1)
    gate, value = torch.tanh(a), torch.tanh(b)
    return gate * value, torch.cat([gate, value], -1), F.glu(x)


quantise = kind("quantisation", dynamic=False)


def rowwise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    top = x.abs().amax(dim=-1, keepdim=True).double().clamp_min(1e-12)
    scale = (448.0 / top).float()
    return (x.float() * scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale


@quantise(lambda: [torch.tensor([1.0, 447.0, 449.0, 500.0, -1e4, 3e38])], grad=False)
def narrowed_beyond_the_largest(x):
    """https://github.com/pytorch/ao/issues/1912 As eager of the same version has it."""
    return x.to(torch.float8_e4m3fn).float()


@quantise(lambda: [2.0 ** torch.arange(-6, 7).float()], grad=False)
def exponents_of_powers_of_two(x):
    """https://github.com/pytorch/pytorch/issues/179570"""
    e = torch.ceil(torch.log2(torch.abs(x))).clamp(-127, 127)
    return (e + 127).to(torch.uint8)


@quantise(lambda: [randn(3, 6)], grad=False)
def narrowed_then_checked(x):
    """https://github.com/pytorch/pytorch/pull/190912"""
    q, s = rowwise(x)
    w = q.float()
    return w / s, torch.isnan(w).any(), torch.isinf(w).any()


@quantise(lambda: [randn(6, 8), randn(8, 16)])
def saved_and_returned(x, w):
    """https://github.com/pytorch/pytorch/pull/180287 The caller gets full precision."""
    h = torch.tanh(x @ w)
    return h, (h * h).sum(-1)


@quantise(lambda: [randn(2, 256, dtype=torch.float16) * 8, torch.full((3, 256), 127, dtype=torch.int8), torch.tensor(1e-3)], grad=False)
def scaled_before_it_overflows(x, wq, s):
    """https://github.com/pytorch/ao/issues/1662"""
    return (x.float() @ wq.float().t() * s).to(torch.float16)


@quantise(lambda: [randn(3, 6, dtype=torch.bfloat16), randn(0, 6, dtype=torch.bfloat16)])
def saved_values_of_any_size(x, empty):
    """Large, small and no values at all are kept for the backward pass."""
    big = torch.where(x > 0, x * 1e4, x * 1e-4)
    return torch.tanh(big) * big, torch.tanh(empty) * empty, (big * big).sum(-1)


@quantise(
    lambda: [torch.tensor([[1.0, float("inf"), 2.0], [1.0, 2.0, float("nan")]], dtype=torch.bfloat16), randn(2, 3, dtype=torch.bfloat16)], exact=True
)
def saved_values_that_are_not_finite(x, w):
    return x * w, torch.tanh(x) * w


@quantise(lambda: [randn(4, 6)], grad=False)
def pieces_of_narrow_floats(x):
    q, _ = rowwise(x)
    return torch.cat([p.float() for p in torch.split(q, 2, 1)], 1), torch.stack([p.float() for p in q.unbind()])


@quantise(lambda: [randn(4, 6)], grad=False)
def narrow_floats_joined(x):
    q, _ = rowwise(x)
    return torch.cat(torch.split(q, 2, 1), 1).float(), torch.stack(torch.unbind(q, 1)).float()
