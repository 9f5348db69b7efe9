"""A reader that makes a size of its own was run twice to compare strides, and left a size that nothing explains."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(2, 3, 4, requires_grad=True),)


CAPTURE = True


def program(x):
    """Such a reader counts as one that notices."""
    y = torch.stack(torch.unbind(x, 1))
    return y[y > 0] * 2
