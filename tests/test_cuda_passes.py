"""What only a GPU can show of the passes: every pattern's cases there, and products that are decomposed or padded on CUDA devices alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import optimus
from optimus.plan import lookup, patterns
from verify import scheduled
from verify.compare import differences, observe, reference
from verify.hunting import differential
from verify.subject import PatternSubject

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DYNAMIC = 4
"""So many cases go through Inductor with symbols for sizes, too: on a GPU the pattern for narrow products fires on no others that are small."""


@pytest.mark.parametrize("name", sorted(patterns()))
def test_cases_as_eager(name):
    subject = PatternSubject(lookup(name))
    if scheduled.concerns(subject):
        runs = [scheduled.compare(subject, case, "cuda")[0] for case in subject.cases]
    else:
        runs = [*differential(subject, ("aot_eager",), "cuda"), *differential(subject, ("inductor",), "cuda", len(subject.cases) + DYNAMIC)]
    assert [(run.name, run.compiler, run.ours, run.theirs) for run in runs if run.blamed] == []
    assert {run.compiler for run in runs if run.fired} == {run.compiler for run in runs}


def same(program, shapes, dtype, name, *, special=False, compiler="inductor", **config):
    """Compare ``program`` with itself behind the pattern ``name`` with the options it has by default, gradients included."""
    torch._dynamo.reset()
    optimus.clear_journals()

    def inputs() -> list[Tensor]:
        generator = torch.Generator("cuda").manual_seed(0)
        drawn = [torch.randn(s, device="cuda", dtype=dtype, generator=generator) for s in shapes]
        if special:
            drawn[0].view(-1)[:3] = torch.tensor([torch.nan, torch.inf, -0.0])
        return [t.requires_grad_() for t in drawn]

    base = observe(program, inputs())
    with torch._inductor.config.patch(**config):
        compiled = torch.compile(program, backend=optimus.backend, options={"compiler": compiler, "plan": [name]})
        found = observe(compiled, inputs())
    assert differences(base, found, reference(program, inputs(), base), bitwise=False) == []
    assert sum(j.counts()[name] for j in optimus.journals()) >= 1
    return found


DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_narrow_products_are_decomposed(dtype, compiler):
    def program(x, y, b):
        return torch.addmm(b, x, y, beta=0.5, alpha=2).relu(), torch.mm(x, y).exp()

    same(program, ((20000, 8), (8, 6), (6,)), dtype, "decompose_mm_pass", compiler=compiler)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_many_small_products_are_decomposed(dtype, special):
    same(lambda x, y: torch.bmm(x, y).cos(), ((12000, 3, 5), (12000, 5, 4)), dtype, "decompose_mm_pass", special=special)


def test_what_is_multiplied_by_zero_is_not_added():
    """Eager ignores what stands before a product where beta is 0, be it NaN; so does a decomposed one."""
    found = same(lambda b, x, y: torch.addmm(b, x, y, beta=0), ((6,), (20000, 8), (8, 6)), torch.float32, "decompose_mm_pass", special=True)
    assert bool(torch.isfinite(found.outputs[0]).all())


def test_millions_of_rows_are_decomposed():
    same(lambda x, y: torch.mm(x, y).relu(), ((1 << 21, 4), (4, 2)), torch.bfloat16, "decompose_mm_pass")


@pytest.mark.parametrize("columns", [13, 5])
def test_long_sums_are_padded(columns):
    same(lambda x, y: torch.mm(x, y).relu(), ((2, 8388612), (8388612, columns)), torch.bfloat16, "pad_aten_mm_pass", shape_padding=False)
