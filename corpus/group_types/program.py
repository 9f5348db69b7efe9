"""Members of different types were stacked, which promoted them all."""

import torch


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (
        *(torch.randn(3, 4).bfloat16().requires_grad_() for _ in range(2)),
        *(torch.randn(3, 4, requires_grad=True) for _ in range(3)),
        torch.randint(-9, 9, (3, 4)),
    )


def program(*xs):
    """Each result keeps its type."""
    return tuple(torch.tanh(x) for x in xs), tuple(torch.relu(x) for x in xs)
