"""An inner extent of zero."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (
        *(torch.randn(2, 3, 0) for _ in range(2)),
        *(torch.randn(4, 0) for _ in range(2)),
        *(torch.randn(4, requires_grad=True) for _ in range(2)),
    )


def program(a, b, u, v, p, q):
    """The product is zero, and only the bias is left."""
    return F.linear(a, u, p), F.linear(b, v, q)
