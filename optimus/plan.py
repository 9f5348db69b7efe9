"""A plan: which patterns run, with which options, in which order."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from optimus.pattern import IR, HorizontalPattern, Pattern, VerticalPattern

Step = Pattern | str | tuple[str | Pattern, Mapping[str, Any]]


@dataclass(frozen=True)
class Plan:
    """An ordered, hashable tuple of patterns. Horizontal ones run first, then vertical ones, each kind in this order."""

    steps: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.steps, tuple) or not all(isinstance(s, Pattern) for s in self.steps):
            raise TypeError(f"Plan({self.steps!r}): accepted is a tuple of patterns; Plan.of takes names, and names with options")

    @classmethod
    def of(cls, *steps: Step) -> Plan:
        """A plan from pattern names, patterns, or pairs of one of them and options.

        Raises ``ValueError`` for an unknown pattern or option and ``TypeError`` for an option of the wrong type, and for what is no step.
        """
        return cls(tuple(_pattern(step) for step in steps))

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return " > ".join(map(str, self.steps)) or "nothing"

    def without(self, *names: str) -> Plan:
        """This plan less the patterns called ``names``."""
        return Plan(tuple(s for s in self.steps if s.name not in names))

    def at(self, ir: IR) -> Plan:
        """The patterns of this plan that are for graphs of one level."""
        return Plan(tuple(s for s in self.steps if s.ir is ir))

    def to_json(self) -> str:
        """The plan as a JSON list of ``{"pattern": name, "options": {...}}``."""
        return json.dumps([{"pattern": s.name, "options": s.options()} for s in self.steps])

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that :meth:`to_json` wrote. Raises ``ValueError`` for anything else."""
        try:
            steps = [(str(s["pattern"]), dict(s.get("options", {}))) for s in json.loads(text)]
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f'plan: {text[:80]!r} is no plan ({error}); accepted is a list of {{"pattern": name, "options": {{...}}}}') from None
        return cls.of(*steps)

    def digest(self) -> str:
        """A number for caches: equal only if patterns, options, order, and the code of passes and engine are equal."""
        parts = [self.to_json(), engine_digest()]
        parts += [_source(type(step)) for step in self.steps]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def engine_digest() -> str:
    """A digest of the sources of this package."""
    from pathlib import Path

    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _source(cls: type) -> str:
    """The source of the module that defines ``cls``, or of the class alone where it was typed in."""
    module = sys.modules.get(cls.__module__)
    try:
        return inspect.getsource(module) if module is not None and getattr(module, "__file__", None) else inspect.getsource(cls)
    except (OSError, TypeError):
        code = [f.__code__.co_code.hex() for f in vars(cls).values() if inspect.isfunction(f)]
        return cls.__qualname__ + repr(code)


def _pattern(step: Step) -> Pattern:
    match step:
        case Pattern():
            return step
        case str():
            return lookup(step)
        case (str() | Pattern() as chosen, Mapping() as options):
            return replace_options(lookup(chosen) if isinstance(chosen, str) else chosen, options)
    raise TypeError(f"plan: step {step!r}; accepted are the name of a pattern, a pattern, and a pair of one of them and a dict of its options")


def replace_options(pattern: Pattern, options: Mapping[str, Any]) -> Pattern:
    """``pattern`` with ``options`` changed. Raises ``ValueError`` for one it does not have."""
    unknown = sorted(set(options) - set(pattern.options()))
    if unknown:
        raise ValueError(f"{pattern.name}: unknown option {unknown[0]!r}; accepted are {', '.join(sorted(pattern.options())) or 'none'}")
    return replace(pattern, **options)


def lookup(name: str) -> Pattern:
    """The pattern called ``name`` with default options. Raises ``ValueError``, with the nearest names, if there is none."""
    known = patterns()
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(f"unknown pattern {name!r}; " + (f"nearest are {', '.join(near)}" if near else f"accepted are {', '.join(known)}"))
    return known[name]


@functools.cache
def patterns() -> Mapping[str, Pattern]:
    """Every pattern of every level by name: the built-in ones in the order of plans, then those of other distributions.

    Others register a pattern class in the entry-point group ``optimus.patterns``. ``ir`` of a pattern says its level.
    """
    from importlib.metadata import entry_points
    from types import MappingProxyType

    from optimus.passes import BUILT_IN, LOWER

    found = {p.name: p for p in (*BUILT_IN, *LOWER)}
    for entry in entry_points(group="optimus.patterns"):
        pattern = entry.load()()
        found.setdefault(pattern.name, pattern)
    return MappingProxyType(found)


def provable() -> list[Pattern]:
    """Every pattern but those of Inductor-IR, of which nothing can be proved, and which programs of operators do not reach."""
    return [p for p in patterns().values() if p.ir is not IR.INDUCTOR]


def on_graphs() -> list[Pattern]:
    """Every pattern that the engine runs, on graphs of operators: not at the partitioner, nor on scheduler nodes."""
    return [p for p in patterns().values() if isinstance(p, (HorizontalPattern, VerticalPattern))]


def default_plan() -> Plan:
    """The built-in patterns that are on by default, in their order."""
    from optimus.passes import BUILT_IN

    return Plan(tuple(p for p in BUILT_IN if p.by_default))
