"""The strategies: programs run, print as Python that runs alike, reach hard corners, and shrink."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast

import fuzz
import optimus
from fuzz.disturb import runs, taken_apart
from fuzz.program import AUTOCAST, Input, Program, Region, Step, Var, run_steps, writes
from fuzz.strategies import inputs, options, planted, programs
from fuzz.templates import captured, instantiate, symbolic_inputs
from fuzz.variants import variants
from optimus.capture import names, sample_sizes
from optimus.modes import autocast_nesting
from optimus.pattern import fires
from optimus.plan import on_graphs
from verify.compare import observe
from verify.fuzzing import hunt, judge_symbolic
from verify.lowered import is_lowered, rewritten_both
from verify.lowering import lower
from verify.spent import PATIENCE, Spent
from verify.subject import PatternSubject, rewritten

CASES = tuple(c for p in on_graphs() for c in (*p.cases, *p.declines))
QUIET = settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
SEARCH = settings(max_examples=3000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))


def same(one, other):
    """Whether two lists of tensors hold the same values; products may round otherwise where their operands lie otherwise."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in zip(one, other, strict=True)
    )


@QUIET
@given(programs(CASES))
def test_programs_run_and_print_as_what_they_are(program: Program):
    def steps(*given):
        values = run_steps(program, list(given))
        return tuple(values[n] for n in program.outputs)

    one = observe(steps, program.make_inputs())
    other = observe(program.function(), program.make_inputs())
    assert one.raised is None
    assert same(one.outputs, other.outputs)


@QUIET
@given(programs(CASES))
def test_the_graph_is_the_program(program: Program):
    try:
        gm = program.graph()
    except Exception:  # noqa: BLE001 - any refusal of a program ends it here
        return
    one, other = observe(program.function(), program.make_inputs()), observe(gm.forward, program.make_inputs())
    assert same(one.outputs, other.outputs)
    assert one.requires_grad == other.requires_grad
    assert one.shared == other.shared


@QUIET
@given(programs())
def test_blind_programs_run(program: Program):
    assert runs(program)


def test_a_program_that_fails_under_autocast_leaves_no_mode_behind():
    enter = Step("entered", _enter_autocast, AUTOCAST)
    fails = Step("y", torch.reshape, (Var("x0"), (5,)))
    program = Program((Input("x0", (2, 3)),), (enter, fails, Step("left", _exit_autocast, (Var("entered"),))), ("y",))
    assert not runs(program)
    with pytest.raises(RuntimeError):
        program.graph()
    assert observe(program.function(), program.make_inputs()).raised is not None
    assert not torch.is_autocast_enabled("cpu")
    assert autocast_nesting() == 0


def test_regions_of_autocast_in_a_case_stay_regions():
    case = next(c for c in CASES if c.name == "under_autocast")
    body = instantiate(case, sample_sizes(case)).body
    assert any(isinstance(item, Region) and item.mode == "autocast" for item in body)


@QUIET
@given(inputs())
def test_inputs_are_the_same_each_time_and_print(spec):
    namespace = {"Input": type(spec), "torch": torch}
    for again in (spec.make(), eval(spec.source(), namespace)):  # noqa: S307 - printed by the line before
        assert same([spec.make().detach()], [again.detach()])
        assert again.requires_grad == (spec.requires_grad and spec.dtype.is_floating_point)


@QUIET
@given(fuzz.tensors(fuzz.shapes(1, 2)))
def test_tensors_are_tensors(tensor):
    assert isinstance(tensor, torch.Tensor)
    assert 1 <= tensor.dim() <= 2


REACHED = {
    "a mutation": lambda p: any(writes(s) for s in p.steps()),
    "a region without gradients": lambda p: any(isinstance(i, Region) and i.mode == "no_grad" for i in p.body),
    "a region of autocast": lambda p: any(isinstance(i, Region) and i.mode == "autocast" for i in p.body),
    "an empty dimension": lambda p: any(0 in i.shape for i in p.inputs),
    "a dimension of extent 1": lambda p: any(1 in i.shape for i in p.inputs),
    "another dtype": lambda p: any(i.dtype is torch.bfloat16 for i in p.inputs),
    "an integer input": lambda p: any(i.dtype is torch.int64 for i in p.inputs),
    "a strided input": lambda p: any(i.layout != "contiguous" for i in p.inputs),
    "special values": lambda p: any(i.special for i in p.inputs),
    "mixed requires_grad": lambda p: len({i.requires_grad for i in p.inputs}) == 2,
    "a random operator": lambda p: any(s.target is torch.nn.functional.dropout for s in p.steps()),
    "an input used twice": lambda p: sum(s.used().count("x0") for s in p.steps()) > 1,
    "a value returned twice": lambda p: len(set(p.outputs)) < len(p.outputs),
    "dead code": lambda p: p.keep_needed().size() < p.size(),
    "a value without metadata": lambda p: bool(p.bare),
    "a join of a whole cut": lambda p: any(s.target is torch.cat and isinstance(s.args[0], Var) for s in p.steps() if s.args),
    "a cut at positions that fall": lambda p: any(s.target is torch.tensor_split for s in p.steps()),
    "an empty vector in a join": lambda p: any(i.shape == (0,) and i.name.startswith("d") for i in p.inputs),
    "a view that is returned": lambda p: any(s.target in ("view", "detach", "t") and s.name in p.outputs for s in p.steps()),
}


@pytest.mark.parametrize("what", REACHED)
def test_corner_is_reached(what):
    assert find(programs(CASES), REACHED[what], settings=SEARCH) is not None


@pytest.mark.parametrize("pattern", [p.judged() for p in on_graphs()], ids=lambda p: p.name)
def test_planted_cases_fire(pattern):
    subject = PatternSubject(pattern)

    def fires(program: Program) -> bool:
        return bool(rewritten(subject, program.graph())[1].rewrites)

    def fires_below(program: Program) -> bool:
        _, *journals = rewritten_both(subject, lower(program.graph()))
        return any(journal.rewrites for journal in journals)

    if is_lowered(subject):
        for case in pattern.cases:
            assert find(planted([case]), fires_below, settings=settings(SEARCH, max_examples=30, phases=[Phase.generate])).origin == case.name
        return
    smallest = find(planted(pattern.cases), fires, settings=SEARCH)
    assert all(extent <= 8 for i in smallest.inputs for extent in i.shape)


def test_programs_of_a_case_do_not_depend_on_what_was_lowered():
    pattern = optimus.patterns()["split_cat_aten_pass"].judged()
    for case in pattern.cases:
        sizes = dict.fromkeys(names(case), 2)
        before = instantiate(case, sizes)
        judge_symbolic(PatternSubject(pattern), case)
        lower(captured(case))
        assert instantiate(case, sizes) == before
        assert runs(before)


@pytest.mark.parametrize("pattern", [p.judged() for p in on_graphs()], ids=lambda p: p.name)
def test_a_short_hunt_finds_nothing(pattern):
    report = hunt(PatternSubject(pattern), seconds=60, max_examples=200, seed_number=7)
    if report.finding is None and report.fired <= 20:
        report = hunt(PatternSubject(pattern), seconds=120, max_examples=600, seed_number=8)
    assert report.finding is None, str(report.finding)
    assert report.fired > 20
    assert report.uncaptured < report.tried / 5


def test_values_without_metadata_have_none_in_the_graph():
    steps = (Step("a", torch.neg, (Var("x"),)), Step("b", torch.neg, (Var("a"),)))
    program = Program((Input("x", (2,)),), steps, ("b",), bare=frozenset({"x", "a"}))
    known = {n.name: "example_value" in n.meta for n in program.graph().graph.nodes if n.op != "output"}
    assert known == {"x": False, "neg": False, "neg_1": True}
    assert "without metadata: a, x" in str(program)


def test_time_counts_what_a_process_works_and_waiting_less():
    spent = Spent()
    threading.Event().wait(0.2)
    waited, clock = spent.seconds(), spent.clock()
    assert 0.2 / PATIENCE <= waited < 0.2 <= clock
    while spent.seconds() < 0.3:  # comes to an end, as work counts in full
        sum(range(1000))
    assert spent.seconds() <= spent.clock()


def test_pieces_are_taken_one_by_one():
    def program(x, y):
        a, b, c = torch.split(x, [1, 0, 2], -1)
        p, q = y.unbind(1)
        return torch.cat([a, b, c], 1), torch.stack([p, q])

    case = fires("2, 3", "3, 2, 4")(program)
    plain = instantiate(case, {})
    changed = [found for step in plain.steps() if (found := taken_apart(plain, step)) is not None]
    assert len(changed) == 2  # the split and the unbind
    for found in changed:
        assert len(found.steps()) == len(plain.steps()) - 1
        one, other = (run_steps(p, p.make_inputs()) for p in (plain, found))
        assert all(torch.equal(one[n], other[n]) for n in plain.outputs)


def test_variants_run_are_the_same_each_time_and_begin_with_the_cases():
    pattern = optimus.patterns()["merge_getitem_cat_pass"]
    cases = (*pattern.cases, *pattern.declines)
    one, other = list(variants(cases)), list(variants(cases))
    assert one == other
    assert [p.origin for p in one[: len(cases)]] == [c.name for c in cases]
    assert all(map(runs, one))
    assert any(i.dtype.is_complex for p in one for i in p.inputs)
    assert not any(i.dtype.is_complex for p in variants(cases, complex_numbers=False) for i in p.inputs)


@pytest.mark.parametrize("name", ["batch_linear", "split_cat_to_slices_pass", "group_linear"])
def test_options_are_drawn_within_their_ranges(name):
    pattern = optimus.patterns()[name]
    assert find(options(pattern), lambda p: p != pattern, settings=SEARCH) is not None
    assert find(options(pattern), lambda p: p == pattern, settings=SEARCH) == pattern


def test_a_captured_case_is_called_with_what_its_graph_takes():
    case = next(c for c in CASES if c.name == "sizes_from_data")
    sizes = sample_sizes(case)
    outputs = captured(case)(*symbolic_inputs(case, sizes))
    program = instantiate(case, sizes)
    expected = [run_steps(program, program.make_inputs())[name] for name in program.outputs]
    assert same(outputs, expected)


def test_the_same_seed_draws_the_same_programs():
    subject = PatternSubject(optimus.patterns()["merge_splits_pass"])
    one, other = (hunt(subject, seconds=60, max_examples=120, seed_number=3) for _ in range(2))
    assert (one.tried, one.fired) == (other.tried, other.fired)
