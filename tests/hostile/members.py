"""Element-wise functions side by side, each kind of danger for each function; linears that read one input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.registry import ints, kind, many, randn, trained

Function = Callable[[torch.Tensor], torch.Tensor]

FUNCTIONS: dict[str, Function] = {
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "clamp": lambda x: torch.clamp(x, -0.5, 0.5),
    "nan_to_num": lambda x: torch.nan_to_num(x, 7.0, 8.0, -8.0),
    "detach": lambda x: x.detach() * 2,
}

alike = kind("one function of many tensors", dynamic=False)


def each(inputs: Callable[[], Sequence[Any]], fires: bool = True, but: Sequence[str] = (), **options: Any) -> Callable[..., None]:
    """Register a program of a function and tensors once for each function, all but some; ``fires``: the pattern of it has to apply."""

    def register(body: Callable[..., Any]) -> None:
        for name, function in FUNCTIONS.items():
            if name in but:
                continue

            def program(*xs: Any, function: Function = function) -> Any:
                return body(function, *xs)

            program.__name__, program.__doc__ = f"{name}_{body.__name__}", body.__doc__
            program.__module__ = body.__module__
            alike(inputs, fires=(f"batch_{name}",) if fires else (), **options)(program)

    return register


def special(*shape: int) -> torch.Tensor:
    """Numbers at which functions break: NaN, infinities, both zeros, the smallest and the largest."""
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38, 0.5, -0.5, 7.0])
    return odd[torch.randint(0, len(odd), shape)]


@each(lambda: many(3, 3, 4), dynamic=True, other=lambda: many(3, 5, 7))
def joined(f, *xs):
    return torch.cat([f(x) for x in xs], 1), torch.stack([f(x + 1) for x in xs])


@each(lambda: [*many(2, 3, 5, dtype=torch.bfloat16), *many(3, 3, 5), *many(2, 3, 5, dtype=torch.float64)])
def of_three_precisions(f, *xs):
    return tuple(f(x) + 1 for x in xs)


@each(lambda: [trained(randn(3, 4)) if i % 2 else randn(3, 4) for i in range(5)], grad=False)
def of_trained_and_frozen(f, *xs):
    """Frozen inputs get no gradient, and what they make requires none."""
    return tuple(f(x) * 2 for x in xs)


@each(lambda: many(6, 3, 4))
def with_and_without_gradients(f, *xs):
    with torch.no_grad():
        cut = [f(x) * 2 for x in xs[:3]]
    return (*cut, *(f(x) * 3 for x in xs[3:]))


@each(lambda: many(3, 3, 4), fires=False, grad=False)
def with_writes_in_between(f, x, y, z):
    """Each member reads its operand as it was then."""
    a = f(x) + 1
    x.add_(1)
    b = f(y) + 1
    y.copy_(x)
    z[0] = 9
    return a, b, f(x) + 1, f(y) + 1, f(z) + 1


@each(lambda: many(3, 3, 4), fires=False, but=("detach",))
def with_results_written(f, x, y, z):
    """In training, too: no result is a view of several."""
    a, b, c = f(x), f(y), f(z).clone()
    c.mul_(2)
    d = a + b
    d[0] = 1
    return c, d, F.relu(d * 2, inplace=True)


@each(lambda: [randn(3, 5), randn(5, 3), randn(3, 5), randn(5, 3)])
def of_turned_matrices(f, x, y, z, w):
    """A result keeps the strides of its operand."""
    return f(x) + 1, f(y.t()) + 1, f(z) + 1, f(w.t()) + 1, f(y.t()[:, :4]) + 1


@each(lambda: many(3, 3, 4), but=("detach",))
def returned(f, *xs):
    return tuple(f(x) for x in xs), [f(x + 1) for x in xs]


@each(lambda: [special(4, 9) for _ in range(4)])
def of_special_values(f, *xs):
    """The gradient at a bound, at either zero, and where nothing is a number."""
    return torch.cat([f(x) for x in xs])


@each(lambda: [randn(), randn(), randn(1), randn(1), randn(0, 3), randn(0, 3)])
def of_numbers_and_of_nothing(f, *xs):
    return tuple(f(x) + 1 for x in xs)


@each(lambda: [randn(3, 8), randn(8)], but=("detach",))
def of_views_of_one(f, x, row):
    a, b = torch.split(x, 4, 1)
    return f(a) * f(b), f(x) + f(row.expand(3, 8)), f(a.contiguous()) + 1


@each(lambda: many(4, 2, 3), dynamic=True, other=lambda: [*many(2, 2, 3), *many(2, 3, 2)])
def equal_by_chance(f, *xs):
    """Of one shape the first time, and not the second."""
    return tuple(f(x) * 2 for x in xs)


rests = kind("what tells members of one function apart", dynamic=False)


@rests(lambda: many(8, 3, 4), fires=("batch_relu",))
def relu_in_every_spelling(a, b, c, d, e, f, g, h):
    return a.relu() + torch.relu(b) + F.relu(c) + F.relu(input=d) + F.relu(e, False) + F.relu(f, inplace=False) + torch.relu(input=g) + nn.ReLU()(h)


@rests(lambda: many(6, 3, 4), fires=("batch_relu",))
def relu_in_place_among_others(a, b, c, d, e, f):
    """Two write their operand, which is read afterwards; four do not."""
    p, q = e * 1, f + 0
    written = F.relu(p, inplace=True) * torch.relu_(q)
    return torch.cat([F.relu(a), F.relu(b), F.relu(c), F.relu(d), p, q, written])


@rests(
    lambda: [ints(3, 4, low=-(2**60), high=2**60), ints(3, 4, low=-(2**60), high=2**60), ints(3, 4, dtype=torch.int8), ints(3, 4, dtype=torch.int8)]
)
def relu_of_large_whole_numbers(*xs):
    return tuple(torch.relu(x) + 0 for x in xs)


@rests(lambda: [ints(3, 4), ints(3, 4), ints(3, 4, dtype=torch.int32), randn(3, 4) > 0, randn(3, 4)], fires=("batch_sigmoid",))
def sigmoid_of_what_is_not_real(*xs):
    """Whole numbers and flags give float32."""
    return tuple(torch.sigmoid(x) * 2 for x in xs)


@rests(lambda: many(6, 7, 3), fires=("batch_sigmoid",), inductor=True)
def sigmoid_in_every_spelling(a, b, c, d, e, f):
    return a.sigmoid() + torch.sigmoid(b) * torch.sigmoid(input=c) - torch.special.expit(d) + F.sigmoid(e) + nn.Sigmoid()(f)


@rests(lambda: [*many(3, 3, 4), torch.zeros(3, 4)], grad=False)
def sigmoid_into_a_buffer(x, y, z, out):
    p = torch.sigmoid(x, out=out)
    return p + torch.sigmoid(y), out * 2, torch.sigmoid(z) + p


@rests(lambda: many(4, 3, 4), grad=False, fires=("batch_sigmoid",))
def sigmoid_under_autocast(a, b, c, d):
    with torch.autocast("cpu", torch.bfloat16):
        p, q = torch.sigmoid(a @ b.t()), torch.sigmoid(c @ d.t())
    return p + q, torch.sigmoid(p) + 1, torch.sigmoid(a) + torch.sigmoid(b)


@rests(lambda: many(8, 3, 4), fires=("batch_clamp",))
def clamp_with_one_bound_each(a, b, c, d, e, f, g, h):
    """Equal numbers are one bound whatever they are called by, ``min`` is not ``max``, and 0 is not False."""
    low = torch.clamp(a, 0) + torch.clamp(b, min=0) * c.clamp(0, None)
    return low, torch.clamp(d, max=0) + torch.clamp(e, None, 0), torch.clip(f, 0, 1) + g.clip(min=0, max=1), torch.clamp(h, 0.0)


@rests(lambda: [special(3, 4) for _ in range(4)])
def clamp_between_zeros(a, b, c, d):
    """The bounds are -0.0 and 0.0, and one pair is upside down."""
    return torch.clamp(a, min=-0.0), torch.clamp(b, min=0.0), torch.clamp(c, max=-0.0), torch.clamp(d, 1.0, -1.0)


@rests(lambda: [ints(3, 4), ints(3, 4), *many(2, 3, 4), ints(3, 4), ints(3, 4)], fires=("batch_clamp",))
def clamp_that_changes_the_type(a, b, c, d, e, f):
    """A bound that is no whole number makes whole numbers real."""
    return torch.clamp(a, min=0) + 0, torch.clamp(b, min=0) + 0, torch.clamp(c, min=0) + 0, torch.clamp(d, min=0.5), torch.clamp(e, 0.5), f.clamp(0.5)


@rests(lambda: [*many(4, 4, 4), randn(4), randn(4)])
def clamp_by_rows_of_tensors(a, b, c, d, low, high):
    """A bound with as many entries as there are members would fit the wrong dimension."""
    return tuple(torch.clamp(x, low.abs().neg(), high.abs()) for x in (a, b, c, d)), torch.clamp(a, low[0]), torch.clamp(b, low[1])


@rests(lambda: [special(3, 4) for _ in range(6)], fires=("batch_nan_to_num",))
def replaced_by_position_and_by_name(a, b, c, d, e, f):
    return torch.nan_to_num(a, 1.0), b.nan_to_num(1.0), torch.nan_to_num(c, nan=1.0), torch.nan_to_num(d), e.nan_to_num(0.0), f.nan_to_num(posinf=1.0)


@rests(lambda: [*(special(3, 4) for _ in range(2)), *(special(3, 4).double() for _ in range(2)), *(special(3, 4).half() for _ in range(2))])
def replaced_by_the_largest_of_each_type(*xs):
    """Infinities become the largest number of their own type."""
    return tuple(torch.nan_to_num(x) for x in xs)


@rests(lambda: many(4, 3, 4), grad=False, fires=("batch_detach",))
def detached_and_written_elsewhere(a, b, c, d):
    """What is written shares memory with what was detached; the other two do not."""
    p, q = a.detach(), b.detach()
    p.add_(1)
    b.mul_(2)
    return a + p, q * 2, c.detach() + d.detach(), c * 2


@rests(lambda: many(3, 3, 4))
def detached_and_returned(a, b, c):
    """What is returned still shares the memory of the input."""
    return a.detach(), b.detach(), c.detach() * 2


@rests(lambda: many(3, 3, 4))
def detached_views_and_their_sources(a, b, c):
    y, z = a * 2, b * 2
    p, q = y.detach(), z[1:].detach()
    y.add_(1)
    return p * 3, q + 1, y, z, torch.detach(c).sum()


rows = kind("linears of one input", dynamic=False)


@rows(
    lambda: [randn(3, 4), randn(5, 4), randn(2, 4), randn(1, 4)],
    fires=("batch_linear_lhs",),
    dynamic=True,
    other=lambda: [*many(2, 2, 3), *many(2, 6, 3)],
)
def of_different_widths(x, u, v, w):
    """Rows of a result lie apart: ``view`` and strides must not notice."""
    a, b, c = F.linear(x, u), F.linear(x, v), F.linear(x, w)
    return a.view(-1), b.t().stride(), b.reshape(-1), c, a.is_contiguous()


@rows(lambda: [randn(3, 4), *many(3, 5, 4), *many(2, 5)], fires=("batch_linear_lhs",))
def some_with_bias(x, u, v, w, a, b):
    return F.linear(x, u, a) + F.linear(x, v, bias=b), F.linear(x, w) * 2, F.linear(input=x, weight=u)


@rows(lambda: [randn(4, 3), *many(3, 4, 3), randn(1), randn(), randn(4, 4)], grad=False)
def with_biases_of_other_shapes(x, u, v, w, one, number, matrix):
    """As many rows as columns: a bias in the wrong direction is silent."""
    return F.linear(x, u, one), F.linear(x, v, number), F.linear(x, w, matrix)


@rows(lambda: [randn(3, 4), *many(3, 4, 4)], grad=False)
def linears_with_writes_in_between(x, u, v, w):
    a = F.linear(x, u)
    v.add_(1)
    b = F.linear(x, v)
    x.mul_(2)
    return a + b, F.linear(x, w), F.linear(x, u)


@rows(lambda: [randn(3, 4), *many(3, 5, 4)], fires=("batch_linear_lhs",))
def linears_with_results_written(x, u, v, w):
    """In training: a section of the joint result is a view of several."""
    a, b, c = F.linear(x, u), F.linear(x, v), F.linear(x, w)
    a.add_(1)
    b[0] = 2
    c.view(-1)[3:].mul_(3)
    return a, b, F.relu(c, inplace=True)


@rows(
    lambda: [randn(3, 4), trained(randn(5, 4)), randn(2, 4), trained(randn(5, 4)), randn(3, 4), trained(randn(5)), randn(2), randn(5)],
    grad=False,
)
def linears_of_trained_and_frozen(x, u, v, w, z, a, b, c):
    """No gradient reaches the frozen ones, nor is one of zeros made up."""
    return F.linear(x, u, a), F.linear(x, v, b), F.linear(x, w, c), F.linear(x, z)


@rows(lambda: [randn(3, 4), *many(4, 5, 4)], fires=("batch_linear_lhs",))
def inside_and_outside_regions(x, u, v, w, z):
    with torch.no_grad():
        a, b = F.linear(x, u), F.linear(x, v)
    with torch.autocast("cpu", torch.bfloat16):
        c, d = F.linear(x, w), F.linear(x, z)
    return a + b, c, d, F.linear(x, u) * 1


@rows(lambda: [randn(4), randn(2, 3, 4), *many(2, 5, 4), randn(0, 4)], fires=("batch_linear_lhs",))
def of_other_ranks(x, y, u, v, e):
    """A vector, a stack of matrices, and a weight without rows."""
    return F.linear(x, u), F.linear(x, v), F.linear(y, u), F.linear(y, v), F.linear(y, e)


@rows(lambda: [randn(4, 4), randn(4, 4)], fires=("batch_linear_lhs",))
def of_itself(x, w):
    return F.linear(x, x), F.linear(x, w), F.linear(x, w), F.linear(x, w.t()), F.linear(w, x)


@rows(lambda: [randn(3, 4)], module=True, fires=("batch_linear_lhs",), inductor=True)
def queries_keys_values():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(4, 8, bias=False), nn.Linear(4, 8, bias=False), nn.Linear(4, 6)

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            weights = torch.softmax(q.view(3, 2, 4).transpose(0, 1) @ k.view(3, 2, 4).permute(1, 2, 0), -1)
            return (weights @ v.view(3, 2, 3).transpose(0, 1)).transpose(0, 1).reshape(3, 6)

    return Model()


@rows(lambda: [randn(3, 4), *many(2, 5, 4)], fires=("batch_linear_lhs",))
def one_needs_the_other(x, u, v):
    a = F.linear(x, u)
    return F.linear(x, v * a.sum()), a, F.linear(x, v), F.linear(x, u.detach())


layouts = kind("functions that round by place", dynamic=False)


@layouts(lambda: [randn(3, 5, 7)], fires=("unbind_stack_pass",))
def stack_read_by_functions_of_vectors(x):
    """The CPU computes the end of a block in another way than its beginning: a result moves with the strides of its operand."""
    y = torch.stack(torch.unbind(x, 0), 1)
    return torch.sigmoid(y), F.silu(y), F.gelu(y), F.softplus(y), F.elu(y), torch.pow(y.abs(), 1.7), y**2


@layouts(lambda: [randn(5, 21)], fires=("split_cat_pass",))
def moved_join_read_by_functions_of_vectors(x):
    y = torch.cat(torch.split(x, 7, 1), 0)
    return torch.sigmoid(y), F.mish(y), torch.sinh(y), F.selu(y), torch.exp2(y), torch.atan2(y, y + 1)


@layouts(lambda: [randn(3, 5, 7, dtype=torch.bfloat16)], fires=("unbind_stack_pass",))
def stack_read_in_half_precision(x):
    y = torch.stack(torch.unbind(x, 0), 2)
    return torch.add(y, y.abs(), alpha=0.3), torch.rsqrt(y.abs() + 1), F.gelu(y), y.tanh()
