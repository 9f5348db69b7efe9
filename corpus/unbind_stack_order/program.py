"""Slices in another order, or one of them twice, became the whole."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 2, 4, requires_grad=True),)


def program(x):
    """The order of the slices counts."""
    a, b, c = torch.unbind(x)
    return torch.cat([b, a, c]) + 1, torch.stack([b, a, c]) * 2, torch.stack([c, b, a, b])
