"""What a pattern is: data, two functions, and the programs it must and must not touch.

A pattern is a frozen dataclass whose fields are its options. Its class attributes say where it looks and what it claims;
its methods say where it applies and what the place becomes. It knows no solver and no fuzzer: they read it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import torch
from torch.fx import Node

if TYPE_CHECKING:
    from optimus.rewriter import Transaction
    from optimus.rule import Rule
    from optimus.state import GraphState

T = TypeVar("T")


class IR(enum.Enum):
    """The level of the graph a pattern reads."""

    TORCH = "torch"
    ATEN = "aten"
    INDUCTOR = "inductor"


class Exactness(enum.Enum):
    """How equal the outputs are. Gradients follow the same classes, up to the order in which uses are summed."""

    BITWISE = "the very same bits"
    REASSOCIATES = "the same real-number function, another order of rounding"
    LOSSY = "another function, within a stated bound"


@dataclass(frozen=True)
class Decline:
    """A refusal. ``reason`` is one of the pattern's ``requirements`` or one of the engine's laws."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return self.reason + (f": {self.detail}" if self.detail else "")


class Refused(Exception):
    """Raised inside a rewrite to give it up; the graph is then as it was before."""

    def __init__(self, decline: Decline) -> None:
        super().__init__(str(decline))
        self.decline = decline


@dataclass(frozen=True)
class Match:
    """A place where a vertical pattern applies.

    ``nodes``: every node the rewrite reads through or replaces, in graph order; the region that is validated.
    ``before``: the node in front of which new nodes go. ``found``: what ``find`` learnt, for ``rewrite``.
    """

    nodes: tuple[Node, ...]
    before: Node
    found: Any = None


@dataclass(frozen=True)
class Case:
    """A program with named symbolic sizes.

    ``shapes``: one text per tensor argument, such as ``"n, p + q"`` or ``"m, k: bfloat16"``; the remaining arguments are
    sizes, called by name. ``reason`` is None where the pattern must fire, else the reason it must give for declining.
    """

    name: str
    program: Callable[..., Any]
    shapes: tuple[str, ...]
    sizes: tuple[str, ...]
    reason: str | None = None
    grad: bool = True

    @property
    def must_fire(self) -> bool:
        """Whether the pattern has to apply to this program."""
        return self.reason is None


def fires(*shapes: str, grad: bool = True) -> Callable[[Callable[..., Any]], Case]:
    """Mark a program on which the pattern must fire; see :class:`Case` for ``shapes``.

    ``grad``: whether floating-point inputs require gradients.
    """
    return lambda program: _case(program, shapes, None, grad)


def declines(reason: str, *shapes: str, grad: bool = True) -> Callable[[Callable[..., Any]], Case]:
    """Mark a program that the pattern must leave alone, giving ``reason``."""
    return lambda program: _case(program, shapes, reason, grad)


def _case(program: Callable[..., Any], shapes: tuple[str, ...], reason: str | None, grad: bool) -> Case:
    sizes: list[str] = []
    for position, parameter in enumerate(inspect.signature(program).parameters.values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY or position >= len(shapes):
            sizes.append(parameter.name)
    return Case(program.__name__, program, shapes, tuple(sizes), reason, grad)


@dataclass(frozen=True)
class Pattern:
    """The common part of all patterns; subclass :class:`VerticalPattern` or :class:`HorizontalPattern`."""

    name: ClassVar[str]
    ir: ClassVar[IR] = IR.TORCH
    anchors: ClassVar[frozenset[str]]
    exactness: ClassVar[Exactness]
    requirements: ClassVar[Mapping[str, str]] = {}
    cases: ClassVar[tuple[Case, ...]] = ()
    declines: ClassVar[tuple[Case, ...]] = ()
    by_default: ClassVar[bool] = True
    """Whether the default plan has it; else it is there for plans that name it."""
    judged_with: ClassVar[Mapping[str, Any]] = {}
    """Options under which the cases hold, where by default the pattern waits for a device that the judge may lack, or for a gain."""

    def __post_init__(self) -> None:
        for option in fields(self):
            given = getattr(self, option.name)
            if type(given) is not type(option.default):
                wanted = type(option.default).__name__
                raise TypeError(f"{self.name}: option {option.name}={given!r} is a {type(given).__name__}; accepted is a {wanted}")

    @staticmethod
    def general(rule: Rule) -> None:
        """State the rewrite for any sizes, number of pieces and rank. A pattern that does not override this states nothing."""

    def options(self) -> dict[str, Any]:
        """The options and their values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def judged(self) -> Self:
        """The pattern with the options of ``judged_with``, but for those that are no longer at their defaults."""
        kept = {f.name: self.judged_with[f.name] for f in fields(self) if f.name in self.judged_with and getattr(self, f.name) == f.default}
        return replace(self, **kept)

    def __str__(self) -> str:
        changed = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"{self.name}({changed})" if changed else self.name


@dataclass(frozen=True)
class VerticalPattern(Pattern):
    """Rewrites a chain of producers and consumers, found from an anchor outward."""

    pieces: ClassVar[bool] = True
    """Whether ``find`` is also asked where ``getitem`` takes one of several results, of those that the graph has before a sweep."""
    counter: int = 10
    """Sweeps over the graph at most; a sweep that changes nothing is the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "counter", 1)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        """The match anchored at ``node``; a refusal; or None where nothing resembles the pattern."""
        raise NotImplementedError

    def rewrite(self, match: Match, tx: Transaction) -> None:
        """Build the new nodes and say what they replace."""
        raise NotImplementedError


@dataclass(frozen=True)
class HorizontalPattern(Pattern):
    """Joins independent nodes of one kind into one operator over their stack."""

    min_fuse_set_size: int = 5
    """Smallest group worth joining, at least 2. On an H200 joined linears of 64 x 64 took 1.2, 1.1, 0.9 and 0.8 of the time for 2, 3, 4 and 5 members."""
    max_fuse_set_size: int = 300
    """Largest group; more members make several groups."""
    max_depth: int = 5
    """Members share a consumer at most this many operators below each of them."""
    fuse_returned: bool = False
    """Also join members whose results are returned, each copied out of the joint result. Inductor may drop such copies,
    so that results which eager keeps apart share memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "min_fuse_set_size", 2)
        at_least(self, "max_fuse_set_size", self.min_fuse_set_size)
        at_least(self, "max_depth", 1)

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        """What members of a group have in common besides dtype, device, layout and ``requires_grad``, which the engine adds.

        A refusal where the node may not join any group; None where it is not of this kind at all.
        """
        raise NotImplementedError

    def worth(self, members: Sequence[Node], state: GraphState) -> Sequence[Node] | Decline:
        """Those of a group that pay for being joined, at least ``min_fuse_set_size`` in the order given; a refusal where none do.

        By default all do. Members that are left out get no reason of their own.
        """
        del state
        return members

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        """Build the joint operator and say which new node replaces each member."""
        raise NotImplementedError


def at_least(pattern: Pattern, option: str, low: int) -> None:
    """Raise ``ValueError`` where an option of ``pattern`` is below ``low``."""
    given = getattr(pattern, option)
    if given < low:
        raise ValueError(f"{pattern.name}: option {option}={given} is too small; accepted is {low} or more")


def one_of(pattern: Pattern, option: str, names: Iterable[str], accepted: Mapping[str, T]) -> tuple[T, ...]:
    """What ``names``, those that an option of ``pattern`` gives, stand for. Raises ``ValueError`` where one of them stands for nothing."""
    names = tuple(names)
    wrong = next((name for name in names if name not in accepted), None)
    if wrong is not None:
        raise ValueError(f"{pattern.name}: option {option}={getattr(pattern, option)!r} names {wrong!r}; accepted are {', '.join(accepted)}")
    return tuple(accepted[name] for name in names)


DTYPES = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int64": torch.int64,
    "int32": torch.int32, "int8": torch.int8, "bool": torch.bool, "complex64": torch.complex64,
}  # fmt: skip
