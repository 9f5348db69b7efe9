"""Sections that depend on values were taken for constants."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return torch.randn(9, 2, requires_grad=True), torch.tensor([6, 3])


CAPTURE = True


def program(x, counts):
    """Exact at run time."""
    a, b = counts.tolist()
    left, right = torch.split(x, [a, b])
    return left.sum(0), right * 2, torch.cat([left, right]) * 2
