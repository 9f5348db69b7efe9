"""What holds for every pattern; nothing here names one."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import optimus
from fuzz.templates import captured, instantiate
from optimus.capture import names
from optimus.engine import Engine
from optimus.laws import Law
from optimus.passes import BUILT_IN, LOWER
from optimus.pattern import IR, HorizontalPattern, VerticalPattern
from optimus.plan import Plan, on_graphs
from optimus.values import value
from verify.compare import differences, observe, reference
from verify.lowered import start
from verify.proof import prove_case
from verify.subject import PatternSubject
from verify.verdict import Proved, explain

PATTERNS = [p.judged() for p in on_graphs()]
CASES = [(p, c) for p in PATTERNS for c in p.cases]
DECLINES = [(p, c) for p in PATTERNS for c in p.declines]


def _id(given):
    return given.name


def begun(pattern, gm):
    """The graph that the pattern is given of a captured program."""
    return start(PatternSubject(pattern), gm)


@pytest.mark.parametrize(("pattern", "case"), CASES, ids=_id)
def test_case_fires_and_is_proved(pattern, case):
    proof = prove_case(PatternSubject(pattern), case)
    assert isinstance(proof.verdict, Proved), explain(proof.verdict)
    assert proof.fired
    assert proof.verdict.queries > 0
    assert proof.verdict.confirmed == proof.verdict.queries
    assert proof.aten is not None
    assert proof.aten.sides is not None
    assert proof.aten.sides.agree
    for verdict in proof.aten.verdicts:
        assert isinstance(verdict, Proved), explain(verdict)


@pytest.mark.parametrize(("pattern", "case"), DECLINES, ids=_id)
def test_decline_declines_for_its_reason(pattern, case):
    before = begun(pattern, captured(case))
    after = copy.deepcopy(before)
    journal = Engine(after, Plan((pattern,))).run()
    assert not journal.rewrites
    assert {d.reason for d in journal.declined} == {case.reason}
    assert after.code == before.code


@pytest.mark.parametrize(("pattern", "case"), CASES, ids=_id)
@pytest.mark.parametrize("size", [1, 3])
def test_case_on_real_tensors(pattern, case, size):
    program = instantiate(case, dict.fromkeys(names(case), size))
    before = begun(pattern, program.graph())
    after = copy.deepcopy(before)
    Engine(after, Plan((pattern,))).run()
    gradients = pattern.ir is IR.TORCH  # below, they are graphs of their own
    one, other = (observe(gm.forward, program.make_inputs(), gradients=gradients) for gm in (before, after))
    exact = reference(before.forward, program.make_inputs(), one)
    assert differences(one, other, exact, bitwise=pattern.exactness is optimus.Exactness.BITWISE) == []
    assert one.raised is None


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
def test_every_requirement_has_a_decline_of_its_own(pattern):
    laws = {law.reason for law in Law}
    assert {c.reason for c in pattern.declines} - laws == set(pattern.requirements)
    assert pattern.cases
    assert not laws & set(pattern.requirements)


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
def test_a_second_run_changes_nothing(pattern):
    for case in pattern.cases:
        gm = copy.deepcopy(begun(pattern, captured(case)))
        Engine(gm, Plan((pattern,))).run()
        code = gm.code
        assert not Engine(gm, Plan((pattern,))).run().rewrites
        assert gm.code == code


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
def test_pattern_is_documented_and_says_its_options(pattern):
    text = inspect.getdoc(type(pattern)) or ""
    assert "->" in text.split("\n\n")[0]
    assert "Sound because" in text
    assert Plan.from_json(Plan((pattern,)).to_json()) == Plan((pattern,))
    with pytest.raises(ValueError, match=r"unknown option 'nonsense'; accepted are "):
        Plan.of((pattern.name, {"nonsense": 1}))
    for option, given in pattern.options().items():
        with pytest.raises(TypeError, match=rf"{pattern.name}: option {option}='x' is a str; accepted is a {type(given).__name__}"):
            Plan.of((pattern.name, {option: "x"}))


SMALL = {"decompose_mm_pass": {"cpu_max_first_dimension_decomposition": 3}}
"""Options of a pattern under which it takes sizes of 3."""


@pytest.mark.parametrize("pattern", PATTERNS, ids=_id)
def test_metadata_is_right_after_a_rewrite(pattern):
    """Every node carries the metadata that running it on the fakes of its arguments gives."""
    from optimus.rewriter import run_fake
    from optimus.state import GraphState

    for case in pattern.cases:
        gm = begun(pattern, instantiate(case, dict.fromkeys(names(case), 3)).graph())
        assert Engine(gm, Plan((replace(pattern, **SMALL.get(pattern.name, {})),))).run().rewrites
        state = GraphState.of(gm.graph)
        for node in gm.graph.nodes:
            if node.op not in ("call_function", "call_method"):
                continue
            with state.mode(node).active(), state.fake_mode:
                again = run_fake(node)
            for one, other in zip(torch.utils._pytree.tree_leaves(value(node)), torch.utils._pytree.tree_leaves(again), strict=True):
                assert (one.shape, one.dtype, one.stride(), one.requires_grad) == (other.shape, other.dtype, other.stride(), other.requires_grad), (
                    node
                )


def test_every_file_is_in_the_plan():
    files = {f.stem for f in (Path(optimus.__file__).parent / "passes").glob("*.py")}
    listed = {type(p).__module__.rsplit(".", 1)[1] for p in (*BUILT_IN, *LOWER)}
    assert {f for f in files if not f.startswith("_")} == listed


def test_horizontal_patterns_stand_before_vertical_ones():
    kinds = [isinstance(p, HorizontalPattern) for p in BUILT_IN]
    assert kinds == sorted(kinds, reverse=True)
    assert all(isinstance(p, HorizontalPattern | VerticalPattern) for p in BUILT_IN)


def test_pattern_files_know_no_solver_and_no_fuzzer():
    for file in (Path(optimus.__file__).parent / "passes").glob("*.py"):
        text = file.read_text()
        assert not any(word in text for word in ("z3", "hypothesis", "verify", "fuzz")), file.name
        assert len(text.splitlines()) < 250, file.name
