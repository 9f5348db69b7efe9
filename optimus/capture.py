"""Torch-IR graphs of Python programs, through Dynamo, with plain or symbolic sizes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch.fx import GraphModule

from optimus.modes import modes_restored
from optimus.pattern import DTYPES, Case
from optimus.values import is_static, size_key, value
from optimus.versions import without_guard_profiles

SAMPLE_SIZES = (5, 3, 7, 4, 9, 6, 8, 11, 10, 13)
"""Sizes given to symbols while capturing: different, so that nothing is taken for equal that is not."""


@dataclass(frozen=True)
class Captured:
    """One graph that Dynamo made, with the inputs it was traced on."""

    gm: GraphModule
    inputs: tuple[Any, ...]


class CaptureError(ValueError):
    """A program that cannot be captured; the message says why."""


def capture(program: Callable[..., Any], inputs: Sequence[Any], *, dynamic: bool = False) -> list[Captured]:
    """The graphs that Dynamo makes of ``program(*inputs)``: one, or several where it breaks the graph.

    ``dynamic``: every size of every input, and every integer, is a symbol of its own. The program runs once, in eager; modes that
    it leaves changed are put back. Raises whatever the program raises.
    """
    found: list[Captured] = []

    def keep(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        found.append(Captured(gm, tuple(example_inputs)))
        return gm.forward

    with _fresh_dynamo(), without_guard_profiles(), modes_restored():
        torch.compile(program, backend=keep, dynamic=dynamic)(*inputs)
    return found


@contextlib.contextmanager
def _fresh_dynamo() -> Iterator[None]:
    import torch.fx.experimental._config as shape_config

    torch._dynamo.reset()
    sizes = torch._dynamo.config.patch(specialize_int=False)
    apart = shape_config.patch(use_duck_shape=False)  # type: ignore[attr-defined]
    try:
        with sizes, apart:
            yield
    finally:
        torch._dynamo.reset()


def capture_case(case: Case, fixed: Mapping[str, int] | None = None) -> GraphModule:
    """The graph of ``case`` with every size symbolic, and the relations between its sizes as guards.

    ``fixed``: sizes of 0 or 1 by name, of which Dynamo makes plain numbers; those that are arguments become literals of the
    program. Raises :class:`CaptureError` if the program breaks the graph or makes none, or if a size of ``fixed`` stays a
    symbol, and whatever the program raises.
    """
    fixed = fixed or {}
    tensors, sizes = example(case, {**sample_sizes(case), **fixed})
    free = [size for name, size in sizes.items() if name not in fixed]
    found = capture(_with_relations(case, fixed), [*tensors, *free], dynamic=True)
    if len(found) != 1:
        raise CaptureError(f"case {case.name}: Dynamo made {len(found)} graphs; accepted is a program that makes one")
    _name_inputs(case, found[0].gm, fixed)
    loose = sorted(set(fixed) & set(size_symbols(case, found[0].gm).values()))
    if loose:
        raise CaptureError(f"case {case.name}: the size {loose[0]} stays a symbol; accepted sizes to fix are 0 and 1")
    return found[0].gm


ARGUMENT = "optimus_argument"
"""Metadata of a placeholder of a captured case: the position of the argument of the program that it holds."""


def _name_inputs(case: Case, gm: GraphModule, fixed: Collection[str]) -> None:
    """Call the inputs what the program calls them. ``fixed``: the arguments that are none."""
    called = _argument_names(case)
    given = [k for k, name in enumerate(called) if k < len(case.shapes) or name not in fixed]
    for node in gm.graph.find_nodes(op="placeholder"):
        digits = [part for part in node.name.split("_") if part.isdigit()]
        if node.name.startswith("l_args_") and digits:
            position = given[int(digits[0])]
            node.meta[ARGUMENT] = position
            node._rename(called[position])
            node.target = node.name
    gm.recompile()


def _argument_names(case: Case) -> list[str]:
    found: list[str] = []
    for parameter in inspect.signature(case.program).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}{k}" for k in range(len(case.shapes) - len(found))]
        else:
            found.append(parameter.name)
    return found


def size_symbols(case: Case, gm: GraphModule) -> dict[str, str]:
    """The symbols of a captured case by what the case calls them: ``{"s77": "n"}``."""
    found: dict[str, str] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        position, what = node.meta.get(ARGUMENT), value(node)
        if position is None:
            continue
        if isinstance(what, torch.Tensor):
            texts = [t.strip() for t in case.shapes[position].partition(":")[0].split(",")]
            found.update({str(size_key(e)): t for e, t in zip(what.shape, texts, strict=False) if not is_static(e) and t.isidentifier()})
        elif not is_static(what):
            found[str(size_key(what))] = case.sizes[position - len(case.shapes)]
    return found


def sample_sizes(case: Case) -> dict[str, int]:
    """Different sizes for the names of ``case``."""
    return dict(zip(names(case), SAMPLE_SIZES, strict=False))


def names(case: Case) -> list[str]:
    """The size names of ``case``, in order of appearance."""
    found: dict[str, None] = {}
    for dims in map(_dims, case.shapes):
        for code in dims:
            found.update(dict.fromkeys(code.co_names))
    found.update(dict.fromkeys(case.sizes))
    return list(found)


def example(case: Case, sizes: Mapping[str, int], seed: int = 0) -> tuple[list[torch.Tensor], dict[str, int]]:
    """Random tensors of the shapes of ``case`` for given ``sizes``, and the sizes that are arguments by name."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [_tensor(text, sizes, case.grad, generator) for text in case.shapes]
    return tensors, {name: sizes[name] for name in case.sizes}


def call(case: Case, tensors: Sequence[Any], sizes: Mapping[str, Any]) -> Any:
    """The program of ``case`` on ``tensors`` and ``sizes``."""
    return case.program(*tensors, **sizes)


def shape_of(text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents that a shape text such as ``"n, p + q"`` means."""
    return tuple(int(eval(code, {"__builtins__": {}}, dict(sizes))) for code in _dims(text))  # noqa: S307 - a pattern's own text


def dtype_of(text: str) -> torch.dtype:
    """The dtype that a shape text asks for; ``float32`` where it names none."""
    name = text.partition(":")[2].strip() or "float32"
    if name not in DTYPES:
        raise ValueError(f"shape {text!r}: unknown dtype {name!r}; accepted are {', '.join(DTYPES)}")
    return DTYPES[name]


def _dims(text: str) -> list[Any]:
    shape = text.partition(":")[0].strip()
    return [compile(part.strip(), "shape", "eval") for part in shape.split(",")] if shape else []


def _tensor(text: str, sizes: Mapping[str, int], grad: bool, generator: torch.Generator) -> torch.Tensor:
    shape, dtype = shape_of(text, sizes), dtype_of(text)
    if not dtype.is_floating_point:
        return torch.randint(-3, 4, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad)


def _with_relations(case: Case, fixed: Mapping[str, int]) -> Callable[..., Any]:
    """The program, preceded by checks that its sizes are related as its shapes say; Dynamo turns them into guards.

    It takes the tensors, then the sizes that are arguments, but for those that are ``fixed``.
    """
    count = len(case.shapes)
    given = {name: int(fixed[name]) for name in case.sizes if name in fixed}
    literals = eval(f"lambda: {given!r}")  # noqa: S307 - literals in the code of a function stay numbers, variables become symbols
    free = [name for name in case.sizes if name not in fixed]
    bare: dict[str, tuple[int, int]] = {}
    related: list[tuple[int, int, Callable[..., Any], tuple[str, ...]]] = []
    for t, codes in enumerate(map(_dims, case.shapes)):
        for d, code in enumerate(codes):
            source = case.shapes[t].partition(":")[0].split(",")[d].strip()
            if source.isidentifier() and source not in case.sizes and source not in bare:
                bare[source] = (t, d)
            else:
                names = code.co_names
                related.append((t, d, eval(f"lambda {', '.join(names)}: {source}"), names))  # noqa: S307 - a number alone makes one of the extent

    def program(*args: Any) -> Any:
        tensors, sizes = args[:count], {**literals(), **dict(zip(free, args[count:], strict=True))}
        known = {**sizes, **{name: tensors[t].shape[d] for name, (t, d) in bare.items()}}
        for t, d, formula, names in related:
            if tensors[t].shape[d] != formula(*[known[n] for n in names]):
                raise AssertionError("sizes are not related as the case says")
        return case.program(*tensors, **sizes)

    return program
