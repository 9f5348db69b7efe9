"""A join became a view at an offset, and as_strided counts from the start of the storage."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return torch.randn(5, 4)[1:4], torch.randn(3, 4)


def program(x, y):
    """A new tensor starts its storage."""
    p, q = torch.tanh(y), torch.tanh(y * 2)
    return torch.as_strided(torch.cat(torch.split(x, 2, 1), 1), (5,), (2,), 1) * 2, torch.as_strided(q, (4,), (2,), 0), p * q
