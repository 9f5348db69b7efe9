"""One trained member made all results of the group trained."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return tuple(torch.randn(3, 4, requires_grad=bool(i % 2)) for i in range(6))


def program(*xs):
    """Results are trained where eager's are."""
    return tuple(torch.tanh(x) for x in xs)
