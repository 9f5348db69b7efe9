"""Shapes of graphs that broke tools: nested matches, shared results, containers, values that are no tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import kind, many, randn

graphs = kind("shapes of graphs", dynamic=False)


@graphs(lambda: [randn(2, 3), randn(2, 1), randn(3, 4)])
def join_within_a_join(a, b, c):
    """https://github.com/pytorch/pytorch/issues/159613 Both match, and one holds the other."""
    return torch.cat([torch.cat([a, b], dim=1), c], dim=0)


@graphs(lambda: [randn(3, 6)], fires=("mutate_cat_pass", "unbind_stack_pass"))
def matches_within_matches(x):
    p = torch.split(torch.cat(torch.split(x, 2, 1), 1), 3, 1)
    u = torch.unbind(torch.stack(torch.unbind(torch.cat(p, 1), 1)))
    return torch.stack(u, 1).sin(), torch.cat(u).cos()


@graphs(lambda: [randn(3, 6)], fires=("split_cat_pass",))
def one_split_many_joins(x):
    p = torch.split(x, 2, 1)
    return torch.cat(p, 1).sin(), torch.cat(p, 0).cos(), torch.stack(p).exp(), torch.stack(p, 2).neg(), p[0] + p[1] * p[2]


@graphs(lambda: [randn(3, 6)], fires=("mutate_cat_pass",))
def many_equal_splits(x):
    return torch.cat([torch.split(x, 2, 1)[i] for i in range(3)], 1).sin(), torch.cat(torch.split(x, 2, 1), 1).cos()


@graphs(lambda: [randn(3, 6)])
def each_piece_from_a_split_of_its_own(x):
    a, b, c = torch.split(x, 2, 1)[0], torch.split(x, 2, 1)[1], torch.split(x, 2, 1)[2]
    return torch.cat([a, b, c], 1).sin()


@graphs(lambda: [randn(3, 6)])
def one_result_returned_twice(x):
    y = torch.cat(torch.split(x, 2, 1), 1)
    return y, y, (y, {"again": y})


@graphs(lambda: [randn(3, 6)])
def containers_and_numbers(x):
    p = torch.split(x, 2, 1)
    return {"pieces": p, "count": len(p), "shape": p[0].shape, "none": None, "joined": [torch.cat(p, 1), x.dim()]}


@graphs(lambda: [randn(3, 6)])
def input_returned_untouched(x):
    return x, torch.cat(torch.split(x, 2, 1), 1), None


@graphs(lambda: [randn(3, 6)])
def nothing_but_a_cut(x):
    return torch.split(x, [1, 2, 3], 1)


@graphs(lambda: [randn(3, 6), None, 2, "text"], dynamic=False)
def arguments_that_are_no_tensors(x, nothing, count, text):
    return torch.cat(torch.split(x, count, 1), 1) * (1 if nothing is None else 2), text


@graphs(lambda: [randn(3, 6)])
def joined_by_a_loop(x):
    total = x[:, :0]
    for p in torch.split(x, 2, 1):
        total = torch.cat([total, p], 1)
    return total * 2


@graphs(lambda: [randn(3, 6)])
def reader_before_the_join(x):
    a, b, c = torch.split(x, 2, 1)
    early = a * 2
    late = torch.cat([a, b, c], 1)
    return late + torch.cat([early, early, early], 1), torch.cat([c, early], 1)


@graphs(lambda: [randn(3, 6)], fires=("merge_getitem_cat_pass",))
def readers_on_both_sides_of_a_run(x):
    p = torch.split(x, [1, 1, 2, 2], 1)
    early = p[3].exp()
    run = torch.cat([p[0], p[1]], 1)
    return run * 2, early, p[2].sin(), p[3].cos()


@graphs(lambda: [randn(3, 6)])
def break_in_the_middle(x):
    p = torch.split(x, 2, 1)
    torch._dynamo.graph_break()
    y = torch.cat(p, 1)
    torch._dynamo.graph_break()
    return torch.stack(torch.unbind(y, 1)).sin()


@graphs(lambda: many(4, 3, 4), fires=("batch_linear", "batch_tanh", "split_cat_pass"), inductor=True)
def everything_at_once(a, b, v, w):
    h = torch.cat([torch.tanh(F.linear(a, v[:, :4])), torch.tanh(F.linear(b, w[:, :4]))], 1)
    p, q = torch.split(h, 3, 1)
    r, s, t = torch.split(q, 1, 1)
    return torch.cat([p, r, s, t], 1).sin(), torch.stack(torch.unbind(torch.cat([p, q], 1), 1)).cos()


@graphs(lambda: [randn(4, 8)], module=True, fires=("batch_linear", "batch_tanh"))
def towers_of_layers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.towers = nn.ModuleList(nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(3))

        def forward(self, x):
            return torch.cat([tower(x) for tower in self.towers], 1).chunk(2, 1)

    return Model()


@graphs(lambda: [randn(5, 3, 4)], module=True, fires=("batch_linear",))
def steps_of_a_recurrent_cell():
    """Each step needs the one before, the readouts do not."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer, self.read = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, xs):
            state = xs[0] * 0
            states = []
            for x in torch.unbind(xs):
                state = torch.tanh(self.inner(x) + self.outer(state))
                states.append(self.read(state))
            return torch.stack(states), state

    return Model()


@graphs(lambda: [randn(2, 3, 4)], module=True, fires=("batch_linear",))
def weights_made_on_the_way():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.randn(4))
            self.base = nn.Parameter(torch.randn(8, 4))

        def forward(self, x):
            first, second = torch.split(self.base * self.scale, 4)
            return F.linear(x[0], first, self.shift), F.linear(x[1], second, self.shift * 2), torch.cat([first, second])

    return Model()


@graphs(lambda: [randn(3, 4)], module=True)
def buffer_counts_the_calls():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(2, 4))

        def forward(self, x):
            kept = torch.cat(torch.split(self.calls, 2, 1), 1)
            self.calls.add_(1)
            return x[:2] + kept, torch.tanh(x) + torch.tanh(self.calls.sum(0))

    return Model()


@graphs(lambda: many(4, 3, 4), fires=("batch_tanh",))
def far_apart(a, b, c, d):
    """Members whose readers lie far from one another."""
    p, q, r, s = torch.tanh(a), torch.tanh(b), torch.tanh(c), torch.tanh(d)
    for _ in range(8):
        p, q = p.sin(), q.cos()
    return p + q, r * s


@graphs(lambda: [randn(2, 3), randn(2, 3)])
def tensor_subclass_as_weight(x, y):
    w = nn.Parameter(torch.ones(3, 3))
    return F.linear(x, w), F.linear(y, w), torch.tanh(x) + torch.tanh(y)
