"""One canonical form for every spelling of an operator.

``x.add(y)``, ``torch.add(x, other=y)``, ``x + y`` and ``torch.ops.aten.add.Tensor(x, y)`` are one :class:`Call` with one
set of argument names. The names, the defaults, what is written and what is random come from PyTorch's own operator
schemas; this module adds what the schemas do not know: aliases, Python-level functions, casts by method.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node
from torch.fx.node import map_arg

from optimus.values import MISSING, value


@dataclass(frozen=True, slots=True)
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

ARGUMENT_ALIASES = {"input": "self", "axis": "dim", "axes": "dim", "keepdims": "keepdim", "x1": "self", "x2": "other", "x": "self", "a": "self",
                    "tensor": "self", "split_size_or_sections": "split_size"}  # fmt: skip


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
    target: Any = node.target
    if target is operator.getitem:
        return _bind_arithmetic(node, "getitem")
    if isinstance(target, OpOverload):  # a number may stand for a tensor, as if another overload had been called
        return _from_schema(node, (target, *_overloads(target.overloadpacket)), base_name(target))
    if isinstance(target, OpOverloadPacket):
        return _from_schema(node, _overloads(target), ALIASES.get(target.__name__, target.__name__))
    if target in ARITHMETIC:
        return _bind_arithmetic(node, ARITHMETIC[target])
    if target in IN_PLACE:
        names = ("self", "other") if len(node.args) == 2 else ("self", "index", "value")
        return Call(IN_PLACE[target], dict(zip(names, node.args, strict=False)), writes=("self",))
    name = getattr(target, "__name__", None)
    if name is None:
        return None
    if _is_method(target):  # torch.Tensor.add and the like
        return _bind_method(node, name)
    if target is torch.functional.einsum:
        return _bind_einsum(node)
    if target is torch.functional.tensordot:
        return _bind_python(node, target, "tensordot")
    if getattr(target, "__module__", None) not in NAMESPACES and not _is_builtin_torch(target):
        return None
    if inspect.isfunction(target) and target is not torch.functional.split:
        return _bind_python(node, target, ALIASES.get(name, name))
    packet = _packet(name)
    return None if packet is None else _from_schema(node, _overloads(packet), ALIASES.get(name, name))


def _is_builtin_torch(target: Any) -> bool:
    return getattr(torch, getattr(target, "__name__", ""), None) is target


def _bind_arithmetic(node: Node, op: str) -> Call | None:
    if op == "getitem":
        return Call("getitem", {"self": node.args[0], "index": node.args[1]}) if len(node.args) == 2 else None
    args = node.args
    if not any(isinstance(a, Node) and isinstance(value(a), torch.Tensor) for a in args):
        return Call("scalar_" + op, {"self": args[0], "other": args[1] if len(args) > 1 else None})
    packet = _packet(op)
    if packet is None:
        return None
    if len(args) == 2 and not _is_tensor(args[0]):  # 2 - x: the reflected form
        if op in ("add", "mul", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor"):
            return _from_schema(node, _overloads(packet), op, args=(args[1], args[0]))
        return Call("reflected_" + op, {"self": args[1], "other": args[0]})
    return _from_schema(node, _overloads(packet), op)


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
    packet = _packet(name)
    return None if packet is None else _from_schema(node, _overloads(packet), ALIASES.get(name, name))


def _bind_einsum(node: Node) -> Call | None:
    if node.kwargs or not node.args or not isinstance(node.args[0], str):
        return None
    rest = node.args[1:]
    operands = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    return Call("einsum", {"equation": node.args[0], "tensors": operands})


@functools.lru_cache(maxsize=4096)
def _is_method(target: Any) -> bool:
    return inspect.ismethoddescriptor(target)


@functools.cache
def _signature(target: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(target)


def _bind_python(node: Node, target: Callable[..., Any], op: str) -> Call | None:
    """A Python-level function of ``torch.nn.functional`` or ``torch.functional``."""
    args = _named(_signature(target), node.args, node.kwargs)
    if args is None:
        return None
    args.pop("_stacklevel", None)
    inplace, out = args.pop("inplace", False), args.pop("out", None)
    if inplace not in (True, False):
        return None
    names = RENAMED.get(op, {})
    schema = _packet(op)
    self_is_input = schema is not None and _first_name(schema) == "self"
    args = {names.get(k, "self" if k == "input" and self_is_input else k): v for k, v in args.items()}
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


def _named(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call by name, defaults filled in; None where they do not fit."""
    parameters = signature.parameters
    if not kwargs and len(args) <= len(parameters) and all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values()):
        later = list(parameters.values())[len(args) :]
        if any(p.default is p.empty for p in later):
            return None
        return {**dict(zip(parameters, args, strict=False)), **{p.name: p.default for p in later}}
    try:
        bound = signature.bind(*args, **_canonical_names(kwargs, parameters))
    except TypeError:
        return None
    bound.apply_defaults()
    return dict(bound.arguments)


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


@functools.cache
def _packet(name: str) -> OpOverloadPacket | None:
    try:
        found = getattr(torch.ops.aten, name)
    except AttributeError:
        return None
    return found if isinstance(found, OpOverloadPacket) else None


@functools.cache
def _overloads(packet: OpOverloadPacket) -> tuple[OpOverload, ...]:
    found = []
    for name in packet.overloads():
        overload = getattr(packet, name)
        schema = overload._schema
        if any("Tensor" in str(a.type) for a in (*schema.arguments, *schema.returns)):
            found.append(overload)
    return tuple(found)


@functools.cache
def _first_name(packet: OpOverloadPacket) -> str:
    return str(_overloads(packet)[0]._schema.arguments[0].name) if _overloads(packet) else ""


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    accepts: str  # "tensor", "tensors", "list", "flag" or "other"
    optional: bool
    scalar_for_list: bool
    default: Any
    keyword_only: bool
    written: bool


@dataclass(frozen=True, slots=True)
class _Schema:
    overload: OpOverload
    parameters: tuple[_Parameter, ...]
    by_name: Mapping[str, int] = field(hash=False)
    random: bool
    out: bool
    only_list: int | None
    """The position of the one parameter that is a list."""
    writes: tuple[str, ...]
    reshapes: bool


@functools.cache
def _schema(overload: OpOverload) -> _Schema:
    parameters = tuple(_parameter(a) for a in overload._schema.arguments)
    random = torch.Tag.nondeterministic_seeded in overload.tags
    out = any(p.name == "out" or (p.written and p.keyword_only) for p in parameters)
    lists = [i for i, p in enumerate(parameters) if p.accepts == "list"]
    only_list = lists[0] if len(lists) == 1 else None
    writes, reshapes = tuple(p.name for p in parameters if p.written), torch.Tag.inplace_view in overload.tags
    return _Schema(overload, parameters, {p.name: i for i, p in enumerate(parameters)}, random, out, only_list, writes, reshapes)


def _parameter(argument: Any) -> _Parameter:
    kind = str(argument.type)
    bare = kind.removeprefix("Optional[").removesuffix("?")
    if bare.startswith("List[") or bare.endswith("[]"):
        accepts = "tensors" if "Tensor" in bare else "list"
    else:
        accepts = "tensor" if "Tensor" in bare else "flag" if bare == "bool" else "other"
    default = argument.default_value if argument.has_default_value() else MISSING
    written = argument.alias_info is not None and argument.alias_info.is_write
    optional = kind.startswith("Optional[") or kind.endswith("?")
    return _Parameter(argument.name, accepts, optional, argument.N is not None, default, argument.kwarg_only, written)


def _from_schema(node: Node, overloads: tuple[OpOverload, ...], op: str, args: tuple[Any, ...] | None = None) -> Call | None:
    args = node.args if args is None else args
    for overload in overloads:
        schema = _schema(overload)
        bound = _bind_to(schema, args, node.kwargs)
        if bound is not None:
            writes = schema.writes
            if op in HIDDEN_WRITES:
                writes += tuple(n for n in HIDDEN_WRITES[op] if bound.get(n) is not None)
            name = op[:-1] if op.endswith("_") and not op.startswith("_") and writes else op
            random = schema.random or op in RANDOM_FUNCTIONS
            return Call(ALIASES.get(name, name), bound, writes, random, schema.reshapes, overload)
    return None


def _bind_to(schema: _Schema, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    if schema.out and not any(p.written and p.name in kwargs for p in schema.parameters if p.keyword_only):
        return None
    parameters = schema.parameters
    args = _gather_varargs(schema, args)
    if len(args) > len(parameters):
        return None
    bound: dict[str, Any] = {}
    for parameter, given in zip(parameters, args, strict=False):
        if parameter.keyword_only or not _fits(parameter, given):
            return None
        bound[parameter.name] = given
    for name, given in kwargs.items():
        index = schema.by_name.get(name, schema.by_name.get(ARGUMENT_ALIASES.get(name, name)))
        if index is None or parameters[index].name in bound or not _fits(parameters[index], given):
            if name in ("dtype", "memory_format", "inplace") and given is None:
                continue
            return None
        bound[parameters[index].name] = given
    for parameter in parameters:
        if parameter.name not in bound:
            if parameter.default is MISSING and not (parameter.optional and parameter.keyword_only):
                return None
            bound[parameter.name] = None if parameter.default is MISSING else parameter.default
    return bound


def _gather_varargs(schema: _Schema, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.view(2, 3)`` and ``x.permute(1, 0)`` pass their one list as loose numbers."""
    parameters, first = schema.parameters, schema.only_list
    if first is None or len(args) <= first or _is_list(args[first]):
        return args
    later = sum(not p.keyword_only for p in parameters[first + 1 :])
    loose = args[first:]
    if parameters[first].scalar_for_list and len(loose) <= 1 + later and later:
        return args
    if any(not isinstance(a, (int, Node, torch.SymInt)) or isinstance(a, bool) or _is_tensor(a) for a in loose):
        return args
    return (*args[:first], tuple(loose))


def _is_list(given: Any) -> bool:
    return isinstance(value(given) if isinstance(given, Node) else given, (list, tuple, torch.Size))


def _is_tensor(given: Any) -> bool:
    return isinstance(given, torch.Tensor) or (isinstance(given, Node) and isinstance(value(given), torch.Tensor))


def _fits(parameter: _Parameter, given: Any) -> bool:
    if given is None:
        return parameter.optional
    if type(given) is int:
        return parameter.accepts == "other" or (parameter.accepts == "list" and parameter.scalar_for_list)
    is_list = isinstance(given, (list, tuple, torch.Size))
    if isinstance(given, Node):
        found = value(given)
        if isinstance(found, torch.Tensor):
            return parameter.accepts == "tensor"
        if found is MISSING:
            return parameter.accepts != "list"
        is_list = isinstance(found, (list, tuple, torch.Size))
        given = found if is_list else given
    match parameter.accepts:
        case "tensor":
            return _is_tensor(given)
        case "tensors":
            return is_list and all(item is None or _is_tensor(item) for item in given)
        case "list":
            return (is_list and not any(_is_tensor(item) for item in given)) or (
                parameter.scalar_for_list and isinstance(given, (int, Node)) and not _is_tensor(given)
            )
        case "flag":  # var(x, 1) names a dimension, var(x, True) does not
            return isinstance(value(given) if isinstance(given, Node) else given, (bool, torch.SymBool))
        case _:
            return not is_list and not _is_tensor(given)


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
    packet = _packet(call.op)
    if call.overload is None:
        return packet is not None and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())
    # An alias lacks the tag: special_expit is sigmoid, overload by overload.
    same = getattr(packet, call.overload._overloadname, call.overload)
    return torch.Tag.pointwise in call.overload.tags or torch.Tag.pointwise in same.tags
