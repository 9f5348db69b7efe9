"""Cutting tensors up and putting the pieces together again."""

from __future__ import annotations

import torch

from tests.hostile.registry import ints, kind, many, randn

order = kind("order and number of pieces")


@order(lambda: [randn(3, 8)], other=lambda: [randn(5, 8)], inductor=True)
def rotated(x):
    """https://github.com/pytorch/pytorch/issues/99686 The cat permutes columns, it is not the input."""
    first, second, third = torch.split(x, [4, 1, 3], dim=1)
    return torch.cat((second, third, first), dim=1)


@order(lambda: [randn(3, 8)], fires=("mutate_cat_pass",))
def in_order(x):
    first, second, third = torch.split(x, [4, 1, 3], dim=1)
    return torch.cat((first, second, third), dim=1) * 2


@order(lambda: [randn(3, 8)])
def reversed_pieces(x):
    return torch.cat(tuple(reversed(torch.split(x, 2, dim=1))), dim=1)


@order(lambda: [randn(3, 8)])
def neighbours_swapped(x):
    p = torch.split(x, 2, dim=1)
    return torch.cat([p[1], p[0], p[3], p[2]], dim=1).exp()


@order(lambda: [randn(4, 6)])
def each_piece_twice(x):
    left, right = torch.chunk(x, 2, dim=1)
    return torch.cat([left, left, right, right], dim=1) + 1


@order(lambda: [randn(3, 6)])
def all_pieces_and_the_first_again(x):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b, c, a], dim=1).sin()


@order(lambda: [randn(3, 6)], fires=("split_cat_pass",))
def all_pieces_twice_over(x):
    p = torch.split(x, 2, dim=1)
    return torch.cat([*p, *p], dim=1).sin()


@order(lambda: [randn(3, 6)])
def first_and_last_input_are_one(x):
    a, b, _ = torch.split(x, 2, dim=1)
    return torch.cat([a, b, a], dim=1).cos()


@order(lambda: [randn(7, 3, 2)], fires=("mutate_cat_pass",), other=lambda: [randn(7, 4, 5)], inductor=True)
def chosen_by_comprehension(x):
    """https://github.com/pytorch/pytorch/issues/122379 All seven survive, in a new tensor."""
    parts = torch.split(x, 1, 0)
    return torch.cat([parts[i] for i in range(9) if i < 7], 0)


@order(lambda: [randn(6, 3)])
def even_then_odd(x):
    p = torch.split(x, 1)
    return torch.cat(p[::2]), torch.cat(p[1::2])


@order(lambda: [randn(3, 6)])
def counted_from_the_back(x):
    p = x.split(2, dim=1)
    return torch.cat([p[-1], p[-3]], dim=1), torch.cat([p[-3], p[-2], p[-1]], dim=1) * 2


@order(lambda: [randn(3, 10)])
def gap_in_the_run(x):
    """https://github.com/pytorch/pytorch/pull/113822 Pieces 0, 1, 3 are joined, 2 and 4 are used elsewhere."""
    p = torch.split(x, 2, dim=1)
    return torch.cat([p[0], p[1], p[3]], dim=1), p[2] * p[4]


@order(lambda: [randn(3, 8)])
def overlapping_runs(x):
    p = torch.split(x, 2, dim=1)
    return torch.cat(p[:3], dim=1).sin(), torch.cat(p[1:], dim=1).cos()


@order(lambda: [randn(3, 8)])
def run_inside_a_run(x):
    p = torch.split(x, 2, dim=1)
    return torch.cat(p[:2], dim=1) * 2, torch.cat(p[:3], dim=1) * 3, p[3] * 4


@order(lambda: [randn(3, 8)])
def one_run_in_two_joins(x):
    p = torch.split(x, 2, dim=1)
    return torch.cat(p[1:3], dim=1) * 2, torch.cat(p[1:3], dim=1) * 3, p[0] + p[3]


@order(lambda: [randn(3, 8)])
def one_run_twice_in_a_join(x):
    p = torch.split(x, [1, 2, 2, 3], dim=1)
    return torch.cat([p[1], p[2], p[1], p[2]], dim=1).exp(), p[0]


@order(lambda: [randn(3, 8)], fires=("merge_getitem_cat_pass",))
def two_runs_apart(x):
    p = torch.split(x, [1, 2, 2, 3], dim=1)
    return torch.cat([p[2], p[3], p[0], p[1]], dim=1).exp()


@order(lambda: [randn(3, 8)])
def piece_also_used_alone(x):
    p = torch.split(x, [1, 2, 2, 3], dim=1)
    return torch.cat([p[0], p[1]], dim=1).exp(), p[1] * 2, torch.cat([p[2], p[3]], dim=1).sin()


@order(lambda: [randn(3, 8)])
def tuple_cut_again(x):
    first, *rest = torch.split(x, [2, 1, 3, 2], dim=1)
    return torch.cat(rest, dim=1).sin(), first, len(rest)


foreign = kind("inputs of other origin in a join")


@foreign(lambda: many(2, 3, 6))
def two_splits_interleaved(x, y):
    """https://github.com/pytorch/pytorch/pull/147784 Pieces of two splits are a slice of neither."""
    a, b = torch.split(x, 2, dim=1), torch.split(y, 2, dim=1)
    return torch.cat([a[0], b[1], a[2], b[0], a[1]], dim=1)


@foreign(lambda: many(2, 3, 6))
def last_comes_from_another(x, y):
    """Numbers 0, 1, 2, but the last is of another tensor."""
    a, b = torch.split(x, 2, dim=1), torch.split(y, 2, dim=1)
    return torch.cat([a[0], a[1], b[2]], dim=1) + 1


@foreign(lambda: many(2, 3, 6))
def taken_in_turns(x, y):
    a, b = torch.split(x, 2, dim=1), torch.split(y, 2, dim=1)
    return torch.cat([a[0], b[0], a[1], b[1], a[2], b[2]], dim=1) + 1


@foreign(lambda: many(2, 3, 6), fires=("split_cat_pass",))
def one_whole_after_the_other(x, y):
    return torch.cat([*torch.split(x, 2, dim=1), *torch.split(y, [1, 5], dim=1)], dim=1) + 1


@foreign(lambda: [randn(3, 6), randn(3, 2)])
def stranger_in_the_middle(x, y):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, y, b, c], dim=1) + 1


@foreign(lambda: [randn(3, 6), randn(3, 2)], fires=("split_cat_pass",))
def stranger_at_both_ends(x, y):
    return torch.cat([y, *torch.split(x, 2, dim=1), y], dim=1) + 1


@foreign(lambda: [randn(3, 6)])
def source_itself_among_its_pieces(x):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b, x, c], dim=1).sin()


@foreign(lambda: [randn(3, 6)])
def maximum_between_pieces(x):
    """``max`` has two results too, but it is no split."""
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, torch.max(x, 1, keepdim=True)[0], b, c], dim=1) * 2


@foreign(lambda: [randn(3, 6)])
def best_two_in_front(x):
    best = torch.topk(x, 2, dim=1)
    return torch.cat([best[0], *torch.split(x, 2, dim=1)], dim=1), torch.cat([best[1], best[1]], dim=1)


@foreign(lambda: [randn(3, 4)])
def both_results_of_a_sort(x):
    values, places = torch.sort(x, dim=1)
    return torch.cat([values, places], dim=1)


@foreign(lambda: [randn(4, 2), randn(3, 4, 2)])
def slices_of_an_unbind_among_pieces(x, y):
    a, b = torch.split(x, 2)
    u, v, w = torch.unbind(y)
    return torch.cat([a, u, b, v, w]) * 2


@foreign(lambda: [randn(4, 2), randn(2, 4, 2)])
def pieces_then_complete_unbind(x, y):
    return torch.cat([*torch.split(x, 2), *torch.unbind(y)]).sin()


@foreign(lambda: [randn(2, 4)])
def rows_of_a_tensor(x):
    """``getitem`` of a tensor, from the back: not the order of the rows."""
    return torch.cat([x[-1], x[0]]) + 1


@foreign(lambda: many(2, 2, 3, 4))
def rows_of_two_tensors(x, y):
    return torch.cat([x[0], y[1]], dim=0) + 1, x[1] * 2


@foreign(lambda: [randn(2, 3, 4)])
def columns_of_a_transposed_view(x):
    turned = x.transpose(0, 1)
    return torch.cat([turned[:, 0], turned[:, 1]], dim=1) + 1


@foreign(lambda: [randn(3, 6)])
def slices_by_index(x):
    return torch.cat([x[:, 2:4], x[:, :2], x[:, 4:]], dim=1), torch.cat([x[:, :3], x[:, 3:]], dim=1)


dims = kind("dimensions of cut and join differ")


@dims(lambda: [randn(4, 6)], fires=("split_cat_pass",), other=lambda: [randn(5, 6)], inductor=True)
def columns_joined_as_rows(x):
    return torch.cat(torch.split(x, 2, dim=1), dim=0) + 1


@dims(lambda: [randn(6, 4)], fires=("split_cat_pass",))
def rows_joined_as_columns(x):
    return torch.cat(x.split(2), dim=-1) + 1


@dims(lambda: [randn(4, 6), randn(4, 2)], fires=("split_cat_pass",))
def columns_as_rows_with_another(x, y):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([y, a, b, c], dim=0) + 1


@dims(lambda: [randn(4, 6), randn(7, 2)], fires=("split_cat_pass",))
def columns_as_rows_with_a_longer_one(x, y):
    """The other input has another extent along the joined dimension."""
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b, c, y], dim=0) + 1


@dims(lambda: [randn(2, 6), randn(4, 6)])
def second_split_on_the_other_dim(x, y):
    a, b = torch.split(x, 2, dim=1), torch.split(y, 2, dim=0)
    return torch.cat([a[0], a[1], a[2], b[0], b[1]], dim=1) + 1


@dims(lambda: [randn(3, 4)])
def uneven_columns_joined_as_rows(x):
    a, b = torch.split(x, [1, 3], dim=1)
    return torch.cat([a, a, a], dim=0), torch.cat([b[:, :1], b[:, 1:2]], dim=0)


@dims(lambda: [randn(2, 6, 5)], fires=("split_cat_pass",))
def middle_joined_at_the_end(x):
    return torch.cat(torch.split(x, 2, 1), 2).sin()


@dims(lambda: [randn(2, 3, 6)], fires=("split_cat_pass",))
def end_joined_in_front(x):
    return torch.cat(torch.split(x, 2, 2), 0).sin()


@dims(lambda: [randn(6, 2, 3)], fires=("split_cat_pass",))
def front_joined_at_the_end(x):
    return torch.cat(torch.split(x, 2, 0), 2).sin()


@dims(lambda: [randn(2, 8, 3)], fires=("split_cat_pass",))
def part_of_the_pieces_joined_elsewhere(x):
    p = torch.split(x, 2, 1)
    return torch.cat(p[1:3], 2).sin(), p[0], p[3]


@dims(lambda: [randn(3, 6)], fires=("mutate_cat_pass",), bare=True)
def both_counted_from_the_back(x):
    return torch.cat(torch.split(x, 2, dim=-1), dim=-1).sin()


@dims(lambda: [randn(3, 6)], bare=True)
def cut_from_the_back_joined_in_front(x):
    p = torch.split(x, 2, dim=-1)
    return torch.cat([p[0], p[1]], dim=-2).sin(), p[2]


@dims(lambda: [randn(3, 8)], fires=("merge_getitem_cat_pass",), bare=True)
def run_counted_from_the_back(x):
    """A slice of the last dimension, not the whole tensor."""
    p = torch.split(x, 2, dim=-1)
    return torch.cat([p[1], p[2]], dim=-1).sin(), torch.cat([p[0], p[3]], dim=1)


@dims(lambda: [randn(4, 6), randn(4, 2)], bare=True)
def stack_and_cat_of_one_split(x, y):
    """A stack without ``dim`` beside a cat with a negative one."""
    a, b, c = torch.split(x, 2, dim=-1)
    return torch.cat([a, b, c, y], dim=-1).sin(), torch.stack([a, b, c]).cos()


@dims(lambda: [randn(4, 4)], fires=("split_cat_pass",))
def square(x):
    """Equal extents hide a wrong dimension."""
    return torch.cat(torch.split(x, 2, 0), 1).flatten() + torch.cat(torch.split(x, 2, 1), 0).flatten()


@dims(lambda: [randn(2, 2, 2)], fires=("split_cat_pass",))
def cube(x):
    joined = [torch.cat(torch.split(x, 1, d), e).flatten() for d in range(3) for e in range(3)]
    return torch.stack([j * (i + 1) for i, j in enumerate(joined)])


extreme = kind("empty, single and unit sections")


@extreme(lambda: [randn(4, 8)], fires=("merge_getitem_cat_pass",), inductor=True)
def empty_section_in_front(x):
    s = torch.split(x, [0, 2, 2, 4], dim=1)
    return torch.cat([s[1], s[2]], dim=1) * 2, s[3] + 1


@extreme(lambda: [randn(4, 6)], fires=("merge_getitem_cat_pass",))
def empty_section_in_use(x):
    s = torch.split(x, [2, 0, 2, 2], dim=1)
    return torch.cat([s[2], s[3]], dim=1) * 2, torch.relu(s[1]), torch.relu(s[0])


@extreme(lambda: [randn(4, 6)], fires=("merge_getitem_cat_pass",))
def empty_section_inside_a_run(x):
    s = torch.split(x, [2, 2, 0, 1, 1], dim=1)
    return torch.cat([s[1], s[2], s[3]], dim=1) * 2, s[0], s[4]


@extreme(lambda: [randn(4, 6)])
def empty_section_left_out_of_a_run(x):
    """Pieces 1 and 3 touch one another, for piece 2 is empty."""
    s = torch.split(x, [2, 2, 0, 2], dim=1)
    return torch.cat([s[1], s[3]], dim=1) * 2, s[0], s[2]


@extreme(lambda: [randn(4, 6)])
def run_of_empty_sections(x):
    s = torch.split(x, [0, 0, 6], dim=1)
    return torch.cat([s[0], s[1]], dim=1), s[2].sin()


@extreme(lambda: [randn(4, 0)])
def nothing_to_cut(x):
    a, b = torch.split(x, [0, 0], dim=1)
    return torch.cat([a, b], dim=1), torch.cat([a, b], dim=0)


@extreme(lambda: [randn(0, 6)])
def no_rows(x):
    return torch.cat(torch.split(x, 2, dim=1), dim=1) * 2, torch.stack(torch.split(x, 3, dim=1), dim=2).sum()


@extreme(lambda: [randn(3, 4)])
def one_section(x):
    (whole,) = torch.split(x, [4], dim=1)
    return torch.cat([whole], dim=1), whole * 2


@extreme(lambda: [randn(3, 4)], grad=False)
def one_section_returned(x):
    """A view of the input, and not the input itself."""
    return torch.split(x, 4, dim=1)[0], x.chunk(1)[0]


@extreme(lambda: [randn(3, 4)], grad=False)
def one_section_turned_in_place(x):
    """The piece is turned, the input keeps its shape."""
    piece = torch.split(x, [4], dim=1)[0]
    piece.t_()
    return piece * 2, x.sum(0)


@extreme(lambda: [randn(3, 4)], grad=False)
def one_section_gets_a_dimension_in_place(x):
    piece = x.chunk(1, dim=0)[0]
    piece.unsqueeze_(0)
    return piece + 1, x + 1


@extreme(lambda: [randn(3, 4)], grad=False)
def one_section_written(x):
    piece = torch.split(x, [4], dim=1)[0]
    piece.mul_(2)
    return x + 1


@extreme(lambda: [randn(3, 4)])
def one_section_cut_again(x):
    (whole,) = torch.split(x, [4], dim=1)
    a, b = torch.split(whole, [1, 3], dim=1)
    return torch.cat([b, a], dim=1)


@extreme(lambda: [randn(3, 2)])
def more_chunks_than_columns(x):
    return torch.cat(torch.chunk(x, 5, dim=1), dim=1).sin(), len(torch.chunk(x, 5, dim=1))


@extreme(lambda: [randn(1, 1, 1)])
def nothing_but_units(x):
    return torch.cat(torch.split(x, 1, 1), 2), torch.stack(torch.split(x, 1, 0), 3).sin()


@extreme(lambda: [randn(5)])
def vector_cut_to_numbers(x):
    p = torch.split(x, 1)
    return torch.cat([p[3], p[4], p[0]]), torch.stack([p[1].squeeze(0), p[2].squeeze(0)])


@extreme(lambda: [randn(3, 4), torch.empty(0)])
def empty_vector_is_skipped(x, e):
    """https://github.com/pytorch/pytorch/issues/107118 Whatever the rank of the others."""
    return torch.cat([x, e], dim=1) + 1


@extreme(lambda: [torch.empty(0, 4), randn(3, 4)])
def only_the_second_holds_anything(e, x):
    """https://github.com/pytorch/pytorch/pull/113514 The answer is that input, not the empty one."""
    return torch.cat([e, x], dim=0) * 2


@extreme(lambda: [randn(4, 6), torch.empty(0)])
def empty_vector_among_pieces(x, e):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b, e, c], dim=1).sin(), torch.cat([e, a, b, c], dim=0).cos()


@extreme(lambda: [randn(4, 6), torch.empty(0, dtype=torch.float64)])
def empty_vector_decides_the_type(x, e):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b, c, e], dim=1)


uneven = kind("uneven sections")


@uneven(lambda: [randn(3, 10)])
def remainder_of_split(x):
    """https://github.com/pytorch/pytorch/issues/197080 Sections of 4, 4 and 2."""
    return tuple(t + 1 for t in torch.split(x, 4, 1))


@uneven(lambda: [randn(3, 10)])
def remainder_of_chunk(x):
    return tuple(t + 1 for t in torch.chunk(x, 3, 1))


@uneven(lambda: [randn(3, 10)], fires=("merge_getitem_cat_pass",), inductor=True)
def remainder_joined(x):
    a, b, c = torch.split(x, 4, 1)
    return torch.cat([b, c], 1).sin(), a.cos()


@uneven(lambda: [randn(3, 10)])
def remainder_not_stackable(x):
    a, b, c = torch.split(x, 4, 1)
    return torch.stack([a, b], 1).sin(), torch.cat([a, b], 0).cos(), c


@uneven(lambda: [randn(3, 10)])
def remainder_in_front(x):
    """``tensor_split`` gives the surplus to the first sections: 4, 3, 3."""
    a, b, c = torch.tensor_split(x, 3, dim=1)
    return torch.cat([a, b], dim=1) + 1, torch.stack([b, c]).sin()


@uneven(lambda: [randn(3, 10)])
def cut_at_places(x):
    a, b, c = torch.tensor_split(x, (2, 7), dim=1)
    return torch.cat([a, b, c], dim=1).sin(), torch.cat([c, a], dim=1)


@uneven(lambda: [randn(3, 10)])
def cut_at_overlapping_places(x):
    """Places may fall: the section between them is empty."""
    a, b, c = torch.tensor_split(x, (7, 3), dim=1)
    return torch.cat([a, c], dim=1).sin(), b


@uneven(lambda: [randn(4, 6, 2)])
def cut_by_name(x):
    return torch.cat(torch.hsplit(x, 3), dim=1) + 1, torch.cat(torch.vsplit(x, [1, 3])) + 1, torch.cat(torch.dsplit(x, 2), dim=2) + 1


@uneven(lambda: [randn(9, 2), torch.tensor([6, 3])], dynamic=False)
def sizes_that_break_the_graph(x, sizes):
    """https://github.com/pytorch/pytorch/issues/117268"""
    a, b = sizes.tolist()
    left, right = torch.split(x, [a, b])
    return left.sum(0), right * 2


nested = kind("pieces that are cut again")


@nested(lambda: [randn(2, 12)])
def middle_piece_cut_and_joined(x):
    """https://github.com/pytorch/pytorch/pull/119956 Every later piece must be renumbered."""
    s = torch.split(x, [3, 4, 5], dim=1)
    t = torch.split(s[1], [1, 3], dim=1)
    return torch.cat([s[0], t[1], s[2]], dim=1), t[0]


@nested(lambda: [randn(2, 12)], fires=("merge_splits_pass",))
def hole_in_the_outer_numbers(x):
    """https://github.com/pytorch/pytorch/pull/141194 Only pieces 0 and 2 of the outer split are used."""
    s = torch.split(x, [2, 2, 4, 4], dim=1)
    t = torch.split(s[2], [1, 3], dim=1)
    return s[0] + 1, t[0] * 2, t[1] * 3


@nested(lambda: [randn(2, 12)], fires=("merge_splits_pass",))
def hole_in_the_inner_numbers(x):
    s = torch.split(x, [2, 6, 4], dim=1)
    t = torch.split(s[1], [1, 3, 2], dim=1)
    return s[2] + 1, t[2] * 2


@nested(lambda: [randn(2, 12)], fires=("merge_splits_pass",))
def two_pieces_cut(x):
    s = torch.split(x, [4, 4, 4], dim=1)
    a, b = torch.split(s[0], [1, 3], dim=1)
    c, d, e = torch.split(s[2], [2, 1, 1], dim=-1)
    return a + 1, b.sin(), s[1].cos(), c * d, e


@nested(lambda: [randn(2, 12)], fires=("merge_splits_pass",))
def last_piece_by_negative_number(x):
    s = torch.split(x, [4, 4, 4], dim=1)
    a, b = torch.split(s[-1], [1, 3], dim=1)
    return a + 1, b.sin(), s[0].cos()


@nested(lambda: [randn(2, 12)])
def cut_twice_in_two_ways(x):
    s = torch.split(x, [4, 8], dim=1)
    a, b = torch.split(s[1], [1, 7], dim=1)
    c, d = torch.split(s[1], [5, 3], dim=1)
    return s[0] + 1, a * 2, b * 3, c * 4, d * 5


@nested(lambda: [randn(2, 12)])
def cut_again_and_summed(x):
    s = torch.split(x, [4, 8], dim=1)
    a, b = torch.split(s[1], [1, 7], dim=1)
    return s[0] + s[1].sum(), a * 2, b * 3


@nested(lambda: [randn(4, 6)])
def cut_again_across(x):
    s = torch.split(x, [2, 4], dim=1)
    a, b = torch.split(s[1], [1, 3], dim=0)
    return s[0], a * 2, b * 3


@nested(lambda: [randn(4, 4)])
def cut_again_across_a_square(x):
    s = torch.split(x, [1, 3], dim=1)
    a, b, c = torch.split(s[1], [1, 1, 2], dim=0)
    return s[0].sin(), torch.cat([a, b, c], dim=0).cos()


@nested(lambda: [randn(2, 9)], fires=("merge_splits_pass",))
def remainders_within_remainders(x):
    s = torch.split(x, 5, dim=1)
    a, b = torch.chunk(s[0], 2, dim=1)
    c, d, e = (*s[1].split(2, 1), x[:, :1])
    return a + 1, b + 2, c.sin(), d.cos(), e


@nested(lambda: [randn(2, 9)], fires=("merge_splits_pass",))
def empty_sections_within(x):
    s = torch.split(x, [4, 0, 5], dim=1)
    a, b, c = torch.split(s[2], [0, 5, 0], dim=1)
    return s[0] + 1, s[1], a, b.sin(), c


@nested(lambda: [randn(2, 9)], fires=("merge_splits_pass", "mutate_cat_pass"))
def inner_pieces_put_back(x):
    s = torch.split(x, [4, 5], dim=1)
    t = torch.split(s[1], [2, 3], dim=1)
    return torch.cat([s[0], t[0], t[1]], dim=1).exp()


@nested(lambda: [randn(2, 9)], fires=("mutate_cat_pass",))
def joined_then_cut_again(x):
    a, b, c = torch.split(x, [2, 3, 4], dim=1)
    d, e = torch.split(torch.cat([a, b, c], dim=1), [5, 4], dim=1)
    return torch.cat([d, e], dim=1).sin(), d.exp()


@nested(lambda: [randn(2, 16)], fires=("merge_splits_pass",))
def halves_of_halves_of_halves(x):
    def halves(t, depth):
        return [t * depth] if depth == 0 else [p + depth for s in t.chunk(2, 1) for p in halves(s, depth - 1)]

    return tuple(halves(x, 3))


@nested(lambda: [randn(2, 16)], fires=("merge_splits_pass",))
def cut_off_one_after_the_other(x):
    out = []
    for size in (3, 5, 2, 4):
        head, x = torch.split(x, [size, x.shape[1] - size], dim=1)
        out.append(head * size)
    return (*out, x)


@nested(lambda: [randn(3, 4, 5)], fires=("mutate_cat_pass",))
def unbound_piece(x):
    a, b = torch.split(x, [1, 2])
    c, d = torch.unbind(b)
    return torch.cat([a, torch.stack([c, d])]).sin(), torch.cat(torch.split(x, [1, 2])).cos()


stacked = kind("pieces of a split stacked")


@stacked(lambda: [randn(2, 12)], fires=("split_cat_pass",))
def stacked_at_the_end(x):
    """https://github.com/pytorch/pytorch/issues/121227 A negative dimension of a stack counts in the result."""
    return torch.tanh(torch.stack(torch.split(x, [4, 4, 4], dim=-1), dim=-1))


@stacked(lambda: [randn(2, 3, 6)], fires=("split_cat_pass",))
def cut_last_stacked_first(x):
    """Two dimensions apart: a swap is not a move."""
    return torch.stack(torch.split(x, 2, dim=2), dim=0) + 1


@stacked(lambda: [randn(6, 2, 3)], fires=("split_cat_pass",))
def cut_first_stacked_last(x):
    return torch.stack(torch.split(x, 2, dim=0), dim=3) + 1


@stacked(lambda: [randn(2, 6, 3)], fires=("split_cat_pass",))
def stacked_where_cut(x):
    return torch.stack(torch.split(x, 2, dim=1), dim=1) + 1


@stacked(lambda: [randn(2, 2, 2, 2)], fires=("split_cat_pass",))
def stacked_everywhere(x):
    """All pairs of dimensions of a hypercube, in which shapes hide mistakes."""
    joined = [torch.stack(torch.split(x, 1, d), e).flatten() for d in range(4) for e in range(-5, 5)]
    return torch.stack([j * (i + 1) for i, j in enumerate(joined)])


@stacked(lambda: [randn(2, 8, 3)])
def stacked_out_of_order(x):
    p = torch.split(x, 2, 1)
    return torch.stack([p[1], p[0], p[2], p[3]], 2).sin()


@stacked(lambda: [randn(2, 8, 3)], fires=("split_cat_pass",))
def part_stacked(x):
    p = torch.split(x, 2, 1)
    return torch.stack(p[1:3], 3).sin(), p[0] + p[3]


@stacked(lambda: [randn(2, 4, 3), randn(2, 2, 3)], fires=("split_cat_pass",))
def stacked_with_a_stranger_between(x, y):
    a, b = torch.split(x, 2, 1)
    return torch.stack([a, y, b], 2).sin(), torch.stack([y, a, b, y], 2).cos()


@stacked(lambda: many(2, 2, 4, 3))
def two_splits_of_other_dims_stacked(x, y):
    a, b = torch.split(x, 2, 1)
    c, d = torch.split(y.transpose(0, 1), 2, 0)
    return torch.stack([a, b, c.transpose(0, 1), d.transpose(0, 1)], 1).sin()


@stacked(lambda: [randn(3, 5)], fires=("split_cat_pass",))
def unit_pieces_stacked(x):
    return torch.stack(torch.split(x, 1, 1)).sin(), torch.stack(torch.split(x, 1, 0), dim=-1).cos()


reshaped = kind("operators between cut and join")


@reshaped(lambda: [randn(3, 16, 5)])
def flattened_pieces(x):
    """https://github.com/pytorch/pytorch/issues/178676 Sections of unequal width, each flattened."""
    parts = torch.split(x, [8, 4, 4], dim=1)
    return torch.cat([p.reshape(p.shape[0], -1) for p in parts], dim=1).relu()


@reshaped(lambda: [randn(4, 6)])
def reshaped_then_stacked(x):
    return torch.stack([p.reshape(2, 4) for p in torch.split(x, 2, dim=1)], dim=0) + 1


@reshaped(lambda: [randn(4, 6)])
def reshaped_then_stacked_elsewhere(x):
    p = torch.split(x, 2, dim=1)
    return torch.stack([t.reshape(8) for t in p], dim=1) + 1, torch.stack([t.reshape(2, 2, 2) for t in p], dim=3).sin()


@reshaped(lambda: [randn(6, 4), randn(2, 4)])
def reshaped_beside_a_stranger(x, y):
    a, b, c = torch.split(x, 2)
    return torch.stack([a.reshape(4, 2), y.reshape(4, 2), b.reshape(4, 2), c.reshape(4, 2)]).sin()


@reshaped(lambda: [randn(2, 3)])
def unit_pieces_reshaped(x):
    return torch.stack([p.reshape(2) for p in torch.split(x, 1, dim=1)], dim=1) * 2


@reshaped(lambda: [randn(3, 4, 1)])
def unit_pieces_squeezed(x):
    p = torch.split(x, 1, dim=1)
    return torch.stack([t.squeeze(1) for t in p], dim=0).sin(), torch.cat([t.squeeze(-1) for t in p], dim=1).cos()


@reshaped(lambda: [randn(1, 4, 1)])
def unit_pieces_squeezed_altogether(x):
    """Without a dimension, ``squeeze`` drops all of extent 1."""
    return torch.stack([t.squeeze() for t in torch.split(x, 1, dim=1)]).sin()


@reshaped(lambda: [randn(3, 4)])
def squeezed_in_different_dims(x):
    a, b, c, d = torch.split(x, 1, dim=1)
    return torch.stack([a.squeeze(1), b.squeeze(), c.squeeze(-1), d.squeeze(0)[:, 0]]).sin()


@reshaped(lambda: [randn(4, 6)])
def transposed_pieces(x):
    return torch.cat([p.t() for p in torch.split(x, 2, dim=1)], dim=0) + 1, torch.stack([p.t() for p in torch.split(x, 2)], dim=1)


@reshaped(lambda: [randn(4, 6)])
def one_piece_changed(x):
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([a, b + 0, c], dim=1), torch.cat([a, b, c.neg()], dim=1)


types = kind("promotion in joins")


@types(lambda: [randn(3), randn(2, dtype=torch.float16), ints(4, dtype=torch.int32)])
def three_types(a, b, c):
    """https://github.com/pytorch/torchdynamo/issues/1592 float32, and each gradient in its own type."""
    return torch.cat([a, b, c], dim=0)


@types(lambda: [ints(3, 4, low=2**24, high=2**25), randn(3, 2, dtype=torch.float16), randn(3, 2)], fires=("split_cat_pass",))
def whole_numbers_with_floats(x, h, y):
    """Straight to float32: by way of float16 the whole numbers overflow."""
    a, b = torch.split(x, 2, dim=1)
    return torch.cat([a, b, h, y], dim=1), torch.cat([h, a, b, y], dim=1)


@types(lambda: [ints(3, 4, low=2**24, high=2**25), randn(3, 2, dtype=torch.float16), randn(3, 2)])
def whole_numbers_with_floats_elsewhere(x, h, y):
    a, b = torch.split(x, 2, dim=1)
    return torch.cat([h, a, b, y], dim=0), torch.cat([a, b, h, h, y], dim=0)


@types(lambda: [ints(3, 4, low=2**24, high=2**25), randn(3, 2, dtype=torch.float16), randn(3, 2)])
def whole_numbers_stacked_with_floats(x, h, y):
    a, b = torch.split(x, 2, dim=1)
    return torch.stack([a, b, h, y], dim=1), torch.stack([h, y, a, b], dim=0)


@types(lambda: [randn(3, 4, dtype=torch.bfloat16), randn(3, 2, dtype=torch.float16)])
def two_halves_make_a_single(x, h):
    a, b = torch.split(x, 2, dim=1)
    return torch.cat([a, b, h], dim=1), torch.cat([a, h, b], dim=0)


@types(lambda: [ints(3, 4, dtype=torch.int8), randn(3, 4) > 0], fires=("split_cat_pass",))
def flags_and_bytes(x, flags):
    a, b = torch.split(x, 2, dim=1)
    c, d = torch.split(flags, 2, dim=1)
    return torch.cat([a, b, c, d], dim=1), torch.cat([c, d], dim=1)


@types(lambda: [torch.complex(randn(3, 4), randn(3, 4)), randn(3, 2)], grad=False)
def complex_and_real(x, y):
    a, b = torch.split(x, 2, dim=1)
    return torch.cat([a, b, y], dim=1), torch.cat([a, b], dim=1).conj() * 2


@types(lambda: [randn(3, 6, dtype=torch.float64)], fires=("mutate_cat_pass",))
def doubles(x):
    return torch.cat(torch.split(x, 2, dim=1), dim=1) + torch.tensor(0.1)


@types(lambda: [randn(4, 6, dtype=torch.bfloat16)], fires=("split_cat_pass",))
def sunk_through_a_promoting_join(x):
    """The function runs before the promotion, in the narrow type."""
    a, b, c = torch.split(x, 2, dim=1)
    return torch.cat([torch.tanh(a), torch.tanh(b), torch.tanh(c.float())], dim=1), torch.cat([a, b, c], dim=1).float()


@types(lambda: [randn(4, 3, dtype=torch.float16), randn(4, 3)])
def function_of_a_promoting_join(h, y):
    """The function runs after the promotion, in the wide type."""
    return torch.tanh(torch.cat([h, y], dim=1)), torch.sigmoid(torch.cat([h.exp(), y], dim=0)), torch.relu(torch.cat([h, y])) / 3
