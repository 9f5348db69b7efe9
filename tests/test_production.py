"""Plans, and the ways into ``torch.compile``."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass

import pytest
import torch
import torch._inductor.config as inductor

import optimus
from optimus.pattern import Exactness, VerticalPattern
from optimus.plan import Plan, default_plan
from optimus.production import ENVIRONMENT, PreGradPass, effective_plan
from tests.processes import environment, python

NAMES = [p.name for p in default_plan()]


def program(x):
    """A split whose pieces are joined again, and more."""
    a, b, c = torch.split(x, [1, 2, 3], dim=1)
    return torch.cat([a, b, c], dim=1) * 2, torch.cat([b, c], dim=1).exp()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    torch._dynamo.reset()
    optimus.clear_journals()
    yield
    torch._dynamo.reset()


def run(compiled, expected=program):
    """Run, and compare with eager."""
    x = torch.randn(4, 6)
    for one, other in zip(compiled(x), expected(x), strict=True):
        torch.testing.assert_close(one, other)
    return optimus.journals()[-1]


class TestPlan:
    def test_it_is_ordered_hashable_printable(self):
        plan = Plan.of("split_cat_pass", ("batch_tanh", {"min_fuse_set_size": 3}))
        assert str(plan) == "split_cat_pass > batch_tanh(min_fuse_set_size=3)"
        assert hash(plan) == hash(Plan.from_json(plan.to_json()))
        assert plan != Plan.of(("batch_tanh", {"min_fuse_set_size": 3}), "split_cat_pass")
        assert [p.name for p in plan.without("batch_tanh")] == ["split_cat_pass"]

    def test_names_near_an_unknown_one_are_offered(self):
        with pytest.raises(ValueError, match="unknown pattern 'split_cat'; nearest are split_cat_pass"):
            Plan.of("split_cat")

    @pytest.mark.parametrize("step", [3, ("batch_tanh", 3), (3, {}), ("batch_tanh",), None])
    def test_what_is_no_step_is_refused(self, step):
        with pytest.raises(TypeError, match="accepted are the name of a pattern, a pattern, and a pair"):
            Plan.of(step)

    def test_options_of_a_pattern_that_is_given_itself(self):
        assert Plan.of((Plan.of("batch_tanh").steps[0], {"min_fuse_set_size": 3})) == Plan.of(("batch_tanh", {"min_fuse_set_size": 3}))

    @pytest.mark.parametrize("steps", [("batch_tanh",), ["batch_tanh"], 3])
    def test_names_are_no_patterns(self, steps):
        with pytest.raises(TypeError, match=r"accepted is a tuple of patterns; Plan\.of takes names"):
            Plan(steps)

    @pytest.mark.parametrize("text", ["nonsense", "[1]", '[{"name": "x"}]', '{"a": 1}'])
    def test_text_that_is_no_plan_is_refused(self, text):
        with pytest.raises(ValueError, match="is no plan"):
            Plan.from_json(text)

    def test_the_digest_changes_with_options_order_and_code(self):
        @dataclass(frozen=True)
        class One(VerticalPattern):
            name = "one"
            anchors = frozenset({"tanh"})
            exactness = Exactness.BITWISE

            def find(self, node, state):
                return None

        digests = {
            Plan.of("split_cat_pass", "merge_splits_pass").digest(),
            Plan.of("merge_splits_pass", "split_cat_pass").digest(),
            Plan.of("split_cat_pass", ("merge_splits_pass", {"counter": 1})).digest(),
            Plan((One(),)).digest(),
            Plan().digest(),
        }
        assert len(digests) == 5
        assert Plan.of("split_cat_pass").digest() == Plan.of("split_cat_pass").digest()


class TestBackend:
    @pytest.mark.parametrize("options", [None, {"compiler": "aot_eager"}, {"compiler": "eager"}, {"max_autotune": False}])
    def test_by_name(self, options):
        journal = run(torch.compile(program, backend="optimus", options=options))
        assert journal.fired("mutate_cat_pass")

    def test_mode_is_inductors(self):
        assert run(torch.compile(program, backend="optimus", mode="default")).rewrites

    def test_as_a_function(self):
        plan = Plan.of("split_cat_pass")
        journal = run(optimus.compile(program, plan=plan, options={"compiler": "aot_eager"}))
        assert set(journal.counts()) == {"split_cat_pass"}
        with pytest.raises(TypeError, match="backend='inductor' cannot be given"):
            optimus.compile(program, backend="inductor")

    def test_training_and_inference_and_dynamic_sizes(self):
        compiled = torch.compile(program, backend="optimus", options={"compiler": "aot_eager"}, dynamic=True)
        for rows in (3, 5):
            x = torch.randn(rows, 6, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            sum(o.sum() for o in compiled(x)).backward()
            sum(o.sum() for o in program(y)).backward()
            assert torch.equal(x.grad, y.grad)
            with torch.no_grad():
                assert torch.equal(compiled(x)[0], program(x)[0])
        assert len([j for j in optimus.journals() if j.ir == "torch"]) == 2

    def test_a_pattern_that_raises_is_left_out_with_a_warning(self):
        @dataclass(frozen=True)
        class Raises(VerticalPattern):
            name = "raises"
            anchors = frozenset({"split"})
            exactness = Exactness.BITWISE

            def find(self, node, state):
                raise KeyError("meta")

        with pytest.warns(RuntimeWarning, match="optimus: raises raised KeyError: 'meta'; what it was to rewrite is left as it was"):
            journal = run(optimus.compile(program, plan=Plan((Raises(),)), options={"compiler": "aot_eager"}))
        assert not journal.rewrites

    def test_validated_while_compiling(self):
        journal = run(optimus.compile(program, validate="prove", options={"compiler": "aot_eager"}))
        assert journal.fired("mutate_cat_pass")
        assert not any(d.reason == "not_validated" for d in journal.declined)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"plna": 1}, "unknown option 'plna'; accepted are plan, enable"),
            ({"plan": ["split_cat"]}, "nearest are split_cat_pass"),
            ({"plan": 3}, "plan=3 is a int; accepted are a Plan"),
            ({"disable": ["nothing_like_it"]}, "unknown pattern 'nothing_like_it'"),
            ({"disable": "split_cat_pass"}, "accepted is a list of pattern names"),
            ({"enable": [("batch_tanh", {})]}, "options are given with a plan"),
            ({"enable": 3}, "enable=3; accepted is a list of pattern names"),
            ({"validate": "trust"}, "validate='trust' is unknown; accepted are"),
            ({"compiler": "aot_eager", "max_autotune": True}, "max_autotune unknown to compiler 'aot_eager'"),
        ],
    )
    def test_bad_options_are_refused_in_one_line(self, options, message):
        with pytest.raises(Exception, match=message):
            torch.compile(program, backend="optimus", options=options)(torch.randn(4, 6))


class TestSwitches:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", NAMES),
            ("-split_cat_pass", [n for n in NAMES if n != "split_cat_pass"]),
            ("-split_cat_pass, -batch_tanh", [n for n in NAMES if n not in ("split_cat_pass", "batch_tanh")]),
            ("+split_cat_pass", NAMES),
            ("merge_splits_pass,split_cat_pass", ["merge_splits_pass", "split_cat_pass"]),
            ("none", []),
        ],
    )
    def test_the_environment_variable(self, monkeypatch, text, expected):
        monkeypatch.setenv(ENVIRONMENT, text)
        assert [p.name for p in effective_plan()] == expected

    @pytest.mark.parametrize("text", ["-nothing_like_it", "split_cat_pass,-batch_tanh"])
    def test_nonsense_in_the_environment_variable_is_refused(self, monkeypatch, text):
        monkeypatch.setenv(ENVIRONMENT, text)
        with pytest.raises(ValueError, match=f"environment variable {ENVIRONMENT}"):
            effective_plan()

    def test_options_by_name(self):
        assert [p.name for p in effective_plan(["split_cat_pass"], enable=["batch_tanh"])] == ["split_cat_pass", "batch_tanh"]
        assert [p.name for p in effective_plan(disable=NAMES)] == []

    @pytest.mark.parametrize("name", NAMES)
    def test_every_pattern_can_be_switched_off(self, name):
        journal = run(torch.compile(program, backend="optimus", options={"compiler": "eager", "disable": [name]}))
        assert name not in journal.counts()


class TestHooks:
    def test_inductor_keeps_its_name_and_runs_the_plan(self):
        with inductor.patch(force_disable_caches=True), optimus.hooks(Plan.of("split_cat_pass")):
            journal = run(torch.compile(program))
        assert set(journal.counts()) == {"split_cat_pass"}
        assert inductor.pre_grad_custom_pass is None

    def test_a_pass_that_was_there_runs_first(self):
        seen = []
        with inductor.patch(pre_grad_custom_pass=lambda graph: seen.append(len(graph.nodes)), force_disable_caches=True), optimus.hooks():
            journal = run(torch.compile(program))
        assert journal.rewrites
        assert seen == [journal.nodes_before]

    def test_the_identity_in_caches_changes_with_the_plan(self):
        ids = {PreGradPass(Plan.of(*steps), None).uuid() for steps in ([], ["split_cat_pass"], [("split_cat_pass", {"counter": 1})])}
        assert len(ids) == 3
        assert PreGradPass(Plan.of("split_cat_pass"), None).uuid() == PreGradPass(Plan.of("split_cat_pass"), None).uuid()


CACHE_SCRIPT = """
    import json, os, sys, torch, optimus
    from torch._dynamo.utils import counters

    def program(x):
        a, b, c = torch.split(x, [1, 2, 3], dim=1)
        return torch.cat([a, b, c], dim=1) * 2, torch.cat([b, c], dim=1).exp()

    def hit(way, plan):
        torch._dynamo.reset()
        counters.clear()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath(way)
        x = torch.arange(24.0).view(4, 6)
        if way == "hooks":
            with optimus.hooks(plan):
                found = torch.compile(program)(x)
        else:
            found = torch.compile(program, backend="optimus", options={"plan": plan})(x)
        for one, other in zip(found, program(x)):
            torch.testing.assert_close(one, other)
        return counters["aot_autograd"]["autograd_cache_hit"] + counters["inductor"]["fxgraph_cache_hit"] > 0

    print(json.dumps([[way, steps, hit(way, optimus.Plan.of(*map(tuple, steps)))] for way, steps in json.loads(sys.argv[1])]))
"""


def test_caches_are_on_and_never_stale(tmp_path):
    """The same plan hits PyTorch's caches in a second process; another plan, another option or other code misses."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(CACHE_SCRIPT))

    def in_a_process(*asked):
        done = python(str(script), json.dumps(asked), where=tmp_path, env=environment())
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    one, optioned = [["split_cat_pass", {}]], [["split_cat_pass", {"counter": 1}]]
    runs = [["hooks", one], ["hooks", []], ["hooks", optioned], ["backend", one], ["backend", []]]
    # behind the backend the rewritten graph itself is the key, and an option that changes nothing hits
    assert in_a_process(*runs) == [[*run, False] for run in runs]
    runs = [["hooks", one], ["backend", one]]
    assert in_a_process(*runs) == [[*run, True] for run in runs]
