from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from optimus.forms import SPLITS, cut_of
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState


@fires("n, k")
def one_section(x, k):
    (whole,) = torch.split(x, [k], dim=1)
    return whole * 2


@fires("n, k")
def one_chunk(x):
    (whole,) = x.chunk(1, dim=-1)
    return whole.sin(), whole.cos()


@fires("n, k")
def returned(x):
    return torch.chunk(x, 1)[0]


@declines("one_section", "n, p + q")
def two_sections(x, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    return a * 2, b * 3


@dataclass(frozen=True)
class RemoveSplitWithSizeOne(VerticalPattern):
    """``split(x, [size of x], d)[0]  ->  x``

    A split into one section is the tensor.

    Sound because the one section starts at 0 and its size is that of the dimension. Stops at two sections and more. A piece
    that leaves the graph stays an object of its own.
    """

    name = "remove_split_with_size_one_pass"
    anchors = SPLITS
    exactness = Exactness.BITWISE
    requirements = {"one_section": "the split has one section"}
    cases = (one_section, one_chunk, returned)
    declines = (two_sections,)

    @staticmethod
    def general(rule: Rule) -> None:
        """The only section."""
        sections = rule.sections("section", 1)
        x = rule.tensor("x", rule.number("left"), sections.total, rule.number("right"))
        rule.equal("the section", rule.split(x, 1, sections)[0], x)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        cut = cut_of(node)
        if cut is None or (pieces := cut.pieces()) is None:
            return None
        if len(cut.sizes) != 1:
            return Decline("one_section")
        nodes = sorted((node, *pieces), key=lambda n: n._sort_key)
        return Match(tuple(nodes), node.next, (cut, list(pieces)))

    def rewrite(self, match: Match, tx: Transaction) -> None:
        cut, pieces = match.found
        for piece in pieces:
            tx.replace(piece, cut.input)
