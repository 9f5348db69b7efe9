"""Packed parameters: those that a graph joins on every call live in one buffer, and the graph takes the buffer.

A ``stack`` or ``cat`` of whole parameters, as horizontal patterns make them, is a copy of all of them on every call. Packing
makes the parameters views of one buffer, once, and hands the buffer to the compiled graph in place of them. In-place updates,
``load_state_dict`` and writes through ``.data`` then write the buffer itself; names, shapes and ``state_dict`` stay, and every
parameter still gets a gradient of its own. Each call looks where its parameters lie: one that was replaced is packed anew.

A parameter that shares memory with another tensor (a view of a flat buffer, one that FSDP gathers, ``weight.detach()`` that
somebody holds) stays where it is. What changes is storage: packed parameters share one, and saving one of them alone saves the
buffer. :func:`unpack` undoes it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.nn import Module, Parameter
from torch.utils.weak import WeakTensorKeyDictionary

from optimus.journal import Declined, Journal
from optimus.operators import bind
from optimus.state import GraphState
from optimus.values import tensor
from optimus.versions import shares_storage

MOST_MOVES = 100
"""How often parameters may move into a buffer again before its graphs join them on every call instead."""

_lock = threading.RLock()
_homes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # parameter -> (pack, place)


@dataclass
class Pack:
    """Some parameters in one buffer: ``slots[k]`` is where the ``k``-th lies, ``joined`` the operator that it stands for."""

    joined: str
    buffer: Tensor
    slots: tuple[Tensor, ...]
    owners: list[weakref.ref[Tensor]] = field(default_factory=list)
    moves: int = 0
    released: bool = False

    @classmethod
    def of(cls, joined: str, members: Sequence[Parameter]) -> Pack:
        """A buffer for ``members``, which move into it on the first call: what compiles reads them where they are."""
        with torch.inference_mode(False), torch.no_grad():
            values = [m.detach() for m in members]
            buffer = torch.stack(values) if joined == "stack" else torch.cat(values)
            slots = buffer.unbind() if joined == "stack" else buffer.split([len(v) for v in values])
        pack = cls(joined, buffer, tuple(slots))
        for member in members:
            _homes[member] = (pack, len(pack.owners))
            pack.owners.append(weakref.ref(member))
        return pack

    def holds(self, members: Sequence[Tensor]) -> bool:
        """Whether exactly these lie in the buffer, in this order."""
        return len(members) == len(self.slots) and all(m.data_ptr() == s.data_ptr() for m, s in zip(members, self.slots, strict=True))

    def take(self, members: Sequence[Tensor]) -> bool:
        """Move in what lies elsewhere; whoever it replaces gets memory of its own. False if that is given up."""
        if self.released or self.moves >= MOST_MOVES or len({id(m) for m in members}) < len(members):
            return False
        strangers = [k for k, m in enumerate(members) if m.data_ptr() != self.slots[k].data_ptr()]
        if not all(_alike(members[k], self.slots[k]) and not _shared(members[k]) for k in strangers):
            return False
        self.moves += 1
        with torch.inference_mode(False), torch.no_grad():
            values = [members[k].detach().clone() for k in strangers]
            for k in strangers:
                self._evict(k)
            for k, value in zip(strangers, values, strict=True):
                self.slots[k].copy_(value)
                members[k].data = self.slots[k]
                _homes[members[k]] = (self, k)
                self.owners[k] = weakref.ref(members[k])
        return True

    def release(self) -> None:
        """Give every parameter memory of its own; graphs that know the buffer join the parameters on every call from now on."""
        self.released = True
        with torch.inference_mode(False), torch.no_grad():
            for place in range(len(self.slots)):
                self._evict(place)

    def _evict(self, place: int) -> None:
        owner = self.owners[place]()
        if owner is not None and _homes.get(owner) == (self, place):
            del _homes[owner]
            if owner.data_ptr() == self.slots[place].data_ptr():
                owner.data = owner.detach().clone()

    def join(self, members: Sequence[Tensor]) -> Tensor:
        """What the buffer stands for, computed from ``members``."""
        return torch.stack(tuple(members)) if self.joined == "stack" else torch.cat(tuple(members))

    def apart(self, gradient: Tensor | None) -> Sequence[Tensor | None]:
        """The gradients of the members, contiguous as these are."""
        if gradient is None:
            return [None] * len(self.slots)
        gradient = gradient.contiguous()
        return gradient.unbind() if self.joined == "stack" else gradient.split([len(s) for s in self.slots])

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def _alike(member: Tensor, slot: Tensor) -> bool:
    """Whether ``member`` may lie in ``slot``."""
    plain = type(member) is Parameter and member.is_leaf and not member.is_inference()
    return plain and member.shape == slot.shape and member.dtype == slot.dtype and member.device == slot.device and member.is_contiguous()


def unpack(what: Module | Iterable[Tensor]) -> int:
    """Give packed parameters memory of their own again; returns how many buffers were given up.

    ``what``: a module, or parameters. All parameters of a buffer leave it together. Compiled graphs go on and join the
    parameters on every call.
    """
    with _lock:
        members = what.parameters() if isinstance(what, Module) else what
        packs = {home[0] for m in members if (home := _homes.get(m)) is not None}
        for pack in packs:
            pack.release()
    return len(packs)


class _Joined(torch.autograd.Function):
    """From members to buffers, without a copy; back, each gradient of a buffer is cut apart."""

    @staticmethod
    def forward(ctx: Any, packs: tuple[Pack, ...], *members: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.packs, ctx.members = packs, members
        ctx.versions = [m._version for m in members]
        return tuple(p.buffer.detach() for p in packs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:  # type: ignore[override]
        for member, version in zip(ctx.members, ctx.versions, strict=True):
            if member._version != version:
                raise RuntimeError(
                    f"a packed parameter of shape {tuple(member.shape)} is at version {member._version}, expected version {version}: it was"
                    " modified by an in-place operation between the forward and the backward pass; accepted are updates behind the backward pass"
                )
        return None, *itertools.chain.from_iterable(p.apart(g) for p, g in zip(ctx.packs, gradients, strict=True))


@dataclass
class Packing:
    """The packs of one compiled graph: which of its inputs they replace, and the inputs that are left."""

    kept: list[int]
    packs: list[Pack]
    places: list[list[int]]
    """For each pack the positions of its members among the inputs."""
    trains: int
    """How many packs, the first ones, require gradients."""

    @classmethod
    def of(cls, gm: GraphModule, inputs: Sequence[Any], journal: Journal) -> tuple[Packing, GraphModule, list[Any]] | None:
        """Pack what ``gm`` joins of its inputs; None where there is nothing to pack.

        ``inputs``: what the graph is compiled for. Returns the packing, a copy of ``gm`` that takes the buffers, and the inputs
        that this is compiled for. Groups that cannot be packed stand in the journal, with the reason.
        """
        with _lock:
            groups = _groups(gm, inputs, journal)
            if not groups:
                return None
            groups.sort(key=lambda g: not inputs[g.places[0]].requires_grad)
            packs = [g.pack for g in groups]
            trains = sum(bool(inputs[g.places[0]].requires_grad) for g in groups)
            examples = [p.buffer.detach().requires_grad_(k < trains) for k, p in enumerate(packs)]
            taking, kept = _with_buffers(gm, groups, examples)
            journal.packed = [f"{g.nodes[0].name}: {len(g.places)} parameters in a buffer of shape {tuple(g.pack.buffer.shape)}" for g in groups]
        return cls(kept, packs, [g.places for g in groups], trains), taking, [*(inputs[k] for k in kept), *examples]

    def call(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """``compiled``, which takes the buffers, as a function of the inputs that the graph had before."""
        flat = tuple(itertools.chain.from_iterable(self.places))
        training = len(tuple(itertools.chain.from_iterable(self.places[: self.trains])))
        members_of, kept_of = _getter(flat), _getter(self.kept)
        addresses = [s.data_ptr() for p in self.packs for s in p.slots]
        frozen = [p.buffer for p in self.packs[self.trains :]]
        learning = tuple(self.packs[: self.trains])
        constants = [p.buffer for p in self.packs]

        def run(*args: Any) -> Any:
            members = members_of(args)
            if [m.data_ptr() for m in members] != addresses and not self._moved(args):
                return compiled(*kept_of(args), *self._joined(args))
            if learning and torch.is_grad_enabled():
                return compiled(*kept_of(args), *_Joined.apply(learning, *members[:training]), *frozen)
            return compiled(*kept_of(args), *constants)

        return run

    def _moved(self, args: Sequence[Any]) -> bool:
        with _lock:
            given = [[args[k] for k in places] for places in self.places]
            taken = all(pack.holds(members) or pack.take(members) for pack, members in zip(self.packs, given, strict=True))
            return taken and all(pack.holds(members) for pack, members in zip(self.packs, given, strict=True))

    def _joined(self, args: Sequence[Any]) -> list[Tensor]:
        return [pack.join([args[k] for k in places]) for pack, places in zip(self.packs, self.places, strict=True)]


def _getter(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda args: tuple(args[k] for k in places)


@dataclass
class _Group:
    nodes: list[Node]
    places: list[int]
    pack: Pack


def _groups(gm: GraphModule, inputs: Sequence[Any], journal: Journal) -> list[_Group]:
    """The joins of parameters in ``gm``, packed. Equal ones share a pack."""
    placeholders = {node: k for k, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    wanted = [n for n in gm.graph.nodes if _is_join(n, placeholders)]
    if not wanted:
        return []
    state = GraphState.of(gm.graph)
    found: dict[tuple[int, ...], _Group] = {}
    for node in wanted:
        call = bind(node)
        assert call is not None
        places = tuple(placeholders[m] for m in call["tensors"])
        if places in found and found[places].pack.joined == call.op and _refusal(node, call["tensors"], state) is None:
            found[places].nodes.append(node)
            continue
        reason = _refusal(node, call["tensors"], state) or _unfit([inputs[k] for k in places])
        pack = None if reason else _pack(call.op, [inputs[k] for k in places])
        if pack is None:
            journal.declined.append(Declined("pack", node.name, *(reason or ("packed_otherwise", "a member lies in another buffer"))))
        else:
            found[places] = _Group([node], list(places), pack)
    return list(found.values())


def _is_join(node: Node, placeholders: dict[Node, int]) -> bool:
    call = bind(node) if node.op == "call_function" else None
    if call is None or call.op not in ("stack", "cat") or call["dim"] != 0 or call.args.get("out") is not None:
        return False
    members = call["tensors"]
    return isinstance(members, (list, tuple)) and len(members) > 1 and all(m in placeholders for m in members)


def _refusal(node: Node, members: Sequence[Node], state: GraphState) -> tuple[str, str] | None:
    """Why the join may not become an input, as far as the graph says."""
    if any(s in state.escaping for s in state.storages(node)):
        return "returned", "the joined parameters are returned, and need memory of their own"
    if any(s in state.writes for n in (node, *members) for s in state.storages(n)):
        return "written", "the graph writes to the parameters or to what is joined of them"
    shown, asked = tensor(node), tensor(members[0])
    if shown is None or asked is None or shown.requires_grad != (asked.requires_grad and state.mode(node).grad):
        return "gradient", "the join stops gradients"
    return None


def _unfit(members: Sequence[Any]) -> tuple[str, str] | None:
    """Why these inputs may not be packed."""
    if not all(type(m) is Parameter and m.is_leaf and not m.is_inference() for m in members):
        return "no_parameter", "not all members are parameters"
    if len({id(m) for m in members}) < len(members):
        return "shared", "a parameter is a member twice"
    if len({(m.dtype, m.device, m.requires_grad) for m in members}) > 1:
        return "unlike", "members differ in dtype, device or requires_grad"
    if any(m.numel() == 0 or m.layout is not torch.strided or not m.is_contiguous() for m in members):
        return "layout", "a member is empty or not contiguous"
    shared = any(m not in _homes and _shared(m) for m in members)
    return ("shared", "another tensor lies in the memory of a member") if shared else None


def _shared(member: Tensor) -> bool:
    """Whether a move would part ``member`` from another tensor, as from the buffers that FSDP gathers parameters in."""
    return member.untyped_storage().nbytes() != member.numel() * member.element_size() or shares_storage(member)


def _pack(joined: str, members: Sequence[Parameter]) -> Pack | None:
    """The pack that holds exactly ``members``, or a new one; None where some lie in another."""
    homes = [_homes.get(m) for m in members]
    if not any(homes):
        return Pack.of(joined, members)
    pack: Pack | None = homes[0][0] if homes[0] else None
    fits = pack is not None and pack.joined == joined and not pack.released and len(pack.slots) == len(members)
    return pack if fits and all(home == (pack, k) for k, home in enumerate(homes)) else None


def _with_buffers(gm: GraphModule, groups: Sequence[_Group], examples: Sequence[Tensor]) -> tuple[GraphModule, list[int]]:
    """A copy of ``gm`` with an input for each group and without inputs that nobody reads any more; the positions of those kept.

    Dynamo goes on reading the placeholders of the graph that it made, so that one stays as it is.
    """
    from torch._dynamo.source import ConstantSource

    taking, copies = _copy(gm)
    graph = taking.graph
    placeholders = graph.find_nodes(op="placeholder")
    after = placeholders[-1]
    for number, (group, example) in enumerate(zip(groups, examples, strict=True)):
        with graph.inserting_after(after):
            after = graph.placeholder(f"optimus_packed_{number}")
        after.meta["example_value"] = group.nodes[0].meta["example_value"]
        after.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"}  # CUDA graphs need not copy it
        after._dynamo_source = ConstantSource(after.name)  # type: ignore[attr-defined]
        example._dynamo_static_input_type = "unguarded"  # type: ignore[attr-defined]
        for node in map(copies.__getitem__, group.nodes):
            node.replace_all_uses_with(after)
            graph.erase_node(node)
    gone = {k for group in groups for k in group.places if not placeholders[k].users}
    for k in gone:
        graph.erase_node(placeholders[k])
    graph.lint()
    taking.recompile()
    return taking, [k for k in range(len(placeholders)) if k not in gone]


def _copy(gm: GraphModule) -> tuple[GraphModule, dict[Node, Node]]:
    """``gm`` with a graph of its own and what AOTAutograd reads beside the graph; its nodes by those of ``gm``."""
    graph, copies = Graph(), {}
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if hasattr(node, "_dynamo_source"):
            copies[node]._dynamo_source = node._dynamo_source
    copied = GraphModule(gm, graph)
    copied.meta.update(gm.meta)
    if hasattr(gm, "_param_name_to_source"):
        copied._param_name_to_source = gm._param_name_to_source
    return copied, copies
