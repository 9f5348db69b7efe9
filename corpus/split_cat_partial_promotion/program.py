"""Strangers were joined among themselves first, in a type too narrow for the whole numbers."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return torch.randint(2**24, 2**25, (3, 4)), torch.randn(3, 2).half(), torch.randn(3, 2)


def program(x, h, y):
    """Every input goes straight to the type of the result."""
    a, b = torch.split(x, 2, dim=1)
    return torch.stack([a, b, h, y], dim=1), torch.cat([h, a, b, y], dim=0), torch.cat([a, b, h, y], dim=1)
