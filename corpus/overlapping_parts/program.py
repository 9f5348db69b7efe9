"""Parts of tensor_split at falling places were taken for sections that add up."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 10, requires_grad=True),)


def program(x):
    """They overlap, and are left alone."""
    a, b, c = torch.tensor_split(x, (7, 3), dim=1)
    return torch.cat([a, c], dim=1).sin(), torch.cat([a, b, c], dim=1), b
