"""Pieces 0, 1 and 3 of a split were merged, so that readers of the others got a neighbour's piece."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 10, requires_grad=True),)


def program(x):
    """Every reader gets its own piece."""
    p = torch.split(x, 2, dim=1)
    return torch.cat([p[0], p[1], p[3]], dim=1), p[2] * p[4]
