"""A stack along another dimension scrambled the elements."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return torch.randn(3, 2, 4, requires_grad=True), torch.randn(3, requires_grad=True)


def program(x, numbers):
    """One dimension moves."""
    stacks = torch.stack(torch.unbind(x, 0), 1), torch.stack(torch.unbind(x, 1), 0), torch.stack(torch.unbind(x, 0), 2)
    return tuple(s + 1 for s in stacks), torch.stack(torch.unbind(numbers)) + 1
