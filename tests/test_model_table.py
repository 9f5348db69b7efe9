"""The table of models: a model three ways, and what counts as unexplained."""

from __future__ import annotations

import pytest

from benchmarks.model_table import measure, row, unexplained

STEPS = {"eager": [1.0 + 1e-7], "theirs": [1.0 + 2e-7], "ours": [1.0 + 1e-6], "float64": [1.0]}


def found(mine, others, **steps):
    return {"differences": {"ours": mine, "theirs": others}, "steps": {**STEPS, **{k: [v] for k, v in steps.items()}}}


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (found([], []), 0),
        (found(["batch 8: output 0: 3 of 8 elements differ"], []), 1),
        (found(["batch 8: output 0: 3 of 8 elements differ"], ["batch 8: output 0: 3 of 8 elements differ, too"]), 0),
        (found([], ["batch 8: output 0: 3 of 8 elements differ"]), 0),
        (found(["batch 8: output 0: 7 of 8 elements differ"], ["batch 8: output 0: 1 of 8 elements differ"]), 0),
        (found(["batch 8: output 0: 9 of 99 elements differ"], ["batch 8: output 0: 1 of 99 elements differ"]), 1),
        (found(["batch 8: output 0: shape (2,) became (3,)"], ["batch 8: output 0: 1 of 99 elements differ"]), 1),
        (found([], [], ours=1.001), 1),
        (found([], [], ours=float("nan")), 1),
        (found([], [], ours=1.001, theirs=1.001), 0),
    ],
)
def test_what_is_unexplained(given, count):
    assert len(unexplained(given)) == count


def test_a_ranking_model():
    """Forward and backward at two sizes of a batch, and steps of an optimiser."""
    result = measure("Ranking5", "cpu", "aot_eager", batches=(6, 5))
    assert "batch_linear_lhs" in result["patterns"]
    assert result["unexplained"] == []
    assert result["reference"] == ["float64"] * 4
    assert len(result["steps"]["ours"]) == 5
    assert row(result).startswith("| Ranking5 |")
