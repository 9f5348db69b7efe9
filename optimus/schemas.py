"""Which overload of an operator a call is for, told from PyTorch's own schemas, and what its arguments are called there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import Node

from optimus.values import MISSING, value

ARGUMENT_ALIASES = {"input": "self", "axis": "dim", "axes": "dim", "keepdims": "keepdim", "x1": "self", "x2": "other", "x": "self", "a": "self",
                    "tensor": "self", "split_size_or_sections": "split_size"}  # fmt: skip


@functools.cache
def packet_of(name: str) -> OpOverloadPacket | None:
    """The packet of ATen's overloads of an operator; None where ATen has none of that name."""
    try:
        found = getattr(torch.ops.aten, name)
    except AttributeError:
        return None
    return found if isinstance(found, OpOverloadPacket) else None


@functools.cache
def overloads(packet: OpOverloadPacket) -> Overloads:
    """Those of a packet's overloads that take or return tensors."""
    found = []
    for name in packet.overloads():
        overload = getattr(packet, name)
        schema = overload._schema
        if any("Tensor" in str(a.type) for a in (*schema.arguments, *schema.returns)):
            found.append(overload)
    return Overloads(tuple(found))


@functools.cache
def overloads_from(first: OpOverload) -> Overloads:
    """``first``, and behind it all of its packet: a number may stand for a tensor, as if another overload had been called."""
    return Overloads((first, *overloads(first.overloadpacket).found))


@functools.cache
def first_name(packet: OpOverloadPacket) -> str:
    """What a packet's first overload calls its first parameter."""
    found = overloads(packet).found
    return str(found[0]._schema.arguments[0].name) if found else ""


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


@dataclass(frozen=True, slots=True)
class Fit:
    """An overload and how a call's arguments become its parameters."""

    schema: _Schema
    names: tuple[str, ...]
    """The parameters of what is given, in the order in which it is given; IGNORED for what stands for none."""
    gathered: bool
    """Whether the last of the arguments by position are one list."""
    defaults: Mapping[str, Any]

    def fill(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by the names of the parameters, defaults filled in."""
        if self.gathered:
            first = self.schema.only_list
            args = (*args[:first], args[first:])
        found = dict(zip(self.names, (*args, *kwargs.values()) if kwargs else args, strict=True))
        found.pop(IGNORED, None)
        found.update(self.defaults)
        return found


IGNORED = ""


class Overloads:
    """Overloads in the order in which they are tried. Which one a call is for follows from the kinds of its arguments, so it is told once for each."""

    def __init__(self, found: tuple[OpOverload, ...]) -> None:
        self.found = found
        self._fits: dict[tuple[Any, ...], Fit | None] = {}

    def fit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fit | None:
        """The first overload that the arguments fit; None if there is none."""
        key = (*map(_kind, args), *kwargs, *map(_kind, kwargs.values())) if kwargs else tuple(map(_kind, args))
        if None in key:
            return self._first(args, kwargs)
        if key not in self._fits:
            self._fits[key] = self._first(args, kwargs)
        return self._fits[key]

    def _first(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fit | None:
        for overload in self.found:
            fit = _fit(_schema(overload), args, kwargs)
            if fit is not None:
                return fit
        return None


def _kind(given: Any) -> Any:
    """All of an argument that :func:`_fit` asks for; None where that is not told in short."""
    if isinstance(given, Node):
        found = value(given)
        return None if isinstance(found, (list, tuple)) else (Node, type(found))
    if isinstance(given, (list, tuple)):
        return None if any(isinstance(item, (list, tuple)) for item in given) else frozenset(map(_kind, given))
    return type(given)


def _fit(schema: _Schema, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Fit | None:
    if schema.out and not any(p.written and p.name in kwargs for p in schema.parameters if p.keyword_only):
        return None
    parameters = schema.parameters
    given_args, args = args, _gather_varargs(schema, args)
    if len(args) > len(parameters):
        return None
    names: list[str] = []
    for parameter, given in zip(parameters, args, strict=False):
        if parameter.keyword_only or not _fits(parameter, given):
            return None
        names.append(parameter.name)
    for name, given in kwargs.items():
        index = schema.by_name.get(name, schema.by_name.get(ARGUMENT_ALIASES.get(name, name)))
        if index is not None and parameters[index].name not in names and _fits(parameters[index], given):
            names.append(parameters[index].name)
        elif name in ("dtype", "memory_format", "inplace") and given is None:
            names.append(IGNORED)
        else:
            return None
    defaults: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name not in names:
            if parameter.default is MISSING and not (parameter.optional and parameter.keyword_only):
                return None
            defaults[parameter.name] = None if parameter.default is MISSING else parameter.default
    return Fit(schema, tuple(names), args is not given_args, defaults)


def _gather_varargs(schema: _Schema, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.view(2, 3)`` and ``x.permute(1, 0)`` pass their one list as loose numbers."""
    parameters, first = schema.parameters, schema.only_list
    if first is None or len(args) <= first or _is_list(args[first]):
        return args
    later = sum(not p.keyword_only for p in parameters[first + 1 :])
    loose = args[first:]
    if parameters[first].scalar_for_list and len(loose) <= 1 + later and later:
        return args
    if any(not isinstance(a, (int, Node, torch.SymInt)) or isinstance(a, bool) or is_tensor(a) for a in loose):
        return args
    return (*args[:first], tuple(loose))


def _is_list(given: Any) -> bool:
    return isinstance(value(given) if isinstance(given, Node) else given, (list, tuple, torch.Size))


def is_tensor(given: Any) -> bool:
    """Whether an argument is a tensor, or a node that produces one."""
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
            return is_tensor(given)
        case "tensors":
            return is_list and all(item is None or is_tensor(item) for item in given)
        case "list":
            return (is_list and not any(is_tensor(item) for item in given)) or (
                parameter.scalar_for_list and isinstance(given, (int, Node)) and not is_tensor(given)
            )
        case "flag":  # var(x, 1) names a dimension, var(x, True) does not
            return isinstance(value(given) if isinstance(given, Node) else given, (bool, torch.SymBool))
        case _:
            return not is_list and not is_tensor(given)
