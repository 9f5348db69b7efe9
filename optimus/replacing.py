"""Putting one value in the place of another: whose memory it lies in, and who notices other strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg

from optimus.laws import Law
from optimus.operators import keeps_bits
from optimus.state import GraphState
from optimus.transaction import Transaction, refuse, run_fake, set_args, set_kwargs
from optimus.values import (
    MISSING,
    Storage,
    known,
    same_layout,
    same_sizes,
    same_strides,
    storage,
    tensor,
    value,
    value_key,
)
from optimus.versions import no_new_guards

PROPAGATION_LIMIT = 64  # readers re-examined after a change of layout before a copy is preferred


def memory(state: GraphState, node: Node) -> Storage | None:
    """The storage of the one tensor that ``node`` produces; None where it has none of its own."""
    found = state.storages(node)
    return found[0] if found else None


def root(state: GraphState, fake: torch.Tensor) -> Storage | None:
    """The storage of ``fake``, rewrites taken into account; None where a subclass has none of its own."""
    found = storage(fake)
    return None if found is None else state.root(found)


def leaves_graph(node: Node) -> bool:
    """Whether the value of ``node`` is returned."""
    return any(user.op == "output" for user in node.users)


def copy_like(tx: Transaction, old: Node, new: Node, like: torch.Tensor) -> Node:
    """A copy of ``new`` at the place of ``old`` with the strides of ``like``; refuses strides that only ``old`` itself makes."""
    if any(s in tx.state.given and tx.state.writes.get(s) for s in tx.state.storages(new)):
        # PyTorch's backward pass may make such a copy again from the input, when that has been written already.
        raise refuse(Law.MUTATION, f"{new.name} would have to be copied, but is an input that is written to")
    with tx.inserting_before(old):
        copy = tx.copy(new)
    fake = tensor(copy)
    assert fake is not None
    if not same_layout(like, fake):
        raise refuse(Law.LAYOUT, f"strides {tuple(like.stride())} cannot be restored by a copy")
    return copy


def move(pairs: Sequence[tuple[Node, Node]], moved: Sequence[Sequence[Node]], undo: list[Callable[[], None]]) -> None:
    """For each pair ``old, new`` let those of ``moved`` in its place read ``new`` and no longer ``old``.

    A reader of several is changed once, for changing it takes time in proportion to all that it reads.
    """
    wanted: dict[Node, dict[Node, Node]] = {}
    for (old, new), users in zip(pairs, moved, strict=True):
        for user in users:
            wanted.setdefault(user, {})[old] = new
    for user, by in wanted.items():
        undo.append(partial(_set, user, user.args, user.kwargs))
        if len(by) == 1 or getattr(user.graph.owning_module, "_replace_hooks", None):
            for old, new in by.items():
                user.replace_input_with(old, new)
        else:
            args, kwargs = map_arg((user.args, user.kwargs), partial(_newer, by))
            _set(user, args, kwargs)


def _newer(by: dict[Node, Node], node: Node) -> Node:
    return by.get(node, node)


def _set(user: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    set_args(user, args)
    set_kwargs(user, kwargs)


def restore_values(metas: Sequence[tuple[Node, Any]]) -> None:
    """Put back the values that nodes had."""
    for node, found in reversed(metas):
        node.meta[value_key(node)] = found


def repropagate(tx: Transaction, readers: Sequence[Node], metas: list[tuple[Node, Any]]) -> bool:
    """Re-run ``readers`` on fakes, and theirs, until strides agree with what they were; False if somebody notices.

    Where bits count, a reader that may add in the order of memory notices.
    """
    state, exact = tx.state, tx.exact
    queue, seen = list(readers), 0
    while queue:
        node = queue.pop(0)
        seen += 1
        if seen > PROPAGATION_LIMIT or node.op not in ("call_function", "call_method"):
            return False
        before = value(node)
        if before is MISSING or state.effects(node).writes or free_unbacked_symbols(before) or (exact and not keeps_bits(node)):
            return False
        try:
            with tx.world(), no_new_guards(state.shape_env, lambda detail: refuse(Law.SIZES, detail)):
                after = run_fake(node)
        except Exception:  # noqa: BLE001 - the reader, a user's operator too, refuses the new strides: a copy keeps the old ones
            return False
        verdict = _compare(state, node, before, after)
        if verdict is None:
            return False
        metas.append((node, before))
        node.meta[value_key(node)] = after
        if not verdict:
            queue.extend(node.users)
    return True


def _compare(state: GraphState, node: Node, before: Any, after: Any) -> bool | None:
    """True if a reader's result has the old strides, False if only strides changed, None if more changed."""
    if isinstance(before, (tuple, list)) and isinstance(after, (tuple, list)) and len(before) == len(after):
        parts = [_compare(state, node, b, a) for b, a in zip(before, after, strict=True)]
        return None if None in parts else all(parts)
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return True if type(before) is type(after) and known(before == after) else None
    if before.dtype != after.dtype or before.requires_grad != after.requires_grad or not same_sizes(before.shape, after.shape):
        return None
    if _aliases(state, node, before) != _aliases(state, node, after):
        return None
    return same_strides(before, after)


def _aliases(state: GraphState, node: Node, result: torch.Tensor) -> tuple[bool, ...]:
    found = root(state, result)
    return tuple(found in state.storages(i) for i in node.all_input_nodes)
