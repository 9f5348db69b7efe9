"""Passes that raise or change nothing, and programs that leave other modes behind: each is told of, and none is green."""

from __future__ import annotations

import pytest
import torch

from fuzz.templates import captured, instantiate
from optimus.capture import capture, sample_sizes
from tests import small
from verify import prove
from verify.commands import save_finding
from verify.differential import compare
from verify.edges import prove_edge
from verify.fuzzing import FuzzReport, judge
from verify.judgement import Judgement
from verify.replay import replay
from verify.subject import PassError, PassSubject, PatternSubject, rewritten
from verify.verdict import Unknown, Vacuous, in_words

SAID = "the pass raised ZeroDivisionError: "


@pytest.fixture(params=["a pattern", "a plain function"])
def subject(request, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = small.write(tmp_path, rewrite="1 / 0")
    if request.param == "a pattern":
        return PatternSubject(module.Twice())
    return PassSubject("twice", lambda graph: 1 / len([]), (module.there_and_back,))


def test_every_witness_says_so(subject):
    (case,) = subject.cases
    before = captured(case)
    code = before.code
    with pytest.raises(PassError, match=SAID):
        rewritten(subject, before)
    assert before.code == code
    report = prove(subject)
    assert isinstance(report.verdict, Unknown)
    assert report.verdict.reason.startswith(f"there_and_back: {SAID}")
    assert prove_edge(subject, case, {"n": 1}).verdict.reason.startswith(SAID)
    program = instantiate(case, sample_sizes(case))
    fired, finding = judge(subject, program)
    assert fired
    assert finding.differences[0].startswith(SAID)
    run = compare(subject, program, "aot_eager")
    assert run.blamed
    assert run.ours[0].startswith(SAID)


def test_a_find_replays(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    pattern = small.write(tmp_path, rewrite="1 / 0").Twice()
    case = pattern.cases[0]
    _, finding = judge(PatternSubject(pattern), instantiate(case, sample_sizes(case)))
    assert save_finding(Judgement("twice", "BITWISE", None, FuzzReport(finding=finding)), tmp_path).is_dir()
    monkeypatch.setattr("verify.replay.lookup", lambda _: pattern)
    assert replay("twice", finding.program.function(), finding.program.inputs) == 1
    assert SAID in capsys.readouterr().out


def test_sizes_in_words():
    assert in_words({"n": 2, "m": 3}) == "n = 2, m = 3"
    assert in_words({}) == ""


def test_a_rewrite_without_a_change_proves_nothing(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    found = prove(small.write(tmp_path, rewrite="found = match.nodes[-1]").Twice(), edges=False).verdict
    assert found == Vacuous("there_and_back was rewritten without a change")


def test_a_program_that_leaves_grad_mode_off_is_compared_with_gradients():
    def leaves_it_off(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    (found,) = capture(leaves_it_off, (torch.ones(2, requires_grad=True),))
    assert torch.is_grad_enabled()
    assert len(list(found.gm.graph.nodes)) == 4
