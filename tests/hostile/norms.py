"""Layer norms side by side, products written as sums, and pieces that are reshaped before they are stacked."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import ints, kind, many, randn

norms = kind("layer norms side by side", dynamic=False, fires=("batch_layernorm",))


@norms(lambda: [*many(5, 3, 4), *many(10, 4)], inductor=True)
def each_its_own_scale(*t):
    """The k-th scale and shift belong to the k-th input."""
    return torch.cat([F.layer_norm(t[i], (4,), t[5 + i], t[10 + i]) for i in range(5)])


@norms(lambda: [*many(5, 4, 4), *many(10, 4)])
def as_many_rows_as_columns(*t):
    """A scale that were read along rows would still fit."""
    return torch.stack([F.layer_norm(t[i], (4,), t[5 + i], t[10 + i]) for i in range(5)], 2)


@norms(lambda: [*many(5, 5, 5, 5), *many(10, 5, 5)])
def as_many_members_as_extents(*t):
    """Normalised over two dimensions of the size of the group."""
    return torch.cat([F.layer_norm(t[i], (5, 5), t[5 + i], t[10 + i]) * (i + 1) for i in range(5)], 1)


@norms(lambda: [*many(10, 3, 4), *many(5, 4)])
def two_kinds_of_eps(*t):
    """Groups by eps: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html"""
    return torch.cat([F.layer_norm(t[i], (4,), t[10 + i % 5], None, 1e-5 if i % 2 else 0.5) for i in range(10)])


@norms(lambda: [*many(10, 3, 4), *many(10, 4)])
def some_scaled_some_shifted(*t):
    """A missing scale is no scale of ones, where the gradients are counted."""
    scaled = [F.layer_norm(t[i], (4,), weight=t[10 + i]) for i in range(5)]
    shifted = [F.layer_norm(t[5 + i], (4,), bias=t[15 + i]) for i in range(5)]
    return sum(scaled) * 2, torch.cat(shifted) - 1


@norms(lambda: [*many(5, 3, 4, dtype=torch.bfloat16), *many(5, 3, 4), *many(5, 4, dtype=torch.bfloat16), *many(5, 4)])
def two_precisions(*t):
    return [torch.cat([F.layer_norm(t[k + i], (4,), t[10 + k + i]) for i in range(5)]) for k in (0, 5)]


@norms(lambda: [*many(5, 3, 4), *many(5, 3, 4), *many(5, 4)])
def the_result_is_viewed(*t):
    """Rows of eager's result lie side by side."""
    return torch.cat([F.layer_norm(t[i], (4,), t[10 + i]).view(2, 6) + t[5 + i].view(2, 6) for i in range(5)])


@norms(lambda: [*many(5, 3, 4), torch.full((4,), 2.0)], grad=False, dynamic=False)
def scale_written_between(*t):
    """The first three read the scale before it changes, the others after."""
    *xs, w = t
    first = [F.layer_norm(x, (4,), w) for x in xs]
    w.mul_(3)
    return torch.cat(first), torch.cat([F.layer_norm(x, (4,), w) for x in xs])


@norms(lambda: [*many(5, 3, 4), torch.zeros(3, 4), torch.full((3, 4), 7.0)], grad=False)
def rows_without_variance(*xs):
    """Only eps keeps these finite."""
    return torch.cat([F.layer_norm(x, (4,)) for x in xs])


class Tower(nn.Module):
    """Layer norms whose inputs depend on those of the layer above."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(10))

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        once = [norm(x) for norm, x in zip(self.norms[:5], xs, strict=True)]
        return torch.stack([norm(x + once[0]) for norm, x in zip(self.norms[5:], once, strict=True)])


@norms(lambda: many(5, 3, 4), module=True)
def two_layers():
    return Tower()


apart = kind("layer norms that are not alike", dynamic=False)


@apart(lambda: [t.t() for t in many(5, 4, 3)])
def transposed_inputs(*xs):
    return torch.cat([F.layer_norm(x, (4,)) for x in xs])


@apart(lambda: many(5, 4, 4))
def over_one_dimension_or_two(*xs):
    return torch.cat([F.layer_norm(x, (4,) if i % 2 else (4, 4)) for i, x in enumerate(xs)])


products = kind("products written as sums", dynamic=False, fires=("einsum_to_pointwise_pass",))


@products(lambda: [randn(2, 3, 4), randn(2, 3, 4, 5)], inductor=True)
def letters_of_any_name(x, w):
    return torch.einsum("zyx,zyxw->zyw", x, w) + 1


@products(lambda: [randn(3, 3, 3), randn(3, 3, 3, 3)])
def all_extents_alike(x, w):
    """Any other dimension would fit too."""
    return torch.einsum("abc,abcd->abd", x, w).sin()


@products(lambda: [randn(2, 1, 4), randn(2, 3, 4, 5)])
def an_extent_of_one(x, w):
    """``einsum`` widens it."""
    return torch.einsum("abc,abcd->abd", x, w) * 2


@products(lambda: [randn(2, 3, 1), randn(2, 3, 4, 5)])
def a_summed_extent_of_one(x, w):
    return torch.einsum("abc,abcd->abd", x, w) * 2


@products(lambda: [randn(2, 3, 0), randn(2, 3, 0, 5)])
def nothing_to_sum(x, w):
    return torch.einsum("abc,abcd->abd", x, w) + 1


@products(lambda: [randn(2, 3, 4, dtype=torch.bfloat16), randn(2, 3, 4, 5, dtype=torch.bfloat16)])
def short_numbers(x, w):
    return torch.einsum("b n i, b n i o -> b n o", x, w).float() + 1


@products(lambda: [randn(2, 3, 4), randn(2, 3, 4, 5), randn(2, 3, 5)])
def written_next_to_it(x, w, y):
    found = torch.einsum("abc,abcd->abd", [x, w])
    found.add_(y)
    return found.view(-1), found


letters = kind("equations that only look alike", dynamic=False)


@letters(lambda: [randn(2, 3, 3), randn(2, 3, 3, 5)])
def a_diagonal_in_both(x, w):
    return torch.einsum("bnn,bnnf->bnf", x, w) + 1


@letters(lambda: [randn(2, 3, 4), randn(2, 3, 4, 4)])
def a_letter_that_stays(x, w):
    return torch.einsum("bnd,bndd->bnd", x, w) + 1


@letters(lambda: [ints(2, 3, 4, dtype=torch.int32), ints(2, 3, 4, 5, dtype=torch.int32)])
def whole_numbers(x, w):
    """A sum of int32 would be int64."""
    return torch.einsum("abc,abcd->abd", x, w) + 1


@letters(lambda: [torch.full((1, 1, 4), 300.0).half(), (300 * torch.tensor([1.0, -1, 1, -1])).half().view(1, 1, 4, 1)], grad=False)
def products_that_overflow(x, w):
    """Each product is beyond float16, their sum is 0."""
    return torch.einsum("abc,abcd->abd", x, w) + 1


@letters(lambda: [randn(2, 3, 4), randn(2, 3, 4, 5)])
def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.einsum("abc,abcd->abd", x, w)
    return found + 1


pieces = kind("pieces reshaped before they are stacked", dynamic=False, fires=("move_reshape_out_of_split_stack_pass",))


@pieces(lambda: [randn(6, 4)], inductor=True)
def rows_flattened(x):
    return torch.stack([p.reshape(-1) for p in torch.split(x, 2)]) * 2


@pieces(lambda: [randn(2, 6, 4)])
def columns_flattened(x):
    """The pieces lie apart in the whole."""
    return torch.stack([p.reshape(2, 8) for p in torch.split(x, 2, dim=1)], dim=1) * 2


@pieces(lambda: [randn(4, 4, 4)])
def all_extents_alike_to_the_back(x):
    """Dimensions exchanged for one another would fit too."""
    return torch.stack([p.reshape(8, 4) for p in torch.split(x, 2, dim=2)], dim=2) + 1


@pieces(lambda: [randn(2, 3)])
def single_columns(x):
    return torch.stack([p.reshape(-1) for p in torch.split(x, 1, dim=1)], dim=1) * 2


@pieces(lambda: [randn(3, 8)])
def other_spellings(x):
    a, b = x.chunk(2, -1)
    return torch.stack((a.flatten(), b.flatten()), -1).exp()


@pieces(lambda: [randn(8, 3)])
def folded(x):
    return torch.stack([p.view(2, 2, 3) for p in x.split([4, 4])], 3).exp()


@pieces(lambda: [randn(12, 2), randn(1, 2)])
def a_stranger_among_them(x, y):
    found = [p.reshape(2) for p in torch.split(x, 1)]
    return torch.stack([y.reshape(2), *found, y.reshape(2)], dim=1) * 2


@pieces(lambda: [randn(6, 4), randn(2, 4)], grad=False, fires=())
def whole_written_after(x, y):
    """The stack is a copy: what is written to the whole later does not show in it."""
    found = torch.stack([p.reshape(-1) for p in torch.split(x, 2)])
    x[:2].copy_(y)
    return found * 2, x


@pieces(lambda: [randn(6, 4)], grad=False)
def stack_written(x):
    found = torch.stack([p.reshape(-1) for p in torch.split(x, 2)])
    found.add_(1)
    return found, x * 1


out_of_order = kind("pieces that cannot be reshaped as one", dynamic=False)


@out_of_order(lambda: [randn(6, 4)])
def in_another_order(x):
    a, b, c = torch.split(x, 2)
    return torch.stack([b.reshape(-1), a.reshape(-1), c.reshape(-1)]) * 2


@out_of_order(lambda: [randn(6, 4)])
def one_of_them_twice(x):
    a, b, c = torch.split(x, 2)
    return torch.stack([a.reshape(-1), b.reshape(-1), b.reshape(-1)]) * c[0, 0]


@out_of_order(lambda: [randn(6, 4)])
def read_as_other_numbers(x):
    return torch.stack([p.view(torch.int32).view(-1) for p in torch.split(x.detach(), 2)]), torch.stack(
        [p.view(torch.int32) for p in torch.split(x.detach(), 2)]
    )


@out_of_order(lambda: [randn(7, 4)])
def a_shorter_last_one(x):
    a, b, c, d = torch.split(x, 2)
    return torch.stack([a.reshape(-1), b.reshape(-1), c.reshape(-1)]) * d[0, 0]


sizes = kind("sizes as one value")


@sizes(lambda: many(3, 3, 7), fires=("batch_layernorm",))
def sizes_of_the_input(*xs):
    """With symbolic sizes, a slice of a shape is one node."""
    return [F.layer_norm(x, x.shape[1:]) * 1 for x in xs]
