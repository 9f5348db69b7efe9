"""Ambient modes, regions, random draws."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.hostile.registry import kind, many, randn

grads = kind("across grad modes", dynamic=False)


@grads(lambda: many(6, 3, 4), fires=("batch_tanh",), inductor=True)
def half_of_the_members_without_gradients(*xs):
    a = [torch.tanh(x) for x in xs[:3]]
    with torch.no_grad():
        b = [torch.tanh(x) for x in xs[3:]]
    return torch.cat(a), torch.cat(b)


@grads(lambda: [randn(3, 4)], module=True, fires=("batch_linear_lhs",))
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


@grads(lambda: [randn(3, 6)], fires=("mutate_cat_pass", "unbind_stack_pass"))
def all_within_a_region(x):
    with torch.no_grad():
        y = x * 1
        z, w = torch.cat(torch.split(y, 2, 1), 1).sin(), torch.stack(torch.unbind(y), 1).cos()
    return z, w, x * 2


@grads(lambda: [randn(3, 6)])
def trained_leaf_within_a_region(x):
    """A view of a leaf that is trained says that it is trained too, a copy does not."""
    with torch.no_grad():
        y = torch.cat(torch.split(x, 2, 1), 1)
        z = torch.stack(torch.unbind(x), 1)
        w = torch.tanh(torch.split(x, 3, 1)[0]) + torch.tanh(x[:, 3:])
    return y, z, w, x * 2


@grads(lambda: [randn(3, 6)])
def leaf_updated_within_a_region(x):
    """What was copied before keeps the old values, for the backward pass too."""
    w = x * 1
    z = torch.cat(torch.split(w, 2, 1), 1)
    with torch.no_grad():
        w.sub_(0.1)
    return z * 2, w + 0


@grads(lambda: [randn(3, 4)], module=True)
def parameter_updated_within_a_region():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x):
            before = torch.cat(torch.split(self.weight, 2, 1), 1)
            with torch.no_grad():
                self.weight.sub_(0.1)
            return before * x

    return Model()


@grads(lambda: [randn(3, 4)], module=True)
def parameter_updated_beside_members():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self, x):
            p = torch.tanh(self.weight)
            with torch.no_grad():
                self.weight.mul_(0.9)
            return p * x, torch.tanh(x), torch.tanh(x + 1)

    return Model()


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


stops = kind("views that stop gradients", dynamic=False)


@stops(lambda: [randn(3, 8)], fires=("remove_split_with_size_one_pass",), inductor=True)
def whole_section_without_gradients(x):
    """A view of a trained tensor says that it requires a gradient, also where it passes none on."""
    with torch.no_grad():
        a = x.chunk(1, 1)[0]
        b = x.split(8, 1)[0]
        c = torch.tensor_split(x, 1, 1)[0]
    return a * 2 + x, b * x, c.sin() + x


@stops(lambda: [randn(3, 8)], fires=("remove_split_with_size_one_pass",))
def whole_section_by_a_helper(x):
    @torch.no_grad()
    def helper(x):
        a = x.chunk(1, 1)[0]
        with torch.enable_grad():
            b = x.chunk(1)[0] * 3 + a
        return a.chunk(1, 1)[0], b

    y = x * 1
    a, b = helper(y)
    return a * 2 + y, b * y


@stops(lambda: [randn(3, 8)], fires=("remove_split_with_size_one_pass",))
def whole_section_of_one_that_stops(x):
    with torch.no_grad():
        a = x.split(8, 1)[0]
    return a.chunk(1, 1)[0] * x, a.sin()


@stops(lambda: [randn(4, 8)])
def cut_and_joined_that_stop(x):
    with torch.no_grad():
        a = x.split(4, 1)[0].split([2, 2], 1)
        b = torch.stack([t.reshape(4, 4) for t in x.reshape(2, 4, 4).unbind(0)])
        c = torch.cat([x[:, :4], x[:, 4:]], 1)
        d, e = torch.cat(x.unbind()), torch.stack(x.unbind(1), 1)
        f = torch.cat(x.split(2, 1), 1).view(4, 8)
    return a[0] * x[:, :2], a[1] * x[:, 2:4], b * x.view(2, 4, 4), c * x, d * x.view(-1), e * x, f * x


@stops(lambda: [randn(3, 8)])
def returned_as_it_was_given(x):
    """``contiguous`` may return its argument itself, which passes gradients as before."""
    y = x * 1
    with torch.no_grad():
        a, b = y.contiguous(), y.chunk(1, 1)[0].contiguous()
    return a * 2 + x, b * x


@stops(lambda: many(2, 3, 4))
def member_whose_gradient_stops(a, b):
    p, q = torch.tanh(a), torch.tanh(b)
    with torch.no_grad():
        r = p.view(12)
    return r * q.view(12).detach() * 2 + q.view(12)


autocast = kind("across autocast", dynamic=False)


@autocast(lambda: [*many(2, 3, 4), *many(2, 4, 4), *many(2, 4)], around=lambda: torch.autocast("cpu", torch.bfloat16), fires=("batch_linear",))
def called_under_autocast(a, b, u, v, p, q):
    c = a @ u.t()
    return F.linear(a, u, p), F.linear(b, v, q), torch.tanh(a), torch.tanh(c), torch.cat(torch.split(c, 2, 1), 1), torch.cat([a, c], 1)


@autocast(lambda: [*many(2, 3, 4), *many(2, 4, 4)], around=lambda: torch.autocast("cpu", torch.bfloat16))
def autocast_left_inside(a, b, u, v):
    p = F.linear(a, u)
    with torch.autocast("cpu", enabled=False):
        q = F.linear(b, v)
    return p, q, F.linear(b, u)


@autocast(lambda: [*many(2, 3, 4), *many(2, 4, 4)], around=torch.inference_mode, grad=False)
def called_under_inference_mode(a, b, u, v):
    return (
        F.linear(a, u) + F.linear(b, v),
        torch.cat(torch.split(a, 2, 1), 1),
        torch.stack(torch.unbind(b)),
        a.split(2, 1),
        torch.tanh(a) + torch.tanh(b),
    )


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


regions = kind("across checkpoint and other regions", dynamic=False)


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


@regions(lambda: [randn(3, 6)], fires=("mutate_cat_pass",))
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


@regions(lambda: many(3, 3, 4), grad=False)
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


@regions(lambda: [randn(3, 4)], grad=False)
def input_written_in_a_checkpoint(x):
    """Nothing in the call of the region says that it writes."""
    z = torch.cat(torch.split(x, 2, 1), 1)
    s = checkpoint(lambda t: t.mul_(2) + 1, x, use_reentrant=False)
    return z * 2, s


@regions(lambda: [randn(3, 4)])
def intermediate_written_in_a_checkpoint(x):
    y = x * 1
    z = torch.stack(torch.unbind(y))
    p = torch.tanh(y * 1)
    s = checkpoint(lambda t: t.mul_(2) + 1, y, use_reentrant=False)
    return z * 2, s, p + torch.tanh(y * 3)


@regions(lambda: [randn(3, 4)])
def view_made_in_a_checkpoint_written(x):
    y = x * 1
    v = checkpoint(lambda t: t[0], y, use_reentrant=False)
    z = torch.cat(torch.split(y, 2, 1), 1)
    v.mul_(3)
    return z * 2, y


@regions(lambda: [randn(3, 6)], grad=False)
def body_of_a_loop(x):
    from torch._higher_order_ops import while_loop

    def body(i, t):
        return i + 1, torch.cat(torch.split(t, 2, 1), 1)

    return while_loop(lambda i, t: i < 3, body, (torch.zeros((), dtype=torch.int64), x))


@regions(lambda: [randn(3, 6)], grad=False)
def branches_that_return_joins(x):
    """What a branch returns must be new."""
    return torch.cond(x.sum() > 0, lambda t: torch.cat(torch.split(t, 2, 1), 1), lambda t: torch.stack(torch.unbind(t, 1), 1), (x,))


@regions(lambda: many(3, 3, 4))
def function_with_its_own_gradient(a, b, c):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.cat(torch.split(x, 2, 1), 1)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.cat(torch.split(g, 2, 1), 1) * torch.tanh(x) + torch.tanh(g)

    return Square.apply(a), Square.apply(torch.tanh(b)), torch.tanh(c)


@regions(lambda: many(3, 3, 4), inference=False)
def hook_on_a_member(a, b, c):
    p = torch.tanh(a)
    p.register_hook(lambda g: g * 2)
    return p + torch.tanh(b), torch.tanh(c)


draws = kind("random draws between members", dynamic=False)


@draws(lambda: many(4, 3, 4), exact=True, fires=("batch_tanh",))
def every_kind_of_draw(a, b, c, d):
    drawn = [
        a + torch.normal(0.0, 1.0, (3, 4)),
        b * torch.poisson(torch.full((3, 4), 2.0)),
        c + torch.randint(0, 5, (3, 4)),
        d + torch.empty(3, 4).exponential_(),
        a + torch.multinomial(torch.ones(3, 4), 4),
        b + torch.randperm(4),
        c + torch.randint_like(c, 5),
        d + F.gumbel_softmax(d),
        F.rrelu(a, training=True),
        F.alpha_dropout(b, 0.3, True),
        torch.native_dropout(c, 0.5, True)[0],
        F.dropout1d(d[None], 0.5, True)[0],
    ]
    return tuple(torch.tanh(x) for x in drawn)


@draws(lambda: many(4, 3, 4), exact=True, fires=("batch_tanh",))
def every_kind_of_draw_in_place(a, b, c, d):
    t = a.detach().clone()
    p = torch.tanh(t)
    q, r, s = torch.tanh(b + t.random_(5)), torch.tanh(c + t.cauchy_()), torch.tanh(d + t.geometric_(0.3))
    return p, q, r, s, torch.tanh(t.log_normal_()), torch.tanh(t.bernoulli_(0.5)), torch.tanh(t.normal_())


@draws(lambda: many(3, 3, 4), exact=True)
def dropout_in_place(a, b, c):
    p = torch.tanh(a)
    q = b * 1
    F.dropout(q, 0.5, True, True)
    return p, torch.tanh(q), torch.tanh(c), q


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
