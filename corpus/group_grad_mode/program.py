"""Members outside of a region without gradients were computed inside, and lost their gradients."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return tuple(torch.randn(3, 4, requires_grad=True) for _ in range(6))


def program(*xs):
    """A member keeps its region."""
    a = [torch.tanh(x) for x in xs[:3]]
    with torch.no_grad():
        b = [torch.tanh(x) for x in xs[3:]]
    return torch.cat(a), torch.cat(b)
