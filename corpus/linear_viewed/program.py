"""Rows of one joint product lie apart, and a view of a result failed."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 4, requires_grad=True), *(torch.randn(5, 4, requires_grad=True) for _ in range(3)))


def program(x, u, v, w):
    """Results are contiguous where somebody can tell."""
    return F.linear(x, u).view(15), F.linear(x, v).view(-1), F.linear(x, w)
