"""Run a graph over symbolic tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

import verify.semantics.reshape  # noqa: F401 - fills the table
from optimus.effects import effects
from optimus.operators import bind
from optimus.state import Mode, mode_after
from optimus.values import MISSING, leaves, storage, storages, value
from verify.semantics.compute import elementwise, is_elementwise, meaning_of
from verify.semantics.logic import Cond, Int, Logic
from verify.semantics.movement import indexed
from verify.semantics.table import TABLE, Use, stored
from verify.semantics.tensor import Memory, Storage, Tensor, UnmodelledError, broadcast


@dataclass
class Outcome:
    """What a graph computes.

    ``outputs``: tensors as contents, other values as they are. ``owners``: for each tensor output, what it shares memory
    with. ``inputs``: the contents of each tensor input at the end. ``required``: what must hold for no operator to raise.
    """

    outputs: list[Any]
    owners: list[str]
    inputs: list[Tensor]
    required: list[Cond]


@dataclass
class Evaluator:
    """Evaluates graphs in one algebra.

    ``size_of`` turns a SymInt of the graph's metadata into an integer of the algebra.
    """

    logic: Logic
    size_of: Callable[[Any], Int]
    grad: bool = True
    required: list[Cond] = field(default_factory=list)

    def run(self, gm: GraphModule, inputs: Mapping[str, Tensor | Int]) -> Outcome:
        """Evaluate ``gm``; ``inputs`` by the position of the placeholder, as text. Raises :class:`UnmodelledError`."""
        self.required = []
        memories: dict[str, Memory] = {}
        values: dict[Node, Any] = {}
        mode = entry = Mode(self.grad)
        draws = 0
        result: Any = None
        position = 0
        seen: dict[int, Memory] = {}
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                given = inputs[str(position)]
                if isinstance(given, Tensor):
                    given = memories[str(position)] = _input_memory(node, given, seen)
                values[node] = given
                position += 1
            elif node.op == "output":
                result = map_aggregate(node.args[0], lambda a: values[a] if isinstance(a, Node) else a)  # type: ignore[arg-type]
            elif node.op == "get_attr":
                raise UnmodelledError(f"the attribute {node.target} of the graph")
            else:
                found = effects(node)
                if found.switches_mode and not found.opaque:
                    mode = mode_after(node, mode)
                    values[node] = None
                    continue
                values[node] = self._node(node, values, _mode_text(mode, entry), draws)
                draws += found.random
        return self._outcome(result, memories)

    def _outcome(self, result: Any, memories: dict[str, Memory]) -> Outcome:
        names: dict[int, str] = {}
        for k, memory in memories.items():
            names.setdefault(id(memory.owner), f"input {k}")
        outputs: list[Any] = []
        owners: list[str] = []
        for item in _flat(result):
            if isinstance(item, Storage):
                owners.append(names.setdefault(id(item.root().owner), f"output {len(outputs)}"))
                outputs.append(item.read())
            else:
                owners.append("")
                outputs.append(item)
        return Outcome(outputs, owners, [m.contents for m in memories.values()], self.required)

    def _node(self, node: Node, values: dict[Node, Any], mode: str, draws: int) -> Any:
        call = bind(node)
        if call is None or effects(node, call).opaque:
            return self._unknown(node, values)
        if call.reshapes:
            raise UnmodelledError(f"{call.op}_, which changes shape or flags in place")
        args = {k: self._argument(a, values) for k, a in call.args.items()}
        if call.op.startswith("scalar_"):
            return _scalar(call.op.removeprefix("scalar_"), args, self.logic)
        use = Use(call, args, self.logic, self._results(node), mode, isinstance(value(node), (tuple, list)))
        found = self._written(use, draws) if call.writes else _in_mode(use, meaning_of(use, draws))
        self.required += use.required
        return stored(found)

    def _argument(self, given: Any, values: dict[Node, Any]) -> Any:
        if isinstance(given, slice):
            return slice(*(self._argument(a, values) for a in (given.start, given.stop, given.step)))
        if isinstance(given, (list, tuple)):
            items = [self._argument(g, values) for g in given]
            return tuple(items) if isinstance(given, tuple) else items
        if isinstance(given, Node):
            return values[given]
        return self.size_of(given) if isinstance(given, torch.SymInt) else given

    def _results(self, node: Node) -> tuple[tuple[tuple[Any, ...], torch.dtype, bool], ...]:
        found = value(node)
        if found is MISSING:
            return ()
        owned = {s for a in node.all_input_nodes for s in storages(a)}
        return tuple((tuple(self.size_of(s) for s in t.shape), t.dtype, storage(t) in owned) for t in leaves(found))

    def _written(self, use: Use, draws: int) -> Any:
        """An operator that writes one argument, and returns it."""
        names = use.call.writes
        if names == ("out",):
            found = stored(meaning_of(_without_out(use), draws))
            target = use.storage("out")
            target.write(found.read())
            return target
        if names != ("self",):
            raise UnmodelledError(f"{use.call.op}, which writes {', '.join(names)}")
        target = use.storage("self")
        before = target.read()
        match use.call.op:
            case "copy":
                new = broadcast(self.logic, use.cast(use.tensor("src"), before.dtype), before.dims)
            case "setitem":
                part = indexed(use, target, use.args["index"])
                shape = part.read()
                part.write(self._assigned(use, use.args["value"], shape))
                return None
            case "zero" | "fill" if not isinstance(use.args.get("value"), Storage):
                new = self._assigned(use, use.args.get("value", 0), before)
            case op if is_elementwise(use) and op not in TABLE:
                new = elementwise(use, op)
            case op:
                raise UnmodelledError(f"{op} in place")
        target.write(Tensor(before.dims, new.__getitem__, before.dtype) if new.dtype == before.dtype else use.cast(new, before.dtype))
        return target

    def _assigned(self, use: Use, given: Any, like: Tensor) -> Tensor:
        if isinstance(given, Storage):
            source = given.read()
            extra = len(source.dims) - len(like.dims)
            if extra > 0:
                source = source.map(source.dims[extra:], lambda i: (0,) * extra + i)
            return broadcast(self.logic, use.cast(source, like.dtype), like.dims)
        symbol = use.symbol("constant", like.dtype, literals={"value": given})
        return Tensor(like.dims, lambda _: self.logic.apply(symbol), like.dtype)

    def _unknown(self, node: Node, values: dict[Node, Any]) -> Any:
        """Arithmetic on sizes, and functions of numbers; anything else has no semantics."""
        target: Any = node.target
        args = [self._argument(a, values) for a in node.args]
        if node.op == "call_function" and not any(isinstance(a, Storage) for a in args):
            name = getattr(target, "__name__", "")
            if name in ("sym_sum",) and len(args) == 1:
                return sum(args[0])
            if all(isinstance(a, (int, float)) for a in args):
                return target(*args)
            if "assert" in name or name == "_check":
                return None
        raise UnmodelledError(f"{node.op} {getattr(target, '__name__', target)}")


def _in_mode(use: Use, found: Any) -> Any:
    """Results under another ambient mode than that of the entry are not those of the entry: gradients stop, casts happen."""
    if not use.mode:
        return found
    symbol = use.symbol("under")
    if isinstance(found, Tensor):
        return Tensor(found.dims, lambda i: use.logic.apply(symbol, found[i]), found.dtype)
    return found


def _without_out(use: Use) -> Use:
    args = {k: a for k, a in use.args.items() if k != "out"}
    call = replace(use.call, args=args, writes=())
    return Use(call, args, use.logic, use.results, use.mode, use.several, use.required)


def _mode_text(mode: Mode, entry: Mode) -> str:
    if mode == entry:
        return ""
    return f"grad={mode.grad}" + "".join(f" autocast{a[:3]}" for a in mode.autocast)


def _input_memory(node: Node, contents: Tensor, seen: dict[int, Memory]) -> Memory:
    """The memory of an input; inputs that alias by the graph's metadata have one owner."""
    memory = Memory(contents)
    for s in storages(node):
        if s in seen:
            memory.owner = seen[s].owner
            memory.apart = seen[s].apart = False
        seen.setdefault(s, memory)
    return memory


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in _flat(item)]
    if isinstance(result, dict):
        return [leaf for item in result.values() for leaf in _flat(item)]
    return [result]


SCALAR = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": lambda a, _: -a, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _scalar(op: str, args: dict[str, Any], logic: Logic) -> Any:
    left, right = args["self"], args["other"]
    if isinstance(left, (list, tuple)) and op == "add":
        return type(left)([*left, *right])
    if op == "floor_divide" and isinstance(right, int) and right > 0:
        return left // right if isinstance(left, (int, float)) else left / right
    if op == "remainder" and isinstance(right, int) and right > 0:
        return left % right
    if op in SCALAR:
        return SCALAR[op](left, right)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return getattr(operator, {"div": "truediv", "floor_divide": "floordiv", "remainder": "mod"}.get(op, op))(left, right)
    del logic
    raise UnmodelledError(f"{op} of sizes")
