"""A single column kept its wide stride, which a change of the element's width refuses."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(1, 4),)


def program(x):
    """A new tensor has contiguous strides, dimensions of extent 1 included."""
    return torch.cat(torch.split(x.t(), 2, 0), 0).view(torch.float16) + 1
