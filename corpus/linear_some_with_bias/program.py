"""Linears with and without a bias in one graph."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (
        *(torch.randn(5, 4, requires_grad=True) for _ in range(6)),
        *(torch.randn(4, 4, requires_grad=True) for _ in range(6)),
        *(torch.randn(4, requires_grad=True) for _ in range(3)),
    )


def program(*t):
    """Each result has its own bias, or none."""
    return tuple(F.linear(t[i], t[6 + i], t[12 + i // 2] if i % 2 else None) for i in range(6))
