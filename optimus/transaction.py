"""New nodes in the making, each with metadata that its operator gives on fakes."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from optimus.laws import Law
from optimus.levels import aten, clone, same_memory
from optimus.pattern import Decline, Match, Refused
from optimus.recall import Recall
from optimus.state import GraphState
from optimus.values import (
    MISSING,
    Size,
    Storage,
    has_symbols,
    is_static,
    size_key,
    value,
    value_key,
)
from optimus.versions import no_new_guards

World = Callable[[], contextlib.AbstractContextManager[Any]]

set_args: Any = vars(Node)["args"].fset
set_kwargs: Any = vars(Node)["kwargs"].fset
"""Assignments to ``args`` and ``kwargs``, less the graph's look at what else of a node may have changed."""


# Operators whose sizes and strides follow from those of their input without a question asked; what PyTorch asks while
# running them on fakes is book-keeping.
STRUCTURAL = {
    torch.split, torch.unbind, torch.transpose, torch.movedim, torch.unsqueeze, torch.narrow, operator.getitem,
    aten.unsqueeze.default, aten.select.int, aten.permute.default, aten.slice.Tensor, aten.split_with_sizes.default, aten.alias.default,
}  # fmt: skip


def refuse(law: Law, detail: str = "") -> Refused:
    """The exception that declines a rewrite under ``law``."""
    return Refused(Decline(law.reason, detail))


class Transaction:
    """New nodes in the making; handed to ``Pattern.rewrite`` and ``Pattern.fuse``."""

    def __init__(self, state: GraphState, match: Match, *, exact: bool) -> None:
        self.state = state
        self.recall: Recall | None = None
        self.world: World = contextlib.nullcontext
        """The modes to enter where an operator runs on fakes, if they are not in force all the time."""
        self.match = match
        self.exact = exact
        self.new: list[Node] = []
        self.inside = set(match.nodes)
        anchor = match.nodes[-1]
        self.key = value_key(anchor)
        self.origin: dict[str, Any] = {key: anchor.meta[key] for key in ("stack_trace", "nn_module_stack") if key in anchor.meta}
        self.replaced: list[tuple[Node, Node]] = []
        self.moved: list[list[Node]] = []
        self.read: dict[Node, None] = {used: None for n in match.nodes for used in n.all_input_nodes}
        """What the nodes of the match read, one another included."""
        self.outside = [used for used in self.read if used not in self.inside]
        """What they read from outside."""
        self.input_storages: set[Storage] = set().union(*map(state.storages, self.outside))
        """The storages of that."""
        self._before = match.before

    @functools.cached_property
    def match_storages(self) -> set[Storage]:
        """The storages that the nodes of the match return."""
        return set().union(*map(self.state.storages, self.match.nodes))

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        """A new ``call_function`` node with metadata."""
        return self._create("call_function", target, args, kwargs)

    def method(self, name: str, *args: Any, **kwargs: Any) -> Node:
        """A new ``call_method`` node with metadata."""
        return self._create("call_method", name, args, kwargs)

    def copy(self, node: Node) -> Node:
        """A new node that copies ``node``, row-major."""
        return self._create(*clone(node, self.state.ir))

    def same_memory(self, node: Node) -> Node:
        """A new node for another tensor in the memory of ``node``."""
        return self._create(*same_memory(node, self.state.ir))

    def item(self, sequence: Node, index: int) -> Node:
        """A new node for one result of a node with several."""
        return self.call(operator.getitem, sequence, index)

    @contextlib.contextmanager
    def inserting_before(self, node: Node) -> Iterator[None]:
        """Put new nodes in front of ``node`` for the while (outside: in front of ``match.before``)."""
        outer, self._before = self._before, node
        try:
            with self.state.graph.inserting_before(node):
                yield
        finally:
            self._before = outer

    def size(self, size: Size) -> Node | int:
        """An argument that stands for ``size``: a number, or a node of the graph that computes it."""
        if is_static(size):
            return int(size)
        return self._computed(size_key(size))

    def _computed(self, expression: Any) -> Node | int:
        """A node that computes an expression of sizes: one that is there, or new sums and products of such."""
        if expression.is_Integer:
            return int(expression)
        node = self.state.sizes.get(expression)
        if node is not None and node < self._before:
            return node
        if not (expression.is_Add or expression.is_Mul):
            raise refuse(Law.SIZES, f"no node in reach computes {expression}")
        first, *rest = map(self._computed, expression.args)
        combine = operator.add if expression.is_Add else operator.mul
        for other in rest:
            first = self.call(combine, first, other)
        return first

    def total(self, sizes: Sequence[Node | int]) -> Node | int:
        """An argument that stands for the sum of ``sizes``."""
        fixed = sum(s for s in sizes if isinstance(s, int))
        found: Node | int | None = None
        for s in sizes:
            if isinstance(s, Node):
                found = s if found is None else self.call(operator.add, found, s)
        if found is None:
            return fixed
        return self.call(operator.add, found, fixed) if fixed else found

    def replace(self, old: Node, new: Node) -> None:
        """Say that ``new`` takes the place of ``old``."""
        self.replaced.append((old, new))

    def _create(self, op: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Node:
        graph = self.state.graph
        # Arguments given here would be searched for symbols, and a name made for the target, at some cost.
        node = graph.create_node(op, target, name=target if op == "call_method" else getattr(target, "__name__", None))
        set_args(node, args)
        if kwargs:
            set_kwargs(node, dict(kwargs))
        self.new.append(node)
        self.inside.add(node)
        self.state.adopt(node, like=self.match.nodes[-1])
        node.meta.update(self.origin)
        try:
            node.meta[self.key] = self._fake(node)
        except RuntimeError as error:
            if any(s in self.state.writes for used in node.all_input_nodes for s in self.state.storages(used)):
                raise refuse(Law.MUTATION, f"what {node.name} reads is written later, and its fake shows that already ({error})") from error
            raise
        return node

    def _fake(self, node: Node) -> Any:
        if not self.state.symbolic:
            if (piece := _piece(node)) is not None:
                return piece
            if node.target is operator.getitem or self.recall is None:
                return _run_static(node)
            return self.recall(node, self._run_apart)
        shape_env = self.state.shape_env
        structural = node.target in STRUCTURAL or (
            node.target in (torch.clone, aten.clone.default) and node.kwargs.get("memory_format") is torch.contiguous_format
        )
        with no_new_guards(shape_env, None) if structural else contextlib.nullcontext():
            return run_fake(node)

    def _run_apart(self, node: Node) -> Any:
        with self.world():
            return _run_static(node)


def _piece(node: Node) -> Any:
    """The result of a node that takes one of several results by its number; None of any other."""
    args = node.args
    if node.target is not operator.getitem or len(args) != 2 or type(args[1]) is not int or not isinstance(args[0], Node):
        return None
    found = value(args[0])
    return found[args[1]] if isinstance(found, (tuple, list)) else None


def _run_static(node: Node) -> Any:
    """:func:`run_fake`, which refuses sizes that are no numbers."""
    found = run_fake(node)
    if has_symbols(found):
        raise refuse(Law.SIZES, f"{node.name} would make a size that depends on data")
    return found


def run_fake(node: Node) -> Any:
    """The result of ``node`` on the fakes of its arguments; refuses where one has none or the operator raises."""

    def fake(argument: Node) -> Any:
        found = value(argument)
        if found is MISSING:
            raise refuse(Law.VALID_GRAPH, f"{argument.name} carries no metadata")
        return found

    target: Any = node.target
    if target is operator.getitem and not node.kwargs:
        source, index = node.args
        if isinstance(source, Node) and type(index) is int and isinstance(found := fake(source), (tuple, list)):
            return found[index]
    args, kwargs = map_arg((node.args, node.kwargs), fake)
    if node.op == "call_function":
        return target(*args, **kwargs)
    return getattr(args[0], target)(*args[1:], **kwargs)
