"""Every hostile program, compiled behind the full plan, does what eager does."""

from __future__ import annotations

import pytest
from tests.hostile import MODULES, PROGRAMS, Hostile
from tests.hostile.judge import FULL, compiled, differing, eager

WAYS = [pytest.param(p, way, id=f"{p.name}[{way}]") for p in PROGRAMS.values() for way in p.ways if not p.refused]
REFUSED = [pytest.param(p, way, id=f"{p.name}[{way}]") for p in PROGRAMS.values() for way in p.ways if p.refused]
INDUCTOR = [pytest.param(p, id=p.name) for p in PROGRAMS.values() if p.inductor]

KNOWN: dict[str, str] = {}
"""Programs of which ``aot_eager`` alone differs from eager: ours must then be as theirs is. With the reason."""


@pytest.mark.parametrize(("program", "way"), WAYS)
def test_as_eager(program: Hostile, way: str) -> None:
    base = eager(program, way)
    assert base.raised is None, f"eager refuses: {base.raised}"
    ours = compiled(program, way)
    assert not ours.errors
    if program.name in KNOWN:
        theirs = compiled(program, way, rewriting=False)
        found = differing(program, way, theirs.run, ours, bitwise=ours.bitwise, base_again=theirs.again)
    else:
        found = differing(program, way, base, ours, bitwise=ours.bitwise)
    assert not found, report(program, way, found, ours.fired)
    missing = set(program.fires) - set(ours.fired)
    assert way in ("dynamic", "bare") or not missing, f"{', '.join(missing)} did not apply"


def report(program: Hostile, way: str, found: list[str], fired: dict[str, int]) -> str:
    alone = compiled(program, way, rewriting=False)
    theirs = differing(program, way, eager(program, way), alone, bitwise=True)
    applied = ", ".join(f"{name} {count}" for name, count in fired.items()) or "nothing"
    return "\n".join([f"applied: {applied}", *found, "aot_eager alone: " + ("; ".join(theirs) or "as eager")])


@pytest.mark.parametrize(("program", "way"), REFUSED)
def test_refused(program: Hostile, way: str) -> None:
    assert eager(program, way).raised is not None
    ours = compiled(program, way)
    assert ours.run.raised is not None, "eager refuses this, compiled it runs"
    assert not ours.errors


@pytest.mark.parametrize("program", INDUCTOR)
def test_through_inductor(program: Hostile) -> None:
    base = eager(program, "plain")
    found = differing(program, "plain", base, compiled(program, "plain", "inductor"), bitwise=False)
    assert not found, "\n".join(found)
