"""Run a graph over symbolic tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

import verify.semantics.extend
import verify.semantics.reduce
import verify.semantics.reshape  # noqa: F401 - fills the table
from optimus.effects import effects
from optimus.operators import Call, bind
from optimus.state import Mode, mode_after
from optimus.values import MISSING, is_plain, is_row_major, leaves, storage, storages, tensor, value
from verify.semantics.autograd import fill, filled
from verify.semantics.compute import elementwise, is_elementwise, meaning_of
from verify.semantics.cuts import indexed
from verify.semantics.draws import Draw, drawn
from verify.semantics.logic import Cond, Int, Logic
from verify.semantics.movement import alias, behind
from verify.semantics.table import TABLE, Use, stored
from verify.semantics.tensor import Memory, Product, RaisesError, Storage, Tensor, UnmodelledError, flattened, number, same_number, symbolic


@dataclass
class Outcome:
    """What a graph computes.

    ``outputs``: tensors as contents, other values as they are, flat. ``owners``: for each output what it shares memory
    with, empty for other values. ``inputs``: the contents of each tensor input at the end. ``required``: what must hold
    for no operator to raise. ``raises``: the operator that raises whatever the sizes are; there are then no outputs.
    ``draws``: what is drawn at random, in order. ``mode``: the ambient mode that the graph leaves behind.
    """

    outputs: list[Any] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    required: list[Cond] = field(default_factory=list)
    raises: str = ""
    structure: Any = None
    draws: tuple[Draw, ...] = ()
    mode: str = ""


@dataclass
class Evaluator:
    """Evaluates graphs in one algebra.

    ``size_of`` turns a SymInt of the graph's metadata into an integer of the algebra. ``differentiated``: the graph stands
    behind autograd, so that nothing is differentiated through it and ``detach`` is a view of everything.
    """

    logic: Logic
    size_of: Callable[[Any], Int]
    grad: bool = True
    differentiated: bool = False
    required: list[Cond] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    _storages: dict[Node, frozenset[int]] = field(default_factory=dict)

    def run(self, gm: GraphModule, inputs: Mapping[str, Tensor | Int]) -> Outcome:
        """Evaluate ``gm``; ``inputs`` by the position of the placeholder, as text. Raises :class:`UnmodelledError`."""
        self.required, self.draws = [], []
        memories: dict[str, Memory] = {}
        values: dict[Node, Any] = {}
        mode = entry = Mode(self.grad)
        result: Any = None
        seen: dict[int, Memory] = {}
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                position = str(len(values))
                given = inputs[position]
                if isinstance(given, Tensor):
                    given = memories[position] = _input_memory(node, given, seen)
                values[node] = given
            elif node.op == "output":
                result = map_aggregate(node.args[0], lambda a: values[a] if isinstance(a, Node) else a)  # type: ignore[arg-type]
            elif node.op == "get_attr":
                raise UnmodelledError(f"the attribute {node.target} of the graph")
            elif _switches_mode(node):
                mode, values[node] = mode_after(node, mode), None
            else:
                try:
                    values[node] = self._node(node, values, _mode_text(mode, entry))
                except RaisesError as error:
                    return Outcome(required=[*self.required, False], raises=f"{node.name}, {error}")
        return self._outcome(result, memories, _mode_text(mode, entry))

    def _outcome(self, result: Any, memories: dict[str, Memory], mode: str) -> Outcome:
        names: dict[int, str] = {}
        for k, memory in memories.items():
            names.setdefault(id(memory.owner), f"input {k}")
        flat, structure = pytree.tree_flatten(result)
        found = Outcome(required=self.required, structure=structure, draws=tuple(self.draws), mode=mode)
        for item in flat:
            shared = isinstance(item, Storage)
            found.owners.append(names.setdefault(id(item.root().owner), f"output {len(found.outputs)}") if shared else "")
            found.outputs.append(item.read() if shared else item)
        found.inputs = [m.contents for m in memories.values()]
        return found

    def _node(self, node: Node, values: dict[Node, Any], mode: str) -> Any:
        call = bind(node)
        if call is None or effects(node, call).opaque:
            return self._unknown(node, values)
        if call.reshapes:
            raise UnmodelledError(f"{call.op}_, which changes shape or flags in place")
        args = {k: self._argument(call.args[k], values, call.op in KEEPS_PRODUCTS) for k in _in_order(call)}
        if call.op.startswith("scalar_") or (call.writes == ("self",) and not isinstance(args["self"], Storage)):
            return self._scalar(call.op.removeprefix("scalar_"), args)
        use = Use(call, args, self.logic, self._results(node, call), mode, isinstance(value(node), (tuple, list)))
        if call.random:
            self.draws.append(drawn(use))
        try:
            found = self._written(use) if call.writes else self._computed(use)
        except KeyError as error:
            raise UnmodelledError(f"{call.op} called without {error}") from error
        self.required += use.required
        return stored(found)

    def _computed(self, use: Use) -> Any:
        if self.differentiated and use.call.op == "detach":
            return alias(use.storage("self"))
        found = meaning_of(use, len(self.draws))
        _check(use, found)
        return _in_mode(use, found)

    def _argument(self, given: Any, values: dict[Node, Any], products: bool) -> Any:
        if isinstance(given, slice):
            return slice(*(self._argument(a, values, products) for a in (given.start, given.stop, given.step)))
        if isinstance(given, (list, tuple)):
            items = [self._argument(g, values, products) for g in given]
            return items if isinstance(given, list) else tuple(items)
        found = values[given] if isinstance(given, Node) else self.size_of(given) if isinstance(given, torch.SymInt) else given
        return number(found) if isinstance(found, Product) and not products else found

    def _results(self, node: Node, call: Call) -> tuple[tuple[tuple[Any, ...], torch.dtype, bool], ...]:
        found = value(node)
        if found is MISSING or (isinstance(found, (tuple, list)) and not all(isinstance(f, torch.Tensor) for f in found)):
            return ()
        owned = frozenset[int]().union(*map(self._owned, node.all_input_nodes))
        return tuple((tuple(self.size_of(s) for s in t.shape), t.dtype, storage(t) in owned or _returns_view(call, t)) for t in leaves(found))

    def _owned(self, node: Node) -> frozenset[int]:
        if node not in self._storages:
            self._storages[node] = frozenset(storages(node))
        return self._storages[node]

    # ---------------------------------------------------------------------------------------------------------- writes

    def _written(self, use: Use) -> Any:
        """An operator that writes one argument, and returns it."""
        if use.call.random:
            raise UnmodelledError(f"{use.call.op} in place, which is random")
        (name, *others) = use.call.writes
        if others or name not in ("self", "out"):
            raise UnmodelledError(f"{use.call.op}, which writes {', '.join(use.call.writes)}")
        target = use.storage(name)
        if any(s is not target and s.root().owner is target.root().owner for s in _storages(use.args.values())):
            raise UnmodelledError(f"{use.call.op}, which writes memory that it reads under another name")
        if name == "out":
            found = stored(meaning_of(_without_out(use), len(self.draws))).read()
            if len(found.dims) != len(target.read().dims):
                raise UnmodelledError(f"{use.call.op} with an out of another shape")
            _put(use, target, found)
        elif use.call.op == "setitem":
            part = indexed(use, target, use.args["index"])
            _put(use, part, self._assigned(use, use.args["value"], part.read()))
            return None
        else:
            before = target.read()
            use.results = ((before.dims, before.dtype, True),)
            _put(use, target, self._in_place(use, before))
        return target

    def _in_place(self, use: Use, before: Tensor) -> Tensor:
        match use.call.op:
            case "copy":
                return use.fitted(use.tensor("src"), before.dims)
            case "zero":
                return filled(use, before.dims, 0, before.dtype)
            case "fill":
                found: Tensor = fill(use)
                return found
            case op if is_elementwise(use) and op not in TABLE:
                return elementwise(use, op)
            case op:
                raise UnmodelledError(f"{op} in place")

    def _assigned(self, use: Use, given: Any, like: Tensor) -> Tensor:
        if isinstance(given, Storage):
            source = given.read()
            extra = max(len(source.dims) - len(like.dims), 0)
            for extent in source.dims[:extra]:
                use.same(extent, 1)
            return use.fitted(source.map(source.dims[extra:], lambda i: (0,) * extra + i), like.dims)
        return filled(use, like.dims, given, like.dtype)

    # --------------------------------------------------------------------------------------------------------- numbers

    def _scalar(self, op: str, args: dict[str, Any]) -> Any:
        """An operator on numbers. A quotient of products of sizes loses the factors they have in common, which must not be 0."""
        left, right = args["self"], args.get("other")
        if op == "floor_divide" and isinstance(left, Product) and isinstance(right, int) and right == 1:
            return left
        if op == "floor_divide" and isinstance(left, Product) and symbolic(right):
            rest = list(left.factors)
            for factor in right.factors if isinstance(right, Product) else (right,):
                at = next((k for k, r in enumerate(rest) if self.logic.decide(same_number(r, factor)) is True), None)
                if at is None:
                    raise UnmodelledError("a quotient of sizes that may leave a rest")
                self.required.append(self.logic.negate(same_number(factor, 0)))
                rest.pop(at)
            return flattened(rest)
        return _scalar(op, args)

    def _unknown(self, node: Node, values: dict[Node, Any]) -> Any:
        """Arithmetic on sizes, and functions of numbers; anything else has no semantics."""
        target: Any = node.target
        args = [self._argument(a, values, False) for a in node.args]
        if node.op == "call_function" and not any(isinstance(a, Storage) for a in args):
            name = getattr(target, "__name__", "")
            if all(isinstance(a, (int, float)) for a in args):
                return target(*args)
            if "assert" in name or name == "_check":
                return None
        raise UnmodelledError(f"{node.op} {getattr(target, '__name__', target)}")


KEEPS_PRODUCTS = {"view", "reshape", "_unsafe_view", "unflatten", "expand", "repeat", "scalar_mul", "scalar_floor_divide"}
"""Operators whose arguments stay products of sizes; to all others a size is one number."""


def _in_order(call: Call) -> list[str]:
    """The names of the arguments in the order of the schema, however they were passed."""
    order = [] if call.overload is None else [a.name for a in call.overload._schema.arguments]
    return [*(n for n in order if n in call.args), *(n for n in call.args if n not in order)]


def _storages(given: Iterable[Any]) -> Iterable[Storage]:
    for item in given:
        if isinstance(item, Storage):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _storages(item)


def _put(use: Use, target: Storage, new: Tensor) -> None:
    """Write ``new``. Under another mode than that of the entry, what is written is not simply what is then held."""
    before = target.read()
    use.same_dims(before.dims, new.dims)
    new = use.cast(new, before.dtype)
    held = Tensor(before.dims, new.__getitem__, before.dtype)
    if use.mode:
        symbol = use.symbol("written")
        held = Tensor(before.dims, lambda i: use.logic.apply(symbol, before[i], new[i]), before.dtype)
    target.write(held)


def _check(use: Use, found: Any) -> None:
    """The semantics must agree with PyTorch's own metadata where that says something plainly."""
    given = [f for f in (found if isinstance(found, (list, tuple)) else [found]) if isinstance(f, (Tensor, Storage))]
    if not use.results:
        return
    if len(given) != len(use.results):
        raise UnmodelledError(f"{use.call.op}: {len(given)} results here, {len(use.results)} by the metadata")
    for one, (dims, dtype, aliases) in zip(given, use.results, strict=True):
        seen = one.read() if isinstance(one, Storage) else one
        extents = [(number(a), number(b)) for a, b in zip(seen.dims, dims, strict=False)]
        plain = all(a == b for a, b in extents if isinstance(a, int) and isinstance(b, int))
        if len(seen.dims) != len(dims) or not plain or seen.dtype != dtype:
            raise UnmodelledError(f"{use.call.op}: {seen.dims} of {seen.dtype} here, {dims} of {dtype} by the metadata")
        if aliases and not isinstance(one, Storage):
            raise UnmodelledError(f"{use.call.op}: a view by the metadata, but not here")


def _returns_view(call: Call, result: torch.Tensor) -> bool:
    """Whether an operator that returns a view where it can does so here.

    Told from strides, since a rewrite in front may have given the argument another fake, with a storage of its own.
    """
    source = tensor(call.args.get("self"))
    if source is None:
        return False
    match call.op:
        case "reshape" | "reshape_as" | "flatten":
            return is_row_major(source) or not is_row_major(result)
        case "contiguous":
            return call.args.get("memory_format") in (None, torch.contiguous_format) and is_row_major(source)
        case "to" | "type_as":
            kept = call.args.get("memory_format") in (None, torch.preserve_format) and not call.args.get("copy")
            return kept and source.dtype == result.dtype and source.device == result.device
    return False


def _in_mode(use: Use, found: Any) -> Any:
    """Results under another ambient mode than that of the entry are not those of the entry: gradients stop, casts happen."""
    if not use.mode:
        return found
    if isinstance(found, (list, tuple)):
        return type(found)(_in_mode(use, f) for f in found)
    if isinstance(found, Tensor):
        symbol = use.symbol("under")
        return Tensor(found.dims, lambda i: use.logic.apply(symbol, found[i]), found.dtype)
    if isinstance(found, Storage) and use.mode.startswith("grad") and isinstance(use.args.get("self"), Storage):
        return behind(use, found, "under")
    return found


def _without_out(use: Use) -> Use:
    args = {k: a for k, a in use.args.items() if k != "out"}
    call = replace(use.call, args=args, writes=())
    return Use(call, args, use.logic, use.results, use.mode, use.several, use.required)


MODE_SWITCHES = {"_set_grad_enabled", "_enter_autocast", "_exit_autocast"}


def _switches_mode(node: Node) -> bool:
    found = effects(node)
    if found.opaque or not found.switches_mode:
        return False
    name = getattr(node.target, "__name__", "")
    if name not in MODE_SWITCHES or any(isinstance(a, Node) for a in node.args[:1]) != (name == "_exit_autocast"):
        raise UnmodelledError(f"{name}, which switches a mode")
    return True


def _mode_text(mode: Mode, entry: Mode) -> str:
    """The mode as text, empty where it is that of the entry; starts with ``grad`` where gradients are on or off by now."""
    grad = [] if mode.grad == entry.grad else [f"grad={mode.grad}"]
    return " ".join([*grad, *(f"autocast{a[:3]}" for a in mode.autocast)])


def _input_memory(node: Node, contents: Tensor, seen: dict[int, Memory]) -> Memory:
    """The memory of an input; inputs that alias by the graph's metadata have one owner."""
    memory = Memory(contents)
    fake = tensor(node)
    if fake is not None and not is_plain(fake):
        raise UnmodelledError(f"the input {node.name}, a {type(fake).__name__} of layout {fake.layout}")
    if fake is not None and overlaps_itself(fake):
        memory.sealed = "an input that overlaps itself"
    for s in storages(node):
        if s in seen:
            memory.owner = seen[s].owner
            memory.sealed = seen[s].sealed = "an input that shares memory with another"
        seen.setdefault(s, memory)
    return memory


def overlaps_itself(fake: torch.Tensor) -> bool:
    """Whether two elements may lie in one place. With symbolic strides, only a stride of 0 counts."""
    strides = [(s, n) for s, n in zip(fake.stride(), fake.shape, strict=True) if not (isinstance(n, int) and n <= 1)]
    if not all(isinstance(x, int) for pair in strides for x in pair):
        return any(isinstance(s, int) and s == 0 for s, _ in strides)
    reach = 0
    for stride, extent in sorted(strides):
        if stride <= reach:
            return True
        reach += (extent - 1) * stride
    return False


SCALAR = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": lambda a, _: -a, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _scalar(op: str, args: dict[str, Any]) -> Any:
    left, right = args["self"], args.get("other")
    if isinstance(left, (list, tuple)):
        if op != "add" or not isinstance(right, (list, tuple)):
            raise UnmodelledError(f"{op} of lists")
        return type(left)([*left, *right])
    if op != "mul":
        left, right = number(left), number(right)
    if op == "floor_divide" and isinstance(right, int) and right > 0:
        return left // right if isinstance(left, (int, float)) else left / right
    if op == "remainder" and isinstance(right, int) and right > 0:
        return left % right
    if op == "mul" and symbolic(left) and symbolic(right):
        return flattened((left, right))
    if op in SCALAR:
        left, right = number(left), number(right)
        return SCALAR[op](left, right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return getattr(operator, {"div": "truediv", "floor_divide": "floordiv", "remainder": "mod"}.get(op, op))(left, right)
    raise UnmodelledError(f"{op} of sizes")
