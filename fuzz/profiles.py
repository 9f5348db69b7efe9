"""How much is drawn: while writing a rule, in CI, over night. The same figures serve the plugin and Hypothesis' own profiles."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings


@dataclass(frozen=True)
class Profile:
    """Programs and seconds at most for one hunt, and differential runs through Inductor."""

    name: str
    max_examples: int
    seconds: float
    inductor_runs: int


PROFILES = {p.name: p for p in (Profile("dev", 100, 15.0, 0), Profile("ci", 1_000, 60.0, 3), Profile("night", 200_000, 3600.0, 100))}


def register_profiles() -> None:
    """Register the Hypothesis profiles ``optimus-dev``, ``optimus-ci`` and ``optimus-night`` for tests of your own.

    Load one by ``pytest --hypothesis-profile optimus-ci`` or ``hypothesis.settings.load_profile``. They set the number of
    examples, no deadline, and in ``ci`` the same examples each time.
    """
    for profile in PROFILES.values():
        settings.register_profile(
            f"optimus-{profile.name}",
            max_examples=profile.max_examples,
            deadline=None,
            derandomize=profile.name == "ci",
            database=None,
            suppress_health_check=list(HealthCheck),
        )
