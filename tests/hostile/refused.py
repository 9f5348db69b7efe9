"""Programs that eager refuses; a rewrite must not make them succeed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import ints, kind, many, randn, trained

refused = kind("programs that eager refuses", refused=True, grad=False, dynamic=False)


@refused(lambda: [randn(1, 5)])
def sections_that_do_not_add_up(x):
    """https://github.com/pytorch/pytorch/issues/99686"""
    a, b = torch.split(x, [2, 2], dim=1)
    return torch.cat([a, b], dim=1)


@refused(lambda: [randn(2, 3, 4, dtype=torch.float16), randn(2, 4, 5)])
def product_of_two_types(a, b):
    """https://github.com/pytorch/pytorch/issues/177630"""
    return torch.matmul(a, b)


@refused(lambda: [*many(3, 3, 4), *many(2, 5, 4), randn(5, 4, dtype=torch.float64)])
def one_linear_of_two_types(a, b, c, u, v, w):
    return F.linear(a, u), F.linear(b, v), F.linear(c, w)


@refused(lambda: [*many(3, 3, 4), *many(2, 5, 4), randn(5, 3)])
def one_linear_of_unequal_extents(a, b, c, u, v, w):
    return F.linear(a, u), F.linear(b, v), F.linear(c, w)


@refused(lambda: [*many(2, 3, 4), *many(2, 5, 4), randn(5), randn(3)])
def one_bias_of_a_wrong_length(a, b, u, v, p, q):
    return F.linear(a, u, p), F.linear(b, v, q)


@refused(lambda: [randn(3, 6), randn(4, 2)])
def stranger_of_another_height(x, y):
    a, b, c = torch.split(x, 2, 1)
    return torch.cat([a, b, c, y], 1)


@refused(lambda: [randn(3, 6), randn(3, 3)])
def stranger_of_another_width_stacked(x, y):
    return torch.stack([*torch.split(x, 2, 1), y])


@refused(lambda: [randn(3, 10)])
def uneven_pieces_stacked(x):
    return torch.stack(torch.split(x, 4, 1))


@refused(lambda: [randn(3, 4)])
def uneven_pieces_joined_elsewhere(x):
    a, b = torch.split(x, [1, 3], 1)
    return torch.cat([a, b], 0)


@refused(lambda: [randn(3, 6)])
def piece_that_is_not_there(x):
    p = torch.split(x, 2, 1)
    return torch.cat([p[0], p[1], p[3]], 1)


@refused(lambda: [randn(3, 6)])
def dimension_that_is_not_there(x):
    return torch.cat(torch.split(x, 2, 1), 2)


@refused(lambda: [randn(3, 6)])
def stacked_beyond_the_last_dimension(x):
    return torch.stack(torch.unbind(x), 2)


@refused(lambda: [randn(3, 6)])
def dimension_below_the_first(x):
    return torch.cat(torch.split(x, 2, -1), -3)


@refused(lambda: [randn(3, 6)])
def negative_section(x):
    return torch.cat(torch.split(x, [7, -1], 1), 1)


@refused(lambda: [randn(3, 6)])
def sections_of_no_size(x):
    return torch.cat(torch.split(x, 0, 1), 1)


@refused(lambda: [randn()])
def number_cut_up(x):
    return torch.cat(torch.split(x, 1))


@refused(lambda: [randn(3, 4)])
def nothing_joined(x):
    return torch.cat([p for p in torch.split(x, 2, 1) if p.shape[0] > 3])


@refused(lambda: [randn(0, 4)])
def no_slices_stacked(x):
    return torch.stack(torch.unbind(x))


@refused(lambda: [randn(2, 3, 4)])
def view_of_a_turned_tensor(x):
    return x.transpose(0, 1).view(-1), torch.stack(torch.unbind(x, 1))


@refused(lambda: [randn(4, 6)])
def view_of_a_piece(x):
    a, b = torch.split(x, 3, 1)
    return a.view(12), torch.cat([a, b], 1)


@refused(lambda: many(2, 3, 4))
def clamp_without_bounds(x, y):
    return torch.clamp(x) + torch.clamp(y, 0)


@refused(lambda: [randn(3, 4), ints(3, 4)])
def result_that_does_not_fit_the_buffer(x, out):
    return torch.tanh(x, out=out)


@refused(lambda: [trained(randn(3, 4))])
def trained_input_written(x):
    y = torch.tanh(x)
    x.add_(1)
    return y, torch.tanh(x)


@refused(lambda: [ints(3, 4), ints(3, 4)])
def whole_numbers_divided_in_place(x, y):
    x.div_(2)
    return torch.tanh(x), torch.tanh(y)


@refused(lambda: [randn(3, 4)])
def one_place_written_several_times(x):
    y = x[:1].expand(3, 4)
    y.add_(1)
    return torch.cat(torch.split(y, 2, 1), 1)


@refused(lambda: [randn(3, 6)])
def pieces_counted_wrongly(x):
    a, b = torch.split(x, 2, 1)
    return torch.cat([a, b], 1)


@refused(lambda: [randn(3, 6)])
def squeezed_dimension_that_is_not_there(x):
    return torch.stack([p.squeeze(2) for p in torch.split(x, 1, 1)])


@refused(lambda: [randn(4, 6)])
def reshaped_to_another_count(x):
    return torch.cat([p.reshape(3, 3) for p in torch.split(x, 2, 1)])


@refused(lambda: [trained(randn(3, 6))])
def piece_written_in_training(x):
    """A piece is one of several views, and none of them may be written."""
    y = x * 1
    a, b, c = torch.split(y, 2, 1)
    a.mul_(2)
    return torch.cat([a, b, c], 1)


@refused(lambda: [trained(randn(3, 6))])
def source_written_before_its_pieces_are_read(x):
    y = x * 1
    a, b, c = torch.split(y, 2, 1)
    y.narrow(1, 1, 2).fill_(9)
    return torch.cat([a, b, c], 1).sin()


@refused(lambda: [trained(randn(3, 6))])
def slice_written_in_training(x):
    a, b, c = torch.unbind(x * 1)
    b.add_(1)
    return torch.stack([a, b, c])
