"""All spellings of an operator are one call; what is written and what is random is seen."""

from __future__ import annotations

import copy
import gc
import operator
import weakref
from itertools import product

import pytest
import torch
import torch.nn.functional as F

from fuzz.program import Input, Program, Step, Var
from optimus import operators, schemas
from optimus.effects import Effects, effects
from optimus.operators import COMPLEX_STEADY, STEADY, bind, is_elementwise, keeps_bits
from verify.compare import differing_bits

X, Y = Var("x"), Var("y")


def node_of(target, *args, **kwargs):
    """The graph node of one call on two matrices."""
    inputs = (Input("x", (3, 4), requires_grad=False), Input("y", (3, 4), requires_grad=False))
    program = Program(inputs, (Step("r", target, args, tuple(kwargs.items())),), ("x",))
    return next(n for n in program.graph().graph.nodes if n.op.startswith("call"))


SAME = {
    "add": [(torch.add, (X, Y)), ("add", (X, Y)), (operator.add, (X, Y)), (torch.Tensor.add, (X, Y)), (torch.ops.aten.add.Tensor, (X, Y))],
    "cat": [(torch.cat, ([X, Y],)), (torch.concat, ((X, Y),)), (torch.concatenate, ([X, Y], 0)), (torch.ops.aten.cat.default, ([X, Y],))],
    "split": [(torch.split, (X, 2)), ("split", (X, 2, 0)), (torch.split, (X, [2, 1]))],
    "tanh": [(torch.tanh, (X,)), ("tanh", (X,)), (torch.ops.aten.tanh.default, (X,))],
    "linear": [(F.linear, (X, Y)), (F.linear, (X, Y, None)), (torch.ops.aten.linear.default, (X, Y))],
    "clamp": [(torch.clamp, (X, 0, 1)), (torch.clip, (X, 0, 1)), ("clamp", (X, 0, 1))],
    "reshape": [("reshape", (X, -1)), ("reshape", (X, (-1,))), (torch.reshape, (X, (-1,)))],
    "to": [("double", (X,)), ("to", (X, torch.float64))],
}


@pytest.mark.parametrize(("name", "target", "args"), [(n, *c) for n, calls in SAME.items() for c in calls])
def test_one_name_for_all_spellings(name, target, args):
    call = bind(node_of(target, *args))
    assert call is not None
    assert call.op == name
    assert not call.writes
    assert effects(node_of(target, *args)).pure


@pytest.mark.parametrize(("function", "bound"), [("clamp_min", "min"), ("clamp_max", "max")])
@pytest.mark.parametrize("spelled", ["function", "method", "in place"])
def test_one_bound_is_clamp_with_the_other_left_out(function, bound, spelled):
    target = {"function": getattr(torch, function), "method": function, "in place": f"{function}_"}[spelled]
    call, whole = bind(node_of(target, X, 0.5)), bind(node_of(torch.clamp, X, **{bound: 0.5}))
    assert call is not None
    assert whole is not None
    assert call.op == whole.op
    assert {k: v for k, v in call.args.items() if k != "self"} == {k: v for k, v in whole.args.items() if k != "self"}
    assert call.args.keys() == whole.args.keys()
    assert call.writes == (("self",) if spelled == "in place" else ())


@pytest.mark.parametrize("limit", [float("nan"), Y])
@pytest.mark.parametrize("function", ["clamp_min", "clamp_max"])
def test_a_bound_that_may_be_no_number_is_not_one_of_clamp(function, limit):
    """``clamp(x, min=nan)`` is ``x`` in torch 2.11, and ``clamp_min(x, nan)`` is not."""
    call = bind(node_of(getattr(torch, function), X, limit))
    assert call is not None
    assert call.op == function


@pytest.mark.parametrize(("function", "bound"), [(torch.clamp_min, "min"), (torch.clamp_max, "max")])
@pytest.mark.parametrize("limit", [0.0, -0.0, 1, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_one_bound_gives_the_bits_and_gradients_of_clamp(function, bound, limit, dtype):
    special = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 65504.0]
    results = []
    for clamped in (function, lambda x, limit: torch.clamp(x, **{bound: limit})):
        x = torch.tensor(special * 5, dtype=dtype, requires_grad=True)
        y = clamped(x, limit)
        y.backward(torch.arange(1, 51, dtype=dtype))
        results.append((y.detach(), x.grad))
    assert not any(differing_bits(one, other).any() for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("spelled", [{"dim": 1}, {"axis": 1}])
def test_keyword_aliases(spelled):
    call = bind(node_of(torch.cat, [X, Y], **spelled))
    assert call is not None
    assert call["dim"] == 1


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        ("add_", (X, 1), {}),
        (operator.iadd, (X, 1), {}),
        (operator.setitem, (X, 0, 1), {}),
        (F.relu, (X,), {"inplace": True}),
        (F.relu, (X, True), {}),
        (torch.relu_, (X,), {}),
        (torch.tanh, (Y,), {"out": X}),
        ("copy_", (X, Y), {}),
    ],
)
def test_what_is_written_is_seen(target, args, kwargs):
    node = node_of(target, *args, **kwargs)
    assert [n.name for n in effects(node).writes] == ["x"]
    assert not effects(node).pure


@pytest.mark.parametrize(
    ("target", "args"), [(F.dropout, (X,)), (torch.rand_like, (X,)), (torch.bernoulli, (X.__class__("x"),)), ("bernoulli", (X,))]
)
def test_random_operators_stay_in_order(target, args):
    found = effects(node_of(target, *args))
    assert found.random
    assert found.ordered


def test_a_change_of_shape_in_place_is_seen():
    assert effects(node_of("t_", X)).reshapes
    assert effects(node_of("requires_grad_", X)).reshapes


def test_an_unknown_function_is_opaque():
    node = node_of(_stranger, X)
    assert bind(node) is None
    assert effects(node).opaque


def _stranger(x):
    return x + 1


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (torch._C._log_api_usage_once, ("name",)),
        (torch._C._log_api_usage_metadata, ("name", {})),
        (torch._C._autograd._record_function_with_args_enter, ("name", X)),
        (torch.ops.profiler._record_function_enter_new, ("name",)),
        (torch.ops.profiler._record_function_enter_new.default, ("name",)),
        (torch.ops.profiler._record_function_exit, (X,)),
    ],
)
def test_what_only_logs_keeps_its_order_and_does_nothing_else(target, args):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    found = effects(graph.call_function(target, tuple(x if a is X else a for a in args)))
    assert found == Effects(ordered=True)


def test_an_operator_of_somebody_in_the_namespace_of_the_profiler_may_write():
    with torch.library._scoped_library("profiler", "FRAGMENT") as library:
        library.define("bump(Tensor(a!) x) -> ()")
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        for target in (torch.ops.profiler.bump, torch.ops.profiler.bump.default):
            assert effects(graph.call_function(target, (x,))) != Effects(ordered=True)


def test_a_name_like_that_of_a_logger_says_nothing():
    def _log_api_usage_once(x):
        return x.add_(1)

    assert effects(node_of(_log_api_usage_once, X)).opaque


def test_batch_norm_writes_its_statistics():
    inputs = (Input("x", (3, 4), requires_grad=False), Input("mean", (4,), requires_grad=False), Input("var", (4,), requires_grad=False))
    step = Step("r", F.batch_norm, (X, Var("mean"), Var("var")), (("training", True),))
    node = next(n for n in Program(inputs, (step,), ("r",)).graph().graph.nodes if n.op.startswith("call"))
    assert [n.name for n in effects(node).writes] == ["mean", "var"]


KINDS = [
    (torch.add, (X, Y), {}), (torch.add, (X, 1), {}), (torch.add, (X, 1), {"alpha": 2}), (torch.add, (X, 2), {}), (torch.add, (X, Y), {"alpha": 1}),
    (operator.mul, (X, Y), {}), (operator.mul, (2, X), {}), (operator.sub, (2, X), {}), (torch.ops.aten.add.Tensor, (X, 1), {}),
    (torch.var, (X, 1), {}), (torch.var, (X, True), {}), (torch.sum, (X,), {}), (torch.sum, (X, 1), {}), (torch.sum, (X, [0, 1]), {}),
    (torch.sum, (X,), {"dtype": None}), (torch.sum, (X,), {"dim": 0, "dtype": torch.float64}), (torch.sum, (X, (0,), True), {}),
    ("view", (X, 2, 6), {}), ("view", (X, 12), {}), ("view", (X, (12,)), {}), ("view", (X, torch.int32), {}), ("expand", (X, 3, 4), {}),
    (torch.cat, ([X, Y],), {}), (torch.cat, ((X, Y), 1), {}), (torch.cat, ([X],), {"axis": 1}), (torch.tanh, (X,), {"out": Y}),
    (torch.clamp, (X, 0, None), {}), (torch.clamp, (X, None, 1), {}), (torch.clamp, (X, Y), {}), (torch.clamp, (X,), {"min": 0.5}),
    (F.layer_norm, (X, (4,)), {}), (F.layer_norm, (X,), {"normalized_shape": [4], "eps": 1}), (F.layer_norm, (X, [4], None, None, 0.5), {}),
    (F.relu, (X,), {}), (F.relu, (X, True), {}), (F.relu, (X,), {"inplace": False}), (F.dropout, (X, 0.25, True), {}),
    (F.softmax, (X,), {"dim": 1}), (F.softmax, (X, 1), {"_stacklevel": 5}), (F.max_pool1d, (X, 2), {}), (torch.block_diag, (X, Y), {}),
]  # fmt: skip


@pytest.mark.parametrize("call", KINDS)
def test_what_is_kept_of_other_kinds_of_call_changes_nothing(call):
    def told(target, args, kwargs):
        found = bind(node_of(target, *args, **kwargs))
        return None if found is None else (found.op, repr(found.args), found.writes, found.random, found.reshapes, found.overload)

    kept = (operators._binder, operators._order, schemas.overloads, schemas.overloads_from)
    for cache in kept:
        cache.cache_clear()
    alone = told(*call)
    for other in KINDS:
        told(*other)
    assert told(*call) == alone


UNSTEADY = ["sigmoid", "silu", "gelu", "elu", "softplus", "mish", "selu", "atan2", "sinh", "cosh", "pow", "sum", "mean", "softmax", "cumsum"]


@pytest.mark.parametrize("name", UNSTEADY)
def test_what_may_round_by_place_is_not_relied_on(name):
    args = (Y,) if name in ("pow", "atan2") else (0,) if name in ("softmax", "cumsum") else ()
    target = getattr(F, name, None) if name in ("silu", "gelu", "elu", "softplus", "mish", "selu") else name
    assert not keeps_bits(node_of(target, X, *args))


@pytest.mark.parametrize(("target", "args", "kwargs"), [("add", (X, Y), {}), ("pow", (X, 2), {}), ("t", (X,), {}), (operator.sub, (1, X), {})])
def test_what_rounds_alike_everywhere_is_relied_on(target, args, kwargs):
    assert keeps_bits(node_of(target, *args, **kwargs))


def test_a_factor_is_rounded_by_place_in_half_precision():
    assert not keeps_bits(node_of("add", X, Y, alpha=0.3))


CALLS = {
    "clamp": lambda x: x.clamp(-1, 1),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "where": lambda x: torch.where(x == x.abs(), x, 0),
    "masked_fill": lambda x: x.masked_fill(x == 0, 1),
}
REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)


def _calls(name):
    """The element-wise overloads of an operator whose arguments are tensors and numbers: how many tensors each takes, and the call."""
    if name in CALLS:
        yield 1, CALLS[name]
        return
    packet = getattr(torch.ops.aten, name)
    for overload in (getattr(packet, o) for o in packet.overloads() if not o.endswith("out")):
        given = [str(a.type) for a in overload._schema.arguments if not a.has_default_value()]
        if torch.Tag.pointwise in overload.tags and given[:1] == ["Tensor"] and set(given) <= {"Tensor", "number", "Scalar", "float", "int"}:
            rest = [2 if kind == "int" else 1.3 for kind in given if kind != "Tensor"]
            yield len(given) - len(rest), lambda *tensors, overload=overload, rest=rest: overload(*tensors, *rest)


@pytest.mark.parametrize("name", sorted(STEADY))
def test_the_place_in_memory_changes_no_bit(name):
    """Operands turned in memory, and their copies in the order of their indices."""
    compared = 0
    for dtype in (*REAL, *([torch.complex64] if name in COMPLEX_STEADY else [])):
        for (count, call), shape in product(_calls(name), [(3, 5, 7), (4, 4, 16), (5, 1, 33)]):
            torch.manual_seed(0)
            wide = torch.complex128 if dtype.is_complex else torch.float64
            turned = [(torch.randn(shape, dtype=wide) * 2).to(dtype).transpose(0, 1) for _ in range(count)]
            try:
                one, other = call(*turned), call(*(t.contiguous() for t in turned))
            except RuntimeError:  # not for this dtype
                continue
            compared += 1
            assert not differing_bits(one.contiguous(), other).any(), (dtype, shape)
    assert compared


def test_an_alias_is_as_elementwise_as_what_it_names():
    assert is_elementwise(bind(node_of(torch.special.expit, X)))
    assert is_elementwise(bind(node_of(F.sigmoid, X)))
    assert not is_elementwise(bind(node_of(torch.ops.aten.max.dim, X, 0)))
    assert is_elementwise(bind(node_of(torch.ops.aten.max.other, X, Y)))


def test_a_call_is_known_until_the_arguments_change():
    node = node_of(torch.add, X, Y)
    x, y = node.args
    assert bind(node) is bind(node)
    node.args = (y, x)
    assert bind(node)["self"] is y
    copied = next(n for n in copy.deepcopy(node.graph).nodes if n.op == "call_function")
    assert bind(copied)["self"] is copied.args[0] is not y


def test_a_graph_of_which_calls_are_known_is_not_kept():
    node = node_of(torch.add, X, Y)
    assert bind(node) is not None
    graph, unreferenced = weakref.ref(node.graph), weakref.ref(node)
    del node
    gc.collect()
    assert graph() is None
    assert unreferenced() is None
