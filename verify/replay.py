"""Run a saved find again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.program import Input
from optimus.plan import lookup
from verify.differential import backend, three_way
from verify.lowered import is_lowered
from verify.subject import PatternSubject


def replay(
    pattern: str, program: Callable[..., Any], inputs: Sequence[Input], options: Mapping[str, Any] | None = None, dynamic: bool = False
) -> int:
    """Compare ``program`` in eager with itself behind ``pattern``; print the differences. 1 if there are any, else 0.

    ``options``: those of the pattern, by name. ``dynamic``: capture it with symbols for the sizes of its inputs.
    """
    subject = PatternSubject(replace(lookup(pattern), **(options or {})))
    bitwise = subject.exactness.name == "BITWISE"
    compiler = "aot_eager" if is_lowered(subject) else "eager"
    run = three_way(program, lambda: [i.make() for i in inputs], backend(subject, compiler), compiler, bitwise=bitwise, dynamic=dynamic)
    for line in run.ours or (f"no difference, with {run.fired} rewrites",):
        print(line)
    return 1 if run.ours else 0
