"""Rules from outside: what can be wrong with them is said in one line, and a right one is judged like a registered pattern."""

from __future__ import annotations

import json
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from torch.fx import Graph

import optimus
from optimus.plan import lookup, on_graphs
from tests.processes import environment, python
from verify.cli import UsageError, main
from verify.differential import differential
from verify.judgement import judge
from verify.rules import RuleSubject, Watch, fingerprint, rule_subject, told_apart, vet
from verify.rules_loading import load, load_rule
from verify.scaffold import TEMPLATE

GOOD = TEMPLATE.format(name="good_rule", cls="GoodRule")
HEAD = GOOD[: GOOD.index("    def find(")].replace("good_rule", "bad_rule").replace("GoodRule", "BadRule")
SOUND = textwrap.indent(textwrap.dedent(GOOD[GOOD.index("    def find(") : GOOD.index("    @staticmethod")]), "    ")
FIND = SOUND[: SOUND.index("    def rewrite(")]
REWRITE = SOUND[SOUND.index("    def rewrite(") :]


def write(folder: Path, text: str, name: str = "bad.py") -> str:
    (folder / name).write_text(text)
    return f"{name}:BadRule"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own; what is imported from there is forgotten."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def refusal(*arguments: str) -> str:
    with pytest.raises(UsageError) as refused:
        load(*arguments)
    assert "\n" not in str(refused.value)
    return str(refused.value)


class TestLoading:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("nothing.py:Rule", "rule nothing.py:Rule: the file nothing.py is not there; accepted is a file of Python"),
            ("nothing", "rule nothing: accepted is FILE.py:NAME or MODULE:NAME, such as rules.py:MyRule"),
            ("good.py", "rule good.py: accepted is FILE.py:NAME"),
            ("good.py:", "rule good.py:: accepted is FILE.py:NAME"),
            ("good.py:Missing", "good.py has no class Missing; it has GoodRule"),
            ("good.py:further_round", "is a Case; accepted is a class derived from"),
            ("good.py:dataclass", "is a function; accepted is a class derived from"),
            ("good.py:Match", "is the class Match; accepted is"),
            ("raises.py:BadRule", "raises cannot be imported (ZeroDivisionError: division by zero)"),
            ("leaves.py:BadRule", "leaves cannot be imported (SystemExit: 3)"),
            ("syntax.py:BadRule", "syntax cannot be imported (SyntaxError: "),
            ("no_such_module_here:Rule", "no_such_module_here cannot be imported (ModuleNotFoundError"),
            ("nameless.py:BadRule", "name is None; accepted is a text"),
            ("spaced.py:BadRule", "name is 'bad rule'; accepted is a text, an identifier"),
            ("findless.py:BadRule", "BadRule does not define find(); accepted is a pattern that does"),
            ("caseless.py:BadRule", "cases holds 7; accepted are programs marked by optimus.fires"),
            ("optional.py:BadRule", "cannot be made with its default options (ValueError: size)"),
            ("level.py:BadRule", "ir is 'aten'; accepted is a member of optimus.pattern.IR"),
            ("lower.py:BadRule", "'group_kernels' is the name of a registered pattern"),
            ("known.py:BadRule", "'split_cat_pass' is the name of a registered pattern; accepted is a name of its own"),
        ],
    )
    def test_one_line(self, here, text, message):
        write(here, GOOD, "good.py")
        write(here, "1 / 0\n", "raises.py")
        write(here, "raise SystemExit(3)\n", "leaves.py")
        write(here, "def (:\n", "syntax.py")
        write(here, (HEAD + SOUND).replace('    name = "bad_rule"\n', ""), "nameless.py")
        write(here, (HEAD + SOUND).replace('name = "bad_rule"', 'name = "bad rule"'), "spaced.py")
        write(here, HEAD + REWRITE, "findless.py")
        write(here, (HEAD + SOUND).replace("cases = (there_and_back,)", "cases = (7,)"), "caseless.py")
        write(
            here, (HEAD + SOUND).replace("    name =", "    def __post_init__(self):\n        raise ValueError('size')\n\n    name ="), "optional.py"
        )
        write(here, (HEAD + SOUND).replace('name = "bad_rule"', 'name = "split_cat_pass"'), "known.py")
        write(here, (HEAD + SOUND).replace('name = "bad_rule"', 'name = "group_kernels"'), "lower.py")
        write(here, (HEAD + SOUND).replace("    name =", "    ir = 'aten'\n    name ="), "level.py")
        assert message in refusal([text])

    def test_a_file_a_module_and_a_folder(self, here):
        write(here, GOOD, "good.py")
        (here / "pack").mkdir()
        (here / "pack" / "__init__.py").write_text("")
        (here / "pack" / "helper.py").write_text("WANTED = {'transpose'}\n")
        write(here / "pack", "from .helper import WANTED\n" + (HEAD + SOUND), "inner.py")
        assert load_rule("good.py:GoodRule").pattern.name == "good_rule"
        assert load_rule("pack/inner.py:BadRule").pattern.name == "bad_rule"
        assert load_rule("pack.inner:BadRule").pattern.name == "bad_rule"
        assert [r.source for r in load([], ["."])] == ["good.py:GoodRule", "pack/inner.py:BadRule"]

    def test_folders(self, here):
        (here / "empty").mkdir()
        assert "--rule-dir nowhere: is not there; accepted is a folder" in refusal([], ["nowhere"])
        assert "--rule-dir empty: no file there holds a rule" in refusal([], ["empty"])
        write(here / "empty", "x = 1 / 0\n", "script.py")  # it does not mention optimus, and is not run
        write(here / "empty", "import optimus\n1 / 0\n", "test_rules.py")
        assert "no file there holds a rule" in refusal([], ["empty"])
        write(here / "empty", "import optimus\n1 / 0\n", "rules.py")
        assert "rules cannot be imported (ZeroDivisionError" in refusal([], ["empty"])

    def test_two_of_one_name(self, here):
        write(here, GOOD, "one.py")
        write(here, GOOD, "two.py")
        message = "two rules are called 'good_rule': one.py:GoodRule and two.py:GoodRule; accepted are rules of different names"
        assert refusal(["one.py:GoodRule", "two.py:GoodRule"]) == message
        assert message in refusal([], ["."])
        assert len(load(["one.py:GoodRule", "one.py:GoodRule"])) == 1

    def test_a_file_called_as_a_module_that_is_there(self, here):
        write(here, GOOD, "json.py")
        assert load_rule("json.py:GoodRule").pattern.name == "good_rule"
        assert json.loads("1") == 1

    def test_an_import_that_hangs(self, here, monkeypatch):
        monkeypatch.setattr("verify.rules_loading.IMPORT_S", 0.3)
        write(here, "while True: pass\n")
        assert "cannot be imported (RuleHangError: the import of bad did not come back within 0.3 s)" in refusal(["bad.py:BadRule"])

    def test_nothing_chosen_and_both_chosen(self, here, capsys):
        assert main(["--rule-dir", "nowhere"]) == 2
        assert capsys.readouterr().err.startswith("optimus-verify: --rule-dir nowhere: is not there")
        assert main(["--rule", "nothing.py:Rule", "--rule-timeout", "0"]) == 2
        assert "--rule-timeout 0: accepted is" in capsys.readouterr().err


HANGS = "    def find(self, node, state):\n        while True:\n            pass\n\n"
SWALLOWS = """    def find(self, node, state):
        while True:
            try:
                node = node
            except Exception:
                pass

"""
REWRITE_HANGS = "    def rewrite(self, match, tx):\n        while True:\n            pass\n"
RAISES = '    def find(self, node, state):\n        raise KeyError("dim0")\n\n'
REWRITE_RAISES = '    def rewrite(self, match, tx):\n        raise ValueError("no such dim")\n'
MUTATES = """    def find(self, node, state):
        node.args = (node.args[0], node.args[2], node.args[1])
        return None

"""
DECLINES_AND_MUTATES = MUTATES.replace("return None", 'return Decline("same_dims")')
NEVER = "    def find(self, node, state):\n        return None\n\n"
REFUSES = '    def find(self, node, state):\n        return Decline("same_dims", "always")\n\n'
FLAKY = FIND.replace(
    "        outer, inner", "        global TURN\n        TURN += 1\n        if TURN % 3 == 0:\n            return None\n        outer, inner"
)

VETTED = [
    ("hangs in find", HANGS + REWRITE, "refuted", "HANGS - on there_and_back: bad_rule.find() did not come back within 1 s"),
    ("hangs and takes no interrupt at first", SWALLOWS + REWRITE, "refuted", "HANGS - on there_and_back: "),
    ("hangs in rewrite", FIND + REWRITE_HANGS, "refuted", "HANGS - on there_and_back: bad_rule.rewrite() did not come back within 1 s"),
    ("raises in find", RAISES + REWRITE, "refuted", "RAISES - on there_and_back: KeyError: 'dim0'"),
    ("raises in rewrite", FIND + REWRITE_RAISES, "refuted", "RAISES - on there_and_back: ValueError: no such dim"),
    ("mutates", MUTATES + REWRITE, "refuted", "MUTATES - on there_and_back: bad_rule.find() changed a graph that it declined: transpose"),
    ("mutates and declines", DECLINES_AND_MUTATES + REWRITE, "refuted", "MUTATES - on there_and_back: bad_rule.find() changed a graph"),
    ("never fires", NEVER + REWRITE, "vacuous", "NEVER FIRES - none of the 1 cases of bad_rule was rewritten; it found no place"),
    ("always declines", REFUSES + REWRITE, "vacuous", "NEVER FIRES - none of the 1 cases of bad_rule was rewritten; declined for same_dims (always)"),
    ("is flaky", "    pass\n\n" + FLAKY + REWRITE, "refuted", "FLAKY - on there_and_back: bad_rule made "),
]


class TestVetting:
    @pytest.mark.parametrize(("body", "verdict", "line"), [v[1:] for v in VETTED], ids=[v[0] for v in VETTED])
    def test_said_as_what_it_is(self, here, body, verdict, line):
        text = HEAD + body
        text = text.replace("@dataclass", "TURN = 0\n\n\n@dataclass") if "TURN" in body else text
        rule = load_rule(write(here, text)).pattern
        found = judge(rule_subject(rule, 1.0), budget_s=1.0)
        assert found.verdict == verdict
        assert f"bad_rule: {line}" in found.line
        assert "\n" not in found.line
        assert found.to_json()["fault"]["kind"].upper() == line.split(" - ")[0]

    def test_no_cases(self, here):
        rule = load_rule(write(here, (HEAD + SOUND).replace("cases = (there_and_back,)", "cases = ()"))).pattern
        found = judge(rule_subject(rule), budget_s=1.0)
        assert (found.verdict, found.line[:24]) == ("vacuous", "bad_rule: NO CASES - bad")

    def test_a_case_that_cannot_be_captured(self, here):
        rule = load_rule(write(here, (HEAD + SOUND).replace("torch.transpose(x.transpose(0, 2), 2, 0) * 2", "torch.nothing(x)"))).pattern
        found = judge(rule_subject(rule), budget_s=1.0)
        assert found.verdict == "refuted"
        assert "bad_rule: RAISES - there_and_back cannot be captured: " in found.line

    def test_the_command_goes_on_and_exits_with_the_truth(self, here, capsys):
        write(here, HEAD + HANGS + REWRITE)
        write(here, (HEAD + NEVER + REWRITE).replace("bad_rule", "silent_rule"), "silent.py")
        assert main(["--rule", "bad.py:BadRule", "--rule", "silent.py:BadRule", "--rule-timeout", "1s", "--junit", "out.xml"]) == 1
        text = " ".join(capsys.readouterr().out.split())
        assert "bad_rule: HANGS - on there_and_back" in text
        assert "silent_rule: NEVER FIRES" in text
        assert main(["--rule", "silent.py:BadRule"]) == 3
        suites = ElementTree.parse("out.xml").getroot().findall("testsuite")
        assert [(s.get("failures"), s.get("errors")) for s in suites] == [("1", "0"), ("0", "1")]

    def test_native_code_that_hangs_ends_the_process_with_one_line(self, here):
        body = HANGS.replace(
            "while True:\n            pass",
            "import threading, _thread\n        lock = threading.Lock()\n        lock.acquire()\n        Blocked(lock)",
        )
        blocked = "import signal\n\n\ndef Blocked(lock):\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    lock.acquire()\n\n\n"
        write(here, (HEAD + body + REWRITE).replace("@dataclass", blocked + "@dataclass"))
        done = python("-m", "optimus_verify", "--rule", "bad.py:BadRule", "--rule-timeout", "0.5s", env=environment(), timeout=120)
        assert done.returncode == 1
        lines = done.stderr.strip().splitlines()
        assert lines[-1] == "optimus-verify: bad_rule.find() hangs: it did not come back within 2 s and takes no interrupt"

    @pytest.mark.parametrize("pattern", on_graphs(), ids=lambda p: p.name)
    def test_registered_patterns_behave(self, pattern):
        assert vet(rule_subject(pattern)) is None

    def test_a_rule_of_aten_ir_meets_the_joint_graph_too(self, here):
        text = (HEAD + SOUND).replace("    name =", "    ir = optimus.pattern.IR.ATEN\n    name =")
        assert vet(rule_subject(load_rule(write(here, text)).pattern)) is None
        raises = "        if len(node.graph.output_node().args[0]) > 1:  # gradients stand behind the output\n            raise KeyError('grad')\n"
        text = text.replace("        outer, inner", raises + "        outer, inner")
        found = vet(rule_subject(load_rule(write(here, text, "joint.py").replace("bad.py", "joint.py")).pattern))
        assert str(found) == "RAISES - on there_and_back: KeyError: 'grad'"

    def test_flaky_on_programs_that_no_case_is(self, here):
        body = FLAKY.replace("if TURN % 3 == 0:", "if of_one_row(node) and TURN % 3 == 0:")
        text = (HEAD + body + REWRITE).replace(
            "@dataclass", "TURN = 0\n\n\ndef of_one_row(node):\n    return (fake := tensor(node)) is not None and fake.shape[0] == 1\n\n\n@dataclass"
        )
        found = judge(RuleSubject(load_rule(write(here, text)).pattern, watch=Watch()), budget_s=60.0)
        assert found.verdict == "refuted"
        assert "MisbehavedError: bad_rule made two things of the same graph" in found.line or "FLAKY" in found.line


class TestJudging:
    def test_a_wrong_rule_is_refuted_shown_and_replayed(self, here, capsys):
        write(
            here,
            (HEAD + SOUND).replace("tx.replace(match.nodes[-1], match.found)", "tx.replace(match.nodes[-1], tx.call(torch.flip, match.found, [0]))"),
        )
        assert main(["--rule", "bad.py:BadRule", "--budget", "4s", "--junit", "out.xml", "--json", "out.json"]) == 1
        text = capsys.readouterr().out
        assert "bad_rule: REFUTED by proof" in text
        found = json.loads((here / "out.json").read_text())["patterns"][0]
        assert found["fuzz"]["finding"] is not None
        (failure,) = [c.find("failure") for c in ElementTree.parse("out.xml").getroot().iter("testcase") if c.get("name") == "fuzz"]
        shown = failure.text
        assert "replay: python optimus-failures/bad_rule-" in shown
        code = shown[shown.index("import torch") : shown.index("\n\nreplay:")]
        exec(compile(code, "<pasted>", "exec"), {})
        assert "# shape (" in code
        command = shown[shown.index("replay: ") + 8 :].split()
        done = python(*command[1:], env=environment())
        assert done.returncode == 1, done.stderr
        assert "became" in done.stdout or "differ" in done.stdout or "shape" in done.stdout

    def test_the_template_is_proved_as_it_is(self, here, capsys):
        assert main(["new", "my_rule"]) == 0
        assert capsys.readouterr().out == "my_rule.py written; it is proved as it is: optimus-verify --rule my_rule.py:MyRule\n"
        assert main(["--rule", "my_rule.py:MyRule", "--budget", "4s"]) == 0
        assert "my_rule: PROVED - the rule in general and 1 cases for all sizes" in " ".join(capsys.readouterr().out.split())

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["new", "MyRule"], "new MyRule: accepted is a name in lower case such as my_rule"),
            (["new", "class"], "new class: accepted is a name in lower case"),
            (["new", "my_rule", "--dir", "nowhere"], "new my_rule: nowhere is not there; accepted is a folder that is there"),
            (["new", "there"], "new there: there.py is there already; accepted is a new name"),
        ],
    )
    def test_new_refuses(self, here, capsys, arguments, message):
        (here / "there.py").write_text("x = 1\n")
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
        assert (here / "there.py").read_text() == "x = 1\n"


def test_fingerprints_tell_graphs_apart():
    from fuzz.templates import captured

    one, other = (captured(c) for c in optimus.patterns()["split_cat_pass"].cases[:2])
    assert fingerprint(one.graph) == fingerprint(one.graph)
    assert fingerprint(one.graph) != fingerprint(other.graph)


def test_copies_whose_new_nodes_have_other_names_are_the_same():
    def made(name, function=torch.tanh, of="x"):
        graph = Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        graph.output((graph.create_node("call_function", function, ({"x": x, "y": y}[of],), name=name), 1))
        return graph

    assert told_apart(made("tanh"), made("tanh_5")) is None
    assert (
        told_apart(made("tanh"), made("tanh", torch.relu))
        == "%tanh : [num_users=1] = call_function[target=torch.tanh](args = (%x,), kwargs = {}) stands more often here"
    )
    assert told_apart(made("tanh"), made("tanh", of="y")) is not None


@pytest.mark.parametrize("name", ["batch_tanh", "batch_relu", "split_cat_pass"])
def test_a_rule_behind_a_compiler_is_not_called_flaky_for_names(name):
    runs = list(differential(rule_subject(lookup(name)), ("aot_eager",), most=2))
    assert [run.ours for run in runs] == [(), ()]
    assert all(run.fired for run in runs)
