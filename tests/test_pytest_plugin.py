"""The plugin for pytest, in repositories of rules of their own."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from fuzz.profiles import PROFILES
from tests.processes import ROOT, environment, python
from verify.scaffold import TEMPLATE

GOOD = TEMPLATE.format(name="good_rule", cls="GoodRule")
WRONG = GOOD.replace("good_rule", "wrong_rule").replace("GoodRule", "WrongRule").replace("match.found)", "tx.call(torch.flip, match.found, [0]))")


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "good.py").write_text(GOOD)
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")
    return tmp_path


COMMAND = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "optimus_verify", "--optimus-profile", "dev")


def run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, where the plugin is registered and the search path begins with ``where``."""
    return python(*COMMAND, *arguments, where=where, env=environment(where))


def run_bare(where: Path) -> subprocess.CompletedProcess[str]:
    """The same in a process in which nothing was imported before."""
    return subprocess.run([sys.executable, *COMMAND], cwd=where, env=environment(where), capture_output=True, text=True, check=False)


def test_inert_without_an_option(repository):
    (repository / "test_own.py").write_text(
        "import sys\n\ndef test_own():\n    assert not {'torch', 'verify', 'fuzz', 'optimus'} & set(sys.modules)\n"
    )
    done = run_bare(repository)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "optimus:" not in done.stdout


def test_one_test_for_each_witness_beside_those_of_the_repository(repository):
    done = run(repository, "--optimus-rule-dir", "rules", "--junitxml", "out.xml", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    names = [c.get("name") for c in ElementTree.parse(repository / "out.xml").getroot().iter("testcase")]
    assert names == ["test_own", "rule", "proof[there_and_back]", "proof[further_round]", "general", "edges", "fuzz", "differential[aot_eager]"]
    assert "optimus: good_rule" in done.stdout


def test_a_failure_shows_program_shapes_values_and_the_command(repository):
    (repository / "rules" / "wrong.py").write_text(WRONG)
    done = run(repository, "--optimus-rule", "rules/wrong.py:WrongRule", "-m", "optimus", "-k", "fuzz or forward or proof")
    assert done.returncode == 1
    text = done.stdout
    assert "this test again: pytest --optimus-rule rules/wrong.py:WrongRule -k 'proof[there_and_back]'" in text
    assert "for n = 2, m = 2, k = 2:" in text
    shown = text[text.index("import torch") : text.index("\n\nreplay: ")]
    exec(compile(shown, "<pasted>", "exec"), {})
    assert "# shape (" in shown
    command = text[text.index("replay: python ") + 15 :].splitlines()[0]
    done = python(command, where=repository, env=environment())
    assert done.returncode == 1, done.stderr


def test_a_rule_that_misbehaves_is_said_as_what_it_is(repository):
    (repository / "rules" / "silent.py").write_text(GOOD.replace("good_rule", "silent_rule").replace('inner.op != "transpose"', "True"))
    done = run(repository, "--optimus-rule", "rules/silent.py:GoodRule", "-k", "edges or fuzz")
    assert done.returncode == 1
    assert done.stdout.count("silent_rule: NEVER FIRES - none of the 1 cases of silent_rule was rewritten") >= 2


def test_a_registered_pattern(repository):
    done = run(repository, "--optimus-pattern", "mutate_cat_pass", "-k", "mutate_cat_pass and (general or edges)")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_pattern_between_forward_and_backward(repository):
    done = run(repository, "--optimus-pattern", "activation_quantization_aten_pass", "-k", "activation and (fuzz or differential)")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimus-rule", "nothing.py:Rule"], "optimus: rule nothing.py:Rule: the file nothing.py is not there"),
        (["--optimus-pattern", "split_cat"], "optimus: --optimus-pattern: unknown pattern 'split_cat'; nearest are split_cat_pass"),
        (
            ["--optimus-pattern", "group_kernels"],
            "optimus: --optimus-pattern group_kernels: of a pattern of Inductor-IR nothing is proved; accepted is optimus-verify --pattern group_kernels",
        ),
        (["--optimus-rule-dir", "rules", "--optimus-profile", "long"], "optimus: --optimus-profile long: accepted are dev, ci, night"),
    ],
)
def test_a_usage_error_is_one_line(repository, arguments, message):
    done = run(repository, *arguments)
    assert done.returncode == 4
    assert f"ERROR: {message}" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


class TestFoldersOfThoseNames:
    @pytest.fixture
    def theirs(self, repository):
        for name in ("fuzz", "verify"):
            (repository / name).mkdir()
            (repository / name / "__init__.py").write_text("OWN = 1\n")
        (repository / "verify" / "tools.py").write_text("def helper():\n    return 7\n")
        (repository / "test_own.py").write_text("from verify.tools import helper\n\ndef test_own():\n    assert helper() == 7\n")
        return repository

    def test_inert_there(self, theirs):
        assert "1 passed" in run_bare(theirs).stdout

    def test_the_rules_are_judged_alone_and_a_line_says_so(self, theirs):
        done = run(theirs, "--optimus-rule-dir", "rules")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "7 passed" in done.stdout
        line = next(line for line in done.stdout.splitlines() if "shadow" in line)
        assert f"fuzz ({theirs / 'fuzz'}), verify ({theirs / 'verify'}): this run judges the rules alone; run the tests" in line

    def test_what_was_imported_before_is_one_line(self, theirs):
        (theirs / "conftest.py").write_text("import verify\n")
        done = run(theirs, "--optimus-rule-dir", "rules")
        assert done.returncode == 4
        assert f"the package verify of optimus-verify cannot be loaded: {theirs / 'verify'} was imported under that name before" in done.stderr
        assert run(theirs, "--noconftest", "--optimus-rule-dir", "rules", "-k", "general").returncode == 0

    def test_the_command_works_there(self, theirs):
        command = [str(ROOT / "optimus_verify.py"), "--rule", "rules/good.py:GoodRule", "--budget", "3s"]
        done = python(*command, where=theirs, env=environment(theirs))
        assert done.returncode == 0, done.stdout + done.stderr
        (theirs / "rules" / "leaning.py").write_text("from verify.tools import helper\n" + GOOD)
        command[-3] = "rules/leaning.py:GoodRule"
        done = python(*command, where=theirs, env=environment(theirs))
        assert done.returncode == 2
        (line,) = done.stderr.strip().splitlines()
        assert "No module named 'verify.tools'" in line
        assert f"the folder {theirs / 'verify'} is shadowed here by the package verify of optimus-verify" in line


def test_profiles_are_registered_with_hypothesis():
    from hypothesis import settings

    from fuzz.profiles import register_profiles

    register_profiles()
    assert [settings.get_profile(f"optimus-{name}").max_examples for name in PROFILES] == [100, 1_000, 200_000]
