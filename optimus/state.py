"""What is known of a whole graph while passes change it: regions of ambient mode, writes, escapes, storages.

Built in one walk and kept up to date by the rewriter, so that no candidate ever needs another walk.
"""

from __future__ import annotations

import contextlib
import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from optimus.effects import PURE, Effects, attaches_hook, effects, passes_gradients
from optimus.levels import level
from optimus.operators import bind
from optimus.pattern import IR
from optimus.values import MISSING, Size, Storage, has_symbols, is_static, leaves, requires_grad, returns_argument, size_key, storages, tensor, value

ADDRESSING = {"as_strided", "as_strided_", "storage_offset", "data_ptr", "storage", "untyped_storage"}
"""Operators that see where in its storage a tensor lies, and what lies beside it."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The ambient mode of a region, as far as it changes what operators compute."""

    grad: bool
    autocast: tuple[tuple[Any, ...], ...] = ()
    outside: tuple[bool, ...] = ()
    """The grad modes to which the inference modes entered so far go back, outermost first."""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Run fake operators as the region would run real ones."""
        with contextlib.ExitStack() as stack:
            if torch.is_grad_enabled() != self.grad:
                stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype, enabled, cache in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache))
            yield


@dataclass
class GraphState:
    """Facts about ``graph``; see the module docstring."""

    graph: Graph
    ir: IR = IR.TORCH
    region: dict[Node, int] = field(default_factory=dict)
    modes: list[Mode] = field(default_factory=list)
    effect: dict[Node, Effects] = field(default_factory=dict)
    writes: dict[Storage, list[Node]] = field(default_factory=lambda: defaultdict(list))
    escaping: set[Storage] = field(default_factory=set)
    reshaped: set[Storage] = field(default_factory=set)
    addressed: set[Storage] = field(default_factory=set)
    given: set[Storage] = field(default_factory=set)
    live: set[Node] = field(default_factory=set)
    hooked: set[Node] = field(default_factory=set)
    """The nodes whose result is a tensor that a hook is attached to, under whatever name."""
    doubtful: set[Node] = field(default_factory=set)
    records: bool = False
    """Whether gradients are recorded everywhere in the graph."""
    fake_mode: FakeTensorMode | None = None
    symbolic: bool = False
    """Whether some size is no number, so that what is computed on fakes may ask for a guard."""
    ops: dict[Node, str] = field(default_factory=dict)
    """The canonical operator of every node that has one."""
    by_op: dict[str, dict[Node, None]] = field(default_factory=lambda: defaultdict(dict))
    """The nodes of every canonical operator."""
    sizes: dict[object, Node] = field(default_factory=dict)
    _same: dict[Storage, Storage] = field(default_factory=dict)
    _found: dict[Node, tuple[Any, tuple[Storage, ...]]] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)
    _hidden: dict[Node, set[Storage]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, grad: bool | None = None) -> GraphState:
        """Walk ``graph`` once. ``grad`` is the grad mode at its entry (default: the one in force now)."""
        state = cls(graph, level(graph))
        recorded = torch.is_grad_enabled() if grad is None else grad
        state.modes.append(Mode(recorded and state.ir is IR.TORCH))  # gradients are graphs of their own below
        region = 0
        hooks: list[Node] = []
        for node in graph.nodes:
            if node.target is operator.getitem and len(node.args) == 2:
                op: str | None = "getitem"
                found = PURE
            else:
                call = bind(node)
                op, found = None if call is None else call.op, effects(node, call)
            if op is not None:
                state.ops[node] = op
                state.by_op[op][node] = None
            if found.switches_mode:
                region += 1
                state.modes.append(mode_after(node, state.modes[-1]))
            state.region[node] = region
            if state._hidden:
                state._hidden.update({node: reach} if (reach := {s for u in node.all_input_nodes for s in state._hidden.get(u, ())}) else {})
            if found is not PURE:
                state._add_effect(node, found)
            if op != "getitem":
                name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
                if name in ADDRESSING:
                    state.addressed.update(s for used in node.all_input_nodes for s in storages(used))
                if attaches_hook(node, name) and isinstance(node.args[0], Node):
                    hooks.append(node.args[0])
                if node.op == "placeholder":
                    state.given.update(storages(node))
            result = value(node)
            if isinstance(result, torch.SymInt):
                state.sizes.setdefault(size_key(result), node)
            if state.fake_mode is None:
                state.fake_mode = _fake_mode(node)
            if not state.symbolic:
                state.symbolic = has_symbols(result)
        output = graph.output_node()
        state.escaping = {s for n in output.all_input_nodes for s in storages(n)}
        state.records = all(mode.grad for mode in state.modes)
        state._find_hooked(hooks)
        state._find_live(output)
        return state

    def _find_hooked(self, hooks: Sequence[Node]) -> None:
        objects = {id(value(node)) for node in hooks}
        self.hooked = {node for node in self.graph.nodes if id(value(node)) in objects} if objects else set()

    def _find_live(self, output: Node) -> None:
        """Which nodes a gradient reaches: those that some output depends on through values that require gradients.

        Of these, ``doubtful`` are the ones that it reaches only through operators which may keep it for themselves.
        """
        live_storages, sure_storages = set(self.escaping), set(self.escaping)
        self.live = set(output.all_input_nodes)
        sure = set(self.live)
        for node in reversed(self.graph.nodes):
            found = self.effect.get(node, PURE)
            written = {s for w in found.writes for s in self.storages(w)} if found.writes else set()
            if node not in self.live and not written & live_storages:
                continue
            if not written and not requires_grad(value(node)):
                self.live.discard(node)
                continue
            self.live.add(node)
            if not written and self.stops_gradients(node):
                continue
            inputs = node.all_input_nodes
            self.live.update(inputs)
            storages_read = [s for used in inputs for s in self.storages(used)] if self.writes else ()
            live_storages.update(storages_read)
            if (node in sure or written & sure_storages) and passes_gradients(node):
                sure.update((node, *inputs))
                sure_storages.update(storages_read)
        self.doubtful = self.live - sure

    def _add_effect(self, node: Node, found: Effects) -> None:
        self.effect[node] = found
        written = {s for w in found.writes for s in (*storages(w), *self._hidden.get(w, ()))}
        for s in written:
            self.writes[s].append(node)
        if found.reshapes:
            self.reshaped |= written
        if found.opaque:  # what it returns may refer to what it was given, tensor or not
            self._hidden[node] = written

    def _name(self, node: Node) -> None:
        if node.target is operator.getitem and len(node.args) == 2:
            op = "getitem"
        elif (call := bind(node)) is not None:
            op = call.op
        else:
            return
        self.ops[node] = op
        self.by_op[op][node] = None

    def having(self, ops: frozenset[str], *, pieces: bool = True) -> list[Node]:
        """The nodes that are one of ``ops``, in graph order; without ``pieces`` no ``getitem`` of anything but a tensor."""
        found = [n for op in ops for n in self.by_op.get(op, ()) if pieces or op != "getitem" or tensor(n.args[0]) is not None]
        return sorted(found, key=_position)

    @property
    def shape_env(self) -> Any:
        """Where the guards on symbolic sizes live; None if all sizes are numbers."""
        return self.fake_mode.shape_env if self.symbolic and self.fake_mode is not None else None

    def mode(self, node: Node) -> Mode:
        """The ambient mode under which ``node`` runs."""
        return self.modes[self.region[node]]

    def stops_gradients(self, node: Node) -> bool:
        """Whether ``node`` makes a value where no gradients are recorded, so that none leaves it.

        Such a value may say that it requires one, a view of a trained tensor does. What is returned as it was given keeps
        its gradient.
        """
        if self.records or node.op not in ("call_function", "call_method"):
            return False
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, Node) and isinstance(value(source), (tuple, list)):
            return self.stops_gradients(source)
        return not self.mode(node).grad and self.effects(node) is PURE and not returns_argument(node)

    def effects(self, node: Node) -> Effects:
        """The effects of ``node``."""
        return self.effect.get(node, PURE)

    def adopt(self, node: Node, like: Node) -> None:
        """Record a new node that runs in the region of ``like``."""
        self.region[node] = self.region[like]
        self._name(node)

    def forget(self, node: Node) -> None:
        """Drop an erased node."""
        op = self.ops.pop(node, None)
        if op is not None:
            self.by_op[op].pop(node, None)
        if self.effect:
            self.effect.pop(node, None)
        if self.hooked:
            self.hooked.discard(node)
        self._kept.append(value(node))  # a freed storage's number must not come back for another

    def size_before(self, size: Size, node: Node) -> bool:
        """Whether ``size`` is a number, or some node in front of ``node`` computes it."""
        if is_static(size):
            return True
        found = self.sizes.get(size_key(size))
        return found is not None and found < node

    def root(self, s: Storage) -> Storage:
        """The representative of all storages that rewrites have made one."""
        found = s
        while found in self._same:
            found = self._same[found]
        while s != found:  # the next question is answered at once
            self._same[s], s = found, self._same[s]
        return found

    def storages(self, node: Node) -> tuple[Storage, ...]:
        """The storages of ``node``, each once, rewrites taken into account."""
        result, known = value(node), self._found.get(node)
        if known is None or known[0] is not result:
            known = self._found[node] = (result, storages(node))
        found = known[1]
        if self._same and not self._same.keys().isdisjoint(found):
            return tuple(dict.fromkeys(map(self.root, found))) if len(found) > 1 else (self.root(found[0]),)
        return found

    def unite(self, old: Storage, new: Storage) -> None:
        """Values that lived in ``old`` live in ``new`` from now on."""
        old, new = self.root(old), self.root(new)
        if old == new:
            return
        self._same[old] = new
        if old in self.escaping:
            self.escaping.add(new)
        for known in (self.reshaped, self.addressed):
            if old in known:
                known.add(new)
        if old in self.writes:
            self.writes[new] = sorted({*self.writes.pop(old), *self.writes.get(new, ())}, key=_position)

    def written_between(self, read: Iterable[Storage], first: Node, last: Node) -> Node | None:
        """A node that writes one of ``read`` after ``first`` and before ``last``, both left out."""
        for s in read if self.writes else ():
            writers = self.writes.get(s)
            if not writers:
                continue
            at = bisect_left(writers, first._sort_key, key=_position)
            for writer in writers[at:]:
                if last < writer or writer is last:
                    break
                if writer is not first:
                    return writer
        return None

    def written_after(self, read: Iterable[Storage], first: Node) -> Node | None:
        """A node that writes one of ``read`` after ``first``."""
        for s in read:
            writers = self.writes.get(s)
            if writers and first < writers[-1]:
                return writers[-1]
        return None


def _position(node: Node) -> Any:
    return node._sort_key


def mode_after(node: Node, before: Mode) -> Mode:
    """The ambient mode behind ``node``, which switches it."""
    name = getattr(node.target, "__name__", "")
    if name == "_set_grad_enabled" and node.args and isinstance(node.args[0], bool):
        return replace(before, grad=node.args[0])
    if name == "_enter_autocast":
        return replace(before, autocast=(*before.autocast, tuple(node.args)))
    if name == "_exit_autocast":
        return replace(before, autocast=before.autocast[:-1])
    if name == "_enter_inference_mode":
        return replace(before, grad=node.args == (False,), outside=(*before.outside, before.grad))
    if name == "_exit_inference_mode" and before.outside:
        return replace(before, grad=before.outside[-1], outside=before.outside[:-1])
    return before


def fake_mode(graph: Graph) -> FakeTensorMode | None:
    """The mode of the fakes of ``graph``; None where it has none."""
    return next((found for node in graph.nodes if (found := _fake_mode(node)) is not None), None)


def _fake_mode(node: Node) -> FakeTensorMode | None:
    found = value(node)
    if found is MISSING:
        return None
    return next((t.fake_mode for t in leaves(found) if hasattr(t, "fake_mode")), None)
