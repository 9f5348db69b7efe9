"""Linears outside of autocast were computed inside."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return (*(torch.randn(3, 4, requires_grad=True) for _ in range(6)), *(torch.randn(4, 4, requires_grad=True) for _ in range(6)))


def program(*t):
    """A member keeps its region."""
    a = [F.linear(t[i], t[6 + i]) for i in range(3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = [F.linear(t[i], t[6 + i]) for i in range(3, 6)]
    return torch.cat(a), torch.cat(b)
