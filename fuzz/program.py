"""A program as data: it runs, it prints as Python that can be pasted, and it becomes a captured graph without Dynamo."""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, GraphModule, Node

from fuzz.fakes import BARE, Remembered, RememberingMode, quiet
from optimus.modes import modes_restored
from optimus.values import leaves
from optimus.versions import graph_module


@dataclass(frozen=True)
class Var:
    """A value of the program by name."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Step:
    """``name = target(*args, **kwargs)``: a function, or a method by its name."""

    name: str
    target: Callable[..., Any] | str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def used(self) -> list[str]:
        """The names it reads."""
        found: list[str] = []
        _walk((self.args, tuple(v for _, v in self.kwargs)), found)
        return found


@dataclass(frozen=True)
class Region:
    """``with mode:`` around ``steps``. Modes: ``no_grad``, ``enable_grad``, ``autocast``."""

    mode: str
    steps: tuple[Step, ...]


AUTOCAST = ("cpu", torch.bfloat16, True, None)
"""With what Dynamo enters the region called ``autocast``."""

Body = tuple[Step | Region, ...]

LAYOUTS = ("contiguous", "transposed", "strided", "expanded")


@dataclass(frozen=True)
class Input:
    """An input tensor.

    ``layout``: row-major, with the last two dimensions exchanged in memory, every other element of a larger tensor, or
    the first dimension repeated with stride 0. ``special``: mixed with zeros of both signs, NaN, infinities and tiny values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    requires_grad: bool = True
    layout: str = "contiguous"
    special: bool = False
    seed: int = 0

    def make(self) -> torch.Tensor:
        """The tensor, the same at each call."""
        if self.layout == "transposed" and len(self.shape) >= 2:
            made = self._values((*self.shape[:-2], self.shape[-1], self.shape[-2])).transpose(-1, -2)
        elif self.layout == "strided" and self.shape:
            made = self._values((*self.shape[:-1], 2 * self.shape[-1]))[..., ::2]
        elif self.layout == "expanded" and self.shape:
            made = self._values((1, *self.shape[1:])).expand(self.shape)
        else:
            made = self._values(self.shape)
        return made.detach().requires_grad_(self.requires_grad and (self.dtype.is_floating_point or self.dtype.is_complex))

    def _values(self, shape: tuple[int, ...]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        if self.dtype.is_complex:
            return torch.complex(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)).to(self.dtype)
        if not self.dtype.is_floating_point:
            return torch.randint(0 if self.dtype is torch.bool else -4, 5, shape, generator=generator).to(self.dtype)
        values = torch.randn(shape, generator=generator)
        if self.special and values.numel():
            info = torch.finfo(self.dtype)
            odd = torch.tensor([0.0, -0.0, float("nan"), float("inf"), float("-inf"), info.tiny, -info.max, 1.0], dtype=torch.float64)
            pick = torch.randint(0, 3 * len(odd), shape, generator=generator)
            values = torch.where(pick < len(odd), odd[pick % len(odd)], values.double())
        return values.to(self.dtype)

    def fake(self, remembered: Remembered) -> FakeTensor:
        """A fake of the tensor."""
        made = _sample(replace(self, name="x", special=False, seed=0))
        return remembered.leaf(tuple(made.shape), made.stride(), made.dtype, made.requires_grad)

    def source(self) -> str:
        """An expression that makes the tensor."""
        parts = [repr(self.name), repr(self.shape), str(self.dtype)]
        parts += [f"{k}={v!r}" for k, v, default in self._options() if v != default]
        return f"Input({', '.join(parts)}).make()"

    def _options(self) -> list[tuple[str, Any, Any]]:
        return [
            ("requires_grad", self.requires_grad, True),
            ("layout", self.layout, "contiguous"),
            ("special", self.special, False),
            ("seed", self.seed, 0),
        ]


@functools.lru_cache(maxsize=10_000)
def _sample(given: Input) -> torch.Tensor:
    return given.make()


@dataclass(frozen=True)
class Program:
    """Inputs, steps, and the names of what it returns. ``origin``: the case it grew from, if any.

    ``bare``: the values of which its graph says nothing, as graphs that were not captured by Dynamo may.
    """

    inputs: tuple[Input, ...]
    body: Body
    outputs: tuple[str, ...]
    origin: str = field(default="", compare=False)
    bare: frozenset[str] = frozenset()

    def make_inputs(self) -> list[torch.Tensor]:
        """Fresh input tensors."""
        return [i.make() for i in self.inputs]

    def steps(self) -> list[Step]:
        """All steps, those inside regions too."""
        return [s for item in self.body for s in (item.steps if isinstance(item, Region) else (item,))]

    def size(self) -> int:
        """The number of steps."""
        return len(self.steps())

    def source(self, name: str = "program") -> str:
        """The program as a Python function."""
        lines = [f"def {name}({', '.join(i.name for i in self.inputs)}):"]
        for item in self.body:
            if isinstance(item, Region):
                lines.append(f"    with {MODES[item.mode][0]}:")
                lines += [f"        {_line(s)}" for s in item.steps] or ["        pass"]
            else:
                lines.append(f"    {_line(item)}")
        lines.append(f"    return ({', '.join(self.outputs)},)")
        return "\n".join(lines)

    def __str__(self) -> str:
        inputs = "\n".join(f"{i.name} = {i.source()}" for i in self.inputs)
        bare = f"\n\nwithout metadata: {', '.join(sorted(self.bare))}" if self.bare else ""
        return f"{self.source()}\n\n{inputs}{bare}"

    def function(self) -> Callable[..., Any]:
        """The program as a callable."""
        namespace: dict[str, Any] = {"torch": torch}
        exec(compile(self.source(), "<program>", "exec"), namespace)
        found: Callable[..., Any] = namespace["program"]
        return found

    def graph(self, *, marked: bool = False) -> GraphModule:
        """What Dynamo would capture, with metadata; that of ``bare`` values only if they are ``marked``. Raises what the program raises on fakes."""
        with modes_restored(), quiet():
            return _Builder(self, marked).build()

    def keep_needed(self) -> Program:
        """The program without steps that nothing returned or written depends on, and without inputs no step reads."""
        return _prune(self)


MODES: dict[str, tuple[str, Callable[[], Any]]] = {
    "no_grad": ("torch.no_grad()", torch.no_grad),
    "enable_grad": ("torch.enable_grad()", torch.enable_grad),
    "autocast": ('torch.autocast("cpu", dtype=torch.bfloat16)', lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
}

INFIX: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.matmul: "@",
    operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=",
}  # fmt: skip


def writes(step: Step) -> str | None:
    """The name whose tensor a step changes in place, if any."""
    if isinstance(step.target, str) and step.target.endswith("_") and not step.target.endswith("__"):
        return _name(step.args[0])
    if step.target in (operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv):
        return _name(step.args[0])
    keywords = dict(step.kwargs)
    if "out" in keywords:
        return _name(keywords["out"])
    return _name(step.args[0]) if keywords.get("inplace") else None


def _name(given: Any) -> str | None:
    return given.name if isinstance(given, Var) else None


def _walk(given: Any, found: list[str]) -> None:
    if isinstance(given, Var):
        found.append(given.name)
    elif isinstance(given, (list, tuple)):
        for item in given:
            _walk(item, found)
    elif isinstance(given, slice):
        _walk((given.start, given.stop, given.step), found)


def substitute(given: Any, change: Callable[[Var], Any]) -> Any:
    """``given`` with every variable changed."""
    if isinstance(given, Var):
        return change(given)
    if isinstance(given, (list, tuple)):
        return type(given)(substitute(g, change) for g in given)
    if isinstance(given, slice):
        return slice(*(substitute(g, change) for g in (given.start, given.stop, given.step)))
    return given


# ------------------------------------------------------------------------------------------------------------ printing


def _line(step: Step) -> str:
    keywords = "".join(f", {k}={_text(v)}" for k, v in step.kwargs)
    if step.target is operator.setitem:
        target, index, new = step.args
        return f"{_text(target)}[{_index(index)}] = {_text(new)}"
    if step.target is operator.getitem:
        return f"{step.name} = {_text(step.args[0])}[{_index(step.args[1])}]"
    if step.target in INFIX:
        sign = INFIX[step.target]
        if sign.endswith("="):
            return f"{_text(step.args[0])} {sign} {_text(step.args[1])}; {step.name} = {_text(step.args[0])}"
        return f"{step.name} = {_text(step.args[0])} {sign} {_text(step.args[1])}"
    if isinstance(step.target, str):
        return f"{step.name} = {_text(step.args[0])}.{step.target}({', '.join(map(_text, step.args[1:]))}{keywords if len(step.args) > 1 else keywords[2:]})"
    return f"{step.name} = {qualified(step.target)}({', '.join(map(_text, step.args))}{keywords if step.args else keywords[2:]})"


def qualified(target: Callable[..., Any]) -> str:
    """How to write a function of PyTorch."""
    name = target.__name__
    for owner, prefix in ((torch, "torch"), (torch.nn.functional, "torch.nn.functional"), (operator, "operator")):
        if getattr(owner, name, None) is target:
            return f"{prefix}.{name}"
    return f"{target.__module__}.{name}"


def _text(given: Any) -> str:
    if isinstance(given, (list, tuple)):
        inside = ", ".join(map(_text, given))
        return f"[{inside}]" if isinstance(given, list) else f"({inside}{',' if len(given) == 1 else ''})"
    if isinstance(given, slice):
        return _index(given)
    if isinstance(given, float) and given != given:
        return 'float("nan")'
    return repr(given) if not isinstance(given, torch.memory_format) else str(given)


def _index(given: Any) -> str:
    if isinstance(given, tuple):
        return ", ".join(map(_index, given)) + ("," if len(given) == 1 else "")
    if isinstance(given, slice):
        ends = [("" if e is None else _text(e)) for e in (given.start, given.stop)]
        return ":".join(ends if given.step is None else [*ends, _text(given.step)])
    return "..." if given is Ellipsis else _text(given)


# ------------------------------------------------------------------------------------------------------------ building


class _Builder:
    def __init__(self, program: Program, marked: bool = False) -> None:
        self.program = program
        self.marked = marked
        self.remembered = Remembered(FakeTensorMode(allow_non_fake_inputs=False))
        self.graph = Graph()
        self.nodes: dict[str, Node] = {}
        self.fakes: dict[str, Any] = {}

    def build(self) -> GraphModule:
        for spec in self.program.inputs:
            node = self.graph.placeholder(spec.name)
            self._note(spec.name, node, spec.fake(self.remembered))
        with self.remembered.fake_mode, RememberingMode(self.remembered):
            self._run()
        self.graph.output(tuple(self.nodes[name] for name in self.program.outputs))
        return graph_module(torch.nn.Module(), self.graph)

    def _run(self) -> None:
        for item in self.program.body:
            if isinstance(item, Region):
                with self._region(item.mode):
                    for step in item.steps:
                        self._step(step)
            else:
                self._step(item)

    def _step(self, step: Step) -> None:
        args = substitute(step.args, lambda v: self.nodes[v.name])
        kwargs = {k: substitute(a, lambda v: self.nodes[v.name]) for k, a in step.kwargs}
        target: Any = step.target
        node = self.graph.create_node("call_method" if isinstance(target, str) else "call_function", target, args, kwargs)
        fakes = substitute(step.args, lambda v: self.fakes[v.name])
        fake_kwargs = {k: substitute(a, lambda v: self.fakes[v.name]) for k, a in step.kwargs}
        found = getattr(fakes[0], target)(*fakes[1:], **fake_kwargs) if isinstance(target, str) else target(*fakes, **fake_kwargs)
        self._note(step.name, node, found)

    def _note(self, name: str, node: Node, fake: Any) -> None:
        self.nodes[name], self.fakes[name] = node, fake
        if self.marked or name not in self.program.bare:
            node.meta["example_value"] = fake
        if self.marked and name in self.program.bare:
            node.meta[BARE] = True

    @contextlib.contextmanager
    def _region(self, mode: str) -> Iterator[None]:
        if mode == "autocast":
            entered = self.graph.call_function(_enter_autocast, AUTOCAST)
            with MODES[mode][1]():
                yield
            self.graph.call_function(_exit_autocast, (entered,))
            return
        before = torch.is_grad_enabled()
        self.graph.call_function(torch._C._set_grad_enabled, (mode == "enable_grad",))
        with MODES[mode][1]():
            yield
        self.graph.call_function(torch._C._set_grad_enabled, (before,))


def run_steps(program: Program, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Every value of the program on real inputs. Raises what it raises."""
    with warnings.catch_warnings(), modes_restored():
        warnings.simplefilter("ignore")
        return _run_steps(program, inputs)


def _run_steps(program: Program, inputs: list[torch.Tensor]) -> dict[str, Any]:
    values: dict[str, Any] = {i.name: t for i, t in zip(program.inputs, inputs, strict=True)}

    def run(step: Step) -> None:
        args = substitute(step.args, lambda v: values[v.name])
        kwargs = {k: substitute(a, lambda v: values[v.name]) for k, a in step.kwargs}
        target: Any = step.target
        values[step.name] = getattr(args[0], target)(*args[1:], **kwargs) if isinstance(target, str) else target(*args, **kwargs)

    for item in program.body:
        if isinstance(item, Region):
            with MODES[item.mode][1]():
                for step in item.steps:
                    run(step)
        else:
            run(item)
    return values


def _prune(program: Program) -> Program:
    wanted = set(program.outputs)
    body: list[Step | Region] = []
    for item in reversed(program.body):
        inside = item.steps if isinstance(item, Region) else (item,)
        kept: list[Step] = []
        for step in reversed(inside):
            if step.name in wanted or writes(step) is not None:
                wanted.update(step.used())
                kept.append(step)
        if isinstance(item, Region):
            if kept:
                body.append(replace(item, steps=tuple(reversed(kept))))
        else:
            body += kept
    inputs = tuple(i for i in program.inputs if i.name in wanted)
    return replace(program, inputs=inputs, body=tuple(reversed(body)))


def tensor_names(values: dict[str, Any]) -> list[str]:
    """The names that hold one tensor."""
    return [name for name, found in values.items() if isinstance(found, torch.Tensor) and list(leaves(found))]
