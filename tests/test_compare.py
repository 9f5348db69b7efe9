"""What two runs may differ in, and what not."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fuzz.program import Input
from verify.compare import Reference, Run, compare, differences, observe, reference
from verify.rounding import RandomRounding


def judged(before: list[float], after: list[float], gradient: bool) -> list[str]:
    """What is said of an output, or a gradient, that was to be as before."""
    one, other = ([torch.tensor(x)] for x in (before, after))
    exact, noise = [one[0].double()], [torch.zeros(len(before), dtype=torch.float64)]
    if gradient:
        runs = [Run([], [], [], [], [], gradients=g) for g in (one, other)]
        return differences(*runs, Reference([], exact, [], noise), bitwise=False)
    runs = [Run(o, [(1,)], [False], [""], []) for o in (one, other)]
    return differences(*runs, Reference(exact, [], noise, []), bitwise=False)


def test_partial_sums_overflow_in_one_order_and_not_in_another():
    """Five linears of one input: its gradient is a sum of products, some of them infinite, others near the largest number."""

    def apart(x, *rest):
        weights, biases = rest[:5], rest[5:]
        return torch.stack([F.linear(x, w, bias=b) for w, b in zip(weights, biases, strict=True)], -1)

    def joined(x, *rest):
        weights, bias = torch.stack(rest[:5]).transpose(1, 2), torch.stack(rest[5:]).unsqueeze(1)
        return torch.stack(torch.baddbmm(bias, x.unsqueeze(0).expand(5, -1, -1), weights).unbind(0), -1)

    def inputs():
        special = [Input(f"x{k}", (2, 2), torch.float32, special=True, seed=k) for k in range(6)]
        return [i.make() for i in (*special, *(Input(f"x{k}", (2,), torch.float32, seed=k) for k in range(6, 11)))]

    assert compare(apart, joined, inputs, bitwise=False) == []


def test_infinities_and_nan():
    nan, inf = float("nan"), float("inf")
    for before, after in ((1.0, nan), (1.0, inf), (inf, 1.0), (nan, 1.0), (inf, -inf)):
        assert len(judged([1.0, before], [1.0, after], gradient=False)) == 1
        assert len(judged([1.0, before], [1.0, after], gradient=True)) == 1
    for before, after in ((inf, nan), (nan, inf)):
        assert len(judged([1.0, before], [1.0, after], gradient=False)) == 1
        assert judged([1.0, before], [1.0, after], gradient=True) == []


def test_a_sum_that_cancels_is_judged_by_what_rounds_its_terms():
    """Twenty products that nearly cancel: the order of the sum matters more than a few moves of the inputs show."""

    def forwards(*terms):
        return sum(terms[1:], terms[0])

    def backwards(*terms):
        return sum(terms[-2::-1], terms[-1])

    def inputs():
        generator = torch.Generator().manual_seed(0)
        terms = [1e3 * torch.randn(2112, generator=generator, dtype=torch.float64) for _ in range(20)]
        last = 1e-3 * torch.randn(2112, generator=generator, dtype=torch.float64) - torch.stack(terms).sum(0)
        return [t.float() for t in (*terms, last)]

    assert compare(forwards, backwards, inputs, bitwise=False) == []


def test_more_moves_of_the_inputs_make_no_wrong_value_right():
    def doubled(x, y):
        return (x * y).sum(0)

    def off(x, y):
        return (x * y).sum(0) * (1 + 1e-4)

    def inputs():
        generator = torch.Generator().manual_seed(0)
        return [torch.rand(20, 50, generator=generator) for _ in range(2)]

    assert len(compare(doubled, off, inputs, bitwise=False)) == 1


def attention(x, w, bias, scale=1.0):
    """Of which no key's bias moves the result: a softmax does not see what is added to all that it compares."""
    return torch.softmax((x @ w) @ (x @ w + bias).t(), -1) @ x + (scale - 1) * bias.sum()


def attended():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in ((8, 16), (16, 16), (16,))]


def test_a_gradient_that_cancels_is_judged_by_what_rounds_its_terms():
    """The gradient of the bias of a key is 0 whatever the inputs are: moving them does not show what rounding makes of it."""

    def in_parts(x, w, bias):
        keys = torch.cat([part @ w + bias for part in x.split(3)])
        return torch.cat([torch.softmax((part @ w) @ keys.t(), -1) for part in x.split(2)]) @ x

    run = observe(attention, attended())
    outside, inside = (reference(attention, attended(), run, inside=i) for i in (False, True))
    assert outside.gradient_noise[2].max() < 1e-13
    assert 1e-8 < inside.gradient_noise[2].max() < 1e-5
    assert compare(attention, in_parts, attended, bitwise=False) == []
    (line,) = [d for d in compare(attention, lambda *given: attention(*given, scale=1 + 1e-5), attended, bitwise=False) if "gradient" in d]
    assert line.startswith("gradient 2: 16 of 16 elements differ")
    assert "times what is allowed" in line


def test_numbers_of_rows_are_not_moved():
    """A number of a row that is kept as a float would read another row, which would excuse anything."""

    def looked_up(rows, table, scale=1.0):
        return table[rows[:, 0].long()] * rows[:, 1:] * scale

    def inputs():
        generator = torch.Generator().manual_seed(0)
        rows = torch.cat([torch.randint(0, 9, (20, 1), generator=generator).float(), torch.rand(20, 1, generator=generator)], 1)
        return [rows, torch.randn(9, 4, generator=generator).requires_grad_()]

    found = compare(looked_up, lambda *given: looked_up(*given, scale=1 + 1e-4), inputs, bitwise=False)
    assert [line.partition(":")[0] for line in found] == ["output 0", "gradient 0"]


def test_values_inside_are_rounded_once_each_to_a_number_beside_them():
    given = torch.tensor([1 / 3, 0.5, 7.0, float("inf"), 1e300], dtype=torch.float64)
    seen = set()
    with RandomRounding(torch.float32, torch.Generator().manual_seed(0)):
        for _ in range(20):
            found = given * 1
            again = torch.cat([found, found])[:5]
            assert torch.equal(again, found)
            written = torch.zeros(5, dtype=torch.float64).add_(given)
            seen |= {float(found[0]), float(written[0])}
            assert torch.equal(found[1:], given[1:])
    assert all(float(torch.tensor(x)) == x and abs(x - 1 / 3) <= 1.5 * 2**-25 for x in seen)  # a step of float32 at 1/3
    assert len(seen) > 1


def test_what_a_program_makes_anew_is_float64_where_it_must_be():
    def filled(x):
        found = torch.zeros(4)
        found[torch.tensor([1, 3])] = x
        return found * 3

    def inputs():
        return [torch.rand(2, generator=torch.Generator().manual_seed(0)).requires_grad_()]

    found = reference(filled, inputs(), observe(filled, inputs()))
    assert found.by == "float64"
    assert found.outputs[0].dtype is torch.float64
    assert torch.get_default_dtype() is torch.float32
