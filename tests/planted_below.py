"""Planted faults below graphs of operators: in saved values of 8 bits, on Inductor's scheduler nodes, and in the backward graph alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import optimus
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.passes.group_kernels import GroupKernels
from optimus.plan import Plan, lookup
from tests.broken.lowered import FactorDropped

QUANTISER = ActivationQuantization(size_in_mb=0, allowed_dtypes="float32", use_scaling=False)
"""Without steps it clamps: right only where no saved value is beyond 57,344."""


def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(s, generator=generator) * 0.3).requires_grad_() for s in ((6, 8), (8, 8), (8, 8))]


def saving(x, w, v):
    """Each round saves what its sine and its product read; what the second product of the third one reads is too large for the format."""
    for k in range(5):
        x = torch.cat(torch.split(x, [3, 5], 1), 1)
        y = torch.mm(x, w).sin()
        x = torch.mm(y * 1e6, v) * 1e-6 if k == 2 else y
    return x


def gradients(program, given):
    return torch.autograd.grad(program(*given).square().sum(), given)


def quantised(plan, compiler="aot_eager"):
    """Whether gradients are those of eager, but for what 8 bits round."""
    fast = torch.compile(saving, backend=optimus.backend, options={"plan": plan, "compiler": compiler})
    pairs = zip(gradients(fast, inputs()), gradients(saving, inputs()), strict=True)
    return all(bool((one - other).norm() <= 0.5 * other.norm()) for one, other in pairs)


TOO_LARGE = Plan((lookup("mutate_cat_pass"), QUANTISER))


@dataclass(frozen=True)
class ExpTurned(GroupKernels):
    """Where the loops of a group take an exponential, the joint one takes a sine."""

    name = "exp_turned"

    def rewrite(self, members, view):
        for node in members:
            for inner in node._body.root_block.graph.nodes:
                if inner.target == "exp":
                    inner.target = "sin"
        return super().rewrite(members, view)


def grouped(plan):
    """Whether five groups of three loops each, of a shape of their own, are right; the third takes exponentials."""

    def program(*xs):
        operators = (torch.tanh, torch.sin, torch.exp, torch.sigmoid, torch.cos)
        return tuple(op(x) + 1 for op, triple in zip(operators, zip(*[iter(xs)] * 3, strict=True), strict=True) for x in triple)

    given = [torch.randn(s, generator=torch.Generator().manual_seed(k)) for k, s in enumerate((4, n) for n in range(3, 8) for _ in range(3))]
    fast = torch.compile(program, backend=optimus.backend, options={"plan": plan})
    return all(torch.allclose(a, b, atol=1e-4) for a, b in zip(fast(*given), program(*given), strict=True))


TURNED = Plan((ExpTurned(),))


def sloped(plan):
    """Whether outputs and gradients are right where what is below autograd takes differences with a factor, in the backward pass alone."""
    fast = torch.compile(lambda x: Sloped.apply(x.sin()) * 2, backend=optimus.backend, options={"plan": plan, "compiler": "aot_eager"})
    x, y = (torch.linspace(-1, 1, 12).view(4, 3).requires_grad_() for _ in range(2))
    one, other = fast(x), Sloped.apply(y.sin()) * 2
    pairs = [(one, other), *zip(torch.autograd.grad(one.sum(), [x]), torch.autograd.grad(other.sum(), [y]), strict=True)]
    return [f"{k}" for k, (a, b) in enumerate(pairs) if not torch.allclose(a, b)]


class Sloped(torch.autograd.Function):
    """The identity with a gradient of differences."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        pairs = [(g[:2] * k, g[2:] * (k + 1)) for k in range(1, 9)]
        right = sum(torch.tanh(torch.cat([a - b, b - a])) for a, b in pairs[:6])
        return right + torch.cat([torch.sub(*pairs[6], alpha=3), torch.sub(*pairs[7], alpha=3)])


BACKWARDS = Plan((lookup("batch_aten_tanh"), FactorDropped(min_fuse_set_size=2)))
