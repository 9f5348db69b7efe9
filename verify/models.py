"""A real model, from factory to verdict: capture, rewrite, prove every rewrite, compare outputs and gradients."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

from optimus.capture import Captured, capture
from optimus.engine import Engine
from optimus.journal import Journal
from optimus.pattern import Exactness
from optimus.plan import Plan
from optimus.regions import Region
from verify.cache import Cache
from verify.compare import USERS, compare
from verify.differential import quiet
from verify.intermediates import first_divergence
from verify.smtlib import asked_for
from verify.validation import TIMEOUT_S, validate_region
from verify.verdict import Proved, Refuted, Verdict, explain, word

ROUNDING = 1e-4
"""How far an intermediate value may be off, relative to the largest of its tensor, before it is shown as the first that differs."""


class ModelError(ValueError):
    """A model that cannot be judged; the message says why and what is accepted."""


@dataclass
class ModelReport:
    """What became of a model. ``verdicts``: of each rewrite, in order, with its pattern. ``divergence``: where values part first."""

    journal: Journal
    verdicts: list[tuple[str, Verdict]] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    divergence: str | None = None
    nodes_before: int = 0
    nodes_after: int = 0
    proof_seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0: every rewrite proved, nothing differs. 1: a rewrite is refuted, or something differs. 3: undecided."""
        if self.differences or any(isinstance(v, Refuted) for _, v in self.verdicts):
            return 1
        return 0 if all(isinstance(v, Proved) for _, v in self.verdicts) else 3

    @property
    def line(self) -> str:
        """The verdict in one line."""
        proved = sum(isinstance(v, Proved) for _, v in self.verdicts)
        cached = sum(isinstance(v, Proved) and v.cached for _, v in self.verdicts)
        equal = "outputs and gradients agree with eager" if not self.differences else f"{len(self.differences)} differences from eager"
        kept = f" ({cached} cached)" if cached else ""
        return f"{proved} of {len(self.verdicts)} rewrites proved{kept} in {self.proof_seconds:.1f} s, {equal}"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """One row per pattern: name, rewrites, proved, not proved, declines by reason."""
        kept = self.journal.counts()
        tried: dict[str, Counter[str]] = {}
        for name, verdict in self.verdicts:
            tried.setdefault(name, Counter())[word(verdict)] += 1
        reasons: dict[str, list[str]] = {}
        for (name, reason), count in sorted(self.journal.reasons().items()):
            reasons.setdefault(name, []).append(f"{reason} {count}")
        rows = []
        for name in dict.fromkeys([*kept, *tried, *reasons]):
            counted = tried.get(name, Counter())
            others = ", ".join(f"{k} {v}" for k, v in counted.items() if k != "proved") or "-"
            rows.append((name, str(kept[name]), str(counted["proved"]), others, ", ".join(reasons.get(name, [])) or "-"))
        return rows

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "line": self.line,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "proof_seconds": round(self.proof_seconds, 3),
            "rewrites": [{"pattern": r.pattern, "outputs": list(r.outputs), "lines": list(r.lines)} for r in self.journal.rewrites],
            "verdicts": [{"pattern": n, "verdict": word(v), "text": explain(v)} for n, v in self.verdicts],
            "declined": [{"pattern": p, "reason": r, "count": c} for (p, r), c in self.journal.reasons().items()],
            "differences": self.differences,
            "divergence": self.divergence,
        }


def check_model(
    factory: Callable[[], Any],
    plan: Plan,
    *,
    device: str = "cpu",
    seed: int = 0,
    watch: Callable[[str, str], None] | None = None,
    timeout_s: float = TIMEOUT_S,
    cache: Cache | None = None,
) -> ModelReport:
    """Judge the model that ``factory`` returns together with its inputs. A rewrite that is not proved is rolled back.

    ``cache``: where rewrites of one structure are proved once.

    Raises :class:`ModelError` if the factory raises or returns something else, or the model breaks the graph.
    """
    tell = watch or (lambda *_: None)
    model, inputs = _made(factory, device)
    tell("capture", type(model).__name__)
    found = _captured(model, inputs)
    before = copy.deepcopy(found.gm)
    report = ModelReport(Journal(), nodes_before=len(found.gm.graph.nodes))

    def judge(region: Region) -> str | None:
        start = time.monotonic()
        with asked_for(f"{len(report.verdicts) + 1:04d}-{region.pattern}"):
            verdict = validate_region(region, timeout_s=timeout_s, cache=cache)
        report.proof_seconds += time.monotonic() - start
        report.verdicts.append((region.pattern, verdict))
        tell("proof", f"{len(report.verdicts)} rewrites, the last of {region.pattern} {word(verdict)}")
        if isinstance(verdict, Proved):
            return None
        report.rolled_back.append(f"{region.pattern}: {explain(verdict)}")
        return explain(verdict)

    report.journal = Engine(found.gm, plan, judge).run()
    report.nodes_after = len(found.gm.graph.nodes)
    tell("differential", "outputs and gradients")
    fired = {r.pattern for r in report.journal.rewrites}
    bitwise = all(p.exactness is Exactness.BITWISE for p in plan if p.name in fired)
    report.differences = _compare(before, found, bitwise, seed)
    report.divergence = _divergence(before, found, 0.0 if bitwise else ROUNDING, seed) if report.differences else None
    return report


def _made(factory: Callable[[], Any], device: str) -> tuple[Any, tuple[Any, ...]]:
    try:
        made = factory()
    except USERS as error:
        raise ModelError(f"the factory raised {type(error).__name__}: {error}") from error
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
        raise ModelError(f"the factory returned a {type(made).__name__}; accepted is a pair (model, inputs)")
    model, inputs = made
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    kept = [*inputs, *(model.state_dict().values() if isinstance(model, torch.nn.Module) else ())]
    if any(isinstance(t, torch.Tensor) and t.is_meta for t in kept):
        raise ModelError("the factory returned tensors on the device meta; accepted are tensors that hold numbers")
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    return model, tuple(i.to(device) if isinstance(i, torch.Tensor) else i for i in inputs)


def _captured(model: Any, inputs: tuple[Any, ...]) -> Captured:
    try:
        with quiet():
            graphs = capture(model, inputs)
    except USERS as error:
        raise ModelError(f"the model raised while it was captured, {type(error).__name__}: {str(error).splitlines()[0]}") from error
    if not graphs:
        raise ModelError("the model has no graph; accepted is a model that computes something with tensors")
    if len(graphs) > 1:
        raise ModelError(f"the model breaks into {len(graphs)} graphs{_first_break(model, inputs)}; accepted is a model that Dynamo captures as one")
    return graphs[0]


def _first_break(model: Any, inputs: tuple[Any, ...]) -> str:
    with quiet():
        try:
            reasons = torch._dynamo.explain(model)(*inputs).break_reasons
        except Exception:  # noqa: BLE001 - the reason is only a help
            return ""
        finally:
            torch._dynamo.reset()
    if not reasons:
        return ""
    frame = reasons[0].user_stack[-1] if reasons[0].user_stack else None
    where = f" at {frame.filename}:{frame.lineno}" if frame is not None else ""
    return f" (the first break{where}: {str(reasons[0].reason).splitlines()[0]})"


def _divergence(before: GraphModule, found: Captured, tolerance: float, seed: int) -> str | None:
    """The first value inside that differs; None where all of them agree, as they do if only gradients differ."""
    first = first_divergence(before, found.gm, found.inputs, tolerance=tolerance, seed=seed)
    return None if first is None else str(first)


def _compare(before: GraphModule, found: Captured, bitwise: bool, seed: int) -> list[str]:
    def inputs() -> Sequence[Any]:
        return [i.detach().clone().requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in found.inputs]

    with quiet():
        return compare(before.forward, found.gm.forward, inputs, bitwise=bitwise, seed=seed)
