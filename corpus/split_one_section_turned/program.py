"""The only piece became the input itself, which then was turned in place."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (torch.randn(3, 4),)


def program(x):
    """The piece is an object of its own."""
    piece = torch.split(x, [4], dim=1)[0]
    piece.t_()
    return piece * 2, x.sum(0)
