"""The only place that changes a graph.

A rewrite is a transaction: new nodes are built first and get metadata by running their operator on fakes, the laws are
checked, users move over, dead nodes go. If anything raises, or a law is broken, the graph is as it was.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from optimus.effects import PURE
from optimus.fakes import QuickFakes, quick_fakes
from optimus.journal import Declined, Journal, Rewrite, source_line
from optimus.laws import ALL_LAWS, Law
from optimus.limit import Limiter
from optimus.modes import Both
from optimus.pattern import Decline, Exactness, Match, Pattern, Refused
from optimus.recall import Recall, recall_for
from optimus.regions import Region, cut
from optimus.replacing import copy_like, leaves_graph, memory, move, repropagate, restore_values, root
from optimus.state import GraphState, Mode
from optimus.transaction import Transaction, World, refuse, run_fake
from optimus.values import (
    Storage,
    is_plain,
    leaves,
    requires_grad,
    returns_argument,
    same_size,
    same_sizes,
    same_strides,
    storage,
    storages,
    tensor,
    value,
    value_key,
)
from optimus.versions import no_new_guards, view_kind

Validator = Callable[[Region], str | None]
"""Judges a region before it is kept: None if it is right, else the reason to roll it back."""

OWN = "optimus.passes."


@dataclass
class Rewriter:
    """Applies matches to one graph and writes the journal."""

    state: GraphState
    journal: Journal
    validate: Validator | None = None
    laws: frozenset[Law] = ALL_LAWS
    ordinals: dict[str, int] = field(default_factory=dict)
    limiter: Limiter | None = None
    quick: QuickFakes | None = field(init=False)
    recall: Recall | None = field(init=False)
    _plain: dict[Node, torch.Tensor] = field(default_factory=dict)
    latest: list[Node] = field(default_factory=list)
    """The nodes that the last rewrite added."""

    def __post_init__(self) -> None:
        plain = not self.state.symbolic
        self.quick = quick_fakes(self.state.fake_mode) if plain else None
        self.recall = recall_for(self.state.fake_mode) if plain and self.validate is None else None

    def admits(self, pattern: Pattern) -> bool:
        """Whether the limit in force lets ``pattern`` apply anywhere."""
        return self.limiter is None or self.limiter.admits(pattern.name)

    def apply(self, pattern: Pattern, match: Match, build: Callable[[Transaction], None]) -> bool:
        """Carry one match out; False, with the reason in the journal, if it was given up."""
        if self.limiter is not None and not self.limiter.allows(pattern.name, match.nodes[-1].name):
            self.decline(pattern, match.nodes[-1], Decline("limit", f"left out by {self.limiter.limit}"[:80]))
            return False
        tx = Transaction(self.state, match, exact=pattern.exactness is Exactness.BITWISE)
        world: World = partial(self._fake_world, match)
        if self._may_recall(tx):
            tx.recall = self.recall
        if tx.recall is not None and type(pattern).__module__.startswith(OWN):  # whose patterns call operators by the transaction alone
            tx.world, world = world, contextlib.nullcontext
        undo: list[Callable[[], None]] = []
        try:
            with world(), self.state.graph.inserting_before(match.before):
                self._check_match(tx)
                build(tx)
                self._settle(tx, undo)
            if self.validate is not None:
                self._judge(pattern, tx)
        except Refused as refused:
            self._roll_back(tx, undo)
            self.decline(pattern, match.nodes[-1], refused.decline)
            return False
        except Exception as error:  # noqa: BLE001 - the no-op fallback: a pattern's own error never reaches the user's model
            self._roll_back(tx, undo)
            self.decline(pattern, match.nodes[-1], Decline("error", f"{type(error).__name__}: {error}"))
            return False
        self._commit(pattern, tx)
        if self.limiter is not None:
            self.limiter.note(match.nodes[-1].name, self.journal.rewrites[-1])
        return True

    def refresh(self) -> None:
        """Make anew the fakes of views whose base was replaced: Inductor reads from them what shares memory, and which copies it may drop."""
        state = self.state
        for node in state.graph.nodes:
            if node.op not in ("call_function", "call_method") or all(state.root(s) == s for s in storages(node)):
                continue
            with contextlib.ExitStack() as stack:
                stack.enter_context(state.mode(node).active())
                if state.fake_mode is not None:
                    stack.enter_context(state.fake_mode)
                if state.shape_env is not None:
                    stack.enter_context(no_new_guards(state.shape_env, None))
                node.meta[value_key(node)] = run_fake(node)

    def decline(self, pattern: Pattern, node: Node, decline: Decline) -> None:
        """Write a refusal into the journal."""
        self.journal.declined.append(Declined(pattern.name, node.name, decline.reason, decline.detail))

    def _demand(self, law: Law, holds: bool, detail: str) -> None:
        if law in self.laws and not holds:
            raise refuse(law, detail)

    def _may_recall(self, tx: Transaction) -> bool:
        """Whether the match runs under the modes that are in force, and nothing is written that it reads."""
        state = self.state
        if self.recall is None or not self._is_plain(state.mode(tx.match.nodes[-1])):
            return False
        return not state.writes or not any(s in state.writes for used in tx.read for s in state.storages(used))

    def _is_plain(self, mode: Mode) -> bool:
        return mode.grad == torch.is_grad_enabled() and not mode.autocast and not self.state.symbolic

    def _fake_world(self, match: Match) -> contextlib.AbstractContextManager[Any]:
        """The modes under which fakes of new nodes are made."""
        state, mode = self.state, self.state.mode(match.nodes[-1])
        if self._is_plain(mode) and state.fake_mode is not None and self.quick is not None:
            return Both(state.fake_mode, self.quick)
        return self._any_world(mode)

    @contextlib.contextmanager
    def _any_world(self, mode: Mode) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(mode.active())
            if self.state.fake_mode is not None:
                stack.enter_context(self.state.fake_mode)
                if self.quick is not None:
                    stack.enter_context(self.quick)
                if self.state.shape_env is not None:
                    stack.enter_context(no_new_guards(self.state.shape_env, lambda detail: refuse(Law.SIZES, detail)))
            yield

    def _check_match(self, tx: Transaction) -> None:
        state, nodes = self.state, tx.match.nodes
        if len(state.modes) > 1:
            regions = {state.region[n] for n in nodes}
            self._demand(Law.AMBIENT_MODE, len(regions) == 1, "the nodes run under different ambient modes")
        for node in nodes if state.effect else ():
            if state.effects(node) is not PURE:
                self._demand(Law.EFFECTS, False, f"{node.name} does more than compute its result")
        for node in (*nodes, *tx.outside):
            if not self._holds_plain(node):
                fake = tensor(node)
                raise refuse(Law.TYPES, f"{node.name} is a {type(fake).__name__} of layout {getattr(fake, 'layout', None)}")
            if state.reshaped and any(s in state.reshaped for s in state.storages(node)):
                raise refuse(Law.MUTATION, f"{node.name} changes its shape or flags in place")

    def is_plain(self, node: Node) -> bool:
        """Whether ``node`` and what it reads are ordinary tensors, as far as they are tensors."""
        return self._holds_plain(node) and all(map(self._holds_plain, node.all_input_nodes))

    def _holds_plain(self, node: Node) -> bool:
        fake = tensor(node)
        if fake is None or self._plain.get(node) is fake:
            return True
        if (self.recall is None or not self.recall.made(fake)) and not is_plain(fake):
            return False
        self._plain[node] = fake
        return True

    # ---------------------------------------------------------------------------------------------- laws on the result

    def _settle(self, tx: Transaction, undo: list[Callable[[], None]]) -> None:
        if not tx.replaced:
            raise refuse(Law.VALID_GRAPH, "the rewrite replaces nothing")
        self._check_mutation(tx)
        self._check_hooks(tx)
        shared = _shared(self.state, tx)
        olds = {old for old, _ in tx.replaced}
        in_chain = len(olds) < len(tx.replaced) or any(new in olds for _, new in tx.replaced)
        elsewhere: list[int] = []
        for index, (old, new) in enumerate(tx.replaced):
            before, after = tensor(old), tensor(new)
            alike, given = False, new
            if before is None or after is None:
                self._check_sequence(old, new)
            else:
                alike = tx.recall is not None and tx.recall.made_like(after, before)
                if not alike:
                    self._check_types(old, before, after)
                new = self._check_aliasing(tx, old, before, new, after, shared)
            if not self.state.records:
                new = self._check_gradients(tx, old, new)
            if not alike or new is not given:
                elsewhere.append(index)
            tx.replaced[index] = (old, new)
            inside = tx.inside
            tx.moved.append([u for u in old.users if u not in inside])
            if in_chain:
                move(tx.replaced[-1:], tx.moved[-1:], undo)
        if not in_chain:
            move(tx.replaced, tx.moved, undo)
        for index in elsewhere:
            self._check_layout(tx, index, undo)
        self._check_order(tx)

    def _check_mutation(self, tx: Transaction) -> None:
        state = self.state
        if not state.writes:
            return
        added = dict.fromkeys((*tx.new, *(used for n in tx.new for used in n.all_input_nodes if used not in tx.read)))
        read = state.writes.keys() & tx.input_storages.union(tx.match_storages, *map(state.storages, added))
        if not read:
            return
        places = sorted((*tx.match.nodes, *tx.new), key=lambda n: n._sort_key)
        writer = state.written_between(read, places[0], places[-1])
        self._demand(Law.MUTATION, writer is None, f"{writer.name if writer else ''} writes what the rewrite reads")

    def _check_hooks(self, tx: Transaction) -> None:
        """A hook sees the gradient of one tensor: it moves to a new tensor that has the same readers, or stays where it is."""
        hooked, replaced = self.state.hooked, dict(tx.replaced)
        if not hooked:
            return
        makers = {n for n in tx.new if not returns_argument(n)}
        for node in tx.match.nodes:
            new = replaced.get(node)
            alone = new in makers and not any(u in tx.inside for u in new.users) and [n for _, n in tx.replaced].count(new) == 1
            pieces = isinstance(value(node), (tuple, list)) and new is not None and any(u in hooked for u in node.users)
            if node in hooked or pieces:
                self._demand(Law.EFFECTS, alone, f"a hook on {node.name} would move to another tensor")
        before, after = (_hooked_inputs(self.state, tx, nodes) for nodes in (tx.match.nodes, tx.new))
        for node in before ^ (after | {new for new in replaced.values() if new in hooked}):
            self._demand(Law.EFFECTS, False, f"the gradient that a hook on {node.name} sees would be another")

    def _check_gradients(self, tx: Transaction, old: Node, new: Node) -> Node:
        """Law 4. Returns what takes the place of ``old``: ``new``, or a view of it that stops gradients as ``old`` does."""
        state = self.state
        if Law.AMBIENT_MODE not in self.laws or state.records or not requires_grad(value(old)):
            return new
        stops = state.stops_gradients(old)
        if stops and tensor(new) is not None and (new not in tx.inside or not state.stops_gradients(new)):
            with tx.inserting_before(old):
                new = tx.same_memory(new)
        ends_there = state.mode(old).grad and new in tx.read
        if stops != state.stops_gradients(new) and (stops or not ends_there):
            raise refuse(Law.AMBIENT_MODE, f"{old.name} {'stops' if stops else 'passes'} gradients, {new.name} does not")
        return new

    def _check_sequence(self, old: Node, new: Node) -> None:
        """Several results at once: both sides must be sequences of equal pieces over the same storages."""
        before, after = value(old), value(new)
        same = type(before) is type(after) and isinstance(before, (tuple, list)) and len(before) == len(after)
        self._demand(Law.TYPES, same, f"{old.name} is a {type(before).__name__}, its replacement a {type(after).__name__}")
        for one, other in zip(before, after, strict=True):
            self._check_types(old, one, other)
            stays = same_strides(one, other) and same_size(one.storage_offset(), other.storage_offset())
            self._demand(Law.LAYOUT, stays, f"a piece of {old.name} moves")
            self._check_view_kind(old, one, other)
            self._demand(Law.ALIASING, root(self.state, one) == root(self.state, other), f"a piece of {old.name} changes storage")

    def _check_types(self, old: Node, before: torch.Tensor, after: torch.Tensor) -> None:
        if not (before.shape == after.shape if not self.state.symbolic else same_sizes(before.shape, after.shape)):
            raise refuse(Law.TYPES, f"{old.name} has shape {tuple(before.shape)}, its replacement {tuple(after.shape)}")
        if (before.is_conj(), before.is_neg()) != (after.is_conj(), after.is_neg()):
            raise refuse(Law.LAYOUT, f"{old.name} would be conjugated or negated lazily, or no longer so")
        if before.dtype is after.dtype and before.device == after.device and before.requires_grad is after.requires_grad:
            return
        for what in ("dtype", "device", "requires_grad"):
            one, other = getattr(before, what), getattr(after, what)
            if one != other:
                self._demand(Law.TYPES, False, f"{old.name} has {what} {one}, its replacement {other}")

    def _check_aliasing(self, tx: Transaction, old: Node, before: torch.Tensor, new: Node, after: torch.Tensor, shared: set[Storage]) -> Node:
        """Law 1. Returns what takes the place of ``old``: ``new``, or a copy of it."""
        state = self.state
        inputs = tx.input_storages
        one, other = memory(state, old), memory(state, new)
        if one is None or other is None:
            raise refuse(Law.ALIASING, f"{old.name} has no storage of its own")
        fresh_before, fresh_after = one not in inputs, other not in inputs and (other == one or other not in tx.match_storages)
        if not fresh_before and (fresh_after or one != other):
            self._demand(Law.ALIASING, self._unnoticed(one, old), f"{old.name} is a view that somebody writes or returns")
        elif fresh_before and (not fresh_after or other in shared):
            noticed = not (self._unnoticed(one, old) and state.written_after((other,), tx.match.nodes[0]) is None)
            if noticed and Law.ALIASING in self.laws:
                return copy_like(tx, old, new, before)
        elif not fresh_before:
            self._check_view_kind(old, before, after)
            moved = not same_size(before.storage_offset(), after.storage_offset())
            if moved and not self._unnoticed(one, old):
                self._demand(Law.ALIASING, False, f"{old.name} would view another part of its storage")
        if new not in tx.inside and leaves_graph(old) and Law.ALIASING in self.laws:
            with tx.inserting_before(old):  # what is returned stays an object of its own
                return tx.same_memory(new)
        return new

    def _check_view_kind(self, old: Node, before: torch.Tensor, after: torch.Tensor) -> None:
        if not self.state.writes:
            return
        s = root(self.state, before)
        if s is None or not self.state.writes.get(s):
            return
        known = self.recall is None or self.recall.views.isdisjoint((storage(before), storage(after)))
        self._demand(Law.ALIASING, known and view_kind(before) == view_kind(after), f"{old.name} is written to, and would be another kind of view")

    def _unnoticed(self, s: Storage, node: Node) -> bool:
        """Whether nobody can tell if the value in ``s`` is a view or a copy: it is not returned, never written, nor addressed."""
        known = self.state
        return s not in known.escaping and s not in known.addressed and not known.writes.get(s) and not leaves_graph(node)

    def _check_layout(self, tx: Transaction, index: int, undo: list[Callable[[], None]]) -> None:
        """Law 3. Where strides changed, readers are re-run on fakes; one that notices gets a copy with the old strides."""
        old, new = tx.replaced[index]
        before, after = tensor(old), tensor(new)
        if before is None or after is None or (not self.state.symbolic and before.stride() == after.stride()):
            return
        if Law.LAYOUT not in self.laws:
            return
        if same_strides(before, after):
            return
        metas: list[tuple[Node, Any]] = []
        addressed = any(s in self.state.addressed for s in self.state.storages(old))
        if not addressed and repropagate(tx, tx.moved[index], metas):
            undo.append(lambda: restore_values(metas))
            return
        restore_values(metas)
        copy = copy_like(tx, old, new, before)
        move([(new, copy)], tx.moved[index : index + 1], undo)
        tx.replaced[index] = (old, copy)

    def _check_order(self, tx: Transaction) -> None:
        """Law 9, at the seams: what a new node reads stands before it, what reads it stands after."""
        for node in tx.new:
            place = node._sort_key
            for used in node.all_input_nodes:
                if not used._sort_key < place:
                    raise refuse(Law.VALID_GRAPH, f"{used.name} is defined after {node.name} needs it")
        for (_, new), moved in zip(tx.replaced, tx.moved, strict=True):
            place = new._sort_key
            for user in moved:
                if not place < user._sort_key:
                    raise refuse(Law.VALID_GRAPH, f"{user.name} stands before its new argument")

    # ------------------------------------------------------------------------------------------------ commit, roll back

    def _judge(self, pattern: Pattern, tx: Transaction) -> None:
        assert self.validate is not None
        old = sorted(tx.match.nodes, key=lambda n: n._sort_key)
        new = sorted(tx.new, key=lambda n: n._sort_key)
        objection = self.validate(cut(pattern.name, old, new, tx.replaced, self._private(tx), self.state.mode(old[-1]).grad))
        if objection is not None:
            raise Refused(Decline("not_validated", objection))

    def _private(self, tx: Transaction) -> frozenset[int]:
        """The results, counted over all of them, whose memory and strides nobody outside can tell."""
        flat = [s for old, _ in tx.replaced for t in leaves(value(old)) for s in (root(self.state, t),)]
        return frozenset(k for k, s in enumerate(flat) if s not in self.state.escaping and not (s is not None and self.state.writes.get(s)))

    def _roll_back(self, tx: Transaction, undo: list[Callable[[], None]]) -> None:
        for step in reversed(undo):
            step()
        for node in reversed(tx.new):
            self.state.forget(node)
            self.state.graph.erase_node(node)

    def _commit(self, pattern: Pattern, tx: Transaction) -> None:
        state = self.state
        for old, new in tx.replaced:
            if tensor(old) is None or tensor(new) is None:
                continue
            one = memory(state, old)
            if one is not None and one not in tx.input_storages:
                other = memory(state, new)
                if other is not None:
                    state.unite(one, other)
        if state.hooked:
            state.hooked.update(new for old, new in tx.replaced if old in state.hooked)
        if any(old in state.live for old, _ in tx.replaced):
            state.live.update(tx.new)
        inputs = tuple([i.name for i in tx.outside])
        outputs = tuple([old.name for old, _ in tx.replaced])
        lines = tuple(dict.fromkeys(line for n in tx.match.nodes if (line := source_line(n)) is not None))
        removed = self._erase_dead(tx.match.nodes)
        self.latest = [n for n in tx.new if n.users or not self._erase_dead((n,))]
        added = tuple([n.name for n in self.latest])
        ordinal = self.ordinals[pattern.name] = self.ordinals.get(pattern.name, 0) + 1
        number = len(self.journal.rewrites) + 1
        self.journal.rewrites.append(Rewrite(number, pattern.name, ordinal, inputs, outputs, tuple(removed), added, lines))

    def _erase_dead(self, nodes: Iterable[Node]) -> list[str]:
        erased: list[str] = []
        for node in sorted(nodes, key=lambda n: n._sort_key, reverse=True):
            for user in tuple(node.users):
                if not user.users and user.target is operator.getitem:
                    self._erase(user, erased)
            if not node.users and self.state.effects(node) is PURE and node.op != "placeholder":
                self._erase(node, erased)
        return erased

    def _erase(self, node: Node, erased: list[str]) -> None:
        erased.append(node.name)
        self.state.forget(node)
        self.state.graph.erase_node(node)


def _shared(state: GraphState, tx: Transaction) -> set[Storage]:
    """Storages that hold more than one of the new results."""
    seen: set[Storage] = set()
    twice: set[Storage] = set()
    for _, new in tx.replaced:
        for s in state.storages(new):
            (twice if s in seen else seen).add(s)
    return twice


def _hooked_inputs(state: GraphState, tx: Transaction, nodes: Iterable[Node]) -> set[Node]:
    """What ``nodes`` read from outside and a hook is attached to."""
    return {used for n in nodes for used in n.all_input_nodes if used in state.hooked and used not in tx.inside}


__all__ = ["Rewriter", "Transaction", "Validator", "run_fake"]
