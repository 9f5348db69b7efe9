"""Campaigns: what is done stays done, a worker that dies loses its current program at most, and the end tells the truth."""

from __future__ import annotations

import _thread
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import environment, python
from verify.campaign import DEADLY, LOST, UNIT, Campaign, Result, State, Task, work
from verify.campaigns import run
from verify.cli import UsageError, main
from verify.scaffold import TEMPLATE
from verify.workers import Processes

WRONG = TEMPLATE.format(name="wrong_rule", cls="WrongRule").replace("match.found)", "tx.call(torch.flip, match.found, [0]))")


class Here:
    """A worker in this process, which may be told to die."""

    def __init__(self, state: State, dies_at: int = -1) -> None:
        self.state, self.dies_at, self.task, self.started = state, dies_at, None, []

    def free(self):
        return int(self.task is None)

    def start(self, task):
        self.task = task
        self.started.append(task)

    def finished(self, wait_s):
        if self.task is None:
            return []
        task, self.task = self.task, None
        judged = 0

        def tick(character):
            nonlocal judged
            self.state.tick(task.key, character)
            judged += 1
            if len(self.state.known(task.key)) == self.dies_at:
                self.dies_at = -1
                raise KeyboardInterrupt

        try:
            return [(task, work(task, tick))]
        except KeyboardInterrupt:
            return [(task, None)]

    def close(self):
        pass


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_programs_of_a_unit_are_the_same_after_a_skip():
    whole: list[str] = []
    work(Task("merge_splits_pass", 0, 0, 0, 600, 10), whole.append)
    rest: list[str] = []
    work(Task("merge_splits_pass", 0, 0, 400, 600, 10), rest.append)
    assert len(whole) == UNIT
    assert rest == whole[400:]


def test_a_worker_that_dies_loses_its_current_program_alone(here):
    state = State.at(here / "state", 0)
    workers = Here(state, dies_at=37)
    campaign = Campaign(state, ["merge_splits_pass"], workers, 10.0)
    campaign.run(600, tell=lambda c: setattr(c.state, "seed", 0) if not c.state.results else c.sources.clear())
    first, second = workers.started[:2]
    assert (first.skip, second.skip, second.unit) == (0, 38, first.unit)
    assert campaign.killed == 1
    (result,) = state.results
    assert (result.tried, result.lost) == (UNIT, 1)


def test_a_campaign_goes_on_where_it_stopped(here):
    state = State.at(here / "state", 0)
    state.tick("merge_splits_pass@0", "+" * 470)
    again = State.at(here / "state", 0)
    workers = Here(again)
    sources = ["merge_splits_pass"]
    Campaign(again, sources, workers, 10.0).run(600, tell=lambda c: c.sources.clear() if c.state.results else None)
    assert workers.started[0].skip == 470
    assert [r.tried for r in State.at(here / "state", 0).results] == [UNIT]
    assert not again.begun()


def test_a_line_cut_short_is_done_again(here):
    state = State.at(here / "state", 0)
    (here / "state" / "done.jsonl").write_text('{"source": "merge_spl')
    assert State.at(here / "state", 0).results == state.results == []


def test_a_subject_that_kills_its_workers_is_given_up(here):
    state = State.at(here / "state", 0)
    campaign = Campaign(state, ["some_rule"], Here(state), 10.0)
    for _ in range(DEADLY):
        campaign._ended(Task("some_rule", 0, 0, 0, 1, 1), None)
    assert state.results[0].fault == "killed 3 workers in a row, at programs that follow one another"
    assert state.results[0].lost == DEADLY
    assert campaign.open() == []
    assert LOST not in "".join(state.begun().values())


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "fuzz: nothing to judge; give --pattern NAME, --all, or --rule FILE:NAME"),
            (["--all", "--pattern", "x"], "--pattern and --all exclude each other"),
            (["--pattern", "split_cat"], "unknown pattern 'split_cat'; nearest are split_cat_pass"),
            (["--all", "--workers", "0"], "--workers 0: accepted is a whole number from 1 to 1024"),
            (["--all", "--workers", "two"], "--workers two: accepted is"),
            (["--all", "--time", "soon"], "--time soon: accepted is"),
            (["--all", "--state", ""], "--state is empty; accepted is a folder"),
            (["--all", "--state", "file"], "--state file: cannot be written"),
            (["--all", "--state", "other"], "--state other: holds letter.txt, and is no campaign"),
            (["--all", "--state", "seeded"], "--state seeded: is a campaign of seed 7; give --seed 7, or another folder"),
            (["--all", "--state", "damaged"], "--state damaged: campaign.json is damaged"),
            (["--all", "--address", " "], "--address is empty; accepted is local, auto, or HOST:PORT"),
        ],
    )
    def test_refusals(self, here, capsys, arguments, message):
        (here / "file").write_text("")
        (here / "other").mkdir()
        (here / "other" / "letter.txt").write_text("dear")
        State.at(here / "seeded", 7)
        (here / "damaged").mkdir()
        (here / "damaged" / "campaign.json").write_text("{")
        assert main(["fuzz", *arguments]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert message in line

    def test_a_find_ends_it_and_replays(self, here, capsys):
        (here / "wrong_rule.py").write_text(WRONG)
        assert run(None, ["wrong_rule.py:WrongRule"], [], seconds=300, workers=1, state="state", seed=0, address=None, limit_s=10.0) == 1
        assert "wrong: output 0" in " ".join(capsys.readouterr().out.split())
        (replay,) = (here / "optimus-failures").glob("wrong_rule-*/replay.py")
        assert python(str(replay), env=environment()).returncode == 1
        assert run(None, ["wrong_rule.py:WrongRule"], [], seconds=300, workers=1, state="state", seed=0, address=None, limit_s=10.0) == 1

    def test_a_killed_process_is_replaced(self, here, capsys):
        code = _with_one_killed(here, address=None)
        text = " ".join(capsys.readouterr().out.split())
        assert code == 0, text
        assert "1 workers died and were replaced" in text
        assert _lost(here) <= 1

    def test_a_killed_actor_of_a_cluster_is_replaced(self, here, capsys):
        pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
        code = _with_one_killed(here, address="local")
        text = " ".join(capsys.readouterr().out.split())
        assert code == 0, text
        assert "1 workers died and were replaced" in text
        assert _lost(here) <= 1


def _with_one_killed(here: Path, address: str | None) -> int:
    """A campaign of two workers, one of which is killed once it is at work."""

    def kill(workers: Processes) -> None:
        threading.Thread(target=watch, args=(workers.pids()[0],), daemon=True).start()

    def watch(pid: int) -> None:
        _until(lambda: sum(map(len, State.at(here / "state", 0).begun().values())) > 20)
        os.kill(pid, signal.SIGKILL)
        _until(lambda: _lost(here) > 0 and all(c.fired for c in _counts(here)))
        _thread.interrupt_main()  # as Ctrl-C: what is done is kept

    return run(SOURCES, [], [], seconds=500, workers=2, state="state", seed=0, address=address, limit_s=10.0, started=kill)


SOURCES = ["merge_splits_pass", "mutate_cat_pass"]


def _until(reached: Callable[[], bool]) -> None:
    for _ in range(2500):
        if reached():
            return
        time.sleep(0.1)


def _counts(here: Path) -> list[Result]:
    state = State.at(here / "state", 0)
    return list(Campaign(state, SOURCES, Here(state), 10.0).counts().values())


def _lost(here: Path) -> int:
    state = State.at(here / "state", 0)
    return sum(r.lost for r in state.results) + "".join(state.begun().values()).count(LOST)


def test_what_is_kept_is_plain(here):
    state = State.at(here / "state", 0)
    state.finish(Task("merge_splits_pass", 0, 0, 0, 1, 1), {"finding": {"folder": "f", "replay": "r"}, "differences": ["d"]})
    (line,) = (here / "state" / "done.jsonl").read_text().splitlines()
    assert json.loads(line)["finding"] == {"folder": "f", "replay": "r"}
    with pytest.raises(UsageError):
        State.at(here / "state", 1)
