"""Sizes 0 and 1, as cases of their own."""

from __future__ import annotations

import copy
import operator

import pytest
import torch
from torch.fx import Graph

import optimus
from optimus.capture import CaptureError, capture, capture_case
from optimus.plan import on_graphs
from optimus.values import is_static, value
from tests import small
from verify import prove, validate
from verify.edges import MOST, chosen, prove_edges, to_json, ways
from verify.judgement import Judgement
from verify.subject import PassSubject, PatternSubject
from verify.verdict import Proved, Refuted, Unknown

PATTERNS = on_graphs()
AT_ONE = "found = found if all(isinstance(n, torch.SymInt) or n != 1 for n in found.meta['example_value'].shape) else {}"


@pytest.fixture
def small_pattern(tmp_path, monkeypatch):
    """Makes the small pattern, with another rewrite."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda rewrite="pass": small.write(tmp_path, rewrite=rewrite).Twice()


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_patterns_are_right_at_the_edges(pattern):
    """As many captures as ``optimus-verify`` makes; fewer of batches, which take long."""
    most = MOST if pattern.name.endswith("_pass") else 3
    edges = prove_edges(PatternSubject(pattern), most=most)
    assert len(edges.parts) == most
    assert not edges.wrong, str(edges)
    assert all(p.outcome in ("proved", "left alone", "raises in eager") for p in edges.parts)


def test_what_is_wrong_at_one_alone_is_refuted_there(small_pattern):
    report = prove(small_pattern(AT_ONE.format("tx.call(torch.neg, found)")))
    assert all(isinstance(p.verdict, Proved) for p in report.parts)
    assert isinstance(report.verdict, Refuted)
    assert report.counterexample[1].sizes["n"] == 1
    assert report.edges.counts() == {"proved": 3, "refuted": 3}
    assert report.edges.wrong[0].name == "there_and_back, n = 1"
    assert "in there_and_back, for n = 1" in str(report)
    assert Judgement("twice", "BITWISE", report).verdict == "refuted"
    found = Judgement("twice", "BITWISE", report).to_json()["edges"]
    assert found["counts"] == {"proved": 3, "refuted": 3}
    assert found["captures"][1]["sizes"] == {"n": 1}


@optimus.fires("n, m")
def grows(x):
    return x.exp() * 2


def _written_at_one(graph: Graph) -> bool:
    """Twice an exponential, computed in the memory of the latter, which its gradient reads, if there is one row."""
    (node,) = (n for n in graph.nodes if n.target is operator.mul)
    exponential = node.args[0]
    if value(exponential).shape[0] == 1:
        with graph.inserting_before(node):
            written = graph.call_method("mul_", node.args)
        written.meta["example_value"] = value(exponential)
    else:
        with graph.inserting_before(node):
            written = graph.call_function(torch.mul, node.args)
        written.meta["example_value"] = value(node)
    node.replace_all_uses_with(written)
    graph.erase_node(node)
    return True


def test_what_autograd_refuses_at_one_alone_is_refuted_there():
    report = prove(PassSubject("written at one", _written_at_one, (grows,)))
    assert isinstance(report.verdict, Refuted)
    assert report.edges.counts() == {"proved": 4, "refuted": 2}
    assert report.edges.wrong[0].name == "grows, n = 1"
    assert "the backward pass raises" in report.counterexample[1].differences[0]


def test_what_raises_at_one_is_not_green(small_pattern):
    report = prove(small_pattern(AT_ONE.format("tx.nonsense")))
    assert isinstance(report.verdict, Unknown)
    assert "nonsense" in report.verdict.reason


def test_what_is_not_proved_elsewhere_is_not_tried(small_pattern):
    report = prove(small_pattern("found = tx.call(torch.neg, found)"))
    assert isinstance(report.verdict, Refuted)
    assert report.edges is None
    assert prove(small_pattern(), edges=False).edges is None


def test_ways_to_fix_sizes():
    @optimus.fires("n, 2 * k")
    def case(x, k):
        return x + k

    @optimus.fires("3, 4")
    def plain(x):
        return x

    assert ways(case) == [{"n": 0}, {"n": 1}, {"k": 0}, {"k": 1}, {"n": 0, "k": 0}, {"n": 1, "k": 1}]
    assert ways(plain) == []
    assert chosen((case, plain, case), 3) == [(case, {"n": 0}), (case, {"k": 0}), (case, {"n": 1})]
    assert len(chosen((case, plain, case), 100)) == 12


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_the_choice_is_bounded_the_same_each_time_and_touches_every_case_it_can(pattern):
    picked = chosen(pattern.cases, MOST)
    assert picked == chosen(pattern.cases, MOST)
    assert len(picked) <= MOST
    assert {c.name for c, _ in picked} == {c.name for c in pattern.cases if ways(c)}
    assert {size for _, fixed in picked for size in fixed.values()} == {0, 1}


def test_a_size_that_is_fixed_is_a_number_and_others_are_symbols():
    @optimus.fires("n, 2 * k")
    def case(x, k):
        return x.split([k, k], dim=1)[0] * 2

    for fixed in ({"n": 1}, {"k": 0}, {"k": 1}):
        gm = capture_case(case, fixed)
        shapes = [value(n).shape for n in gm.graph.find_nodes(op="placeholder") if isinstance(value(n), torch.Tensor)]
        assert [is_static(s) for s in shapes[0]] == ["n" in fixed, "k" in fixed]
        assert [n.name for n in gm.graph.find_nodes(op="placeholder")][-1] in ("x", "k")
    with pytest.raises(CaptureError, match="the size n stays a symbol; accepted sizes to fix are 0 and 1"):
        capture_case(case, {"n": 4})


def test_outcomes_without_a_rewrite_are_named(small_pattern):
    @optimus.fires("n, m")
    def picky(x):
        if x.shape[0] == 0:
            raise ValueError("empty")
        y = x.transpose(0, 1)
        if x.shape[0] == 1:
            torch._dynamo.graph_break()
        return y * 2

    pattern = small_pattern()
    type(pattern).cases = (picky,)
    edges = prove_edges(PatternSubject(pattern))
    assert edges.counts() == {"raises in eager": 2, "not captured (CaptureError)": 2, "left alone": 2}
    said = (
        "2 raises in eager, 2 not captured (CaptureError), 2 left alone; picky, n = 1: unknown: not captured, CaptureError: case picky: Dynamo made "
    )
    assert str(edges).startswith(said)
    assert [p.name for p in edges.wrong] == ["picky, n = 1", "picky, n = 1, m = 1"]
    assert edges.covered == "6 of 6 captures, picky: n = 0 | n = 1 | m = 0 | m = 1 | n = 0, m = 0 | n = 1, m = 1"
    assert to_json(edges)["possible"] == 6


def test_what_is_not_captured_at_one_is_not_green(small_pattern):
    pattern = small_pattern()
    (case,) = pattern.cases

    @optimus.fires("n, m")
    def breaks_at_one(x):
        y = x.sin()
        if x.shape[0] == 1:
            torch._dynamo.graph_break()
        return case.program(y)

    type(pattern).cases = (breaks_at_one,)
    report = prove(pattern)
    assert all(isinstance(p.verdict, Proved) for p in report.parts)
    assert report.edges.counts() == {"proved": 4, "not captured (CaptureError)": 2}
    assert isinstance(report.verdict, Unknown)
    assert report.verdict.reason.startswith("not captured, CaptureError: case breaks_at_one: Dynamo made ")
    assert Judgement("twice", "BITWISE", report).verdict == "unknown"


def test_reshaping_what_is_empty_by_its_guards_is_no_contradiction():
    """A size that Dynamo keeps as a symbol while a guard makes it 0: rows were taken for matched one by one, which demanded ``m == 1``."""

    def program(x, k):
        return torch.stack([p.reshape(-1) for p in x.split([k, k])]).sin()

    (found,) = capture(program, [torch.randn(0, 5), 0], dynamic=True)
    assert isinstance(validate(found.gm, copy.deepcopy(found.gm)), Proved)


def test_a_symbol_that_a_guard_makes_a_number_is_static():
    (found,) = capture(lambda x, k: x.split([k])[0] * 2, [torch.randn(0, 5), 0], dynamic=True)
    sizes = [value(n) for n in found.gm.graph.find_nodes(op="placeholder") if isinstance(value(n), torch.SymInt)]
    assert sorted(map(is_static, sizes)) == [False, True]
