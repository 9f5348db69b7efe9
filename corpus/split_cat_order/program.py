"""Pieces joined in another order became the tensor they were cut from."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 8, requires_grad=True),)


def program(x):
    """The join permutes the columns."""
    first, second, third = torch.split(x, [4, 1, 3], dim=1)
    return torch.cat((second, third, first), dim=1)
