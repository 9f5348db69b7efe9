"""Passes that are not ours as subjects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from optimus.pattern import IR
from tests import foreign_passes
from verify import foreign, shipped, standalone
from verify.cli import main


def test_what_pytorch_ships():
    known = shipped.shipped()
    assert known["batch_tanh"] is IR.TORCH
    assert known["decompose_mm_pass"] is IR.ATEN
    assert "shape_padding_multiplier" not in known
    for name in known:
        assert shipped.subject(name).cases


@pytest.mark.parametrize("command", [["shipped", "no_such_pass"], ["--pattern", "inductor:no_such_pass"]])
def test_a_pass_that_this_version_lacks(command, capsys):
    assert main(command) == 2
    assert f"PyTorch {torch.__version__} ships no pass of this name; it has" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, needle",
    [
        ("batch_aten_sub", "elements differ"),  # alpha is dropped
        ("decompose_mm_pass", "elements differ"),  # alpha and beta are dropped
        ("unbind_stack_to_slices_pass", "raises: nothing became"),
    ],
)
def test_known_faults_are_found_and_replayed(name, needle, tmp_path):
    found = foreign.judge(shipped.subject(name), 40)
    assert found.verdict == "refuted"
    assert any(needle in d for d in found.differences)
    assert found.program is not None and found.program.size() <= 5
    file = tmp_path / "fault.py"
    file.write_text(standalone.script(found.program, shipped.subject(name), found.differences, found.dynamic))
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)
    assert run.returncode == 1, run.stderr
    assert "Inductor with it" in run.stdout


def test_a_pass_that_changes_nothing_was_never_seen_to_fire(monkeypatch):
    monkeypatch.setattr("verify.fuzzing.GRACE_S", 6.0)
    found = foreign.judge(foreign.FunctionPass("nothing", foreign_passes.nothing), 3)
    assert found.verdict == "never fired"
    assert found.tried > 10


def test_a_right_pass_and_a_wrong_one(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    right, wrong, both = foreign.functions("tests.foreign_passes:PASSES", IR.TORCH)
    assert foreign.judge(right, 8).verdict == "nothing found"
    for subject in (wrong, both):
        found = foreign.judge(subject, 30)
        assert found.verdict == "refuted"
        assert found.program is not None and found.program.size() <= 5


def test_what_torch_compile_does_not_show_is_put_aside(monkeypatch):
    monkeypatch.setattr(foreign, "replayed", lambda backend, program, dynamic: ())
    found = foreign.judge(foreign.FunctionPass("wrong", foreign_passes.tanh_for_sigmoid), 8)
    assert found.verdict == "not confirmed"
    assert found.dismissed


def test_what_inductor_does_without_the_pass_is_put_aside(monkeypatch):
    monkeypatch.setattr(foreign, "replayed", lambda backend, program, dynamic: ("output 0: dtype",))
    found = foreign.judge(foreign.FunctionPass("wrong", foreign_passes.tanh_for_sigmoid), 8)
    assert found.verdict == "not confirmed"
    assert found.dismissed


@pytest.mark.parametrize("text", ["tests.foreign_passes", "no.module:NAME", "tests.foreign_passes:MISSING", "tests.foreign_passes:NO_FUNCTIONS"])
def test_what_is_no_pass_is_one_line(text, capsys):
    assert main(["wrap", text]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "function, needle",
    [
        (foreign_passes.raises, "RuntimeError: boom"),
        (foreign_passes.without_an_output, "0 outputs; accepted is one"),
        (foreign_passes.not_printable, "IndexError"),
        (foreign_passes.a_number, "returned int; accepted are None, a Graph and a GraphModule"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_a_pass_must_not_do_is_a_fault_of_it(function, needle):
    found = foreign.judge(foreign.FunctionPass("wrong", function), 20)
    assert found.verdict == "refuted"
    assert any(needle in d for d in found.differences)


def test_a_module_with_attributes_of_its_own_may_be_returned():
    found = foreign.judge(foreign.FunctionPass("right", foreign_passes.times_an_attribute), 8)
    assert found.verdict == "nothing found"


def test_where_nothing_can_be_written_is_said_first(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for given in (["--json", str(tmp_path)], ["--json", str(tmp_path / "no" / "file")], ["--out", str(tmp_path / "file")]):
        assert main(["wrap", "tests.foreign_passes:nothing", *given]) == 2
        assert given[1] in capsys.readouterr().err


def test_a_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "passes_of_mine.py").write_text("def nothing(graph): pass")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.chdir(tmp_path)
    (found,) = foreign.functions("passes_of_mine:nothing", IR.TORCH)
    assert found.name == "passes_of_mine:nothing"


def test_the_table(tmp_path, capsys):
    out, result = tmp_path / "out", tmp_path / "result.json"
    assert main(["shipped", "inductor:batch_aten_sub", "--budget", "20s", "--out", str(out), "--json", str(result)]) == 1
    assert "refuted" in capsys.readouterr().out
    (found,) = json.loads(result.read_text())["passes"]
    assert found["verdict"] == "refuted" and "torch.sub" in found["program"]
    assert (out / "batch_aten_sub.py").exists()
    assert "| `inductor:batch_aten_sub` |" in (out / "README.md").read_text()
