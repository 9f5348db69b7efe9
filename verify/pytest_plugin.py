"""The tests that the plugin adds to a session of pytest: one for each pattern or rule and witness.

``optimus_verify`` registers the options and loads this file only where one of them is given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fuzz.profiles import PROFILES, Profile, register_profiles
from optimus.pattern import Case
from optimus.plan import lookup, provable
from verify import findings, scheduled
from verify.cache import Cache, default_folder
from verify.cli import UsageError
from verify.differential import quiet
from verify.edges import prove_edges
from verify.hunting import differential, hunt
from verify.paste import paste
from verify.proof import CaseProof, prove_case, prove_general
from verify.rules import Fault, RuleSubject, rule_subject, vet
from verify.rules_loading import load
from verify.subject import PatternSubject
from verify.verdict import Proved, Refuted, Verdict, explain

MARK = "optimus"

__all__ = ["Plugin", "UsageError"]


class WitnessError(Exception):
    """A witness objects, or decides nothing. The message is all there is to say."""


@dataclass(frozen=True)
class Judged:
    """One pattern or rule of a session. ``source``: the option that names it, and its value."""

    subject: PatternSubject
    source: tuple[str, str]
    profile: Profile

    @functools.cached_property
    def fault(self) -> Fault | None:
        """What is wrong with the rule itself."""
        return vet(self.subject) if isinstance(self.subject, RuleSubject) else None


class Plugin:
    """Loads the rules once, and adds their tests. Raises :class:`UsageError` for what cannot be loaded."""

    def __init__(self, config: pytest.Config, shadowed: Sequence[str]) -> None:
        config.addinivalue_line("markers", f"{MARK}: a witness of a rewrite rule, added by the plugin of optimus-verify")
        name = config.getoption("optimus_profile")
        if name not in PROFILES:
            raise UsageError(f"--optimus-profile {name}: accepted are {', '.join(PROFILES)}")
        register_profiles()
        self.shadowed = shadowed
        self.judged = _chosen(config, PROFILES[name])

    def pytest_report_header(self) -> list[str]:
        """What is judged, and which folders are hidden by packages of ours."""
        lines = [f"optimus: {', '.join(j.subject.name for j in self.judged)}"]
        if self.shadowed:
            lines.append(
                f"optimus: the packages of optimus-verify shadow {', '.join(self.shadowed)}: this run judges the rules alone; "
                f"run the tests of the repository without the options"
            )
        return lines

    def pytest_ignore_collect(self) -> bool | None:
        """Nothing of a repository whose own packages are hidden in this process."""
        return True if self.shadowed else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the tests, behind those of the repository."""
        for judged in self.judged:
            items += Suite.from_parent(session, name=judged.subject.name, nodeid=judged.subject.name, judged=judged).collect()


def _chosen(config: pytest.Config, profile: Profile) -> list[Judged]:
    found: list[Judged] = []
    for name in config.getoption("optimus_pattern"):
        try:
            chosen = provable() if name == "all" else [lookup(name)]
        except ValueError as error:
            raise UsageError(f"--optimus-pattern: {error}") from None
        found += [Judged(PatternSubject(p), ("pattern", p.name), profile) for p in chosen]
    for judged in found:
        if scheduled.concerns(judged.subject):
            raise UsageError(
                f"--optimus-pattern {judged.subject.name}: of a pattern of Inductor-IR nothing is proved; "
                f"accepted is optimus-verify --pattern {judged.subject.name}"
            )
    for rule in load(config.getoption("optimus_rule"), config.getoption("optimus_rule_dir")):
        found.append(Judged(rule_subject(rule.pattern), ("rule", rule.source), profile))
    return list({j.subject.name: j for j in found}.values())


class Suite(pytest.Collector):
    """The tests of one pattern or rule."""

    def __init__(self, *, judged: Judged, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.judged = judged

    def collect(self) -> list[pytest.Item]:
        """One test for each witness; proof and differential runs have one for each case."""
        return [Witness.from_parent(self, name=name, witness=run) for name, run in witnesses(self.judged)]


class Witness(pytest.Item):
    """One witness on one pattern or rule."""

    def __init__(self, *, witness: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.witness = witness
        self.add_marker(MARK)

    @property
    def judged(self) -> Judged:
        """What is judged."""
        assert isinstance(self.parent, Suite)
        return self.parent.judged

    def runtest(self) -> None:
        """Ask the witness. Raises :class:`WitnessError`."""
        with quiet():
            fault = self.judged.fault
            if fault is not None:
                raise WitnessError(f"{self.judged.subject.name}: {fault}")
            self.witness()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message alone; of any other error the traceback."""
        if not isinstance(excinfo.value, WitnessError):
            return super().repr_failure(excinfo, style)
        option, value = self.judged.source
        return f"{excinfo.value}\n\nthis test again: pytest --optimus-{option} {value} -k '{self.name}'\nall witnesses: optimus-verify --{option} {value}"

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the test stands in reports."""
        return self.path, None, f"{self.judged.subject.name}::{self.name}"


# ------------------------------------------------------------------------------------------------------------- witnesses


def witnesses(judged: Judged) -> Iterator[tuple[str, Callable[[], None]]]:
    """The name of each test of a pattern or rule, and what it runs."""
    subject = judged.subject
    if isinstance(subject, RuleSubject):
        yield "rule", lambda: None  # that nothing is wrong with it is asked in front of every witness
    for case in (*subject.cases, *subject.declines):
        yield f"proof[{case.name}]", functools.partial(_proof, judged, case)
    if subject.general is not None:
        yield "general", functools.partial(_general, judged)
    yield "edges", functools.partial(_edges, judged)
    yield "fuzz", functools.partial(_fuzz, judged)
    for compiler, most in (("aot_eager", 100), ("inductor", judged.profile.inductor_runs)):
        if most:
            yield f"differential[{compiler}]", functools.partial(_differential, judged, compiler, most)


def _cache() -> Cache:
    return Cache(default_folder())


def _proof(judged: Judged, case: Case) -> None:
    part = prove_case(judged.subject, case, cache=_cache())
    for level, verdict in _levels(part):
        _demand(f"{case.name}{level}", verdict)


def _levels(part: CaseProof) -> Iterator[tuple[str, Verdict]]:
    yield "", part.verdict
    if part.aten is not None:
        yield from ((f", {level} at ATen-IR", v) for level, v in (("forward", part.aten.forward), ("backward", part.aten.backward)) if v is not None)


def _demand(what: str, verdict: Verdict) -> None:
    """Raise where a verdict is not green."""
    if isinstance(verdict, Refuted):
        raise WitnessError(f"{what}: {explain(verdict)}\n{verdict.counterexample}{_values(verdict)}")
    if not isinstance(verdict, Proved):
        raise WitnessError(f"{what}: {explain(verdict)}; only what is proved is green")


def _values(verdict: Refuted) -> str:
    inputs = verdict.counterexample.inputs
    return "".join(
        f"\ninput {k}, shape {tuple(t.shape)}, {t.dtype}: {t.tolist()}" for k, t in enumerate(inputs) if hasattr(t, "tolist") and t.numel() <= 64
    )


def _general(judged: Judged) -> None:
    verdict = prove_general(judged.subject, cache=_cache())
    assert verdict is not None
    _demand("the rule in general", verdict)


def _edges(judged: Judged) -> None:
    found = prove_edges(judged.subject, cache=_cache())
    if found.wrong:
        first = found.wrong[0]
        if first.verdict is not None:
            _demand(f"{first.case} at sizes 0 and 1", first.verdict)
        raise WitnessError(f"at sizes 0 and 1: {found}")


def _fuzz(judged: Judged) -> None:
    profile, subject = judged.profile, judged.subject
    report = hunt(subject, seconds=profile.seconds, max_examples=profile.max_examples)
    seen = f"{report.tried} programs, {report.fired} rewritten, {report.seconds:.0f} s, profile {profile.name}"
    if report.finding is not None:
        option, value = judged.source
        folder = findings.save(report.finding, subject.name, source=value if option == "rule" else "")
        lines = [*report.finding.differences, "", paste(report.finding.program), "", f"replay: python {folder / 'replay.py'}"]
        raise WitnessError(f"{subject.name} is wrong on this program ({seen})\n" + "\n".join(lines))
    if not report.fired:
        raise WitnessError(f"{subject.name} never fired ({seen}); nothing was checked")


def _differential(judged: Judged, compiler: str, most: int) -> None:
    runs = list(differential(judged.subject, (compiler,), "cpu", most))
    if not any(run.fired for run in runs):
        raise WitnessError(f"{judged.subject.name} fired in none of {len(runs)} runs through {compiler}; nothing was compared")
    for run in runs:
        if run.blamed:
            raise WitnessError(f"{run.name} through {compiler}{', dynamic' if run.dynamic else ''}\n" + "\n".join(run.ours))
