"""Mutants of a pass: made of the code that finds and rewrites alone, and seen by the witnesses or shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import optimus
from benchmarks import mutation_score
from verify.branches import sources
from verify.cli import main
from verify.mutant import Killed, Mutant, UnfitError, control, exchange, instead
from verify.mutants import ControlError, Task, check_control, judged, score
from verify.mutation import GUARD, code_of_the_pass, mutants, mutants_of, sample
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


def judge_mutant(sources: str | tuple[str, ...], mutant: Mutant, fuzz_s: float = 2.0, every: bool = False) -> Killed:
    ((_, found),) = judged([Task((sources,) if isinstance(sources, str) else sources, mutant, fuzz_s)], 1, every)
    return found


def test_what_changes_nothing_survives_and_what_changes_something_is_seen(rule):
    same = judge_mutant(rule, changed("a comment", "        if first != second:", "        # the same\n        if first != second:"))
    assert same.by == ()
    wrong = judge_mutant(
        rule,
        changed("turned", "tx.replace(match.nodes[-1], match.found)", "tx.replace(match.nodes[-1], tx.call(torch.flip, match.found, [0]))"),
        3.0,
        True,
    )
    assert {"proof", "fuzz", "differential"} <= {witness for witness, _ in wrong.by}
    forgotten = judge_mutant(rule, changed("forgotten", "if first != second:", "if False:"))
    assert forgotten.by
    broken = judge_mutant(rule, changed("broken", "inner.op", "inner.nothing"))
    assert broken.by[0][0] == "cases" and "nothing" in broken.by[0][1]
    unread = judge_mutant(rule, changed("unread", "import torch\n", "import torch\n\nraise OSError('not today')\n"))
    assert [witness for witness, _ in unread.by] == ["cases"] and "not today" in unread.by[0][1]
    ended = judge_mutant(rule, changed("ended", "import torch\n", "import torch\n\nimport os\n\nos._exit(1)\n"))
    assert ended.by == (("time", "its process died in its start"),)
    assert score([same, wrong, forgotten, broken]) == 0.75


@pytest.mark.parametrize("name", ["batch_tanh", "merge_splits_pass", "batch_aten_relu", "select_cat_aten_pass", "activation_quantization_aten_pass"])
def test_no_witness_objects_to_what_is_not_changed(name):
    for file in sources(optimus.patterns()[name])[:1]:
        assert judge_mutant(name, control(file), 1.0, True).by == ()


def test_a_mutant_of_a_shared_module_is_seen_through_any_pattern_that_uses_it():
    file = Path(optimus.__file__).parent / "passes" / "_slices.py"
    old, new = "return left * right", "return left + right"
    mutant = Mutant(file, "sum", 1, file.read_text().replace(old, new))
    assert new in mutant.diff()
    assert judge_mutant(("batch_tanh", "select_cat_aten_pass"), mutant).by[0][1].startswith("select_cat_aten_pass: ")


def test_functions_run_other_code_whoever_holds_them_and_nothing_else_may_differ(tmp_path):
    file = tmp_path / "held.py"
    file.write_text(
        "LIMIT = 3\n\n\nclass Kind:\n    @staticmethod\n    def of(x):\n        return [k + x for k in range(LIMIT)]\n\n\ndef one(x):\n    return x + 1\n"
    )
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
    one, of = space["one"], space["Kind"].of
    text = file.read_text()
    exchange(file, "# a line more\n" + text)
    assert (one(1), of(1)) == (2, [1, 2, 3])
    file.write_text("# a line more\n" + text)
    exchange(file, file.read_text().replace("x + 1", "x - 1").replace("k + x", "k - x"))
    assert (one(1), of(1)) == (0, [-1, 0, 1])
    for other in ("LIMIT = 4", "LIMIT = 3\nMORE = 4", "LIMIT = 3\n\n\ndef two():\n    pass"):
        with pytest.raises(UnfitError):
            exchange(file, file.read_text().replace("LIMIT = 3", other))


def test_the_changed_source_is_the_only_one_in_its_process():
    import optimus.passes.batch_tanh as loaded

    with pytest.raises(RuntimeError, match=r"optimus.passes.batch_tanh was imported before; accepted is a process that has not"):
        instead(Path(loaded.__file__), "")


def test_a_control_that_does_not_survive_is_said_and_nothing_is_scored(rule, tmp_path, capsys):
    check_control(Killed(control(Path("good_rule.py")), (), 1.0))
    with pytest.raises(ControlError, match=r"good_rule.py is objected to as it stands, so no score would mean anything: fuzz: differs"):
        check_control(Killed(control(Path("good_rule.py")), (("fuzz", "differs"),), 1.0))
    Path("good_rule.py").write_text(GOOD.replace("tx.replace(match.nodes[-1], match.found)", "tx.replace(match.nodes[-1], match.nodes[0])"))
    assert main(["mutants", "--rule", rule, "--most", "1", "--fuzz", "1s", "--json", "out.json"]) == 3
    said = capsys.readouterr()
    assert "optimus-verify mutants: good_rule.py is objected to as it stands" in said.err
    assert "1 of 1" not in said.out and not (tmp_path / "out.json").exists()


def test_the_command_lists_who_saw_what(rule, tmp_path, capsys):
    assert main(["mutants", "--rule", rule, "--most", "3", "--fuzz", "2s", "--json", "out.json"]) == 0
    text = capsys.readouterr().out
    assert "3 of 3" in text
    found = json.loads((tmp_path / "out.json").read_text())[rule]
    assert len(found["mutants"]) == 3
    assert all(m["diff"].startswith("--- good_rule.py") for m in found["mutants"])


MIXED = """
def written(rule: Rule, count):
    return count + 1

class Shape:
    def general(rule):
        return 1 + 1

    def find(self, node, state):
        return node or state

def family(function):
    more = 2 + 2

    @fires("n")
    def one(x):
        return x + 1

    return one

@optimus.declines("no", "n")
def other(x):
    return x + 1
"""


def test_cases_what_makes_them_and_statements_of_rules_are_no_code_of_the_pass():
    lines = MIXED.splitlines()
    assert [lines[k - 1].strip() for k in sorted(code_of_the_pass(MIXED.replace("class Shape:", "class Shape(Pattern):")))] == [
        "return node or state"
    ]
    assert code_of_the_pass(MIXED) == set()
    assert code_of_the_pass((Path(optimus.__file__).parent / "passes" / "_cases.py").read_text()) == set()
    assert code_of_the_pass((Path(optimus.__file__).parent / "passes" / "_sections.py").read_text()) == set()


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


class TestScore:
    @pytest.fixture
    def entries(self, tmp_path, monkeypatch):
        pytest.importorskip("cosmic_ray", reason="the extra 'mutants' is not installed")
        file = tmp_path / "batch_detach.py"
        file.write_text((Path(optimus.__file__).parent / "passes" / file.name).read_text())
        monkeypatch.setattr(mutation_score, "HOME", tmp_path)
        return [
            mutation_score.Entry(m, ("batch_detach",), mutation_score.key_of(m, ".".join(mutation_score.enclosing(file.read_text(), m.line))))
            for m in mutants_of(file)
        ]

    def test_a_mutant_is_kept_as_the_lines_it_changes_and_found_where_these_stand_now(self, entries, tmp_path):
        assert len(entries) > 5
        kept = [entry.to_json() for entry in entries]
        for entry, plain in zip(entries, kept, strict=True):
            again = mutation_score.Entry.from_json(plain)
            assert again is not None and again == entry
        file = tmp_path / "batch_detach.py"
        file.write_text("import math\n\n" + file.read_text())
        for entry, plain in zip(entries, kept, strict=True):
            moved = mutation_score.Entry.from_json(plain)
            assert moved is not None
            assert (moved.mutant.source, moved.mutant.line) == ("import math\n\n" + entry.mutant.source, entry.mutant.line + 2)
        file.write_text(file.read_text().replace("def ", "def not_"))
        assert [mutation_score.Entry.from_json(plain) for plain in kept] == [None] * len(kept)

    def test_the_table_counts_what_was_seen_of_what_is_not_equivalent(self, entries, monkeypatch):
        for entry in entries:
            entry.by = {"proof": "differs"}
        entries[0].by, entries[1].by, entries[2].by = {}, {}, None
        monkeypatch.setattr(mutation_score, "equivalent", lambda: {entries[0].key: "the same sum"})
        text = mutation_score.table(mutation_score.Score([], entries))
        seen = len(entries) - 3
        row = next(line for line in text.splitlines() if line.startswith("| all |"))
        assert [c.strip() for c in row.split("|")[2:4]] == [str(len(entries)), str(len(entries) - 1)]
        assert row.endswith(f"| 2 | 1 | {seen / (seen + 1):.1%} |")
        assert text.index("no reason is given") < text.index(entries[1].key) < text.index("the same sum") < text.index(entries[0].key)
