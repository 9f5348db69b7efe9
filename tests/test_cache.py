"""Proofs that are kept: taken again for the same content, and for nothing else."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import threading
import warnings
from pathlib import Path

import pytest
import torch

import optimus
import verify.validation
from optimus.capture import capture
from optimus.plan import on_graphs
from tests import small
from verify import cache as kept
from verify import content, prove
from verify.cache import Cache, default_folder
from verify.edges import MOST
from verify.proof import prove_case
from verify.structure import validation_key
from verify.subject import PassSubject, PatternSubject
from verify.validation import validator
from verify.verdict import Proved, Refuted, Unknown, explain


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Makes the small pattern of a module that is freshly imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return lambda **changes: small.write(folder, **changes).Twice()


def counts(pattern, folder, **options):
    """Hits and misses of proving a pattern with what lies in ``folder``."""
    cache = Cache(folder)
    report = prove(pattern, cache=cache, **options)
    assert isinstance(report.verdict, Proved), report
    return cache.hits, cache.misses


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


# ------------------------------------------------------------------------------------------------------------- proofs


def test_the_second_run_proves_nothing(code, tmp_path, monkeypatch):
    first = prove(code(), cache=Cache(tmp_path / "c"))
    monkeypatch.setattr("verify.proof.validate", None)
    monkeypatch.setattr("verify.edges.validate", None)
    cache = Cache(tmp_path / "c")
    second = prove(code(), cache=cache)
    assert (cache.hits, cache.misses) == (4, 0)
    assert str(cache) == f"cache: 4 of 4 proofs from {tmp_path / 'c'}"
    assert second.verdict == dataclasses.replace(first.verdict, seconds=second.verdict.seconds)
    assert not first.verdict.cached
    assert second.verdict.cached
    assert explain(second.verdict) == explain(first.verdict) + ", cached"
    for one, other in zip(first.parts, second.parts, strict=True):
        assert (one.case.name, one.fired, one.before, one.after) == (other.case.name, other.fired, other.before, other.after)
    assert second.edges.parts == first.edges.parts
    assert second.edges.cached


def test_another_content_is_proved_anew(code, tmp_path, monkeypatch):
    def seen(pattern, **options):
        return counts(pattern, tmp_path / "c", edges=False, **options)

    package = tmp_path / "code" / "small_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("def limit():\n    from .last import LIMIT\n\n    return LIMIT\n")
    (package / "last.py").write_text("LIMIT = 1\n")
    imports = "from small_package import other\n"
    assert seen(code(imports=imports)) == (0, 3)
    assert seen(code(imports=imports)) == (3, 0)
    assert seen(code(imports=imports, rewrite="assert self.limit")) == (0, 3)
    assert seen(dataclasses.replace(code(imports=imports), limit=4)) == (0, 3)
    assert seen(code(imports=imports), timeout_s=19.0) == (0, 3)
    assert seen(code(imports=imports), second_solver=False) == (0, 3)
    (package / "last.py").write_text("LIMIT = 2\n")
    assert seen(code(imports=imports)) == (0, 3)
    assert seen(code(imports=imports)) == (3, 0)
    versions = content.versions()
    for package in ("torch", "z3", "cvc5", "python"):
        with monkeypatch.context() as patch:
            patch.setattr(content, "versions", lambda p=package: {**versions, p: "0.0"})
            assert seen(code(imports=imports)) == (0, 3)
    assert seen(code(imports=imports)) == (3, 0)


@pytest.mark.parametrize(
    "name", ["optimus/operators.py", "verify/semantics/movement.py", "verify/prover/logic.py", "optimus/engine.py", "fuzz/templates.py"]
)
def test_the_judge_counts_in_full(monkeypatch, name):
    plain, before = content.file_digest, content.judge_digest.__wrapped__()
    assert content.judge_digest.__wrapped__() == before
    monkeypatch.setattr(content, "file_digest", lambda file: "other" if file.as_posix().endswith(name) else plain(file))
    assert content.judge_digest.__wrapped__() != before


def test_what_changed_while_the_process_ran_has_a_key_of_its_own(tmp_path, monkeypatch):
    file = tmp_path / "code.py"
    file.write_text("one")
    os.utime(file, (1, 1))
    old = content.file_digest(file)
    os.utime(file)
    assert content.file_digest(file) != old
    mine = content.file_digest(file)
    monkeypatch.setattr(content, "STARTED", content.STARTED - 1)
    assert content.file_digest(file) != mine


def test_what_is_not_proved_is_not_kept(code, tmp_path):
    for changes, options, expected in (({}, {"timeout_s": 0.0}, Unknown), ({"rewrite": "found = tx.call(torch.neg, found)"}, {}, Refuted)):
        cache = Cache(tmp_path / "c")
        report = prove(code(**changes), cache=cache, edges=False, **options)
        assert isinstance(report.parts[0].verdict, expected)
        again = Cache(tmp_path / "c")
        report = prove(code(**changes), cache=again, edges=False, **options)
        assert isinstance(report.parts[0].verdict, expected)
        assert again.misses == 1 + (not isinstance(report.general, Proved))


def test_a_proof_that_the_second_solver_did_not_confirm_is_not_kept(code, tmp_path, monkeypatch):
    monkeypatch.setattr("verify.prover.task.confirm", lambda smt2, timeout_s: None)
    assert counts(code(), tmp_path / "c", edges=False) == (0, 3)
    assert counts(code(), tmp_path / "c", edges=False) == (2, 1)  # a decline and the same term in general need no query


def test_queries_that_are_wanted_are_asked(code, tmp_path):
    counts(code(), tmp_path / "c", edges=False)
    cache = Cache(tmp_path / "c")
    prove(code(), cache=cache, edges=False, smt2=tmp_path / "q")
    assert (cache.hits, cache.misses) == (0, 3)
    assert entries(tmp_path / "q")


def test_what_a_function_makes_has_no_key(code, tmp_path):
    def made(sign):
        class Made(type(code())):
            def rewrite(self, match, tx):
                tx.replace(match.nodes[-1], match.found if sign > 0 else tx.call(torch.neg, match.found))

        return Made()

    cache = Cache(tmp_path / "c")
    assert isinstance(prove(made(1), cache=cache, edges=False).verdict, Proved)
    assert isinstance(prove(made(-1), cache=cache, edges=False).verdict, Refuted)
    assert cache.hits == 0
    assert not entries(tmp_path / "c")
    pattern = optimus.patterns()["split_cat_pass"]
    assert content.subject_key(PassSubject("function", lambda graph: False, pattern.cases)) is None
    assert content.case_key(PatternSubject(pattern), optimus.patterns()["batch_tanh"].cases[0], 1.0, True) is None


def test_no_two_proofs_of_built_in_patterns_share_a_key():
    keys = []
    for pattern in on_graphs():
        for variant in (pattern, *_variants(pattern)):
            subject = PatternSubject(variant)
            keys += [content.case_key(subject, c, 20.0, True) for c in (*subject.cases, *subject.declines)]
            keys += [content.general_key(subject, 20.0, True), content.edges_key(subject, MOST, 20.0, True)]
        keys.append(content.general_key(PatternSubject(pattern, frozenset()), 20.0, True))
    assert None not in keys
    assert len(set(keys)) == len(keys) > 300


def _variants(pattern):
    for option, given in pattern.options().items():
        with contextlib.suppress(ValueError, TypeError):
            yield dataclasses.replace(pattern, **{option: (not given) if isinstance(given, bool) else given + 1})


# --------------------------------------------------------------------------------------------------------------- store


@pytest.mark.parametrize("damage", ["empty", "half", "list", "other key", "number", "folder", "claim"])
def test_a_damaged_entry_is_none(tmp_path, code, damage):
    pattern = PatternSubject(code())
    case = pattern.cases[0]
    prove_case(pattern, case, cache=Cache(tmp_path / "c"))
    (file,) = entries(tmp_path / "c")
    text = file.read_text()
    held = json.loads(text)
    if damage == "folder":
        file.unlink()
        file.mkdir()
    elif damage == "number":
        held["entry"]["verdict"]["queries"] += 1
        file.write_text(json.dumps(held))
    elif damage == "claim":
        held["entry"]["verdict"]["claim"] = "E9"
        held["sum"] = kept._sum(held["key"], held["entry"])
        file.write_text(json.dumps(held))
    else:
        file.write_text({"empty": "", "half": text[: len(text) // 2], "list": "[1]", "other key": text.replace(held["key"], "0" * 64)}[damage])
    cache = Cache(tmp_path / "c", lambda _: None)
    found = prove_case(pattern, case, cache=cache)
    assert (cache.hits, cache.misses) == (0, 1)
    assert isinstance(found.verdict, Proved)
    assert not found.verdict.cached
    if damage != "folder":
        assert Cache(tmp_path / "c").get(held["key"]) is not None


def test_a_folder_that_cannot_be_written_is_said_once(code, tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    cache = Cache(tmp_path / "file" / "c", said.append)
    assert isinstance(prove(code(), cache=cache, edges=False).verdict, Proved)
    assert said == [f"cache: {tmp_path / 'file' / 'c'} cannot be written (Not a directory); proofs are not kept there"]
    assert isinstance(prove(code(), cache=cache, edges=False).verdict, Proved)
    assert (cache.hits, len(said)) == (3, 1)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        Cache(tmp_path / "file" / "c").put("ab", {})


def test_many_writers_and_readers_of_one_entry(tmp_path):
    wrong = []

    def work(number):
        for _ in range(40):
            cache = Cache(tmp_path, wrong.append)
            cache.put("ab" * 32, {"same": "text " * 500})
            if Cache(tmp_path, wrong.append).get("ab" * 32) != {"same": "text " * 500}:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(entries(tmp_path)) == 1


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(kept.FOLDER)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == tmp_path / ".cache" / "optimus-verify"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_folder() == tmp_path / "x" / "optimus-verify"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to leave out of account
    assert default_folder() == tmp_path / ".cache" / "optimus-verify"
    monkeypatch.setenv(kept.FOLDER, "~/mine")
    assert default_folder() == tmp_path / "mine"
    monkeypatch.setenv(kept.FOLDER, "none")
    assert default_folder() is None


# --------------------------------------------------------------------------------------------------------- validations


def key_of(program, inputs, *, dynamic=False, private=frozenset(), timeout_s=20.0):
    (found,) = capture(program, inputs, dynamic=dynamic)
    return validation_key(found.gm, copy.deepcopy(found.gm), private, True, timeout_s, True)


def made(*shape, dtype=torch.float32, grad=True):
    return torch.zeros(shape, dtype=dtype).requires_grad_(grad)


def cut(x):
    a, b = torch.split(x, [2, 4], dim=1)
    return torch.cat([a, b], dim=1) * 2


def differently_named(value):
    first, second = torch.split(value, [2, 4], dim=1)
    joined = torch.cat([first, second], dim=1)
    return joined * 2


def test_names_do_not_count():
    assert key_of(cut, [made(3, 6)]) == key_of(differently_named, [made(3, 6)]) is not None


def test_graphs_that_differ_have_keys_that_differ():
    def guarded(x):
        return cut(x) if x.shape[0] > 4 else x

    def guarded_further(x):
        return cut(x) if x.shape[0] > 3 else x

    def other_sections(x):
        return torch.cat(torch.split(x, [4, 2], dim=1), dim=1) * 2

    def no_grad(x):
        with torch.no_grad():
            return cut(x)

    def autocast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return cut(x)

    def shares(x, y):
        return cut(x), y * 2

    (apart, _), base = (made(3, 6), made(3, 6)), made(3, 6)
    wide = [made(5, 6)]
    keys = {
        "plain": key_of(cut, [made(3, 6)]),
        "size": key_of(cut, [made(4, 6)]),
        "dtype": key_of(cut, [made(3, 6, dtype=torch.float64)]),
        "no gradient": key_of(cut, [made(3, 6, grad=False)]),
        "strides": key_of(cut, [torch.zeros(6, 3).t().requires_grad_()]),
        "offset": key_of(cut, [torch.zeros(30)[3:21].view(3, 6).requires_grad_()]),
        "number": key_of(lambda x: cut(x) / 2, [made(3, 6)]),
        "truth": key_of(lambda x: torch.sum(cut(x), 1, keepdim=True), [made(3, 6)]),
        "one": key_of(lambda x: torch.sum(cut(x), 1, keepdim=False), [made(3, 6)]),
        "int": key_of(lambda x: x * 2, [made(3, 6)]),
        "float": key_of(lambda x: x * 2.0, [made(3, 6)]),
        "zero": key_of(lambda x: x * 0.0, [made(3, 6)]),
        "signed zero": key_of(lambda x: x * -0.0, [made(3, 6)]),
        "sections": key_of(other_sections, [made(3, 6)]),
        "no_grad": key_of(no_grad, [made(3, 6)]),
        "autocast": key_of(autocast, [made(3, 6)]),
        "two inputs": key_of(shares, [apart, base]),
        "symbols": key_of(cut, wide, dynamic=True),
        "guard": key_of(guarded, wide, dynamic=True),
        "another guard": key_of(guarded_further, wide, dynamic=True),
        "private": key_of(cut, [made(3, 6)], private=frozenset({0})),
        "time": key_of(cut, [made(3, 6)], timeout_s=10.0),
    }
    assert None not in keys.values()
    assert len(set(keys.values())) == len(keys)


def test_before_and_after_are_told_apart():
    one, other = (capture(p, [made(3, 6)])[0].gm for p in (cut, lambda x: x * 2))
    assert validation_key(one, other, frozenset(), True, 20.0, True) != validation_key(other, one, frozenset(), True, 20.0, True)


def test_memory_that_inputs_share_counts():
    (found,) = capture(lambda x, y: (x + 1, y + 1), [made(3), made(3)])
    apart = found.gm
    together = copy.deepcopy(apart)
    first, second = together.graph.find_nodes(op="placeholder")
    second.meta["example_value"] = first.meta["example_value"].view(3)
    keys = [validation_key(gm, gm, frozenset(), True, 20.0, True) for gm in (apart, together)]
    assert None not in keys
    assert keys[0] != keys[1]


def test_what_cannot_be_named_has_no_key():
    (found,) = capture(cut, [made(3, 6)])
    node = next(n for n in found.gm.graph.nodes if n.op == "call_function")
    node.target = lambda *args, **kwargs: torch.split(*args, **kwargs)
    assert validation_key(found.gm, found.gm, frozenset(), True, 20.0, True) is None


# ----------------------------------------------------------------------------------------------------------- compiling


class Towers(torch.nn.Module):
    """Towers of given widths, each cut and joined."""

    def __init__(self, *widths):
        super().__init__()
        self.widths = widths

    def forward(self, x):
        found = []
        for piece in torch.split(x, list(self.widths), dim=1):
            a, b = torch.split(piece.tanh(), [1, piece.shape[1] - 1], dim=1)
            found.append(torch.cat([a, b], dim=1).sin())
        return torch.cat(found, dim=1)


def asked(monkeypatch, *models, **options):
    """How many regions were rewritten, and how many of them validated."""
    calls = []
    plain = verify.validation.validate
    monkeypatch.setattr(verify.validation, "validate", lambda *a, **k: calls.append(1) or plain(*a, **k))
    optimus.clear_journals()
    for model, x in models:
        torch._dynamo.reset()
        plan = optimus.Plan.of("split_cat_pass")
        fast = optimus.compile(model, plan=plan, validate="prove", options={"compiler": "eager"}, **options)
        assert torch.equal(fast(x), model(x))
    monkeypatch.setattr(verify.validation, "validate", plain)
    torch._dynamo.reset()
    return sum(len(j.rewrites) for j in optimus.journals()), len(calls)


def test_regions_of_one_structure_are_proved_once(monkeypatch):
    assert asked(monkeypatch, (Towers(4, 4, 4, 4), torch.randn(2, 16))) == (4, 1)


def test_regions_that_differ_are_proved_each(monkeypatch):
    assert asked(monkeypatch, (Towers(4, 5, 4, 6), torch.randn(2, 19))) == (4, 3)
    models = [(Towers(4, 4), torch.randn(3, 8)), (Towers(4, 4), torch.randn(3, 8).double()), (Towers(4, 4), torch.randn(8, 3).t())]
    assert asked(monkeypatch, *models) == (6, 3)
    assert asked(monkeypatch, (Towers(4, 4), torch.randn(3, 8, requires_grad=True))) == (2, 1)


def test_regions_are_proved_once_with_symbolic_sizes_too(monkeypatch):
    assert asked(monkeypatch, (Towers(4, 4, 4), torch.randn(5, 12)), dynamic=True) == (3, 1)


def test_proofs_of_regions_outlive_the_process(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "c"))
    model = (Towers(4, 5), torch.randn(2, 9))
    assert asked(monkeypatch, model) == (2, 2)
    assert len(entries(tmp_path / "c")) == 2
    kept._shared.cache_clear()
    assert asked(monkeypatch, model) == (2, 0)
    for file in entries(tmp_path / "c"):
        file.write_text("{")
    kept._shared.cache_clear()
    assert asked(monkeypatch, model) == (2, 2)


def test_a_region_that_is_not_proved_is_asked_again(monkeypatch):
    calls = []
    monkeypatch.setattr(verify.validation, "validate", lambda *a, **k: calls.append(1) or Unknown("timeout"))
    (found,) = capture(cut, [made(3, 6)])
    region = optimus.regions.Region("split_cat_pass", found.gm, found.gm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [validator(region), validator(region)] == ["unknown: timeout"] * 2
    assert len(calls) == 2
