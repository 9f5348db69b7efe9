"""The closed set of answers a witness can give. Only :class:`Proved` is green."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never


@dataclass(frozen=True)
class Claim:
    """What a proof says: in which sense two results are equal, by which laws, and what follows for gradients."""

    means: str
    laws: tuple[str, ...]
    gradients: str


DERIVATIVES = (
    "the proof holds in every algebra of the operators, that of values with tangents included: all derivatives agree in exact "
    "arithmetic; what no proof of values covers (requires_grad, inputs that reach no output, detach and no_grad) is compared on the graphs"
)
CONGRUENCE, SUMS = "congruence", "sums of equal summands are equal"
JUMPS = "in exact arithmetic alone: what is rounded otherwise goes through "
CLAIMS = {
    "E0": Claim(
        "the same operators on the same values; a kernel that rounds by memory layout can differ in the last bit", (CONGRUENCE,), DERIVATIVES
    ),
    "E1": Claim(
        "the same up to rounding and the sign of a zero, wherever the operators are defined and continuous, so not at a pole or outside a "
        "domain: the same summands added in any order, or kernels fused otherwise",
        (CONGRUENCE, SUMS),
        DERIVATIVES,
    ),
    "E2": Claim("the same by laws that hold but for the sign of a zero and the payload of a NaN; sums as in E1", (CONGRUENCE, SUMS), DERIVATIVES),
    "E3": Claim(
        "the same in exact arithmetic: as E1 or E2, but an operator that jumps reads what is rounded otherwise, and no bound holds behind it",
        (CONGRUENCE, SUMS),
        DERIVATIVES,
    ),
}

REORDERED, GROUPING, NEUTRAL, UNIT, ZEROS = "reordered", "grouping", "neutral", "unit", "zeros"


@dataclass(frozen=True)
class Law:
    """A law that a proof may use besides congruence, and the best claim that is left then."""

    text: str
    claim: str


LAWS = {
    REORDERED: Law("additions may be grouped and ordered otherwise", "E1"),
    GROUPING: Law("a sum over a range is that of the sums over its sections, and additions may be grouped and ordered otherwise", "E1"),
    NEUTRAL: Law("x + 0 = x", "E2"),
    UNIT: Law("x * 1 = x", "E2"),
    ZEROS: Law("0 * 0 = 0, and sums may have such summands more", "E2"),
}


@dataclass(frozen=True)
class Proved:
    """Equal for all sizes that the premises admit.

    ``claim``: a key of :data:`CLAIMS`. ``queries`` were asked, ``confirmed`` of them by a second solver too. ``laws``: all
    that the proof stands on; those of the claim where none are given. ``cached``: not now, but when the same was proved before
    (see :mod:`verify.cache`).
    """

    claim: str
    queries: int
    confirmed: int
    seconds: float
    laws: tuple[str, ...] = ()
    cached: bool = field(default=False, compare=False)

    @property
    def ledger(self) -> tuple[str, ...]:
        """The laws that the proof uses."""
        return self.laws or CLAIMS[self.claim].laws


def proved(laws: Iterable[str], reordered: bool, queries: int, confirmed: int, seconds: float, jumps: Sequence[str] = ()) -> Proved:
    """A proof by ``laws``, names of :data:`LAWS`. ``reordered``: sums by different kernels were taken for equal.

    ``jumps``: the operators that jump and read such sums.
    """
    names = set(laws)
    used = [LAWS[name] for name in LAWS if name in names and not (name == REORDERED and GROUPING in names)]
    texts = (CONGRUENCE, *([SUMS] if reordered else []), *(law.text for law in used), *(f"{JUMPS}{op}" for op in jumps))
    claims = ["E1" if reordered else "E0", *(law.claim for law in used), *("E3" for _ in jumps)]
    return Proved(max(claims), queries, confirmed, seconds, texts)


@dataclass(frozen=True)
class Counterexample:
    """Sizes and a place at which the two sides differ, seen on real tensors.

    ``differences``: what the replay saw, one line each. ``before`` and ``after``: the code of the two graphs.
    """

    what: str
    sizes: Mapping[str, int]
    differences: tuple[str, ...]
    before: str
    after: str
    inputs: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        seen = "\n".join(f"  {line}" for line in self.differences)
        return f"for {in_words(self.sizes) or 'the sizes given'}:\n{seen}\nbefore\n{tidy(self.before)}\nafter\n{tidy(self.after)}"


@dataclass(frozen=True)
class Refuted:
    """Wrong, and the counterexample was replayed in eager."""

    counterexample: Counterexample


@dataclass(frozen=True)
class Vacuous:
    """Nothing was proved: no case fired, or the premises contradict one another."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """Not decided: a timeout, a disagreement of solvers, or a model that does not replay.

    ``goal``: the first that does not follow, if it is one. ``shown``: the solver has a model in which it fails; it did not run out of time.
    """

    reason: str
    goal: str = field(default="", compare=False)
    shown: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Unmodelled:
    """An operator without semantics stands in the way."""

    operator: str


def in_words(sizes: Mapping[str, int]) -> str:
    """Sizes as they are named in a text, such as ``n = 2, m = 3``."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def tidy(code: str) -> str:
    """Generated code without annotations, renamings of inputs, and deletions."""
    lines = []
    for line in code.strip().splitlines():
        text = line.split(";  ")[0].rstrip()
        left, _, right = text.strip().partition(" = ")
        if not text.strip() or text.strip().startswith("def ") or left.lower() == right.lower():
            continue
        lines.append("  " + text.strip())
    return "\n".join(lines)


Verdict = Proved | Refuted | Vacuous | Unknown | Unmodelled


def word(verdict: Verdict) -> str:
    """The verdict as one word."""
    return type(verdict).__name__.lower()


def explain(verdict: Verdict) -> str:
    """The verdict as one line."""
    match verdict:
        case Proved():
            asked = f"{verdict.queries} {'query' if verdict.queries == 1 else 'queries'}, {verdict.confirmed} confirmed by a second solver"
            return f"proved ({verdict.claim}), {asked if verdict.queries else 'the same term without a query'}{', cached' if verdict.cached else ''}"
        case Refuted():
            return f"refuted: {verdict.counterexample.what}"
        case Vacuous():
            return f"vacuous: {verdict.reason}"
        case Unknown():
            return f"unknown: {verdict.reason}"
        case Unmodelled():
            return f"unmodelled: {verdict.operator}"
    assert_never(verdict)


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict over several parts: the first refuted, else undecided, else vacuous; proved only if all are.

    No parts at all are vacuous.
    """
    for kind in (Refuted, Unknown, Unmodelled, Vacuous):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    proved = [v for v in verdicts if isinstance(v, Proved)]
    if not proved:
        return Vacuous("nothing was checked")
    return Proved(
        max(v.claim for v in proved),
        sum(v.queries for v in proved),
        sum(v.confirmed for v in proved),
        sum(v.seconds for v in proved),
        tuple(dict.fromkeys(law for v in proved for law in v.ledger)),
        cached=all(v.cached for v in proved),
    )
