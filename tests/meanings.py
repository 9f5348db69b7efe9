"""Programs for every operator that has a meaning: plain ones and hostile ones, what eager refuses, and what is not modelled.

A case is mostly one call, with descriptions of inputs in the place of tensors.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from fuzz.program import Input, Program, Region, Step, Var, run_steps
from optimus.grouped import group_linear
from optimus.values import storages

f64, f32, f16, bf16, i64, i32, boolean = torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool


@dataclass(frozen=True)
class Case:
    """A program, what it is a case of, and how many roundings of the largest element elements may be apart."""

    op: str
    program: Program
    ulps: float = 0.0
    note: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.note}" if self.note else self.op


def plain(program: Program, draw: int = 0) -> Program:
    """Inputs without gradients, which may be written, each with other numbers, and others in each ``draw``."""
    inputs = tuple(type(i)(i.name, i.shape, i.dtype, False, i.layout, i.special, 100 * draw + k) for k, i in enumerate(program.inputs))
    return Program(inputs, program.body, program.outputs)


def eager(program: Program, inputs: list[torch.Tensor]) -> list[Any]:
    values = run_steps(program, inputs)
    return pytree.tree_leaves([values[name] for name in program.outputs])


CASES: list[Case] = []
REFUSED: list[Case] = []
UNMODELLED: list[tuple[Case, str]] = []


def integers(*shape: int, dtype: torch.dtype = f32, **options: Any) -> Input:
    """A tensor of small whole numbers other than 0, on which sums are exact: kernels differ in the sign of a sum of zeros."""
    return Whole("", shape, dtype, **options)


class Whole(Input):
    """An input of small whole numbers."""

    def _values(self, shape: tuple[int, ...]) -> torch.Tensor:
        values = super()._values(shape)
        if not self.dtype.is_floating_point:
            return values
        whole = (3 * values).round().clamp(-6, 6)
        return torch.where(whole == 0, 1.0, whole)


def x(*shape: int, dtype: torch.dtype = f32, **options: Any) -> Input:
    """A tensor argument."""
    return Input("", shape, dtype, **options)


def program_of(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """One step whose arguments hold the inputs themselves."""
    inputs: list[Input] = []

    def variable(given: Any) -> Any:
        if isinstance(given, Input):
            named = type(given)(f"x{len(inputs)}", given.shape, given.dtype, False, given.layout, given.special, len(inputs))
            inputs.append(named)
            return Var(named.name)
        if isinstance(given, (list, tuple)):
            return type(given)(map(variable, given))
        return given

    step = Step("r", target, variable(args), tuple((k, variable(a)) for k, a in kwargs.items()))
    return Program(tuple(inputs), (step,), ("r",))


def case(op: str, target: Any, *args: Any, ulps: float = 0.0, note: str = "", **kwargs: Any) -> None:
    """``target(*args, **kwargs)`` must be what eager says."""
    CASES.append(Case(op, program_of(target, args, kwargs), ulps, note))


def refused(op: str, target: Any, *args: Any, **kwargs: Any) -> None:
    """``target(*args, **kwargs)`` must raise, here and in eager."""
    REFUSED.append(Case(op, program_of(target, args, kwargs)))


def unmodelled(op: str, reason: str, target: Any, *args: Any, **kwargs: Any) -> None:
    """``target(*args, **kwargs)`` may go without semantics, for ``reason``."""
    UNMODELLED.append((Case(op, program_of(target, args, kwargs)), reason))


def steps(op: str, inputs: list[Input], *body: Any, outputs: str, ulps: float = 0.0) -> None:
    """A program of several steps."""
    CASES.append(Case(op, Program(tuple(inputs), tuple(body), tuple(outputs.split())), ulps))


def s(name: str, target: Any, *args: Any, **kwargs: Any) -> Step:
    """A step; names of values are given as variables."""
    return Step(name, target, args, tuple(kwargs.items()))


a, b, c, v, w = (Var(n) for n in "abcvw")
LAYOUTS = ("contiguous", "transposed", "strided", "expanded")

# cuts ------------------------------------------------------------------------------------------------------------------

for layout in LAYOUTS:
    for d in (0, 1, -1, -3):
        case("split", torch.split, x(3, 4, 5, layout=layout), 2, dim=d)
        case("split", "split", x(3, 4, 5, layout=layout), 3, d)
        case("chunk", torch.chunk, x(3, 4, 5, layout=layout), 3, d)
        case("tensor_split", torch.tensor_split, x(3, 4, 5, layout=layout), 3, dim=d)
        case("unbind", torch.unbind, x(3, 4, 5, layout=layout), d)
    case("split", "split", x(3, 6, layout=layout), [1, 0, 5], -1)
    case("split_with_sizes", torch.ops.aten.split_with_sizes.default, x(6, 2, layout=layout), [3, 0, 3], 0)
for size in (1, 2, 3, 6, 7, 100):
    case("split", torch.split, x(6, 2), size)
    case("split", torch.ops.aten.split.Tensor, x(2, 6), size, 1)
if torch.__version__ >= "2.13":  # fakes of torch 2.11 cannot
    case("split", torch.split, x(0, 3), 0)
    case("split", torch.split, x(0, 3), 4)
case("split", torch.split, x(3, 0), 2, dim=0)
case("split", torch.split, x(0, 3), [0, 0, 0])
for chunks in (1, 2, 3, 4, 5, 6, 7, 9):
    case("chunk", "chunk", x(7, 2), chunks)
    case("chunk", torch.chunk, x(0, 2), chunks)
    case("tensor_split", torch.tensor_split, x(7, 2), chunks)
    case("tensor_split", torch.tensor_split, x(0, 2), chunks)
for places in ([2, 4], [0, 7], [-2], [4, 2], [-9, 3], [3, 3], [9, 12], [-1, -3], [], [0]):
    case("tensor_split", "tensor_split", x(7, 2), places)
    case("tensor_split", torch.tensor_split, x(2, 7), tuple(places), dim=-1)
case("unbind", torch.unbind, x(0, 3))
case("unbind", torch.unbind, x(3, 0))
case("unbind", "unbind", x(4))
refused("split", torch.split, x(3, 4), [1, 1], dim=1)
refused("split", torch.split, x(3, 4), [5, -1], dim=1)
refused("split", torch.split, x(3, 4), 2, dim=2)
refused("split", torch.split, x(3, 4), 2, dim=-3)
refused("split", torch.split, x(3, 4), 0)
refused("split", torch.split, x(3, 4), -1)
refused("split", torch.split, x(), 1)
refused("split_with_sizes", torch.ops.aten.split_with_sizes.default, x(6, 2), [3, 2], 0)
refused("chunk", torch.chunk, x(3, 4), 0)
refused("chunk", torch.chunk, x(3, 4), -2)
refused("chunk", torch.chunk, x(), 1)
refused("chunk", torch.chunk, x(3, 4), 2, 2)
refused("tensor_split", torch.tensor_split, x(3, 4), 0)
refused("tensor_split", torch.tensor_split, x(3, 4), 2, dim=-3)
refused("tensor_split", torch.tensor_split, x(), 2)
refused("unbind", torch.unbind, x())
refused("unbind", torch.unbind, x(2, 3), 2)

# one place, a stretch, a slice --------------------------------------------------------------------------------------

for layout in LAYOUTS:
    for index in (0, 2, -1, -3):
        case("select", torch.select, x(3, 4, 3, layout=layout), 0, index)
        case("select", "select", x(3, 4, 3, layout=layout), -1, index)
    for start, length in ((0, 4), (1, 2), (-2, 2), (4, 0), (0, 0), (-4, 1)):
        case("narrow", torch.narrow, x(3, 4, layout=layout), 1, start, length)
        case("narrow", "narrow", x(4, 3, layout=layout), -2, start, length)
for start, stop in product((None, 0, 2, -2, -9, 9), repeat=2):
    for step in (1, 2, 3, 7):
        case("slice", torch.ops.aten.slice.Tensor, x(5, 2), 0, start, stop, step)
        case("getitem", operator.getitem, x(5, 2), slice(start, stop, step))
case("slice", torch.ops.aten.slice.Tensor, x(5, 2), -1, 0, 2**63 - 1)
BASIC: tuple[Any, ...] = (
    1, -2, slice(1, 3), None, Ellipsis, (), (1, 2), (Ellipsis, 0), (0, Ellipsis), (None, 1, None), (slice(None), None, -1), (Ellipsis, None),
    (None, Ellipsis, slice(None, None, 2)), (slice(1, 2), slice(0, 9), slice(-1, None)), (2, 3, 1), (0, slice(None), 0), (Ellipsis, 1, slice(2, 1)),
)  # fmt: skip
for layout, index in product(LAYOUTS, BASIC):
    case("getitem", operator.getitem, x(3, 4, 2, layout=layout), index)
case("getitem", operator.getitem, x(), None)
case("getitem", operator.getitem, x(), ())
case("getitem", operator.getitem, x(0, 3), slice(0, 2))
steps("getitem", [x(5, 2).__class__("a", (5, 2))], s("v", torch.split, a, 2), s("w", operator.getitem, v, -1), outputs="w")
refused("select", torch.select, x(3, 4), 1, 4)
refused("select", torch.select, x(3, 4), 1, -5)
refused("select", torch.select, x(3, 4), 2, 0)
refused("select", torch.select, x(), 0, 0)
refused("narrow", torch.narrow, x(3, 4), 1, 3, 2)
refused("narrow", torch.narrow, x(3, 4), 1, -5, 1)
refused("narrow", torch.narrow, x(3, 4), 1, 1, -1)
refused("narrow", torch.narrow, x(3, 4), 2, 0, 1)
refused("narrow", torch.narrow, x(), 0, 0, 1)
refused("slice", torch.ops.aten.slice.Tensor, x(5, 2), 2, 0, 1)
refused("slice", torch.ops.aten.slice.Tensor, x(5, 2), 0, 0, 3, 0)
refused("slice", torch.ops.aten.slice.Tensor, x(), 0, 0, 1)
refused("getitem", operator.getitem, x(3, 4), 3)
refused("getitem", operator.getitem, x(3, 4), (0, -5))
refused("getitem", operator.getitem, x(3, 4), (0, 0, 0))
refused("getitem", operator.getitem, x(3, 4), slice(None, None, -1))
refused("getitem", operator.getitem, x(3, 4), slice(None, None, 0))
refused("getitem", operator.getitem, x(), 0)
unmodelled("getitem", "advanced indexing copies", operator.getitem, x(3, 4), [0, 2])
unmodelled("getitem", "advanced indexing copies", operator.getitem, x(3, 4), True)
unmodelled("getitem", "advanced indexing copies", operator.getitem, x(3, 4), x(2, dtype=i64))

# joins ----------------------------------------------------------------------------------------------------------------

DTYPES = (f32, f16, bf16, i64, i32, boolean, f64)
for one, other in product(DTYPES, repeat=2):
    case("cat", torch.cat, [x(2, 3, dtype=one), x(1, 3, dtype=other)])
    case("stack", torch.stack, (x(2, 2, dtype=one), x(2, 2, dtype=other)), dim=-1)
for layout in LAYOUTS:
    for d in (0, 1, -1, -2):
        case("cat", torch.cat, (x(2, 2, layout=layout), x(2, 2), x(2, 2, layout=layout)), d)
        case("cat", torch.cat, (x(3, 3, layout=layout), x(3, 3)), dim=d)
        case("stack", torch.stack, [x(2, 3, layout=layout), x(2, 3), x(2, 3)], d)
case("cat", torch.cat, [x(4)])
case("cat", torch.cat, [x(1, 3), x(4, 3), x(2, 3)])
case("cat", torch.cat, [x(0, 3), x(4, 3), x(0, 3)])
case("cat", torch.cat, [x(3, 0), x(3, 2), x(3, 0)], -1)
case("cat", torch.cat, [x(0), x(4, 3), x(0)], 1)
case("cat", torch.cat, [x(4, 3), x(0)], 1)
case("cat", torch.cat, [x(0, dtype=f64), x(4, 3)], 0)
case("cat", torch.cat, [x(0), x(0)])
case("cat", torch.cat, [x(0), x(2)])
case("stack", torch.stack, [x(), x()])
case("stack", torch.stack, [x(), x()], -1)
case("stack", torch.stack, [x(0, 2), x(0, 2)], 1)
case("stack", torch.stack, [x(3)], 1)
JOINS_BY_DIRECTION = {"hstack": torch.hstack, "vstack": torch.vstack, "dstack": torch.dstack, "column_stack": torch.column_stack}
for name, target in JOINS_BY_DIRECTION.items():
    for shapes in (
        ((), ()),
        ((3,), (3,)),
        ((2, 3), (2, 3)),
        ((2, 3, 2), (2, 3, 2)),
        ((2, 3, 4, 2), (2, 3, 4, 2)),
        ((0,), (0,)),
        ((2, 0), (2, 0)),
        ((3,),),
    ):
        case(name, target, [x(*shape) for shape in shapes])
    for layout in LAYOUTS:
        case(name, target, [x(3, 3, layout=layout), x(3, 3)])
    case(name, target, [x(2, 2, dtype=f64), x(2, 2, dtype=i32)])
    refused(name, target, [])
    refused(name, target, [x(2, 3, 4), x(3, 2, 4)])
case("vstack", torch.row_stack, [x(3), x(2, 3)])
case("vstack", torch.vstack, [x(), x(2, 1)])
case("dstack", torch.dstack, [x(3), x(1, 3)])
case("dstack", torch.dstack, [x(2, 3), x(2, 3, 2)])
case("column_stack", torch.column_stack, [x(3), x(3, 2)])
case("column_stack", torch.column_stack, [x(), x(1, 2), x(1)])
case("hstack", torch.hstack, [x(), x(2)])
case("hstack", torch.hstack, [x(0), x(4, 3)])
refused("hstack", torch.hstack, [x(2), x(2, 2)])
refused("cat", torch.cat, [])
refused("cat", torch.cat, [x(2, 3), x(2, 4)])
refused("cat", torch.cat, [x(2, 3), x(2, 3)], 2)
refused("cat", torch.cat, [x(2, 3), x(3)])
refused("cat", torch.cat, [x(2, 3), x(2, 3, 1)])
refused("cat", torch.cat, [x(), x()])
refused("cat", torch.cat, [x(0, 2), x(4, 3)], 1)
refused("stack", torch.stack, [])
refused("stack", torch.stack, [x(2, 3), x(2, 1)])
refused("stack", torch.stack, [x(2, 3), x(3)])
refused("stack", torch.stack, [x(2, 3), x(2, 3)], 3)
refused("stack", torch.stack, [x(2, 3), x(2, 3)], -4)

# dimensions -----------------------------------------------------------------------------------------------------------

for layout in LAYOUTS:
    case("permute", "permute", x(2, 3, 4, layout=layout), -1, 0, 1)
    case("permute", torch.permute, x(2, 3, 4, layout=layout), (2, 1, 0))
    case("transpose", torch.transpose, x(2, 3, 4, layout=layout), 0, -1)
    case("transpose", "transpose", x(2, 3, 4, layout=layout), 1, 1)
    case("transpose", torch.swapaxes, x(2, 3, 4, layout=layout), -3, 2)
    case("t", torch.t, x(3, 4, layout=layout))
    case("mT", torch.ops.aten.mT.default, x(2, 3, 4, layout=layout))
    case("movedim", torch.movedim, x(2, 3, 4, layout=layout), 0, -1)
    case("movedim", torch.movedim, x(2, 3, 4, 2, layout=layout), (0, -1), (2, 0))
    case("movedim", torch.moveaxis, x(2, 3, 4, layout=layout), [-1, 0, 1], [0, 1, 2])
    for d in (0, 1, 2, -1, -3):
        case("unsqueeze", torch.unsqueeze, x(3, 4, layout=layout), d)
case("permute", torch.permute, x(), ())
case("transpose", torch.transpose, x(), 0, -1)
case("transpose", torch.transpose, x(3), 0, -1)
case("t", torch.t, x())
case("t", "t", x(5))
case("movedim", torch.movedim, x(), 0, -1)
case("movedim", torch.movedim, x(2, 3), (), ())
case("unsqueeze", "unsqueeze", x(), 0)
case("unsqueeze", "unsqueeze", x(), -1)
for d in (0, 1, -1, (0, 2), (0, 1, 2), (-1, 0), ()):
    case("squeeze", torch.squeeze, x(1, 3, 1), d)
    case("squeeze", "squeeze", x(1, 1, 1), d)
case("squeeze", torch.squeeze, x(1, 3, 1))
case("squeeze", "squeeze", x(1, 1))
case("squeeze", "squeeze", x())
case("squeeze", torch.squeeze, x(), 0)
case("squeeze", torch.squeeze, x(0, 1))
for sizes in ((2, 3), (4, 2, 3), (-1, -1), (1, 0, 2, 3), (5, -1, 3)):
    case("expand", "expand", x(2, 3), *sizes)
    case("expand", "expand", x(2, 1), sizes)
case("expand", "expand", x(1, 1), 0, 4)
case("expand", "expand", x(), 2, 3)
case("expand", "expand", x(0, 1), -1, 3)
case("expand_as", "expand_as", x(1, 3), x(2, 4, 3))
case("expand_as", "expand_as", x(), x(2, 2))
refused("permute", torch.permute, x(2, 3), (0, 0))
refused("permute", torch.permute, x(2, 3), (0, 1, 2))
refused("permute", torch.permute, x(2, 3), (0,))
refused("permute", torch.permute, x(2, 3), (0, 2))
refused("transpose", torch.transpose, x(2, 3), 0, 2)
refused("transpose", torch.transpose, x(), 0, 1)
refused("t", torch.t, x(2, 3, 4))
refused("mT", torch.ops.aten.mT.default, x(3))
refused("movedim", torch.movedim, x(2, 3), (0, 0), (0, 1))
refused("movedim", torch.movedim, x(2, 3), (0, 1), (1, 1))
refused("movedim", torch.movedim, x(2, 3), (0, 1), (1,))
refused("movedim", torch.movedim, x(2, 3), 0, 2)
refused("movedim", torch.movedim, x(), 0, 1)
refused("unsqueeze", torch.unsqueeze, x(2, 3), 3)
refused("unsqueeze", torch.unsqueeze, x(2, 3), -4)
refused("squeeze", torch.squeeze, x(1, 3), 2)
refused("squeeze", torch.squeeze, x(1, 1), (0, 0))
refused("squeeze", torch.squeeze, x(), 1)
refused("expand", "expand", x(2, 3), 2, 4)
refused("expand", "expand", x(2, 3), 3)
refused("expand", "expand", x(2, 3), -1, 2, 3)
refused("expand", "expand", x(1, 3), -2, 3)
refused("expand_as", "expand_as", x(2, 3), x(3))
refused("expand_as", "expand_as", x(2, 3), x(2, 4))

# reshapes -------------------------------------------------------------------------------------------------------------

for layout in ("contiguous", "transposed", "expanded"):
    for shape in ((24,), (-1,), (2, 12), (12, 2), (-1, 8), (8, -1), (2, -1, 3), (1, 2, 3, 4), (4, 3, 2), (6, 1, 4), (3, 8), (2, 3, 4)):
        case("reshape", torch.reshape, x(2, 3, 4, layout=layout), shape)
        case("reshape", torch.reshape, x(4, 6, layout=layout), shape)
for shape in ((24,), (-1,), (2, 12), (-1, 8), (2, -1, 3), (1, 2, 3, 4), (4, 3, 2), (6, 1, 4)):
    case("view", "view", x(2, 3, 4), *shape)
    case("view", "view", x(4, 1, 6), shape)
    case("_unsafe_view", torch.ops.aten._unsafe_view.default, x(2, 3, 4), list(shape))
for shape in ((0,), (0, 5), (3, 0), (-1, 3), (2, 0, 7), (0, 0)):
    case("reshape", torch.reshape, x(0, 3), shape)
case("reshape", torch.reshape, x(), (1, 1))
case("reshape", torch.reshape, x(), (-1,))
case("reshape", torch.reshape, x(1, 1), ())
case("view", "view", x(1), ())
case("view_as", "view_as", x(2, 6), x(3, 4))
case("reshape_as", "reshape_as", x(2, 6, layout="transposed"), x(3, 4))
for first, last in ((0, -1), (0, 1), (1, 2), (-2, -1), (1, 1), (0, 0)):
    case("flatten", torch.flatten, x(2, 3, 4), first, last)
    case("flatten", "flatten", x(2, 3, 4, layout="transposed"), first, last)
case("flatten", torch.flatten, x())
case("flatten", torch.flatten, x(), 0, -1)
case("flatten", torch.flatten, x(2, 0, 3), 1)
for d, parts in ((1, (2, 3)), (1, (-1, 2)), (-1, (4, 1)), (-1, (-1,)), (0, (1, 2, 1)), (0, (2, -1))):
    case("unflatten", torch.unflatten, x(2, 6, 4), d, parts)
    case("unflatten", "unflatten", x(2, 6, 4, layout="transposed"), d, parts)
steps(
    "reshape", [Input("a", (2, 3)), Input("b", (2, 3))],
    s("v", torch.stack, [a, b], dim=1), s("w", "reshape", v, 2, 6), s("c", "reshape", w, 4, 3), s("r", "permute", c, 1, 0), s("q", "reshape", Var("r"), -1),
    outputs="v w c r q",
)  # fmt: skip
steps(
    "view", [Input("a", (2, 2)), Input("b", (2, 2)), Input("c", (2, 2))],
    s("v", torch.cat, [a, b, c], 1), s("w", "view", v, 2, 3, 2), s("r", "transpose", w, 0, 1), s("q", "flatten", Var("r"), 1), s("p", torch.split, v, 2, dim=1),
    outputs="v w r q p",
)  # fmt: skip
refused("reshape", torch.reshape, x(2, 3), (4,))
refused("reshape", torch.reshape, x(2, 3), (-1, 4))
refused("reshape", torch.reshape, x(2, 3), (-1, -1))
refused("reshape", torch.reshape, x(2, 3), (-2, -3))
refused("reshape", torch.reshape, x(0, 3), (-1, 0))
refused("view", "view", x(2, 3), 2, 4)
refused("view", "view", x(2, 3), -1, 0)
refused("_unsafe_view", torch.ops.aten._unsafe_view.default, x(2, 3), [5])
refused("view_as", "view_as", x(2, 3), x(2, 4))
refused("reshape_as", "reshape_as", x(2, 3), x(7))
refused("flatten", torch.flatten, x(2, 3, 4), 2, 1)
refused("flatten", torch.flatten, x(2, 3, 4), 0, 3)
refused("flatten", torch.flatten, x(), 1, 1)
refused("unflatten", torch.unflatten, x(2, 6), 1, (4, 2))
refused("unflatten", torch.unflatten, x(2, 6), 2, (2, 1))
refused("unflatten", torch.unflatten, x(2, 6), 1, (-1, 4))
refused("unflatten", torch.unflatten, x(2, 6), 1, ())
unmodelled("view", "the bytes of elements are not modelled", "view", x(2, 3), i32)

# copies, views of everything, sizes -----------------------------------------------------------------------------------

for layout in LAYOUTS:
    case("clone", torch.clone, x(3, 4, layout=layout))
    case("contiguous", "contiguous", x(3, 4, layout=layout))
    case("detach", "detach", x(3, 4, layout=layout))
    case("alias", torch.ops.aten.alias.default, x(3, 4, layout=layout))
    for dtype in DTYPES:
        case("to", "to", x(2, 3, layout=layout, special=layout == "contiguous" and dtype.is_floating_point), dtype)
        case("prims::convert_element_type", torch.ops.prims.convert_element_type.default, x(2, 3, layout=layout), dtype)
case("to", "float", x(2, 3, dtype=bf16))
case("to", "to", x(2, 3), f32, copy=True)
case("to", "to", x(2, 3), dtype=f32, memory_format=torch.contiguous_format)
case("to", "to", x(2, 3, layout="transposed"), dtype=f32, memory_format=torch.contiguous_format)
case("type_as", "type_as", x(2, 3), x(1, dtype=f16))
case("type_as", "type_as", x(2, 3), x(1))
case("size", "size", x(2, 3))
case("size", "size", x(2, 3), -1)
case("size", "size", x(2, 3), dim=0)
case("dim", "dim", x(2, 3))
case("dim", "dim", x())
refused("size", "size", x(2, 3), 2)
refused("size", "size", x(), 0)

# sums of products -----------------------------------------------------------------------------------------------------

for layout in LAYOUTS:
    for lead in ((), (3,), (2, 3), (2, 1, 2)):
        case("linear", F.linear, integers(*lead, 4, layout=layout), integers(2, 4))
        case("linear", F.linear, integers(*lead, 4), integers(2, 4, layout=layout), integers(2))
    case("mm", torch.mm, integers(2, 3, layout=layout), integers(3, 4, layout=layout))
    case("bmm", torch.bmm, integers(2, 2, 3, layout=layout), integers(2, 3, 4, layout=layout))
    for alpha, beta in ((1, 1), (2, 1), (1, 0), (3, -2), (0, 1), (0.5, 2.0)):
        case("addmm", torch.addmm, integers(2, 4, layout=layout), integers(2, 3), integers(3, 4), alpha=alpha, beta=beta)
        case("baddbmm", torch.baddbmm, integers(4, layout=layout), integers(2, 2, 3), integers(2, 3, 4), alpha=alpha, beta=beta)
RANKS = ((3,), (2, 3), (4, 2, 3), (1, 2, 3), (2, 4, 2, 3), (2, 1, 2, 3))
OTHERS = ((3,), (3, 2), (4, 3, 2), (1, 3, 2), (2, 4, 3, 2), (2, 1, 3, 2))
for one, other in product(RANKS, OTHERS):
    case("matmul", torch.matmul, integers(*one), integers(*other))
case("matmul", operator.matmul, integers(2, 3, layout="transposed"), integers(4, 3, 2, layout="strided"))
case("linear", F.linear, integers(3, 4), integers(2, 4), integers())
case("linear", F.linear, integers(3, 4), integers(2, 4), integers(1))
case("linear", F.linear, integers(3, 0), integers(2, 0), integers(2))
case("linear", F.linear, integers(0, 4), integers(2, 4))
case("linear", F.linear, integers(3, 4, dtype=f64), integers(2, 4, dtype=f64), integers(2, dtype=f64))
GROUP = "optimus::group_linear"
for layout in LAYOUTS:
    operands = [integers(3, 4, layout=layout), integers(2, 3, 5), integers(4)], [integers(2, 4), integers(4, 5, layout=layout), integers(3, 4)]
    case(GROUP, group_linear, *operands, [None, integers(4), integers(3)])
    case(GROUP, group_linear, *operands, [None, None, None])
case(GROUP, group_linear, [integers(3, 0), integers(0, 4)], [integers(2, 0), integers(2, 4)], [integers(2), None])
case(GROUP, group_linear, [integers(3, 4, dtype=f64)], [integers(2, 4, dtype=f64)], [integers(2, dtype=f64)])
case("mm", torch.mm, integers(2, 0), integers(0, 3))
case("mm", torch.mm, integers(2, 3, dtype=i64), integers(3, 2, dtype=i64))
case("matmul", torch.matmul, integers(0), integers(0))
case("addmm", torch.addmm, integers(1, 4), integers(2, 3), integers(3, 4))
case("addmm", torch.addmm, integers(), integers(2, 3), integers(3, 4))
case("addmm", torch.addmm, x(2, 2, special=True), integers(2, 3), integers(3, 2), beta=0)
case("baddbmm", torch.baddbmm, integers(2, 1, 1), integers(2, 2, 3), integers(2, 3, 4))
EQUATIONS = (
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,kj->ki", (2, 3), (4, 3)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("ij,ij->", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)), ("ij,jk", (2, 3), (3, 2)), ("ba,cb", (2, 3), (4, 2)), ("ij , jk -> ki", (2, 3), (3, 2)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("ij->i", (2, 3)), ("ij->", (2, 3)), ("iij->j", (2, 2, 3)), ("ij,j->ij", (2, 3), (3,)), ("ij,jk->ik", (2, 1), (3, 4)), ("ij,jk->ik", (2, 3), (1, 4)),
    ("ii,i->i", (3, 3), (3,)), ("ij,jk,kl->il", (2, 2), (2, 3), (3, 2)), ("bi,bj->bij", (2, 3), (2, 2)), ("aB,Bc->ac", (2, 2), (2, 2)),
)  # fmt: skip
for equation, *shapes in EQUATIONS:
    if equation != "ii->i":
        case("einsum", torch.einsum, equation, *(integers(*shape) for shape in shapes), ulps=1)  # eager may sum before it multiplies
case("einsum", torch.einsum, "bij,bkj->bik", integers(4, 12, 3), integers(4, 12, 3), ulps=1)
case("einsum", torch.einsum, "ij,jk->ik", integers(24, 3), integers(3, 25), ulps=1)
unmodelled("einsum", "a sum over nothing is a view", torch.einsum, "ii->i", x(3, 3))
unmodelled("einsum", "a sum over nothing is a view", torch.einsum, "ij->ji", x(2, 3))
unmodelled("einsum", "a sum over nothing is a view", torch.einsum, "iij->ij", x(2, 2, 3))
unmodelled("einsum", "an ellipsis", torch.einsum, "...i,i->...", x(2, 3), x(3))
unmodelled("linear", "a weight that is a vector", F.linear, x(2, 3), x(3))
refused("linear", F.linear, x(2, 3), x(4, 2))
refused("linear", F.linear, x(2, 3), x(4, 3), x(3))
refused("linear", F.linear, x(2, 3), x(4, 3, dtype=f64))
refused(GROUP, group_linear, [x(2, 3), x(2, 3)], [x(4, 3), x(4, 2)], [None, None])
refused(GROUP, group_linear, [x(2, 3)], [x(4, 3)], [x(3)])
refused(GROUP, group_linear, [x(2, 3), x(2, 3)], [x(4, 3)], [None])
refused(GROUP, group_linear, [], [], [])
refused("mm", torch.mm, x(2, 3), x(2, 3))
refused("mm", torch.mm, x(2, 3), x(3))
refused("mm", torch.mm, x(2, 3), x(3, 2, dtype=f16))
refused("bmm", torch.bmm, x(2, 2, 3), x(1, 3, 2))
refused("bmm", torch.bmm, x(2, 2, 3), x(2, 2, 3))
refused("bmm", torch.bmm, x(2, 3), x(3, 2))
refused("addmm", torch.addmm, x(3), x(2, 3), x(3, 4))
refused("addmm", torch.addmm, x(4), x(2, 3), x(4, 4))
refused("addmm", torch.addmm, x(1, 2, 4), x(2, 3), x(3, 4))
refused("baddbmm", torch.baddbmm, x(3), x(2, 2, 3), x(2, 3, 4))
refused("baddbmm", torch.baddbmm, x(4), x(2, 2, 3), x(3, 3, 4))
refused("matmul", torch.matmul, x(2, 3), x(2, 3))
refused("matmul", torch.matmul, x(), x(3))
refused("matmul", torch.matmul, x(2, 2, 3), x(3, 3, 2))
refused("matmul", torch.matmul, x(2, 3), x(3, 2, dtype=i64))
refused("einsum", torch.einsum, "ij,jk->ik", x(2, 3), x(2, 3))
refused("einsum", torch.einsum, "ij->i", x(2, 3, 4))
refused("einsum", torch.einsum, "ii->i", x(2, 3))
refused("einsum", torch.einsum, "ij->ik", x(2, 3))
refused("einsum", torch.einsum, "ij->ii", x(2, 3))
refused("einsum", torch.einsum, "ij,jk->ik", x(2, 3))

# rows -----------------------------------------------------------------------------------------------------------------

NAMED: tuple[dict[str, Any], ...] = ({}, {"dim": 0}, {"dim": -1}, {"dim": (0, 2)}, {"dim": [1]}, {"dim": (2, -3, 1)}, {"dim": None}, {"dim": ()})
for layout, named in product(LAYOUTS, NAMED):
    for keepdim in (False, True):
        kept = {"keepdim": keepdim} if "dim" in named else {}
        case("sum", torch.sum, integers(2, 3, 4, layout=layout), **named, **kept)
        case("mean", torch.mean, integers(2, 3, 4, layout=layout), **named, **kept, ulps=2)
        case("var", torch.var, integers(2, 3, 4, layout=layout), **named, **kept, ulps=8)
        case("std", "std", integers(2, 3, 4, layout=layout), **named, **kept, ulps=8)
        case("var_mean", torch.var_mean, x(2, 3, 4, layout=layout), **named, **kept, ulps=64)
        case("std_mean", torch.std_mean, x(2, 3, 4, layout=layout), **named, **kept, ulps=64)
        if "dim" in named and named["dim"] is not None:
            case("amax", torch.amax, x(2, 3, 4, layout=layout), **named, **kept)
            case("amin", torch.amin, x(2, 3, 4, layout=layout), **named, **kept)
            if named["dim"] != ():
                case("logsumexp", torch.logsumexp, x(2, 3, 4, layout=layout), **named, **kept, ulps=8)
                case("all", torch.all, x(2, 3, 4, dtype=boolean, layout=layout), **named, **kept)
                case("any", torch.any, x(2, 3, 4, dtype=boolean, layout=layout), **named, **kept)
for d in (0, 1, -1):
    for layout in LAYOUTS:
        case("prod", torch.prod, integers(2, 3, 4, layout=layout), d)
        case("argmax", torch.argmax, integers(2, 3, 4, layout=layout), d)
        case("argmin", "argmin", integers(2, 3, 4, layout=layout), d, True)
        case("softmax", torch.softmax, x(2, 3, 4, layout=layout), d, ulps=8)
        case("softmax", F.softmax, x(2, 3, 4, dtype=f16, layout=layout), dim=d, dtype=f32, ulps=8)
        case("log_softmax", F.log_softmax, x(2, 3, 4, layout=layout), d, ulps=64)
        case("_softmax", torch.ops.aten._softmax.default, x(2, 3, 4, layout=layout), d, False, ulps=8)
        case("_log_softmax", torch.ops.aten._log_softmax.default, x(2, 3, 4, layout=layout), d, False, ulps=64)
        case("cumsum", torch.cumsum, integers(2, 3, 4, layout=layout), d)
        case("cumprod", "cumprod", integers(2, 3, 4, layout=layout), d)
case("var", torch.var, x(3, 4), 1, ulps=16)
case("std", "std", x(3, 4), 0, ulps=16)
for correction in (0, 1, 2, 0.5):
    case("var", torch.var, x(3, 4), dim=1, correction=correction, ulps=16)
    case("var_mean", torch.var_mean, x(3, 4), dim=(0, 1), correction=correction, keepdim=True, ulps=16)
for unbiased in (False, True):
    case("var", torch.var, x(3, 4), unbiased, ulps=16)
    case("var", "var", x(3, 4), 1, unbiased, ulps=16)
    case("std", torch.std, x(3, 4), dim=0, unbiased=unbiased, keepdim=True, ulps=16)
for dtype in (i64, i32, boolean, f16, bf16, f64):
    case("sum", torch.sum, integers(3, 4, dtype=dtype), 1)
    case("sum", "sum", integers(3, 4, dtype=dtype))
    case("sum", torch.sum, integers(3, 4, dtype=dtype), 0, dtype=f64)
    case("sum", torch.sum, integers(3, 4, dtype=dtype), (0, 1), True, dtype=i32)
    case("mean", torch.mean, integers(3, 4, dtype=dtype), 1, dtype=f64, ulps=2)
    case("prod", torch.prod, integers(2, 3, dtype=dtype))
    case("all", torch.all, integers(3, 4, dtype=dtype))
    case("any", torch.any, integers(3, 4, dtype=dtype), 0)
    case("cumsum", torch.cumsum, integers(3, 4, dtype=dtype), 1)
case("sum", torch.sum, x())
case("sum", torch.sum, x(), 0)
case("sum", torch.sum, x(0, 3), 0)
case("sum", torch.sum, x(0, 3), 1, True)
case("sum", torch.ops.aten.sum.dim_IntList, integers(2, 3), [1])
case("sum", torch.ops.aten.sum.default, integers(2, 3))
case("mean", torch.mean, x(0, 3), 1)
case("mean", torch.mean, x(2, 0), 1)
case("mean", torch.mean, x())
case("softmax", torch.softmax, x(), 0)
case("softmax", torch.softmax, x(2, 0), 1)
case("argmax", torch.argmax, integers(2, 3))
case("argmax", torch.argmax, integers(2, 3, layout="transposed"), None)
for op in (torch.sum, torch.mean, torch.var):
    refused(op.__name__, op, x(2, 3), 2)
    refused(op.__name__, op, x(2, 3), (0, -2))
refused("amax", torch.amax, x(0, 3), 0)
refused("amax", torch.amax, x(2, 3), (1, 1))
refused("argmax", torch.argmax, x(2, 0), 1)
refused("softmax", torch.softmax, x(2, 3), 2)
refused("cumsum", torch.cumsum, x(2, 3), -3)

for layout in LAYOUTS:
    for over in ((4,), (3, 4), (2, 3, 4)):
        case("layer_norm", F.layer_norm, x(2, 3, 4, layout=layout), over, ulps=64)
        case("layer_norm", F.layer_norm, x(2, 3, 4, layout=layout), list(over), x(*over), eps=0.5, ulps=64)
        case("layer_norm", F.layer_norm, x(2, 3, 4, layout=layout), over, None, x(*over), ulps=64)
        case("layer_norm", torch.layer_norm, x(2, 3, 4, layout=layout), over, x(*over), x(*over), 1e-3, ulps=64)
        case("native_layer_norm", torch.native_layer_norm, x(2, 3, 4, layout=layout), over, x(*over), x(*over), 1e-3, ulps=64)
        case("native_layer_norm", torch.native_layer_norm, x(2, 3, 4, layout=layout), over, None, None, 1e-5, ulps=64)
case("layer_norm", F.layer_norm, x(4, dtype=f64), (4,), ulps=64)
case("layer_norm", F.layer_norm, x(3, 4, dtype=bf16), (4,), x(4, dtype=bf16), x(4, dtype=bf16), ulps=8)
case("layer_norm", F.layer_norm, x(0, 4), (4,), x(4))
refused("layer_norm", F.layer_norm, x(3, 4), (3,))
refused("layer_norm", F.layer_norm, x(3, 4), (2, 3, 4))
refused("layer_norm", F.layer_norm, x(3, 4), ())
refused("layer_norm", F.layer_norm, x(3, 4), (4,), x(1))
refused("layer_norm", F.layer_norm, x(3, 4), (4,), x(4), x(3))


class Below(Input):
    """An input of positions below 3."""

    def _values(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.arange(math.prod(shape)).reshape(shape).mul(7).add(2).remainder(3).to(self.dtype)


def below(*shape: int, dtype: torch.dtype = i64, **options: Any) -> Input:
    """A tensor of positions along a dimension of 3."""
    return Below("", shape, dtype, **options)


for shape in ((), (5,), (2, 3), (2, 0)):
    case("embedding", F.embedding, below(*shape), x(3, 4))
    case("embedding", F.embedding, input=below(*shape, dtype=i32), weight=x(3, 4, layout="transposed"), padding_idx=1)
    case("embedding", torch.ops.aten.embedding.default, x(3, 4), below(*shape), -1)
refused("embedding", torch.ops.aten.embedding.default, x(3, 4, 2), below(2))
for layout in LAYOUTS:
    for d in (0, 1, -1):
        case("index_select", torch.index_select, x(3, 3, 4, layout=layout), d, below(5))
        case("index_select", "index_select", x(3, 3, 4, layout=layout), d, below(0, dtype=i32))
        case("gather", torch.gather, x(3, 3, 4, layout=layout), d, below(2, 3, 4 if d == -1 else 3))
case("gather", "gather", x(3, 4), 1, below(0, 7))
refused("index_select", torch.index_select, x(3, 4), 2, below(2))
refused("gather", torch.gather, x(3, 4), 0, below(2, 5))
refused("gather", torch.gather, x(3, 4), 2, below(2, 2))

# larger, turned round -------------------------------------------------------------------------------------------------

WIDTHS = ((0, 0), (1, 2), (-1, 0), (0, -2, 1, 1), (1, 0, 0, 1, 2, 2), (-1, 3, -2, 0), (-4, 0), (2, -1), ())
for layout, widths in product(LAYOUTS, WIDTHS):
    case("pad", F.pad, x(2, 3, 4, layout=layout), widths)
    case("pad", F.pad, x(2, 3, 4, dtype=i64, layout=layout), list(widths), value=7)
    case("constant_pad_nd", torch.constant_pad_nd, x(2, 3, 4, layout=layout), widths, -1.5)
case("pad", F.pad, x(2, 3), (1, 1), "constant", 2)
case("pad", F.pad, x(0, 3), (1, 1, 2, 0))
refused("pad", F.pad, x(2, 3), (1,))
refused("pad", F.pad, x(2, 3), (1, 1, 1, 1, 1, 1))
refused("pad", F.pad, x(2, 3), (-2, -2))
for layout, counts in product(LAYOUTS, ((1, 1), (2, 3), (3, 1), (0, 2), (2, 1, 2), (2, 2, 1, 1))):
    case("repeat", "repeat", x(2, 3, layout=layout), *counts)
    case("repeat", torch.ops.aten.repeat.default, x(1, 3, layout=layout), list(counts))
case("repeat", "repeat", x(), 3)
case("repeat", torch.ops.aten.repeat.default, x(), [])
case("repeat", "repeat", x(0, 2), 2, 2)
refused("repeat", "repeat", x(2, 3), 2)
refused("repeat", "repeat", x(2, 3), 2, -1)
for layout, axes in product(LAYOUTS, ((0,), (1,), (-1, 0), (0, 1, 2), ())):
    case("flip", torch.flip, x(2, 3, 4, layout=layout), axes)
case("flip", "flip", x(0, 3), 0, 1)
refused("flip", torch.flip, x(2, 3), (0, 0))
refused("flip", torch.flip, x(2, 3), (2,))

# element-wise ---------------------------------------------------------------------------------------------------------

ELEMENTWISE = "element-wise"
SHAPES = (
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((2, 3), ()),
    ((), (3,)),
    ((1,), (2, 2)),
    ((0, 3), (1, 3)),
    ((2, 1, 3), (4, 1)),
    ((1, 0), (3, 1)),
)
for one, other in SHAPES:
    case(ELEMENTWISE, torch.add, x(*one), x(*other))
    case(ELEMENTWISE, torch.sub, x(*one, special=True), x(*other), alpha=2)
    case(ELEMENTWISE, operator.mul, x(*one, layout="expanded"), x(*other, layout="transposed"))
    case(ELEMENTWISE, torch.maximum, x(*one), x(*other, special=True))
for one, other in product(DTYPES, repeat=2):
    case(ELEMENTWISE, torch.mul, x(2, 2, dtype=one), x(2, dtype=other))
    case(ELEMENTWISE, torch.add, x(2, 2, dtype=one), x(dtype=other))
    case(ELEMENTWISE, torch.eq, x(2, dtype=one), x(2, dtype=other))
    case(ELEMENTWISE, torch.div, x(2, dtype=one), x(2, dtype=other))
for dtype in DTYPES[:-1]:
    case(ELEMENTWISE, operator.mul, x(2, 3, dtype=dtype), 2)
    case(ELEMENTWISE, operator.add, 0.5, x(2, 3, dtype=dtype))
    case(ELEMENTWISE, operator.sub, 1, x(2, 3, dtype=i64 if dtype is boolean else dtype))
    case(ELEMENTWISE, operator.truediv, 3.0, x(2, 3, dtype=dtype))
for layout in LAYOUTS:
    case(ELEMENTWISE, torch.relu, x(3, 4, layout=layout, special=True))
    case(ELEMENTWISE, torch.clamp, x(3, 4, layout=layout, special=True), min=-0.5, max=0.25)
    case(ELEMENTWISE, torch.clamp, x(3, 4, layout=layout), max=0.25)
    case(ELEMENTWISE, torch.where, x(3, 4, dtype=boolean), x(4), x(3, 1, layout=layout))
    case(ELEMENTWISE, torch.tanh, x(3, 4, layout=layout), ulps=4)
    case(ELEMENTWISE, F.leaky_relu, x(3, 4, layout=layout), 0.1)
    case(ELEMENTWISE, torch.nan_to_num, x(3, 4, layout=layout, special=True), nan=2.0)
case(ELEMENTWISE, torch.div, x(2, 3), x(3), rounding_mode="floor")
case(ELEMENTWISE, F.gelu, x(2, 3), approximate="tanh", ulps=4)
case(ELEMENTWISE, F.silu, x(2, 3), ulps=4)
case(ELEMENTWISE, torch.lerp, x(2, 3), x(3), x(1))
case(ELEMENTWISE, torch.addcmul, x(2, 3), x(3), x(2, 1), value=2)
case(ELEMENTWISE, torch.add, other=x(3), input=x(2, 3), alpha=3)
refused(ELEMENTWISE, torch.add, x(2, 3), x(2))
refused(ELEMENTWISE, torch.mul, x(2, 3), x(0, 3))
refused(ELEMENTWISE, torch.where, x(2, dtype=boolean), x(3), x(1))
unmodelled(ELEMENTWISE, "a view that conjugates when read", torch.conj, x(2, 3, dtype=torch.complex64))
for target in (torch.positive, torch.conj_physical, torch.resolve_conj):
    unmodelled(ELEMENTWISE, "returns its argument itself", target, x(2, 3))


def overloads() -> Iterator[tuple[str, Any]]:
    """Every operator that PyTorch calls element-wise and that neither writes nor draws."""
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            found = getattr(packet, overload)
            written = any(x.alias_info is not None and x.alias_info.is_write for x in found._schema.arguments)
            if torch.Tag.pointwise in found.tags and torch.Tag.nondeterministic_seeded not in found.tags and not written:
                yield f"{name}.{overload}", found


def arguments(overload: Any, dtype: torch.dtype) -> dict[str, Any] | None:
    """Required arguments of an overload, tensors of two shapes that broadcast."""
    found: dict[str, Any] = {}
    shapes = iter([(2, 3), (3,), (1, 3), (2, 1), (3,), (3,)])
    for argument in overload._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            continue
        if kind == "Tensor":
            found[argument.name] = Unit("", next(shapes), dtype)
        elif kind in ("number", "float", "int", "bool"):
            found[argument.name] = {"number": 0.5 if dtype.is_floating_point else 1, "float": 0.5, "int": 1, "bool": False}[kind]
        elif not kind.startswith("Optional"):
            return None
    return found


class Unit(Input):
    """An input of numbers between 0 and 1, or of small positive ones."""

    def _values(self, shape: tuple[int, ...]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        if self.dtype is boolean:
            return torch.rand(shape, generator=generator) > 0.5
        spread = torch.rand(shape, generator=generator, dtype=f64) * 0.8 + 0.1
        return spread.to(self.dtype) if self.dtype.is_floating_point else (spread * 10).long()


SWEPT: list[Case] = []
for name, overload in overloads():
    for dtype in (f64, i64, boolean):
        given = arguments(overload, dtype)
        if given is None:
            continue
        program = program_of(overload, (), given)
        with contextlib.suppress(RuntimeError, NotImplementedError, ValueError, TypeError):
            made = overload(**{k: g.make() if isinstance(g, Input) else g for k, g in given.items()})
            fake = program.graph().graph.find_nodes(op="call_function", target=overload)[0]
            if isinstance(made, torch.Tensor) and not set(storages(fake)) & {s for n in fake.all_input_nodes for s in storages(n)}:
                SWEPT.append(Case(ELEMENTWISE, program, 8, f"{name}-{str(dtype)[6:]}"))

# what only ATen-IR has ------------------------------------------------------------------------------------------------

aten = torch.ops.aten
for dtype in (f32, bf16, i64, boolean):
    case("zeros", aten.zeros.default, [2, 3], dtype=dtype)
    case("ones", aten.ones.default, [3, 0, 2], dtype=dtype)
    case("full", aten.full.default, [2], 1, dtype=dtype)
    case("new_zeros", aten.new_zeros.default, x(2, 3, dtype=dtype), [4])
    case("new_ones", aten.new_ones.default, x(2, dtype=dtype), [])
    case("new_full", aten.new_full.default, x(2, dtype=dtype), [2, 2], True)
    case("zeros_like", aten.zeros_like.default, x(2, 3, dtype=dtype))
    case("ones_like", aten.ones_like.default, x(0, 3, dtype=dtype))
    case("full_like", aten.full_like.default, x(2, 3, dtype=dtype), 1)
    case("fill", aten.fill.Scalar, x(2, 3, dtype=dtype), 1)
    case("fill", aten.fill.Tensor, x(2, 3, dtype=dtype), x())
case("full", aten.full.default, [2, 2], -0.0)
case("full", torch.full, (2, 3), math.inf)
case("zeros", torch.zeros, (2, 3))
case("zeros_like", aten.zeros_like.default, x(2, 3), dtype=f16)
case("new_zeros", aten.new_zeros.default, x(2, 3), [1], dtype=i64)
for number in (0.0, -2, 3, True):
    case("number_as_tensor", aten.scalar_tensor.default, number, dtype=f32)
case("number_as_tensor", torch.scalar_tensor, 2, dtype=i64)
case("sym_size", aten.sym_size.int, x(2, 3), -1)
case("sym_size", aten.sym_size.int, x(0, 3), 0)
case("sym_numel", aten.sym_numel.default, x(2, 3, 4))
case("sym_numel", aten.sym_numel.default, x())
for target, *given in (
    (aten.zeros.default, [100, 100]), (aten.ones.default, [100, 100]), (aten.full.default, [100, 100], 2.5), (aten.zeros_like.default, x(30, 40)),
    (aten.ones_like.default, x(30, 40)), (aten.fill.Scalar, x(30, 40), 2), (aten.fill.Tensor, x(30, 40), x()), (aten.full_like.default, x(30, 40), -1), (aten.new_zeros.default, x(2), [30, 40]),
    (aten.new_ones.default, x(2), [30, 40]), (aten.new_full.default, x(2), [30, 40], 7), (aten.sym_size.int, x(30, 40), 1),
    (aten.sym_numel.default, x(30, 40)), (aten.alias.default, x(30, 40)), (aten.mT.default, x(5, 30, 8)),
    (aten.split_with_sizes.default, x(60, 20), [11, 0, 49], 0), ("dim", x(30, 40)), ("size", x(30, 40), 1), ("clone", x(30, 40)),
    ("contiguous", x(30, 40, layout="transposed")), ("detach", x(30, 40)), ("type_as", x(30, 40), x(1, dtype=f64)), ("t", x(30, 40)),
    ("squeeze", x(30, 1, 40), 1), ("expand", x(30, 1), 30, 40), ("expand_as", x(40), x(30, 40)), ("view_as", x(30, 40), x(40, 30)),
    ("reshape_as", x(30, 40, layout="transposed"), x(20, 60)),
):  # fmt: skip
    name = target if isinstance(target, str) else target.name().removeprefix("aten::").partition(".")[0]
    case(name, target, *given, note="many elements")
for numbers in ([2, 3, -5], [7], []):
    case("sym_sum", torch.sym_sum, numbers)
for one, other in ((2, 3), (3, 2), (-1, -1), (0, -4)):
    case("sym_max", torch.sym_max, one, other)
    case("sym_min", torch.sym_min, one, other)
unmodelled("sym_sum", "numbers that are no integers", torch.sym_sum, [2, 0.5])
unmodelled("sym_max", "numbers that are no integers", torch.sym_max, 2, 0.5)
refused("new_zeros", aten.new_zeros.default, x(2), [-1])
refused("full", aten.full.default, [2, -3], 1)

for layout in LAYOUTS:
    for at in (0, 2, -1, -3):
        case("select_backward", aten.select_backward.default, x(2, 4, layout=layout), [2, 3, 4], 1, at)
        case("select_backward", aten.select_backward.default, x(3, 4, layout=layout), [3, 4, 3], -1, at)
    for start, end, step in ((0, 3, 1), (1, 9, 2), (-4, -1, 1), (2, 5, 3), (3, 3, 1), (-9, 9, 1), (None, None, 2)):
        length = len(range(*slice(start, end, step).indices(5)))
        case(
            "slice_backward", aten.slice_backward.default, x(2, length, layout=layout), [2, 5], 1, start or 0, 2**63 - 1 if end is None else end, step
        )
case("slice_backward", aten.slice_backward.default, x(0, 3), [0, 3], 0, 0, 9, 1)
case("slice_backward", aten.slice_backward.default, x(2, dtype=bf16), [4], -1, 2, 4, 1)
refused("select_backward", aten.select_backward.default, x(2, 4), [2, 3, 4], 1, 3)
refused("select_backward", aten.select_backward.default, x(2, 4), [2, 3, 4], 3, 0)
refused("slice_backward", aten.slice_backward.default, x(2, 3), [2, 5], 1, 0, 2, 1)


def normalised_rows(given: Input, over: tuple[int, ...], weight: bool, bias: bool, mask: list[bool]) -> None:
    """A layer norm and its gradients, by its own statistics."""
    wide = Input("g", given.shape, given.dtype, False, given.layout)
    inputs = [
        Input("a", given.shape, given.dtype, False, given.layout),
        wide,
        Input("v", over, given.dtype, False),
        Input("w", over, given.dtype, False),
    ]
    affine = v if weight else None, w if bias else None
    forward = s("r", aten.native_layer_norm.default, a, over, *affine, 1e-3)
    taken = [s(name, operator.getitem, Var("r"), k) for name, k in (("m", 1), ("d", 2))]
    back = s("z", aten.native_layer_norm_backward.default, Var("g"), a, over, Var("m"), Var("d"), *affine, mask)
    parts = [s(f"z{k}", operator.getitem, Var("z"), k) for k in range(3)]
    kept = " ".join(f"z{k}" for k in range(3) if mask[k])
    steps("native_layer_norm_backward", inputs, forward, *taken, back, *parts, outputs=kept, ulps=512)


for layout in LAYOUTS:
    for over in ((4,), (3, 4), (2, 3, 4)):
        normalised_rows(x(2, 3, 4, layout=layout, dtype=f64), over, True, True, [True, True, True])
        normalised_rows(x(2, 3, 4, layout=layout, dtype=f64), over, True, False, [True, True, False])
    normalised_rows(x(2, 3, 4, layout=layout, dtype=f64), (4,), False, False, [True, False, False])
    normalised_rows(x(2, 3, 4, layout=layout, dtype=f64), (3, 4), True, True, [False, False, True])

# writes ---------------------------------------------------------------------------------------------------------------

WRITE = "write"
A, B = Input("a", (3, 4)), Input("b", (3, 4))
VIEWS: dict[str, tuple[Step, ...]] = {
    "itself": (s("v", torch.ops.aten.alias.default, a),),
    "slice": (s("v", operator.getitem, a, (slice(None), slice(1, 3))),),
    "steps": (s("v", operator.getitem, a, (slice(1, None, 2), slice(None, None, 3))),),
    "row": (s("v", "select", a, 0, -1),),
    "column": (s("v", operator.getitem, a, (Ellipsis, 2)),),
    "transposed": (s("v", "t", a),),
    "flat": (s("v", "view", a, -1),),
    "other shape": (s("v", "view", a, 2, 6),),
    "folded": (s("v", "unflatten", a, 1, (2, 2)),),
    "unsqueezed": (s("v", "unsqueeze", a, 1),),
    "squeezed": (s("w", "unsqueeze", a, 0), s("v", "squeeze", Var("w"), 0)),
    "detached": (s("v", "detach", a),),
    "piece": (s("w", torch.split, a, [1, 3], dim=1), s("v", operator.getitem, w, 1)),
    "chunk of a view": (s("w", "transpose", a, 0, 1), s("u", torch.chunk, w, 2), s("v", operator.getitem, Var("u"), 1)),
    "unbound": (s("w", torch.unbind, a, 1), s("v", operator.getitem, w, 3)),
    "narrowed": (s("v", "narrow", a, 0, 1, 2),),
    "view of a view": (s("w", operator.getitem, a, slice(1, 3)), s("u", "permute", w, 1, 0), s("v", operator.getitem, Var("u"), slice(0, None, 2))),
}
WRITES: dict[str, tuple[Step, ...]] = {
    "add_": (s("r", "add_", v, 1.5),),
    "mul_ by itself": (s("r", "mul_", v, v),),
    "mul_": (s("u2", torch.mul, v, 2), s("r", "mul_", v, Var("u2"), )),
    "iadd": (s("r", operator.iadd, v, 2),),
    "zero_": (s("r", "zero_", v),),
    "fill_": (s("r", "fill_", v, -0.0),),
    "copy_": (s("u2", torch.add, v, 1), s("r", "copy_", v, Var("u2"))),
    "copy_ of a scalar": (s("u2", operator.getitem, b, (0, 0)), s("r", "copy_", v, Var("u2"))),
    "relu_": (s("r", torch.relu_, v),),
    "setitem number": (s("r", operator.setitem, v, 0, 3.0),),
    "setitem all": (s("r", operator.setitem, v, Ellipsis, 1),),
    "setitem tensor": (s("u1", operator.getitem, v, slice(0, 1)), s("u2", torch.neg, Var("u1")), s("r", operator.setitem, v, slice(0, 1), Var("u2"))),
}  # fmt: skip
for (seen_as, cut), (how, write) in product(VIEWS.items(), WRITES.items()):
    CASES.append(
        Case(
            WRITE,
            Program((A, B), (*cut, *write, s("z", torch.add, a, 1), s("y", torch.mul, v, 2)), ("a", "v", "z", "y")),
            0,
            f"{how} through {seen_as}",
        )
    )
steps(WRITE, [A, B], s("v", torch.add, a, b, out=b), s("w", torch.mul, b, 2), outputs="v w")
steps(WRITE, [A, B], s("v", torch.relu, a), s("w", "copy_", a, b), s("c", torch.add, v, a), outputs="v w c")
steps(WRITE, [A, Input("b", (4,), f16)], s("v", "copy_", a, b), s("w", "add_", a, b), outputs="v w")
steps(WRITE, [Input("a", (3, 4), i64), Input("b", (4,), i32)], s("v", "copy_", a, b), s("w", "add_", a, b), s("c", "fill_", a, 2), outputs="v")
steps(WRITE, [A, Input("b", (1, 1, 4))], s("v", operator.setitem, a, slice(1, 3), b), s("w", F.relu, a, inplace=True), outputs="w a")
steps(
    WRITE,
    [A],
    Region("no_grad", (s("v", "t", a), s("w", "add_", v, 1), s("c", operator.setitem, a, 0, 2.0))),
    s("r", torch.neg, a),
    outputs="a v w r",
)

REFUSED_WRITES = (
    (s("r", "add_", a, b),),
    (s("r", "copy_", a, b),),
    (s("r", operator.setitem, a, slice(0, 2), b),),
    (s("r", operator.setitem, a, 3, 1.0),),
)
for write in REFUSED_WRITES:
    REFUSED.append(Case(WRITE, Program((Input("a", (3, 4), requires_grad=False), Input("b", (2, 5), requires_grad=False)), write, ("a",))))
REFUSED.append(
    Case(WRITE, Program((Input("a", (1, 4), requires_grad=False), Input("b", (2, 4), requires_grad=False)), (s("r", "mul_", a, b),), ("a",)))
)

UNMODELLED_WRITES = (
    ("eager may refuse it or read what it has written", (s("v", "t", a), s("r", "add_", a, v))),
    ("eager may refuse it or read what it has written", (s("v", operator.getitem, a, slice(0, 2)), s("r", operator.setitem, a, slice(1, 3), v))),
    ("eager refuses it, fakes do not", (s("v", "expand", a, 2, 3, 3), s("r", "add_", v, 1))),
    ("the random numbers of an operator in place", (s("r", "bernoulli_", a, 0.5),)),
    ("the shape of a tensor changes", (s("r", "t_", a),)),
    ("the shape of a tensor changes", (s("r", "unsqueeze_", a, 0),)),
    ("the flags of a tensor change", (s("r", "detach_", a),)),
    ("which elements, only the contents of another tensor say", (s("v", torch.gt, a, 0), s("r", operator.setitem, a, v, 1.0))),
)
for reason, body in UNMODELLED_WRITES:
    UNMODELLED.append((Case(WRITE, Program((Input("a", (3, 3), requires_grad=False),), body, ("a",))), reason))
UNMODELLED.append(
    (
        Case(WRITE, Program((Input("a", (3, 3), requires_grad=False, layout="expanded"),), (s("r", "add_", a, 1),), ("a",))),
        "eager refuses it, fakes do not",
    )
)
