"""Parts of one tensor that are taken one by one become the pieces of one cut, however often and in which order they are taken."""

from __future__ import annotations

import pytest
import torch

import optimus
from optimus.capture import capture
from optimus.plan import Plan


def in_order(x):
    return torch.cat([x[:, :2], x[:, 2:5], x[:, 5:]], dim=1).sin()


def out_of_order(x):
    last, first = x[:, 5:], x[:, :2]
    return torch.cat([first, x[:, 2:5]], dim=1).sin(), last * 2


def first_taken_again(x):
    once, twice = x[:, :2] * 2, x[:, :2] * 3
    return once + twice, torch.cat([x[:, :2], x[:, 2:5]], dim=1), x[:, 5:] * 2, x[:, 2:5] + 1


def rows_taken_again(x):
    once = x[0] * 2
    return torch.stack([x[0], x[1]]), x[2] + once, x[3] * 2, x[2] * 3


@pytest.mark.parametrize(
    ("program", "cut"), [(p, torch.split) for p in (in_order, out_of_order, first_taken_again)] + [(rows_taken_again, torch.unbind)]
)
def test_one_cut_for_all(program, cut):
    x = torch.arange(24.0).reshape(4, 6)
    (found,) = capture(program, (x,))
    journal = optimus.rewrite(found.gm, Plan.of("normalization_pass"))
    assert journal.fired("normalization_pass")
    assert [n.target for n in found.gm.graph.nodes].count(cut) == 1
    for one, other in zip(torch.utils._pytree.tree_leaves(program(x)), found.gm(x), strict=True):
        assert torch.equal(one, other)


def test_first_parts_of_several_sizes():
    def program(x):
        return torch.cat([x[:, :3], x[:, 3:]], dim=1).sin(), x[:, :2] * 2, x[:, :3] * 2

    x = torch.randn(4, 6)
    (found,) = capture(program, (x,))
    assert optimus.rewrite(found.gm, Plan.of("normalization_pass")).fired("normalization_pass")
    for one, other in zip(program(x), found.gm(x), strict=True):
        assert torch.equal(one, other)
