"""Mutants of a pass: made of the code that finds and rewrites alone, and seen by the witnesses or shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import optimus
from verify.cli import main
from verify.mutants import score
from verify.mutation import GUARD, Killed, Mutant, judge_mutant, mutants, sample
from verify.rules_loading import load_rule
from verify.scaffold import TEMPLATE

GOOD = TEMPLATE.format(name="good_rule", cls="GoodRule")


@pytest.fixture
def rule(tmp_path, monkeypatch):
    """A file of a rule, and how it is named."""
    pytest.importorskip("cosmic_ray", reason="the extra 'mutants' is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good_rule.py").write_text(GOOD)
    return "good_rule.py:GoodRule"


def changed(source: str, old: str, new: str) -> Mutant:
    file = Path("good_rule.py").resolve()
    text = file.read_text()
    assert old in text
    return Mutant(file, source, text[: text.index(old)].count("\n") + 1, text.replace(old, new))


def test_only_the_code_of_the_pass_is_changed(rule):
    found = mutants(load_rule(rule).pattern)
    assert len(found) > 12
    assert len({m.source for m in found}) == len(found)
    lines = GOOD.splitlines()
    assert all("general" not in lines[m.line - 1] and "fires" not in lines[m.line - 1] for m in found)
    first, last = (next(k for k, line in enumerate(lines, 1) if text in line) for text in ("def find", "def general"))
    assert all(first < m.line < last for m in found)
    assert any(m.operator == GUARD and "if False:" in m.diff() for m in found)
    assert sample(found, 5, 1) == sample(found, 5, 1) != sample(found, 5, 2)


def test_what_changes_nothing_survives_and_what_changes_something_is_seen(rule):
    same = judge_mutant(rule, changed("a comment", "        if first != second:", "        # the same\n        if first != second:"), 3.0, False)
    assert same.by == ()
    wrong = judge_mutant(
        rule,
        changed("turned", "tx.replace(match.nodes[-1], match.found)", "tx.replace(match.nodes[-1], tx.call(torch.flip, match.found, [0]))"),
        3.0,
        True,
    )
    assert {"proof", "fuzz", "differential"} <= {witness for witness, _ in wrong.by}
    forgotten = judge_mutant(rule, changed("forgotten", "if first != second:", "if False:"), 3.0, False)
    assert forgotten.by
    broken = judge_mutant(rule, changed("broken", "inner.op", "inner.nothing"), 3.0, False)
    assert broken.by[0][0] == "cases" and "nothing" in broken.by[0][1]
    assert score([same, wrong, forgotten, broken]) == 0.75


def test_the_command_lists_who_saw_what(rule, tmp_path, capsys):
    assert main(["mutants", "--rule", rule, "--most", "3", "--fuzz", "2s", "--json", "out.json"]) == 0
    text = capsys.readouterr().out
    assert "3 of 3" in text
    found = json.loads((tmp_path / "out.json").read_text())[rule]
    assert len(found["mutants"]) == 3
    assert all(m["diff"].startswith("--- good_rule.py") for m in found["mutants"])


def test_every_pattern_has_mutants():
    pytest.importorskip("cosmic_ray", reason="the extra 'mutants' is not installed")
    assert all(len(mutants(pattern)) > 5 for pattern in optimus.patterns().values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "mutants: nothing to judge; give --pattern NAME, --all, or --rule FILE:NAME"),
        (["--pattern", "split_cat"], "unknown pattern 'split_cat'"),
        (["--all", "--floor", "2"], "--floor 2: accepted is a number from 0 to 1"),
        (["--all", "--most", "0"], "--most 0: accepted is a whole number from 1"),
        (["--all", "--fuzz", "long"], "--fuzz long: accepted is"),
    ],
)
def test_refusals(capsys, arguments, message):
    assert main(["mutants", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_score_of_nothing_is_whole():
    assert score([]) == 1.0
    assert score([Killed(Mutant(Path("f.py"), "o", 1, ""), (), 0.0)]) == 0.0
