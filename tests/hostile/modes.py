"""Ambient modes, regions, random draws."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from hostile.registry import kind, many, randn

grads = kind("across grad modes")


@grads(lambda: many(6, 3, 4), fires=("batch_tanh",), inductor=True)
def half_of_the_members_without_gradients(*xs):
    a = [torch.tanh(x) for x in xs[:3]]
    with torch.no_grad():
        b = [torch.tanh(x) for x in xs[3:]]
    return torch.cat(a), torch.cat(b)


@grads(lambda: [randn(3, 4)], module=True, fires=("batch_linear",))
def half_of_the_layers_without_gradients():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.trained = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.target = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            out = [layer(x) for layer in self.trained]
            with torch.no_grad():
                out += [layer(x) for layer in self.target]
            return torch.cat(out, 1)

    return Model()


@grads(lambda: many(4, 3, 4), fires=("batch_tanh",))
def gradients_on_again_inside(a, b, c, d):
    with torch.no_grad():
        p = torch.tanh(a)
        with torch.enable_grad():
            q, r = torch.tanh(b), torch.tanh(c)
        s = torch.tanh(d)
    return p + s, q, r


@grads(lambda: many(4, 3, 4))
def a_region_in_every_second_place(a, b, c, d):
    p = torch.tanh(a)
    with torch.no_grad():
        q = torch.tanh(b)
    r = torch.tanh(c)
    with torch.no_grad():
        s = torch.tanh(d)
    return p * q, r * s


@grads(lambda: [randn(3, 6)])
def cut_with_and_joined_without_gradients(x):
    p = torch.split(x, 2, 1)
    with torch.no_grad():
        y = torch.cat(p, 1)
    return y * 2, torch.cat([*p[1:], p[0]], 1)


@grads(lambda: [randn(3, 6)])
def cut_without_and_joined_with_gradients(x):
    y = x.exp()
    with torch.no_grad():
        p = torch.split(y, 2, 1)
        u = torch.unbind(y)
    return torch.cat(p, 1) * 2, torch.stack(u, 1) * y.t()


@grads(lambda: [randn(3, 6)], fires=("split_cat_pass", "unbind_stack_pass"))
def all_within_a_region(x):
    with torch.no_grad():
        y = torch.cat(torch.split(x, 2, 1), 1).sin()
        z = torch.stack(torch.unbind(x), 1).cos()
    return y, z, x * 2


@grads(lambda: [randn(2, 12)])
def outer_split_in_another_region(x):
    s = torch.split(x, [4, 8], dim=1)
    with torch.no_grad():
        a, b = torch.split(s[1], [3, 5], dim=1)
    return s[0] * 2, a * 2, b * 3


@grads(lambda: [randn(2, 12)])
def result_of_a_region_without_gradients(x):
    """What was computed without gradients stays so outside."""
    with torch.no_grad():
        y = x * 2
    a, b = torch.split(y, [4, 8], dim=1)
    return torch.cat([a, b], 1), torch.cat([b, x], 1)


@grads(lambda: many(3, 3, 4))
def gradients_switched_off_by_call(a, b, c):
    p = torch.tanh(a)
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    q = torch.tanh(b)
    torch.set_grad_enabled(before)
    return p, q, torch.tanh(c)


@grads(lambda: many(3, 3, 4))
def decorated_helper(a, b, c):
    @torch.no_grad()
    def target(x):
        return torch.tanh(x)

    return torch.tanh(a) + target(b), torch.tanh(c)


@grads(lambda: many(3, 3, 4), grad=False)
def inference_inside(a, b, c):
    p = torch.tanh(a)
    with torch.inference_mode():
        q = torch.tanh(b)
    return p, q.clone(), torch.tanh(c)


@grads(lambda: many(4, 3, 4))
def detached_members(a, b, c, d):
    return torch.tanh(a), torch.tanh(b.detach()), torch.tanh(c).detach(), torch.tanh(d)


autocast = kind("across autocast")


@autocast(lambda: [*many(6, 3, 4), *many(6, 4, 4)], fires=("batch_linear",), inductor=True)
def half_of_the_linears_narrow(*t):
    a = [F.linear(t[i], t[6 + i]) for i in range(3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = [F.linear(t[i], t[6 + i]) for i in range(3, 6)]
    return torch.cat(a), torch.cat(b)


@autocast(lambda: [*many(4, 3, 4), *many(4, 4, 4)], fires=("batch_linear",))
def two_narrow_types(*t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = [F.linear(t[i], t[4 + i]) for i in range(2)]
    with torch.autocast("cpu", dtype=torch.float16):
        b = [F.linear(t[i], t[4 + i]) for i in range(2, 4)]
    return torch.cat(a), torch.cat(b)


@autocast(lambda: [*many(4, 3, 4), *many(4, 4, 4), *many(4, 4)], fires=("batch_linear",))
def autocast_off_inside(*t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = [F.linear(t[i], t[4 + i], t[8 + i]) for i in range(2)]
        with torch.autocast("cpu", enabled=False):
            b = [F.linear(t[i], t[4 + i], t[8 + i]) for i in range(2, 4)]
    return torch.cat(a), torch.cat(b)


@autocast(lambda: [*many(3, 3, 4), *many(3, 4, 4), *many(3, 4)], fires=("batch_linear",))
def all_linears_narrow(*t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.cat([F.linear(t[i], t[3 + i], t[6 + i]) for i in range(3)])


@autocast(lambda: [*many(2, 3, 4), *many(2, 3, 4, dtype=torch.bfloat16), *many(4, 4, 4)])
def narrow_and_wide_inputs(*t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return tuple(F.linear(t[i], t[4 + i]) for i in range(4))


@autocast(lambda: [*many(2, 3, 4), *many(2, 4, 4)])
def autocast_without_gradients_inside(*t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = F.linear(t[0], t[2])
        with torch.no_grad():
            b = F.linear(t[1], t[3])
        c = F.linear(t[1], t[2])
    return a + c, b


@autocast(lambda: many(4, 3, 4), fires=("batch_tanh",))
def tanh_inside_and_outside(*xs):
    """``tanh`` keeps its type under autocast."""
    a = [torch.tanh(x) for x in xs[:2]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = [torch.tanh(x) for x in xs[2:]]
        c = torch.tanh(xs[0] @ xs[1].t())
    return torch.cat(a), torch.cat(b), c


@autocast(lambda: [randn(3, 6), randn(3, 2, dtype=torch.bfloat16)])
def join_widens_under_autocast(x, h):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a, b, c = torch.split(x, 2, 1)
        return torch.cat([a, b, h, c], 1), torch.stack([a, h, b]), torch.cat([a, b, c], 1)


@autocast(lambda: [randn(2, 3, 4), randn(2, 3, 4, 5), randn(2, 3, 5, dtype=torch.bfloat16)])
def einsum_under_autocast(x, w, b):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.einsum("bni,bnio->bno", x, w) + b


@autocast(lambda: many(4, 3, 8))
def norms_under_autocast(*xs):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = [F.layer_norm(x, (8,)) for x in xs[:2]] + [torch.softmax(x.bfloat16(), 1) for x in xs[:2]]
    return (*inside, *(F.layer_norm(x, (8,)) for x in xs[2:]))


regions = kind("across checkpoint and other regions")


@regions(lambda: [*many(4, 3, 4), *many(4, 4, 4)], fires=("batch_linear",))
def linears_inside_and_outside_a_checkpoint(*t):
    def inner(x, y, u, v):
        return F.linear(x, u) + F.linear(y, v)

    inside = checkpoint(inner, t[0], t[1], t[4], t[5], use_reentrant=False)
    return inside, F.linear(t[2], t[6]) + F.linear(t[3], t[7])


@regions(lambda: many(4, 3, 4), fires=("batch_tanh",), inductor=True)
def two_checkpoints(a, b, c, d):
    def inner(x, y):
        return torch.tanh(x) * torch.tanh(y)

    return checkpoint(inner, a, b, use_reentrant=False) + checkpoint(inner, c, d, use_reentrant=False)


@regions(lambda: [randn(3, 6)], fires=("split_cat_pass",))
def cut_and_joined_in_a_checkpoint(x):
    def inner(y):
        return torch.cat(torch.split(y, 2, 1), 1).sin(), torch.stack(torch.unbind(y, 1), 0).cos()

    return checkpoint(inner, x * 2, use_reentrant=False)


@regions(lambda: [randn(3, 6)])
def cut_outside_joined_inside(x):
    a, b, c = torch.split(x, 2, 1)
    return checkpoint(lambda *p: torch.cat(p, 1).sin(), a, b, c, use_reentrant=False), a + 1


@regions(lambda: [randn(3, 6)])
def join_returned_from_a_checkpoint(x):
    y = x.exp()
    z = checkpoint(lambda t: torch.cat(torch.split(t, 2, 1), 1), y, use_reentrant=False)
    return z, y


@regions(lambda: many(3, 3, 4))
def checkpoint_between_members(a, b, c):
    p = torch.tanh(a)
    q = checkpoint(lambda t: torch.tanh(t).exp(), b, use_reentrant=False)
    return p + q, torch.tanh(c)


@regions(lambda: many(3, 3, 4), exact=True)
def dropout_in_a_checkpoint(a, b, c):
    """The mask drawn again for the backward pass is the one drawn before."""
    p = torch.tanh(a)
    q = checkpoint(lambda t: torch.tanh(F.dropout(t, 0.5)), b, use_reentrant=False)
    return p + q, torch.tanh(F.dropout(c, 0.5))


@regions(lambda: many(3, 3, 4))
def branches(a, b, c):
    def upper(x, y):
        return torch.tanh(x) + torch.tanh(y)

    def lower(x, y):
        return torch.cat(torch.split(x, 2, 1), 1) * y

    return torch.cond(a.shape[0] > 2, upper, lower, (a, b)), torch.tanh(c) + torch.tanh(a)


@regions(lambda: many(3, 3, 4), no_grad=False, grad=False)
def branch_on_a_value(a, b, c):
    def upper(x, y):
        return torch.tanh(x) + torch.tanh(y)

    def lower(x, y):
        return torch.cat(torch.split(x, 2, 1), 1) * y

    return torch.cond(a.sum() > 0, upper, lower, (a, b)), torch.tanh(c) + torch.tanh(a)


@regions(lambda: [randn(3, 4), randn(3, 4)], grad=False)
def per_sample(x, y):
    mapped = torch.vmap(lambda row: torch.cat(torch.split(row, 2)) + torch.tanh(row))
    return mapped(x), torch.tanh(x) + torch.tanh(y)


@regions(lambda: [randn(3, 4)], grad=False)
def gradient_taken_inside(x):
    slope = torch.func.grad(lambda t: (torch.tanh(t) + torch.tanh(2 * t)).sum())
    return slope(x), torch.tanh(x) + torch.tanh(x + 1)


draws = kind("random draws between members")


@draws(lambda: many(4, 3, 4), exact=True, fires=("batch_tanh",))
def members_of_random_operands(a, b, c, d):
    """The draws keep their order."""
    p = torch.tanh(a + torch.rand(3, 4))
    q = torch.tanh(b + torch.randn(3, 4))
    return p, q, torch.tanh(c + torch.rand_like(c)), torch.tanh(d * F.dropout(d, 0.3))


@draws(lambda: many(5, 3, 4), exact=True)
def dropouts_side_by_side(*xs):
    return tuple(F.dropout(x, 0.5) for x in xs)


@draws(lambda: many(5, 3, 4), exact=True)
def dropouts_of_different_strength(*xs):
    return tuple(F.dropout(x, 0.1 * (i + 1), True) for i, x in enumerate(xs)), torch.rand(2)


@draws(lambda: [randn(3, 6)], exact=True)
def draw_between_cut_and_join(x):
    a, b, c = torch.split(x, 2, 1)
    noise = torch.rand(3, 2)
    return torch.cat([a, b, c], 1) + 1, torch.cat([a + noise, torch.rand(3, 2)], 1)


@draws(lambda: [randn(3, 4), *many(3, 4, 4)], exact=True)
def linears_with_noise_between(x, u, v, w):
    a = torch.tanh(x + torch.rand(3, 4))
    b = torch.tanh(x + torch.rand(3, 4))
    return torch.tanh(u) + torch.rand(4, 4), a, b, torch.tanh(w + torch.bernoulli(torch.full((4, 4), 0.5)))


@draws(lambda: many(3, 3, 4), grad=False, exact=True)
def noise_written_in_place(a, b, c):
    p = torch.tanh(a)
    a.uniform_()
    q = torch.tanh(a)
    b.normal_().clamp_(-1, 1)
    return p + q, torch.tanh(b), torch.tanh(c)


@draws(lambda: many(2, 3, 4), exact=True)
def equal_draws_are_two_draws(a, b):
    return torch.rand(3, 4) + torch.tanh(a), torch.rand(3, 4) + torch.tanh(b)


@draws(lambda: [randn(3, 4)], module=True, exact=True)
def layers_with_dropout_between():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return tuple(torch.tanh(self.drop(x) * layer.bias) for layer in self.layers)

    return Model()
