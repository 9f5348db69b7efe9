"""Writes: in place, through views, through other names, into buffers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import ints, kind, many, randn, trained

copies = kind("a copy becomes a view")


@copies(lambda: [randn(3, 4)], grad=False, inductor=True)
def source_written_after_the_cat(x):
    a, b = torch.split(x, [2, 2], dim=1)
    y = torch.cat([a, b], dim=1)
    x.add_(1)
    return y * 2


@copies(lambda: [randn(3, 4)], grad=False, fires=("mutate_cat_pass",))
def cat_written(x):
    """The caller's tensor stays as it is."""
    a, b = torch.split(x, [2, 2], dim=1)
    y = torch.cat([a, b], dim=1)
    y.add_(1)
    return y


@copies(lambda: [randn(3, 4)], grad=False)
def source_written_after_the_stack(x):
    y = torch.stack(torch.unbind(x, 0), 0)
    x.add_(1)
    return y * 2


@copies(lambda: [randn(3, 4)], grad=False)
def source_written_after_chunks_are_joined(x):
    y = torch.cat(torch.chunk(x, 2, 1), 1)
    x.mul_(3)
    return y * 2, x.sum()


@copies(lambda: [randn(3, 4)], grad=False, fires=("unbind_stack_pass",))
def stack_written(x):
    y = torch.stack(torch.unbind(x, 1), 0)
    y[0] = 0
    return y, x + 1


@copies(lambda: [randn(3, 4)], fires=("mutate_cat_pass",))
def written_in_training(x):
    y = x * 2
    z = torch.cat(torch.split(y, 2, dim=1), dim=1)
    z.mul_(3)
    return z, y.sin()


@copies(lambda: [randn(3, 4)])
def intermediate_written_after_the_cat(x):
    y = x * 2
    z = torch.cat(torch.split(y, 2, dim=1), dim=1)
    y.mul_(3)
    return z, y.sin()


@copies(lambda: [randn(3, 4)], grad=False, fires=("mutate_cat_pass", "unbind_stack_pass"))
def returned_for_the_caller_to_write(x):
    """Results share no memory with the input, or with one another."""
    return torch.cat(torch.split(x, 2, 1), 1), torch.cat(torch.split(x, 2, 1), 1), torch.stack(x.unbind(), 1), torch.stack(x.unbind())


@copies(lambda: [randn(3, 6)], grad=False, fires=("merge_getitem_cat_pass",))
def returned_run_and_its_source(x):
    a, b, c = torch.split(x, 2, 1)
    return torch.cat([a, b], 1), c, x


@copies(lambda: [randn(3, 6)], fires=("mutate_cat_pass",))
def returned_run_beside_views(x):
    y = x.exp()
    a, b, c = torch.split(y, 2, 1)
    return torch.cat([a, b], 1), c, y, torch.cat([a, b, c], 1)


@copies(lambda: [randn(3, 6)], grad=False)
def written_through_a_view_of_the_source(x):
    a, b, c = torch.split(x, 2, 1)
    y = torch.cat([a, b, c], 1)
    x.view(-1)[3:9].zero_()
    return y, y + x


@copies(lambda: [randn(3, 6)], grad=False)
def written_through_a_view_of_the_cat(x):
    y = torch.cat(torch.split(x, 2, 1), 1)
    y.t()[1].fill_(5)
    return x * 2, y


@copies(lambda: [randn(3, 6)], grad=False)
def piece_written_after_the_cat(x):
    a, b, c = torch.split(x, 2, 1)
    y = torch.cat([a, b, c], 1)
    b.zero_()
    return y * 2


@copies(lambda: [randn(3, 6)], grad=False)
def piece_written_between_two_joins(x):
    a, b, c = torch.split(x, 2, 1)
    y = torch.cat([a, b], 1)
    a.add_(1)
    z = torch.cat([a, b], 1)
    return y + 0, z + 0, c


@copies(lambda: [randn(3, 6)], grad=False)
def piece_written_before_the_cat(x):
    a, b, c = torch.split(x, 2, 1)
    b.mul_(-1)
    return torch.cat([a, b, c], 1) * 2


@copies(lambda: [randn(3, 6)], grad=False)
def source_written_between_split_and_cat(x):
    a, b, c = torch.split(x, 2, 1)
    x.mul_(-1)
    return torch.cat([a, b, c], 1), torch.cat([a, c], 1)


@copies(lambda: [randn(3, 6)], grad=False)
def source_written_before_the_split(x):
    x.mul_(-1)
    return torch.cat(torch.split(x, 2, 1), 1) + 1


@copies(lambda: many(2, 4, 6), grad=False)
def another_tensor_written(x, y):
    z = torch.cat(torch.split(x, 2, 1), 1)
    y.copy_(z)
    return z * 2


@copies(lambda: [randn(3, 6)], grad=False)
def cat_copied_into_its_own_source(x):
    a, b, c = torch.split(x, 2, 1)
    x.copy_(torch.cat([c, a, b], 1))
    return x.sum(0), a + 1


@copies(lambda: [randn(2, 12)], grad=False)
def middle_piece_written(x):
    s = torch.split(x, [4, 8], dim=1)
    s[1].zero_()
    a, b = torch.split(s[1], [3, 5], dim=1)
    return s[0] + 1, a + 2, b + 3


@copies(lambda: [randn(2, 12)], grad=False)
def inner_piece_written(x):
    s = torch.split(x, [4, 8], dim=1)
    a, b = torch.split(s[1], [3, 5], dim=1)
    a.fill_(7)
    return s[0] + 1, b + 3, x.sum(1)


@copies(lambda: [randn(3, 4)], grad=False)
def cat_becomes_a_buffer(x):
    y = torch.cat(torch.split(x, 2, 1), 1)
    out = torch.zeros(3, 4)
    torch.add(y, 1, out=out)
    torch.mul(x, 2, out=y)
    return y, out


@copies(lambda: [torch.zeros(3, 4), torch.arange(12.0).view(3, 4)], grad=False)
def copied_through_full_slices(dst, src):
    """https://github.com/pytorch/pytorch/issues/198131 The target holds the old values."""
    dst[0:, :] = src[0:, :]
    src.add_(1)
    return src


@copies(lambda: [randn(3, 4)])
def result_and_its_view(x):
    """https://github.com/pytorch/pytorch/pull/191844 Two tensor objects over one storage."""
    y = x + 1
    return y, y.view(3, 4)


@copies(lambda: [randn(4)])
def detached_in_the_middle(x):
    """https://github.com/pytorch/pytorch/issues/176854 The second result needs no gradient, the first does."""
    y = x * 2.0
    z = y.clone()
    z.detach_()
    return y.sin(), z + 1.0


between = kind("writes between members", dynamic=False)


@between(lambda: [randn(3, 4)], grad=False, inductor=True)
def operand_written_between_members(x):
    a = torch.tanh(x)
    x.add_(1)
    return torch.cat([a] + [torch.tanh(x * i) for i in range(1, 5)])


@between(lambda: many(2, 4, 3), grad=False)
def operand_replaced_between_uses(x, y):
    """https://github.com/pytorch/pytorch/issues/101124"""
    s = torch.sin(x)
    x.copy_(y)
    return torch.add(x, s)


@between(lambda: [randn(3, 4)], grad=False)
def operand_written_through_a_view(x):
    a = torch.tanh(x)
    x[1].zero_()
    b = torch.tanh(x)
    x.view(-1)[0] = 3
    return a, b, torch.tanh(x)


@between(lambda: [randn(3, 4)], grad=False)
def operand_written_by_assignment(x):
    a = torch.tanh(x)
    x += 1
    b = torch.tanh(x)
    x[:, 0] = 0
    return a + b, torch.tanh(x)


@between(lambda: [randn(3, 4), *many(2, 4, 4)], grad=False)
def weight_written_between_linears(x, v, w):
    a = F.linear(x, w)
    w.mul_(2)
    return a, F.linear(x, w), F.linear(x, v)


@between(lambda: [randn(3, 4), *many(2, 4, 4), randn(4)], grad=False)
def bias_written_between_linears(x, v, w, b):
    a = F.linear(x, w, b)
    b.zero_()
    return a, F.linear(x, v, b)


@between(lambda: many(3, 3, 4), grad=False)
def other_member_written_with_the_result(a, b, c):
    b.copy_(torch.tanh(a))
    c.copy_(torch.tanh(b))
    return torch.tanh(c)


@between(lambda: many(3, 3, 4))
def result_written_before_the_next_member(a, b, c):
    p = torch.tanh(a)
    q = p.clone()
    q.mul_(2)
    return torch.tanh(b) + q, torch.tanh(c) * p


@between(lambda: [randn(3, 4)], grad=False)
def relu_in_place_between(x):
    a = torch.tanh(x)
    F.relu(x, inplace=True)
    return a, torch.tanh(x), torch.tanh(x * 2)


@between(lambda: [torch.randn(8)], grad=False)
def members_on_overlapping_views(base):
    a, b = base[:6], base[2:]
    p = torch.tanh(a)
    b.mul_(2)
    return p, torch.tanh(a), torch.tanh(b)


@between(lambda: [ints(3, 4), randn(5, 4)], grad=False)
def table_written_between_lookups(i, table):
    a = F.embedding(i.abs() % 5, table)
    table[2] = 0
    return torch.tanh(a), torch.tanh(F.embedding(i.abs() % 5, table))


hidden = kind("writes that no argument shows", dynamic=False)


@hidden(lambda: many(2, 3, 4), grad=False, inductor=True)
def list_written_between_members(x, y):
    """Operators on lists write every tensor of the list."""
    a = torch.tanh(x)
    torch._foreach_add_([x, y], 1)
    return a, torch.tanh(x), torch.tanh(y)


@hidden(lambda: many(2, 3, 4), grad=False)
def list_with_the_source_written(x, y):
    z = torch.cat(torch.split(x, 2, 1), 1)
    torch._foreach_mul_([x, y], 3)
    return z * 2


@hidden(lambda: many(2, 3, 4), grad=False)
def list_with_the_join_written(x, y):
    z = torch.cat(torch.split(x, 2, 1), 1)
    torch._foreach_mul_([z, y], 3)
    return z * 2, x + 1


@hidden(lambda: many(2, 3, 4), grad=False)
def list_copied_over(x, y):
    z = torch.stack(torch.unbind(x))
    torch._foreach_copy_([x], [y])
    return z * 2


@hidden(lambda: many(3, 3, 4), module=True)
def step_of_an_optimizer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(3, 4))
            self.register_buffer("other", torch.randn(3, 4))

        def forward(self, a, b, c):
            before = torch.cat(torch.split(self.weight, 2, 1), 1)
            p = torch.tanh(self.weight)
            torch._foreach_add_([self.weight, self.other], [a.detach(), b.detach()], alpha=-0.1)
            return before * c, p, torch.tanh(self.weight)

    return Model()


@hidden(lambda: [*many(2, 3, 4), torch.zeros(3, 4, dtype=torch.int64)], grad=False)
def sorted_into_the_source(x, w, places):
    """Two buffers are given as a pair."""
    z = torch.cat(torch.split(x, 2, 1), 1)
    torch.sort(w, out=(x, places))
    return z * 2


@hidden(lambda: [*many(2, 3, 4), torch.zeros(3, 4, dtype=torch.int64)], grad=False)
def sorted_into_the_join(x, w, places):
    z = torch.cat(torch.split(x, 2, 1), 1)
    torch.sort(w, out=(z, places))
    return z * 2, x + 1


@hidden(lambda: [randn(3, 4), randn(3, 3, 4), torch.zeros(3, 4, dtype=torch.int64)], grad=False)
def maximum_into_the_source(x, w, places):
    z = torch.stack(torch.unbind(x))
    a = torch.tanh(x)
    torch.max(w, 1, out=(x, places))
    return z * 2, a, torch.tanh(x)


@hidden(lambda: [randn(3, 6)], grad=False)
def source_written_as_an_array(x):
    z = torch.cat(torch.split(x, 2, 1), 1)
    array = x.numpy()
    array[0] = 7
    return z * 2


@hidden(lambda: [randn(3, 6)], grad=False)
def stack_written_as_an_array(x):
    z = torch.stack(torch.unbind(x))
    array = z.numpy()
    array += 1
    return x * 2, torch.from_numpy(array) * 1


@hidden(lambda: [randn(3, 6)], grad=False)
def operand_written_as_an_array(x):
    p = torch.tanh(x)
    array = x.numpy()
    array *= 2
    return p, torch.tanh(x)


def scrambled(t):
    t.mul_(3)
    return t + 0


torch._dynamo.allow_in_graph(scrambled)


@hidden(lambda: [randn(3, 4)], grad=False)
def source_written_by_an_unknown_function(x):
    z = torch.cat(torch.split(x, 2, 1), 1)
    s = scrambled(x)
    return z * 2, s


@hidden(lambda: [randn(3, 4)], grad=False)
def join_written_by_an_unknown_function(x):
    z = torch.cat(torch.split(x, 2, 1), 1)
    s = scrambled(z)
    return z * 2, s, x + 1


@hidden(lambda: [randn(3, 4)], grad=False)
def operand_written_by_an_unknown_function(x):
    p = torch.tanh(x)
    s = scrambled(x)
    return p, torch.tanh(x), torch.tanh(s)


@torch.library.custom_op("hostile::raise_", mutates_args=("t",))
def raised(t: torch.Tensor, by: float) -> None:
    t.add_(by)


@torch.library.custom_op("hostile::raise_all_", mutates_args=("ts",))
def all_raised(ts: list[torch.Tensor], by: float) -> None:
    for t in ts:
        t.add_(by)


@hidden(lambda: [randn(3, 4)], grad=False)
def written_by_a_registered_operator(x):
    z = torch.cat(torch.split(x, 2, 1), 1)
    a = torch.tanh(x)
    raised(x, 2.0)
    return z * 2, a, torch.tanh(x)


@hidden(lambda: [randn(3, 4)], grad=False)
def join_written_by_a_registered_operator(x):
    z = torch.cat(torch.split(x, 2, 1), 1)
    raised(z, 2.0)
    return z * 2, x + 1


@hidden(lambda: many(2, 3, 4), grad=False)
def list_written_by_a_registered_operator(x, y):
    z = torch.cat(torch.split(x, 2, 1), 1)
    a = torch.tanh(y)
    all_raised([x, y], 2.0)
    return z * 2, a, torch.tanh(y)


@hidden(lambda: [randn(3, 6)], grad=False)
def written_through_properties(x):
    y = torch.cat(torch.split(x, 2, 1), 1)
    y.T[0] = 5
    z = torch.stack(torch.unbind(x, 1))
    z.data.mul_(2)
    w = torch.atleast_3d(torch.cat(torch.unbind(x)))
    w.zero_()
    return x + 1, y.mT * 2, z * 1, w


@hidden(lambda: [randn(3, 6)], grad=False)
def source_replaced_afterwards(x):
    y, w = x * 1, x * 2
    z, u = torch.cat(torch.split(y, 2, 1), 1), torch.cat(torch.split(w, 2, 1), 1)
    y.set_(torch.ones(3, 6))
    w.resize_(2, 3)
    return z * 2, u * 2, y + 1, w + 1


@hidden(lambda: [randn(3, 6)], grad=False)
def source_turned_afterwards(x):
    y = x * 1
    z = torch.cat(torch.split(y, 2, 1), 1)
    y.t_()
    x.t_()
    return z * 2, y + 1, torch.stack(torch.unbind(x))


@hidden(lambda: many(2, 3, 6))
def trained_by_a_write(x, w):
    """A write may make a value trained that was not."""
    y = torch.cat(torch.split(x.detach(), 2, 1), 1)
    z, u = torch.tanh(x.detach()), torch.tanh(x.detach() + 1)
    y.mul_(w)
    z.mul_(w)
    return y * 2, z, u


@hidden(lambda: [randn(4, 4)], grad=False)
def rows_swapped(x):
    y = torch.cat(torch.split(x, 2, 1), 1)
    x[0], x[1] = x[1].clone(), x[0].clone()
    return y + 0


inplace = kind("operators that write by keyword or name", dynamic=False)


@inplace(lambda: many(5, 3, 4))
def relu_in_place_and_its_operands(*xs):
    ys = [x + 0 for x in xs]
    zs = [F.relu(y, inplace=True) for y in ys]
    return torch.cat(zs), torch.cat(ys)


@inplace(lambda: many(5, 3, 4), grad=False)
def relu_in_place_on_inputs(*xs):
    return torch.cat([F.relu(x, inplace=True) for x in xs])


@inplace(lambda: many(3, 3, 4), grad=False)
def relu_in_place_by_position(a, b, c):
    return F.relu(a, True), F.relu(b, False), F.leaky_relu(c, 0.1, True), F.elu(a, 1.0, True)


@inplace(lambda: many(4, 3, 4))
def tanh_in_place_among_others(a, b, c, d):
    y = c * 2
    p, q = torch.tanh(a), torch.tanh(b)
    r = y.tanh_()
    return p + q, r, y, torch.tanh_(d + 1)


@inplace(lambda: many(3, 3, 4))
def results_of_a_group_written(a, b, c):
    p, q, r = torch.tanh(a), torch.tanh(b), torch.tanh(c).clone()
    r.add_(1)
    s = p + q
    s.mul_(2)
    return s, r


@inplace(lambda: many(2, 3, 4), grad=False, fires=("batch_tanh",))
def results_of_a_group_written_without_gradients(a, b):
    p, q = torch.tanh(a), torch.tanh(b)
    p.add_(1)
    q[0] = 5
    return p, q


@inplace(lambda: many(2, 3, 4), grad=False, fires=("batch_tanh",))
def results_of_a_group_returned(a, b):
    """Each in a storage of its own."""
    return torch.tanh(a), torch.tanh(b)


@inplace(lambda: [torch.zeros(3, 4), *many(5, 3, 4)], grad=False)
def tanh_into_a_buffer(buffer, *xs):
    y = torch.tanh(xs[0], out=buffer)
    return torch.stack([y] + [torch.tanh(x) for x in xs[1:]]) * 2, buffer + 1


@inplace(lambda: [*many(2, 2, 3), torch.zeros(4, 3)], grad=False)
def cat_into_a_buffer(x, y, out):
    torch.cat([x, y], 0, out=out)
    return out * 2


@inplace(lambda: [*many(2, 2, 3), torch.zeros(2, 2, 3)], grad=False)
def stack_into_a_buffer(x, y, out):
    torch.stack([x, y], 0, out=out)
    return out * 2


@inplace(lambda: [randn(2, 3), torch.zeros(2, 3)], grad=False)
def clamp_into_a_buffer(x, out):
    torch.clamp(x, -0.1, 0.1, out=out)
    return out * 2


@inplace(lambda: [randn(4, 6), torch.zeros(4, 6)], grad=False)
def pieces_joined_into_a_buffer(x, out):
    a, b, c = torch.split(x, 2, 1)
    torch.cat([a, b, c], 1, out=out)
    out.add_(1)
    return out, x * 2


@inplace(lambda: [randn(4, 6)], grad=False)
def pieces_joined_into_their_source(x):
    a, b, c = torch.split(x.clone(), 2, 1)
    return torch.cat([c, b, a], 1, out=x), x + 1


@inplace(lambda: [randn(3, 4), torch.zeros(0)], grad=False)
def buffer_that_grows(x, out):
    torch.sub(x, 1, out=out)
    return out * 2


@inplace(lambda: [randn(3, 4)], module=True, fires=("batch_linear",))
def layers_followed_by_relu_in_place():
    return Towers(lambda y: F.relu(y, inplace=True))


@inplace(lambda: [randn(3, 4)], module=True)
def layers_followed_by_relu_in_place_by_name():
    return Towers(torch.relu_)


@inplace(lambda: [randn(3, 4)], module=True)
def layers_followed_by_assignment():
    def cleared(y):
        y[0] = 0
        return y

    return Towers(cleared)


@inplace(lambda: [randn(3, 4)], module=True)
def layers_followed_by_a_write_through_a_view():
    def doubled(y):
        y.view(-1).mul_(2)
        return y

    return Towers(doubled)


@inplace(lambda: [randn(3, 4)], module=True)
def layers_followed_by_augmented_assignment():
    def raised(y):
        y += 1
        return y

    return Towers(raised)


@inplace(lambda: [randn(3, 4)], module=True, inductor=True)
def layers_accumulated_in_place():
    class Sum(Towers):
        def forward(self, x):
            total = self.layers[0](x)
            for layer in self.layers[1:]:
                total += layer(x)
            return total

    return Sum(torch.relu)


class Towers(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))
        self.use = use

    def forward(self, x):
        return torch.cat([self.use(layer(x + i)) for i, layer in enumerate(self.layers)])


aliases = kind("a view becomes a copy", dynamic=False)


@aliases(lambda: many(5, 3, 4), grad=False)
def inputs_written_through_detach(*xs):
    ds = [x.detach() for x in xs]
    for d in ds:
        d.add_(1)
    return torch.cat(ds)


@aliases(lambda: many(5, 3, 4), grad=False)
def detached_returned(*xs):
    return tuple(x.detach() for x in xs)


@aliases(lambda: [randn(3, 4)])
def detached_beside_its_source(x):
    y = x * 2
    d = torch.detach(y)
    return y, d, d.t()


@aliases(lambda: [randn(3, 4)])
def detached_written_in_training(x):
    y = x * 2
    d = y.detach()
    d.mul_(3)
    return y + 1, d


@aliases(lambda: [randn(6, 4)], grad=False)
def pieces_returned(x):
    return torch.split(x, 2), x.unbind(1), torch.split(x, [1, 5])[1]


@aliases(lambda: [randn(2, 12)], grad=False, fires=("merge_splits_pass",))
def inner_pieces_returned(x):
    s = torch.split(x, [4, 8], dim=1)
    a, b = torch.split(s[1], [3, 5], dim=1)
    return s[0], a, b


@aliases(lambda: [randn(2, 12)], grad=False, fires=("merge_getitem_cat_pass",))
def other_pieces_returned(x):
    a, b, c, d = torch.split(x, [4, 2, 3, 3], dim=1)
    return a, torch.cat([b, c], 1), d


@aliases(lambda: [randn(2, 12)], grad=False)
def other_pieces_written(x):
    a, b, c, d = torch.split(x, [4, 2, 3, 3], dim=1)
    y = torch.cat([b, c], 1)
    a.zero_()
    d.fill_(2)
    return y * 2


@aliases(lambda: [randn(3, 1, 4)], grad=False)
def squeezed_and_reshaped_returned(x):
    return x.squeeze(1), x.squeeze(), x.reshape(3, 4), x.reshape(-1), x.transpose(0, 2).reshape(4, 3)


@aliases(lambda: [randn(3, 1, 4)], grad=False)
def written_through_squeeze_and_reshape(x):
    x.squeeze(1)[0] = 1
    x.reshape(-1)[-1] = 2
    x.transpose(0, 2).reshape(-1).zero_()
    return x * 2


@aliases(lambda: [randn(3, 4)], grad=False)
def reshaped_to_what_it_was(x):
    return x.reshape(3, 4), torch.squeeze(x), x.squeeze(0), x.detach()


@aliases(lambda: [randn(3, 4)], grad=False)
def clamped_is_new(x):
    y = torch.clamp(x, -10, 10)
    y.mul_(2)
    return y, x + 1


@aliases(lambda: [randn(2, 3, 4)])
def slices_returned_in_training(x):
    y = x.exp()
    a, b = torch.unbind(y)
    return a, b, y, torch.stack([a, b])


inputs = kind("inputs over one storage", dynamic=False)


def overlapping():
    base = torch.arange(8.0)
    return [base[:4], base[2:6]]


def halves():
    base = randn(4, 6)
    return [base[:, :3], base[:, 3:], base]


@inputs(overlapping, grad=False)
def one_of_two_overlapping_inputs_written(x, y):
    """https://github.com/pytorch/pytorch/issues/139789 The other one sees it."""
    x.mul_(2)
    return x + y


@inputs(overlapping, grad=False)
def tanh_on_overlapping_inputs(x, y):
    a = torch.tanh(x)
    y.zero_()
    return a + torch.tanh(x), torch.tanh(y)


@inputs(halves, grad=False)
def halves_joined_then_whole_written(a, b, base):
    y = torch.cat([a, b], 1)
    base.add_(1)
    return y, torch.cat(torch.split(base, 2, 1), 1)


@inputs(halves, grad=False)
def split_written_through_another_input(a, b, base):
    p, q, r = torch.split(base, 2, 1)
    y = torch.cat([p, q, r], 1)
    a.zero_()
    return y * 2, b + 1


@inputs(halves, grad=False)
def stack_written_through_another_input(a, b, base):
    y = torch.stack(torch.unbind(base), 1)
    b.fill_(3)
    return y * 2, a * 1


@inputs(lambda: [t := randn(3, 4), t], grad=False)
def one_tensor_given_twice(x, y):
    z = torch.cat(torch.split(x, 2, 1), 1)
    y.add_(1)
    return z, torch.tanh(x), torch.tanh(y)


@inputs(lambda: list(trained(randn(4, 6)).split(3, 1)), grad=False)
def trained_views_of_one_base(a, b):
    return torch.tanh(a) + torch.tanh(b), torch.cat([a, b], 1)


@inputs(lambda: [(t := trained(randn(3, 4)) * 2), t.t()], grad=False)
def a_matrix_and_its_transpose(x, y):
    return torch.tanh(x), torch.tanh(y), torch.cat(torch.split(x, 2, 1), 1), torch.stack(torch.unbind(y, 1))


views = kind("writes through views", dynamic=False)


@views(lambda: [torch.ones(2, 4), torch.arange(6.0).view(3, 2), torch.tensor([0, 3, 1])], grad=False)
def added_through_a_permuted_view(x, a, index):
    """https://github.com/pytorch/pytorch/issues/111133 The input changes."""
    y = x.permute(1, 0)
    y.index_add_(0, index, a)
    return y


@views(lambda: [randn(2, 3, 4), randn(5, 4)], grad=False)
def view_turned_in_place_before_a_linear(x, w):
    """https://github.com/pytorch/pytorch/issues/104020 The linear reads what the view became."""
    v = x.clone().permute(0, 2, 1)
    v.transpose_(1, 2)
    v.mul_(2)
    return F.linear(v, w), F.linear(v * 1, w)


@views(lambda: [randn(1, 3, 2)])
def padded_twice_then_written(x):
    """https://github.com/pytorch/pytorch/issues/97807"""
    b = F.pad(F.pad(x, (0, 1)), (0, 0, 0, 1), "reflect")
    b[0, 0, 0] = 0.5
    return b


@views(lambda: [randn(5, 7)], grad=False)
def position_after_a_write_and_a_turn(x):
    """https://github.com/pytorch/pytorch/issues/183894 The position counts in the turned order."""
    x.sin_()
    return x.t().argmin()


@views(lambda: [randn(3, 6)])
def pieces_of_an_intermediate_written(x):
    y = x * 1
    y[:, :2] *= 2
    y[:, 2:4].zero_()
    return torch.cat(torch.split(y, 2, 1), 1).sin(), y


@views(lambda: [randn(3, 6)], grad=False)
def narrow_written_between_cut_and_join(x):
    y = x * 1
    a, b, c = torch.split(y, 2, 1)
    y.narrow(1, 1, 2).fill_(9)
    return torch.cat([a, b, c], 1).sin(), torch.stack([a, b, c]).cos()


@views(lambda: [randn(3, 4)])
def even_part_written_in_training(x):
    """``tensor_split`` makes each piece a view of its own, which may be written; ``split`` does not."""
    y = x * 1
    a, b = torch.tensor_split(y, 2, 1)
    a.mul_(2)
    return y, b + 1


@views(lambda: [randn(3, 6)])
def even_part_beside_a_run_written_in_training(x):
    y = x * 1
    a, b, c = torch.tensor_split(y, 3, 1)
    z = torch.cat([b, c], 1)
    a.mul_(2)
    return y, z * 2


@views(lambda: [randn(3, 6)])
def even_part_of_a_part_written_in_training(x):
    y = x * 1
    a, b = torch.tensor_split(y, [2], 1)
    c, d = torch.tensor_split(b, 2, 1)
    c.mul_(2)
    return a + 1, c + 1, d + 1, y


@views(lambda: [randn(3, 6)])
def slices_written_in_training(x):
    y = x * 1
    a, b = y[:, :3], y[:, 3:]
    a.mul_(2)
    return torch.cat([a, b], 1), y


@views(lambda: [randn(1, 6)])
def expanded_then_joined_then_written(x):
    y = torch.cat(torch.split(x.expand(4, 6), 2, 1), 1)
    y[0] = 1
    return y, torch.broadcast_tensors(x, y)[0] * 2


@views(lambda: [randn(3, 6)])
def unrelated_view_written(x):
    """A write elsewhere in the graph, to storage that no match reads."""
    other = x * 2
    y = torch.cat(torch.split(x, 2, 1), 1).sin()
    other[0] = 0
    return y + other, torch.stack(x.unbind()).cos()


@views(lambda: [randn(3, 6)])
def strided_view_written(x):
    y = x * 1
    s = torch.stack(torch.unbind(y, 1), 0)
    torch.as_strided(y, (3,), (6,), 1).zero_()
    return s * 2, y


@views(lambda: [randn(3, 6)])
def masked_and_scattered_writes(x):
    y = x * 1
    z = torch.cat(torch.split(y, 3, 1), 1)
    y[y > 0] = 0
    y.scatter_(1, torch.zeros(3, 1, dtype=torch.int64), 7.0)
    z.masked_fill_(z < 0, 1)
    return z, y


@views(lambda: many(4, 3, 4), module=True)
def running_statistics():
    """Statistics are written although no schema says so."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, a, b, c, d):
            first = self.norm(a)
            return torch.tanh(first) + torch.tanh(self.norm(b)), self.norm.running_mean * 2, F.linear(c, d), F.linear(c, d)

    return Model()
