"""What two runs may differ in, and what not."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fuzz.program import Input
from verify.compare import Reference, Run, compare, differences


def run(*outputs: torch.Tensor) -> Run:
    return Run(list(outputs), [o.stride() for o in outputs], [False] * len(outputs), [""] * len(outputs), [])


def judged(before: list[float], after: list[float], exact: list[float], noise: list[float]) -> list[str]:
    reference = Reference([torch.tensor(exact, dtype=torch.float64)], [], [torch.tensor(noise, dtype=torch.float64)], [])
    return differences(run(torch.tensor(before)), run(torch.tensor(after)), reference, bitwise=False)


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


def test_what_is_finite_stays_so():
    nan, inf = float("nan"), float("inf")
    assert judged([1.0, inf], [1.0, nan], [1.0, inf], [0.0, 0.0]) == []
    for before, after in ((1.0, nan), (1.0, inf), (inf, 1.0), (nan, 1.0)):
        assert len(judged([1.0, before], [1.0, after], [1.0, before], [0.0, 0.0])) == 1


def test_where_a_sum_cancels_the_rest_of_the_tensor_tells_the_noise():
    exact, noise = [1.0, 1.0, 1.0, 0.25], [1e-7, 1e-7, 1e-7, 0.0]
    assert judged(exact, [1.0, 1.0, 1.0, 0.25 + 5e-7], exact, noise) == []
    assert len(judged(exact, [1.0, 1.0, 1.0, 0.25 + 5e-6], exact, noise)) == 1
    assert len(judged([0.25], [0.25 + 5e-6], [0.25], [0.0])) == 1
