from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import Cut, Join, cut_of, join_of
from optimus.operators import bound
from optimus.passes._aten import aten
from optimus.passes._sections import written_out
from optimus.pattern import IR, Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState


@fires("n, 3 * k")
def by_size(x, k):
    a, b, c = torch.split(x, k, 1)
    return a + 1, b * c


@fires("n, 10")
def with_a_remainder(x):
    a, b, c = torch.split(x, 4, 1)
    return a + b, c * 2


@fires("10, n")
def chunked(x):
    a, b, c = x.chunk(3)
    return a + b, c * 2


@fires("n, p + q")
def from_the_back(x, p, q):
    a, b = x.split([p, q], -1)
    return a + 1, b * 2


@fires("n, p", "n, q")
def joined(x, y):
    return torch.cat([x, y], -1)


@fires("p, n", "q, n")
def joined_by_default(x, y):
    return torch.cat([x, y]) + 1


@declines("already_normal", "n, p + q")
def normal(x, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    return torch.cat([b, a], dim=1)


@declines("plain_call", "n, p", "n, q", "n, p + q", grad=False)
def into_a_buffer(x, y, out):
    torch.cat([x, y], 1, out=out)
    return out * 2


@dataclass(frozen=True)
class NormalizationAten(VerticalPattern):
    """``split(x, k, -1)  ->  split_with_sizes(x, [k, .., remainder], 1)``, and ``cat([x, y], -1)  ->  cat([x, y], 1)``

    One spelling for each of ``split`` and ``cat``: sections as a list of their own sizes, dimensions counted from the front and
    written out. No other pattern here needs it; it makes graphs readable, and equal where they mean the same.

    Sound because only the spelling changes; the last section of an uneven split is as long as what is left. Stops at calls
    that write an argument (``out=``) and where a section has a symbolic size that no node computes.
    """

    name = "normalization_aten_pass"
    ir = IR.ATEN
    by_default = False
    anchors = frozenset({"split", "split_with_sizes", "cat"})
    exactness = Exactness.BITWISE
    requirements = {
        "already_normal": "the call is not in normal form yet",
        "plain_call": "the call writes no argument (in place or out=)",
    }
    cases = (by_size, with_a_remainder, chunked, from_the_back, joined, joined_by_default)
    declines = (normal, into_a_buffer)

    @staticmethod
    def general(rule: Rule) -> None:
        """Sections of one size with a remainder, written out; the other spellings name the same operator."""
        written_out(rule)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        if bound(node).writes:
            return Decline("plain_call")
        cut, join = cut_of(node), join_of(node)
        if cut is not None:
            normal = node.target is aten.split_with_sizes.default and node.args[2:] == (cut.dim,)
        elif join is not None:
            normal = node.target is aten.cat.default and node.args[1:] == (join.dim,)
        else:
            return None
        return Decline("already_normal") if normal and not node.kwargs else Match((node,), node, cut or join)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Cut | Join = match.found
        if isinstance(found, Cut):
            tx.replace(found.node, tx.call(aten.split_with_sizes.default, found.input, [tx.size(s) for s in found.sizes], found.dim))
        else:
            tx.replace(found.node, tx.call(aten.cat.default, [*found.inputs], found.dim))
