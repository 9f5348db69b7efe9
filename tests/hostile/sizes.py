"""Sizes that are symbols: computed, equal by chance, other the second time, taken from values."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import kind, many, randn

sizes = kind("symbolic sizes")


@sizes(lambda: [randn(6, 4)], other=lambda: [randn(10, 3)], fires=("mutate_cat_pass",))
def sizes_computed_in_the_program(x):
    """Sections by symbols: nothing may be fixed at what it was the first time."""
    n = x.shape[0]
    a, b = torch.split(x, [n // 2, n - n // 2])
    return torch.cat([a, b]) * 2, torch.cat([b, a]), torch.cat(torch.split(x, [1, n - 1])).sin()


@sizes(lambda: [randn(6, 4)], other=lambda: [randn(8, 6)], fires=("split_cat_pass",))
def halves_of_any_size(x):
    a, b = x.chunk(2, 1)
    c, d = torch.split(x, x.shape[0] // 2)
    return torch.cat([a, b], 1).sin(), torch.stack([a, b]), torch.cat([c, d], 1), torch.cat([c, d]).cos()


@sizes(lambda: [randn(4, 6), randn(4, 3)], other=lambda: [randn(6, 10), randn(6, 5)])
def sizes_that_happen_to_agree(x, y):
    a, b = x.split(x.shape[1] // 2, 1)
    return torch.stack([a, b, y]), torch.cat([a, b, y], 0), torch.cat([a, y, b], 1)


@sizes(lambda: [*many(4, 3, 3), *many(4, 3, 3)], other=lambda: [*many(2, 5, 4), *many(2, 6, 4), *many(4, 7, 4)], fires=("batch_linear",))
def equal_by_chance(*t):
    """Members that are of one shape the first time, and not the second."""
    return tuple(F.linear(t[i], t[4 + i]) for i in range(4)), tuple(torch.tanh(x) for x in t[:4])


@sizes(lambda: [*many(3, 4, 3), *many(3, 5, 3)], other=lambda: [*many(3, 7, 6), *many(3, 2, 6)], fires=("batch_linear", "batch_tanh"))
def sizes_that_follow_from_one_another(a, b, c, u, v, w):
    n = a.shape[0]
    xs = [t[:n] + a for t in (a, b, c)]
    return torch.cat([torch.tanh(F.linear(x, y + u)) for x, y in zip(xs, (u, v, w), strict=True)], 1)


@sizes(lambda: [randn(2, 3, 4)], other=lambda: [randn(2, 5, 2)], fires=("unbind_stack_pass",))
def slices_of_any_size(x):
    a, b = torch.unbind(x)
    return torch.stack([a, b], 2).sin(), torch.cat([a, b], 1).cos(), torch.stack([torch.tanh(a), torch.tanh(b)])


@sizes(lambda: [randn(2, 12)], other=lambda: [randn(5, 16)], fires=("merge_splits_pass",))
def nested_cuts_of_any_size(x):
    k = x.shape[1] // 4
    s = torch.split(x, [k, x.shape[1] - k], 1)
    a, b = torch.split(s[1], [k, x.shape[1] - 2 * k], 1)
    return s[0] + 1, a * 2, b.sin()


@sizes(lambda: [randn(4, 6)], other=lambda: [randn(1, 6)])
def second_call_with_one_row(x):
    return torch.cat(torch.split(x, 2, 1), 0).view(-1), torch.stack(torch.unbind(x, 1)), torch.tanh(x[:, :3]) + torch.tanh(x[:, 3:])


@sizes(lambda: [randn(4, 6)], other=lambda: [randn(0, 6)])
def second_call_with_no_rows(x):
    return torch.cat(torch.split(x, 2, 1), 0), torch.stack(torch.unbind(x, 1), 1) * 2, torch.tanh(x[:, :3]) + torch.tanh(x[:, 3:])


@sizes(lambda: [randn(6, 4)], other=lambda: [randn(7, 5)])
def remainders_of_any_size(x):
    p = torch.split(x, 4)
    return torch.cat(p).sin(), torch.cat([p[1], p[0]]), torch.cat(torch.chunk(x, 2, 1), 1).cos()


@sizes(lambda: [randn(4, 6), randn(4, 6)], other=lambda: [randn(5, 8), randn(5, 8)], fires=("batch_tanh",))
def members_of_computed_sizes(x, y):
    half = x.shape[1] // 2
    return torch.tanh(x[:, :half]) + torch.tanh(y[:, half:]), torch.tanh(x.reshape(-1)).view(x.shape) * torch.tanh(y)


@sizes(lambda: [randn(2, 3, 4), randn(5, 4), randn(5, 4)], other=lambda: [randn(2, 6, 3), randn(7, 3), randn(7, 3)], fires=("batch_linear",))
def projections_of_any_size(x, u, v):
    a, b = torch.unbind(x)
    return torch.cat([F.linear(a, u), F.linear(b, v)], 1).view(-1), F.linear(x, u), F.linear(x, v)


def unbacked(given: torch.Tensor, *dims: int) -> torch.Tensor:
    """``given`` with dimensions of which nothing is assumed, not even that they are neither 0 nor 1."""
    for dim in dims:
        torch._dynamo.decorators.mark_unbacked(given, dim)
    return given


@sizes(lambda: [unbacked(randn(4, 6), 0)], other=lambda: [unbacked(randn(1, 6), 0)], fires=("split_cat_pass", "unbind_stack_pass"))
def one_row_without_another_graph(x):
    return torch.cat(torch.split(x, 2, 1), 0) * 2, torch.stack(torch.unbind(x, 1)), torch.cat(torch.unbind(x, 1), 0)


@sizes(lambda: [unbacked(randn(4, 6), 0)], other=lambda: [unbacked(randn(0, 6), 0)], fires=("batch_tanh",))
def no_row_without_another_graph(x):
    return torch.cat(torch.split(x, 2, 1), 0) * 2, torch.stack(torch.unbind(x, 1)), torch.tanh(x[:, :3]) + torch.tanh(x[:, 3:])


@sizes(lambda: [unbacked(t, 0) for t in many(2, 4, 6)], other=lambda: [unbacked(t, 0) for t in many(2, 1, 6)])
def one_row_viewed_without_another_graph(x, y):
    return torch.stack(torch.unbind(x, 1)).view(-1), torch.tanh(x), torch.tanh(y), torch.tanh(x.t()), torch.tanh(y.t())


@sizes(lambda: [unbacked(randn(6, 4), 1)], other=lambda: [unbacked(randn(6, 1), 1)])
def one_column_reinterpreted_without_another_graph(x):
    y = torch.stack(torch.unbind(x, 0), 1)
    return y.view(-1), y.view(torch.int32)


data = kind("sizes from values", capture=True, dynamic=False)


@data(lambda: [randn(9, 2), torch.tensor([6, 3])], other=lambda: [randn(9, 2), torch.tensor([2, 7])], fires=("mutate_cat_pass",))
def two_sections_from_values(x, counts):
    """https://github.com/pytorch/pytorch/issues/117268 Exact at run time, unknown before."""
    a, b = counts.tolist()
    left, right = torch.split(x, [a, b])
    return torch.cat([left, right]) * 2, torch.cat([right, left]), left.sum(0), right * 2


@data(lambda: [randn(9, 2), torch.tensor([6, 2, 1])], other=lambda: [randn(9, 2), torch.tensor([0, 4, 5])], fires=("merge_getitem_cat_pass",))
def run_of_sections_from_values(x, counts):
    a, b, c = counts.tolist()
    p, q, r = torch.split(x, [a, b, c])
    return torch.cat([p, q]).sin(), r + 1


@data(lambda: [randn(9, 2), torch.tensor([6, 3])])
def section_from_values_cut_again(x, counts):
    a, b = counts.tolist()
    left, right = torch.split(x, [a, b])
    first, rest = torch.split(left, [1, a - 1])
    return first + 1, rest * 2, right + 3


@data(lambda: [randn(9, 4), torch.tensor([6, 3])], fires=("batch_tanh",))
def members_of_sizes_from_values(x, counts):
    a, b = counts.tolist()
    left, right = torch.split(x, [a, b])
    return torch.tanh(left), torch.tanh(right), torch.tanh(left * 2), torch.tanh(right + 1)


@data(lambda: [randn(9, 4), torch.tensor([5, 5])])
def equal_by_value_only(x, counts):
    """Nothing says that both sections are of one size."""
    a, b = counts.tolist()
    return torch.tanh(x[:a]), torch.tanh(x[:b]), torch.cat([x[:a], x[:b]])


@data(lambda: [randn(2, 3, 4)])
def number_read_from_a_stack(x):
    y = torch.stack(torch.unbind(x, 1))
    return y * y.argmax().item()


@data(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def elements_chosen_from_a_stack(x):
    """The reader makes a new size; who runs it twice makes two."""
    y = torch.stack(torch.unbind(x, 1))
    return y[y > 0] * 2


@data(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def places_found_in_a_stack(x):
    y = torch.stack(torch.unbind(x, 1))
    return torch.nonzero(y.detach() > 0), y.sum()


@data(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def distinct_values_of_a_stack(x):
    y = torch.stack(torch.unbind(x, 1))
    return torch.unique(y.detach().sign()), torch.masked_select(y, y > 0)


@data(lambda: [randn(4, 6)], fires=("split_cat_pass",))
def elements_chosen_from_a_join(x):
    y = torch.cat(torch.split(x, 2, 1), 0)
    return y[y > 0].sin(), y.flatten()[y.flatten().argmax().item() :]
