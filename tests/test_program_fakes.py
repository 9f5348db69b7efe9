"""Fakes of drawn programs: what is remembered of earlier calls is what the fake mode says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from torch._subclasses.fake_tensor import FakeTensorMode

import optimus
from fuzz import fakes
from fuzz.fakes import Remembered, RememberingMode
from fuzz.program import Input, Program, Step, Var, _Builder, run_steps
from fuzz.strategies import programs
from optimus.modes import modes_restored

aten = torch.ops.aten


def said(values, memory):
    """All that is to be seen of fakes; memory by the order in which it was first met."""
    return [_said(v, memory) for v in values]


def _said(fake, memory):
    if isinstance(fake, (tuple, list)):
        return type(fake), said(fake, memory)
    if not isinstance(fake, torch.Tensor):
        return fake
    view = torch._C._autograd._get_creation_meta(fake) if fake._is_view() else None
    held = fake.untyped_storage()
    number = memory.setdefault(held._cdata, len(memory))
    autograd = fake.requires_grad, fake.is_leaf, view, fake.grad_fn.name() if fake.grad_fn is not None else None
    return tuple(fake.shape), fake.stride(), fake.storage_offset(), fake.dtype, str(fake.device), autograd, number, held.nbytes()


def by_the_fake_mode(program):
    """Every value of the program on fakes of its inputs."""
    mode = FakeTensorMode()
    inputs = [mode.from_tensor(t) for t in program.make_inputs()]
    with mode:
        return run_steps(program, inputs)


@pytest.mark.parametrize("name", ["split_cat_pass", "batch_linear", "batch_layernorm", "normalization_aten_pass", "einsum_to_pointwise_pass"])
def test_drawn_programs_have_the_fakes_of_the_fake_mode(name):
    pattern = optimus.patterns()[name]
    compared = []

    @seed(1)
    @settings(max_examples=120, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(programs((*pattern.cases, *pattern.declines)), programs())
    def attempt(one, other):
        for program in (one, other):
            try:
                expected = by_the_fake_mode(program)
            except Exception as error:  # noqa: BLE001 - whatever fakes refuse
                with pytest.raises(type(error)):
                    program.graph()
                continue
            found = _Builder(program)
            with modes_restored():
                found.build()
            assert list(found.fakes) == list(expected)
            assert said(found.fakes.values(), {}) == said(expected.values(), {}), program
            compared.append(len(expected))

    attempt()
    assert sum(compared) > 500


def test_the_second_answer_is_remembered_and_the_same(monkeypatch):
    monkeypatch.setattr(fakes, "_answers", {})
    asked = []
    for _ in range(2):
        mode = FakeTensorMode()
        remembered = Remembered(mode)
        x = remembered.leaf((2, 3), (1, 2), torch.float32, requires_grad=True)
        with mode, RememberingMode(remembered):
            found = [torch.mm(x, x.t()), *x.split([1, 1]), torch.relu(x), x.select(1, 2)]
            asked.append(said(found, {}))
    assert asked[0] == asked[1]
    assert fakes._answers[(aten.relu.default, torch.float32, (x.shape, (1, 2), 0, torch.float32, x.fake_device))] is not None


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided", "expanded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3), (3, 1, 2)])
def test_fakes_of_inputs(layout, dtype, shape):
    given = Input("x", shape, dtype, layout=layout)
    mode = FakeTensorMode()
    assert said([given.fake(Remembered(mode))], {}) == said([mode.from_tensor(given.make())], {})


def test_a_write_and_values_read_from_data_are_asked_anew(monkeypatch):
    monkeypatch.setattr(fakes, "_answers", {})
    program = Program((Input("x", (2, 3), requires_grad=False),), (Step("a", "add_", (Var("x"), 1)), Step("b", "t_", (Var("a"),))), ("b",))
    for _ in range(2):
        assert program.graph().graph.find_nodes(op="placeholder")[0].meta["example_value"].shape == (3, 2)
    assert not any(key[0] in (aten.add_.Scalar, aten.t_.default) for key in fakes._answers)
    reading = Program((Input("x", ()),), (Step("a", "item", (Var("x"),)),), ("a",))
    for _ in range(2):
        with pytest.raises(Exception, match="_local_scalar_dense"):
            reading.graph()


def test_no_more_than_so_many_answers_are_kept(monkeypatch):
    monkeypatch.setattr(fakes, "_answers", {})
    monkeypatch.setattr(fakes, "KEPT", 2)
    mode = FakeTensorMode()
    remembered = Remembered(mode)
    x = remembered.leaf((2, 3), (3, 1), torch.float32, requires_grad=False)
    with mode, RememberingMode(remembered):
        for function in (torch.relu, torch.tanh, torch.exp, torch.relu):
            assert function(x).shape == (2, 3)
    assert 0 < len(fakes._answers) <= 2
