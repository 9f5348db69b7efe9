"""Operators of one kind side by side."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import ints, kind, many, randn, trained

types = kind("members of different types", dynamic=False)


def mixed(*shape: int) -> list[torch.Tensor]:
    return [*many(2, *shape, dtype=torch.bfloat16), *many(3, *shape)]


@types(lambda: mixed(3, 4), fires=("batch_tanh",), inductor=True)
def tanh_of_two_precisions(*xs):
    return tuple(torch.tanh(x) for x in xs)


@types(lambda: [randn(3, 4), randn(3, 4, dtype=torch.float64), ints(3, 4), randn(3, 4) > 0, randn(3, 4, dtype=torch.float16)])
def tanh_of_every_type(*xs):
    """Whole numbers and flags give float32."""
    return torch.cat([torch.tanh(x) for x in xs]), torch.tanh(xs[2]), torch.tanh(xs[3])


@types(lambda: [ints(3, 4), ints(3, 4, dtype=torch.int32), randn(3, 4) > 0, ints(3, 4)])
def tanh_of_whole_numbers(*xs):
    return tuple(torch.tanh(x) for x in xs)


@types(lambda: [torch.complex(randn(3, 4), randn(3, 4)) for _ in range(2)], grad=False)
def tanh_of_complex_numbers(a, b):
    return torch.tanh(a) + torch.tanh(b), torch.tanh(a.conj())


@types(lambda: [ints(3, 4, low=-(2**30), high=2**30), ints(3, 4, low=-(2**30), high=2**30), *many(3, 3, 4)])
def relu_of_whole_numbers_and_floats(*xs):
    """Large whole numbers do not survive float32."""
    return tuple(torch.relu(x) for x in xs)


@types(lambda: [ints(3, 4), ints(3, 4), *many(3, 3, 4)])
def clamp_of_whole_numbers_and_floats(*xs):
    return tuple(torch.clamp(x, min=0) for x in xs)


@types(lambda: mixed(3, 4))
def sigmoid_of_two_precisions(*xs):
    return tuple(torch.sigmoid(x) for x in xs)


@types(lambda: mixed(3, 4))
def normalised_in_two_precisions(*xs):
    return tuple(F.layer_norm(x, (4,)) for x in xs)


@types(lambda: [*many(5, 3, 4, dtype=torch.bfloat16), *many(10, 4)])
def narrow_input_wide_scale(*t):
    """The result keeps the type of the input, in every member."""
    return tuple(F.layer_norm(t[i], (4,), t[5 + i], t[10 + i]) for i in range(5))


@types(lambda: [t for k in range(5) for d in [torch.bfloat16 if k < 2 else torch.float32] for t in (randn(3, 4, dtype=d), randn(4, 3, dtype=d))])
def products_of_two_precisions(*t):
    """https://github.com/pytorch/pytorch/pull/197069"""
    return tuple(torch.mm(t[i], t[i + 1]) for i in range(0, 10, 2))


@types(
    lambda: [t for k in range(6) for d in [torch.float64 if k % 2 else torch.float32] for t in (randn(3, 4, dtype=d), randn(5, 4, dtype=d))],
    fires=("batch_linear",),
)
def linears_of_two_precisions(*t):
    return tuple(F.linear(t[i], t[i + 1]) for i in range(0, 12, 2))


arguments = kind("arguments of members", dynamic=False)


@arguments(lambda: many(10, 4, 6))
def differences_with_a_factor(*t):
    """https://github.com/pytorch/pytorch/issues/195442 x - 3 * y, not x - y."""
    return tuple(torch.sub(t[i], t[i + 1], alpha=3) for i in range(0, 10, 2))


@arguments(lambda: many(6, 4, 6))
def sums_with_different_factors(*t):
    return torch.add(t[0], t[1], alpha=3), torch.add(t[2], t[3], alpha=2), t[4] + t[5], torch.rsub(t[0], t[1], alpha=2)


@arguments(lambda: [torch.tensor([[float("nan"), 1.0], [float("inf"), -float("inf")]]) * s for s in range(1, 7)], grad=False)
def replacements_by_position(*xs):
    """https://github.com/pytorch/pytorch/pull/190976 NaN becomes 7, the infinities 8 and -8."""
    return tuple(torch.nan_to_num(x, 7.0, 8.0, -8.0) + 1 for x in xs)


@arguments(lambda: [torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0]) for _ in range(4)], grad=False)
def different_replacements(a, b, c, d):
    return torch.nan_to_num(a, 7.0), torch.nan_to_num(b, 8.0), torch.nan_to_num(c), d.nan_to_num(nan=1.0, neginf=2.0)


@arguments(lambda: [randn(2, 5, 4), *many(2, 2, 3, 4)])
def sums_products_quotients_of_slices(base, s, t):
    """https://github.com/pytorch/pytorch/issues/179568"""
    found = []
    for i in range(5):
        v = base.select(1, i).unsqueeze(1).expand(-1, 3, -1)
        found.append(torch.add(v, s, alpha=0.5) * t / (t.abs() + 1))
    return tuple(found)


@arguments(lambda: [randn(3, 4) + (3.5 if i % 2 else 0.0) for i in range(10)], grad=False)
def quotients_rounded_down(*t):
    """https://github.com/pytorch/pytorch/pull/195463 The rounding mode belongs to the group."""
    return tuple(torch.div(t[i], t[i + 1], rounding_mode="floor") for i in range(0, 10, 2))


@arguments(lambda: many(4, 3, 4))
def quotients_of_every_rounding(a, b, c, d):
    return torch.div(a, b), torch.div(c, d, rounding_mode="trunc"), torch.div(a, d, rounding_mode="floor"), c.detach() // 0.5


@arguments(lambda: many(5, 3, 4))
def bounds_by_position(*xs):
    return tuple(torch.clamp(x, -0.5, 0.5) for x in xs)


@arguments(lambda: many(6, 3, 4))
def bounds_in_every_spelling(a, b, c, d, e, f):
    return torch.clamp(a, -0.5), b.clamp(max=0.5), c.clip(-0.5, 0.5), torch.clamp(d, min=0, max=0.5), e.clamp_min(0.1), torch.clamp(f, None, 0.2)


@arguments(lambda: [*many(5, 3, 4), randn(3, 4), randn(4), randn(2, 3, 4)])
def bounds_are_tensors(a, b, c, d, e, low, row, tall):
    return torch.clamp(a, low), torch.clamp(b, min=row), torch.clamp(c, max=low), torch.clamp(d, low, low + 1), torch.clamp(e, tall)


@arguments(lambda: [*many(2, 3, 4), ints(3, 4)], grad=False)
def bounds_that_promote(a, b, i):
    """https://github.com/pytorch/pytorch/issues/93784 NaN passes; a float bound makes whole numbers float."""
    a = a.half()
    a[0, 1] = float("nan")
    return torch.clamp_min(a, 0.5), torch.maximum(a, b.half()), torch.clamp_min(i, 0.5), torch.clamp(i, 1.5)


@arguments(lambda: many(5, 3, 4))
def dropout_that_drops_nothing(*xs):
    return tuple(F.dropout(x, 0.9, False) for x in xs), tuple(F.dropout(x, 0.0) for x in xs), tuple(F.dropout(x, p=1.0) for x in xs)


@arguments(lambda: many(5, 3, 8))
def normalised_without_scale(*xs):
    """https://github.com/torch-spyre/torch-spyre/issues/1980 Still a normalisation."""
    return tuple(F.layer_norm(x, (8,)) for x in xs)


@arguments(lambda: [*many(4, 3, 4), *many(2, 4)])
def normalised_in_every_way(a, b, c, d, w, v):
    return F.layer_norm(a, (4,), w), F.layer_norm(b, (4,), None, v), F.layer_norm(c, (3, 4), eps=0.1), F.layer_norm(d, [4], w, v, 1e-3)


@arguments(lambda: [randn(2, 5, 8), randn(2, 1, 32)])
def two_norms_share_a_table(x, table):
    """https://github.com/pytorch/pytorch/issues/193061 The gradient of the table is the sum of all uses."""
    s1, h1, s2, h2 = table.chunk(4, dim=-1)
    y = F.layer_norm(x, (8,)) * (1 + s1) + h1
    return F.layer_norm(x + y, (8,)) * (1 + s2) + h2


@arguments(lambda: many(5, 3, 4), fires=("batch_tanh",), bare=True)
def input_by_name(*xs):
    return torch.stack([torch.tanh(input=x) for x in xs]), torch.cat([x.tanh() for x in xs])


@arguments(lambda: many(6, 3, 4), fires=("batch_tanh",))
def functions_of_many_names(a, b, c, d, e, f):
    return torch.tanh(a) + F.tanh(b) + c.tanh() + torch.Tensor.tanh(d) + torch.ops.aten.tanh(e) + torch.ops.aten.tanh.default(f)


bias = kind("shape of a bias")


def linears(biases):
    def program(*t):
        count = len(biases)
        rest = iter(t[2 * count :])
        return tuple(F.linear(t[i], t[count + i], None if b is None else next(rest)) for i, b in enumerate(biases))

    return program


def operands(rows: int, inner: int, columns: int, *biases: tuple[int, ...] | None) -> list[torch.Tensor]:
    xs, ws = many(len(biases), rows, inner), many(len(biases), columns, inner)
    return [*xs, *ws, *(randn(*b) for b in biases if b is not None)]


@bias(lambda: operands(4, 3, 4, (), (), ()), grad=False)
def numbers_as_bias(*t):
    """With as many rows as columns a bias in the wrong direction is silent."""
    return linears([(), (), ()])(*t)


@bias(lambda: operands(4, 3, 4, (1,), (4,), (1,), (4,)), fires=("batch_linear",))
def one_entry_or_all(*t):
    return linears([(1,), (4,), (1,), (4,)])(*t)


@bias(lambda: operands(4, 3, 4, (4, 4), (4, 4)))
def matrix_as_bias(*t):
    return linears([(4, 4), (4, 4)])(*t)


@bias(lambda: operands(5, 3, 4, (1, 4), (1, 4), (4,)))
def row_matrix_as_bias(*t):
    return linears([(1, 4), (1, 4), (4,)])(*t)


@bias(lambda: operands(4, 3, 4, None, (4,), None, (4,), None), fires=("batch_linear",))
def with_and_without_bias(*t):
    return linears([None, (4,), None, (4,), None])(*t)


@bias(lambda: [randn(4, 3), *many(3, 4, 3), randn(4)], fires=("batch_linear_lhs",))
def one_bias_for_all(x, u, v, w, b):
    return F.linear(x, u, b), F.linear(x, v, b), F.linear(x * 2, w, bias=b)


@bias(lambda: [randn(3, 4), *many(3, 5, 4), *many(3, 5)], fires=("batch_linear_lhs",), inductor=True)
def one_input_for_all(x, u, v, w, a, b, c):
    """Rows of the joint product lie apart; ``view`` must not notice."""
    return F.linear(x, u, a).view(15), F.linear(x, v, b).view(-1), F.linear(x, w, c).t().contiguous().view(5, 3)


@bias(lambda: [randn(3, 4), randn(5, 4), randn(2, 4), randn(5), randn(2)])
def one_input_different_widths(x, u, v, a, b):
    return F.linear(x, u, a).view(-1), F.linear(x, v, b).view(-1)


@bias(lambda: [randn(3, 4), randn(5, 4), randn(5, 4), randn(1), randn(1)])
def one_input_scalar_bias(x, u, v, a, b):
    return F.linear(x, u, a), F.linear(x, v, b)


@bias(lambda: many(10, 5, 4), module=True, fires=("batch_linear",))
def every_second_with_bias():
    """https://github.com/pytorch/pytorch/pull/115131"""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4, bias=bool(i % 2)) for i in range(10))
            self.row = nn.Parameter(torch.randn(1, 4))

        def forward(self, *xs):
            out = [layer(x) for layer, x in zip(self.layers, xs, strict=True)]
            return (*out, torch.addmm(self.row, xs[0], xs[1].t() @ xs[2]))

    return Model()


shapes = kind("shapes and strides of members")


@shapes(lambda: [*many(3, 2, 3, 4), *many(3, 5, 4), *many(3, 5)], fires=("batch_linear",))
def higher_rank(*t):
    return tuple(F.linear(t[i], t[3 + i], t[6 + i]) for i in range(3))


@shapes(lambda: [*many(3, 4), *many(3, 5, 4)])
def vectors(*t):
    return tuple(F.linear(t[i], t[3 + i]) for i in range(3))


@shapes(lambda: [*many(2, 6, 4), randn(2, 3, 4), *many(3, 5, 4)])
def equal_rows_in_different_ranks(a, b, c, u, v, w):
    return F.linear(a, u), F.linear(b, v), F.linear(c, w).flatten(0, 1)


@shapes(lambda: [*many(2, 0, 4), *many(2, 5, 4)])
def no_rows(a, b, u, v):
    return F.linear(a, u), F.linear(b, v).sum()


@shapes(lambda: [*many(2, 2, 3, 0), *many(2, 4, 0), *many(2, 4)])
def nothing_to_sum(a, b, u, v, p, q):
    """https://github.com/pytorch/pytorch/issues/104937 Only the bias is left."""
    return F.linear(a, u, p), F.linear(b, v, q)


@shapes(lambda: [*many(2, 3, 4), *many(2, 0, 4), *many(2, 0)])
def no_columns(a, b, u, v, p, q):
    return F.linear(a, u, p), F.linear(b, v, q)


@shapes(lambda: [*many(3, 4, 3), *many(3, 4, 5)], fires=("batch_linear",))
def transposed_operands(a, b, c, u, v, w):
    return F.linear(a.t(), u.t()), F.linear(b.t(), v.t()), F.linear(c.t(), w.t())


@shapes(lambda: [randn(3, 4), *many(2, 5, 4)])
def expanded_operands(x, u, v):
    wide = x[:1].expand(6, 4)
    return F.linear(wide, u), F.linear(wide, v[:1].expand(5, 4)), F.linear(wide * 1, v)


@shapes(lambda: [randn(8, 16), randn(12, 16)], fires=("batch_linear",))
def strided_operands(x, w):
    return F.linear(x[::2, ::4], w[::3, ::4]), F.linear(x[1::2, 1::4], w[::3, 1::4]), F.linear(x[:4, :4], w[:4, :4])


@shapes(lambda: many(3, 4, 4), fires=("batch_linear",))
def weight_is_its_own_input(a, b, c):
    return F.linear(a, a), F.linear(b, b), F.linear(c, a)


@shapes(lambda: [randn(3, 4), randn(4, 3)], fires=("batch_tanh",))
def tanh_of_turned_matrices(x, y):
    """A result keeps the strides of its operand."""
    return torch.tanh(x), torch.tanh(y.t()), torch.tanh(x + 1), torch.tanh(y.t() * 2)


@shapes(lambda: [randn(2, 3, 4, 5), randn(2, 4, 5, 3)])
def tanh_of_channels_last(x, y):
    last = x.to(memory_format=torch.channels_last)
    return torch.tanh(last), torch.tanh(x), torch.tanh(y.permute(0, 3, 1, 2)), torch.tanh(last * 2)


@shapes(lambda: [randn(4), randn(4, 1)])
def tanh_of_expanded(x, y):
    return torch.tanh(x.expand(4, 4)), torch.tanh(y.expand(4, 4)), torch.tanh(x.unsqueeze(0).expand(4, 4))


@shapes(lambda: [randn(8, 8)])
def tanh_of_strided(x):
    return torch.tanh(x[::2]), torch.tanh(x[1::2]), torch.tanh(x[:4]), torch.tanh(x[:, ::2].t()), torch.tanh(x[:, 1::2].t())


@shapes(lambda: [randn(), randn(), randn(1)], fires=("batch_tanh",))
def tanh_of_numbers(x, y, z):
    return torch.tanh(x), torch.tanh(y), torch.tanh(z)


@shapes(lambda: many(3, 0, 4), fires=("batch_tanh",))
def tanh_of_nothing(*xs):
    return torch.cat([torch.tanh(x) for x in xs]), torch.tanh(xs[0] + 1)


@shapes(lambda: [randn(3, 4), randn(4, 3), randn(12), randn(1, 12)])
def tanh_of_equal_counts(*xs):
    return tuple(torch.tanh(x) for x in xs)


@shapes(lambda: [randn(6, 4)], fires=("batch_tanh",))
def tanh_of_views_of_one(x):
    a, b, c = torch.split(x, 2)
    return torch.cat([torch.tanh(a), torch.tanh(b), torch.tanh(c)]), torch.tanh(x)


@shapes(lambda: many(2, 3, 4), fires=("batch_tanh",))
def tanh_of_the_same(x, y):
    return torch.tanh(x), torch.tanh(x) * 2, torch.tanh(y), torch.tanh(x)


needs = kind("members that need one another", dynamic=False)


@needs(lambda: [randn(3, 4), *many(3, 4, 4)])
def linears_in_a_row(x, u, v, w):
    return F.linear(F.linear(F.linear(x, u), v), w)


@needs(lambda: [*many(2, 3, 4), *many(4, 4, 4)], fires=("batch_linear",))
def two_rows_of_linears(x, y, s, t, u, v):
    return F.linear(torch.relu(F.linear(x, s)), t) + F.linear(torch.relu(F.linear(y, u)), v)


@needs(lambda: [*many(2, 3, 4), *many(4, 4, 4)])
def rows_of_unequal_length(x, y, s, t, u, v):
    return F.linear(F.linear(F.linear(x, s), t), u) + F.linear(y, v)


@needs(lambda: [randn(3, 4), *many(3, 4, 4)])
def weight_from_another_member(x, u, v, w):
    return F.linear(x, F.linear(u, v)), F.linear(x, w), F.linear(u, v)


@needs(lambda: many(3, 3, 4), fires=("batch_tanh",))
def tanh_of_tanh(a, b, c):
    first = [torch.tanh(t) for t in (a, b, c)]
    return torch.tanh(first[0] + first[1]), torch.tanh(first[2]), torch.tanh(b)


@needs(lambda: [randn(5)])
def three_sigmoids_in_a_row(x):
    """https://github.com/pytorch/pytorch/pull/66442"""
    return torch.sigmoid(torch.sigmoid(torch.sigmoid(x)))


@needs(lambda: many(2, 3, 4), fires=("batch_tanh",))
def needed_through_a_python_number(x, y):
    a = torch.tanh(x)
    return torch.tanh(y) * a.shape[0] + torch.tanh(x * a.dim()), a


@needs(lambda: many(4, 3, 4), fires=("batch_tanh",))
def members_out_of_order(a, b, c, d):
    late = torch.tanh(d * 2)
    early = torch.tanh(a)
    joined = torch.tanh(c + early)
    return late + torch.tanh(b), joined, early, late


@needs(lambda: many(3, 3, 4))
def member_that_nobody_reads(a, b, c):
    torch.tanh(c)
    return torch.tanh(a) + torch.tanh(b)


@needs(lambda: many(12, 2, 3), fires=("batch_tanh",))
def many_members(*xs):
    return sum(torch.tanh(x) * i for i, x in enumerate(xs)), torch.stack([torch.tanh(x * 2) for x in xs])


flags = kind("gradients of members", dynamic=False)


@flags(lambda: [trained(randn(3, 4)), randn(3, 4), trained(randn(3, 4)), randn(3, 4)], grad=False, fires=("batch_tanh",))
def tanh_of_trained_and_frozen(a, b, c, d):
    return torch.tanh(a), torch.tanh(b), torch.tanh(c), torch.tanh(d)


@flags(
    lambda: [*many(4, 3, 4), *(trained(randn(4, 4)) if i % 2 else randn(4, 4) for i in range(4))],
    grad=False,
    fires=("batch_linear",),
    inductor=True,
)
def linears_of_trained_and_frozen(*t):
    return tuple(F.linear(t[i], t[4 + i]) for i in range(4))


@flags(lambda: [*many(3, 3, 4), *(trained(t) for t in many(3, 4, 4)), trained(randn(4)), randn(4), trained(randn(4))], grad=False)
def linears_of_which_one_bias_is_frozen(*t):
    return tuple(F.linear(t[i], t[3 + i], t[6 + i]) for i in range(3))


@flags(lambda: many(4, 3, 4), fires=("batch_tanh",))
def results_that_are_cut_off(a, b, c, d):
    """Inputs whose result nobody trains get no gradient, rather than zeros."""
    kept, lost = torch.tanh(a) * torch.tanh(b), torch.tanh(c)
    return kept, lost.detach() * 2, torch.tanh(d).sum().detach()


@flags(lambda: [*many(3, 3, 4), *many(3, 4, 4)])
def linear_that_only_picks(*t):
    """The third result is used for its position of the maximum alone."""
    a, b, c = (F.linear(t[i], t[3 + i]) for i in range(3))
    return a + b, c.argmax(1)


@flags(lambda: [*many(3, 3, 4), *many(3, 4, 4)])
def linear_that_nobody_reads(*t):
    a, b, _ = (F.linear(t[i], t[3 + i]) for i in range(3))
    return a + b


@flags(lambda: [randn(3, 4)], module=True, fires=("batch_linear",))
def frozen_tower():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
            for p in self.layers[:2].parameters():
                p.requires_grad_(False)

        def forward(self, x):
            return torch.cat([layer(x.detach() + i) for i, layer in enumerate(self.layers)], dim=1)

    return Model()


@flags(lambda: many(3, 3, 4), module=True, fires=("batch_linear",), inductor=True)
def one_layer_used_three_times():
    """The gradient of the weights is the sum over the uses."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.other = nn.Linear(4, 4)
            self.other.weight = self.layer.weight

        def forward(self, a, b, c):
            return self.layer(a) + self.layer(b) * self.other(c)

    return Model()


@flags(lambda: [randn(3, 4)], module=True, fires=("batch_linear_lhs",))
def layer_that_gets_no_gradient():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.cut, self.idle = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x), self.cut(x).detach(), self.idle(x).argmax(1)

    return Model()


@flags(lambda: many(4, 3, 4), fires=("batch_tanh",))
def gradients_scaled_on_the_way(a, b, c, d):
    class Reversal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return -g

    return torch.tanh(Reversal.apply(a)) + torch.tanh(b), Reversal.apply(torch.tanh(c)) * torch.tanh(d)
