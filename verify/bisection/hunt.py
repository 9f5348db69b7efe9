"""The bisection itself: is it bad at all, which rewrite makes it bad, is that so each time, and does it suffice alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from optimus.limit import Applied, Limit
from verify.bisection.probes import Answer, CannotTellError, Probe
from verify.bisection.search import first_bad, smallest_bad
from verify.bisection.state import Ran, State

AGAIN = 2
"""How often an end of the search that is not as it should be is run again, before it is believed."""


class Status:
    """How a bisection ended."""

    FOUND = "found"
    NEVER_BAD = "never bad"
    NEVER_GOOD = "never good"
    FLAKY = "flaky"
    UNSTABLE = "unstable"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Culprit:
    """A rewrite that makes the subject bad.

    ``applied``: the rewrite, last, and those without which it does no harm. ``good`` and ``bad``: limits that differ in it
    alone. ``named_in``: runs until it was named, ``runs``: all runs that were spent on it, ``of``: rewrites searched.
    """

    applied: tuple[Applied, ...]
    good: Limit
    bad: Limit
    detail: str
    named_in: int
    runs: int
    of: int

    @property
    def guilty(self) -> Applied:
        """The rewrite that makes it bad."""
        return self.applied[-1]

    @property
    def alone(self) -> bool:
        """Whether it does so without any other rewrite."""
        return len(self.applied) == 1

    @property
    def isolated(self) -> Limit:
        """The limit under which it happens with nothing but what it needs."""
        return replace(self.bad, first=None, only=frozenset(a.identity for a in self.applied))


@dataclass
class Bisection:
    """What a bisection found. ``message``: why it stopped, in words."""

    status: str = Status.FOUND
    message: str = ""
    culprits: list[Culprit] = field(default_factory=list)
    runs: int = 0

    @property
    def exit_code(self) -> int:
        """1: a culprit was found; 0: nothing is bad; 3: undecided."""
        if self.culprits:
            return 1
        return 0 if self.status == Status.NEVER_BAD else 3


class _EndError(Exception):
    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Hunt:
    """A bisection of ``probe``, whose runs are kept in ``state``. ``tell``: called with a line for each run."""

    def __init__(self, probe: Probe, state: State, tell: Callable[[str], None] = lambda _: None) -> None:
        self.probe = probe
        self.state = state
        self.tell = tell
        self.runs = 0

    def run(self, exclude: Sequence[str] = (), culprits: int = 1) -> Bisection:
        """Find up to ``culprits`` culprits, the pattern of each left out when the next is looked for.

        ``exclude``: patterns left out from the start.
        """
        found = Bisection()
        without = frozenset(exclude)
        try:
            while len(found.culprits) < culprits:
                found.culprits.append(self._one(without))
                without |= {found.culprits[-1].guilty.pattern}
            found.message = f"{len(found.culprits)} found, as many as asked for"
        except _EndError as end:
            found.status, found.message = end.status, str(end)
        except CannotTellError as error:
            found.status, found.message = Status.CANNOT_TELL, str(error)
        found.runs = self.runs
        return found

    def ask(self, limit: Limit, attempt: int = 0) -> Answer:
        """The answer of one run; a run that is known from an earlier call is not made again."""
        self.runs += 1
        known = self.state.known(str(limit), attempt)
        if known is not None:
            return Answer(known.bad, known.detail, tuple(map(Applied.from_json, known.applied)))
        start = time.monotonic()
        answer = self.probe.run(limit, self.state.path(f"{len(self.state.runs) + 1:04d}.out"))
        whole = limit.first is None and limit.only is None  # here the rewrites are numbered
        kept = tuple(a.to_json() for a in answer.applied) if whole else ()
        self.state.add(Ran(str(limit), attempt, answer.bad, answer.detail, kept, round(time.monotonic() - start, 3)))
        self.tell(f"run {self.runs}: {_said(limit)}: {'bad' if answer.bad else 'good'} ({answer.detail})")
        return answer

    # ------------------------------------------------------------------------------------------------------ one culprit

    def _one(self, without: frozenset[str]) -> Culprit:
        start = self.runs
        whole = Limit(without=without)
        full = self.ask(whole)
        if not full.bad:
            self._never_bad(whole, without)
        if not full.applied:
            raise _EndError(Status.NEVER_GOOD, f"bad although no rewrite was applied ({full.detail}): the fault is not in a rewrite")
        none = replace(whole, first=0)
        if self.ask(none).bad:
            self._never_good(none)
        applied = full.applied
        number = first_bad(len(applied), lambda k: self._bad_prefix(whole, k, applied), _tiers(applied))
        named_in = self.runs - start
        guilty = applied[number - 1]
        place = f"graph {guilty.graph}, {guilty.rewrite}".replace(f"#{guilty.rewrite.number} ", "")
        self.tell(f"named after {named_in} runs: rewrite {number} of {len(applied)}, {place}")
        good, bad = replace(whole, first=number - 1), replace(whole, first=number)
        self._again(good, bad, number)
        chosen = self._needed(whole, applied[:number])
        if len(chosen) > 1:
            bad = replace(whole, only=frozenset(a.identity for a in chosen))
            good = replace(whole, only=frozenset(a.identity for a in chosen[:-1]))
        return Culprit(tuple(chosen), good, bad, full.detail, named_in, self.runs - start, len(applied))

    def _bad_prefix(self, whole: Limit, k: int, applied: Sequence[Applied]) -> bool:
        answer = self.ask(replace(whole, first=k))
        seen = [a.identity for a in answer.applied]
        if seen and seen != [a.identity for a in applied[:k]]:
            raise _EndError(
                Status.UNSTABLE,
                f"rewrites are not the same from run to run: with first={k}, {len(seen)} were applied, "
                f"the last {seen[-1]}, where the first run had {applied[k - 1].identity}",
            )
        return answer.bad

    def _never_bad(self, whole: Limit, without: frozenset[str]) -> None:
        if any(self.ask(whole, attempt).bad for attempt in range(1, AGAIN + 1)):
            raise _EndError(Status.FLAKY, "with all rewrites it is good once and bad once: make it deterministic first")
        left_out = f" without {', '.join(sorted(without))}" if without else ""
        raise _EndError(Status.NEVER_BAD, f"good with all rewrites{left_out}, {AGAIN + 1} times: there is nothing to find")

    def _never_good(self, none: Limit) -> None:
        if not all(self.ask(none, attempt).bad for attempt in range(1, AGAIN + 1)):
            raise _EndError(Status.FLAKY, "without any rewrite it is good once and bad once: make it deterministic first")
        raise _EndError(Status.NEVER_GOOD, f"bad without any rewrite, {AGAIN + 1} times: the fault is not in a rewrite")

    def _again(self, good: Limit, bad: Limit, number: int) -> None:
        """Both sides of the culprit once more; the bad one twice, for what only takes turns."""
        if self.ask(good, 1).bad or not self.ask(bad, 1).bad or not self.ask(bad, 2).bad:
            raise _EndError(Status.FLAKY, f"the runs next to rewrite {number} do not end the same way twice: make it deterministic first")

    def _needed(self, whole: Limit, prefix: Sequence[Applied]) -> list[Applied]:
        """The last of ``prefix``, behind those of the others without which it does no harm."""
        *others, guilty = prefix

        def bad(chosen: Sequence[Applied]) -> bool:
            return self.ask(replace(whole, only=frozenset(a.identity for a in (*chosen, guilty)))).bad

        if not others or bad([]):
            return [guilty]
        if not bad(others):  # left out otherwise than by its number, the graph is another one
            raise _EndError(Status.UNSTABLE, f"bad with first={len(prefix)}, and good with the same rewrites given one by one")
        return [*smallest_bad(others, bad), guilty]


def _said(limit: Limit) -> str:
    text = str(replace(limit, record=None, observe=None)) or "all rewrites"
    return text if len(text) <= 80 else text[:77] + "..."


def _tiers(applied: Sequence[Applied]) -> list[list[int]]:
    """The numbers of the last rewrite of each graph, and of each pattern in a graph."""
    pairs = list(pairwise(applied))
    graphs = [k + 1 for k, (a, b) in enumerate(pairs) if a.graph != b.graph]
    return [graphs, [k + 1 for k, (a, b) in enumerate(pairs) if (a.graph, a.pattern) != (b.graph, b.pattern)]]
