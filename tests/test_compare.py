"""What two runs may differ in, and what not."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fuzz.program import Input
from verify.compare import Reference, Run, compare, differences


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
