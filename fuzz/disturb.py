"""Changes to a program that a sound pattern must survive: other spellings, orders, users, mutations, regions, inputs."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from fuzz.program import LAYOUTS, Body, Input, Program, Region, Step, Var, run_steps, substitute, tensor_names

Disturbance = Callable[[st.DrawFn, Program], Program | None]


def runs(program: Program) -> bool:
    """Whether eager runs the program, and it returns something."""
    if not program.outputs:
        return False
    try:
        values = run_steps(program, program.make_inputs())
    except Exception:  # noqa: BLE001 - whatever eager refuses
        return False
    return all(isinstance(values.get(name), torch.Tensor) for name in program.outputs)


def _values(program: Program) -> dict[str, Any]:
    return run_steps(program, program.make_inputs())


def _pick(draw: st.DrawFn, items: Sequence[Any]) -> Any:
    return draw(st.sampled_from(list(items)))


def _fresh(program: Program) -> str:
    taken = {s.name for s in program.steps()} | {i.name for i in program.inputs}
    return next(f"d{k}" for k in range(1000) if f"d{k}" not in taken)


def _map_steps(program: Program, change: Callable[[Step], Step]) -> Program:
    body: list[Step | Region] = []
    for item in program.body:
        body.append(replace(item, steps=tuple(map(change, item.steps))) if isinstance(item, Region) else change(item))
    return replace(program, body=tuple(body))


def _swap_step(program: Program, old: Step, new: Step) -> Program:
    return _map_steps(program, lambda s: new if s is old else s)


def _insert(program: Program, after: str | None, steps: Sequence[Step], rename: dict[str, str] | None = None) -> Program:
    """``steps`` behind the definition of ``after`` (None: at the start); later uses renamed."""
    changed = rename or {}
    done = after is None or any(i.name == after for i in program.inputs)
    body: list[Step | Region] = list(steps) if done else []

    def renamed(s: Step) -> Step:
        def change(v: Var) -> Var:
            return Var(changed.get(v.name, v.name))

        return replace(s, args=substitute(s.args, change), kwargs=tuple((k, substitute(v, change)) for k, v in s.kwargs))

    for item in program.body:
        if isinstance(item, Region):
            inside: list[Step] = []
            for s in item.steps:
                inside.append(renamed(s) if done else s)
                if not done and s.name == after:
                    inside += steps
                    done = True
            body.append(replace(item, steps=tuple(inside)))
            continue
        body.append(renamed(item) if done else item)
        if not done and item.name == after:
            body += steps
            done = True
    outputs = tuple(changed.get(o, o) for o in program.outputs)
    return replace(program, body=tuple(body), outputs=outputs)


# ----------------------------------------------------------------------------------------------------------- spellings

CUTS = (torch.split, "split", torch.chunk, "chunk", torch.unbind, "unbind", torch.split_with_sizes, "split_with_sizes")
JOINS = (torch.cat, torch.concat, torch.concatenate, torch.stack)
DIRECTIONS = ((torch.vstack, 0, 2), (torch.hstack, 1, 2), (torch.column_stack, 1, 2), (torch.dstack, 2, 3))
"""Joins that are called by a direction: along which dimension they are ``cat``, of tensors with at least as many dimensions."""


def respell(draw: st.DrawFn, program: Program) -> Program | None:
    """One operator written another way."""
    values = _values(program)
    options = [(s, forms) for s in program.steps() if (forms := spellings(s, values))]
    if not options:
        return None
    step, forms = _pick(draw, options)
    return _swap_step(program, step, _pick(draw, forms))


def spellings(step: Step, values: dict[str, Any]) -> list[Step]:
    """Other ways to write ``step``, given the values of the program."""
    keywords = dict(step.kwargs)
    if step.target in JOINS and step.args and isinstance(step.args[0], (list, tuple)):
        return _join_spellings(step, keywords, values)
    if step.target in (torch.split, "split", torch.unbind, "unbind"):
        return _cut_spellings(step, keywords, values)
    if step.target in (torch.tanh, "tanh") and isinstance(step.args[:1], tuple) and step.args:
        x = step.args[0]
        return [
            replace(step, target="tanh", args=(x,)),
            replace(step, target=torch.tanh, args=(x,)),
            replace(step, target=torch.tanh, args=(), kwargs=(("input", x),)),
        ]
    if step.target is operator.getitem and isinstance(step.args[1], int) and isinstance(values[step.args[0].name], (tuple, list)):
        return [replace(step, args=(step.args[0], step.args[1] - len(values[step.args[0].name])))]
    if step.target is torch.nn.functional.linear and len(step.args) == 3:
        return [replace(step, args=step.args[:2], kwargs=(("bias", step.args[2]),))]
    return []


def _join_spellings(step: Step, keywords: dict[str, Any], values: dict[str, Any]) -> list[Step]:
    inputs = step.args[0]
    dim = step.args[1] if len(step.args) > 1 else keywords.get("dim", keywords.get("axis", 0))
    rank = values[step.name].dim()
    other = dim - rank if dim >= 0 else dim + rank
    targets = [torch.stack] if step.target is torch.stack else [torch.cat, torch.concat, torch.concatenate]
    key = "dim" if step.target is torch.stack else "axis"
    found = [Step(step.name, t, (list(inputs), d)) for t in targets for d in (dim, other)]
    if step.target is not torch.stack:
        found += [Step(step.name, t, (list(inputs),)) for t, along, enough in DIRECTIONS if along in (dim, other) and rank >= enough]
    return [*found, Step(step.name, targets[0], (tuple(inputs),), ((key, other),)), Step(step.name, targets[0], (list(inputs),), (("dim", other),))]


def _cut_spellings(step: Step, keywords: dict[str, Any], values: dict[str, Any]) -> list[Step]:
    x = step.args[0]
    pieces, rank = values[step.name], values[x.name].dim()
    unbinds = step.target in (torch.unbind, "unbind")
    place = 1 if unbinds else 2
    dim = step.args[place] if len(step.args) > place else keywords.get("dim", 0)
    other = dim - rank if dim >= 0 else dim + rank
    if unbinds:
        return [Step(step.name, t, (x, d)) for t in (torch.unbind, "unbind") for d in (dim, other)]
    sizes = [p.shape[dim] for p in pieces]
    found = [Step(step.name, t, (x, list(sizes), d)) for t in (torch.split, "split", torch.split_with_sizes) for d in (dim, other)]
    if sizes and sizes[0] > 0 and all(s == sizes[0] for s in sizes[:-1]) and 0 < sizes[-1] <= sizes[0]:
        found += [Step(step.name, torch.split, (x, sizes[0], other)), Step(step.name, "split", (x, sizes[0]), (("dim", dim),))]
        found += [Step(step.name, torch.chunk, (x, len(sizes), other)), Step(step.name, "chunk", (x, len(sizes)), (("dim", dim),))]
    return found


# ------------------------------------------------------------------------------------------------- joins and dimensions


def rejoin(draw: st.DrawFn, program: Program) -> Program | None:
    """The inputs of a join permuted, one repeated, one left out, or one replaced by another tensor."""
    joins = [s for s in program.steps() if s.target in JOINS and s.args and isinstance(s.args[0], (list, tuple))]
    if not joins:
        return None
    step = _pick(draw, joins)
    inputs = list(step.args[0])
    how = _pick(draw, ("swap", "repeat", "drop", "other"))
    if how == "swap" and len(inputs) > 1:
        k = draw(st.integers(0, len(inputs) - 2))
        inputs[k], inputs[k + 1] = inputs[k + 1], inputs[k]
    elif how == "repeat":
        inputs.insert(draw(st.integers(0, len(inputs))), _pick(draw, inputs))
    elif how == "drop" and len(inputs) > 1:
        inputs.pop(draw(st.integers(0, len(inputs) - 1)))
    elif how == "other":
        earlier = _defined_before(program, step)
        inputs[draw(st.integers(0, len(inputs) - 1))] = Var(_pick(draw, earlier))
    return _swap_step(program, step, replace(step, args=(inputs, *step.args[1:])))


def _defined_before(program: Program, step: Step) -> list[str]:
    names = [i.name for i in program.inputs]
    for s in program.steps():
        if s is step:
            break
        names.append(s.name)
    values = _values(program)
    return [n for n in names if isinstance(values[n], torch.Tensor)]


def join_whole(program: Program, step: Step) -> Program | None:
    """A join of all pieces of a cut reads what the cut gives as it is, in one argument."""
    if step.target not in JOINS or not step.args or not isinstance(step.args[0], (list, tuple)):
        return None
    taken = {s.name: s.args for s in program.steps() if s.target is operator.getitem}
    source = next((taken[i.name][0] for i in step.args[0] if isinstance(i, Var) and i.name in taken), None)
    return None if source is None else _swap_step(program, step, replace(step, args=(source, *step.args[1:])))


def with_empty_vector(program: Program, step: Step) -> Program | None:
    """A ``cat`` of an empty vector more, which it skips whatever the rank of the others."""
    if step.target not in (torch.cat, torch.concat, torch.concatenate) or not step.args or not isinstance(step.args[0], (list, tuple)):
        return None
    new = Input(_fresh(program), (0,))
    joined = _swap_step(program, step, replace(step, args=([*step.args[0], Var(new.name)], *step.args[1:])))
    return replace(joined, inputs=(*joined.inputs, new))


def positions_that_fall(program: Program, step: Step) -> Program | None:
    """A cut at positions that fall: its sections overlap, or are empty."""
    if step.target not in SECTIONED or len(step.args) < 2 or not isinstance(step.args[1], (list, tuple)) or len(step.args[1]) < 2:
        return None
    ends = list(itertools.accumulate(step.args[1][:-1]))
    positions = [ends[0] + 1, *ends[:-1], ends[0] - 1][: len(ends)]
    return _swap_step(program, step, replace(step, target=torch.tensor_split, args=(step.args[0], positions, *step.args[2:])))


def cut_otherwise(program: Program, step: Step) -> Program | None:
    """``split`` into sections of one for ``unbind``, and the other way round: the pieces have a dimension more, or fewer."""
    if step.target in (torch.unbind, "unbind") and step.args:
        dim = step.args[1] if len(step.args) > 1 else dict(step.kwargs).get("dim", 0)
        return _swap_step(program, step, Step(step.name, torch.split, (step.args[0], 1, dim)))
    if step.target in (torch.split, "split") and len(step.args) > 1 and step.args[1] in (1, [1] * len(_values(program)[step.name])):
        dim = step.args[2] if len(step.args) > 2 else dict(step.kwargs).get("dim", 0)
        return _swap_step(program, step, Step(step.name, torch.unbind, (step.args[0], dim)))
    return None


def taken_apart(program: Program, step: Step) -> Program | None:
    """The pieces of a cut taken one by one, by index, ``narrow`` and ``select`` in turn."""
    readers = [s for s in program.steps() if step.name in s.used()]
    if step.target not in CUTS or not step.args or not readers or any(s.target is not operator.getitem for s in readers):
        return None
    x, unbinds = step.args[0], step.target in (torch.unbind, "unbind")
    place = 1 if unbinds else 2
    values = _values(program)
    rank = values[x.name].dim()
    dim = (step.args[place] if len(step.args) > place else dict(step.kwargs).get("dim", 0)) % rank
    pieces = values[step.name]
    ends = [0, *itertools.accumulate(1 if unbinds else p.shape[dim] for p in pieces)]
    body: list[Step | Region] = []
    for item in program.body:
        if not isinstance(item, Step):
            return None
        if item.name == step.name:
            continue
        body.append(_taken(item, x, dim, rank, ends, unbinds) if item in readers else item)
    return replace(program, body=tuple(body))


def _taken(reader: Step, x: Var, dim: int, rank: int, ends: Sequence[int], unbinds: bool) -> Step:
    """The part that ``reader`` takes of a cut of ``x``, without the cut."""
    k = reader.args[1] % (len(ends) - 1)
    start, stop = ends[k], ends[k + 1]
    at = start if unbinds else slice(start or None, stop)
    behind = (Ellipsis, at, *[slice(None)] * (rank - dim - 1))
    by_name = ("select", (x, dim, start)) if unbinds else ("narrow", (x, dim, start, stop - start))
    target, args = ((operator.getitem, (x, (*[slice(None)] * dim, at))), by_name, (operator.getitem, (x, behind)))[k % 3]
    return Step(reader.name, target, args)


def uneven(program: Program, step: Step) -> Program | None:
    """A cut whose first section gives one place to the last."""
    if step.target not in SECTIONED or len(step.args) < 2 or not isinstance(step.args[1], (list, tuple)) or len(step.args[1]) < 2:
        return None
    first, *middle, last = step.args[1]
    return None if first < 1 else _swap_step(program, step, replace(step, args=(step.args[0], [first - 1, *middle, last + 1], *step.args[2:])))


def without_options(program: Program, step: Step) -> Program | None:
    """A call of its first argument alone."""
    if len(step.args) + len(step.kwargs) < 2 or step.target is operator.getitem:
        return None
    changed = _swap_step(program, step, replace(step, args=step.args[:1], kwargs=()))
    return changed if step.args and runs(changed) else None


def with_another_inside(program: Program, step: Step) -> Program | None:
    """A join whose first input is the negative of what it was."""
    if step.target not in JOINS or not step.args or not isinstance(step.args[0], (list, tuple)) or not isinstance(step.args[0][0], Var):
        return None
    new = _fresh(program)
    joined = _swap_step(program, step, replace(step, args=([Var(new), *step.args[0][1:]], *step.args[1:])))
    return _insert(joined, step.args[0][0].name, [Step(new, torch.neg, (step.args[0][0],))])


def of_three_operands(program: Program, step: Step) -> Program | None:
    """An ``einsum`` with its first operand once more."""
    if step.target is not torch.functional.einsum or not isinstance(step.args[0], str):
        return None
    operands, _, result = step.args[0].partition("->")
    given = list(step.args[1]) if isinstance(step.args[1], (list, tuple)) else list(step.args[1:])
    return _swap_step(program, step, replace(step, args=(f"{operands},{operands.partition(',')[0]}->{result}", *given, given[0])))


def _somewhere(change: Callable[[Program, Step], Program | None]) -> Disturbance:
    """``change`` at a drawn step."""

    def disturb(draw: st.DrawFn, program: Program) -> Program | None:
        found = [changed for step in program.steps() if (changed := change(program, step)) is not None]
        return _pick(draw, found) if found else None

    return disturb


def redirect(draw: st.DrawFn, program: Program) -> Program | None:
    """A cut or join along another dimension."""
    found = [s for s in program.steps() if s.target in (*CUTS, *JOINS)]
    if not found:
        return None
    step = _pick(draw, found)
    dim = draw(st.integers(-3, 3))
    place = 1 if step.target in (*JOINS, torch.unbind, "unbind") else 2
    args = (*step.args[:place], dim) if len(step.args) >= place else step.args
    return _swap_step(program, step, replace(step, args=args, kwargs=tuple((k, v) for k, v in step.kwargs if k not in ("dim", "axis"))))


SECTIONED = (torch.split, "split", torch.split_with_sizes, "split_with_sizes", torch.chunk, "chunk")


def recut(draw: st.DrawFn, program: Program) -> Program | None:
    """Other sections: a part moved to another, an empty one put in, one cut in two, or another section size."""
    found = [s for s in program.steps() if s.target in SECTIONED and len(s.args) > 1]
    if not found:
        return None
    step = _pick(draw, found)
    sections = step.args[1]
    if isinstance(sections, int):
        return _swap_step(program, step, replace(step, args=(step.args[0], draw(st.integers(1, sections + 3)), *step.args[2:])))
    sizes = list(sections)
    k = draw(st.integers(0, len(sizes) - 1))
    part = draw(st.integers(0, sizes[k]))
    how = _pick(draw, ("move", "empty", "cut"))
    if how == "move" and len(sizes) > 1:
        sizes[k] -= part
        sizes[k - 1] += part
    elif how == "empty":
        sizes.insert(k, 0)
    else:
        sizes[k : k + 1] = [part, sizes[k] - part]
    return _swap_step(program, step, replace(step, args=(step.args[0], sizes, *step.args[2:])))


# -------------------------------------------------------------------------------------------------------- other readers

READERS: tuple[Callable[[str, Var], Step], ...] = (
    lambda n, v: Step(n, torch.mul, (v, 2)),
    lambda n, v: Step(n, "sum", (v,)),
    lambda n, v: Step(n, "reshape", (v, -1)),
    lambda n, v: Step(n, "view", (v, -1)),
    lambda n, v: Step(n, "detach", (v,)),
    lambda n, v: Step(n, "contiguous", (v,)),
    lambda n, v: Step(n, torch.tanh, (v,)),
    lambda n, v: Step(n, "t", (v,)),
)


def add_user(draw: st.DrawFn, program: Program) -> Program | None:
    """Another reader of some value, returned as well."""
    name = _pick(draw, tensor_names(_values(program)))
    new = _fresh(program)
    step = _pick(draw, READERS)(new, Var(name))
    last = program.steps()[-1].name if program.steps() else None
    grown = _insert(program, name if draw(st.booleans()) else last, [step])
    return replace(grown, outputs=(*grown.outputs, new))


def return_more(draw: st.DrawFn, program: Program) -> Program | None:
    """Some value on the way is returned as well."""
    return replace(program, outputs=(*program.outputs, _pick(draw, tensor_names(_values(program)))))


def return_less(draw: st.DrawFn, program: Program) -> Program | None:
    """One result fewer; what it needed becomes dead code."""
    if len(program.outputs) < 2:
        return None
    k = draw(st.integers(0, len(program.outputs) - 1))
    return replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :])


def again(draw: st.DrawFn, program: Program) -> Program | None:
    """A step carried out once more, somewhere behind it; the second result is returned, or later readers read it."""
    steps = program.steps()
    if not steps:
        return None
    k = draw(st.integers(0, len(steps) - 1))
    new = _fresh(program)
    place, step = _pick(draw, steps[k:]).name, replace(steps[k], name=new)
    if draw(st.booleans()):
        return _insert(program, place, [step], {steps[k].name: new})
    grown = _insert(program, place, [step])
    return replace(grown, outputs=(*grown.outputs, new))


# ------------------------------------------------------------------------------------------------- mutation, randomness

MUTATIONS: tuple[Callable[[str, Var], Step], ...] = (
    lambda n, v: Step(n, "add_", (v, 1)),
    lambda n, v: Step(n, "mul_", (v, 2)),
    lambda n, v: Step(n, operator.setitem, (v, 0, 0)),
    lambda n, v: Step(n, "relu_", (v,)),
    lambda n, v: Step(n, torch.nn.functional.relu, (v,), (("inplace", True),)),
    lambda n, v: Step(n, operator.imul, (v, 3)),
    lambda n, v: Step(n, "zero_", (v,)),
    lambda n, v: Step(n, "t_", (v,)),
)


def mutate(draw: st.DrawFn, program: Program) -> Program | None:
    """An in-place operator on some value, somewhere behind it; without gradients, which forbid most of them, or with."""
    steps = program.steps()
    name = _pick(draw, tensor_names(_values(program)))
    known = [s.name for s in steps]
    places = known[known.index(name) :] if name in known else [name, *known]
    step = _pick(draw, MUTATIONS)(_fresh(program), Var(name))
    written = _insert(program, _pick(draw, places), [step])
    return written if draw(st.booleans()) else replace(written, inputs=tuple(replace(i, requires_grad=False) for i in written.inputs))


def free_input(draw: st.DrawFn, program: Program) -> Program | None:
    """An input that can be written to: without gradient, or behind an operator."""
    if not program.inputs:
        return None
    chosen = _pick(draw, program.inputs)
    if draw(st.booleans()):
        return _with_inputs(program, [chosen], lambda i: replace(i, requires_grad=False))
    new = _fresh(program)
    return _insert(program, None, [Step(new, torch.mul, (Var(chosen.name), 1))], {chosen.name: new})


def between(draw: st.DrawFn, program: Program) -> Program | None:
    """An operator between a value and those who read it."""
    name = _pick(draw, tensor_names(_values(program)))
    new = _fresh(program)
    make: Callable[[str, Var], Step] = _pick(
        draw,
        (
            lambda n, v: Step(n, "neg", (v,)),
            lambda n, v: Step(n, "clone", (v,)),
            lambda n, v: Step(n, "detach", (v,)),
            lambda n, v: Step(n, "transpose", (v, -1, -2)),
            lambda n, v: Step(n, torch.nn.functional.dropout, (v, 0.5)),
            lambda n, v: Step(n, torch.rand_like, (v,)),
            lambda n, v: Step(n, "to", (v, torch.bfloat16)),
            lambda n, v: Step(n, "double", (v,)),
        ),
    )
    return _insert(program, name, [make(new, Var(name))], {name: new})


# ---------------------------------------------------------------------------------------------------------------- modes


def enclose(draw: st.DrawFn, program: Program) -> Program | None:
    """A stretch of steps under another ambient mode."""
    flat = [k for k, item in enumerate(program.body) if isinstance(item, Step)]
    if not flat:
        return None
    first = _pick(draw, flat)
    last = draw(st.integers(first, next((k - 1 for k in range(first, len(program.body)) if k not in flat), len(program.body) - 1)))
    inside = tuple(s for s in program.body[first : last + 1] if isinstance(s, Step))
    region = Region(_pick(draw, ("no_grad", "autocast")), inside)
    body: Body = (*program.body[:first], region, *program.body[last + 1 :])
    return replace(program, body=body)


# --------------------------------------------------------------------------------------------------------------- inputs


def _with_inputs(program: Program, old: Sequence[Input], change: Callable[[Input], Input]) -> Program:
    return replace(program, inputs=tuple(change(i) if i in old else i for i in program.inputs))


def _some_inputs(draw: st.DrawFn, program: Program) -> list[Input]:
    """One input, or all of its shape: members of a group only stay alike if they change together."""
    one: Input = _pick(draw, program.inputs)
    return [i for i in program.inputs if i.shape == one.shape] if draw(st.booleans()) else [one]


def change_input(draw: st.DrawFn, program: Program) -> Program | None:
    """Another dtype, layout, gradient flag or content of one input, or of all like it."""
    if not program.inputs:
        return None
    chosen = _some_inputs(draw, program)
    how = _pick(draw, ("layout", "dtype", "requires_grad", "special"))
    if how == "layout":
        layout = _pick(draw, LAYOUTS[1:])
        return _with_inputs(program, chosen, lambda i: replace(i, layout=layout))
    if how == "dtype":
        dtype = _pick(draw, (torch.bfloat16, torch.float64, torch.int64, torch.float16))
        return _with_inputs(program, chosen, lambda i: replace(i, dtype=dtype))
    if how == "requires_grad":
        return _with_inputs(program, chosen, lambda i: replace(i, requires_grad=not i.requires_grad))
    return _with_inputs(program, chosen, lambda i: replace(i, special=True))


def reshape_input(draw: st.DrawFn, program: Program) -> Program | None:
    """Another extent, a dimension fewer or one more of one input, or of all like it."""
    if not program.inputs:
        return None
    chosen = _some_inputs(draw, program)
    shape = chosen[0].shape
    how = _pick(draw, ("fewer", "extent", "more") if shape else ("more",))
    place = draw(st.integers(0, max(len(shape) - 1, 0)))
    middle = () if how == "fewer" else (draw(st.sampled_from((1, 2, 3, 5, 0))),)
    new = (*shape[:place], *middle, *shape[place + (how != "more") :])
    return _with_inputs(program, chosen, lambda i: replace(i, shape=new))


def share_input(draw: st.DrawFn, program: Program) -> Program | None:
    """One input in the place of another."""
    if len(program.inputs) < 2:
        return None
    one = _pick(draw, program.inputs)
    other = _pick(draw, program.inputs)
    return renamed(program, {one.name: other.name}) if one is not other else None


def renamed(program: Program, names: dict[str, str]) -> Program:
    """The program with some inputs in the place of others, which are gone."""
    found = _insert(program, None, [], names)
    return replace(found, inputs=tuple(i for i in found.inputs if i.name not in names))


def forget(draw: st.DrawFn, program: Program) -> Program | None:
    """One more value of which the graph says nothing."""
    known = [n for n in (*(i.name for i in program.inputs), *(s.name for s in program.steps())) if n not in program.bare]
    return replace(program, bare=program.bare | {_pick(draw, known)}) if known else None


DISTURBANCES: tuple[Disturbance, ...] = (
    respell,
    rejoin,
    redirect,
    recut,
    add_user,
    return_more,
    return_less,
    again,
    mutate,
    free_input,
    between,
    enclose,
    change_input,
    reshape_input,
    share_input,
    forget,
    _somewhere(join_whole),
    _somewhere(with_empty_vector),
    _somewhere(positions_that_fall),
    _somewhere(cut_otherwise),
    _somewhere(taken_apart),
    _somewhere(uneven),
    _somewhere(without_options),
    _somewhere(with_another_inside),
    _somewhere(of_three_operands),
)
