"""The hunt and the runs that fit a subject: those of quantised activations are held against another statement than those of other rewrites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from optimus.pattern import IR, Pattern
from optimus.plan import lookup
from verify import fuzzing, lossy, quantizer
from verify.differential import Comparison
from verify.differential import differential as with_eager
from verify.fuzzing import FuzzReport
from verify.subject import Subject


def hunted(name: str) -> Pattern:
    """The pattern called ``name``. Raises ``ValueError`` where there is none, or none that programs of operators can be drawn for."""
    found = lookup(name)
    if found.ir is IR.INDUCTOR:
        raise ValueError(f"{name} rewrites scheduler nodes, for which no programs are drawn; accepted are patterns of torch and aten")
    return found


def hunt(subject: Subject, **given: Any) -> FuzzReport:
    """See :func:`verify.fuzzing.hunt` and :func:`verify.lossy.hunt`, which take the same arguments."""
    found: FuzzReport = (lossy.hunt if quantizer.concerns(subject) else fuzzing.hunt)(subject, **given)
    return found


def differential(subject: Subject, compilers: Sequence[str], device: str = "cpu", most: int = 100) -> Iterator[Comparison]:
    """See :func:`verify.differential.differential` and :func:`verify.lossy.differential`."""
    return (lossy.differential if quantizer.concerns(subject) else with_eager)(subject, compilers, device, most)
