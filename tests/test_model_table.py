"""The table of models: a model three ways, and what counts as unexplained."""

from __future__ import annotations

import time

import pytest
import torch

from benchmarks import model_table, three_ways
from benchmarks.model_table import row
from benchmarks.three_ways import Judge, excused, measure, of_steps
from optimus.plan import Plan
from tests.broken.joins import OrderIgnored
from verify.compare import observe


def off(count, worst, where="output 0"):
    return (
        f"batch 8: {where}: {count} of 99 elements differ, first at (3,): 0.5 became 0.6; float64 says 0.5, eager is off by 0"
        f", at worst {worst:.3g} times what is allowed"
    )


@pytest.mark.parametrize(
    ("line", "alone", "is_excused"),
    [
        (off(3, 2.0), [], False),
        (off(3, 2.0), [off(1, 2.5)], True),
        (off(9, 19.0), [off(1, 2.5)], True),
        (off(1, 21.0), [off(9, 2.5)], False),
        (off(1, float("inf")), [off(9, 2.5)], False),
        (off(1, 2.0), [off(1, 2.0, "output 1")], False),
        (off(9, 19.0), [off(1, 2.5, "output 1"), off(1, 2.5)], True),
        ("batch 8: output 0: shape (2,) became (3,)", [off(1, 2.0)], False),
        ("batch 8: output 0: shape (2,) became (3,)", ["batch 8: output 0: shape (2,) became (3,)"], True),
        ("batch 8: output 0: 1 of 8 elements differ, first at (1,): 3 became 4", [off(1, 2.0)], False),
    ],
)
def test_what_the_compiler_alone_has_too(line, alone, is_excused):
    assert excused(line, alone) == is_excused


@pytest.mark.parametrize(
    ("ours", "theirs", "same", "classes"),
    [
        ([1.000001], [1.0000002], False, []),
        ([1.001], [1.0000002], False, ["unexplained"]),
        ([1.000001, 1.001], [1.0000002], False, ["unexplained"]),
        ([float("nan")], [1.0000002], True, ["unexplained"]),
        ([1.001], [1.001], False, []),
        ([1.001], [1.0000002, 1.001], False, ["nondeterministic"]),
        ([1.001], [1.0000002, 1.0005], False, ["unexplained"]),
        ([1.001], [1.0000002, 1.0005], True, ["same graph"]),
        ([1.001], [1.0000002, 1.0000002], True, ["unexplained"]),
        ([1.001], [1.0000002, float("nan")], False, ["unexplained"]),
    ],
)
def test_what_losses_are_put_down_to(ours, theirs, same, classes):
    found = of_steps([[1.0000001]], [[v] for v in theirs], [[v] for v in ours], [1.0], same)
    assert [what for what, _ in found] == classes


def test_a_ranking_model():
    """Forward and backward at two sizes of a batch, and steps of an optimiser."""
    result = measure("Ranking5", "cpu", "aot_eager", batches=(7, 6))
    assert "batch_linear_lhs" in result["patterns"]
    assert result["unexplained"] == []
    assert result["reference"] == ["float64"] * 2
    assert result["compared"]["outputs"] == 1
    assert result["compared"]["gradients"] > 20
    assert result["bits"]["theirs"] == 0
    assert result["graphs"] == 1  # for both batches
    assert [len(run) for run in result["steps"]["ours"]] == [5, 5]
    assert result["apart"] == {"eager": 0, "theirs": 0, "ours": 0}
    assert not result["one graph"] and not result["compiled again"]
    assert row(result).startswith("| Ranking5 |")


def test_what_eager_cannot_run_is_not_judged():
    with pytest.raises(RuntimeError, match="eager raises RuntimeError: no"):
        Judge(_raising, lambda: [torch.ones(3, requires_grad=True)])
    with pytest.raises(RuntimeError, match="eager has no gradient"):
        Judge(torch.sin, lambda: [torch.ones(3)])


def _raising(x):
    raise RuntimeError("no")


def test_a_buffer_is_judged_by_float64():
    """A mean that is a rounding off is no difference, one that is more is."""

    def normalised(x, mean, scale=1.0):
        mean.mul_(0.9).add_(x.mean(0) * 0.1 * scale)
        return x - x.mean(0)

    def inputs():
        return [torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_(), torch.ones(4) / 3]

    judge = Judge(normalised, inputs)
    assert judge.counts == {"outputs": 1, "gradients": 1, "buffers": 1}

    def other(scale):
        return observe(lambda x, mean: normalised(x, mean, scale), inputs())

    assert judge(other(1.0)) == (0, [])
    assert judge(other(1.0 + 1e-6)) == (1, [])
    bits, lines = judge(other(1.01))
    assert bits == 1
    assert [line.partition(":")[0] for line in lines] == ["input 1 after the call"]
    assert "float64 says" in lines[0]


def test_a_row_is_written_as_soon_as_it_is_known(tmp_path, monkeypatch):
    """In an order in which the slowest models are first, with the error of a model that failed."""
    out = tmp_path / "table.md"
    seen = []

    def apart(name, a, deadline):
        for _ in range(500):
            rows = out.read_text().count("failed") if out.exists() else 0
            if rows == len(seen):
                break
            time.sleep(0.02)
        seen.append((name, rows))
        return {"model": name, "error": "failed"}

    monkeypatch.setattr(model_table, "apart", apart)
    monkeypatch.setattr("sys.argv", ["model_table", "--models", "DIN,mamba,ONN", "--out", str(out)])
    assert model_table.main() == 1
    assert [name for name, _ in seen] == ["mamba", "ONN", "DIN"]
    assert [count for _, count in seen] == [0, 1, 2]
    assert out.read_text().count("| failed |") == 3


def test_when_there_is_no_time_left(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["model_table", "--models", "DIN,MLR", "--total", "0"])
    assert model_table.main() == 1
    assert capsys.readouterr().out.count("not started, there was no time left") == 2


def test_a_compiler_that_cannot_run_a_model_is_an_error():
    """Of both ways raising nothing would be compared."""

    def refusing(gm, inputs):
        raise NotImplementedError("not this")

    with pytest.raises(RuntimeError, match="alone raises BackendCompilerFailed"):
        measure("Ranking5", "cpu", refusing, batches=(7,))


class Noisy:
    """A compiler whose result is off by ``noise(compile, call)``, as a part of it, both counted from 1."""

    def __init__(self, noise):
        self.noise, self.compiled = noise, 0

    def __call__(self, gm, inputs):
        self.compiled += 1
        calls, number = iter(range(1, 10**6)), self.compiled

        def run(*args):
            off = self.noise(number, next(calls))
            return tuple(o * (1 + off) for o in gm.forward(*args))

        return run


def mixed(x, w):
    a, b = torch.split(x, [3, 5], 1)
    return (torch.cat([a, b], 1) + torch.cat([b, a], 1).cos()) @ w


@pytest.fixture
def a_small_model(monkeypatch):
    """In place of all models: a function of one parameter that has a split and two cats."""

    def inputs():
        return [torch.randn(8, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()]

    given = (torch.randn(9, 8, generator=torch.Generator().manual_seed(0)),)
    small = three_ways.Model(lambda w, x: mixed(x.to(w.dtype), w), inputs, given, (9, 7))
    monkeypatch.setattr(three_ways.Model, "of", lambda *_: small)


NOTHING, WRONG = Plan(), Plan((OrderIgnored(),))


@pytest.mark.usefixtures("a_small_model")
class TestPlanted:
    """Compilers that are not the same twice, and faults beside them."""

    def classes(self, noise, plan):
        found = measure("small", "cpu", Noisy(noise), plan=plan)
        return found, {name for name in ("nondeterministic", "same graph", "the compiler's", "unexplained") if found[name]}

    def test_nothing(self):
        found, classes = self.classes(lambda *_: 0.0, NOTHING)
        assert classes == set()
        assert found["one graph"]
        assert found["apart"] == {"eager": 0, "theirs": 0, "ours": 0}
        assert not found["compiled again"]

    def test_another_result_with_each_call(self):
        """The first result of the compiler alone is right, and so is the first one behind optimus: only running twice shows it."""
        found, classes = self.classes(lambda compiled, call: 1e-3 * ((compiled + call) % 3), Plan.of("mutate_cat_pass"))
        assert "unexplained" not in classes
        assert classes
        assert not found["one graph"] and found["rewrites"]
        assert found["apart"]["theirs"] and found["apart"]["ours"] and not found["apart"]["eager"]
        assert found["furthest"]["theirs"] > 1

    def test_another_result_with_each_compile(self):
        """Of the compiler alone, the second compile tells."""
        found, classes = self.classes(lambda compiled, _: 0.0 if compiled == 1 else 1e-3, NOTHING)
        assert found["compiled again"]
        assert classes == {"the compiler's"} or classes == {"nondeterministic", "the compiler's"}

    def test_the_graph_is_the_same_and_the_compiler_alone_moves_less(self):
        """Within what is allowed, it is not the same twice; behind optimus it is further off, with the same graph."""
        noise = {2: 1e-3}
        found, classes = self.classes(lambda compiled, call: noise.get(compiled, 6e-8 * (call % 2)), NOTHING)
        assert classes == {"same graph"}
        assert found["compiled again"]

    def test_the_graph_is_the_same_and_the_compiler_alone_is_the_same_each_time(self):
        """Then something else than the graph differs."""
        found, classes = self.classes(lambda compiled, _: 1e-3 if compiled == 2 else 0.0, NOTHING)
        assert classes == {"unexplained"}
        assert found["one graph"] and found["compiled again"]

    @pytest.mark.parametrize("noise", [0.0, 6e-8, 1e-5])
    def test_a_fault_beside_noise(self, noise):
        found, classes = self.classes(lambda compiled, call: noise * ((compiled + call) % 2), WRONG)
        assert "unexplained" in classes
        assert any("output 0" in line for line in found["unexplained"])
        assert any("step" in line for line in found["unexplained"])
        assert not found["one graph"]

    def test_a_fault_that_comes_and_goes(self):
        """Behind optimus the second run alone is wrong."""
        found, classes = self.classes(lambda compiled, call: 1e-3 * (compiled == 2 and call == 2), Plan.of("mutate_cat_pass"))
        assert classes == {"unexplained"}
        assert found["apart"]["ours"]

    def test_a_compiler_in_its_stead(self, monkeypatch):
        def refusing(gm, inputs):
            raise NotImplementedError("not this")

        monkeypatch.setitem(three_ways.INSTEAD, "refusing", ("aot_eager",))
        torch._dynamo.register_backend(refusing, name="refusing")
        found = measure("small", "cpu", "refusing", plan=WRONG)
        assert found["compiler"] == "aot_eager"
        assert "refusing alone raises" in found["refused"]
        assert found["unexplained"]
        assert "small (by aot_eager)" in row(found)

    @pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
    def test_graphs_that_compilers_get(self, compiler):
        assert measure("small", "cpu", compiler, plan=NOTHING)["one graph"]
        assert not measure("small", "cpu", compiler, plan=WRONG)["one graph"]
