from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from optimus.forms import CUTS, JOINS, Cut, cut_of, join_of
from optimus.laws import Law
from optimus.operators import Call, bound
from optimus.passes._parts import PARTS, Parts, part_of, together
from optimus.passes._sections import written_out
from optimus.pattern import Decline, Exactness, Match, VerticalPattern, declines, fires
from optimus.rewriter import Transaction
from optimus.rule import Rule
from optimus.state import GraphState
from optimus.values import tensor, wrap


@fires("n, p + q")
def split_by_method(x, p, q):
    a, b = x.split([p, q], -1)
    return a + 1, b


@fires("n, 3 * k")
def split_by_size(x, k):
    a, b, c = torch.split(x, k, 1)
    return a + 1, b * 2, c


@fires("4 * k, n")
def chunked(x, k):  # noqa: ARG001 - the size names the shape
    a, b, c, d = x.chunk(4)
    return a + d, b * c


@fires("3, n")
def unbound(x):
    a, b, c = x.unbind()
    return a + b * c


@fires("n, p", "n, q")
def joined(x, y):
    same = torch.cat([x, y], axis=1)  # type: ignore[call-arg]
    return torch.concat((x, y), -1) + same * torch.concatenate([x, y], dim=1)


@fires("n, k", "n, k")
def stacked(x, y):
    return torch.stack((x, y), -2)


@fires("n, k", "n, k")
def by_direction(x, y):
    return torch.hstack([x, y]) + torch.column_stack((x, y)), torch.vstack([x, y]), torch.dstack([x, y]) + 1


@fires("n, p + q + r")
def sliced(x, p, q, r):  # noqa: ARG001 - the size names the shape
    a, b, c = x[:, :p], x.narrow(-1, p, q), x[..., p + q :]
    return torch.cat([a, b], dim=1), c * 2, torch.narrow(input=x, dim=1, start=p, length=q) + b


@fires("3, n")
def selected(x):
    return torch.stack([x[0], x.select(0, 1), torch.select(x, 0, -1)], dim=1)


@fires("n, 1, k")
def squeezed(x):
    return x.squeeze(-2) * 2


@fires("n, k")
def clamped(x):
    return x.clamp(-0.5, 0.5) + torch.clamp(x, 0.25) * x.clamp_min(0.5) - torch.clamp_max(x, max=1)


@fires("n, k")
def detached(x):
    return x.detach() * x


@fires("n, m, k")
def reshaped(x):
    return x.reshape(x.shape[0], -1) + 1


@declines("already_normal", "n, p + q")
def normal(x, p, q):
    a, b = torch.split(x, [p, q], dim=1)
    return torch.cat([b, a], dim=1), torch.clamp(x, min=0, max=1)


@declines("whole", "n, p + q + r")
def gap(x, p, q, r):  # noqa: ARG001 - the size names the shape
    return x[:, :p] + 1, x[:, p + q :] + 1, x[:, : p + q] * 2, x[:1, :p], x[[0, 1]]


@declines("plain_call", "n, p", "n, q", "n, p + q", grad=False)
def into_a_buffer(x, y, out):
    torch.cat([x, y], 1, out=out)
    return out * 2


@dataclass(frozen=True)
class Normalization(VerticalPattern):
    """``x.split([p, q], -1)  ->  torch.split(x, [p, q], dim=1)``, and so on for the operators below.

    One spelling for each of ``split``, ``unbind``, ``cat``, ``stack``, ``squeeze``, ``reshape``, ``clamp`` and ``detach``: the
    function, tensors in front, options by name, sections as a list, dimensions counted from the front. ``hstack`` and its like
    are written as the ``cat`` or ``stack`` that they are. Sections by ``narrow`` or index, and slices by ``select`` or index, that
    are all of a tensor become one ``split`` or ``unbind``, so that the patterns behind find them.

    Sound because only the spelling changes: parts that begin where the one before ends lie where the sections of a split do.
    Stops at calls that write an argument (``out=``), where a section has a symbolic size that no node computes, and at parts
    that leave something of their tensor out, of which no two neighbours are joined again, or whose memory is returned: the
    caller may write to a slice in place, but autograd lets nobody write to a piece of a split that way.
    """

    counter: int = 1
    """One sweep does: what a node becomes turns on no other node's spelling, and what is made is in normal form."""

    name = "normalization_pass"
    anchors = CUTS | JOINS | PARTS | {"squeeze", "reshape", "clamp", "detach"}
    pieces = False
    exactness = Exactness.BITWISE
    requirements = {
        "already_normal": "the call is not in normal form yet",
        "plain_call": "the call writes no argument (in place or out=)",
        "whole": "parts that are taken one by one make up their tensor, and a join reads two neighbours",
    }
    cases = (split_by_method, split_by_size, chunked, unbound, joined, stacked, by_direction, sliced, selected, squeezed, clamped, detached, reshaped)
    declines = (normal, gap, into_a_buffer)

    @staticmethod
    def general(rule: Rule) -> None:
        """Sections of one size with a remainder, written out; parts taken one by one; the other spellings name the same operator."""
        count = written_out(rule)
        sections = rule.sections("section", count)
        y = rule.tensor("y", rule.number("left"), sections.total, rule.number("right"))
        taken = rule.sequence(count, lambda k: rule.narrow(y, 1, sections.offset(k), sections.size(k)))
        rule.equal("parts by their place", taken, rule.split(y, 1, sections))

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        if state.ops.get(node) in PARTS:
            return _parts(node, state)
        call = bound(node)
        if call.writes:
            return Decline("plain_call")
        form = _normal_form(node, call)
        if form is None:
            return None
        if isinstance(form, Cut):
            if _is_normal_split(node, form):
                return ALREADY_NORMAL
        elif (node.op, node.target, tuple(node.args), dict(node.kwargs)) == ("call_function", *form):
            return ALREADY_NORMAL
        return Match((node,), node, form)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        form = match.found
        if isinstance(form, Parts):
            form.cut(tx)
            return
        if isinstance(form, Cut):
            form = (torch.split, (form.input, [tx.size(s) for s in form.sizes]), {"dim": form.dim})
        target, args, kwargs = form
        tx.replace(match.nodes[0], tx.call(target, *args, **kwargs))


ALREADY_NORMAL, NOT_WHOLE = Decline("already_normal"), Decline("whole")


def _parts(node: Node, state: GraphState) -> Match | Decline | None:
    """All parts of a tensor, found at the first of them."""
    part = part_of(node)
    if part is None:
        return None
    found = together(node, part, state)
    if found is None:
        return NOT_WHOLE
    if not state.escaping.isdisjoint(state.storages(found.first.source)):
        return Decline(Law.ALIASING.reason, "a part that is returned may be written in place, as autograd allows for no piece of a split or unbind")
    nodes = found.nodes()
    return Match(tuple(nodes), nodes[0], found)


Form = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _normal_form(node: Node, call: Call) -> Form | Cut | None:
    """The function, arguments and options of the normal form; a cut for splits, whose sections may need nodes."""
    cut = cut_of(node)
    if cut is not None:
        return cut if cut.op == "split" else (torch.unbind, (cut.input,), {"dim": cut.dim})
    join = join_of(node)
    if join is not None:
        return (torch.cat if join.op == "cat" else torch.stack, ([*join.inputs],), {"dim": join.dim})
    source = tensor(call.args.get("self"))
    if source is None:
        return None
    match call.op:
        case "squeeze":
            dim = call.args.get("dim")
            if dim is None:
                return (torch.squeeze, (call["self"],), {})
            place = wrap(dim, source.dim())
            return None if place is None else (torch.squeeze, (call["self"],), {"dim": place})
        case "reshape":
            shape = call["shape"]
            return (torch.reshape, (call["self"], shape if isinstance(shape, Node) else tuple(shape)), {})
        case "clamp":
            return (torch.clamp, (call["self"],), {"min": call["min"], "max": call["max"]})
        case "detach":
            return (torch.detach, (call["self"],), {})
        case _:
            return None


def _is_normal_split(node: Node, cut: Cut) -> bool:
    written = node.args[1] if len(node.args) == 2 else None
    return node.op == "call_function" and node.target is torch.split and isinstance(written, list) and dict(node.kwargs) == {"dim": cut.dim}
