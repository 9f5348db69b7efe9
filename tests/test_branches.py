"""Which branches a run takes is measured on the pass alone."""

from __future__ import annotations

import optimus
from verify.branches import branches_taken, sources
from verify.fuzzing import hunt
from verify.subject import PatternSubject

PASS = """
def fires(f):
    return f

@fires
def case(x):
    return 1 if x else 2

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
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    find = namespace["Rule"]().find
    one = branches_taken([path], lambda: find(1))
    assert (one.taken, one.total) == (1, 2)
    assert [(name, line) for name, line, _ in one.missing] == [("a_pass.py", 14)]
    both = branches_taken([path], lambda: (find(1), find(0)))
    assert both.missing == ()
    assert both.share == 1.0


def test_files_of_a_pattern_are_its_own_and_those_it_inherits_from():
    assert [p.name for p in sources(optimus.patterns()["batch_tanh"])] == ["batch_tanh.py", "_batch.py"]
    assert [p.name for p in sources(optimus.patterns()["split_cat_pass"])] == ["split_cat.py"]


def test_a_hunt_takes_most_branches():
    pattern = optimus.patterns()["merge_splits_pass"]
    found = branches_taken(sources(pattern), lambda: hunt(PatternSubject(pattern), seconds=60, max_examples=120, seed_number=1) and None)
    assert found.total > 10
    assert 0.5 < found.share <= 1.0
