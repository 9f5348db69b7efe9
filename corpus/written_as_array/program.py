"""A write through a NumPy view of a tensor was not seen."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 6),)


def program(x):
    """An unknown operator may write all that it is given."""
    z = torch.cat(torch.split(x, 2, 1), 1)
    array = x.numpy()
    array[0] = 7
    return z * 2
