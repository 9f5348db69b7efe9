"""Programs for patterns of ATen-IR, which run here without those of Torch-IR in front.

Public records: pytorch #195442 (``alpha`` of ``sub``), #196577 (``beta`` and ``alpha`` of ``addmm``), #197080 (uneven ``split``), PR #197069 (dtypes
of products), PR #146662 and #147784 (joins of slices and of pieces).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import ints, kind, many, randn

FUNCTIONS = ("batch_aten_tanh", "batch_aten_sigmoid", "batch_aten_relu")
ARITHMETIC = ("batch_aten_add", "batch_aten_sub", "batch_aten_mul", "batch_aten_div")
PRODUCTS = ("batch_linear_post_grad",)

elementwise = kind("element-wise operators of different tensors", inductor=False)
products = kind("matrix products of different dtypes, factors and biases")
slices = kind("joins of slices that are not all slices in their order")
pieces = kind("joins of pieces that are not neighbours")
cuts = kind("splits with a remainder")
padded = kind("products with zeros behind their factors")
narrow = kind("products written as multiply and sum")


def half(count: int, *shape: int) -> list[torch.Tensor]:
    return many(count, *shape, dtype=torch.bfloat16)


# --------------------------------------------------------------------------------------------------- element-wise


def functions(xs):
    return [f(x) for f in (torch.tanh, torch.sigmoid, torch.relu) for x in xs]


def arithmetic(xs, ys):
    pairs = list(zip(xs, ys, strict=True))
    return [f(x, y) for f in (torch.add, torch.sub, torch.mul, torch.div) for x, y in pairs]


@elementwise(lambda: [*half(2, 3, 4), *many(3, 3, 4)], fires=FUNCTIONS)
def functions_of_two_dtypes(*xs):
    """Stacked together, bfloat16 would become float32."""
    return functions(xs)


@elementwise(lambda: [*half(2, 3, 4), *many(3, 3, 4), *half(2, 3, 4), *many(3, 3, 4)], fires=ARITHMETIC)
def arithmetic_of_two_dtypes(*t):
    return arithmetic(t[:5], t[5:])


@elementwise(lambda: [ints(3, 4, low=-(2**40), high=2**40), ints(3, 4, low=-(2**40), high=2**40), *many(2, 3, 4)], fires=("batch_aten_relu",))
def large_integers_and_floats(*xs):
    """Integers above 2**24 do not survive float32."""
    return [torch.relu(x) for x in xs]


@elementwise(lambda: [ints(3, 4), ints(3, 4), randn(3, 4), randn(3, 4)], fires=ARITHMETIC)
def operands_of_two_dtypes(a, b, x, y):
    return [f(p, q) for f in (torch.add, torch.sub, torch.mul, torch.div) for p, q in ((a, x), (b, y), (x, a), (y, b))]


@elementwise(lambda: many(6, 3, 4), fires=FUNCTIONS, grad=False, inductor=True)
def results_that_are_written(*xs):
    found = functions(xs[:3])
    for k, y in enumerate(found):
        y += k
    return found


@elementwise(lambda: many(6, 3, 4), fires=ARITHMETIC, grad=False, inductor=True)
def operands_that_are_written_between(*xs):
    """Functional graphs tell the operand before the write from that behind it."""
    ys = [x * 1 for x in xs]
    first = arithmetic(ys[:3], ys[3:])
    for y in ys:
        y.mul_(2)
    return first, arithmetic(ys[:3], ys[3:])


@elementwise(lambda: many(4, 2, 3, 4), fires=FUNCTIONS + ARITHMETIC)
def permuted(*xs):
    """Eager keeps the strides of the operands."""
    return (
        functions(xs),
        functions([x.permute(2, 0, 1) for x in xs]),
        arithmetic([x.permute(1, 0, 2) for x in xs[:2]], [x.permute(1, 0, 2) for x in xs[2:]]),
        arithmetic(xs[:2], xs[2:]),
    )


@elementwise(lambda: [randn(), randn(), randn(0, 3), randn(0, 3), randn(1, 3), randn(1, 3)], fires=FUNCTIONS + ARITHMETIC)
def scalars_and_empty_tensors(*xs):
    return functions(xs), arithmetic(xs, [xs[k] for k in (1, 0, 3, 2, 5, 4)])


@elementwise(lambda: [torch.tensor([[float("nan"), -0.0, float("inf")]] * 2) for _ in range(4)], fires=FUNCTIONS + ARITHMETIC)
def nothing_ordinary(*xs):
    return functions(xs), arithmetic(xs[:2], xs[2:])


@elementwise(lambda: many(10, 3, 4), fires=("batch_aten_add",), inductor=True)
def scaled_operands(*t):
    """``alpha`` is part of the operator: pytorch #195442."""
    pairs = list(zip(t[:5], t[5:], strict=True))
    return (
        torch.cat([torch.sub(x, y, alpha=3) for x, y in pairs]),
        [torch.add(x, y, alpha=k) for k, (x, y) in enumerate(pairs)],
        [x + y for x, y in pairs],
    )


@elementwise(lambda: [ints(3, 4) for _ in range(10)], fires=("batch_aten_sub", "batch_aten_add"), inductor=True)
def scaled_integers(*t):
    pairs = list(zip(t[:5], t[5:], strict=True))
    return (
        torch.cat([torch.sub(x, y, alpha=3) for x, y in pairs]),
        [torch.sub(x, y, alpha=k) for k, (x, y) in enumerate(pairs)],
        [torch.add(x, y, alpha=2) for x, y in pairs],
    )


@elementwise(lambda: [*many(4, 3, 4), randn(4), randn(3, 1)], fires=ARITHMETIC)
def broadcast_and_numbers(a, b, c, d, row, column):
    plain = arithmetic([a, b], [c, d])
    return plain, arithmetic([a, b], [row, row]), arithmetic([column, column], [c, d]), [a + 1, b + 1, c * 2, d * 2, a / 3, b / 3]


@elementwise(lambda: many(4, 3, 4), fires=("batch_aten_div",))
def rounded_division(*xs):
    pairs = [(xs[0], xs[1]), (xs[2], xs[3])]
    return [torch.div(x, y, rounding_mode=mode) for mode in ("floor", "trunc") for x, y in pairs], [x / y for x, y in pairs]


@elementwise(lambda: many(4, 3, 4), fires=("batch_aten_tanh", "batch_aten_mul"))
def one_behind_the_other(*xs):
    once = [torch.tanh(x) for x in xs]
    return [torch.tanh(y) * y for y in once]


# -------------------------------------------------------------------------------------------------------- products


@products(lambda: [*half(2, 3, 4), *many(3, 3, 4), *half(2, 4, 3), *many(3, 4, 3)], fires=PRODUCTS)
def products_of_two_dtypes(*t):
    """PR #197069."""
    return [torch.mm(x, y) for x, y in zip(t[:5], t[5:], strict=True)]


@products(lambda: [*many(4, 3, 4), *many(4, 4, 5), *many(4, 5)], fires=PRODUCTS, inductor=True)
def factors_and_biases(*t):
    members = list(zip(t[:4], t[4:8], t[8:], strict=True))
    return [torch.addmm(b, x, y, beta=beta, alpha=alpha) for beta, alpha in ((1, 1), (2, 1), (1, 0.5), (0, 1)) for x, y, b in members]


@products(lambda: [*many(4, 3, 4), *many(4, 4, 5), *many(2, 5), *many(2, 3, 5)], fires=PRODUCTS)
def biases_of_two_shapes(*t):
    return [torch.addmm(b, x, y) for x, y, b in zip(t[:4], t[4:8], t[8:], strict=True)]


@products(lambda: [*many(6, 3, 4), *many(3, 1), *many(3, 3, 1)], fires=PRODUCTS)
def biases_that_are_broadcast(*t):
    pairs = list(zip(t[:3], t[3:6], strict=True))
    return [torch.addmm(b, x, y.t()) for bs in (t[6:9], t[9:]) for b, (x, y) in zip(bs, pairs, strict=True)]


@products(lambda: [*many(2, 3, 4), *many(2, 4, 5), *[torch.full((5,), float("nan")) for _ in range(2)]], fires=PRODUCTS, grad=False)
def a_bias_that_is_not_read(*t):
    """With ``beta`` 0, NaN in the bias means nothing."""
    return [torch.addmm(b, x, y, beta=0) for x, y, b in zip(t[:2], t[2:4], t[4:], strict=True)]


@products(lambda: [*many(3, 0, 4), *many(3, 4, 5), *many(3, 3, 0), *many(3, 0, 5)], fires=PRODUCTS)
def empty_factors(*t):
    return [torch.mm(x, y) for x, y in zip([*t[:3], *t[6:9]], [*t[3:6], *t[9:]], strict=True)]


@products(lambda: [randn(6, 4), *many(3, 5, 4), *many(3, 5)], fires=PRODUCTS, inductor=True)
def linears_of_one_input(x, *t):
    hidden = [torch.relu(F.linear(x, w, b)) for w, b in zip(t[:3], t[3:], strict=True)]
    return hidden[0] * hidden[1] - hidden[2]


# ---------------------------------------------------------------------------------------------------------- slices

ALL = ("select_cat_aten_pass",)
STACKED = ("unbind_stack_aten_pass",)


@slices(lambda: [randn(2, 4)], inductor=True)
def the_last_first(x):
    return torch.cat([x[-1], x[0]]) + 1, torch.stack([x[-1], x[0]]) * 2


@slices(lambda: many(2, 2, 3, 4), inductor=True)
def of_two_tensors(x, y):
    return torch.cat([x[0], y[1]]) + 1, torch.stack([x[0], y[1]]), x[1] * 2


@slices(lambda: [randn(2, 3, 4)], fires=ALL + STACKED, inductor=True)
def of_a_transposed_tensor(x):
    xt = x.transpose(0, 1)
    return torch.cat([xt[:, 0], xt[:, 1]], dim=1) + 1, torch.stack([xt[0], xt[1], xt[2]], 1).view(-1)


@slices(lambda: [randn(3, 3, 3)], fires=ALL + STACKED)
def along_every_dim(x):
    found = []
    for cut in range(3):
        parts = [x.select(cut, k) for k in range(3)]
        found += [torch.cat(parts, d) * 2 for d in range(2)] + [torch.stack(parts, d) * 2 for d in range(3)]
    return found


@slices(lambda: [randn(3, 4, 5)], fires=ALL + STACKED)
def negative_dims_and_indices(x):
    return torch.cat([x.select(-3, -3), x.select(0, 1), x[-1]], -2).sin(), torch.stack([x.select(-3, -3), x[1], x[-1]], -1).cos()


@slices(lambda: [randn(3, 4)], fires=STACKED)
def returned_and_written(x):
    """What is joined is a copy, also where it would be the tensor itself."""
    y = torch.stack([x[0], x[1], x[2]])
    y.mul_(2)
    return y, torch.stack([x[0], x[1], x[2]]), x * 1


@slices(lambda: [randn(3, 4)], fires=ALL)
def joined_and_written(x):
    y = torch.cat([x[0], x[1], x[2]])
    y.mul_(2)
    return y, torch.cat(x.unbind()), x * 1


@slices(lambda: [randn(4, 4)])
def some_or_twice(x):
    return torch.cat([x[0], x[1], x[2]]), torch.cat([x[0], x[1], x[2], x[2]]), torch.stack([x[1], x[2], x[3]]), torch.stack([x[0], x[0], x[2], x[3]])


@slices(lambda: [randn(2, 3, 3)])
def unsqueezed_elsewhere(x):
    """Joined along another dimension than each slice got, the slices are not stacked."""
    return torch.cat([x[0].unsqueeze(1), x[1].unsqueeze(1)], 0), torch.cat([x[0].unsqueeze(0), x[1].unsqueeze(1).transpose(0, 1)], 1)


@slices(lambda: many(3, 3, 4), fires=("batch_aten_tanh", *STACKED), inductor=True)
def stacked_behind_a_group(*xs):
    """The slices of the joint result, stacked again: along its first dimension they are that result."""
    ys = [torch.tanh(x) for x in xs]
    return torch.stack(ys) * 2, torch.stack(ys, 1) + 1


@slices(lambda: [randn(1, 4), randn(4, 0, 3)], fires=ALL + STACKED)
def one_slice_and_none(x, y):
    return torch.cat([x[0]]).sin(), torch.stack([x[0]]).cos(), torch.stack(y.unbind(), 1) * 2, torch.cat(y.unbind()) * 2


# ---------------------------------------------------------------------------------------------------------- pieces

RUNS = ("split_cat_aten_pass",)


@pieces(lambda: [randn(4, 12), randn(4, 3)], fires=RUNS, inductor=True)
def a_stranger_between(x, y):
    a, b, c, d = x.split(3, 1)
    return torch.cat([a, b, y, c, d], 1).sin()


@pieces(lambda: [randn(4, 6), randn(4, 6)], fires=RUNS, inductor=True)
def two_splits_in_turn(x, y):
    (a, b), (c, d) = x.split(3, 1), y.split(3, 1)
    return torch.cat([a, c, b, d], 1), torch.cat([a, b, c, d], 1).cos()


@pieces(lambda: [randn(4, 9)], fires=RUNS)
def repeated(x):
    a, b, c = x.split(3, 1)
    return torch.cat([a, a, b, c, b], 1) * 2, torch.cat([c, b, a], 1) * 3


@pieces(lambda: [randn(6, 6)], fires=RUNS)
def along_two_dims(x):
    a, b = x.split(3, 0)
    c, d = x.split(3, 1)
    return torch.cat([a, b], 1), torch.cat([c, d], 0), torch.cat([a, b], 0) * 2, torch.cat([c, d], -1) * 3, torch.cat([a, c.t()], 0)


@pieces(lambda: [randn(4, 6), randn(4, 6)], inductor=True)
def several_results_that_are_no_pieces(x, y):
    """``max`` and ``topk`` give several results, and have numbers where a split has its dimension."""
    largest, where = x.max(1, keepdim=True)
    top, _ = y.topk(2, 1)
    return torch.cat([largest, top], 1), torch.cat([where, where], 1), torch.cat([top, largest], 1)


@pieces(lambda: [randn(4, 9)], fires=RUNS)
def returned_and_changed(x):
    y = torch.cat(x.split([2, 3, 4], 1), 1)
    y.add_(1)
    return y, torch.cat(x.split(3, 1), 1), x * 1


@pieces(lambda: [randn(4, 9)], fires=RUNS)
def empty_sections(x):
    a, b, c, d = x.split([0, 4, 0, 5], 1)
    return torch.cat([b, c, d], 1).sin(), torch.cat([a, b], 1).cos(), torch.cat([d, c], 1)


# ------------------------------------------------------------------------------------------------------------ cuts

NORMAL = ("normalization_aten_pass",)


@cuts(lambda: [randn(3, 10)], fires=NORMAL, inductor=True)
def split_with_a_remainder(x):
    """pytorch #197080."""
    return [t + 1 for t in torch.split(x, 4, 1)]


@cuts(lambda: [randn(3, 10)], fires=NORMAL, inductor=True)
def chunks_with_a_remainder(x):
    return [t + 1 for t in torch.chunk(x, 3, 1)]


@cuts(lambda: [randn(3, 4)], fires=NORMAL)
def one_section_longer_than_all(x):
    (a,) = torch.split(x, 9, -1)
    return a * 2


@cuts(lambda: [randn(3, 4), randn(3, 2)], fires=NORMAL)
def joins_by_negative_dims(x, y):
    return torch.cat([x, y], -1), torch.cat([x, x]), torch.cat([y, x], dim=-1)


@cuts(lambda: [randn(0, 4), randn(3, 4), torch.zeros(0)], fires=NORMAL)
def joins_of_nothing(x, y, z):
    """An empty vector is left out of a join, whatever its rank."""
    return torch.cat([x, y]), torch.cat([z, y]), torch.cat([y, z], -1)


# ---------------------------------------------------------------------------------------------------------- padded

PAD = ("pad_aten_mm_pass",)


@padded(lambda: [randn(3, 7), randn(7, 5)], fires=PAD, inductor=True)
def odd_sizes(x, y):
    return torch.mm(x, y)


@padded(lambda: [torch.tensor([[float("nan"), float("inf"), 1.0, -1.0, 0.0]] * 3), randn(5, 3)], fires=PAD, grad=False)
def nothing_finite(x, y):
    """Padding meets padding only."""
    return torch.mm(x, y), torch.mm(y.t(), x.t())


@padded(lambda: [*half(1, 3, 9), *half(1, 9, 5), randn(5, dtype=torch.bfloat16)], fires=PAD)
def in_half_precision(x, y, b):
    return torch.addmm(b, x, y, beta=2, alpha=0.5), torch.mm(x, y)


@padded(lambda: [randn(2, 3, 7), randn(2, 7, 5), randn(3, 1)], fires=PAD)
def batches_and_columns(x, y, b):
    return torch.bmm(x, y), torch.baddbmm(b, x, y), torch.addmm(b, x[0], y[0])


@padded(lambda: [randn(7, 3), randn(5, 7)], fires=PAD)
def transposed_factors(x, y):
    return torch.mm(x.t(), y.t()), torch.mm(y, x)


@padded(lambda: [randn(3, 7), randn(7, 5)], fires=PAD)
def a_result_that_is_viewed(x, y):
    z = torch.mm(x, y)
    return z.view(-1), z.t(), z.as_strided((2, 2), (5, 1))


# ---------------------------------------------------------------------------------------------------------- narrow

SUMS = ("decompose_mm_pass",)


@narrow(lambda: [randn(4), randn(1, 3), randn(3, 4)], fires=SUMS, inductor=True)
def scaled_and_added(b, x, y):
    """pytorch #196577."""
    return torch.addmm(b, x, y, beta=2, alpha=3), torch.addmm(b, x, y, alpha=0.5), torch.addmm(b, x, y)


@narrow(lambda: [torch.full((4,), float("nan")), randn(1, 3), randn(3, 4)], fires=SUMS, grad=False)
def not_added(b, x, y):
    return torch.addmm(b, x, y, beta=0), torch.addmm(b, x, y, beta=0.0, alpha=2)


@narrow(lambda: [ints(1, 3, dtype=torch.int32), ints(3, 4, dtype=torch.int32), ints(4, dtype=torch.int32)], fires=SUMS)
def whole_numbers(x, y, b):
    """A sum of int32 is int64, a product is not."""
    return torch.mm(x, y), torch.addmm(b, x, y, beta=2, alpha=-3)


@narrow(lambda: [ints(1, 3, dtype=torch.int8, low=-100, high=100), ints(3, 4, dtype=torch.int8, low=-100, high=100)], fires=SUMS)
def numbers_that_overflow(x, y):
    return torch.mm(x, y)


@narrow(lambda: [*half(1, 1, 64), *half(1, 64, 4), randn(4, dtype=torch.bfloat16)], fires=SUMS)
def long_sums_in_half_precision(x, y, b):
    """Products are added up in float32 and rounded once."""
    return torch.mm(x, y), torch.addmm(b, x, y, beta=0.5)


@narrow(lambda: [randn(1, 0), randn(0, 4), randn(1, 3, 0), randn(1, 0, 2)], fires=SUMS)
def sums_of_nothing(x, y, u, v):
    return torch.mm(x, y), torch.bmm(u, v)


@narrow(lambda: [randn(1, 3, 5), randn(1, 5, 2)], fires=SUMS)
def one_batch(x, y):
    return torch.bmm(x, y), torch.bmm(y.mT, x.mT)
