"""Activations in 8 bits: the formats, the pass between forward and backward graph, and the judge on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from hypothesis import given, settings
from torch import nn

import optimus
from fuzz.program import Input, Program, Step, Var
from fuzz.strategies import shapes, tensors
from fuzz.templates import captured
from optimus import quantization
from optimus.fp8 import FLUSHED, FORMATS, bound, converts, fp8_decode, fp8_encode, fp8_step
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.plan import Plan, lookup
from optimus.postgrad import aot_eager
from optimus.quantization import Partitioner
from verify import lossy, quantizer
from verify.compare import same_strides
from verify.proof import prove_case
from verify.subject import PatternSubject
from verify.verdict import Proved, explain

NAME = "activation_quantization_aten_pass"
ANY = ActivationQuantization(size_in_mb=0, allowed_dtypes="bfloat16;float16;float32")
WAYS = [(form, scaled) for form in FORMATS for scaled in (True, False)]
INF, NAN = float("inf"), float("nan")


def back(x, form, scaled):
    step = fp8_step(x, form) if scaled else None
    return fp8_decode(fp8_encode(x, step, form), step, x.dtype), step


class TestFormats:
    @pytest.mark.parametrize(("form", "scaled"), WAYS)
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_every_value_of_16_bits_comes_back_within_the_bound(self, dtype, form, scaled):
        every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
        for x in (every.view(256, 256), every.view(256, 256).t().contiguous(), every.view(-1, 1)):
            found, step = back(x, form, scaled)
            assert lossy.broken(x, found, form, step) == []
            assert found.dtype == dtype

    @pytest.mark.parametrize(("form", "scaled"), WAYS)
    @settings(max_examples=150, deadline=None)
    @given(x=tensors(shapes(min_rank=1, max_extent=6), tuple(FLUSHED)))
    def test_drawn_tensors_come_back_within_the_bound(self, form, scaled, x):
        if x.shape[-1]:
            found, step = back(x.detach(), form, scaled)
            assert lossy.broken(x.detach(), found, form, step) == []
            assert found.shape == x.shape
            assert same_strides(x.shape, torch.empty_like(x).stride(), found.stride())

    @pytest.mark.parametrize(("form", "scaled"), WAYS)
    def test_the_bound_is_met_not_only_kept(self, form, scaled):
        x = torch.linspace(1, 2, 4096).view(1, -1)
        found, step = back(x, form, scaled)
        assert float(((found - x).abs() / bound(x, form, step)).max()) > 0.85

    @pytest.mark.parametrize(("form", "scaled"), WAYS)
    def test_what_is_not_finite_is_kept_and_spoils_nothing_else(self, form, scaled):
        x = torch.tensor([[INF, -INF, NAN, -0.0, 0.0, 1.0, -0.5]])
        found, _ = back(x, form, scaled)
        assert torch.equal(found.nan_to_num(9.0, 7.0, -7.0), torch.tensor([[7.0, -7.0, 9.0, 0.0, 0.0, 1.0, -0.5]]))
        assert found[0, 3].signbit()

    @pytest.mark.parametrize(("form", "scaled"), WAYS)
    @pytest.mark.parametrize("dtype", FLUSHED)
    def test_rows_of_one_kind(self, dtype, form, scaled):
        info = torch.finfo(dtype)
        for value in (0.0, INF, NAN, info.max, -info.max, info.tiny, info.smallest_normal * info.eps):
            x = torch.full((3, 5), value, dtype=dtype)
            found, step = back(x, form, scaled)
            assert lossy.broken(x, found, form, step) == []

    def test_without_steps_values_past_the_range_become_its_end(self):
        x = torch.tensor([417.0, 1e30, -1e30, 416.0])
        assert back(x, torch.float8_e4m3fn, False)[0].tolist() == [416.0, 416.0, -416.0, 416.0]
        assert back(x, torch.float8_e5m2, False)[0].tolist() == [448.0, 49152.0, -49152.0, 384.0]

    def test_steps_are_powers_of_two(self):
        steps = fp8_step(torch.randn(100, 7) * torch.logspace(-44, 38, 100).unsqueeze(1), torch.float8_e5m2)
        assert bool((torch.frexp(steps).mantissa == 0.5).all())

    def test_other_dtypes_are_refused(self):
        with pytest.raises(TypeError, match=r"a tensor of torch.float64; accepted are torch.float16"):
            fp8_step(torch.zeros(3, dtype=torch.float64), torch.float8_e5m2)
        with pytest.raises(TypeError, match=r"format torch.int8; accepted are torch.float8_e4m3fn, torch.float8_e5m2"):
            fp8_encode(torch.zeros(3), None, torch.int8)

    def test_the_operators_are_what_pytorch_asks_of_operators(self):
        x = torch.randn(4, 5)
        step = fp8_step(x, torch.float8_e5m2)
        torch.library.opcheck(fp8_step, (x, torch.float8_e5m2), test_utils=("test_schema", "test_faketensor"))
        faketensor = ("test_faketensor",)  # the test of schemas compares results in a way that 8-bit tensors do not have
        torch.library.opcheck(fp8_encode, (x, step, torch.float8_e5m2), test_utils=faketensor)
        torch.library.opcheck(fp8_decode, (fp8_encode(x, step, torch.float8_e5m2), step, torch.float32), test_utils=faketensor)


class TestOptions:
    def test_names_that_are_none(self):
        with pytest.raises(ValueError, match="option quant_type='float8_e8m0fnu' names 'float8_e8m0fnu'; accepted are float8_e4m3fn, float8_e5m2"):
            ActivationQuantization(quant_type="float8_e8m0fnu")
        with pytest.raises(ValueError, match="names 'int64'; accepted are float16, bfloat16, float32"):
            ActivationQuantization(allowed_dtypes="bfloat16;int64")
        with pytest.raises(ValueError, match="option size_in_mb=-1 is too small; accepted is 0 or more"):
            ActivationQuantization(size_in_mb=-1)

    def test_spelled_as_in_the_paper(self):
        pattern = ActivationQuantization(allowed_dtypes="torch.bfloat16; torch.float16", quant_type="torch.float8_e4m3fn")
        assert (pattern.dtypes, pattern.format) == ((torch.bfloat16, torch.float16), torch.float8_e4m3fn)

    def test_it_is_a_step_of_a_plan(self):
        plan = Plan.of((NAME, {"size_in_mb": 3}))
        assert Plan.from_json(plan.to_json()) == plan
        assert lookup(NAME) not in tuple(optimus.plan.default_plan())
        assert NAME not in {p.name for p in optimus.plan.default_plan()}


def compiled(function, pattern, given, *, dynamic=None, static=()):
    """Outputs, gradients and the journal through ``aot_eager`` with the pass."""
    journals = []
    torch._dynamo.reset()
    run = torch.compile(function, backend=aot_eager(None, quantization.Partitioner(Plan((pattern,)), journals.append)), dynamic=dynamic)
    inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in given]
    outputs = run(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.autograd.backward([o for o in outputs if o.requires_grad], [torch.ones_like(o) for o in outputs if o.requires_grad])
    (journal,) = journals
    return [o.detach() for o in outputs], [i.grad for i in inputs], journal


def reasons(journal):
    return {d.node: d.reason for d in journal.declined}


def leaf(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


class TestChoice:
    def test_small_values_are_left_alone(self):
        _, _, journal = compiled(lambda x, w: torch.mm(x, w).sin().sum(), replace(ANY, size_in_mb=1), [leaf(8, 8), leaf(8, 8)])
        assert "small" in reasons(journal).values()
        assert not journal.rewrites
        given = [leaf(512, 8), leaf(8, 512)]
        _, _, journal = compiled(lambda x, w: torch.mm(x, w).sin().sum(), replace(ANY, size_in_mb=1), given)
        assert len(journal.rewrites) == 1

    def test_sizes_that_are_not_known(self):
        given = [leaf(512, 8), leaf(8, 512)]
        for more in (False, True):
            pattern = replace(ANY, size_in_mb=1, quantize_dynamic_shape=more)
            _, _, journal = compiled(lambda x, w: torch.mm(x, w).sin().sum(), pattern, given, dynamic=True)
            assert len(journal.rewrites) == more

    def test_integers_and_truth_values_are_never_quantised(self):
        def program(x, w, index):
            h = torch.mm(x, w)
            return torch.where(h > 0, h.gather(1, index) * 2, h * 3).sum()

        given = [leaf(6, 8), leaf(8, 6), torch.zeros(6, 6, dtype=torch.int64)]
        _, _, journal = compiled(program, replace(ANY, exclude_primals=False), given)
        assert {d.detail for d in journal.declined if d.reason == "dtype"} == {"torch.int64", "torch.bool"}

    def test_inputs_only_when_asked_for(self):
        x, u = leaf(6, 8, seed=1), leaf(6, 8)
        outputs, grads, journal = compiled(lambda x, u: x * u, ANY, [x, u])
        assert set(reasons(journal).values()) == {"input"}
        assert torch.equal(grads[1], x.detach())
        _, grads, journal = compiled(lambda x, u: x * u, replace(ANY, exclude_primals=False), [x, u])
        assert len(journal.rewrites) == 2
        assert torch.equal(grads[1], back(x.detach(), torch.float8_e5m2, True)[0])
        assert torch.equal(outputs[0], (x * u).detach())

    def test_parameters_never(self):
        linear = nn.Linear(8, 8)
        journals = []
        run = torch.compile(linear, backend=aot_eager(None, quantization.Partitioner(Plan((replace(ANY, exclude_primals=False),)), journals.append)))
        run(leaf(4, 8)).sum().backward()
        (journal,) = journals
        assert len(journal.rewrites) == 1  # the input
        assert "input" in reasons(journal).values()

    def test_what_is_returned_and_saved_is_left_alone(self):
        def program(x, w, v):
            h = torch.mm(x, w)
            return h, torch.mm(h, v), h.exp()[1:]

        given = [leaf(6, 8), leaf(8, 6), leaf(6, 8)]
        outputs, _, journal = compiled(program, ANY, given)
        assert set(reasons(journal).values()) == {"returned", "input"}
        assert not journal.rewrites
        assert all(torch.equal(a, b) for a, b in zip(outputs, (t.detach() for t in program(*given)), strict=True))

    def test_views_of_one_memory_are_quantised_together_or_not_at_all(self):
        def program(x, w, v):
            h = torch.mm(x, w)
            return torch.mm(h, v).sum() + torch.mm(h.t(), v.t()).sum()

        for dtype, fired in ((torch.float32, True), (torch.bfloat16, False)):  # two copies in 8 bits are as large as one in 16
            given = [leaf(64, 8, dtype=dtype), leaf(8, 64, dtype=dtype), leaf(64, 64, dtype=dtype)]
            _, _, journal = compiled(program, ANY, given)
            if len([n for n in [*reasons(journal)] if reasons(journal)[n] == "no_gain"]) or fired:
                assert bool(journal.rewrites) == fired

    @pytest.mark.parametrize(
        ("program", "declined"),
        [
            (lambda x, w: torch.logsumexp(torch.mm(x, w), 1), True),
            (lambda x, w: F.cross_entropy(torch.mm(x, w), torch.arange(6) % 6), True),
            (lambda x, w: torch.softmax(torch.mm(x, w) * 3 - 1, 1).amax(), False),  # the softmax is saved, not what it is computed from
            (lambda x, w: F.gelu(torch.mm(x, w)), False),
            (lambda x, w: torch.sigmoid(torch.mm(x, w)), False),
            (lambda x, w: torch.cosh(torch.mm(x, w).t() + 1), True),
        ],
        ids=["logsumexp", "cross entropy", "softmax", "gelu", "sigmoid", "cosh"],
    )
    def test_what_an_exponential_is_taken_of(self, program, declined):
        given = [leaf(6, 8), leaf(8, 6)]
        _, _, journal = compiled(program, ANY, given)
        assert ("exponent" in reasons(journal).values()) == declined
        _, _, journal = compiled(program, replace(ANY, exponents=True), given)
        assert "exponent" not in reasons(journal).values()
        assert journal.rewrites or not declined

    def test_queries_and_keys_of_attention(self):
        def program(x, w):
            q, k, v = (torch.matmul(x, w * s).view(2, 16, 2, 8).transpose(1, 2) for s in (1.0, 2.0, 3.0))
            return F.scaled_dot_product_attention(q, k, v).sum()

        _, _, journal = compiled(program, ANY, [leaf(2, 16, 16), leaf(16, 16)])
        assert len([r for r in reasons(journal).values() if r == "exponent"]) == 2
        assert journal.rewrites

    def test_empty_tensors(self):
        for shape in ((0, 8), (6, 0)):
            outputs, _, journal = compiled(lambda x, w: torch.mm(x, w).sin().sum(1), ANY, [leaf(shape[0], 4), leaf(4, shape[1])])
            assert outputs[0].shape == (shape[0],)
            assert "error" not in reasons(journal).values()

    def test_a_gpu_without_the_format(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
        cuda = torch.device("cuda")
        assert not converts(cuda, torch.float8_e4m3fn)
        assert not converts(torch.device("meta"), torch.float8_e5m2)


class TestValues:
    def test_gradients_stay_finite_where_eager_has_them_so(self):
        """The gradient of a logarithm at infinity is 0; at a saturated value it would not be, at NaN it would be NaN."""

        def program(x, w):
            return torch.log(torch.mm(x, w).exp() * 1.0)

        x, w = torch.full((4, 4), 100.0).requires_grad_(), torch.eye(4).requires_grad_()
        for form in ("float8_e4m3fn", "float8_e5m2"):
            for scaled in (True, False):
                _, grads, _ = compiled(program, replace(ANY, quant_type=form, use_scaling=scaled), [x, w])
                expected = torch.autograd.grad(program(x, w).sum(), [x, w])
                for one, other in zip(expected, grads, strict=True):
                    assert bool((torch.isfinite(other) | ~torch.isfinite(one)).all())

    def test_in_place_writes_round_a_saved_value(self):
        """What is saved is the value that was there when it was saved; what eager refuses is refused."""

        steps = (
            Step("h", torch.mm, (Var("x"), Var("w"))),
            Step("g", torch.sigmoid, (Var("h"),)),
            Step("u", "mul_", (Var("h"), 2)),
            Step("y", torch.mm, (Var("u"), Var("v"))),
            Step("z", torch.sum, (Var("g"),)),
        )
        program = Program((Input("x", (6, 8)), Input("w", (8, 6), seed=1), Input("v", (6, 8), seed=2)), steps, ("y", "z"))
        found = lossy.run(program, replace(ANY, quant_type="float8_e4m3fn"))
        assert found.differences == ()
        assert found.fired == 2

        def refused(x, w, v):
            h = torch.mm(x, w)
            y = torch.mm(h, v)
            h.mul_(2)
            return y.sum() + h.sum()

        given = [leaf(6, 8), leaf(8, 6), leaf(6, 8)]
        with pytest.raises(RuntimeError, match="inplace"):
            torch.autograd.grad(refused(*given), given)
        with pytest.raises(Exception, match="inplace"):
            compiled(refused, ANY, given)

    def test_a_pass_that_fails_leaves_the_graphs(self, monkeypatch):
        monkeypatch.setattr(quantization, "_decoded", lambda *_: 1 / 0)
        given = [leaf(6, 8), leaf(8, 6)]
        _, grads, journal = compiled(lambda x, w: torch.mm(x, w).sin().sum(), ANY, given)
        assert not journal.rewrites
        assert reasons(journal)["graph"] == "error"
        expected = torch.autograd.grad(torch.mm(*given).sin().sum(), given)
        assert all(torch.allclose(a, b) for a, b in zip(grads, expected, strict=True))

    @pytest.mark.parametrize("options", [{}, {"quant_type": "float8_e4m3fn"}, {"use_scaling": False}], ids=str)
    def test_a_network_trains(self, options):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 1))
        x = torch.randn(64, 16)
        y = x.square().mean(1, keepdim=True)
        torch._dynamo.reset()
        run = torch.compile(model, backend=aot_eager(None, quantization.Partitioner(Plan((replace(ANY, **options),)), lambda _: None)))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        first = last = 0.0
        for k in range(60):
            loss = F.mse_loss(run(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            first, last = (loss.item() if k == 0 else first), loss.item()
        assert last < first / 4


class TestJudge:
    @pytest.mark.parametrize("options", [{}, {"use_scaling": False}, {"quant_type": "float8_e4m3fn"}], ids=str)
    @pytest.mark.parametrize("case", ANY.cases, ids=lambda c: c.name)
    def test_cases_are_proved_and_say_what_is_not_the_same(self, case, options):
        proof = prove_case(PatternSubject(replace(lookup(NAME), **options)), case)
        assert isinstance(proof.verdict, Proved), explain(proof.verdict)
        assert proof.fired
        assert proof.verdict.queries == proof.verdict.confirmed > 0
        assert any(law.startswith("the backward pass reads decode(encode(") for law in proof.verdict.laws)

    @pytest.mark.parametrize("case", ANY.declines, ids=lambda c: c.name)
    def test_declines(self, case):
        proof = prove_case(PatternSubject(lookup(NAME)), case)
        assert isinstance(proof.verdict, Proved), explain(proof.verdict)
        assert not proof.fired

    def test_every_requirement_has_a_decline_but_what_the_judge_cannot_capture(self):
        assert {c.reason for c in ANY.declines} == set(ANY.requirements) - {"small", "device"}

    @pytest.mark.parametrize("wrong", ["swapped", "other step", "one more"])
    def test_wrong_passes_are_not_proved_and_fuzzing_sees_them(self, wrong, monkeypatch):
        """Saved values exchanged; decoded without their steps; one that the result does not name."""
        right = quantization._backward

        def broken(gm, names, pattern):
            made = right(gm, names, pattern)
            decoded = [n for n in made.graph.nodes if n.target is fp8_decode]
            if wrong == "swapped":
                a, b = decoded
                a.args, b.args = b.args, a.args
            elif wrong == "other step":
                decoded[0].args = (decoded[0].args[0], None, decoded[0].args[2])
            else:
                first = decoded[0]
                with made.graph.inserting_after(first):
                    more = made.graph.call_function(torch.ops.aten.neg.default, (first,))
                more.meta["val"] = first.meta["val"]
                first.replace_all_uses_with(more, delete_user_cb=lambda user: user is not more)
            return made

        monkeypatch.setattr(quantization, "_backward", broken)
        case = next(c for c in ANY.cases if c.name == "gated")
        subject = PatternSubject(lookup(NAME))
        assert not isinstance(quantizer.examine(subject, captured(case)).verdict, Proved)
        comparison = next(c for c in lossy.differential(subject, ("aot_eager",), "cpu", 2) if c.name == "gated")
        assert comparison.blamed

    def test_a_hunt_sees_a_bound_that_does_not_hold(self, monkeypatch):
        monkeypatch.setattr(lossy, "bound", lambda x, form, step: bound(x, form, step) / 4)
        found = lossy.hunt(PatternSubject(lookup(NAME)), seconds=60).finding
        assert found is not None
        assert "off by more than the bound" in found.differences[0]

    def test_a_short_hunt(self):
        report = lossy.hunt(PatternSubject(lookup(NAME)), seconds=15)
        assert report.finding is None, str(report.finding)
        assert report.fired


class TestProduction:
    def test_through_options(self):
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        x = torch.randn(6, 8)
        optimus.clear_journals()
        torch._dynamo.reset()
        step = [NAME, {"size_in_mb": 0, "allowed_dtypes": "float32"}]
        run = torch.compile(model, backend="optimus", options={"plan": [tuple(step)], "compiler": "aot_eager"})
        loss = run(x).sum()
        loss.backward()
        assert torch.equal(loss, model(x).sum())
        assert any(j.fired(NAME) for j in optimus.journals())

    def test_outputs_have_the_same_bits_in_half_precision(self):
        """Through Inductor, which keeps bfloat16 wider inside a kernel: what is encoded must not change what is fused with what."""

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down, self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64), nn.LayerNorm(64)

            def forward(self, x):
                h = x + self.down(F.gelu(self.up(self.first(x))))
                h = h + F.silu(self.second(h)) * torch.sigmoid(h)
                return torch.tanh(h) * 2 + F.softmax(h, -1)

        def run(*patterns):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = nn.Sequential(Block(), Block()).bfloat16()
            x = torch.randn(32, 64).bfloat16().requires_grad_()
            with inductor.patch(force_disable_caches=True):
                return optimus.compile(model, plan=Plan(patterns))(x).detach()

        optimus.clear_journals()
        assert torch.equal(run(ANY), run())
        assert sum(j.counts()[NAME] for j in optimus.journals()) > 4

    def test_a_compiler_that_cannot(self):
        torch._dynamo.reset()
        run = torch.compile(nn.Linear(3, 3), backend="optimus", options={"enable": [NAME], "compiler": "eager"})
        with pytest.raises(Exception, match="cannot run through compiler 'eager'; accepted are 'inductor' and 'aot_eager'"):
            run(torch.randn(2, 3))

    def test_hooks_keep_the_partitioner_in_front(self):
        class Counting(Partitioner):
            calls = 0

            def __call__(self, gm, joint_inputs, **kwargs):
                Counting.calls += 1
                return super().__call__(gm, joint_inputs, **kwargs)

        torch._dynamo.reset()
        optimus.clear_journals()
        mine = Counting(Plan(), lambda _: None)
        with inductor.patch(custom_partitioner_fn=mine, force_disable_caches=True), optimus.hooks(Plan((ANY,))):
            assert inductor.custom_partitioner_fn.previous is mine
            x, w = leaf(6, 8), leaf(8, 6)
            torch.compile(lambda x, w: torch.mm(x, w).sigmoid().sum())(x, w).backward()
        assert inductor.custom_partitioner_fn is None
        assert Counting.calls == 1
        assert any(j.fired(NAME) for j in optimus.journals())

    def test_cache_keys_differ_with_every_option(self):
        def key(pattern, previous=None):
            return Partitioner(Plan((pattern,)), lambda _: None, previous).uuid()

        others = [replace(ANY, size_in_mb=1), replace(ANY, allowed_dtypes="float32"), replace(ANY, quant_type="float8_e4m3fn")]
        others += [replace(ANY, use_scaling=False), replace(ANY, exclude_primals=False), replace(ANY, quantize_dynamic_shape=True)]
        keys = [key(ANY), *map(key, others), key(ANY, Partitioner(Plan(), lambda _: None))]
        keys.append(Partitioner(Plan((ANY,)), lambda _: None, expanded=True).uuid())
        assert len(set(keys)) == len(keys)
        assert key(ANY) == key(replace(ANY))

    def test_the_compile_cache_hits_for_the_same_plan_alone(self, tmp_path, monkeypatch):
        from torch._dynamo.utils import counters

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

        def run(pattern):
            torch._dynamo.reset()
            torch.compiler.reset()
            counters.clear()
            with inductor.patch(fx_graph_cache=True, fx_graph_remote_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
                x, w = leaf(6, 8), leaf(8, 6)
                options = {"plan": Plan((pattern,))}
                torch.compile(lambda x, w: torch.mm(x, w).sigmoid().sum(), backend="optimus", options=options)(x, w).backward()
            return counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"]

        assert run(ANY) == (0, 2)
        assert run(ANY) == (2, 0)
        assert run(replace(ANY, size_in_mb=1)) == (0, 2)
