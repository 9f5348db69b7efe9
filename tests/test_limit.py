"""Limits: what they say, what they let happen, and that there is none in an ordinary run."""

from __future__ import annotations

import copy
import json

import pytest
import torch

import optimus
from optimus.capture import capture
from optimus.engine import Engine
from optimus.limit import ENVIRONMENT, Applied, Limit, Limiter, current, limited
from optimus.plan import Plan
from optimus.production import PreGradPass

PLAN = Plan.of("mutate_cat_pass", ("batch_tanh", {"min_fuse_set_size": 2}))


def program(x):
    for _ in range(3):
        a, b = torch.split(x, [2, 3], dim=1)
        x = torch.cat([a, b], dim=1) + torch.cat([torch.tanh(x), torch.tanh(x + 1)]).narrow(0, 0, 4)
    return x


@pytest.fixture(scope="module")
def graph():
    return capture(program, [torch.randn(4, 5)])[0].gm


def run(graph, limit):
    gm, limiter = copy.deepcopy(graph), Limiter(limit)
    journal = Engine(gm, PLAN, limiter=limiter).run()
    return limiter.applied, journal, gm


class TestText:
    @pytest.mark.parametrize("text", ["", "first=3", "first=0; without=a,b", "only=1.p.n,1.p.m; record=/tmp/r; observe=m:f"])
    def test_there_and_back(self, text):
        limit = Limit.parse(text)
        assert Limit.parse(str(limit)) == limit

    def test_identities_from_a_file(self, tmp_path):
        (tmp_path / "only.json").write_text(json.dumps(["1.p.n"]))
        assert Limit.parse(f"only=@{tmp_path / 'only.json'}").only == {"1.p.n"}

    @pytest.mark.parametrize("text", ["first=-1", "first=x", "frist=1", "first", "first=1; first=2", "only=@/no/such/file"])
    def test_nonsense_is_refused(self, text):
        with pytest.raises(ValueError, match=r"is not understood.*accepted are first=NUMBER"):
            Limit.parse(text)


class TestEngine:
    def test_without_one_nothing_changes(self, graph):
        assert current() is None
        whole, journal, gm = run(graph, Limit())
        plain = copy.deepcopy(graph)
        assert [str(r) for r in Engine(plain, PLAN).run()] == [str(r) for r in journal]
        assert plain.code == gm.code
        assert len(whole) == len(journal.rewrites) == 6

    def test_the_first_so_many_are_the_same_ones(self, graph):
        whole, _, _ = run(graph, Limit())
        for first in range(len(whole) + 2):
            applied, journal, gm = run(graph, Limit(first=first))
            assert [a.identity for a in applied] == [a.identity for a in whole[:first]]
            assert len(journal.rewrites) == min(first, len(whole))
            gm.graph.lint()

    def test_chosen_ones(self, graph):
        whole, _, _ = run(graph, Limit())
        for chosen in whole:
            applied, journal, _ = run(graph, Limit(only=frozenset([chosen.identity])))
            assert [a.identity for a in applied] == [chosen.identity]
            assert any(d.reason == "limit" for d in journal.declined)

    def test_without_a_pattern(self, graph):
        applied, _, _ = run(graph, Limit(without=frozenset(["batch_tanh"])))
        assert {a.pattern for a in applied} == {"mutate_cat_pass"}

    def test_as_data_and_back(self, graph):
        for applied in run(graph, Limit())[0]:
            assert Applied.from_json(json.loads(json.dumps(applied.to_json()))) == applied


class TestProcess:
    def test_numbers_go_on_over_graphs(self, graph):
        with limited(Limit(first=8)) as limiter:
            for _ in range(3):
                optimus.rewrite(copy.deepcopy(graph), PLAN)
        assert [a.graph for a in limiter.applied] == [1] * 6 + [2] * 2
        assert limiter.graphs == 3
        assert current() is None

    def test_from_the_environment(self, graph, monkeypatch, tmp_path):
        monkeypatch.setenv(ENVIRONMENT, f"first=7; record={tmp_path / 'r.jsonl'}")
        for _ in range(2):
            optimus.rewrite(copy.deepcopy(graph), PLAN)
        lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
        assert [(line["graph"], len(line["applied"])) for line in lines] == [(1, 6), (2, 1)]
        monkeypatch.setenv(ENVIRONMENT, "first=many")
        with pytest.raises(ValueError, match=f"environment variable {ENVIRONMENT}"):
            optimus.rewrite(copy.deepcopy(graph), PLAN)

    def test_what_is_compiled_under_a_limit_is_never_taken_from_a_cache(self):
        plain = PreGradPass(PLAN, None).uuid()
        with limited(Limit(first=1)):
            assert len({PreGradPass(PLAN, None).uuid(), PreGradPass(PLAN, None).uuid(), plain}) == 3
        assert PreGradPass(PLAN, None).uuid() == plain
