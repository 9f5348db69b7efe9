"""Patterns of every level are in one registry, and hunts, mutants, finds and the corpus take those of ATen-IR as they take the others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import optimus
from fuzz.program import Input, Program, Step, Var
from optimus.passes import BUILT_IN, LOWER
from optimus.pattern import IR
from optimus.plan import lookup, on_graphs, provable
from verify import campaign
from verify.branches import sources
from verify.campaign import FIRED, work
from verify.cli import main
from verify.corpus import chosen_plan, entry, replay
from verify.fuzzing import judge
from verify.mutant import Mutant
from verify.mutants import Task, judged
from verify.replay import replay as replay_find
from verify.subject import PatternSubject

QUANTISER = "activation_quantization_aten_pass"


def test_one_registry_knows_every_level():
    known = optimus.patterns()
    assert set(known) >= {p.name for p in (*BUILT_IN, *LOWER)}
    assert all(lookup(name) is pattern for name, pattern in known.items())
    assert {p.ir for p in known.values()} == set(IR)
    assert {p.name for p in known.values()} - {p.name for p in provable()} == {"group_kernels"}
    assert {p.name for p in provable()} - {p.name for p in on_graphs()} == {QUANTISER}


def small_unit(monkeypatch, programs):
    monkeypatch.setattr("verify.campaign.UNIT", programs)


@pytest.mark.parametrize("name", ["batch_aten_sub", QUANTISER])
def test_a_unit_of_a_campaign_is_drawn_again_from_where_it_stopped(name, monkeypatch):
    small_unit(monkeypatch, 8)
    whole: list[str] = []
    assert work(campaign.Task(name, 0, 0, 0, 600, 10), whole.append) == {"complete": True}
    rest: list[str] = []
    work(campaign.Task(name, 0, 0, 5, 600, 10), rest.append)
    assert len(whole) == 8
    assert FIRED in whole
    assert rest == whole[5:]


def test_a_find_of_the_quantiser_replays(monkeypatch, tmp_path, capsys):
    """A bound that is a thousand times smaller does not hold; the find says with which options."""
    from verify import lossy

    bound = lossy.bound
    monkeypatch.setattr(lossy, "bound", lambda *given: bound(*given) / 1000)
    small_unit(monkeypatch, 4)
    found = work(campaign.Task(QUANTISER, 0, 0, 0, 600, 10), lambda _: None)
    assert any("off by more than the bound" in d for d in found["differences"])
    assert f"replay('{QUANTISER}'" in found["finding"]["replay"]

    def program(x, w):
        return torch.mm(x, w).exp().sum()

    inputs = [Input("x", (4, 8), torch.float32, True), Input("w", (8, 8), torch.float32, True)]
    assert replay_find(QUANTISER, program, inputs, {"use_scaling": False}) == 1
    monkeypatch.setattr(lossy, "bound", bound)
    assert replay_find(QUANTISER, program, inputs, {"use_scaling": False}) == 0
    assert "no difference, with 1 rewrites" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "instead", "said"),
    [
        ("batch_aten_sub", "if shapes != {shape_key(node)}:", "if True:", "NEVER FIRES"),
        (QUANTISER, "if source in held:", "if False and source in held:", "returned: 1 rewrites"),
    ],
)
def test_mutants_of_lower_levels_are_seen_by_their_cases(name, text, instead, said):
    file = next(f for f in sources(lookup(name)) if text in f.read_text())
    mutant = Mutant(file, "instead", 1, file.read_text().replace(text, instead))
    ((_, found),) = judged([Task((name,), mutant, 1.0)], 1, every=False)
    ((witness, objection),) = found.by
    assert witness == "cases"
    assert objection.startswith(said)


SAVED = '''"""Differences of pairs, joined."""

import torch


def make_inputs():
    return tuple(torch.arange(6.0).reshape(2, 3) + k for k in range(10))


def program(*t):
    """Each pair on its own."""
    return torch.cat([x - y * 2 for x, y in zip(t[:5], t[5:], strict=True)])
'''


def test_the_corpus_is_replayed_behind_autograd(tmp_path):
    folder = tmp_path / "differences"
    folder.mkdir()
    (folder / "program.py").write_text(SAVED)
    about = {"what": "w", "broke": "b", "address": None, "right": "r"}
    (folder / "fault.json").write_text(json.dumps(about))
    found = replay(entry(folder), chosen_plan(["batch_aten_sub", "batch_tanh"], []))
    assert found.differences == ()
    assert found.fired["batch_aten_sub"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fuzz", "--pattern", "group_kernels"], "group_kernels rewrites scheduler nodes"),
        (["mutants", "--pattern", "group_kernels"], "group_kernels rewrites scheduler nodes"),
        (["corpus", "replay", "--pattern", QUANTISER], f"{QUANTISER} changes gradients within a bound"),
        (["corpus", "replay", "--pattern", "group_kernels"], "group_kernels rewrites scheduler nodes"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("bare", [(), ("bias",), ("left",), ("result",), ("bias", "left", "result")])
@pytest.mark.parametrize("name", ["batch_linear_post_grad", "pad_aten_mm_pass", "decompose_mm_pass"])
def test_products_of_which_the_graph_says_less(name, bare):
    """Where it does not say what the bias, a factor or the result is, nothing raises."""
    row, matrix, vector = (
        Input("row", (1, 7), torch.float32, True),
        Input("matrix", (7, 5), torch.float32, True),
        Input("vector", (5,), torch.float32, True),
    )
    steps = (
        Step("bias", torch.mul, (Var("vector"), 2.0)),
        Step("left", torch.mul, (Var("row"), 3.0)),
        Step("result", torch.addmm, (Var("bias"), Var("left"), Var("matrix"))),
        Step("other", torch.addmm, (Var("bias"), Var("row"), Var("matrix"))),
        Step("joined", torch.cat, ([Var("result"), Var("other")],)),
    )
    pattern = optimus.patterns()[name]
    if "min_fuse_set_size" in pattern.options():
        pattern = replace(pattern, min_fuse_set_size=2)
    fired, finding = judge(PatternSubject(pattern), Program((row, matrix, vector), steps, ("joined",), "products", bare=frozenset(bare)))
    assert finding is None
    assert fired or bare


def eagerly(name):
    """A backend that runs one pattern, as it is judged and on groups of two, with eager's kernels."""
    pattern = optimus.patterns()[name].judged()
    few = {"min_fuse_set_size": 2} if "min_fuse_set_size" in pattern.options() else {}
    return {"backend": "optimus", "options": {"compiler": "aot_eager", "plan": [(pattern, few)]}}


@pytest.mark.parametrize("shapes", [((0, 6), (6, 6)), ((0, 5, 7), (0, 7, 6)), ((2, 5, 7), (2, 7, 0))])
def test_strides_of_products_without_elements(shapes):
    torch._dynamo.reset()
    x, y = map(torch.ones, shapes)
    function = torch.mm if x.dim() == 2 else torch.bmm
    assert torch.compile(function, **eagerly("pad_aten_mm_pass"))(x, y).stride() == function(x, y).stride()


@pytest.mark.parametrize(("alpha", "dtype"), [(True, torch.float32), (True, torch.int32), (1.0, torch.int32), (2.0, torch.int32)])
def test_factors_that_eager_refuses(alpha, dtype):
    def added(*t):
        return torch.cat([torch.add(t[0], t[1], alpha=alpha), torch.add(t[2], t[3], alpha=alpha)])

    torch._dynamo.reset()
    inputs = [torch.ones(3, 4, dtype=dtype) for _ in range(4)]
    for function in (added, torch.compile(added, **eagerly("batch_aten_add"))):
        with pytest.raises(Exception, match=r"alpha|Boolean"):
            function(*inputs)


@pytest.mark.parametrize("name", ["batch_linear_post_grad", "pad_aten_mm_pass", "decompose_mm_pass"])
def test_factors_of_two_dtypes_which_eager_refuses(name):
    def product(x, y):
        return torch.mm(x, y)

    torch._dynamo.reset()
    inputs = torch.ones(4, 6, dtype=torch.float64), torch.ones(6, 6)
    for function in (product, torch.compile(product, dynamic=True, **eagerly(name))):
        with pytest.raises(RuntimeError, match="dtype"):
            function(*inputs)
