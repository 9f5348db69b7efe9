"""One operator, many spellings; keywords that must not get lost."""

from __future__ import annotations

import torch

from tests.hostile.registry import kind, many, randn

spelling = kind("spellings")


@spelling(lambda: [randn(2, 3), randn(4, 3)])
def dimension_left_out(a, b):
    """https://github.com/pytorch/pytorch/issues/98850"""
    return torch.relu(torch.cat([a, b]))


@spelling(lambda: [randn(3, 4), randn(3, 2)])
def axis_for_dim(a, b):
    """https://github.com/pytorch/pytorch/issues/171979"""
    return torch.relu(torch.cat([a, b], axis=1))


@spelling(lambda: many(2, 2, 5))
def other_names_of_cat(a, b):
    """https://github.com/pytorch/pytorch/issues/194898"""
    return torch.concatenate([a, b], dim=-1) + torch.concat([b, a], dim=-1)


@spelling(lambda: [randn(3, 6)], fires=("mutate_cat_pass",))
def other_names_of_split(x):
    joined = [
        torch.cat(torch.split(tensor=x, split_size_or_sections=2, dim=1), 1),
        torch.cat(x.split(split_size=2, dim=1), dim=1),
        torch.cat(x.split_with_sizes([2, 4], 1), -1),
        torch.cat(torch.split_with_sizes(x, (1, 5), dim=-1), axis=1),
        torch.cat(torch.chunk(input=x, chunks=3, dim=1), 1),
        torch.cat(tensors=x.chunk(2, -1), dim=1),
        torch.cat(x.tensor_split(4, dim=1), 1),
        torch.cat(torch.tensor_split(x, [1, 2], 1), 1),
    ]
    return torch.stack(joined) * 2


@spelling(lambda: [randn(3, 6)], fires=("unbind_stack_pass",))
def other_names_of_unbind(x):
    return torch.stack(torch.unbind(input=x, dim=1)).sin(), torch.stack(tensors=x.unbind(-2), dim=-1).cos(), torch.stack([*x]).exp()


@spelling(lambda: [randn(3, 6)])
def other_joins(x):
    p = torch.split(x, 2, 1)
    return torch.hstack(p), torch.vstack(p), torch.dstack(p), torch.column_stack(p), torch.row_stack(p)


@spelling(lambda: [randn(3, 6)], fires=("mutate_cat_pass",))
def operators_by_overload(x):
    ops = torch.ops.aten
    a = ops.cat.default(ops.split.Tensor(x, 2, 1), 1)
    b = ops.stack.default(ops.unbind.int(x, 1), 1)
    c = ops.cat(ops.split_with_sizes(x, [1, 5], -1), -1)
    return a + 1, b.sin(), c * 2


@spelling(lambda: [randn(3, 1, 4)], fires=("normalization_pass",))
def squeezes(x):
    return x.squeeze() + 1, x.squeeze(1) + 1, torch.squeeze(x, -2) + 1, x.squeeze(dim=0) + 1, x.squeeze((0, 1)) + 1, torch.squeeze(input=x, dim=2) + 1


@spelling(lambda: [randn(3, 4, 5)], fires=("normalization_pass",), other=lambda: [randn(2, 7, 5)])
def reshapes(x):
    return x.reshape(-1) + 1, x.reshape([3 * x.shape[0] // 3, -1]) + 1, torch.reshape(x, (x.size(0) * x.size(1), 5)) + 1, x.reshape(x.shape) + 1


@spelling(lambda: [randn(3, 4)], fires=("normalization_pass",))
def clamps(x):
    return x.clamp(0.1) + x.clip(max=0.2), torch.clip(x, -0.1, 0.1), x.clamp(-0.1, max=0.1), torch.clamp(input=x, min=-0.2, max=None)


@spelling(lambda: [randn(3, 4), randn(4)], fires=("normalization_pass",))
def clamps_by_tensors(x, row):
    return x.clamp(row), x.clamp(max=row), torch.clamp(x, -row.abs(), row.abs()), torch.clamp(x, torch.tensor(0.1))


@spelling(lambda: [randn(3, 4)], fires=("normalization_pass",))
def detaches(x):
    return x.detach() * x, torch.detach(x) + 1, x.data * x


@spelling(lambda: [randn(3, 4)])
def written_forms_are_left_alone(x):
    y = x * 1
    y.clamp_(-0.5, 0.5)
    z = x * 2
    z.squeeze_(0)
    w = x + 1
    w.detach_()
    return y, z, w
