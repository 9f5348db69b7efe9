"""What the command line says of proofs: undecided ones, queries, and those from the cache."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType

import pytest

import optimus.plan
import verify.judgement
import verify.prover.task
from tests import small
from verify import cache as kept
from verify.cli import main
from verify.fuzzing import FuzzReport

MODEL = """
import torch

def two_towers():
    def model(x):
        a, b = torch.split(x, [4, 4], dim=1)
        return tuple(torch.cat(torch.split(t.tanh(), [1, 3], dim=1), dim=1).sin() for t in (a, b))
    return model, torch.randn(3, 8, requires_grad=True)
"""


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Judges the small pattern from the command line, without the witnesses that run programs; its exit code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    monkeypatch.setattr(verify.judgement, "hunt", lambda *args, **options: FuzzReport(tried=1, fired=1))
    monkeypatch.setattr(verify.judgement, "differential", lambda *args, **options: iter(()))

    def run(*arguments, **changes):
        pattern = small.write(tmp_path / "code", **changes).Twice()
        monkeypatch.setattr(optimus.plan, "patterns", lambda: MappingProxyType({"twice": pattern}))
        return main(["--pattern", "twice", *arguments])

    return run


def said(capsys):
    """What was printed, in one line."""
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_a_timeout_is_unknown_and_not_green(judge, capsys):
    assert judge("--solver-timeout", "0.000001s", "--json", "out.json") == 3
    text = said(capsys)
    assert "there_and_back unknown: output 0: timeout" in text
    assert "twice: UNKNOWN - unknown: output 0: timeout" in text
    (found,) = json.loads(Path("out.json").read_text())["patterns"]
    assert found["verdict"] == found["proof"][0]["verdict"] == "unknown"
    assert found["edges"] is None


def test_an_operator_without_meaning_is_named_and_not_green(judge, capsys):
    assert judge(then="[[0, 1]] * 2") == 3
    text = said(capsys)
    assert "there_and_back unmodelled: indexing by tensors, lists or truth values" in text
    assert "twice: UNMODELLED - unmodelled: indexing by tensors, lists or truth values" in text


def test_solvers_that_disagree_are_an_error_that_says_which_query(judge, capsys, monkeypatch):
    monkeypatch.setattr(verify.prover.task, "confirm", lambda smt2, timeout_s: False)
    assert judge("--smt2", "queries") == 3
    disagreement = "unknown: output 0: the solvers disagree on query 1: cvc5 finds a model where z3 finds none"
    text = said(capsys)
    assert f"there_and_back {disagreement}" in text
    assert f"twice: UNKNOWN - {disagreement}" in text
    assert "(set-info :status unknown)" in Path("queries/twice/there_and_back/01.smt2").read_text()


def test_a_solver_that_gives_up_on_confirming_shows_in_the_count(judge, capsys, monkeypatch):
    monkeypatch.setattr(verify.prover.task, "confirm", lambda smt2, timeout_s: None)
    assert judge() == 0
    assert "(E0; gradients E0; 0 of " in said(capsys)


def test_queries_are_written(judge, capsys, tmp_path):
    assert judge("--smt2", "queries") == 0
    files = list((tmp_path / "queries").rglob("*.smt2"))
    assert f"twice: {len(files)} queries of 9 parts written to queries; all were asked anew" in said(capsys)


def test_the_cache_is_used_and_said(judge, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "c"))
    assert judge() == 0
    assert "cached" not in said(capsys)
    assert judge("--json", "out.json") == 0
    text = said(capsys)
    assert "there_and_back proved (E0), 1 query, 1 confirmed by a second solver, cached" in text
    assert "declined: same_dims, cached" in text
    assert "6 proved, cached" in text
    assert "cache: 4 of 4 proofs from " in text
    assert "; --no-cache proves anew" in text
    (found,) = json.loads(Path("out.json").read_text())["patterns"]
    assert found["proof"][0]["cached"]
    assert found["edges"]["cached"]
    assert judge("--no-cache") == 0
    assert "cache" not in said(capsys)
    assert judge(rewrite="assert self.limit") == 0
    assert "cache" not in said(capsys)


def test_no_cache_keeps_nothing(judge, monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "c"))
    assert judge("--no-cache") == 0
    assert not (tmp_path / "c").exists()


def test_a_folder_that_cannot_be_written_is_said_once(judge, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "file" / "c"))
    assert judge() == 0
    assert said(capsys).count("cannot be written (Not a directory); proofs are not kept there") == 1


def test_a_model_s_rewrites(tmp_path, monkeypatch, capsys):
    (tmp_path / "small_towers.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "c"))
    command = ["model", "small_towers:two_towers", "--pattern", "split_cat_pass"]
    assert main([*command, "--smt2", "q"]) == 0
    assert {f.parent.name for f in (tmp_path / "q").rglob("*.smt2")} == {"0001-split_cat_pass", "0002-split_cat_pass"}
    assert "2 of 2 rewrites proved in" in said(capsys)
    assert main(command) == 0
    text = said(capsys)
    assert "2 of 2 rewrites proved (2 cached) in" in text
    assert "cache: 2 of 2 proofs from " in text
    assert main([*command, "--solver-timeout", "0.000001", "--no-cache"]) == 3
    assert "0 of 2 rewrites proved in" in said(capsys)
