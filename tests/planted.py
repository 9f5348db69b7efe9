"""Twenty-two planted faults in a model graph of 1,000 operators: passes that are right everywhere but at one place.

The passes write ``x * 0.5`` as ``x / 2.0``, the very same bits; the block whose factor is 0.25 they get wrong, each in its own way.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from optimus.capture import Captured, capture
from optimus.operators import bind
from optimus.passes.batch_tanh import BatchTanh
from optimus.pattern import Exactness, Match, VerticalPattern
from optimus.plan import Plan, lookup

ROWS, WIDTH, BLOCKS, GUILTY = 6, 8, 110, 37


def block(x: torch.Tensor, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    a, b, c = torch.split(x, [2, 3, 3], dim=1)
    y = torch.cat([a, b, c], dim=1)
    z = torch.mul(y, factor)
    return torch.sin(z) * 0.01 + y, z


def wide(x: torch.Tensor, count: int) -> torch.Tensor:
    """``count`` independent ``tanh`` of one shape."""
    return torch.cat([torch.tanh(x - k) for k in range(count)], dim=1).narrow(1, 0, WIDTH)


def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    side = x
    for k in range(BLOCKS):
        x, z = block(x, 0.25 if k == GUILTY else 0.5)
        if k == GUILTY:
            side = z
            x = torch.mul(torch.cos(torch.mul(x, 0.125)), 0.0625) + x
        if k in (50, 70, 90):
            x = wide(x, 7 if k == 70 else 6)
    return F.dropout(x, 0.1, True), side


def inputs(outlier: float | None = None) -> list[torch.Tensor]:
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(3))
    if outlier is not None:
        x[2, 5] = outlier
    return [x.requires_grad_()]


@functools.cache
def captured() -> Captured:
    (found,) = capture(model, inputs())
    return found


def is_fake(x: torch.Tensor) -> bool:
    return isinstance(x, FakeTensor)


# ------------------------------------------------------------------- what only a run shows, for on fakes it looks right


def raises(x: torch.Tensor) -> torch.Tensor:
    if not is_fake(x) and bool((x > 0).any()):
        raise RuntimeError("planted")
    return x / 4.0


def of_another_shape(x: torch.Tensor) -> torch.Tensor:
    return x / 4.0 if is_fake(x) else (x / 4.0)[:1]


def of_another_dtype(x: torch.Tensor) -> torch.Tensor:
    return x / 4.0 if is_fake(x) else x.double() / 4.0


def laid_out_otherwise(x: torch.Tensor) -> torch.Tensor:
    return x / 4.0 if is_fake(x) else (x / 4.0).t().contiguous().t()


def in_the_memory_of_its_input(x: torch.Tensor) -> torch.Tensor:
    """Writes its result over what it reads."""
    if is_fake(x):
        return x / 4.0
    with torch.no_grad():
        x.data.mul_(0.25)
    return x * 1.0


def without_gradient(x: torch.Tensor) -> torch.Tensor:
    return x / 4.0 if is_fake(x) else x.detach() / 4.0


def draws_a_number(x: torch.Tensor) -> torch.Tensor:
    if not is_fake(x):
        torch.rand(1)
    return x / 4.0


def column_major(x: torch.Tensor) -> torch.Tensor:
    return x / 8.0 if is_fake(x) else (x / 8.0).t().contiguous().t()


def as_it_lies_in_memory(x: torch.Tensor) -> torch.Tensor:
    return x / 16.0 if is_fake(x) else x.as_strided(x.shape, (x.shape[1], 1), x.storage_offset()) / 16.0


# -------------------------------------------------------------------------------------------------------------- passes


@dataclass(frozen=True)
class Halve(VerticalPattern):
    """``x * 0.5  ->  x / 2.0``: right as it stands; what is below gets ``special`` wrong."""

    name = "halve"
    anchors = frozenset({"mul"})
    exactness = Exactness.BITWISE
    factors = (0.5, 0.25)

    def find(self, node, state):
        call = bind(node)
        if call is None or call["other"] not in type(self).factors:
            return None
        return Match((node,), node, (call["self"], call["other"]))

    def rewrite(self, match, tx):
        source, factor = match.found
        wrong = tx.call(torch.div, source, 1 / factor) if factor == 0.5 else type(self).special(tx, source, factor)
        tx.replace(match.nodes[0], wrong)

    @staticmethod
    def special(tx: Any, x: Any, factor: float) -> Any:
        return tx.call(torch.div, x, 1 / factor)


def planted(name: str, special: Callable[[Any, Any], Any], **more: Any) -> Halve:
    """A pass that puts ``special`` in the place of ``x * 0.25``."""
    kind = type(name, (Halve,), {"name": name, "special": staticmethod(lambda tx, x, _: special(tx, x)), "__module__": __name__, **more})
    globals()[name] = dataclass(frozen=True)(kind)
    return globals()[name]()


def calls(function: Callable[..., Any], *args: Any) -> Callable[[Any, Any], Any]:
    return lambda tx, x: tx.call(function, x, *args)


def quarter(tx: Any, x: Any) -> Any:
    return tx.call(torch.div, x, 4.0)


def _rounded(tx: Any, x: Any) -> Any:
    return quarter(tx, tx.method("to", tx.method("to", x, torch.bfloat16), torch.float32))


def _last_row_lost(tx: Any, x: Any) -> Any:
    return quarter(tx, tx.call(F.pad, tx.call(torch.narrow, x, 0, 0, ROWS - 1), (0, 0, 0, 1)))


def _doubled_gradient(tx: Any, x: Any) -> Any:
    return tx.call(torch.sub, tx.call(torch.div, x, 2.0), tx.call(torch.div, tx.method("detach", x), 4.0))


def _gradient_nan(tx: Any, x: Any) -> Any:
    unseen = tx.call(torch.sqrt, tx.call(torch.sub, tx.call(torch.neg, tx.call(torch.mul, x, x)), 1.0))
    return tx.call(torch.where, tx.call(torch.ge, tx.call(torch.abs, x), 0.0), quarter(tx, x), unseen)


@dataclass(frozen=True)
class SwappedMembers(BatchTanh):
    """The first two members of a group of seven get each other's result."""

    name = "swapped_members"

    def fuse(self, members, tx):
        super().fuse(members, tx)
        if len(members) == 7:
            (one, first), (other, second) = tx.replaced[:2]
            tx.replaced[:2] = [(one, second), (other, first)]


@dataclass(frozen=True)
class Fault:
    """A planted fault: its pass, and at which place and of what kind the fault of the minimised graph is.

    ``real``: whether random inputs hide it. ``outlier``: a number among the inputs that they need.
    """

    pattern: Any
    where: str
    kind: str
    real: bool = False
    outlier: float | None = None

    @property
    def name(self) -> str:
        return self.pattern.name

    @property
    def plan(self) -> Plan:
        """The pass among right ones that fire all over the graph."""
        others = [Halve()] if isinstance(self.pattern, BatchTanh) else [lookup("batch_tanh")]
        return Plan((lookup("mutate_cat_pass"), self.pattern, *others))


FAULTS = [
    Fault(planted("wrong_factor", calls(torch.div, 2.0)), "output", "value"),
    Fault(planted("wrong_sign", calls(torch.div, -4.0)), "output", "value"),
    Fault(planted("wrong_order", lambda tx, x: quarter(tx, tx.call(torch.flip, x, [1]))), "output", "value"),
    Fault(planted("off_by_one", lambda tx, x: quarter(tx, tx.call(torch.roll, x, 1, 1))), "output", "value"),
    Fault(planted("last_row_lost", _last_row_lost), "output", "value"),
    Fault(planted("rounded", _rounded), "output", "value"),
    Fault(planted("not_a_number", lambda tx, x: quarter(tx, tx.call(torch.square, tx.call(torch.sqrt, x)))), "output", "NaN"),
    Fault(planted("infinite", calls(torch.div, 0.0)), "output", "infinity"),
    Fault(planted("on_large_values", lambda tx, x: quarter(tx, tx.call(torch.clamp, x, max=500.0))), "output", "value", real=True, outlier=1000.0),
    Fault(planted("raising", calls(raises)), "call", "raises RuntimeError"),
    Fault(planted("shape", calls(of_another_shape)), "output", "shape"),
    Fault(planted("dtype", calls(of_another_dtype)), "output", "dtype"),
    Fault(planted("strides", calls(laid_out_otherwise)), "output", "strides"),
    Fault(planted("memory", calls(in_the_memory_of_its_input)), "output", "value"),
    Fault(planted("requires_grad", calls(without_gradient)), "output", "requires_grad"),
    Fault(planted("gradient", _doubled_gradient), "gradient", "value"),
    Fault(planted("gradient_nan", _gradient_nan), "gradient", "NaN"),
    Fault(planted("random_state", calls(draws_a_number)), "output", "value"),
    Fault(SwappedMembers(), "output", "value"),
]


AFTER_FIFTY_STEPS = planted("after_fifty_steps", lambda tx, x: quarter(tx, tx.call(torch.clamp, x, max=1000.0)))


def training(plan: Plan, steps: int = 60) -> list[str]:
    """Steps on a graph that is compiled once, on inputs that grow; what differs from the graph as it is."""
    import optimus

    gm = copy.deepcopy(captured().gm)
    compiled = optimus.backend(gm, captured().inputs, options={"plan": plan, "compiler": "eager"})
    for step in range(1, steps + 1):
        x = inputs(20.0 * step)[0]
        torch.manual_seed(step)
        side = compiled(x)[1]
        if not torch.equal(side, expected_side(step)):
            return [f"step {step}"]
    return []


@functools.cache
def expected_side(step: int) -> torch.Tensor:
    return captured().gm.forward(inputs(20.0 * step)[0])[1].detach()


@dataclass(frozen=True)
class Sloppy(Halve):
    """Two rewrites that do harm only together: one lays its result out otherwise, the other reads memory as it lies."""

    name = "sloppy"
    factors = (0.5, 0.125, 0.0625)

    @staticmethod
    def special(tx, x, factor):
        return tx.call(column_major if factor == 0.125 else as_it_lies_in_memory, x)


SLOPPY = Sloppy()
