"""Run a saved find again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuzz.program import Input
from optimus.plan import lookup
from verify import lossy, quantizer
from verify.cli import UsageError
from verify.differential import backend, three_way
from verify.lowered import is_lowered
from verify.rules import rule_subject
from verify.rules_loading import load_rule
from verify.subject import PatternSubject


def subject_of(name: str) -> PatternSubject:
    """The pattern called ``name``, or the rule ``FILE:NAME``. Raises ``ValueError`` or :class:`verify.cli.UsageError`."""
    return rule_subject(load_rule(name).pattern) if ":" in name else PatternSubject(lookup(name))


def replay(
    pattern: str, program: Callable[..., Any], inputs: Sequence[Input], options: Mapping[str, Any] | None = None, dynamic: bool = False
) -> int:
    """Compare ``program`` in eager with itself behind ``pattern``, a name or ``FILE:NAME``; print the differences.

    ``options``: those of the pattern, by name. ``dynamic``: capture it with symbols for the sizes of its inputs.
    1 if there are any, 2 if there is no such pattern or rule, else 0.
    """
    try:
        subject = subject_of(pattern)
    except (UsageError, ValueError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    subject = replace(subject, pattern=replace(subject.pattern, **(options or {})))
    if quantizer.concerns(subject):
        tested = lossy.run_function(program, lambda: [i.make() for i in inputs], quantizer.pattern_of(subject), dynamic=dynamic)
        for line in tested.differences or (f"no difference, with {tested.fired} rewrites",):
            print(line)
        return 1 if tested.differences else 0
    bitwise = subject.exactness.name == "BITWISE"
    compiler = "aot_eager" if is_lowered(subject) else "eager"
    run = three_way(program, lambda: [i.make() for i in inputs], backend(subject, compiler), compiler, bitwise=bitwise, dynamic=dynamic)
    for line in run.ours or (f"no difference, with {run.fired} rewrites",):
        print(line)
    return 1 if run.ours else 0
