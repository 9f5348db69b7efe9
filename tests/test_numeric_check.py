"""The numeric check of production: what it finds, whom it blames, and that it changes nothing."""

from __future__ import annotations

import warnings

import pytest
import torch

import optimus
from optimus import numeric_check
from optimus.numeric_check import NumericCheck, NumericError, NumericWarning, first_difference
from optimus.plan import Plan
from tests import planted
from tests.broken.joins import OrderIgnored
from tests.broken.lowered import FactorDropped

WRONG = Plan((OrderIgnored(),))


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    numeric_check.counts.clear()
    yield
    numeric_check.switch_on()
    torch._dynamo.reset()


def right(x, w):
    a, b = torch.split(x, [3, 5], 1)
    return torch.tanh(torch.cat([a, b], 1)) @ w


def wrong(x, w):
    a, b = torch.split(x, [3, 5], 1)
    return torch.tanh(torch.cat([b, a], 1)) @ w


def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator).requires_grad_() for s in ((4, 8), (8, 3))]


def compiled(program, plan=WRONG, compiler="aot_eager", dynamic=None, **check):
    check = {"every": 1, "tolerance": 1e-4, **check}
    return optimus.compile(program, plan=plan, numeric_check=check, options={"compiler": compiler}, dynamic=dynamic)


class TestOptions:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"every": 0, "tolerance": 0.1}, "every=0; accepted is a whole number from 1"),
            ({"every": 1, "tolerance": -1}, "tolerance=-1; accepted is a number from 0"),
            ({"every": 1, "tolerance": float("nan")}, "tolerance=nan"),
            ({"every": 1, "tolerance": 0.1, "on_failure": "log"}, "accepted are raise, report, disable"),
            ({"every": 1, "tolerance": 0.1, "callback": 3}, "accepted is a function"),
            ({"every": 1}, "accepted is a mapping with every and tolerance"),
            ({"every": 1, "tolerance": 0.1, "evry": 1}, "accepted is a mapping with every and tolerance"),
            (3, "accepted is a mapping with every and tolerance"),
        ],
    )
    def test_nonsense_is_refused(self, given, message):
        with pytest.raises(ValueError, match=message):
            NumericCheck.of(given)

    def test_through_torch_compile(self):
        fast = torch.compile(
            wrong, backend="optimus", options={"plan": WRONG, "compiler": "aot_eager", "numeric_check": {"every": 1, "tolerance": 0.0}}
        )
        with pytest.raises(NumericError, match="rewrite 1 of order_ignored"):
            fast(*tensors())


class TestComparison:
    @pytest.mark.parametrize(
        ("one", "other", "tolerance", "differs"),
        [
            ([1.0, 100.0], [1.05, 100.0], 1e-3, False),  # small against the rest of its tensor
            ([1.0, 1.0], [1.05, 1.0], 1e-3, True),
            ([float("nan"), 1.0], [float("nan"), 1.0], 0.0, False),
            ([1.0, 1.0], [float("nan"), 1.0], 1.0, True),
            ([float("inf"), 1.0], [float("inf"), 1.0], 0.0, False),
            ([float("inf"), 1.0], [1e30, 1.0], 1.0, True),
            ([0.0], [-0.0], 0.0, False),
            ([], [], 0.0, False),
        ],
    )
    def test_elements(self, one, other, tolerance, differs):
        found = first_difference([("x", torch.tensor(one), torch.tensor(other))], tolerance)
        assert (found is not None) == differs

    def test_other_things(self):
        ones = torch.ones(2)
        assert first_difference([("x", ones, ones.double())], 1.0) == "x: torch.float32 (2,) became torch.float64 (2,)"
        assert first_difference([("x", ones, ones[:1])], 1.0) == "x: torch.float32 (2,) became torch.float32 (1,)"
        assert first_difference([("x", torch.tensor([1, 2]), torch.tensor([1, 3]))], 10.0)
        assert first_difference([("x", 1, 2)], 1.0) == "x: 1 became 2"
        assert first_difference([("x", None, None), ("y", ones, ones)], 0.0) is None


class TestFailures:
    def test_raise_is_the_default(self):
        with pytest.raises(NumericError) as error:
            compiled(wrong)(*tensors())
        assert (error.value.failure.pattern, error.value.failure.rewrite, error.value.failure.call) == ("order_ignored", 1, 1)

    def test_report_to_a_callback_or_as_a_warning(self):
        seen = []
        fast = compiled(wrong, on_failure="report", callback=seen.append)
        for _ in range(3):
            fast(*tensors())
        assert [f.call for f in seen] == [1, 2, 3]
        with pytest.warns(NumericWarning, match="made by rewrite 1 of order_ignored"):
            compiled(wrong, on_failure="report")(*tensors())

    @pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
    def test_disable_goes_on_without_the_pattern(self, compiler):
        seen = []
        fast = compiled(wrong, compiler=compiler, on_failure="disable", callback=seen.append)
        inputs = tensors()
        first = fast(*inputs)
        assert not torch.allclose(first, wrong(*inputs))  # the results of the model are its own, also where they are wrong
        assert numeric_check.switched_off() == ("order_ignored",)
        for rows in (4, 4, 6):
            x, w = torch.randn(rows, 8), inputs[1]
            torch.testing.assert_close(fast(x, w), wrong(x, w))
        assert len(seen) == 1 and seen[0].switched_off
        torch.testing.assert_close(compiled(wrong, on_failure="disable")(*inputs), wrong(*inputs))  # compiled later

    def test_only_some_calls(self):
        seen = []
        fast = compiled(wrong, every=3, on_failure="report", callback=seen.append)
        for _ in range(7):
            fast(*tensors())
        assert [f.call for f in seen] == [1, 4, 7]

    def test_the_guilty_one_of_many(self):
        def program(x, w):
            for k in range(6):
                x = torch.sin(right(x, w.expand(8, 3)) if k != 4 else wrong(x, w)) @ w.t()
            return x

        with pytest.raises(NumericError) as error:
            compiled(program)(*tensors())
        assert error.value.failure.rewrite == 5

    def test_a_fault_of_the_backward_pass_alone(self):
        plan = Plan((next(f for f in planted.FAULTS if f.name == "gradient").pattern,))
        fast = compiled(lambda x: torch.sin(torch.mul(x, 0.25)), plan)
        x = tensors()[0]
        y = fast(x)
        with pytest.raises(NumericError, match=r"gradient of input 0.*rewrite 1 of gradient"):
            y.sum().backward()

    @pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
    def test_a_pattern_of_aten_is_named_and_switched_off(self, compiler):
        """Behind right rewrites above it; a third right one stands in front of it."""

        def program(x, w):
            a, b = torch.split(x, [4, 4], 1)
            first = torch.cat([torch.sub(a, b), torch.sub(b, a)])
            return torch.cat([torch.sub(a.sin(), first[:4], alpha=3), torch.sub(b.cos(), first[4:], alpha=3)]) @ w[:4]

        plan = Plan((*Plan.of("normalization_pass"), FactorDropped(min_fuse_set_size=2)))
        with pytest.raises(NumericError, match=r"made by rewrite \d of factor_dropped"):
            compiled(program, plan, compiler)(*tensors())
        torch._dynamo.reset()
        seen = []
        fast = compiled(program, plan, compiler, on_failure="disable", callback=seen.append)
        inputs = tensors()
        assert not torch.allclose(fast(*inputs), program(*inputs))
        assert numeric_check.switched_off() == ("factor_dropped",)
        torch.testing.assert_close(fast(*inputs), program(*inputs))
        assert [f.switched_off for f in seen] == [True]

    def test_a_pattern_of_aten_in_the_backward_pass_alone_is_named(self):
        plan = Plan((FactorDropped(min_fuse_set_size=2),))
        fast = compiled(_subtracts_backwards, plan)
        x = tensors()[0]
        y = fast(x)
        with pytest.raises(NumericError, match=r"gradient of input 0.*rewrite 1 of factor_dropped"):
            y.sum().backward()

    def test_a_compiler_that_is_wrong_is_blamed_beside_patterns_of_aten(self):
        def off(gm, inputs):
            return lambda *args: tuple(o * 2 for o in gm.forward(*args))

        plan = Plan((*Plan.of("normalization_pass"), FactorDropped(min_fuse_set_size=2)))
        fast = optimus.compile(right, plan=plan, numeric_check={"every": 1, "tolerance": 1e-4}, options={"compiler": off})
        with pytest.raises(NumericError, match="made by the compiler behind the rewrites"):
            fast(*tensors())

    def test_the_compiler_behind_is_told_apart(self):
        def off(gm, inputs):
            return lambda *args: tuple(o * 2 for o in gm.forward(*args))

        fast = optimus.compile(right, plan=WRONG, numeric_check={"every": 1, "tolerance": 1e-4}, options={"compiler": off})
        with pytest.raises(NumericError, match="made by the compiler behind the rewrites"):
            fast(*tensors())


class Subtracting(torch.autograd.Function):
    """The identity, whose gradient takes differences with a factor."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        a, b = g.sin(), g.cos()
        return torch.cat([torch.sub(a[:2], b[:2], alpha=3), torch.sub(a[2:], b[2:], alpha=3)])


def _subtracts_backwards(x):
    return Subtracting.apply(x) * 2


class TestNothingChanges:
    def steps(self, check):
        """A training loop with dropout and a buffer that is written; everything that comes of it."""
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3))
        options = {"compiler": "aot_eager"} | ({} if check is None else {"numeric_check": check})
        fast = torch.compile(lambda x: model(torch.cat(torch.split(x, [3, 5], 1), 1)), backend="optimus", options=options)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = fast(torch.randn(6, 8)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [*losses, *(v.clone() for v in model.state_dict().values()), torch.get_rng_state()]

    def test_results_gradients_buffers_and_random_numbers(self):
        plain = self.steps(None)
        checked = self.steps({"every": 2, "tolerance": 1e-5})
        assert all(torch.equal(a, b) for a, b in zip(plain, checked, strict=True))
        assert numeric_check.counts["checked"] == 3
        assert numeric_check.counts["checked gradients"] == 3
        assert numeric_check.counts["failed"] == 0

    def test_inputs_that_the_graph_writes(self):
        def program(x, y):
            y.add_(1)
            a, b = torch.split(x, [3, 5], 1)
            return torch.cat([a, b], 1) * y

        x, y = torch.randn(4, 8), torch.zeros(4, 8)
        result = compiled(program, Plan.of("mutate_cat_pass"))(x, y)
        assert torch.equal(y, torch.ones(4, 8))
        assert torch.equal(result, x)
        assert numeric_check.counts["checked"] == 1

    def test_random_numbers_of_inductors_own_are_not_compared(self):
        fast = compiled(lambda x, w: torch.nn.functional.dropout(right(x, w), 0.5), compiler="inductor")
        fast(*tensors())
        assert numeric_check.counts == {"skipped: random numbers of the compiler's own": 1}

    @pytest.mark.parametrize("used", [0, 1])
    @pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
    def test_an_output_that_nobody_uses(self, compiler, used):
        given, plain = tensors(), tensors()
        compiled(lambda x, w: (right(x, w), x.exp() * w.sum()), compiler=compiler)(*given)[used].sum().backward()
        (right(*plain), plain[0].exp() * plain[1].sum())[used].sum().backward()
        for one, other in zip(given, plain, strict=True):
            torch.testing.assert_close(one.grad, other.grad)
        assert numeric_check.counts == {"checked": 1, "checked gradients": 1}

    def test_what_only_logs_is_no_effect(self):
        def program(x, w):
            torch._C._log_api_usage_once("tests.program")
            return right(x, w)

        compiled(program)(*tensors())
        assert numeric_check.counts == {"checked": 1}
        with pytest.raises(NumericError, match="rewrite 1 of order_ignored"):
            compiled(lambda x, w: (torch._C._log_api_usage_once("tests.wrong"), wrong(x, w))[1])(*tensors())

    def test_no_warning_where_all_is_right(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", NumericWarning)
            compiled(right, on_failure="report", dynamic=True)(*tensors()).sum().backward()
        assert numeric_check.counts == {"checked": 1, "checked gradients": 1}
