"""Biases that are a number, one entry, or a matrix were stacked as if they were rows."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (
        *(torch.randn(4, 3) for _ in range(4)),
        *(torch.randn(4, 3) for _ in range(4)),
        torch.randn(1),
        torch.randn(4),
        torch.randn(4, 4),
        torch.randn(()),
    )


def program(*t):
    """A bias broadcasts against the result."""
    return tuple(F.linear(t[i], t[4 + i], t[8 + i]) for i in range(4))
