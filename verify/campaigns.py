"""``optimus-verify fuzz``: a campaign from the command line, with progress and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from optimus.plan import provable
from verify.campaign import Campaign, State, Workers
from verify.cli import UsageError
from verify.findings import FOLDER
from verify.hunting import hunted
from verify.rules_loading import load
from verify.workers import Processes, RayActors

EVERY_S = 10.0


def run(
    names: Sequence[str] | None,
    rules: Sequence[str],
    folders: Sequence[str],
    *,
    seconds: float,
    workers: int,
    state: str,
    seed: int,
    address: str | None,
    limit_s: float,
    started: Callable[[Workers], None] | None = None,
) -> int:
    """Hunt on patterns by name (empty: all; None: none) and on rules. 0: no find; 1: a find; 3: something never fired."""
    try:
        named = [] if names is None else [hunted(n).name for n in names] or [p.name for p in provable()]
    except ValueError as error:
        raise UsageError(str(error)) from None
    sources = [*named, *(r.source for r in load(rules, folders))]
    if address is not None and not address.strip():
        raise UsageError("--address is empty; accepted is local, auto, or HOST:PORT")
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    kept = State.at(Path(state), seed)
    before = sum(c.tried for c in Campaign(kept, sources, _nobody(), limit_s).counts().values())
    if before:
        console.print(f"{state}: goes on behind {before} programs", markup=False)
    hunters: Processes | RayActors = Processes(workers, kept.root) if address is None else RayActors(workers, address, kept)
    campaign = Campaign(kept, sources, hunters, limit_s)
    if started is not None:
        started(hunters)
    try:
        campaign.run(seconds, _progress(console, seconds, before))
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on from {state}", markup=False)
    return _report(console, campaign)


def _nobody() -> Workers:
    class Nobody:
        def free(self) -> int:
            return 0

        def start(self, task: object) -> None:
            raise AssertionError(task)

        def finished(self, wait_s: float) -> list[object]:
            raise AssertionError(wait_s)

        def close(self) -> None:
            pass

    return Nobody()  # type: ignore[return-value]


def _progress(console: Console, seconds: float, before: int) -> Callable[[Campaign], None]:
    """Print a line every few seconds."""
    start = time.monotonic()
    last = [start]

    def tell(campaign: Campaign) -> None:
        now = time.monotonic()
        if now - last[0] < EVERY_S:
            return
        last[0] = now
        counts = campaign.counts().values()
        tried, found = sum(c.tried for c in counts), sum(c.finding is not None or bool(c.fault) for c in counts)
        lost = f", {campaign.killed} workers died and were replaced" if campaign.killed else ""
        console.print(
            f"{now - start:.0f} of {seconds:.0f} s: {tried} programs, {(tried - before) / (now - start):.0f} a second, "
            f"{sum(c.fired for c in counts)} rewritten, {found} finds{lost}",
            markup=False,
        )

    return tell


def _report(console: Console, campaign: Campaign) -> int:
    table = Table()
    for column in ("subject", "programs", "rewritten", "not captured", "lost", "result"):
        table.add_column(column, overflow="fold")
    counts = campaign.counts()
    for source, count in counts.items():
        if count.finding is not None:
            result = f"wrong: {count.differences[0]}; python {FOLDER / count.finding['folder'] / 'replay.py'}"
        else:
            result = count.fault or ("no difference" if count.fired else "never fired")
        table.add_row(source, str(count.tried), str(count.fired), str(count.uncaptured), str(count.lost), result)
    console.print(table)
    if campaign.killed:
        console.print(f"{campaign.killed} workers died and were replaced", markup=False)
    if any(c.finding is not None or c.fault for c in counts.values()):
        return 1
    return 0 if all(c.fired for c in counts.values()) else 3
