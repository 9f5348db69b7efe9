"""Parts of tensors: runs of pieces that are joined again and used elsewhere too, single sections, sections made larger."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import ints, kind, many, randn

single = kind("a split into one section")


@single(lambda: [randn(3, 4)], fires=("remove_split_with_size_one_pass",), bare=True)
def in_every_spelling(x):
    pieces = [
        *torch.split(x, [4], dim=1), *torch.split(x, 9), *x.split(3), *x.chunk(1, dim=-1), *torch.tensor_split(x, 1, -1), *torch.split_with_sizes(x, (3,))
    ]  # fmt: skip
    return [p * (i + 1) for i, p in enumerate(pieces)]


@single(lambda: [randn(3, 0), randn()], fires=("remove_split_with_size_one_pass",))
def of_nothing(x, y):
    (a,), (b,) = torch.split(x, [0], dim=1), torch.split(x, 5)
    return a + 1, b.sum(), y * 2


@single(lambda: [randn(3, 4)], fires=("remove_split_with_size_one_pass",), other=lambda: [randn(5, 4)])
def joined_with_its_source(x):
    (a,) = torch.split(x, [4], dim=1)
    return torch.cat([a, x, a], 1), torch.stack([a, x]).sin()


@single(lambda: [randn(3, 4)], fires=("remove_split_with_size_one_pass",))
def of_a_new_tensor_written_later(x):
    (a,) = torch.chunk(x * 2, 1, 1)
    y = a + 1
    y.mul_(2)
    return y, a.t(), a


@single(lambda: [randn(3, 4)], grad=False)
def named_twice_and_written(x):
    """Both names are views of the input, and no name is the input."""
    a, b = torch.split(x, 4, 1)[0], x.chunk(1)[0]
    a.add_(1)
    b.unsqueeze_(0)
    return a, b, x * 1


@single(lambda: [randn(3, 4)], grad=False)
def resized_and_flagged(x):
    (a,), (b,) = torch.split(x, [3]), torch.split(x * 1, [4], 1)
    a.transpose_(0, 1)
    b.requires_grad_()
    return a + 1, (b * 2).sum(), x.sum(0)


@single(lambda: [randn(3, 4)], fires=("remove_split_with_size_one_pass",))
def cut_to_a_single_section_twice(x):
    (a,) = torch.split(x, [3])
    (b,) = torch.split(a, [4], 1)
    c, d = torch.split(b, [1, 3], 1)
    return torch.cat([d, c], 1), b.sin()


@single(lambda: [randn(3, 4)], fires=("remove_split_with_size_one_pass",))
def returned_beside_its_source(x):
    """Three tensors of one memory, and three objects."""
    y = x * 2
    return torch.split(y, [4], 1)[0], y, y.chunk(1)[0]


larger = kind("pieces that become one section")


@larger(lambda: [randn(3, 9)], fires=("merge_getitem_cat_pass",), bare=True, other=lambda: [randn(5, 9)])
def numbers_behind_change(x):
    a, b, c, d, e = torch.split(x, [1, 2, 1, 3, 2], dim=-1)
    return torch.cat([b, c], -1).sin(), a + 1, d * 2, e.cos()


@larger(lambda: [randn(3, 12)], fires=("merge_getitem_cat_pass",))
def three_sections_of_seven(x):
    p = torch.split(x, [1, 2, 1, 2, 3, 1, 2], 1)
    return torch.cat(p[0:2], 1).sin(), torch.cat(p[2:4], 1).cos(), torch.cat([p[5], p[6]], 1).exp(), p[4]


@larger(lambda: [randn(3, 12)], fires=("merge_getitem_cat_pass",))
def empty_sections_at_all_places(x):
    """An empty section keeps its number."""
    p = torch.split(x, [0, 3, 0, 2, 0, 7, 0], 1)
    return torch.cat([p[1], p[2], p[3]], 1) * 2, p[0], p[4] + 1, p[5].sin(), p[6]


@larger(lambda: [randn(3, 8), randn(3, 2)], fires=("merge_getitem_cat_pass",))
def beside_strangers_and_strays(x, y):
    p = torch.split(x, 2, 1)
    return torch.cat([y, p[1], p[2], y], 1).sin(), torch.cat([p[3], p[0]], 1)


@larger(lambda: [randn(3, 8)], grad=False, fires=("merge_getitem_cat_pass",))
def section_written(x):
    """The join is a copy: what is written to it does not reach the input."""
    p = torch.split(x, 2, 1)
    y = torch.cat([p[0], p[1]], 1)
    y.add_(1)
    return y, p[2] * 2, p[3], x.sum()


@larger(lambda: [randn(3, 8)], grad=False)
def source_written_after_the_join(x):
    p = torch.split(x, 2, 1)
    y = torch.cat([p[0], p[1]], 1)
    x.add_(1)
    return y * 2, p[2] * 2, p[3] + x[:, :2]


@larger(lambda: [randn(3, 8)], fires=("merge_getitem_cat_pass",))
def section_read_by_its_strides(x):
    p = torch.split(x, 2, 1)
    y, z = torch.cat([p[0], p[1]], 1), torch.cat([p[2], p[3]], 1)
    return y.view(-1), z.stride(), y.is_contiguous(), z.view(2, 6), z.sum()


@larger(lambda: [randn(3, 8)], grad=False, fires=("merge_getitem_cat_pass",))
def section_returned(x):
    p = torch.split(x, 2, 1)
    return torch.cat([p[0], p[1]], 1), p[2], p[3]


@larger(lambda: [randn(4, 8)])
def maximum_and_places_of_each_row(x):
    """Two results of one operator, neighbours by number, and no pieces."""
    values, places = torch.max(x, 1, keepdim=True)
    best = torch.topk(x, 2, 1)
    return torch.cat([values, places], 1), torch.cat([best[0], best[1]], 1), torch.cat([x[0], x[1]])


@larger(lambda: [randn(2, 12)], fires=("merge_getitem_cat_pass",))
def of_pieces_of_a_piece(x):
    s = torch.split(x, [2, 8, 2], 1)
    t = torch.split(s[1], [1, 2, 3, 2], 1)
    return torch.cat([t[1], t[2]], 1).sin(), s[0] + 1, t[0] * t[0], t[3], s[2]


shared = kind("joins of pieces that have other readers")


@shared(lambda: [randn(3, 10)], fires=("mutate_cat_pass",), bare=True, other=lambda: [randn(4, 10)])
def every_neighbourhood(x):
    p = torch.split(x, [1, 2, 3, 4], dim=-1)
    return [torch.cat(p[i:j], -1) * (i + j) for i in range(4) for j in range(i + 2, 5)]


@shared(lambda: [randn(3, 10)], fires=("mutate_cat_pass",))
def negative_numbers_and_dimensions(x):
    p = x.split([1, 2, 3, 4], -1)
    return torch.cat([p[-3], p[-2]], 1).sin(), torch.cat([p[-4], p[-3]], -1).cos(), torch.cat([p[-1], p[-2]], -1), p[2] + 1


@shared(lambda: [randn(3, 10)], grad=False)
def source_and_pieces_written(x):
    p = torch.split(x, [1, 2, 3, 4], 1)
    before = torch.cat([p[1], p[2]], 1)
    x.add_(1)
    between = torch.cat([p[1], p[2]], 1)
    p[1].mul_(2)
    return before, between + 1, torch.cat([p[0], p[1]], 1) * 2, p[2], torch.cat([(x * 1)[:, :5], x[:, 5:]], 1)


@shared(lambda: [randn(3, 10)], fires=("mutate_cat_pass",))
def joins_written(x):
    """In training: the section would be a view of a leaf."""
    p = torch.split(x, [1, 2, 3, 4], 1)
    y, z = torch.cat([p[1], p[2]], 1), torch.cat([p[0], p[1]], 1)
    y.mul_(2)
    z[:, 0] = 5
    return y, z, p[1] + 1, F.relu(torch.cat([p[2], p[3]], 1), inplace=True)


@shared(lambda: [randn(3, 10)], fires=("mutate_cat_pass",))
def joins_viewed(x):
    p = torch.split(x, [1, 2, 3, 4], 1)
    y = torch.cat([p[1], p[2]], 1)
    return y.view(5, 3), y.view(-1)[4:], p[1] * 2, torch.cat([p[2], p[3]], 1).storage_offset()


@shared(lambda: [randn(10, 3)], fires=("mutate_cat_pass",), grad=False)
def joins_returned(x):
    """New tensors, in no memory of the input or of one another."""
    p = torch.split(x, [1, 2, 3, 4])
    return torch.cat([p[1], p[2]]), torch.cat([p[1], p[2]]), torch.cat(p[:4]), p[1]


@shared(lambda: [randn(3, 8), randn(3, 8)])
def joins_that_are_no_sections(x, y):
    p, q = torch.split(x, 2, 1), torch.split(y, 2, 1)
    joins = [[p[0], p[2]], [p[1], p[0]], [p[0], p[0]], [p[0], q[1]], [p[0], p[1], p[1]], [q[3], q[0]]]
    return [torch.cat(j, 1) for j in joins], torch.cat([p[0], p[1]], 0).sin(), p[1] + q[0]


@shared(lambda: [randn(3, 10), randn(3, 2)], fires=("split_cat_to_slices_pass",), bare=True, other=lambda: [randn(6, 10), randn(6, 2)])
def runs_beside_strangers(x, y):
    p = torch.split(x, [1, 2, 3, 4], dim=-1)
    return torch.cat([y, p[1], p[2], y, p[2], p[3]], -1).sin(), p[2] * 2, torch.cat([p[0], p[1], y], 1).cos()


@shared(lambda: many(2, 3, 8), fires=("split_cat_to_slices_pass",))
def runs_of_two_tensors_in_turns(x, y):
    """The last input opens no run of its own, and belongs to none."""
    p, q = torch.split(x, 2, 1), torch.split(y, 2, 1)
    joined = torch.cat([p[0], p[1], q[1], q[2], p[2], q[3], q[0]], 1)
    return joined.sin(), torch.cat([q[0], q[1], p[3]], 1).cos(), p[1] + q[1]


@shared(lambda: [randn(3, 8)], fires=("split_cat_to_slices_pass",))
def runs_that_repeat(x):
    p = torch.split(x, 2, 1)
    return torch.cat([p[1], p[2], p[1], p[2], p[1]], 1).sin(), torch.cat([p[3], p[0], p[1], p[3]], 1).cos(), p[2] + 1


@shared(lambda: [randn(3, 8), ints(3, 2)], fires=("split_cat_to_slices_pass",))
def runs_beside_a_maximum(x, i):
    p = torch.split(x, 2, 1)
    most = torch.max(x, 1, keepdim=True)
    return torch.cat([p[0], p[1], most[0], p[1], p[2]], 1) * 2, torch.cat([p[1], p[2], most[1], i], 1), p[3]


@shared(lambda: [randn(4, 8), randn(4, 2)])
def runs_across(x, y):
    """Cut along one dimension, joined along another."""
    p = torch.split(x, 2, 1)
    return torch.cat([y, p[0], p[1], p[2]], 0).sin(), torch.cat([p[1], p[2], y]).cos(), p[1] + 1


@shared(lambda: [randn(3, 8), randn(3, 2)], grad=False, fires=("split_cat_to_slices_pass",))
def runs_of_what_is_written(x, y):
    p = torch.split(x * 1, 2, 1)
    kept = torch.cat([y, p[1], p[2]], 1)
    p[1].add_(1)
    q = torch.split(y * x[:, :2], 1, 1)
    return kept, torch.cat([y, p[1], p[2]], 1), torch.cat([y, q[0], q[1]], 1), q[0] + 1, torch.cat([*torch.split(x, 2, 1)[:2], y], 1) * p[3].sum()


@shared(lambda: [ints(3, 6, low=2**24, high=2**25), randn(3, 2, dtype=torch.float16), randn(3, 2)], fires=("split_cat_to_slices_pass",))
def runs_that_are_promoted(x, h, y):
    p = torch.split(x, 2, 1)
    return torch.cat([p[0], p[1], h, y], 1), torch.cat([h, p[1], p[2]], 1), p[1] + 1


views = kind("parts of a tensor, moved")


@views(lambda: [randn(4, 2, 3, 5)], fires=("unbind_cat_to_view_pass",), other=lambda: [randn(4, 3, 2, 5)])
def slices_side_by_side(x):
    """A move of a dimension, not a swap."""
    s = torch.unbind(x)
    return [torch.cat(s[1:3], d).sin() for d in (0, 1, 2, -1)], s[1] + s[3]


@views(lambda: [randn(2, 3, 4, 5)], fires=("unbind_cat_to_view_pass",), bare=True)
def slices_from_the_back_side_by_side(x):
    s = x.unbind(-1)
    return [torch.cat(s[i : i + 2], i - 3) * 2 for i in range(3)], s[-2], torch.cat([s[-2], s[-1]], 0).cos()


@views(lambda: [randn(4, 2, 3), randn(4, 2, 3), randn(2, 3)], fires=("unbind_cat_to_view_pass",))
def slices_of_two_tensors_side_by_side(x, y, z):
    s, t = torch.unbind(x), torch.unbind(y)
    return torch.cat([z, s[0], s[1], t[2], t[3], s[2], z], 1).sin(), torch.cat([s[1], t[2], t[1], s[1]]), torch.cat([t[0], t[1], s[2]]).cos()


@views(lambda: [randn(4, 2, 3)], fires=("unbind_cat_to_view_pass",), grad=False)
def slices_side_by_side_and_writes(x):
    s = torch.unbind(x)
    before = torch.cat([s[0], s[1]], 1)
    x.add_(1)
    after = torch.cat([s[1], s[2]], 0)
    y = torch.cat([s[2], s[3]], 1)
    y.mul_(2)
    return before, after, y, x[2] * 1


@views(lambda: [randn(4, 2, 3)], fires=("unbind_cat_to_view_pass",))
def slices_side_by_side_read_by_strides(x):
    s = torch.unbind(x, 1)
    y = torch.cat(s, 1)
    t = torch.unbind(x, 0)
    return y.view(-1), torch.cat(t[1:3], 1).view(6, 2), torch.cat(t[:2], 1), torch.cat(t[2:], 1).sum(), torch.sigmoid(torch.cat(t[1:], 1))


@views(lambda: [randn(4, 2, 3)])
def slices_in_no_order_side_by_side(x):
    s = torch.unbind(x)
    return torch.cat([s[1], s[0]]), torch.cat([s[0], s[2]], 1), torch.cat([s[3], s[3]], 1), torch.cat([s[2], s[1], s[3], s[0]])


@views(lambda: [randn(4, 2, 3)], fires=("unbind_stack_to_slices_pass",), other=lambda: [randn(4, 5, 2)])
def slices_stacked_at_every_place(x):
    s = torch.unbind(x)
    return [torch.stack(s[1:3], d).sin() for d in range(-3, 3)], s[1] + s[3]


@views(lambda: [randn(2, 4, 3)], fires=("unbind_stack_to_slices_pass",), bare=True)
def slices_from_the_middle_stacked(x):
    s = x.unbind(-2)
    return [torch.stack(s[i : i + 2], i) * 2 for i in range(3)], s[-1], torch.stack([s[-2], s[-1]], -1).cos()


@views(lambda: [randn(5)], fires=("unbind_stack_to_slices_pass",))
def numbers_stacked(x):
    s = torch.unbind(x)
    return torch.stack(s[1:4]) * 2, torch.stack([s[0], s[1], s[4]], -1), torch.stack([s[3], s[2]]), s[2]


@views(lambda: [randn(4, 3), randn(4, 3), randn(3)], fires=("unbind_stack_to_slices_pass",))
def slices_of_two_tensors_stacked(x, y, z):
    s, t = torch.unbind(x), torch.unbind(y)
    return torch.stack([z, s[0], s[1], t[2], t[3], s[2], z], 1).sin(), torch.stack([s[1], t[2], t[1], s[1]]), torch.stack([t[0], t[1], s[2]]).cos()


@views(lambda: [randn(4, 3, 3)], grad=False)
def slices_stacked_and_writes(x):
    s = torch.unbind(x)
    before = torch.stack([s[0], s[1]], 1)
    s[1].add_(1)
    y = torch.stack([s[2], s[3]])
    y[0] = 7
    return before, torch.stack([s[0], s[1]], 2), y, x * 1


@views(lambda: [randn(4, 3, 3)], fires=("unbind_stack_to_slices_pass",))
def slices_stacked_and_returned(x):
    s = torch.unbind(x)
    return torch.stack(s[1:3]), torch.stack(s[1:3], 1).view(-1), torch.stack(s[:2], 2), torch.stack(s[2:], -1).sum(), x[0]


@views(lambda: [randn(2, 8, 3)], fires=("split_stack_to_cats_pass",), other=lambda: [randn(3, 8, 2)])
def pieces_stacked_at_every_place(x):
    p = torch.split(x, 2, 1)
    return [torch.stack(p[1:3], d).sin() for d in range(-4, 4)], p[1] + p[3]


@views(lambda: [randn(3, 2, 8)], fires=("split_stack_to_cats_pass",), bare=True)
def pieces_from_the_back_stacked(x):
    p = x.split(2, -1)
    return [torch.stack(p[i : i + 2], i) * 2 for i in range(3)], p[-1], torch.stack([p[-2], p[-1]], -1).cos()


@views(lambda: [randn(8, 3), randn(2, 12), randn(2, 3)], fires=("split_stack_to_cats_pass",))
def pieces_of_two_tensors_stacked(x, y, z):
    """Cut along different dimensions."""
    p, q = torch.split(x, 2), torch.split(y, 3, 1)
    return torch.stack([z, p[0], p[1], q[2], q[3], p[2], z], 1).sin(), torch.stack([p[1], q[2], q[1], p[1]]), torch.stack([q[0], q[1], p[2]]).cos()


@views(lambda: [randn(3, 9)], fires=("split_stack_to_cats_pass",))
def pieces_of_which_some_are_longer(x):
    p = torch.split(x, [2, 2, 2, 3], 1)
    return torch.stack(p[:2]).sin(), torch.stack(p[1:3], 2).cos(), torch.stack([p[1], p[3][:, 1:]]), p[1] * 2


@views(lambda: [randn(8, 3)], grad=False)
def pieces_stacked_and_writes(x):
    p = torch.split(x, 2)
    before = torch.stack([p[0], p[1]], 1)
    x[2] = 5
    y = torch.stack([p[1], p[2]])
    y.add_(1)
    return before, torch.stack([p[0], p[1]], 2), y, x * 1


@views(lambda: [randn(8, 3)], fires=("split_stack_to_cats_pass",))
def pieces_stacked_and_returned(x):
    p = torch.split(x, 2)
    return torch.stack(p[1:3]), torch.stack(p[1:3], 1).view(-1), torch.stack(p[:2], 2), torch.stack(p[2:], -1).sum(), p[0], p[1]


@views(lambda: [randn(4, 8)])
def pieces_in_no_order_stacked(x):
    p = torch.split(x, 2, 1)
    return torch.stack([p[1], p[0]]), torch.stack([p[0], p[2]], 1), torch.stack([p[3], p[3]], 2), torch.stack([p[2], p[1], p[3], p[0]])


@views(lambda: [randn(13, 4), randn(12, 3)], fires=("split_cat_to_slices_pass", "unbind_stack_to_slices_pass"), inductor=True)
def long_runs(x, y):
    p, s = torch.split(x, 1), torch.unbind(y)
    return torch.cat([*p[1:12], x[:1]]).sin(), p[3] + 1, torch.stack([y[0], *s[1:11]], 1).cos(), s[4] * 2
