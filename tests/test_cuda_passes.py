"""What only a GPU can show of the passes: every pattern's cases there, and products that are decomposed or padded on CUDA devices alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import optimus
from optimus.pattern import IR
from optimus.plan import lookup, patterns
from verify import scheduled
from verify.compare import compare
from verify.hunting import differential
from verify.subject import PatternSubject

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

DYNAMIC = 4
"""So many cases go through Inductor with symbols for sizes, too: on a GPU the pattern for narrow products fires on no others that are small."""


@pytest.mark.parametrize("compiler", ["inductor", "aot_eager"])
@pytest.mark.parametrize("name", sorted(n for n, p in patterns().items() if p.ir is not IR.INDUCTOR))
def test_cases_as_eager(name, compiler):
    subject = PatternSubject(lookup(name))
    runs = list(differential(subject, (compiler,), "cuda", len(subject.cases) + DYNAMIC if compiler == "inductor" else 100))
    assert [(run.name, run.ours, run.theirs) for run in runs if run.blamed] == []
    assert any(run.fired for run in runs)


@pytest.mark.parametrize("name", sorted(n for n, p in patterns().items() if p.ir is IR.INDUCTOR))
def test_scheduled_cases_as_eager(name):
    subject = PatternSubject(lookup(name))
    for case in subject.cases:
        run, _ = scheduled.compare(subject, case, "cuda")
        assert run.fired and not run.blamed, run


def check(program, shapes, dtype, name, *, special=False, compiler="inductor", **config):
    """Judge ``program`` behind the pattern ``name`` with the options it has by default, gradients included, three ways."""
    optimus.clear_journals()

    def inputs() -> list[Tensor]:
        generator = torch.Generator("cuda").manual_seed(0)
        drawn = [torch.randn(s, device="cuda", dtype=dtype, generator=generator) for s in shapes]
        if special:
            drawn[0].view(-1)[:3] = torch.tensor([torch.nan, torch.inf, -0.0])
        return [t.requires_grad_() for t in drawn]

    found = []
    for backend in ({"backend": optimus.backend, "options": {"compiler": compiler, "plan": [name]}}, {"backend": compiler}):
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True, **config):
            found.append(compare(program, torch.compile(program, **backend), inputs, bitwise=False))
    ours, theirs = found
    assert set(ours) <= set(theirs)
    assert sum(j.counts()[name] for j in optimus.journals()) >= 1


DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_narrow_products_are_decomposed(dtype, compiler):
    def program(x, y, b):
        return torch.addmm(b, x, y, beta=0.5, alpha=2).relu(), torch.mm(x, y).cos()

    check(program, ((20000, 8), (8, 6), (6,)), dtype, "decompose_mm_pass", compiler=compiler)


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_narrow_products_of_float64(compiler):
    """Eager is the best there is to compare with: sums of 8 terms, in another order, agree to 13 digits of the terms."""
    x, y = (torch.randn(s, device="cuda", dtype=torch.float64).requires_grad_() for s in ((20000, 8), (8, 6)))
    torch._dynamo.reset()
    optimus.clear_journals()
    compiled = torch.compile(torch.mm, backend=optimus.backend, options={"compiler": compiler, "plan": ["decompose_mm_pass"]})
    with torch._inductor.config.patch(force_disable_caches=True):
        runs = [(z, *torch.autograd.grad(z.sum(), (x, y))) for z in (torch.mm(x, y), compiled(x, y))]
    for one, other in zip(*runs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-11)
    assert sum(j.counts()["decompose_mm_pass"] for j in optimus.journals()) >= 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_many_small_products_are_decomposed(dtype, special):
    check(lambda x, y: torch.bmm(x, y).cos(), ((12000, 3, 5), (12000, 5, 4)), dtype, "decompose_mm_pass", special=special)


def test_what_is_multiplied_by_zero_is_not_added():
    """Eager ignores what is added to a product where beta is 0, be it NaN; so does a decomposed one."""
    check(lambda b, x, y: torch.addmm(b, x, y, beta=0), ((6,), (20000, 8), (8, 6)), torch.float32, "decompose_mm_pass", special=True)


def test_millions_of_rows_are_decomposed():
    check(lambda x, y: torch.mm(x, y).relu(), ((1 << 21, 4), (4, 2)), torch.bfloat16, "decompose_mm_pass")


def test_whole_numbers_are_refused_as_in_eager():
    x, y = torch.ones(20000, 8, dtype=torch.int32, device="cuda"), torch.ones(8, 6, dtype=torch.int32, device="cuda")
    compiled = torch.compile(torch.mm, backend=optimus.backend, options={"compiler": "aot_eager", "plan": ["decompose_mm_pass"]})
    for product in (torch.mm, compiled):
        with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
            product(x, y)


@pytest.mark.parametrize("columns", [13, 5])
def test_long_sums_are_padded(columns):
    check(lambda x, y: torch.mm(x, y).relu(), ((2, 8388612), (8388612, columns)), torch.bfloat16, "pad_aten_mm_pass", shape_padding=False)
