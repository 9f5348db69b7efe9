"""Which branches a run takes is measured on the pass alone, and what no program takes is explained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import optimus
import optimus.passes
from verify.branches import FileBranches, Missing, branches_taken, sources, together
from verify.fuzzing import hunt
from verify.judgement import fuzzed
from verify.subject import PatternSubject
from verify.unreached import UNREACHED

PASS = """
from optimus.rule import Rule

def fires(f):
    return f

@fires
def case(x):
    return 1 if x else 2

def states_a_rule(rule: Rule) -> None:
    for _ in rule:
        return

class Rule:
    def general(rule):
        return 1 if rule else 2

    def find(self, node):
        if node > 0:
            return "positive"
        return [n for n in range(3)]
"""


def test_branches_of_the_pass_alone(tmp_path):
    path = tmp_path / "a_pass.py"
    path.write_text(PASS)
    namespace: dict = {"__name__": "a_pass"}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    find = namespace["Rule"]().find
    (one,) = branches_taken([path], lambda: find(1))
    assert (one.name, one.taken, one.total) == ("a_pass.py", 1, 2)
    assert [(m.text, m.to) for m in one.missing] == [("if node > 0:", 22)]
    assert one.unexplained == one.missing
    (both,) = branches_taken([path], lambda: (find(1), find(0)))
    assert both.missing == ()
    assert both.share == 1.0


def test_several_runs_together_took_what_one_of_them_took():
    one = FileBranches("/a.py", 4, (Missing(1, 2, "if a:"), Missing(3, 4, "if b:")))
    other = FileBranches("/a.py", 4, (Missing(3, 4, "if b:"), Missing(5, 6, "if c:")))
    alone = FileBranches("/b.py", 2, (Missing(1, 2, "if d:"),))
    assert together([[one], [other, alone]]) == [FileBranches("/a.py", 4, (Missing(3, 4, "if b:"),)), alone]


def test_files_of_a_pattern_are_its_own_those_it_inherits_from_and_their_helpers():
    def named(name):
        return [p.name for p in sources(optimus.patterns()[name])]

    assert named("batch_tanh") == ["batch_tanh.py", "_batch.py", "_cases.py"]
    assert named("batch_linear") == ["batch_linear.py", "_batch.py"]
    assert named("merge_getitem_cat_pass") == ["merge_getitem_cat.py", "split_cat.py", "_joins.py"]
    assert named("einsum_to_pointwise_pass") == ["einsum_to_pointwise.py"]


def test_what_is_traced_already_is_not_measured():
    sys.settrace(lambda *_: None)
    try:
        with pytest.raises(RuntimeError, match="traced already"):
            branches_taken([], lambda: None)
        report, branches = fuzzed(PatternSubject(optimus.patterns()["remove_split_with_size_one_pass"]), 0.1)
    finally:
        sys.settrace(None)
    assert report.tried
    assert branches is None


def test_a_short_hunt_takes_all_branches_of_a_pass():
    subject = PatternSubject(optimus.patterns()["unbind_stack_pass"])
    branches = branches_taken(sources(subject.pattern), lambda: hunt(subject, seconds=600, max_examples=120))
    assert (branches[0].name, branches[0].missing) == ("unbind_stack.py", ())


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in UNREACHED.items() for text in texts])
def test_an_explained_line_is_one_of_its_file(name, text):
    lines = (Path(optimus.passes.__file__).parent / name).read_text().splitlines()
    assert [line.strip() for line in lines].count(text) == 1


def test_explanations_are_for_files_of_the_library():
    ((name, texts), *_) = UNREACHED.items()
    missing = Missing(1, 2, next(iter(texts)))
    ours, theirs = (FileBranches(str(folder / name), 2, (missing,)) for folder in (Path(optimus.passes.__file__).parent, Path("/elsewhere")))
    assert ours.unexplained == ()
    assert theirs.unexplained == (missing,)


def test_cases_of_a_family_are_no_branches_of_a_pass():
    (family,) = [p for p in sources(optimus.patterns()["batch_tanh"]) if p.name == "_cases.py"]
    (found,) = branches_taken([family], lambda: None)
    assert found.total == 0
