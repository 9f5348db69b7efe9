"""One canonical form for every spelling of an operator.

``x.add(y)``, ``torch.add(x, other=y)``, ``x + y`` and ``torch.ops.aten.add.Tensor(x, y)`` are one :class:`Call` with one
set of argument names. The names, the defaults, what is written and what is random come from PyTorch's own operator
schemas; this module adds what the schemas do not know: aliases, Python-level functions, casts by method.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node
from torch.fx.node import map_arg

from optimus.schemas import ARGUMENT_ALIASES, Overloads, first_name, is_tensor, overloads, overloads_from, packet_of
from optimus.values import value


@dataclass(slots=True)  # frozen ones take thrice the time to make
class Call:
    """A node as an operator applied to named arguments, defaults filled in."""

    op: str
    args: Mapping[str, Any]
    writes: tuple[str, ...] = ()
    random: bool = False
    reshapes: bool = False  # an in-place change of shape, strides or flags, such as ``t_``
    overload: OpOverload | None = None

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def written(self) -> tuple[Node, ...]:
        """The nodes whose storage this call writes, those in lists included."""
        found: list[Node] = []
        for name in self.writes:
            map_arg(self.args.get(name), found.append)
        return tuple(found)


ALIASES = {
    "concat": "cat", "concatenate": "cat", "absolute": "abs", "multiply": "mul", "subtract": "sub", "divide": "div",
    "true_divide": "div", "truediv": "div", "clip": "clamp", "negative": "neg", "swapaxes": "transpose", "swapdims": "transpose",
    "moveaxis": "movedim", "matrix_multiply": "matmul", "special_expit": "sigmoid", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "not_equal": "ne", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "special_exp2": "exp2", "special_expm1": "expm1", "special_log1p": "log1p", "special_erf": "erf", "fix": "trunc",
    "linalg_matmul": "matmul", "special_softmax": "softmax", "scalar_tensor": "number_as_tensor", "row_stack": "vstack",
}  # fmt: skip

ONE_BOUND = {"clamp_min": "max", "clamp_max": "min"}
"""What these leave out of ``clamp``: where the bound is a number, the same bits and the same gradients. Of NaN, torch 2.11 makes no bound in ``clamp``."""

CASTS = {
    "float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "long": torch.int64,
    "int": torch.int32, "short": torch.int16, "char": torch.int8, "byte": torch.uint8, "bool": torch.bool,
    "cfloat": torch.complex64, "cdouble": torch.complex128,
}  # fmt: skip

ARITHMETIC: dict[Callable[..., Any], str] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div", operator.matmul: "matmul", operator.neg: "neg",
    operator.pow: "pow", operator.mod: "remainder", operator.abs: "abs", operator.eq: "eq", operator.ne: "ne", operator.lt: "lt",
    operator.le: "le", operator.gt: "gt", operator.ge: "ge", operator.and_: "bitwise_and", operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor", operator.invert: "bitwise_not", operator.floordiv: "floor_divide", operator.getitem: "getitem",
}  # fmt: skip

IN_PLACE: dict[Callable[..., Any], str] = {
    operator.iadd: "add", operator.isub: "sub", operator.imul: "mul", operator.itruediv: "div", operator.ipow: "pow",
    operator.imod: "remainder", operator.iand: "bitwise_and", operator.ior: "bitwise_or", operator.ixor: "bitwise_xor",
    operator.ifloordiv: "floor_divide", operator.imatmul: "matmul", operator.setitem: "setitem", operator.delitem: "delitem",
    operator.ilshift: "lshift", operator.irshift: "rshift", operator.iconcat: "iconcat",
}  # fmt: skip

RENAMED = {  # parameters of torch.nn.functional that the operator's schema calls otherwise
    "embedding": {"input": "indices"},
    "dropout": {"training": "train"},
}

# Statistics and renormalised rows are written although no schema says so.
HIDDEN_WRITES = {
    "batch_norm": ("running_mean", "running_var"),
    "instance_norm": ("running_mean", "running_var"),
    "native_batch_norm": ("running_mean", "running_var"),
    "cudnn_batch_norm": ("running_mean", "running_var"),
}

RANDOM_FUNCTIONS = {
    "dropout", "alpha_dropout", "feature_alpha_dropout", "feature_dropout", "dropout1d", "dropout2d", "dropout3d", "rrelu",
    "gumbel_softmax", "fractional_max_pool2d", "fractional_max_pool3d", "multi_head_attention_forward", "scaled_dot_product_attention",
}  # fmt: skip

PURE_METHODS = {"size", "dim", "ndimension", "stride", "numel", "nelement", "storage_offset", "is_contiguous", "element_size", "get_device", "type_as",
                "is_floating_point", "is_complex", "data_ptr", "tolist", "item"}  # fmt: skip

NAMESPACES = {"torch", "torch.functional", "torch.nn.functional", "torch._C._nn", "torch._C._VariableFunctions", "torch._C._linalg", "torch._C._special",
              "torch._C._fft", "torch._refs"}  # fmt: skip


def bind(node: Node) -> Call | None:
    """The canonical call of ``node``; None if the operator or this way of calling it is unknown.

    Unknown means that nothing may be assumed: the caller treats such a node as if it wrote every storage.
    """
    if node.op not in ("call_function", "call_method"):
        return None
    args, kwargs = node.args, node.kwargs
    known: tuple[Any, Any, Call | None] | None = node.__dict__.get(KNOWN)
    if known is not None and known[0] is args and known[1] is kwargs:
        return known[2]
    call = _bind_function(node) if node.op == "call_function" else _bind_method(node, str(node.target))
    node.__dict__[KNOWN] = (args, kwargs, call)
    return call


def bound(node: Node) -> Call:
    """The canonical call of a node that is known to have one."""
    call = bind(node)
    if call is None:
        raise ValueError(f"{node.name} has no canonical call; accepted are nodes of known operators")
    return call


DUNDERS = {
    **{name: name for name in ("add", "sub", "mul", "matmul", "neg", "pow", "abs", "eq", "ne", "lt", "le", "gt", "ge")},
    **{name: f"bitwise_{name}" for name in ("and", "or", "xor")},
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "invert": "bitwise_not",
}  # fmt: skip
"""What Python's operators are called as methods, such as ``__truediv__``."""

KNOWN = "_optimus_call"
"""Where a node keeps its call. FX replaces a node's arguments as a whole, so a call is known as long as they are the same objects.

Kept by the node itself: arguments lead to the whole graph, which a table outside would keep alive.
"""


def _bind_function(node: Node) -> Call | None:
    return _binder(node.target)(node)


@functools.lru_cache(maxsize=4096)
def _binder(target: Any) -> Callable[[Node], Call | None]:
    """How calls of one function are bound."""
    if isinstance(target, OpOverload):
        return partial(_from_schema, choices=overloads_from(target), op=base_name(target))
    if isinstance(target, OpOverloadPacket):
        return partial(_from_schema, choices=overloads(target), op=ALIASES.get(target.__name__, target.__name__))
    if target in ARITHMETIC:
        return partial(_bind_arithmetic, op=ARITHMETIC[target])
    if target in IN_PLACE:
        return partial(_bind_in_place, op=IN_PLACE[target])
    name = getattr(target, "__name__", None)
    if name is None:
        return _unknown
    if inspect.ismethoddescriptor(target):  # torch.Tensor.add and the like
        return partial(_bind_method, name=name)
    if target is torch.functional.einsum:
        return _bind_einsum
    if target is torch.functional.tensordot:
        return partial(_bind_python, target=target, op="tensordot")
    if getattr(target, "__module__", None) not in NAMESPACES and not _is_builtin_torch(target):
        return _unknown
    if inspect.isfunction(target) and target is not torch.functional.split:
        return partial(_bind_python, target=target, op=ALIASES.get(name, name))
    packet = packet_of(name)
    return _unknown if packet is None else partial(_from_schema, choices=overloads(packet), op=ALIASES.get(name, name))


def _unknown(node: Node) -> None:
    """Nothing is known of how ``node`` is called."""


def _is_builtin_torch(target: Any) -> bool:
    return getattr(torch, getattr(target, "__name__", ""), None) is target


def _bind_arithmetic(node: Node, op: str) -> Call | None:
    if op == "getitem":
        return Call("getitem", {"self": node.args[0], "index": node.args[1]}) if len(node.args) == 2 else None
    args = node.args
    if not any(isinstance(a, Node) and isinstance(value(a), torch.Tensor) for a in args):
        return Call("scalar_" + op, {"self": args[0], "other": args[1] if len(args) > 1 else None})
    packet = packet_of(op)
    if packet is None:
        return None
    if len(args) == 2 and not is_tensor(args[0]):  # 2 - x: the reflected form
        if op in ("add", "mul", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor"):
            return _from_schema(node, overloads(packet), op, args=(args[1], args[0]))
        return Call("reflected_" + op, {"self": args[1], "other": args[0]})
    return _from_schema(node, overloads(packet), op)


def _bind_in_place(node: Node, op: str) -> Call:
    names = ("self", "other") if len(node.args) == 2 else ("self", "index", "value")
    return Call(op, dict(zip(names, node.args, strict=False)), writes=("self",))


def _bind_method(node: Node, name: str) -> Call | None:
    if name in CASTS:
        return Call("to", {"self": node.args[0], "dtype": CASTS[name]}) if not node.kwargs and len(node.args) == 1 else None
    if name in PURE_METHODS:
        return Call(name, {"self": node.args[0], "rest": node.args[1:], **node.kwargs})
    if name == "to" and len(node.args) == 2 and isinstance(node.args[1], torch.dtype) and not node.kwargs:
        return Call("to", {"self": node.args[0], "dtype": node.args[1]})
    if name == "type" and len(node.args) == 2 and isinstance(node.args[1], torch.dtype) and not node.kwargs:
        return Call("to", {"self": node.args[0], "dtype": node.args[1]})
    if name == "requires_grad_":
        return Call("requires_grad_", {"self": node.args[0]}, writes=("self",), reshapes=True)
    dunder = name.strip("_")
    if name.startswith("__") and dunder in DUNDERS:
        name = DUNDERS[dunder]
    packet = packet_of(name)
    return None if packet is None else _from_schema(node, overloads(packet), ALIASES.get(name, name))


def _bind_einsum(node: Node) -> Call | None:
    if node.kwargs or not node.args or not isinstance(node.args[0], str):
        return None
    rest = node.args[1:]
    operands = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    return Call("einsum", {"equation": node.args[0], "tensors": operands})


def _bind_python(node: Node, target: Callable[..., Any], op: str) -> Call | None:
    """A Python-level function of ``torch.nn.functional`` or ``torch.functional``."""
    args = _named(target, op, node.args, node.kwargs)
    if args is None:
        return None
    args.pop("_stacklevel", None)
    inplace, out = args.pop("inplace", False), args.pop("out", None)
    if inplace not in (True, False):
        return None
    writes = [n for n in HIDDEN_WRITES.get(op, ()) if args.get(n) is not None]
    if inplace:
        writes.append("self" if "self" in args else "input")
    if out is not None:
        args["out"] = out
        writes.append("out")
    if op in ("embedding", "embedding_bag") and args.get("max_norm") is not None:
        writes.append("weight")
    random = op in RANDOM_FUNCTIONS
    return Call(op, args, tuple(writes), random)


def _named(target: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call by their canonical names, defaults filled in; None where they do not fit."""
    order = _order(target, op, len(args), tuple(kwargs))
    if order is not None:
        names, places, defaults = order
        given = (*args, *kwargs.values(), *defaults)
        return dict(zip(names, map(given.__getitem__, places), strict=True))
    found = _arguments(target, args, kwargs)
    return None if found is None else dict(zip(_canonical(op, found), found.values(), strict=True))


@functools.lru_cache(maxsize=4096)
def _order(
    target: Callable[..., Any], op: str, count: int, options: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[Any, ...]] | None:
    """How a call with so many arguments by position, and with these by name, is bound: the names of all, and their places among what is given and defaults.

    None where that is not the same for all such calls, or where they do not fit.
    """
    given = [object() for _ in range(count + len(options))]
    found = _arguments(target, tuple(given[:count]), dict(zip(options, given[count:], strict=True)))
    if found is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in _signature(target).parameters.values()):
        return None
    place = {id(token): k for k, token in enumerate(given)}
    defaults = tuple(v for v in found.values() if id(v) not in place)
    behind = itertools.count(len(given))
    return _canonical(op, found), tuple(place[id(v)] if id(v) in place else next(behind) for v in found.values()), defaults


@functools.cache
def _signature(target: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(target)


def _arguments(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    signature = _signature(target)
    try:
        bound = signature.bind(*args, **_canonical_names(kwargs, signature.parameters))
    except TypeError:
        return None
    bound.apply_defaults()
    return dict(bound.arguments)


def _canonical(op: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names of parameters as the operator's schema has them."""
    renamed, schema = RENAMED.get(op, {}), packet_of(op)
    self_is_input = schema is not None and first_name(schema) == "self"
    return tuple(renamed.get(n, "self" if n == "input" and self_is_input else n) for n in names)


def _canonical_names(kwargs: Mapping[str, Any], accepted: Mapping[str, Any]) -> dict[str, Any]:
    return {k if k in accepted else _other_name(k, accepted): v for k, v in kwargs.items()}


def _other_name(name: str, accepted: Mapping[str, Any]) -> str:
    return "input" if name in ("x", "a", "x1", "self") and "input" in accepted else ARGUMENT_ALIASES.get(name, name)


# -------------------------------------------------------------------------------------------------- operator schemas


def base_name(target: OpOverload) -> str:
    """The canonical name of an overload: ``aten.add.Tensor`` is ``add``; other libraries keep their namespace."""
    name = target._schema.name.split("::")[-1]
    if target.namespace != "aten":
        return target._schema.name
    return ALIASES.get(name, name)


def _from_schema(node: Node, choices: Overloads, op: str, args: tuple[Any, ...] | None = None) -> Call | None:
    args = node.args if args is None else args
    kwargs = node.kwargs
    fit = choices.fit(args, kwargs)
    if fit is None:
        return None
    bound, schema = fit.fill(args, kwargs), fit.schema
    writes = schema.writes
    if op in HIDDEN_WRITES:
        writes += tuple(n for n in HIDDEN_WRITES[op] if bound.get(n) is not None)
    name = op[:-1] if op.endswith("_") and not op.startswith("_") and writes else op
    random = schema.random or op in RANDOM_FUNCTIONS
    if name in ONE_BOUND and isinstance(limit := bound["min" if name == "clamp_min" else "max"], (int, float)) and limit == limit:
        bound[ONE_BOUND[name]] = None
        name = "clamp"
    return Call(ALIASES.get(name, name), bound, writes, random, schema.reshapes, schema.overload)


MOVEMENT = {
    "split", "split_with_sizes", "chunk", "tensor_split", "unbind", "cat", "stack", "hstack", "vstack", "dstack", "column_stack", "select", "slice",
    "narrow", "getitem", "permute", "transpose",
    "t", "mT", "movedim", "unsqueeze", "squeeze", "expand", "expand_as", "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "clone",
    "contiguous", "detach", "alias", "to", "type_as", "size", "dim", "repeat", "flip", "roll", "pad", "index_select", "gather", "embedding",
}  # fmt: skip


# Element-wise functions that give a number the same bits wherever it lies. PyTorch's CPU kernels compute others (sigmoid, silu,
# gelu, pow, elu, ...) in one way for whole vectors of adjacent numbers and in another for the rest.
STEADY = {
    "abs", "neg", "positive", "sign", "signbit", "add", "sub", "rsub", "mul", "div", "reciprocal", "square", "sqrt", "addcmul", "addcdiv", "lerp",
    "floor", "ceil", "trunc", "round", "frac", "fmod", "remainder", "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max", "relu",
    "relu6", "hardtanh", "hardsigmoid", "leaky_relu", "threshold", "hardshrink", "softshrink", "nan_to_num", "where", "masked_fill", "copysign",
    "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_xor", "logical_not",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "tanh", "tan", "sin", "cos", "asin", "acos", "atan", "exp", "expm1", "log", "log1p",
    "log2", "log10", "erf", "erfc", "lgamma",
}  # fmt: skip
COMPLEX_STEADY = {"neg", "positive", "add", "sub", "rsub", "where", "masked_fill", "eq", "ne"}


def keeps_bits(node: Node) -> bool:
    """Whether a node's result has the same bits however its operands are laid out: it moves data or works in the same way on every element."""
    call = bind(node)
    if call is None or call.op in MOVEMENT:
        return call is not None
    op, args = call.op.removeprefix("reflected_"), call.args
    if any(isinstance(t := value(n), torch.Tensor) and t.is_complex() for n in (node, *node.all_input_nodes)):
        return op in COMPLEX_STEADY
    if op == "pow":
        return args.get("exponent") in (2, 3)
    return op in STEADY and args.get("alpha", 1) == 1  # half precision rounds alpha * other, or does not


UNTAGGED = {"leaky_relu"}
"""Element-wise, though torch 2.11 does not say so."""


def is_elementwise(call: Call) -> bool:
    """Whether PyTorch says of an operator that it works element by element."""
    if call.op.startswith(("reflected_", "scalar_")):
        return True
    if call.op in UNTAGGED:
        return True
    packet = packet_of(call.op)
    if call.overload is None:
        return packet is not None and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())
    # An alias lacks the tag: special_expit is sigmoid, overload by overload.
    same = getattr(packet, call.overload._overloadname, call.overload)
    return torch.Tag.pointwise in call.overload.tags or torch.Tag.pointwise in same.tags
