"""Bisection: the searches, how it ends, what it keeps, and the planted faults that it has to name and cut down."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

import verify
from optimus.journal import Rewrite
from optimus.limit import Applied, Limit
from optimus.plan import Plan, lookup
from tests import planted
from tests.processes import environment, python
from verify.bisection.hunt import Hunt, Status
from verify.bisection.probes import Answer, CallableProbe, CannotTellError, CommandProbe, GraphProbe
from verify.bisection.result import replay
from verify.bisection.search import first_bad, runs_needed, smallest_bad
from verify.bisection.state import State, StateError
from verify.cli import main

CORPUS = Path(__file__).parent.parent / "corpus"


class TestSearch:
    @pytest.mark.parametrize("size", [*range(1, 40), 100, 255, 256, 257])
    def test_the_first_bad_one_is_found_in_as_many_runs_as_promised(self, size):
        for tiers in ([], [[size // 3, size // 2]], [[1, size - 1], list(range(0, size, 7))]):
            for culprit in range(1, size + 1):
                asked = []
                assert first_bad(size, lambda k, asked=asked, culprit=culprit: asked.append(k) or k >= culprit, tiers) == culprit
                assert len(asked) <= runs_needed(size)
                assert all(0 < k < size for k in asked)

    def test_where_badness_is_not_monotone_a_step_from_good_to_bad_is_found(self):
        for pattern in itertools.product([False, True], repeat=7):
            bad = [False, *pattern, True]
            found = first_bad(8, bad.__getitem__)
            assert bad[found] and not bad[found - 1]

    @pytest.mark.parametrize("size", range(1, 8))
    def test_a_smallest_bad_subset(self, size):
        items = list(range(size))
        for culprits in (set(c) for n in range(size + 1) for c in itertools.combinations(items, n)):
            assert smallest_bad(items, lambda chosen, culprits=culprits: culprits <= set(chosen)) == sorted(culprits)

    def test_either_of_two_subsets(self):
        found = smallest_bad(range(10), lambda chosen: {2, 7} <= set(chosen) or {3, 4, 5} <= set(chosen))
        assert found in ([2, 7], [3, 4, 5])


@dataclass
class Fake:
    """A probe over ``size`` numbered rewrites of two patterns and two graphs; ``bad`` judges the set of numbers that happen."""

    size: int
    bad: object
    runs: list[str] = field(default_factory=list)

    def subject(self):
        return {"fake": self.size}

    def by_hand(self, limit):
        return str(limit)

    def run(self, limit, log):
        self.runs.append(str(limit))
        numbers = [k for k in range(1, self.size + 1) if self.name(k) not in limit.without]
        if limit.first is not None:
            numbers = numbers[: limit.first]
        if limit.only is not None:
            numbers = [k for k in numbers if self.identity(k) in limit.only]
        applied = [Applied(i + 1, 1 + (k > self.size // 2), self.identity(k), rewrite(self.name(k))) for i, k in enumerate(numbers)]
        return Answer(bool(self.bad(set(numbers))), "said so", tuple(applied))

    def name(self, k):
        return "odd" if k % 2 else "even"

    def identity(self, k):
        return f"{1 + (k > self.size // 2)}.{self.name(k)}.n{k}"


def rewrite(pattern):
    return Rewrite(1, pattern, 1, (), ("out",), (), (), ())


def hunt(tmp_path, probe, **more):
    state = State(tmp_path / "state", probe.subject(), fresh=True)
    with state.open():
        return Hunt(probe, state).run(**more)


class TestHunt:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
    def test_one_culprit(self, tmp_path, size):
        for k in range(1, size + 1):
            probe = Fake(size, lambda done, k=k: k in done)
            found = hunt(tmp_path, probe)
            (culprit,) = found.culprits
            assert culprit.guilty.identity == probe.identity(k)
            assert culprit.alone
            assert culprit.named_in <= 2 + runs_needed(size)
            assert found.exit_code == 1

    def test_two_that_do_harm_only_together(self, tmp_path):
        for one, other in itertools.combinations(range(1, 8), 2):
            probe = Fake(7, lambda done, pair=frozenset((one, other)): pair <= done)
            (culprit,) = hunt(tmp_path, probe).culprits
            assert [a.identity for a in culprit.applied] == [probe.identity(one), probe.identity(other)]

    def test_one_that_hides_another(self, tmp_path):
        """3 does harm, 4 mends it, 6 does harm again: a step from good to bad is named."""
        probe = Fake(6, lambda done: (3 in done and 4 not in done) or 6 in done)
        (culprit,) = hunt(tmp_path, probe).culprits
        assert culprit.guilty.identity in (probe.identity(3), probe.identity(6))

    def test_a_second_culprit_is_found_without_the_pattern_of_the_first(self, tmp_path):
        probe = Fake(10, lambda done: bool(done & {3, 8}))
        found = hunt(tmp_path, probe, culprits=5)
        assert [c.guilty.identity for c in found.culprits] == [probe.identity(3), probe.identity(8)]
        assert found.status == Status.NEVER_BAD
        assert hunt(tmp_path, probe, exclude=["odd"]).culprits[0].guilty.identity == probe.identity(8)

    def test_never_bad(self, tmp_path):
        found = hunt(tmp_path, Fake(5, lambda done: False))
        assert (found.status, found.exit_code, found.culprits) == (Status.NEVER_BAD, 0, [])

    def test_never_good(self, tmp_path):
        found = hunt(tmp_path, Fake(5, lambda done: True))
        assert (found.status, found.exit_code) == (Status.NEVER_GOOD, 3)
        assert "bad without any rewrite, 3 times" in found.message
        assert hunt(tmp_path, Fake(0, lambda done: True)).status == Status.NEVER_GOOD

    @pytest.mark.parametrize("period", [2, 3])
    def test_flaky(self, tmp_path, period):
        calls = itertools.count()
        found = hunt(tmp_path, Fake(5, lambda done: next(calls) % period == 0))
        assert (found.status, found.exit_code) == (Status.FLAKY, 3)
        assert "deterministic" in found.message

    def test_rewrites_that_are_not_the_same_each_time(self, tmp_path):
        probe = Fake(8, lambda done: 5 in done)
        names = itertools.count()
        probe.identity = lambda k: f"1.p.{next(names)}"
        assert hunt(tmp_path, probe).status == Status.UNSTABLE

    def test_a_run_that_cannot_tell(self, tmp_path):
        def bad(done):
            raise CannotTellError("no network")

        found = hunt(tmp_path, Fake(5, bad))
        assert (found.status, found.message, found.exit_code) == (Status.CANNOT_TELL, "no network", 3)


class TestState:
    def test_what_is_known_is_not_run_again(self, tmp_path):
        probe = Fake(8, lambda done: 5 in done)
        probe.run, run = None, probe.run
        killed = itertools.count(1)

        def dies(limit, log):
            if next(killed) == 4:
                raise KeyboardInterrupt
            return run(limit, log)

        probe.run = dies
        state = State(tmp_path / "s", probe.subject())
        with pytest.raises(KeyboardInterrupt), state.open():
            Hunt(probe, state).run()
        with (tmp_path / "s" / "runs.jsonl").open("a") as file:
            file.write('{"limit": "first=')  # killed while it wrote
        probe.run = run
        probe.runs.clear()
        again = State(tmp_path / "s", probe.subject())
        with again.open():
            assert again.resumed == 3
            found = Hunt(probe, again).run()
            again.finish()
        assert found.culprits[0].guilty.identity == probe.identity(5)
        assert len(probe.runs) == found.runs - 3
        with State(tmp_path / "s", probe.subject()).open() as third:
            assert third.resumed == 0

    def test_fresh_starts_anew(self, tmp_path):
        state = State(tmp_path / "s", {"a": 1})
        with state.open():
            hunted = Hunt(Fake(3, lambda done: 2 in done), state)
            hunted.run()
        with State(tmp_path / "s", {"a": 2}, fresh=True).open() as again:
            assert again.resumed == 0

    def test_folders_of_something_else_are_refused(self, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("all of it")
        with pytest.raises(StateError, match="no folder of a bisection"), State(tmp_path / "mine", {}, fresh=True).open():
            pass
        with (
            State(tmp_path / "s", {"command": "a"}).open(),
            pytest.raises(StateError, match="in use"),
            State(tmp_path / "s", {"command": "a"}).open(),
        ):
            pass
        with pytest.raises(StateError, match=r"another bisection \(other command\)"), State(tmp_path / "s", {"command": "b"}).open():
            pass
        assert (tmp_path / "mine" / "thesis.tex").read_text() == "all of it"


# -------------------------------------------------------------------------------------------------------- planted faults


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def graph(fault):
    return GraphProbe(planted.captured().gm, planted.inputs(fault.outlier), fault.plan, fault.name)


def test_the_graph_is_large_and_the_right_pass_changes_nothing(tmp_path):
    assert len(planted.captured().gm.graph.nodes) > 1000
    plan = Plan((lookup("mutate_cat_pass"), lookup("batch_tanh"), planted.Halve()))
    outcome = verify.bisect(GraphProbe(planted.captured().gm, planted.inputs(), plan), state=tmp_path / "s")
    assert outcome.bisection.status == Status.NEVER_BAD


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda f: f.name)
def test_planted(fault, tmp_path, capsys):
    outcome = verify.bisect(graph(fault), state=tmp_path / "s")
    (culprit,) = outcome.bisection.culprits
    assert culprit.guilty.pattern == fault.name
    assert culprit.guilty.identity == f"1.{fault.name}.{'tanh_12' if fault.name == 'swapped_members' else f'z_{planted.GUILTY}'}"
    assert culprit.alone
    assert culprit.of > 200
    assert culprit.named_in <= 2 + runs_needed(culprit.of)
    (small,) = outcome.minimised
    assert small is not None, outcome.problems
    assert (small.fault.where, small.fault.kind) == (fault.where, fault.kind)
    assert small.sample.size <= 8
    if fault.real:
        assert not small.random
    (folder,) = outcome.folders
    assert replay(folder) == 1
    assert {f.name for f in folder.iterdir()} >= {"program.py", "inputs.bin", "before.svg", "after.svg", "before.txt", "after.txt", "replay.py"}


def test_two_at_once(tmp_path):
    one, other = planted.FAULTS[0], next(f for f in planted.FAULTS if f.name == "swapped_members")
    plan = Plan((lookup("mutate_cat_pass"), one.pattern, other.pattern))
    outcome = verify.bisect(GraphProbe(planted.captured().gm, planted.inputs(), plan), state=tmp_path / "s", culprits=3)
    assert {c.guilty.pattern for c in outcome.bisection.culprits} == {one.name, other.name}
    assert all(m is not None and m.sample.size <= 8 for m in outcome.minimised)


def test_two_that_do_harm_only_together(tmp_path):
    plan = Plan((lookup("mutate_cat_pass"), planted.SLOPPY))
    outcome = verify.bisect(GraphProbe(planted.captured().gm, planted.inputs(), plan), state=tmp_path / "s")
    (culprit,) = outcome.bisection.culprits
    factors = {n.name: n.args[1] for n in planted.captured().gm.graph.nodes if n.target is torch.mul}
    assert [factors[a.rewrite.outputs[0]] for a in culprit.applied] == [0.125, 0.0625]
    assert outcome.minimised[0] is not None and outcome.minimised[0].sample.size <= 8


def test_only_after_fifty_steps(tmp_path):
    """A loop over a graph that is compiled once; the inputs of the step at fault are the ones that are saved."""
    plan = Plan((lookup("mutate_cat_pass"), planted.AFTER_FIFTY_STEPS))
    outcome = verify.bisect(CallableProbe(lambda: planted.training(plan), "training"), state=tmp_path / "s")
    (culprit,) = outcome.bisection.culprits
    assert culprit.detail == "step 51"
    assert culprit.guilty.identity == f"1.after_fifty_steps.z_{planted.GUILTY}"
    assert culprit.named_in <= 2 + runs_needed(culprit.of)
    small = outcome.minimised[0]
    assert small is not None and small.sample.size <= 8 and not small.random
    assert max(float(i.detach().abs().max()) for i in small.sample.inputs) > 1000


# --------------------------------------------------------------------------------------------------- commands, front ends


STAND_IN = """
    import json, os, sys, time
    text = dict(p.strip().split("=", 1) for p in os.environ["OPTIMUS_LIMIT"].split(";"))
    only = json.load(open(text["only"][1:])) if "only" in text else None
    names = [n for n in (f"1.p.n{k}" for k in range(1, 17)) if only is None or n in only][: int(text.get("first", 99))]
    made = [{"number": k + 1, "graph": 1, "identity": n, "rewrite": {"number": k + 1, "pattern": "p", "ordinal": 1, "inputs": [], "outputs": ["o"],
             "removed": [], "added": [], "lines": []}} for k, n in enumerate(names)]
    with open(text["record"], "a") as file:
        file.write(json.dumps({"process": os.getpid(), "graph": 1, "applied": made}) + "\\n")
    time.sleep(float(sys.argv[1]))
    sys.exit(int(sys.argv[2]) if "1.p.n11" in names else 0)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A script that behaves as one that compiles, and takes no time."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stand_in.py").write_text(textwrap.dedent(STAND_IN))
    return tmp_path


class TestCommand:
    def test_exit_codes(self, stand_in, capsys):
        assert main(["bisect", "stand_in.py", "0", "3"]) == 1
        said = capsys.readouterr().out
        assert "culprit 1: p, rewrite 11 of 16" in said
        assert f"good: OPTIMUS_LIMIT=first=10 {sys.executable} stand_in.py 0 3" in said
        assert f"bad:  OPTIMUS_LIMIT=first=11 {sys.executable} stand_in.py 0 3" in said
        assert main(["bisect", "--json", "out.json", sys.executable, "stand_in.py", "0", "0"]) == 0
        assert json.loads(Path("out.json").read_text())["status"] == "never bad"
        assert main(["bisect", "stand_in.py", "0", "125"]) == 3
        assert main(["bisect", "--timeout", "0.5s", "--fresh", "stand_in.py", "30", "0"]) == 3
        assert "took longer than 0.5 s" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "nothing to run"),
            (["no_such_file.py"], "there is no file no_such_file.py"),
            (["no_such_command"], "there is no command no_such_command"),
            (["."], "holds no program.py"),
            ([str(CORPUS / "split_cat_order"), "--state", "x"], "--state x stands behind the folder"),
            (["--culprits", "0", "stand_in.py"], "accepted is a whole number"),
            (["--exclude", "split_cat", "stand_in.py"], "nearest are split_cat_pass"),
            (["--state", ".", "stand_in.py"], "is no folder of a bisection"),
        ],
    )
    def test_refusals(self, stand_in, capsys, arguments, message):
        assert main(["bisect", *arguments]) == 2
        assert message in capsys.readouterr().err

    def test_killed_and_resumed(self, stand_in):
        given = environment()
        command = [sys.executable, "-m", "verify.cli", "bisect", "stand_in.py", "0.2", "1"]
        first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=given)
        assert first.stdout is not None
        seen = [line for line, _ in zip(first.stdout, range(3), strict=False)]
        assert all(line.startswith("run ") for line in seen), seen
        first.send_signal(signal.SIGKILL)
        first.wait()
        again = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
        assert again.returncode == 1, again.stderr
        assert "runs are known from a bisection that did not come to its end" in again.stdout
        assert "run 1:" not in again.stdout
        assert "culprit 1: p, rewrite 11 of 16" in again.stdout

    def test_nothing_of_it_reaches_an_ordinary_run(self, stand_in, monkeypatch):
        """With a state folder lying about, a compile is what it always is."""
        from optimus.limit import current

        assert main(["bisect", "stand_in.py", "0", "3"]) == 1
        assert "OPTIMUS_LIMIT" not in os.environ
        assert current() is None


def test_a_real_script(tmp_path, monkeypatch):
    """From a script that exits with 3 to a folder that replays the fault, in processes of their own."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
        import sys
        import torch
        import optimus
        from tests.broken.joins import OrderIgnored

        def model(x):
            for k in range(4):
                a, b = torch.split(x, [3, 5], 1)
                x = torch.tanh(torch.cat([b, a] if k == 2 else [a, b], 1))
            return x * 2

        fast = optimus.compile(model, plan=optimus.Plan((OrderIgnored(),)), options={"compiler": "aot_eager"})
        x = torch.randn(4, 8)
        sys.exit(0 if torch.equal(fast(x), model(x)) else 3)
        """)
    )
    outcome = verify.bisect([sys.executable, str(tmp_path / "train.py")], state=tmp_path / "s")
    (culprit,) = outcome.bisection.culprits
    assert (culprit.guilty.identity, culprit.of) == ("1.order_ignored.cat_2", 4)
    (folder,) = outcome.folders
    assert folder is not None, outcome.problems
    done = python(str(folder / "replay.py"), env=environment())
    assert done.returncode == 1, done.stderr
    assert "elements differ" in done.stdout
    again = verify.bisect(folder, state=tmp_path / "again")
    assert again.bisection.culprits[0].guilty.pattern == "order_ignored"


def test_what_is_run_by_hand_is_quoted():
    assert CommandProbe(("python", "a b.py")).by_hand(Limit(first=3)) == "OPTIMUS_LIMIT=first=3 python 'a b.py'"
