"""Members that write their operand wrote a stack of copies."""

import torch
import torch.nn.functional as F


def make_inputs():
    """The same inputs every time."""
    torch.manual_seed(0)
    return tuple(torch.randn(3, 4) for _ in range(5))


def program(*xs):
    """The operands are written."""
    ys = [x + 0 for x in xs]
    return torch.cat([F.relu(y, inplace=True) for y in ys]), torch.cat(ys), torch.cat([y.tanh_() for y in ys])
