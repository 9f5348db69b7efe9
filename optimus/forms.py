"""Structured views of the operators that cut tensors up and put them together, whatever their spelling."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import Node

from optimus.operators import Call, bind
from optimus.values import Size, same_size, tensor, value, wrap

SPLITS = frozenset({"split", "split_with_sizes", "chunk", "tensor_split"})
CUTS = SPLITS | {"unbind"}
DIRECTIONS = {"hstack": (1, 2), "vstack": (0, 2), "dstack": (2, 3), "column_stack": (1, 2)}
"""Along which dimension these join, and how many dimensions tensors need for that."""
JOINS = frozenset({"cat", "stack", *DIRECTIONS})


@dataclass(slots=True)
class Cut:
    """One tensor cut into several along ``dim``: ``split`` keeps the dimension, ``unbind`` drops it.

    ``sizes``: the extent of each piece along ``dim`` (1 each for ``unbind``). ``dim`` counts from the front.
    """

    node: Node
    op: Literal["split", "unbind"]
    input: Node
    dim: int
    sizes: tuple[Size, ...]

    def pieces(self) -> dict[Node, int] | None:
        """The users that take one piece each, with its number; None if some user does something else."""
        found: dict[Node, int] = {}
        node, count = self.node, len(self.sizes)
        for user in node.users:
            args = user.args
            if user.target is not operator.getitem or len(args) != 2 or args[0] is not node:
                return None
            index = wrap(args[1], count)
            if index is None:
                return None
            found[user] = index
        return found


@dataclass(slots=True)
class Join:
    """Several tensors put together along ``dim`` (counted from the front of the result).

    ``cat`` extends a dimension, ``stack`` makes one.
    """

    node: Node
    op: Literal["cat", "stack"]
    inputs: tuple[Node, ...]
    dim: int


@dataclass(frozen=True, slots=True)
class Run:
    """Inputs ``start`` to ``stop`` (exclusive) of a join that are pieces ``first``, ``first + 1``, ... of one cut."""

    start: int
    stop: int
    first: int

    @property
    def length(self) -> int:
        """How many pieces."""
        return self.stop - self.start


def cut_of(node: Node) -> Cut | None:
    """The cut that ``node`` makes, or None."""
    call = bind(node)
    if call is None or call.op not in CUTS or call.writes:
        return None
    source, pieces = call.args["self"], value(node)
    fake = tensor(source)
    known = node.__dict__.get(CUT)
    if known is not None and known[0] is call and known[1] is pieces and known[2] is fake:
        return known[3]  # type: ignore[no-any-return]
    found = _new_cut(node, call, source, fake, pieces)
    node.__dict__[CUT] = (call, pieces, fake, found)
    return found


CUT, JOIN = "_optimus_cut", "_optimus_join"
"""Where a node keeps what cut or join it is, with what that was told from: objects that are never changed, only replaced.

A cut follows from the call and two values, a join from the call and the result, for a rewritten input has the rank that it had.
"""


def _new_cut(node: Node, call: Call, source: Node, fake: torch.Tensor | None, pieces: Any) -> Cut | None:
    if fake is None or not isinstance(pieces, (tuple, list)):
        return None
    for p in pieces:
        if not isinstance(p, torch.Tensor):
            return None
    dim = wrap(call["dim"], fake.dim())
    if dim is None:
        return None
    if call.op == "unbind":
        return Cut(node, "unbind", source, dim, (1,) * len(pieces))
    sizes = tuple(p.shape[dim] for p in pieces)
    if call.op == "tensor_split" and call.args.get("sections") is None and not same_size(sum(sizes), fake.shape[dim]):
        return None  # positions that fall, or repeat what came before
    return Cut(node, "split", source, dim, sizes)


def join_of(node: Node) -> Join | None:
    """The join that ``node`` makes, or None: also for inputs of unequal rank (``cat`` skips empty vectors) or unknown ones."""
    call = bind(node)
    if call is None or call.op not in JOINS or call.writes:
        return None
    result = tensor(node)
    known = node.__dict__.get(JOIN)
    if known is not None and known[0] is call and known[1] is result:
        return known[2]  # type: ignore[no-any-return]
    found = _new_join(node, call, result)
    node.__dict__[JOIN] = (call, result, found)
    return found


def _new_join(node: Node, call: Call, result: torch.Tensor | None) -> Join | None:
    inputs = call["tensors"]
    if result is None or not isinstance(inputs, (tuple, list)) or not inputs:
        return None
    rank = result.dim()
    if call.op in DIRECTIONS:
        first = tensor(inputs[0])
        along = None if first is None else _along(call.op, first.dim())
        if along is None:
            return None
        op, dim = along
    else:
        place = wrap(call["dim"], rank)
        if place is None:
            return None
        op, dim = call.op, place
    expected = rank - (op == "stack")
    for i in inputs:
        if (t := tensor(i)) is None or t.dim() != expected:
            return None
    return Join(node, "cat" if op == "cat" else "stack", tuple(inputs), dim)


def _along(op: str, rank: int) -> tuple[str, int] | None:
    """What a join that is called by a direction does to tensors of ``rank`` dimensions; None where it is neither ``cat`` nor ``stack``."""
    dim, enough = DIRECTIONS[op]
    if rank >= enough:
        return "cat", dim
    if rank < enough - 1:
        return None
    return ("cat", 0) if op == "hstack" else ("stack", dim)


def piece_index(node: Node) -> int | None:
    """Which result of its one argument ``node`` takes, counted from the front; None if it is no such ``getitem``."""
    args = node.args
    if node.target is not operator.getitem or len(args) != 2 or not isinstance(args[0], Node):
        return None
    pieces = value(args[0])
    return wrap(args[1], len(pieces)) if isinstance(pieces, (tuple, list)) else None


def runs(inputs: Sequence[Node], pieces: dict[Node, int]) -> list[Run]:
    """The longest runs of neighbouring pieces in rising order, by position."""
    found: list[Run] = []
    start = 0
    while start < len(inputs):
        if inputs[start] not in pieces:
            start += 1
            continue
        first = pieces[inputs[start]]
        stop = start + 1
        while stop < len(inputs) and pieces.get(inputs[stop]) == first + stop - start:
            stop += 1
        found.append(Run(start, stop, first))
        start = stop
    return found


def equal_sizes(sizes: Sequence[Size]) -> bool:
    """Whether all ``sizes`` are the same for every input the graph admits."""
    return all(same_size(sizes[0], s) for s in sizes[1:])
