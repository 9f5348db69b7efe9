"""What running a node does besides computing its result.

Unknown operators are opaque: they may write any storage, draw random numbers and change the ambient mode, so nothing is
moved across them.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node

from optimus.operators import Call, bind


@dataclass(frozen=True, slots=True)
class Effects:
    """``writes``: nodes whose storage is written. ``ordered``: stays in its place among other ordered nodes."""

    writes: tuple[Node, ...] = ()
    random: bool = False
    ordered: bool = False
    switches_mode: bool = False
    reshapes: bool = False
    opaque: bool = False

    @property
    def pure(self) -> bool:
        """Whether the node may be moved, merged or dropped."""
        return self == PURE


PURE = Effects()
ASSERTION = Effects(ordered=True)
LOGGED = Effects(ordered=True)

PURE_MODULES = {"math", "_operator", "builtins", "torch.fx.experimental.sym_node"}
SWITCHES = {"_set_grad_enabled", "_enter_autocast", "_exit_autocast", "_enter_inference_mode", "_exit_inference_mode", "set_deterministic_debug_mode",
            "use_deterministic_algorithms", "_set_deterministic_algorithms", "set_default_dtype"}  # fmt: skip
HOOKS = {"register_hook", "register_post_accumulate_grad_hook", "retain_grad"}
LOGS = frozenset({torch._C._log_api_usage_once, torch._C._log_api_usage_metadata, torch._C._autograd._record_function_with_args_enter,
                  torch._C._autograd._record_function_with_args_exit})  # fmt: skip
PROFILED = frozenset({"profiler::_record_function_enter", "profiler::_record_function_enter_new", "profiler::_record_function_exit"})
"""What only tells a logger or a profiler: functions, and operators of PyTorch by name. They stay in their order."""
SIDE_EFFECTS = {"backward", *HOOKS, "set_", "resize_", "resize_as_", "swap_tensors", "record_stream"}


def effects(node: Node, call: Call | None = None) -> Effects:
    """The effects of ``node``; ``call`` is its canonical call where the caller has it already."""
    if node.op in ("placeholder", "get_attr", "output"):
        return PURE
    if isinstance(node.target, HigherOrderOperator):
        return _of_region(node)
    if only_logs(node.target):
        return LOGGED
    call = bind(node) if call is None else call
    if call is None:
        return _of_unknown(node)
    if call.op in SIDE_EFFECTS:
        return _opaque(node)
    if "assert" in call.op:
        return ASSERTION
    if not (call.writes or call.random or call.reshapes):
        return PURE
    return Effects(call.written(), call.random, ordered=call.random, reshapes=call.reshapes)


def only_logs(target: Any) -> bool:
    """Whether a call tells a logger or a profiler, and does nothing else."""
    if isinstance(target, OpOverload):
        return target._schema.name in PROFILED
    if isinstance(target, OpOverloadPacket):
        return target._qualified_op_name in PROFILED
    return isinstance(target, types.BuiltinFunctionType) and target in LOGS


def _of_unknown(node: Node) -> Effects:
    target: Any = node.target
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or ""
    if name in SWITCHES:
        return Effects(ordered=True, switches_mode=True)
    if "assert" in name or name == "_check":
        return ASSERTION
    tensors = any(isinstance(a.meta.get("example_value", a.meta.get("val")), torch.Tensor) for a in node.all_input_nodes)
    if node.op == "call_function" and (target is torch.Size or module in PURE_MODULES or name.startswith("sym_")):
        in_place = name.startswith("i") and hasattr(operator, name[1:] or "-")
        return _opaque(node) if in_place and tensors else PURE
    return _opaque(node)


def attaches_hook(node: Node, name: str) -> bool:
    """Whether ``node``, an operator called ``name``, attaches something to its first argument, which that tensor alone then has."""
    target: Any = node.target
    if isinstance(target, HigherOrderOperator):
        name = target.name()
    return name in HOOKS and node.op in ("call_function", "call_method") and bool(node.args)


NORMS = {"norm", "vector_norm", "linalg_vector_norm", "linalg_norm", "dist", "pairwise_distance", "normalize", "renorm"}
"""Operators without a gradient, instead of one of zeros, where their order is 0."""


def passes_gradients(node: Node) -> bool:
    """Whether all arguments are known to get a gradient when the result has one.

    A custom function or operator may have none for some; so has a norm that counts what is not zero.
    """
    target: Any = node.target
    if isinstance(target, HigherOrderOperator):
        graphs = _bodies(node)
        plain = graphs and "autograd_function" not in target.name()
        return bool(plain) and all(passes_gradients(n) for g in graphs for n in g.graph.nodes if n.op.startswith("call"))
    if node.op not in ("call_function", "call_method"):
        return True
    if target is operator.getitem:
        return True
    call = bind(node)
    name = call.op if call is not None else str(getattr(target, "__name__", target))
    if name in NORMS:
        given = (*node.args, *node.kwargs.values()) if call is None else (call.args.get("p"), call.args.get("ord"))
        return not any(isinstance(a, (int, float)) and a == 0 for a in given)
    return node.op == "call_method" or _is_known_to_autograd(target, call is not None)


@functools.lru_cache(maxsize=4096)
def _is_known_to_autograd(target: Any, bound: bool) -> bool:
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return str(target).split(".")[0] in ("aten", "prims")
    module = getattr(target, "__module__", None) or "torch"
    return bound or module in PURE_MODULES or module.split(".")[0] in ("torch", "_operator")


def _opaque(node: Node) -> Effects:
    """Nothing is known: it may write whatever it is given."""
    return Effects(tuple(node.all_input_nodes), ordered=True, switches_mode=True, opaque=True)


def _of_region(node: Node) -> Effects:
    """A higher-order operator does what the graphs it calls do."""
    graphs = _bodies(node)
    if not graphs:
        return _opaque(node)
    found = [effects(inner) for g in graphs for inner in g.graph.nodes]
    if any(e.opaque or e.writes or e.reshapes for e in found):
        return _opaque(node)
    random = any(e.random for e in found)
    return Effects(random=random, ordered=random)


def _bodies(node: Node) -> list[GraphModule]:
    """The graphs that a higher-order operator calls."""
    module = node.graph.owning_module
    found = [_submodule(module, a) for a in node.all_input_nodes if a.op == "get_attr"]
    return [b for b in found if isinstance(b, GraphModule)]


def _submodule(module: torch.nn.Module | None, node: Node) -> Any:
    found: Any = module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found


def erasable(nodes: Iterable[Node]) -> bool:
    """Whether every one of ``nodes`` may be dropped when nobody uses its result."""
    return all(effects(n).pure for n in nodes)
