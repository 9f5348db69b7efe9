"""The buffer given to a member was forgotten."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return torch.zeros(3, 4), *(torch.randn(3, 4) for _ in range(5))


def program(buffer, *xs):
    """The buffer is written."""
    y = torch.tanh(xs[0], out=buffer)
    return torch.stack([y] + [torch.tanh(x) for x in xs[1:]]) * 2, buffer + 1
