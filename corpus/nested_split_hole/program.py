"""A piece that nobody reads was not counted."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(2, 12, requires_grad=True),)


def program(x):
    """Numbers have holes where pieces are unused."""
    s = torch.split(x, [2, 2, 4, 4], dim=1)
    t = torch.split(s[2], [1, 3], dim=1)
    return s[0] + 1, t[0] * 2, t[1] * 3
