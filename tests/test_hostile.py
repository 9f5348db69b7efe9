"""Every hostile program, compiled behind the full plan, does what eager does."""

from __future__ import annotations

import pytest

from tests.hostile import PROGRAMS, Hostile
from tests.hostile.judge import FULL, Outcome, compiled, differing, eager


def each(programs: list[Hostile]) -> list[object]:
    return [pytest.param(p, way, id=f"{p.name}-{way}") for p in programs for way in p.ways]


VALID = [p for p in PROGRAMS.values() if not p.refused]
REFUSED = [p for p in PROGRAMS.values() if p.refused]

KNOWN = {
    "horizontal/dropout_that_drops_nothing": "eager returns the input itself, a compiled program a copy of it",
    "modes/autocast_left_inside": "the backward pass runs under the autocast of the call, also where the program left it",
    "layout/convolution_of_a_join": "torch 2.11 asks a join of symbolic sizes for its layout as if it were row-major",
    "refused/whole_numbers_divided_in_place": "torch 2.11 divides first and copies then, which casts",
    "refused/one_place_written_several_times": "writes become pure operators before anybody asks whether places overlap",
}
"""Programs in which ``aot_eager`` alone differs from eager, and why: ours must then be as theirs is."""


@pytest.mark.parametrize(("program", "way"), each(VALID))
def test_as_eager(program: Hostile, way: str) -> None:
    base = eager(program, way)
    assert base.run.raised is None, f"eager refuses: {base.run.raised}"
    ours = compiled(program, way)
    compared = compiled(program, way, rewriting=False) if program.name in KNOWN else base
    found = differing(program, way, compared, ours, bitwise=ours.bitwise)
    assert not found, report(program, way, base, ours, found)
    assert not ours.errors, "rewrites given up on account of an error, not for a reason"
    missing = set(program.fires) - set(ours.fired)
    assert way not in ("plain", "inference") or not missing, f"{', '.join(missing)} did not apply"
    if way == "dynamic" and program.other is not None:
        assert ours.graphs == compiled(program, way, rewriting=False).graphs, "a rewrite that fixed a size needs another graph for the second call"


def report(program: Hostile, way: str, base: Outcome, ours: Outcome, found: list[str]) -> str:
    theirs = differing(program, way, base, compiled(program, way, rewriting=False), bitwise=True)
    applied = ", ".join(f"{name} {count}" for name, count in ours.fired.items()) or "nothing"
    return "\n".join([f"applied: {applied}", *found, "aot_eager alone: " + ("; ".join(theirs) or "as eager")])


@pytest.mark.parametrize(("program", "way"), each(REFUSED))
def test_refused(program: Hostile, way: str) -> None:
    assert eager(program, way).run.raised is not None
    ours = compiled(program, way)
    if program.name in KNOWN:
        found = differing(program, way, compiled(program, way, rewriting=False), ours, bitwise=ours.bitwise)
        assert not found, "\n".join(found)
    else:
        assert ours.run.raised is not None, "eager refuses this, compiled it runs"
    assert not ours.errors, "rewrites given up on account of an error, not for a reason"


@pytest.mark.parametrize("program", [p for p in VALID if p.other is not None and not p.dynamic], ids=lambda p: p.name)
def test_no_more_graphs_than_alone(program: Hostile) -> None:
    """Also where symbolic sizes are not compared with eager."""
    assert compiled(program, "dynamic").graphs == compiled(program, "dynamic", rewriting=False).graphs


@pytest.mark.parametrize("program", [p for p in VALID if p.inductor], ids=lambda p: p.name)
def test_through_inductor(program: Hostile) -> None:
    base = eager(program, "plain")
    found = differing(program, "plain", base, compiled(program, "plain", "inductor"), bitwise=False)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("pattern", FULL, ids=lambda p: p.name)
def test_every_pattern_has_programs_on_which_it_applies(pattern: object) -> None:
    telling = [p.name for p in VALID if pattern.name in p.fires]
    assert len(telling) >= 5, f"{pattern.name} is demanded of {telling} only"


def test_known_differences_name_programs() -> None:
    assert set(KNOWN) <= set(PROGRAMS)
