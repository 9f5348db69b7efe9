"""All pieces joined in order were returned as the input itself."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(7, 3, 2),)


def program(x):
    """The result is a new tensor."""
    parts = torch.split(x, 1, 0)
    return torch.cat([parts[i] for i in range(9) if i < 7], 0)
