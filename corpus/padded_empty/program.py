"""A product without rows came back with the strides of the padded one."""

import torch


def make_inputs():
    """The same inputs every time."""
    return torch.ones(0, 6), torch.ones(6, 6)


def program(x, y):
    """Rows of what is empty are as far apart as there are columns."""
    return torch.mm(x, y)
