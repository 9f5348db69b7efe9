"""The commands over a corpus: what is added is plain and replays, and what is cut down still does the same."""

from __future__ import annotations

import json

import pytest
import torch

from fuzz.program import Input, Program, Step, Var
from verify import findings
from verify.cli import main
from verify.corpus import entry
from verify.fuzzing import Finding
from verify.scaffold import TEMPLATE

OWN = '''"""Two pieces in the other order."""

import torch


def make_inputs():
    return (torch.arange(12.0).reshape(3, 4),)


def program(x):
    """They stay so."""
    y = torch.tanh(x)
    there_and_back = torch.transpose(torch.transpose(x, 0, 1), 0, 1)
    return there_and_back * 2, y, y + 1
'''
MODELS = """
import torch

def small():
    model = torch.nn.Linear(4, 4)
    return (lambda x: torch.cat(torch.split(model(x), 2, dim=1), dim=1) * 2), (torch.randn(3, 4),)

def breaks():
    def model(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1
    return model, (torch.randn(3),)
"""
WRONG = TEMPLATE.format(name="turned", cls="Turned").replace("match.found)", "tx.call(torch.flip, match.found, [0]))")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "zoo_of_models.py").write_text(MODELS)
    (tmp_path / "turned.py").write_text(WRONG)
    return tmp_path


ADD = ["corpus", "add", "own.py", "--name", "own_case", "--what", "the order was lost", "--broke", "a pass", "--right", "the order is kept"]


def test_a_file_is_added_and_replayed(here, capsys):
    assert main(ADD) == 0
    assert capsys.readouterr().out == "corpus/own_case written; optimus-verify corpus replay own_case\n"
    assert sorted(p.name for p in (here / "corpus" / "own_case").iterdir()) == ["fault.json", "program.py"]
    about = json.loads((here / "corpus" / "own_case" / "fault.json").read_text())
    assert about == {"what": "the order was lost", "broke": "a pass", "address": None, "right": "the order is kept"}
    assert main(["corpus", "replay"]) == 0
    assert "1 entries, " in capsys.readouterr().out


def test_a_find_is_added_with_its_values_written_out(here):
    program = Program((Input("x", (2, 3), special=True),), (Step("a", torch.neg, (Var("x"),)),), ("a",))
    folder = findings.save(Finding(program, ("output 0: it differs",), "", ""), "split_cat_pass")
    assert main(["corpus", "add", str(folder), "--name", "found_case", "--right", "it is negated"]) == 0
    found = entry(here / "corpus" / "found_case")
    assert (found.about["broke"], found.about["what"]) == ("split_cat_pass", "output 0: it differs")
    text = (here / "corpus" / "found_case" / "program.py").read_text()
    assert "torch.tensor([[" in text and "Input" not in text
    (again,) = found.make_inputs()
    assert torch.equal(torch.nan_to_num(again), torch.nan_to_num(program.make_inputs()[0]))
    assert found.program(again)[0].shape == (2, 3)


def test_a_wrong_rule_is_seen_and_the_program_cut_down(here, capsys):
    assert main(ADD) == 0
    assert main(["corpus", "replay", "own_case", "--rule", "turned.py:Turned"]) == 1
    assert "own_case: output 0: " in capsys.readouterr().out
    assert main(["corpus", "minimise", "own_case", "--rule", "turned.py:Turned"]) == 0
    assert "operators became " in capsys.readouterr().out
    text = (here / "corpus" / "own_case" / "program.py").read_text()
    assert "tanh" not in text and "They stay so." in text and "def make_inputs" in text
    assert main(["corpus", "replay", "own_case", "--rule", "turned.py:Turned"]) == 1
    assert main(["corpus", "replay", "own_case"]) == 0


def test_a_model_is_captured_with_what_fires(here, capsys):
    assert main(["corpus", "add", "--model", "zoo_of_models:small", "--name", "small_model"]) == 0
    found = entry(here / "corpus" / "small_model")
    assert found.is_model
    first = next(iter(found.about["fires"]))
    assert main(["corpus", "replay"]) == 0
    about = found.about | {"fires": {first: 50}}
    (here / "corpus" / "small_model" / "model.json").write_text(json.dumps(about))
    assert main(["corpus", "replay"]) == 1
    assert f"{first} fired {found.about['fires'][first]} times, and 50 times when the model was captured" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "--corpus corpus: is not there; accepted is a folder of entries"),
        (["replay", "--corpus", "empty"], "corpus empty has no entries"),
        (["replay", "--corpus", "bad", "nothing"], "corpus bad has no entry 'nothing'; it has keyless"),
        (["replay", "--corpus", "bad", "keyless"], "fault.json holds ['what']; accepted are exactly ['address', 'broke', 'right', 'what']"),
        (["replay", "--corpus", "bad", "textless"], "accepted is a folder with program.py and one of fault.json and model.json"),
        (["replay", "--corpus", "bad", "lacking"], "program.py defines make_inputs nowhere; accepted are both functions"),
        (["replay", "--corpus", "bad", "raising"], "cannot be read (ZeroDivisionError: division by zero)"),
        (["replay", "--corpus", "bad", "lacking", "--pattern", "split_cat"], "unknown pattern 'split_cat'"),
        (["add", "--name", "x"], "corpus add: give a file or folder, or --model MODULE:FACTORY"),
        (["add", "nothing.py", "--name", "x"], "corpus add nothing.py: is not there"),
        (["add", "own.py", "--name", "x"], "corpus add own.py: --what is missing; accepted is a line of text"),
        (["add", "own.py", "--name", "X", "--what", "a", "--broke", "b", "--right", "c"], "--name X: accepted is a name in lower case"),
        (
            ["add", "own.py", "--name", "x", "--what", "a", "--broke", "b", "--right", "c", "--address", "here"],
            "--address here: accepted is one that",
        ),
        (["add", "random.py", "--name", "x", "--what", "a", "--broke", "b", "--right", "c"], "the program gives other results each time"),
        (["add", "refused.py", "--name", "x", "--what", "a", "--broke", "b", "--right", "c"], "eager refuses the program (RuntimeError"),
        (["add", "--model", "zoo_of_models:breaks", "--name", "x"], "breaks into 2 graphs; accepted is one graph"),
        (["minimise", "x"], "--corpus corpus: is not there"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(here, capsys, arguments, message):
    (here / "empty").mkdir()
    for name, about, text in (
        ("keyless", {"what": "w"}, OWN),
        ("textless", None, OWN),
        ("lacking", {}, "def program(x): return x\n"),
        ("raising", {}, "1 / 0\n"),
    ):
        (here / "bad" / name).mkdir(parents=True)
        (here / "bad" / name / "program.py").write_text(text)
        full = {"what": "w", "broke": "b", "address": None, "right": "r"}
        if about is not None:
            (here / "bad" / name / "fault.json").write_text(json.dumps(about or full))
    (here / "random.py").write_text(OWN.replace("torch.tanh(x)", "torch.rand(3)"))
    (here / "refused.py").write_text(OWN.replace("torch.tanh(x)", "x.view(5)"))
    assert main(["corpus", *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (here / "corpus" / "x").exists()
