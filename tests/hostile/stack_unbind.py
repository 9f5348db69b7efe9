"""Slices of one tensor, stacked or put side by side."""

from __future__ import annotations

import torch

from tests.hostile.registry import ints, kind, many, randn

dims = kind("slices joined along another dimension")


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",))
def stacked_where_unbound(x):
    return torch.stack(torch.unbind(x, 0), dim=0) + 1


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",), other=lambda: [randn(3, 5, 7)], inductor=True)
def unbound_first_stacked_second(x):
    return torch.stack(torch.unbind(x, 0), dim=1) + 1


@dims(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def unbound_second_stacked_first(x):
    return torch.stack(torch.unbind(x, 1), dim=0) + 1


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",))
def unbound_first_stacked_last(x):
    return torch.stack(torch.unbind(x, 0), dim=2) + 1


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",), bare=True)
def unbound_last_stacked_first(x):
    return torch.stack(x.unbind(-1)) + 1, torch.stack(x.unbind(dim=-1), dim=-3) * 2


@dims(lambda: [randn(3)], fires=("unbind_stack_pass",))
def numbers_stacked(x):
    return torch.stack(torch.unbind(x, 0), dim=0) + 1, torch.stack(torch.unbind(x), dim=-1) * 2


@dims(lambda: [randn(3, 2, 4, 5)], fires=("unbind_stack_pass",), inductor=True)
def unbound_first_side_by_side_third(x):
    """Two dimensions apart: a swap is not a move."""
    return torch.cat(torch.unbind(x, 0), dim=2) + 1


@dims(lambda: [randn(2, 4, 3)], fires=("unbind_stack_pass",))
def unbound_last_side_by_side_first(x):
    return torch.cat(torch.unbind(x, 2), dim=0) + 1


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",))
def unbound_first_side_by_side_second(x):
    return torch.cat(torch.unbind(x, 0), dim=1) + 1


@dims(lambda: [randn(3, 2, 4)], fires=("unbind_stack_pass",), bare=True)
def unbound_from_the_back_side_by_side(x):
    return torch.cat(x.unbind(-2), -1) + 1, torch.cat(x.unbind(axis=-1), axis=-2) * 2


@dims(lambda: [randn(2, 2, 2)], fires=("unbind_stack_pass",))
def every_pair_of_dims(x):
    """Shapes of a cube hide mistakes; values do not."""
    stacks = [torch.stack(torch.unbind(x, d), e).flatten() for d in range(3) for e in range(-3, 3)]
    cats = [torch.cat(torch.unbind(x, d), e).flatten() for d in range(3) for e in range(-2, 2)]
    return torch.stack([t * (i + 1) for i, t in enumerate([*stacks, *cats])])


@dims(lambda: [randn(3, 2, 4)])
def given_a_dimension_then_joined(x):
    """Joined along the new dimension, and along another one."""
    fresh = torch.cat([s.unsqueeze(0) for s in torch.unbind(x)], dim=0)
    wide = torch.cat([s.unsqueeze(1) for s in torch.unbind(x)], dim=0)
    return fresh + 1, wide * 2, torch.cat([s.unsqueeze(-1) for s in torch.unbind(x)], dim=-1).sin()


order = kind("order and number of slices")


@order(lambda: [randn(3, 2, 4)])
def slices_swapped(x):
    a = torch.unbind(x, 0)
    return torch.stack([a[1], a[0], a[2]], dim=0) + 1


@order(lambda: [randn(3, 2, 4)])
def slices_swapped_side_by_side(x):
    a = torch.unbind(x, 0)
    return torch.cat([a[1], a[0], a[2]], dim=0) + 1


@order(lambda: [randn(4, 3)])
def reversed_with_one_twice(x):
    """https://github.com/pytorch/pytorch/issues/121228"""
    s = torch.unbind(x, dim=-1)
    return torch.stack([s[2], s[1], s[0], s[1]], dim=-1)


@order(lambda: [randn(4, 3)], fires=("unbind_stack_pass",))
def all_slices_twice_over(x):
    s = torch.unbind(x)
    return torch.stack([*s, *s]).sin(), torch.cat([*s, *s]).cos()


@order(lambda: [randn(4, 3)])
def some_slices(x):
    s = torch.unbind(x)
    return torch.stack(s[:3]).sin(), torch.stack(s[1:], 1).cos(), torch.cat(s[::2])


@order(lambda: [randn(4, 3)])
def slices_from_the_back(x):
    s = x.unbind()
    return torch.stack([s[-1], s[-2], s[-3], s[-4]]), torch.stack([s[-4], s[-3], s[-2], s[-1]]).sin()


@order(lambda: many(2, 2, 3))
def last_slice_of_another(x, y):
    a, b = torch.unbind(x), torch.unbind(y)
    return torch.stack([a[0], b[1]]) + 1, torch.cat([b[0], a[1]])


@order(lambda: many(2, 2, 3), fires=("unbind_stack_pass",))
def two_tensors_one_after_the_other(x, y):
    return torch.stack([*torch.unbind(x), *torch.unbind(y)], dim=1).sin(), torch.cat([*y.unbind(), *x.unbind()]).cos()


@order(lambda: many(2, 3, 3), fires=("unbind_stack_pass",))
def two_tensors_of_other_dims(x, y):
    return torch.stack([*torch.unbind(x, 0), *torch.unbind(y, 1)], dim=1).sin()


@order(lambda: [randn(2, 3), randn(3)], fires=("unbind_stack_pass",))
def strangers_around_slices(x, y):
    a, b = torch.unbind(x)
    return torch.stack([y, a, b, y]).sin(), torch.cat([y, a, b]).cos(), torch.stack([a, y, b])


@order(lambda: [randn(2, 3), randn(7)], fires=("unbind_stack_pass",))
def longer_stranger_beside_slices(x, y):
    a, b = torch.unbind(x)
    return torch.cat([a, b, y]).cos()


@order(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def slices_also_used_alone(x):
    a, b = torch.unbind(x)
    return torch.stack([a, b], 1).sin(), a * 2, b.sum(), torch.stack([a, b], 2).cos()


@order(lambda: [randn(3, 4)])
def changed_then_stacked(x):
    """https://github.com/pytorch/pytorch/pull/103794 The rewritten graph must stand in order."""
    return torch.stack([torch.sin(s) for s in torch.unbind(x, dim=0)])


@order(lambda: [randn(3, 4)])
def one_slice_changed(x):
    a, b, c = torch.unbind(x)
    return torch.stack([a, b + 0, c]), torch.stack([a, b, c.detach()])


@order(lambda: [randn(3, 4)])
def rows_by_index(x):
    return torch.stack([x[0], x[1], x[2]]) + 1, torch.stack([x[2], x[0], x[1]]), torch.stack([x[:, i] for i in range(4)], dim=1)


@order(lambda: [randn(3, 4)])
def selected_rows(x):
    return torch.stack([x.select(0, i) for i in (0, 1, 2)]), torch.cat([x.select(1, i) for i in (-1, 0, 1, 2)])


@order(lambda: [randn(3, 4)], fires=("unbind_stack_pass",))
def there_and_back_again(x):
    once = torch.stack(torch.unbind(x, 0), 0)
    return torch.stack(torch.unbind(once, 1), 1).sin()


@order(lambda: many(3, 4))
def stacked_then_unbound(a, b, c):
    p, q, r = torch.unbind(torch.stack([a, b, c]))
    s, t = torch.unbind(torch.stack([a, b], dim=-1), dim=-1)
    return p + 1, q * 2, r, s, t


extreme = kind("single and empty slices")


@extreme(lambda: [randn(1, 3)])
def single_slice(x):
    (only,) = torch.unbind(x)
    return torch.stack([only]), torch.stack([only], dim=1), torch.cat([only])


@extreme(lambda: [randn(3, 0)])
def empty_slices(x):
    return torch.stack(torch.unbind(x)), torch.stack(torch.unbind(x), 1) + 1, torch.cat(torch.unbind(x))


@extreme(lambda: [randn(2, 0, 3)])
def empty_slices_side_by_side(x):
    return torch.cat(torch.unbind(x), 1).sin(), torch.cat(torch.unbind(x, 2), 0)


@extreme(lambda: [randn(2, 3), torch.empty(0)])
def empty_vector_among_slices(x, e):
    a, b = torch.unbind(x)
    return torch.cat([a, e, b]), torch.cat([e, a, b]) * 2


@extreme(lambda: [randn(1, 1, 1)])
def units_in_all_dims(x):
    return torch.stack(torch.unbind(x, 1), 2), torch.cat(torch.unbind(x, 0), 1) * 2


types = kind("promotion in stacks")


@types(lambda: [ints(2, 3, low=2**24, high=2**25), randn(3, dtype=torch.float16), randn(3)])
def whole_slices_with_floats(x, h, y):
    a, b = torch.unbind(x)
    return torch.stack([a, b, h, y]), torch.stack([h, y, a, b], dim=1), torch.cat([h, a, b, y])


@types(lambda: [randn(2, 3, dtype=torch.bfloat16), randn(3, dtype=torch.float16)])
def half_slices_with_another_half(x, h):
    a, b = torch.unbind(x)
    return torch.stack([a, b, h]), torch.cat([h, a, b])


@types(lambda: [ints(2, 3), randn(2, 3) > 0], fires=("unbind_stack_pass",))
def whole_numbers_and_flags(x, flags):
    return torch.stack(x.unbind(), 1), torch.cat(flags.unbind()), torch.stack([*x.unbind(), *flags.unbind()])


@types(lambda: [torch.complex(randn(2, 3), randn(2, 3))], grad=False, fires=("unbind_stack_pass",))
def complex_slices(x):
    return torch.stack(torch.unbind(x), 1) * 2, torch.stack(torch.unbind(x.conj()), 1), torch.stack(torch.unbind(torch.view_as_real(x), 2), 1)
