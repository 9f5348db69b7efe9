"""Parts made by tensor_split may be written in training, those made by split may not."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 4, requires_grad=True),)


def program(x):
    """A view of one stays a view of one."""
    y = x * 1
    a, b = torch.tensor_split(y, 2, 1)
    a.mul_(2)
    return y, b + 1
