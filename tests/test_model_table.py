"""The table of models: a model three ways, and what counts as unexplained."""

from __future__ import annotations

import time

import pytest
import torch

from benchmarks import model_table
from benchmarks.model_table import Judge, measure, row, unexplained
from verify.compare import observe

STEPS = {"eager": [1.0 + 1e-7], "theirs": [1.0 + 2e-7], "ours": [1.0 + 1e-6], "float64": [1.0]}


def found(mine, others, **steps):
    return {"differences": {"ours": mine, "theirs": others}, "steps": {**STEPS, **{k: [v] for k, v in steps.items()}}}


def off(count, worst, where="output 0"):
    return (
        f"batch 8: {where}: {count} of 99 elements differ, first at (3,): 0.5 became 0.6; float64 says 0.5, eager is off by 0"
        f", at worst {worst:.3g} times what is allowed"
    )


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (found([], []), 0),
        (found([off(3, 2.0)], []), 1),
        (found([off(3, 2.0)], [off(1, 2.5)]), 0),
        (found([off(9, 19.0)], [off(1, 2.5)]), 0),
        (found([off(1, 21.0)], [off(9, 2.5)]), 1),
        (found([off(1, float("inf"))], [off(9, 2.5)]), 1),
        (found([off(1, 2.0)], [off(1, 2.0, "output 1")]), 1),
        (found([], [off(3, 2.0)]), 0),
        (found(["batch 8: output 0: shape (2,) became (3,)"], [off(1, 2.0)]), 1),
        (found(["batch 8: output 0: shape (2,) became (3,)"], ["batch 8: output 0: shape (2,) became (3,)"]), 0),
        (found(["batch 8: output 0: 1 of 8 elements differ, first at (1,): 3 became 4"], [off(1, 2.0)]), 1),
        (found([], [], ours=1.001), 1),
        (found([], [], ours=float("nan")), 1),
        (found([], [], ours=1.001, theirs=1.001), 0),
    ],
)
def test_what_is_unexplained(given, count):
    assert len(unexplained(given)) == count


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
    assert len(result["steps"]["ours"]) == 5
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
    assert [name for name, _ in seen] == ["ONN", "mamba", "DIN"]
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
