"""Subjects that rewrite ATen-IR: their programs are lowered first, and both graphs of each are rewritten.

What is judged are the forward graph and the joint graph of outputs and gradients, for in production the pass meets the forward
and the backward part of the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from optimus.journal import Journal
from optimus.pattern import IR, Exactness
from optimus.values import tensor
from verify.compare import compare
from verify.lowering import Lowered, lower
from verify.running import forward, runner
from verify.subject import Subject, rewritten, unchanged


def is_lowered(subject: Subject) -> bool:
    """Whether ``subject`` rewrites ATen-IR."""
    return subject.ir is IR.ATEN


def start(subject: Subject, gm: GraphModule) -> GraphModule:
    """The graph that ``subject`` is given of a captured program: itself, or its forward graph at ATen-IR.

    Raises :class:`verify.lowering.LoweringError` where there is none.
    """
    return lower(gm).forward if is_lowered(subject) else gm


def rewritten_both(subject: Subject, before: Lowered) -> tuple[Lowered, Journal, Journal]:
    """What ``subject`` makes of copies of both graphs, and the journals. Raises :class:`verify.subject.PassError`."""
    forward, journal = rewritten(subject, before.forward)
    joint, of_joint = rewritten(subject, before.joint)
    return replace(before, forward=forward, joint=joint), journal, of_joint


def compare_lowered(before: Lowered, after: Lowered, make_inputs: Callable[[], Sequence[Any]], exactness: Exactness) -> list[str]:
    """What the graphs of two programs do differently on the same inputs, gradients for the same random cotangents included."""
    bitwise = exactness is Exactness.BITWISE
    found = []
    for what, one, other in (("", before.forward, after.forward), ("with gradients, ", before.joint, after.joint)):
        if not unchanged(one, other):
            found += [what + line for line in compare(runner(one), forward(other), _inputs(one, make_inputs), bitwise=bitwise)]
    return found


def _inputs(gm: GraphModule, make_inputs: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
    """New inputs for ``gm``: those of the program, cut off from autograd, and cotangents for the rest of its placeholders."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))

    def make() -> list[Any]:
        given = [i.detach() if isinstance(i, torch.Tensor) else i for i in make_inputs()]
        generator = torch.Generator().manual_seed(1)
        return given + [_cotangent(tensor(node), generator) for node in placeholders[len(given) :]]

    return make


def _cotangent(fake: torch.Tensor | None, generator: torch.Generator) -> torch.Tensor:
    assert fake is not None
    shape, stride = (tuple(s if isinstance(s, int) else s.node.hint for s in sizes) for sizes in (fake.shape, fake.stride()))
    made = torch.empty_strided(shape, stride, dtype=fake.dtype)
    return made.copy_(torch.randn(shape, generator=generator))
