"""Parts that are taken one by one: sections by ``narrow`` and index, slices by ``select`` and index; joins that are called by a direction."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import kind, many, randn

parts = kind("parts taken one by one")
NORMAL = ("normalization_pass",)


@parts(lambda: [randn(3, 6)], fires=(*NORMAL, "mutate_cat_pass"), inductor=True)
def all_sections(x):
    return torch.cat([x[:, :2], x.narrow(1, 2, 1), x[..., 3:]], 1) * 2


@parts(lambda: [randn(3, 2, 4)], fires=(*NORMAL, "unbind_stack_pass"), inductor=True)
def all_slices(x):
    return torch.stack([x[:, 0], x.select(1, -1)]) * 2, torch.cat([x[0], x[1], x[2]]) * 3


@parts(lambda: [randn(3, 6)])
def in_another_order(x):
    return torch.cat([x[:, 4:], x[:, :2], x[:, 2:4]], 1) * 2


@parts(lambda: [randn(3, 6)])
def overlapping(x):
    return torch.cat([x[:, :3], x[:, 2:4], x[:, 3:]], 1) * 2


@parts(lambda: [randn(3, 6)])
def one_begins_where_two_end(x):
    return torch.cat([x[:, :2], x[:, :4], x[:, 2:], x[:, 4:]], 1) * 2


@parts(lambda: [randn(3, 6)])
def something_left_out(x):
    return torch.cat([x[:, :2], x[:, 3:]], 1) * 2, torch.cat([x[:, 1:2], x[:, 2:6]], 1) * 3


@parts(lambda: [randn(3, 6)], fires=NORMAL)
def some_are_empty(x):
    return torch.cat([x[:, :0], x[:, :2], x[:, 2:2], x[:, 2:], x[:, 9:]], 1) * 2


@parts(lambda: [randn(3, 6)])
def with_a_dimension_more(x):
    v, w = x[0].sin(), x.cos()
    return v[:, None] * 2, torch.cat([w[None, :2], w[None, 2:]], 1), v[None, :3], torch.cat([w[:2, None], w[2:, None]])


@parts(lambda: [randn(3, 6)])
def by_steps(x):
    return torch.cat([x[:, ::2], x[:, 1::2]], 1) * 2


@parts(lambda: [randn(4, 3, 6)], fires=NORMAL)
def bounds_counted_from_the_end(x):
    return torch.cat([x[:, :, :-4], x[..., -4:-1], x.narrow(-1, -1, 1)], -1) * 2, torch.stack([x[-4], x[1], x[-2], x[3]], 1) * 3


@parts(lambda: [randn(3, 6)])
def along_several_dimensions(x):
    return torch.cat([x[:, :2], x[:, 2:]], 1) * torch.cat([x[:1], x[1:]]), torch.cat([x[:1, :2], x[1:, :2]]) * 2


@parts(lambda: [randn(4, 4)])
def a_slice_and_a_section_of_one(x):
    return torch.cat([x[:1], x[1].unsqueeze(0), x[2:]]) * 2, torch.stack([x[0], x[1], x[2:3].squeeze(0), x[3]]) * 3


@parts(lambda: [randn(3, 6), torch.tensor([0, 1, 2])])
def by_tensors_and_lists(x, at):
    return torch.cat([x[:, at], x[:, 3:]], 1) * 2, torch.cat([x[:, [0, 1]], x[:, 2:]], 1), torch.cat([x[:, None, :2], x[:, None, 2:]], 2) + 1


@parts(lambda: [randn(3, 6)])
def the_source_is_written_between(x):
    y = x * 3
    a = y[:, :2] * 2
    y.mul_(3)
    return torch.cat([a, y[:, 2:]], 1), torch.cat([y[:, :2], y[:, 2:]], 1) * 2


@parts(lambda: [randn(3, 6)])
def a_part_is_written(x):
    y = x * 3
    a, b = y[:, :2], y[:, 2:]
    joined = torch.cat([a, b], 1)
    a.add_(1)
    return joined * 2, y * 3, torch.cat([a, b], 1) * 4


@parts(lambda: [randn(3, 2, 4)])
def a_slice_is_written(x):
    y = x * 3
    a, b = y[:, 0], y.select(1, 1)
    b.add_(a)
    return torch.stack([a, b], 1) * 2, y * 2


@parts(lambda: [randn(3, 6)], fires=NORMAL)
def parts_are_returned(x):
    y = x * 3
    a, b = y[:, :2], y[:, 2:]
    return a, b, torch.cat([a, b], 1) * 2


@parts(lambda: [randn(3, 6)], grad=False)
def inputs_are_returned(x):
    a, b = x[:, :2], x[:, 2:]
    return a, torch.cat([a, b], 1)


@parts(lambda: [randn(3, 6)])
def some_without_gradients(x):
    y = x * 3
    with torch.no_grad():
        a = y[:, :2]
    return torch.cat([a, y[:, 2:]], 1) * 2


@parts(lambda: [randn(3, 6)])
def only_some_reach_the_result(x):
    y = x * 3
    a, b, c = y[:, :2], y[:, 2:4], y[:, 4:]
    return torch.cat([a, b], 1) * 2, torch.cat([b, c], 1).detach()


@parts(lambda: [randn(3, 8)], fires=(*NORMAL, "batch_tanh"), inductor=True)
def between_functions(x):
    return torch.hstack([torch.tanh(x[:, 2 * k : 2 * k + 2]) for k in range(4)]) * 2


@parts(lambda: [randn(4), randn(4)], fires=NORMAL)
def vectors_by_direction(x, y):
    return torch.hstack([x, y]), torch.vstack((x, y)), torch.dstack([x, y]), torch.column_stack([x, y]), torch.row_stack((x, y))


@parts(lambda: [randn(2, 3), randn(2, 3)], fires=NORMAL, inductor=True)
def matrices_by_direction(x, y):
    return torch.hstack([x, y]), torch.vstack((x, y)), torch.dstack([x, y]), torch.column_stack([x, y])


@parts(lambda: [randn(2, 3, 4, 5).to(memory_format=torch.channels_last), randn(2, 3, 4, 5).to(memory_format=torch.channels_last)], fires=NORMAL)
def images_by_direction(x, y):
    return torch.hstack([x, y]), torch.vstack((x, y)), torch.dstack([x, y]), torch.column_stack([x, y])


@parts(lambda: [randn(3), randn(3, 2), randn(1, 3), randn()], grad=False)
def of_unlike_ranks_by_direction(v, m, r, s):
    return (
        torch.vstack([v, r]),
        torch.column_stack([v, m]),
        torch.dstack([v, r]),
        torch.hstack([s, v]),
        torch.vstack([s, s]),
        torch.column_stack([s, s]),
    )


@parts(lambda: [randn(3, 4), randn(6, 4)], grad=False)
def into_a_buffer_by_direction(x, out):
    torch.vstack([x, x], out=out)
    return out * 2


@parts(lambda: [randn(4, 3), *many(4, 2, 3), *many(2, 2)], fires=("batch_linear_lhs",), inductor=True)
def some_have_a_bias(x, *t):
    return torch.stack([F.linear(x, w, b) for w, b in zip(t[:4], (t[4], None, None, t[5]), strict=True)]) * 2


@parts(lambda: [*many(4, 4, 3), *many(4, 2, 3), *many(2, 2)], fires=("batch_linear",), inductor=True)
def some_of_many_have_a_bias(*t):
    return torch.stack([F.linear(x, w, b) for x, w, b in zip(t[:4], t[4:8], (t[8], None, None, t[9].detach()), strict=True)]) * 2


@parts(lambda: [*many(4, 4, 3, dtype=torch.bfloat16), *many(4, 2, 3, dtype=torch.bfloat16), *many(2, 2, dtype=torch.bfloat16)])
def some_have_a_bias_in_half_precision(*t):
    return torch.stack([F.linear(x, w, b) for x, w, b in zip(t[:4], t[4:8], (t[8], None, None, t[9]), strict=True)]) * 2


@parts(lambda: [randn(4, 20)], fires=(*NORMAL, "batch_layernorm", "split_cat_pass"), inductor=True)
def norms_of_sections(x):
    return torch.cat([F.layer_norm(p, (4,)).tanh() for p in torch.split(x, 4, 1)], 1) * 2
