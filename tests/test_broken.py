"""Every rule of ``tests/broken`` is refuted, by each witness that can see its fault, and the right rule by none."""

from __future__ import annotations

import functools

import pytest
import torch

import optimus
from optimus.laws import Law
from tests.broken import ALWAYS_KEPT, BROKEN, Broken
from verify.differential import compare
from verify.fuzzing import Finding, hunt, judge, with_options
from verify.proof import prove
from verify.subject import PatternSubject, Subject
from verify.verdict import Refuted

PROGRAMS = 5000
MOST_STEPS = 8

every_rule = pytest.mark.parametrize(
    "rule", BROKEN, ids=lambda rule: rule.name, scope="module"
)  # tests of a rule follow one another and share its find

REGISTERED = {PatternSubject(p.judged()) for p in optimus.patterns().values()}
"""Subjects whose proofs ``test_patterns.py`` and ``test_rules.py`` ask for."""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def find(rule: Broken) -> Finding | None:
    return hunt(rule.subject, seconds=600, seed_number=0, max_examples=PROGRAMS).finding


@functools.cache
def is_refuted(sound: Subject) -> bool:
    """Whether proof refutes a right rule, which several wrong ones may stand next to."""
    return isinstance(prove(sound, edges=False).verdict, Refuted)


def found(rule: Broken) -> Finding:
    finding = find(rule)
    assert finding is not None, f"{PROGRAMS} programs did not refute {rule.name}"
    return finding


def test_names_are_unique():
    assert len({rule.name for rule in BROKEN}) == len(BROKEN)


def test_each_law_is_left_out_once_or_cannot_be():
    left_out = {law for rule in BROKEN for law in rule.lacks}
    assert left_out | set(ALWAYS_KEPT) == set(Law)
    assert not left_out & set(ALWAYS_KEPT)


@every_rule
def test_proof_refutes_what_it_can_see(rule: Broken):
    verdict = prove(rule.subject, edges=rule.by_proof).verdict
    assert isinstance(verdict, Refuted) == rule.by_proof, verdict
    if isinstance(verdict, Refuted):
        assert verdict.counterexample.differences


@every_rule
def test_fuzzing_refutes(rule: Broken):
    finding = found(rule)
    assert finding.differences
    assert finding.program.size() <= MOST_STEPS, str(finding)


@every_rule
def test_a_differential_run_blames_the_rule(rule: Broken):
    finding = found(rule)
    run = compare(with_options(rule.subject, finding.options), finding.program, "aot_eager", dynamic=finding.symbolic)
    assert run.fired, str(finding)
    assert run.blamed, str(finding)


@every_rule
def test_the_right_rule_makes_no_difference(rule: Broken):
    assert rule.sound in REGISTERED or not is_refuted(rule.sound)
    finding = found(rule)
    sound = with_options(rule.sound, finding.options)
    _, wrong = judge(sound, finding.program)
    assert wrong is None, str(wrong)
    assert not compare(sound, finding.program, "aot_eager", dynamic=finding.symbolic).blamed
