"""The command line: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import inspect
import json
import operator
import subprocess
import sys
import time

import pytest
import torch

import optimus
from fuzz.program import Input, Program, Step, Var
from optimus.passes.remove_split_with_size_one import RemoveSplitWithSizeOne
from optimus.pattern import IR
from tests.processes import environment, python
from verify import commands
from verify.cli import LEVELS, main, seconds
from verify.fuzzing import Finding, FuzzReport
from verify.judgement import Judgement
from verify.proof import Report

MODELS = """
import torch

def fine():
    return (lambda x: torch.cat(torch.split(x, [1, 2])) * 2), torch.randn(3, 2, requires_grad=True)

def raises():
    raise KeyError("weights")

def leaves():
    raise SystemExit(0)

def leaves_when_called():
    def model(x):
        raise SystemExit(0)
    return model, (torch.randn(3),)

def meta():
    return (lambda x: x * 2), (torch.ones(3, device="meta"),)

def no_pair():
    return torch.nn.Linear(2, 2)

def breaks():
    def model(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1
    return model, (torch.randn(3),)

def no_graph():
    return (lambda x: 3), (torch.randn(3),)

def bad_input():
    return torch.nn.Linear(2, 2), (torch.randn(3, 5),)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, with a module of factories."""
    (tmp_path / "zoo.py").write_text(MODELS)
    (tmp_path / "broken_module.py").write_text("import nothing_of_that_name\n")
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("zoo", None)
    yield tmp_path
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


def refused(capsys, *arguments):
    """What is printed to standard error when the command line refuses ``arguments``; nothing may be left behind."""
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("optimus-verify: ")
    return lines[0]


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "nothing to judge; give --pattern NAME or --all"),
            (["--pattern", "split_cat"], "unknown pattern 'split_cat'; nearest are split_cat_pass"),
            (["--pattern", "x", "--all"], "--pattern and --all exclude each other"),
            (["--all", "--budget", "0"], "--budget 0: accepted is a positive time such as 30s, 5m or 1h, up to 24h"),
            (["--all", "--budget=-3s"], "--budget -3s: accepted is"),
            (["--all", "--budget", "soon"], "--budget soon: accepted is"),
            (["--all", "--budget", "nan"], "--budget nan: accepted is"),
            (["--all", "--budget", "1e300"], "--budget 1e300: accepted is"),
            (["--all", "--seed", "one"], "--seed one: accepted is a whole number from 0 to 4294967295"),
            (["--all", "--seed", "4294967296"], "--seed 4294967296: accepted is"),
            (["--all", "--seed=-1"], "--seed -1: accepted is"),
            (["--all", "--device", "cpu:1"], "--device cpu:1: accepted are cpu and cuda"),
            (["--all", "--device", ""], "--device : accepted are cpu and cuda"),
            (["--all", "--json", ""], "--json is empty; accepted is a file, or - for standard output"),
            (["--all", "--json", "/dev/null"], "--json /dev/null: is no regular file; accepted is a file"),
            (["--all", "--json", "x" * 300], "cannot be written (File name too long)"),
            (["--all", "--smt2", ""], "--smt2 is empty; accepted is a folder"),
            (["--all", "--smt2", "x" * 300], "cannot be written (File name too long)"),
            (["--all", "--smt2", "new", "--json", "./new"], "--json ./new and --smt2 new are the same"),
            (["model", "zoo:fine", "--smt2", ""], "--smt2 is empty; accepted is a folder"),
            (["model", "zoo:fine", "--json", ""], "--json is empty; accepted is a file"),
            (["model", "zoo:raises", "--smt2", "new/queries"], "the factory raised KeyError: 'weights'"),
            (["--pattern", ""], "unknown pattern ''; accepted are"),
            (["--pattern"], "argument --pattern: expected one argument; see optimus-verify --help"),
            (["--patern=x"], "unrecognized arguments: --patern=x; see optimus-verify --help"),
            (["--all", "--ir", "fx"], "argument --ir: invalid choice: 'fx' (choose from 'torch', 'aten', 'inductor')"),
            (["--all", "--ir", ""], "argument --ir: invalid choice: ''"),
            (["--all", "--ir"], "argument --ir: expected one argument"),
            (["--ir", "torch"], "nothing to judge; give --pattern NAME or --all"),
            (["--pattern", "split_cat_pass", "--ir", "torch"], "--pattern and --ir exclude each other; accepted is --all --ir torch"),
            (["--ir", "torch", "list"], "--ir stands in front of list; accepted are options behind it"),
            (["list", "--ir", "fx"], "argument --ir: invalid choice: 'fx'"),
            (["explain", "batch_tanh", "--ir", "torch"], "unrecognized arguments: --ir torch"),
            (["model", "zoo:fine", "--ir", "torch"], "unrecognized arguments: --ir torch"),
            (["nothing"], "invalid choice: 'nothing'"),
            (["list", "--json", "x"], "unrecognized arguments: --json x"),
            (["--json", "x", "list"], "--json stands in front of list; accepted are options behind it"),
            (["--seed", "5", "model", "zoo:fine"], "--seed stands in front of model"),
            (["explain"], "the following arguments are required: NAME; see optimus-verify explain --help"),
            (["explain", ""], "unknown pattern ''"),
            (["model", ":f"], "model :f: accepted is MODULE:FACTORY"),
            (["model", ".:f"], "the module . cannot be imported"),
            (["model", "zoo:fine", "--budget", "3s"], "unrecognized arguments: --budget 3s"),
            (["--all", "--device", "tpu:x"], "--device tpu:x: accepted are cpu and cuda"),
            (["--all", "--json", "no/such/folder/out.json"], "--json no/such/folder/out.json: cannot be written"),
            (["--all", "--json", "."], "--json .: "),
            (["--all", "--smt2", "zoo.py"], "--smt2 zoo.py: cannot be written (File exists); accepted is a folder"),
            (["--all", "--smt2", "zoo.py/queries"], "--smt2 zoo.py/queries: cannot be written (Not a directory); accepted is a folder"),
            (["model", "zoo:fine", "--smt2", "zoo.py"], "--smt2 zoo.py: cannot be written"),
            (["--all", "--solver-timeout", "never"], "--solver-timeout never: accepted is a positive time such as 30s, 5m or 1h, up to 24h"),
            *[
                (["--all", f"--solver-timeout={time}"], f"--solver-timeout {time}: accepted is")
                for time in ("1e300", "nan", "inf", "0", "-1", "", "25h")
            ],
            (["model", "zoo:fine", "--solver-timeout", "1e300"], "--solver-timeout 1e300: accepted is"),
            (["explain", "batch_tan"], "unknown pattern 'batch_tan'; nearest are batch_tanh"),
            (["model", "zoo"], "model zoo: accepted is MODULE:FACTORY"),
            (["model", "no_such_module:f"], "the module no_such_module cannot be imported (ModuleNotFoundError"),
            (
                ["model", "broken_module:f"],
                "the module broken_module cannot be imported (ModuleNotFoundError: No module named 'nothing_of_that_name')",
            ),
            (["model", "zoo:nothing"], "zoo has no function nothing; it has fine, raises, leaves"),
            (["model", "zoo:raises"], "the factory raised KeyError: 'weights'"),
            (["model", "zoo:leaves"], "the factory raised SystemExit: 0"),
            (["model", "zoo:leaves_when_called"], "the model raised while it was captured, SystemExit: 0"),
            (["model", "zoo:meta"], "the factory returned tensors on the device meta; accepted are tensors that hold numbers"),
            (["model", "zoo:no_pair"], "the factory returned a Linear; accepted is a pair (model, inputs)"),
            (["model", "zoo:breaks"], "the model breaks into 2 graphs"),
            (["model", "zoo:no_graph"], "the model has no graph"),
            (["model", "zoo:bad_input"], "the model raised while it was captured"),
            (["model", "zoo:fine", "--pattern", "nope"], "unknown pattern 'nope'"),
        ],
    )
    def test_one_line_and_exit_code_2(self, here, capsys, arguments, message):
        before = sorted(p.name for p in here.iterdir())
        assert message in refused(capsys, *arguments)
        assert sorted(p.name for p in here.iterdir() if p.name != "__pycache__") == before

    @pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens where there is no GPU")
    def test_no_gpu(self, here, capsys):
        assert "sees no CUDA GPU here; accepted is cpu" in refused(capsys, "--all", "--device", "cuda")

    def test_as_a_module(self):
        for name in ("verify", "verify.cli"):
            done = python("-m", name, "explain", "batch_tan", env=environment())
            assert done.returncode == 2
            assert done.stderr.startswith("optimus-verify: unknown pattern 'batch_tan'")


class Other(RemoveSplitWithSizeOne):
    """One more pattern, which says that it reads another level."""

    name = "other_level"
    ir = IR.ATEN


class Lower(RemoveSplitWithSizeOne):
    """One that says that it runs on Inductor's scheduler nodes."""

    name = "lower_level"
    ir = IR.INDUCTOR


class TestLevels:
    """Which patterns ``--ir`` chooses; what is there is named by the test, since patterns of other levels come and go."""

    @pytest.fixture
    def known(self, monkeypatch):
        known = {p.name: p for p in (RemoveSplitWithSizeOne(), Other(), Lower())}
        monkeypatch.setattr(commands, "patterns", lambda: known)
        return list(known)

    @pytest.fixture
    def judged(self, monkeypatch):
        """The names of what is judged; nothing is."""
        names = []

        def judge(subject, **_):
            names.append(subject.name)
            return Judgement(subject.name, "BITWISE", Report(subject.name, ()))

        monkeypatch.setattr(commands, "judge_subject", judge)
        return names

    @pytest.mark.parametrize(("level", "there"), [("torch", 0), ("aten", 1), ("inductor", 2)])
    def test_one_level(self, known, judged, capsys, level, there):
        assert main(["list", "--ir", level]) == 0
        text = capsys.readouterr().out
        assert [name for name in known if name[:12] in text] == [known[there]]
        assert main(["--all", "--ir", level]) == 3
        assert judged == [known[there]]

    def test_all_but_those_of_which_nothing_can_be_proved(self, known, judged, capsys):
        assert main(["list"]) == 0
        text = capsys.readouterr().out
        assert all(name[:12] in text for name in known)
        assert main(["--all"]) == 3
        assert judged == known[:2]

    def test_registered_patterns(self, judged, capsys):
        everything = list(optimus.patterns().values())
        main(["--all"])
        assert judged == [p.name for p in everything if p.ir is not IR.INDUCTOR]
        judged.clear()
        main(["--all", "--ir", "inductor"])
        assert judged == [p.name for p in everything if p.ir is IR.INDUCTOR] != []
        capsys.readouterr()
        assert main(["list"]) == 0
        text = capsys.readouterr().out
        assert all(p.name in text for p in everything)
        assert text.count("[") == sum((inspect.getdoc(p) or "").split("\n\n")[0].count("[") for p in everything) > 9

    @pytest.mark.parametrize("command", [["list"], ["--all"]])
    def test_an_empty_selection_is_a_usage_error(self, known, monkeypatch, capsys, command):
        higher = {p.name: p for p in (RemoveSplitWithSizeOne(), Other())}
        monkeypatch.setattr(commands, "patterns", lambda: higher)
        message = refused(capsys, *command, "--ir", "inductor")
        assert "--ir inductor: no pattern reads graphs of this level; accepted are those of torch, aten" in message

    def test_the_levels_are_those_of_patterns(self):
        assert tuple(level.value for level in IR) == LEVELS


class TestJudge:
    def test_result_table_verdict_and_json(self, here, capsys):
        assert main(["--pattern", "unbind_stack_pass", "--budget", "3s", "--json", "out.json"]) == 0
        text = capsys.readouterr().out
        assert "unbind_stack_pass: PROVED - the rule in general and 9 cases for all sizes" in " ".join(text.split())
        assert "proof: 0 of" in text.splitlines()[0]
        found = json.loads((here / "out.json").read_text())
        (pattern,) = found["patterns"]
        assert pattern["verdict"] == "proved"
        assert pattern["fuzz"]["fired"] > 0
        (own, shared) = pattern["branches"]
        assert (own["file"], shared["file"]) == ("unbind_stack.py", "_joins.py")
        assert own["taken"] > 0
        assert own["taken"] + len(own["missing"]) == own["branches"]
        assert f"{own['taken']} of {own['branches']} branches taken" in " ".join(text.split())
        assert {c["compiler"] for c in pattern["differential"]} == {"aot_eager", "inductor"}
        assert all(not c["ours"] for c in pattern["differential"])
        assert {"torch", "z3", "cvc5", "optimus"} <= set(found["versions"])

    def test_json_on_standard_output_is_nothing_but_json(self, here, capsys):
        assert main(["--pattern", "merge_splits_pass", "--budget", "2s", "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["patterns"][0]["name"] == "merge_splits_pass"

    def test_a_find_is_kept_and_replays(self, here):
        program = Program((Input("x", (2, 3)),), (Step("a", torch.neg, (Var("x"),)),), ("a",))
        judgement = Judgement(
            "split_cat_pass", "BITWISE", Report("split_cat_pass", ()), FuzzReport(1, 1, 0, 0.0, Finding(program, ("it differs",), "", ""))
        )
        assert judgement.verdict == "refuted"
        folder = commands.save_finding(judgement)
        assert commands.save_finding(judgement) == folder
        done = python(str(folder / "replay.py"), env=environment())
        assert (done.returncode, done.stdout.strip()) == (0, "no difference, with 0 rewrites"), done.stderr

    def test_a_find_is_kept_with_options_and_symbols(self, here):
        join = (Step("a", torch.split, (Var("x"), 1)), *(Step(f"p{k}", operator.getitem, (Var("a"), k)) for k in (0, 1)))
        program = Program((Input("x", (3, 4)),), (*join, Step("b", torch.cat, ([Var("p0"), Var("p1")],)), Step("c", torch.neg, (Var("b"),))), ("c",))
        finding = Finding(program, ("it differs",), "", "", (("threshold_to_cat", 2),), True)
        folder = commands.save_finding(
            Judgement("split_cat_to_slices_pass", "BITWISE", Report("split_cat_to_slices_pass", ()), FuzzReport(1, 1, 0, 0.0, finding))
        )
        text = (folder / "replay.py").read_text()
        assert "options={'threshold_to_cat': 2}, dynamic=True" in text
        done = python(str(folder / "replay.py"), env=environment())
        assert (done.returncode, done.stdout.strip()) == (0, "no difference, with 1 rewrites"), done.stderr


class TestOthers:
    def test_list_names_every_pattern(self, capsys):
        assert main(["list"]) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in optimus.patterns())

    @pytest.mark.parametrize("name", list(optimus.patterns()))
    def test_explain_shows_requirements_and_cases(self, capsys, name):
        assert main(["explain", name]) == 0
        text = capsys.readouterr().out
        pattern = optimus.patterns()[name]
        assert all(f"  {reason}: " in text for reason in pattern.requirements)
        assert all(f"case {c.name}" in text for c in pattern.cases)
        assert text.count("  after\n") == len(pattern.cases)

    def test_model(self, here, capsys):
        assert main(["model", "zoo:fine", "--json", "out.json"]) == 0
        found = json.loads((here / "out.json").read_text())
        assert "outputs and gradients agree with eager" in found["line"]
        assert {v["verdict"] for v in found["verdicts"]} == {"proved"}
        assert "3 of 3 rewrites proved" in capsys.readouterr().out

    def test_help_answers_at_once(self):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "verify.cli", "--help"], capture_output=True, text=True, env=environment(), check=True)
        assert "--pattern" in done.stdout
        print(f"help took {time.perf_counter() - start:.2f} s")

    @pytest.mark.parametrize(("text", "expected"), [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("0.5m", 30), ("24h", 86400)])
    def test_times(self, text, expected):
        assert seconds(text, "--budget") == expected

    def test_a_file_that_is_a_link_stays_one(self, here):
        (here / "link.json").symlink_to("out.json")
        with commands._output("link.json") as write:
            write({"versions": {}})
        assert (here / "link.json").is_symlink()
        assert json.loads((here / "out.json").read_text()) == {"versions": {}}
