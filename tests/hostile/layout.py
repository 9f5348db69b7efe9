"""Strides, contiguity, offsets: of results, and as readers within the program see them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.registry import kind, many, randn

results = kind("strides of results")


@results(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",), inductor=True)
def stacks_are_contiguous(x):
    return torch.stack(torch.unbind(x, 1)), torch.stack(torch.unbind(x, 0), 2), torch.cat(torch.unbind(x, 2))


@results(lambda: [randn(4, 6)], fires=("split_cat_pass",))
def joins_are_contiguous(x):
    return torch.cat(torch.split(x, 2, 1), 0), torch.stack(torch.split(x, 2, 1), 2), torch.cat(torch.split(x, 2, 1), 1)


@results(lambda: [randn(4, 6)], fires=("merge_getitem_cat_pass",))
def run_is_contiguous(x):
    a, b, c = torch.split(x, 2, 1)
    return torch.cat([b, c], 1), a


@results(lambda: [randn(6, 4)])
def join_of_turned_pieces(x):
    """``cat`` keeps the strides that all its inputs have, if they are dense."""
    return torch.cat(torch.split(x.t(), 2, 1), 1), torch.stack(torch.unbind(x.t()), 0), torch.cat(torch.split(x.t(), 2, 0), 0)


@results(lambda: [randn(2, 4, 3, 3)])
def join_of_channels_last_pieces(x):
    y = x.to(memory_format=torch.channels_last)
    return torch.cat(torch.split(y, 2, 1), 1), torch.cat(torch.split(y, 1, 0), 0), torch.cat([*torch.split(y, 2, 1), y], 1)


@results(lambda: [randn(2, 4, 3, 3), randn(2, 2, 3, 3)])
def join_of_two_memory_formats(x, y):
    last = x.to(memory_format=torch.channels_last)
    return torch.cat([*torch.split(last, 2, 1), y], 1), torch.cat([y, *torch.split(last, 2, 1)], 1)


@results(lambda: [randn(2, 2, 3, 2)])
def enlarged_keeps_strides(x):
    """https://github.com/pytorch/pytorch/issues/183771"""
    return F.interpolate(x.permute(0, 3, 1, 2), size=(4, 5), mode="nearest")


@results(lambda: [randn(6, 4)])
def join_of_every_second_row(x):
    return torch.cat(torch.split(x[::2], 1), 0), torch.stack(torch.unbind(x[:, ::2], 1), 1), torch.cat(torch.chunk(x[1::2], 3), 1)


@results(lambda: [randn(1, 4)])
def join_of_expanded_pieces(x):
    y = x.expand(6, 4)
    return torch.cat(torch.split(y, 2), 0), torch.stack(torch.unbind(y, 1)), torch.cat(torch.split(y, 2, 1), 1)


@results(lambda: [randn(3, 4), *many(2, 4, 4)], fires=("batch_linear_lhs",))
def linears_are_contiguous(x, v, w):
    return F.linear(x, v), F.linear(x, w)


@results(lambda: [randn(3, 4), *many(3, 5, 4)])
def strides_known_beforehand(x, u, v, w):
    return tuple(F.linear(x, t).stride() for t in (u, v, w)), F.linear(x, u).t()


@results(lambda: [randn(2, 3, 4)])
def reductions_of_moved_results(x):
    y = torch.stack(torch.unbind(x, 1))
    return y.sum(0), y.mean((0, 2)), y.argmax(), y.cumsum(1), y.flatten().topk(3)[1]


@results(lambda: [randn(2, 3, 4)], fires=("unbind_stack_pass",))
def functions_of_moved_results(x):
    """Element-wise functions pass strides on to what is returned."""
    y = torch.stack(torch.unbind(x, 1))
    return y * 2, y.sin().exp(), y.clone(), torch.empty_like(y).fill_(1), torch.zeros_like(y), y.to(torch.float64)


@results(lambda: [randn(2, 3, 4)])
def choices_of_moved_results(x):
    y = torch.stack(torch.unbind(x, 1))
    return torch.where(y > 0, y, -y), y.clamp(min=0), y.masked_fill(y > 0, 1.0), y[0], y[:, 1:], y.flip(0)


@results(lambda: [randn(2, 3, 4)])
def softmax_of_a_moved_result(x):
    y = torch.cat(torch.unbind(x, 2), 1)
    return torch.softmax(y, -1), F.layer_norm(y, (12,)), y @ y.t()


@results(lambda: [randn(64, 30, 50)], fires=("unbind_stack_pass",))
def sums_of_moved_results(x):
    """Sums run along the strides; other strides, other rounding."""
    y = torch.stack(torch.unbind(x, 1))
    return y.sum(), y.mean((0, 2)), y.flatten(1) @ y.flatten(1).t()


@results(lambda: [randn(64, 90)], fires=("split_cat_pass",))
def sums_of_joined_results(x):
    y = torch.cat(torch.split(x, 30, 1), 0)
    return y.sum(), y.mean(0), torch.softmax(y, 0), y.norm()


@results(lambda: [randn(3, 6)], grad=False)
def result_put_into_a_buffer(x):
    y = torch.stack(torch.unbind(x, 1))
    out = torch.empty(6, 3)
    torch.mul(y, 2, out=out)
    return out, y.sum(0)


@results(lambda: [randn(3, 6)], grad=False)
def result_copied_into_its_like(x):
    y = torch.stack(torch.unbind(x, 1))
    same = torch.empty_like(y)
    same.copy_(y)
    return same, y + 0


@results(lambda: [randn(40, 80), randn(40, 80)], fires=("batch_tanh",))
def tanh_of_columns_apart(x, y):
    """Element-wise functions of strided operands may run in another loop."""
    return torch.tanh(x[:, ::2]), torch.tanh(y[:, ::2]), torch.tanh(x[:, 1::2]), torch.tanh(y[:, :40]), torch.tanh(x[:, :40])


@results(lambda: many(3, 7, 13), fires=("batch_tanh",))
def tanh_of_odd_lengths(x, y, z):
    return torch.tanh(x), torch.tanh(y), torch.tanh(z[:, :13] * 2)


readers = kind("readers of strides inside the program")


@readers(lambda: [randn(5, 4)[1:4]], dynamic=False)
def source_with_an_offset_read_by_strides(x):
    """Strides and offset count from the start of the storage, and a join starts there."""
    return torch.as_strided(torch.cat(torch.split(x, 2, 1), 1), (5,), (2,), 1) * 2


@readers(lambda: [randn(5, 4)], dynamic=False)
def slice_read_by_strides(base):
    y = torch.stack(torch.unbind((base * 1)[1:4]))
    return torch.as_strided(y, (3, 2), (4, 1), 2) * 1, y.sum()


@readers(lambda: many(2, 3, 4), dynamic=False, fires=("batch_tanh",))
def second_member_read_by_strides(x, y):
    p, q = torch.tanh(x), torch.tanh(y)
    return torch.as_strided(q, (4,), (2,), 0) * 2, p * q


@readers(lambda: [randn(1, 4)], grad=False)
def single_column_reinterpreted(x):
    """A dimension of extent 1 has a stride too, and a change of the element's width asks for it."""
    return torch.cat(torch.split(x.t(), 2, 0), 0).view(torch.float16) + 1


@readers(lambda: [randn(4, 6)], grad=False)
def single_columns_reinterpreted(x):
    a = torch.cat(torch.split(x[:, :1], 2, 0), 0).view(torch.int16)
    b = torch.stack(torch.unbind(x[:1].t(), 1), 1).view(torch.int16)
    return a + 1, b + 1, torch.cat(torch.unbind(x.unsqueeze(2), 1), 0).view(torch.int16) * 2


@readers(lambda: [randn(2, 3, 4)], inductor=True)
def viewed_flat(x):
    """``view`` refuses what is not contiguous."""
    return torch.stack(torch.unbind(x, 1)).view(-1) + 1, torch.cat(torch.unbind(x, 2)).view(3, 8)


@readers(lambda: [randn(4, 6)])
def pieces_stacked_then_viewed(x):
    return torch.stack(torch.split(x, 2, 1)).view(-1, 2), torch.cat(torch.split(x, 2, 1), 0).view(2, -1)


@readers(lambda: [randn(4, 6)])
def run_viewed(x):
    a, b, c = torch.split(x, 2, 1)
    return torch.cat([b, c], 1).view(16), torch.cat([a, b, c], 1).view(24)


@readers(lambda: [randn(4, 6)])
def turned_source_joined_then_viewed(x):
    y = x.t()
    return torch.cat(torch.split(y, 2, 1), 0).view(-1), torch.stack(torch.unbind(y, 1), 0).view(24)


@readers(lambda: [randn(2, 3, 4)])
def strides_asked_for(x):
    y = torch.stack(torch.unbind(x, 1))
    return y * y.stride(0), y.stride(), y.is_contiguous(), y.storage_offset()


@readers(lambda: [randn(4, 6)])
def contiguity_decides(x):
    y = torch.cat(torch.split(x, 2, 1), 0)
    z = torch.stack(torch.unbind(x, 1))
    return (y * 2 if y.is_contiguous() else y * 3), (z.view(-1) if z.is_contiguous() else z.reshape(-1))


@readers(lambda: [randn(2, 3, 4)], dynamic=False)
def read_by_given_strides(x):
    y = torch.stack(torch.unbind(x, 1))
    return torch.as_strided(y, (3, 4), (8, 1), 4), torch.cat(torch.split(x, 2, 2), 2).as_strided((5,), (3,), 2)


@readers(lambda: [randn(4, 6)], dynamic=False)
def run_read_by_given_strides(x):
    """The run starts at its own beginning, not at an offset in the source."""
    a, b, c = torch.split(x, 2, 1)
    return torch.as_strided(torch.cat([b, c], 1), (8,), (2,)), a + 1


@readers(lambda: many(2, 3, 4), fires=("batch_tanh",), dynamic=False)
def member_read_by_given_strides(a, b):
    p, q = torch.tanh(a), torch.tanh(b)
    return torch.as_strided(p, (4,), (3,)), torch.as_strided(q, (2, 2), (5, 1), 1), q.storage_offset()


@readers(lambda: [randn(2, 3, 4, dtype=torch.float64)], grad=False)
def reinterpreted(x):
    y = torch.stack(torch.unbind(x, 1))
    return y.view(torch.int64) & 1, torch.cat(torch.unbind(x, 2)).view(torch.float32).shape


@readers(lambda: [randn(2, 3, 4)])
def viewed_like_another(x):
    y = torch.stack(torch.unbind(x, 1))
    return y.view_as(x), y.unflatten(2, (2, 2)), y.flatten(1), y.reshape(6, 4)


@readers(lambda: [randn(2, 3, 4)])
def made_contiguous(x):
    """Contiguous already: the same tensor again, not another copy that is returned beside it."""
    y = torch.stack(torch.unbind(x, 1))
    return y.contiguous(), y


@readers(lambda: [randn(2, 3, 4)])
def contiguous_then_written(x):
    y = torch.stack(torch.unbind(x, 1))
    z = y.contiguous()
    z.mul_(2)
    return y + 1


@readers(lambda: [randn(2, 3, 4)])
def reshaped_then_written(x):
    """Eager's reshape of a contiguous stack is a view, so the write is seen."""
    y = torch.stack(torch.unbind(x, 1))
    y.reshape(-1)[0] = 9
    return y + 1, torch.flatten(y)


@readers(lambda: [randn(2, 3, 4)])
def flattened_and_returned_together(x):
    y = torch.cat(torch.unbind(x, 1), 1)
    return y, y.flatten(), y.reshape(2, 3, 4)


@readers(lambda: [randn(2, 3, 4, 4), randn(5, 3, 2, 2)])
def convolution_of_a_join(x, w):
    y = torch.cat(torch.split(x.to(memory_format=torch.channels_last), 1, 1), 1)
    return F.conv2d(y, w), y.is_contiguous(memory_format=torch.channels_last)


@readers(lambda: [randn(3, 4)])
def reshape_of_a_strided_slice(x):
    """https://github.com/pytorch/pytorch/issues/172693 Read by stride."""
    y = x.transpose(0, 1)[::2]
    return y.reshape(-1) + 1, y.reshape(2, -1)


@readers(lambda: [randn(2, 3, 4)])
def chain_of_readers(x):
    """Strides travel through several operators before somebody looks."""
    y = torch.stack(torch.unbind(x, 1))
    z = (y * 2).sin().neg()
    return z.view(-1), z.transpose(0, 1).contiguous().view(-1)


@readers(lambda: [randn(2, 3, 4)])
def long_chain_of_readers(x):
    y = torch.stack(torch.unbind(x, 1))
    for _ in range(40):
        y = y + 1
    return y.view(-1), torch.cat([y, y]).view(-1)


@readers(lambda: [randn(2, 3, 4)])
def layers_that_look(x):
    y = torch.stack(torch.unbind(x, 1))
    return torch.view_as_complex(y.unflatten(-1, (2, 2))).abs(), F.pixel_shuffle(
        torch.cat(torch.split(x.repeat(1, 1, 1), 1, 1)).unsqueeze(0)[:, :4], 2
    )


lazy = kind("conjugation and negation that wait", grad=False)


def complex_numbers(*shape: int) -> list[torch.Tensor]:
    return [torch.complex(randn(*shape), randn(*shape))]


@lazy(lambda: complex_numbers(2, 4))
def conjugate_joined_then_read_as_real(x):
    """A join carries its conjugation out, a view does not."""
    return torch.view_as_real(torch.cat(torch.split(x.conj(), 2, 1), 1)) + 1


@lazy(lambda: complex_numbers(2, 4))
def conjugate_stacked_then_read_as_real(x):
    return torch.view_as_real(torch.stack(torch.unbind(x.conj()))) * 2


@lazy(lambda: complex_numbers(2, 4))
def conjugate_joined_and_returned(x):
    y = torch.cat(torch.split(x.conj(), 2, 1), 1)
    return y, torch.stack(torch.unbind(x.conj(), 1)), y.is_conj()


@lazy(lambda: complex_numbers(2, 4))
def negated_part_reinterpreted(x):
    y = x.conj().imag
    return torch.cat(torch.split(y, 2, 1), 1).view(torch.int32) + 1, torch.stack(torch.unbind(y)).view(torch.int32) + 1


@lazy(lambda: complex_numbers(2, 4))
def conjugate_written(x):
    y = x.conj()
    z = torch.cat(torch.split(y, 2, 1), 1)
    y.mul_(2)
    return z + 1, x


@lazy(lambda: [*many(2, 3, 4, 2), *many(2, 5, 4, 2)], grad=True)
def conjugates_in_linears(a, b, u, v):
    a, b, u, v = (torch.view_as_complex(t) for t in (a, b, u, v))
    out = F.linear(a, u), F.linear(b, v.conj()), F.linear(a.conj(), v), F.linear(b.conj(), u.conj())
    return torch.view_as_real(torch.stack(out))
