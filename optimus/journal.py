"""The journal: what was rewritten, what was declined and why, how long it took, why the run stopped."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from torch.fx import Node


@dataclass(frozen=True)
class Rewrite:
    """One applied rewrite. ``number`` counts over the whole run, ``ordinal`` within the pattern, both from 1."""

    number: int
    pattern: str
    ordinal: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        where = f"  at {self.lines[0]}" if self.lines else ""
        return f"#{self.number} {self.pattern}: {len(self.removed)} nodes became {len(self.added)}, for {', '.join(self.outputs)}{where}"


@dataclass(frozen=True)
class Declined:
    """A place where a pattern looked and did nothing."""

    pattern: str
    node: str
    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.pattern} left {self.node} alone: {self.reason}" + (f" ({self.detail})" if self.detail else "")


@dataclass
class Journal:
    """The record of one run of a plan over one graph."""

    plan: str = ""
    ir: str = "torch"
    """The level of the graph: ``torch``, ``aten`` or ``inductor``."""
    rewrites: list[Rewrite] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    nodes_before: int = 0
    nodes_after: int = 0
    stopped: str = ""
    packed: list[str] = field(default_factory=list)
    """The groups of parameters that were packed into buffers."""

    def counts(self) -> Counter[str]:
        """Rewrites per pattern."""
        return Counter(r.pattern for r in self.rewrites)

    def reasons(self) -> Counter[tuple[str, str]]:
        """Declines per (pattern, reason)."""
        return Counter((d.pattern, d.reason) for d in self.declined)

    def fired(self, pattern: str) -> bool:
        """Whether ``pattern`` was applied at least once."""
        return any(r.pattern == pattern for r in self.rewrites)

    def to_json(self) -> str:
        """The journal as a JSON object with the fields of this class."""
        return json.dumps(asdict(self), indent=1)

    def __iter__(self) -> Iterator[Rewrite]:
        return iter(self.rewrites)

    def __str__(self) -> str:
        level = "" if self.ir == "torch" else f"{self.ir}-IR: "
        head = f"{level}{len(self.rewrites)} rewrites, {self.nodes_before} nodes became {self.nodes_after}; {self.stopped or 'not run'}"
        lines = [head, *map(str, self.rewrites), *(f"packed {group}" for group in self.packed)]
        lines += [f"{pattern} declined {count} times: {reason}" for (pattern, reason), count in sorted(self.reasons().items())]
        return "\n".join(lines)


def source_line(node: Node) -> str | None:
    """The line of the model that made ``node``, as ``file:line code``, or None if the graph does not say."""
    trace: Any = node.meta.get("stack_trace")
    return _last_frame(trace) if isinstance(trace, str) else None


@functools.lru_cache(maxsize=4096)
def _last_frame(trace: str) -> str | None:
    frames = [line.strip() for line in trace.strip().splitlines()]
    places = [i for i, line in enumerate(frames) if line.startswith("File ")]
    if not places:
        return None
    at = places[-1]
    parts = frames[at].split('"')
    number = frames[at].partition(", line ")[2].partition(",")[0]
    code = frames[at + 1] if at + 1 < len(frames) else ""
    return f"{parts[1] if len(parts) > 1 else '?'}:{number} {code}".strip()
