"""The meaning of operators against eager: every element, shape, dtype, shared memory, and the inputs after the call.

The programs of ``tests.meanings`` are evaluated in the algebra of plain numbers, where an element is a 0-d tensor, and run
in eager on the same inputs. Programs that eager refuses must be refused by the semantics too. Operators that move data are
also evaluated on the solver's terms, at a symbolic index and with symbolic sizes, and the terms are read back as numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
import torch
import z3
from torch.fx import Graph, GraphModule
from torch.utils import _pytree as pytree

from fuzz.program import Program, substitute
from optimus.capture import capture
from optimus.values import value
from tests.meanings import CASES, REFUSED, SWEPT, UNMODELLED, WRITE, Case, eager, plain
from tests.truth import no_term_is_taken_for_a_truth_value  # noqa: F401
from verify.compare import differing_bits
from verify.prover.logic import SolverLogic
from verify.prover.task import Task
from verify.semantics.evaluate import Evaluator, Outcome
from verify.semantics.logic import NumberLogic, Part, Symbol
from verify.semantics.table import TABLE
from verify.semantics.tensor import Place, Product, Tensor, UnmodelledError, number

ENOUGH = 10_000
"""Elements that are compared for each operator."""

NUMBERS = {"number_as_tensor", "sym_sum", "sym_max", "sym_min"}
"""Operators whose result is one number, known beforehand: there is nothing to draw."""


# ----------------------------------------------------------------------------------------------------- the two machines


def constant(text: str) -> Any:
    """A literal argument from its text."""
    return eval(text, {"torch": torch, "inf": math.inf, "nan": math.nan})  # noqa: S307 - written by the semantics


def function(symbol: Symbol) -> Callable[..., torch.Tensor]:
    """What a symbol computes on 0-d tensors."""
    result = getattr(torch, symbol.result) if symbol.result else None
    literals = {name: text if text[0] in "#%" else constant(text) for name, text in symbol.literals}
    match symbol.op:
        case "cast":
            return lambda t: t.to(result)
        case "constant":
            return lambda: torch.full((), literals["value"], dtype=result)
        case "scale":
            return lambda t: t * literals["by"]
        case "detach" | "under":
            return lambda t: t
        case "written":
            return lambda _, new: new
        case "mean":
            return lambda t, *extents: torch.as_tensor(t, dtype=result) / math.prod(extents)
        case "read_wide":
            return lambda t: t.to(result)
        case "standardised":
            return lambda t, mean, rstd: ((t.double() - mean.double()) * rstd.double()).to(result)
        case "norm_backward":
            return lambda *parts: gradient_of_row(*(filled(part, torch.float64) for part in parts)).to(result)
        case "pick":
            return lambda part, at, *_: {(): filled(part, result)[at.body(())]}
        case op if op in ROWS:
            return lambda part: ROWS[op](filled(part, getattr(torch, symbol.dtypes[0])), literals, result)
    return lambda *terms: pointwise(symbol.op, literals, result, terms)


def filled(part: Part, dtype: torch.dtype) -> torch.Tensor:
    """A part as a tensor."""
    elements = [torch.as_tensor(part.body(i), dtype=dtype) for i in product(*map(range, part.extents))]
    return torch.stack(elements).reshape(part.extents) if elements else torch.empty(part.extents, dtype=dtype)


def normalised(row: torch.Tensor, literals: dict[str, Any], result: torch.dtype) -> torch.Tensor:
    wide = row.double()
    return ((wide - wide.mean()) / torch.sqrt(wide.var(correction=0) + literals["eps"])).to(result)


def inverse_deviation(row: torch.Tensor, literals: dict[str, Any], result: torch.dtype) -> torch.Tensor:
    return (1 / torch.sqrt(row.double().var(correction=0) + literals["eps"])).to(result)


def gradient_of_row(gradient: torch.Tensor, row: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    """Of a normalised row, by the formula of https://arxiv.org/abs/1607.06450."""
    seen = (row - mean) * rstd
    return rstd * (gradient - gradient.mean() - seen * (gradient * seen).mean())


ROWS: dict[str, Callable[[torch.Tensor, dict[str, Any], torch.dtype], torch.Tensor]] = {
    "var": lambda row, given, _: torch.var(row, dim=list(range(row.dim())), **given),
    "std": lambda row, given, _: torch.std(row, dim=list(range(row.dim())), **given),
    "amax": lambda row, *_: torch.amax(row), "amin": lambda row, *_: torch.amin(row), "prod": lambda row, *_: torch.prod(row),
    "all": lambda row, *_: torch.all(row), "any": lambda row, *_: torch.any(row),
    "logsumexp": lambda row, *_: torch.logsumexp(row, list(range(row.dim()))),
    "argmax": lambda row, *_: torch.argmax(row), "argmin": lambda row, *_: torch.argmin(row),
    "softmax": lambda row, _, result: torch.softmax(row, 0, dtype=result), "log_softmax": lambda row, _, result: torch.log_softmax(row, 0, dtype=result),
    "cumsum": lambda row, *_: torch.cumsum(row, 0), "cumprod": lambda row, *_: torch.cumprod(row, 0),
    "normalised": normalised, "row_mean": lambda row, _, result: row.double().mean().to(result), "row_rstd": inverse_deviation,
}  # fmt: skip

REFLECTED = {"reflected_sub": operator.sub, "reflected_div": operator.truediv, "reflected_pow": operator.pow}


def pointwise(op: str, literals: dict[str, Any], result: torch.dtype | None, terms: tuple[Any, ...]) -> torch.Tensor:
    """The operator on tensors of one element. Which of them count as scalars for promotion is told by the dtype of the result."""
    tensors = [t if isinstance(t, torch.Tensor) else torch.tensor(t, dtype=result) for t in terms]
    for shapes in product(((1,), ()), repeat=len(tensors)):
        operands = [t.reshape(s) for t, s in zip(tensors, shapes, strict=True)]
        arguments = {n: operands[int(a[1:]) - 1] if isinstance(a, str) and a[:1] == "#" else a for n, a in literals.items()}
        if op.startswith("reflected_"):
            found = REFLECTED[op](arguments["other"], arguments["self"])
        else:
            found = getattr(torch.ops.aten, op)(**arguments)
        if found.dtype == result:
            return found.reshape(())
    raise AssertionError(f"{op} of {[t.dtype for t in tensors]} is never {result}")


def evaluated(gm: GraphModule, inputs: list[torch.Tensor]) -> Outcome:
    logic = NumberLogic({str(k): t.detach() for k, t in enumerate(inputs)}, function)
    given = {str(k): Tensor(tuple(t.shape), lambda i, k=k: logic.element(str(k), tuple(map(number, i))), t.dtype) for k, t in enumerate(inputs)}
    return Evaluator(logic, int).run(gm, given)


def contents(tensor: Tensor, places: bool = False) -> torch.Tensor:
    """Every element of a symbolic tensor, as a tensor; along products by their ``places``, or by plain numbers."""
    shape = tuple(map(number, tensor.dims))
    indices = product(*(positions(extent) if places else range(number(extent)) for extent in tensor.dims))
    elements = [torch.as_tensor(tensor[index], dtype=tensor.dtype) for index in indices]
    return torch.stack(elements).reshape(shape) if elements else torch.empty(shape, dtype=tensor.dtype)


def positions(extent: Any) -> Iterable[Any]:
    if not isinstance(extent, Product):
        return range(extent)
    return [Place(parts, extent.factors, NumberLogic({}, function)) for parts in product(*map(range, extent.factors))]


def differ(eager: Any, model: Any, ulps: float) -> bool:
    if not isinstance(eager, torch.Tensor):
        return bool(eager != model)
    if not isinstance(model, Tensor):
        return True
    found = contents(model)
    if any(isinstance(extent, Product) for extent in model.dims) and bool(differing_bits(found, contents(model, places=True)).any()):
        return True
    if found.shape != eager.shape or model.dtype != eager.dtype:
        return True
    wrong = differing_bits(eager.detach(), found)
    if ulps and (eager.dtype.is_floating_point or eager.dtype.is_complex):
        info, sizes = torch.finfo(eager.dtype), eager.detach().abs()
        largest = sizes[torch.isfinite(sizes)].amax() if bool(torch.isfinite(sizes).any()) else sizes.new_zeros(())
        wrong &= ~((eager - found).abs() <= ulps * (info.eps * torch.maximum(sizes, largest) + info.tiny))
    return bool(wrong.any())


def sharing(outputs: list[Any], inputs: list[torch.Tensor]) -> list[str]:
    """Whose memory each tensor output has, as the semantics call it; empty tensors have none."""
    found: list[str] = []
    places: dict[int, str] = {}
    for k, t in enumerate(inputs):
        places.setdefault(t.untyped_storage().data_ptr(), f"input {k}")
    for k, t in enumerate(outputs):
        empty = not isinstance(t, torch.Tensor) or not t.numel()
        found.append("" if empty else places.setdefault(t.untyped_storage().data_ptr(), f"output {k}"))
    return found


# --------------------------------------------------------------------------------------------------------------- tests


def conforms(given: Case, draw: int = 0) -> int:
    """The number of elements compared."""
    program = plain(given.program, draw)
    gm = program.graph()
    inputs = program.make_inputs()
    outcome = evaluated(gm, [t.clone() if t.layout != torch.strided else t.detach() for t in program.make_inputs()])
    results = eager(program, inputs)
    assert not outcome.raises
    assert all(r is True for r in outcome.required), outcome.required
    assert len(results) == len(outcome.outputs)
    count = 0
    for k, (one, other) in enumerate(zip(results, outcome.outputs, strict=True)):
        assert not differ(one, other, given.ulps), (
            f"output {k} of\n{program}\neager: {one}\nhere: {contents(other) if isinstance(other, Tensor) else other}"
        )
        count += one.numel() if isinstance(one, torch.Tensor) else 1
    for k, (one, other) in enumerate(zip(inputs, outcome.inputs, strict=True)):
        assert not differ(one, other, given.ulps), f"input {k} after\n{program}\neager: {one}\nhere: {contents(other)}"
        count += one.numel()
    owners = [o if isinstance(t, torch.Tensor) and t.numel() else "" for o, t in zip(outcome.owners, results, strict=True)]
    assert owners == sharing(results, inputs), program
    return count


def graph_that_raises(program: Program) -> GraphModule:
    """The graph of a program that fakes refuse: the last step goes without metadata."""
    *body, last = program.body
    before = Program(program.inputs, tuple(body), (program.inputs[0].name,)).graph() if program.inputs else GraphModule({}, Graph())
    graph = before.graph
    for node in list(graph.nodes):
        if node.op == "output":
            graph.erase_node(node)
    nodes = {n.name: n for n in graph.nodes}
    kind = "call_method" if isinstance(last.target, str) else "call_function"
    args, kwargs = substitute(last.args, lambda x: nodes[x.name]), {k: substitute(x, lambda x: nodes[x.name]) for k, x in last.kwargs}
    graph.output((graph.create_node(kind, last.target, args, kwargs),))
    return GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize("op", sorted({c.op for c in CASES}))
def test_every_element_is_that_of_eager(op: str):
    """All cases of an operator, with other numbers each time, until enough elements were compared."""
    programs = [c for c in CASES if c.op == op]
    compared = sum(map(conforms, programs))
    draws = 0
    while compared < (1 if op in NUMBERS else ENOUGH):
        draws += 1
        more = sum(conforms(given, draws) for given in programs if given.program.inputs)
        assert more, f"{op}: {compared} elements in all, and nothing to draw"
        compared += more


def test_operators_that_pytorch_calls_element_wise():
    for given in SWEPT:
        conforms(given)
    assert len({c.note.partition("-")[0] for c in SWEPT}) > 200


@pytest.mark.parametrize("given", REFUSED, ids=str)
def test_what_eager_refuses_raises(given: Case):
    program = plain(given.program)
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
        eager(program, program.make_inputs())
    outcome = evaluated(graph_that_raises(program), program.make_inputs())
    assert outcome.required[-1] is False
    assert outcome.raises


@pytest.mark.parametrize("given", [pytest.param(c, id=f"{c}-{reason}") for c, reason in UNMODELLED])
def test_what_has_no_semantics_says_so(given: Case):
    program = plain(given.program)
    with pytest.raises(UnmodelledError):
        evaluated(program.graph(), program.make_inputs())


def test_every_operator_of_the_table_has_cases():
    assert set(TABLE) <= {c.op for c in CASES}


# ------------------------------------------------------------------------------------------------- the same, on terms


class Interpreter:
    """Reads the solver's terms as numbers: functions of the algebra back to what they stand for."""

    def __init__(self, logic: SolverLogic, inputs: list[torch.Tensor]) -> None:
        self.inputs = inputs
        self.keys = {decl.name(): key for key, decl in logic._functions.items()}

    def value(self, term: Any) -> Any:
        """A term without variables, as an int, a bool or a 0-d tensor."""
        if isinstance(term, (int, bool)):
            return term
        term = z3.simplify(term)
        if z3.is_int_value(term):
            return term.as_long()
        if z3.is_true(term) or z3.is_false(term):
            return z3.is_true(term)
        key, arguments = self.keys[term.decl().name()], [self.value(child) for child in term.children()]
        if key[0] == "input":
            tensor = self.inputs[int(key[1])]
            assert all(0 <= i < n for i, n in zip(arguments, tensor.shape, strict=True))
            return tensor[tuple(arguments)]
        return function(key[0])(*arguments)


def read(tensor: Tensor, shape: tuple[int, ...], sizes: list[tuple[Any, Any]], logic: SolverLogic, interpreter: Interpreter) -> torch.Tensor:
    """Every element of a tensor of terms: one term at an index of variables, then numbers for the variables."""
    index: list[Any] = []
    for extent in tensor.dims:
        factors = extent.factors if isinstance(extent, Product) else None
        index.append(logic.integer("p") if factors is None else Place(tuple(logic.integer("p") for _ in factors), factors, logic))
    term = tensor[tuple(index)]
    elements = []
    for at in product(*map(range, shape)):
        known = list(sizes)
        for i, extent, position in zip(index, tensor.dims, at, strict=True):
            parts = i.parts if isinstance(i, Place) else (i,)
            factors = [interpreter.value(put(f, sizes)) for f in (extent.factors if isinstance(extent, Product) else (extent,))]
            known += [(p, z3.IntVal(n)) for p, n in zip(parts, unravel(position, factors), strict=True)]
        elements.append(interpreter.value(put(term, known)))
    return torch.stack(elements).reshape(shape) if elements else torch.empty(shape, dtype=tensor.dtype)


def put(term: Any, known: list[tuple[Any, Any]]) -> Any:
    return z3.substitute(term, *known) if isinstance(term, z3.ExprRef) and known else term


def unravel(position: int, factors: list[int]) -> list[int]:
    found = []
    for factor in reversed(factors):
        found.append(position % factor)
        position //= factor
    return found[::-1]


def agrees_as_terms(gm: GraphModule, inputs: list[Any], results: list[Any]) -> None:
    task = Task(1.0, False)
    logic = task.logic
    given: dict[str, Any] = {}
    tensors: list[torch.Tensor] = []
    sizes: list[tuple[Any, Any]] = []
    for k, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        found = value(node)
        if isinstance(found, torch.Tensor):
            dims, at = tuple(task.sizes.term(n) for n in found.shape), str(len(tensors))
            given[str(k)] = Tensor(dims, lambda i, at=at: logic.element(at, tuple(map(number, i))), found.dtype)
            sizes += [(d, z3.IntVal(n)) for d, n in zip(dims, inputs[k].shape, strict=True) if isinstance(d, z3.ArithRef) and z3.is_const(d)]
            tensors.append(inputs[k].detach())
        else:
            given[str(k)] = task.sizes.term(found)
            if isinstance(given[str(k)], z3.ArithRef):
                sizes.append((given[str(k)], z3.IntVal(inputs[k])))
    task.assume()
    outcome = Evaluator(logic, task.sizes.term).run(gm, given)
    interpreter = Interpreter(logic, tensors)
    assert not outcome.raises
    if not all(interpreter.value(put(condition, sizes)) for condition in logic.premises):
        return  # sizes that the capture does not admit
    for condition in outcome.required:
        assert interpreter.value(put(condition, sizes)) is True, condition
    for one, other in zip(results, outcome.outputs, strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == interpreter.value(put(number(other), sizes))
            continue
        interpreter.keys = {decl.name(): key for key, decl in logic._functions.items()}
        assert tuple(one.shape) == tuple(interpreter.value(put(number(d), sizes)) for d in other.dims)
        found = read(other, tuple(one.shape), sizes, logic, Named(logic, tensors))
        assert not bool(differing_bits(one.detach(), found).any()), f"{gm.code}\neager {one}\nhere {found}"


class Named(Interpreter):
    """An interpreter that knows functions made after it."""

    def __init__(self, logic: SolverLogic, inputs: list[torch.Tensor]) -> None:
        super().__init__(logic, inputs)
        self.logic = logic

    def value(self, term: Any) -> Any:
        if len(self.keys) != len(self.logic._functions):
            self.keys = {decl.name(): key for key, decl in self.logic._functions.items()}
        return super().value(term)


SUMS = {"linear", "optimus::group_linear", "mm", "bmm", "addmm", "baddbmm", "matmul", "einsum"}
ROW_OPERATORS = {"native_layer_norm", "native_layer_norm_backward"} | {
    op for op, meaning in TABLE.items() if meaning.__module__ == "verify.semantics.reduce"
}


@pytest.mark.parametrize("op", sorted(set(TABLE) - SUMS - ROW_OPERATORS | {WRITE}))
def test_terms_mean_what_numbers_do(op: str):
    """Index maps at a symbolic index: joins are decided by case distinctions there, and products of extents have places."""
    for given in CASES[:: 1 if op != WRITE else 3]:
        if given.op == op:
            program = plain(given.program)
            inputs = program.make_inputs()
            agrees_as_terms(program.graph(), inputs, eager(program, program.make_inputs()))


def _halves(x, n):
    p, q = torch.split(x, [n, x.shape[1] - n], dim=1)
    return q, p, torch.cat([q, p], 1)


SYMBOLIC: tuple[tuple[Callable[..., Any], str], ...] = (
    (lambda x: torch.split(x, 3, 1), "n 8"),
    (lambda x: torch.cat(torch.split(x, 2), 0), "6 n"),
    (_halves, "n 9 | 4"),
    (lambda x: x.chunk(3, 1), "2 7"),
    (lambda x: torch.tensor_split(x, 3, 1), "2 n"),
    (lambda x, y: torch.cat([x, y, x]), "n 2 , m 2"),
    (lambda x, y: torch.stack([x, y, x], 1).flatten(1), "n m , n m"),
    (lambda x, y: torch.stack([x, y], 0).flatten(0, 1), "n m , n m"),
    (lambda x: x.reshape(x.shape[0], -1), "n m 2"),
    (lambda x: x.reshape(-1), "n m 2"),
    (lambda x: x.reshape(-1, x.shape[2]), "n m k"),
    (lambda x: x.reshape(-1, x.shape[2]).view(x.shape), "n m k"),
    (lambda x: x.flatten(1).unflatten(1, (x.shape[1], 2)), "n m 2"),
    (lambda x, y: torch.stack([x, y], 2).flatten(1)[:, 1:], "n m , n m"),
    (lambda x: x.view(x.shape[0], 4, -1).transpose(1, 2).reshape(x.shape[0], -1), "n 12"),
    (lambda x: x.view(x.shape[0], 3, 4).permute(2, 0, 1).flatten(), "n 12"),
    (lambda x: x.permute(2, 0, 1).reshape(x.shape[2] * x.shape[0], -1), "n m k"),
    (lambda x, n: x[:, n:], "2 m | 3"),
    (lambda x, n: x[:, :-n], "2 m | 3"),
    (lambda x, n: x[n], "m 2 | 3"),
    (lambda x, n: x[-n, 1:], "m 3 | 2"),
    (lambda x, n: x.narrow(1, n, 2), "2 m | 1"),
    (lambda x: x[::2, 1:], "n 5"),
    (lambda x: x[1::3], "n 2"),
    (lambda x: x.unsqueeze(1).expand(-1, 3, -1).reshape(-1, x.shape[1]), "n m"),
    (lambda x, y: x + y, "n m , m"),
    (lambda x, y: x[:, None] * y[None], "n , m"),
    (lambda x: torch.cat([x, x * 2], 1).view(-1, 2, x.shape[1]).unbind(1), "n m"),
    (lambda x: x.clone().fill_(2.0), "n m"),
    (lambda x, n: (x * 2, torch.sym_sum([x.shape[0], n, 1, x.shape[1]])), "n m | 3"),
    (lambda x, n: (x * 2, torch.sym_sum([x.shape[0] * x.shape[1], -n])), "n m | 3"),
    (lambda x, y: (x.unsqueeze(1) + y, max(x.shape[0], y.shape[0]), min(x.shape[0], y.shape[0])), "n , m"),
)


def sizes_of(text: str, known: dict[str, int]) -> tuple[list[torch.Tensor], list[int]]:
    shapes, _, rest = text.partition("|")
    tensors = [torch.randn([known[d] if d.isalpha() else int(d) for d in shape.split()]) for shape in shapes.split(",")]
    return tensors, [int(n) for n in rest.split()]


@pytest.mark.parametrize("k", range(len(SYMBOLIC)))
def test_symbolic_sizes_mean_what_numbers_do(k: int):
    program, text = SYMBOLIC[k]
    tensors, numbers = sizes_of(text, {"n": 5, "m": 7, "k": 3})
    (found,) = capture(program, [*tensors, *numbers], dynamic=True)
    for known in ({"n": 5, "m": 7, "k": 3}, {"n": 3, "m": 6, "k": 4}, {"n": 4, "m": 5, "k": 2}):
        tensors, numbers = sizes_of(text, known)
        named = iter(tensors)
        inputs: list[Any] = []
        values: dict[str, int] = {}
        for node, example in zip(found.gm.graph.find_nodes(op="placeholder"), found.inputs, strict=True):
            if isinstance(example, torch.Tensor):
                inputs.append(next(named))
                values.update({str(s): n for s, n in zip(value(node).shape, inputs[-1].shape, strict=True)})
            else:
                inputs.append(None)
        for at, node in enumerate(found.gm.graph.find_nodes(op="placeholder")):
            if inputs[at] is None:
                inputs[at] = values.get(str(value(node)), numbers[0] if numbers else None)
        agrees_as_terms(found.gm, inputs, pytree.tree_leaves(found.gm(*inputs)))
