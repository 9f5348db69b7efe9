"""Hooks, each of which sees the gradient of one tensor."""

from __future__ import annotations

import torch

from tests.hostile.registry import kind, many, randn

hooks = kind("hooks on tensors that a rewrite replaces", dynamic=False, inference=False)


def doubled(gradient):
    return gradient * 2


@hooks(lambda: [randn(4, 8)])
def on_a_joined_tensor(x):
    y = x * 1
    z = torch.cat(y.split(4, 1), 1)
    z.register_hook(doubled)
    return z * 3 + y * 5


@hooks(lambda: [randn(4, 8)])
def on_a_stacked_tensor(x):
    y = x * 1
    z = torch.stack(y.unbind())
    z.register_hook(doubled)
    return z * 3 + y * 5


@hooks(lambda: [randn(4, 8)])
def on_the_only_section(x):
    y = x * 1
    z = y.chunk(1, 1)[0]
    z.register_hook(doubled)
    return z * 3 + y * 5


@hooks(lambda: [randn(4, 8)])
def on_a_piece_that_is_joined(x):
    y = x * 1
    p, q = y.split(4, 1)
    z = torch.cat([p, q], 1)
    p.register_hook(doubled)
    return z * 3 + y * 5, p * 2


@hooks(lambda: [randn(4, 8)])
def on_a_slice_that_is_stacked(x):
    y = x * 1
    p, q, r, s = y.unbind()
    z = torch.stack([p, q, r, s], 1)
    q.register_hook(doubled)
    return z.sin(), q * 2


@hooks(lambda: [randn(4, 8)])
def under_another_name(x):
    """What ``contiguous`` returns is the tensor itself."""
    y = x * 1
    z = torch.cat(y.split(4, 1), 1).contiguous()
    z.register_hook(doubled)
    return z * 3 + y * 5


@hooks(lambda: [randn(4, 8)], fires=("mutate_cat_pass",))
def on_what_is_cut(x):
    y = x * 1
    y.register_hook(lambda gradient: gradient * gradient)
    z = torch.cat(y.split(4, 1), 1)
    return z * 3 + y * 5


@hooks(lambda: many(3, 3, 4), fires=("batch_tanh",))
def on_a_member(a, b, c):
    p, q, r = torch.tanh(a), torch.tanh(b), torch.tanh(c)
    q.register_hook(lambda gradient: gradient * gradient)
    return p + q, q * r


@hooks(lambda: [randn(4, 12)])
def on_a_piece_of_a_nested_split(x):
    a, b = (x * 1).split([4, 8], 1)
    c, d = b.split(4, 1)
    b.register_hook(doubled)
    c.register_hook(doubled)
    return a.sin(), c.cos(), d * 2
