"""ATen-IR of a function of fakes whose sizes are numbers: the graph that ``make_fx`` would trace, at a part of its cost.

A mode writes down each operator that is dispatched below autograd, and what it gave; the fakes are remembered ones (:mod:`fuzz.fakes`).
Whatever else there is to tracing (values read from tensors, constants, operators that are taken apart) it leaves to ``make_fx``.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import TorchDispatchMode

from fuzz.fakes import DEVICE, Remembered
from optimus.versions import graph_module


class UnrecordedError(Exception):
    """A function that takes more than writing down operators; the message says what."""


class Recorder(TorchDispatchMode):
    """Writes down what is dispatched while it is entered."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self.graph = Graph()
        self.remembered = Remembered(fake_mode)
        # By the id, and not keeping the tensor alive: a factory copies what is held elsewhere.
        self._nodes: dict[int, tuple[weakref.ref[torch.Tensor], Node]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against being compiled: nothing is compiled while operators are written down."""
        return False

    def names(self) -> list[str]:
        """The names of the nodes so far."""
        return [node.name for node in self.graph.nodes]

    def given(self, number: int, fake: Any) -> None:
        """Write down an input."""
        if type(fake) is not FakeTensor:
            raise UnrecordedError(f"input {number} is a {type(fake).__name__}")
        self._note(self.graph.placeholder(f"arg{number}_1"), fake)

    def wrote(self, fake: Any) -> Node | None:
        """The node that stands for a fake, if one does."""
        known = self._nodes.get(id(fake))
        return None if known is None or known[0]() is not fake else known[1]

    def returned(self, results: Sequence[Any]) -> None:
        """Write down what the function returns."""
        self.graph.output([self._argument(r) for r in results])

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """The result of ``func``, which is written down."""
        if func is DEVICE:
            return self.remembered(func, args, {})
        if not _is_plain(func):
            raise UnrecordedError(str(func))
        given = kwargs or {}
        node = self.graph.create_node(
            "call_function", func, self._argument(args), {k: self._argument(v) for k, v in given.items()}, func.overloadpacket.__name__
        )
        found = self.remembered(func, args, given)
        self._note(node, found)
        return found

    def _note(self, node: Node, found: Any) -> None:
        """Have ``found`` stand for ``node``, each piece of it for one that takes it."""
        if isinstance(found, torch.Tensor):
            self._nodes[id(found)] = weakref.ref(found), node
            node.meta["val"] = self.remembered.snapshot(found)
        elif isinstance(found, (tuple, list)):
            node.meta["val"] = type(found)(map(self.remembered.snapshot, found))
            for k, piece in enumerate(found):
                self._note(self.graph.call_function(operator.getitem, (node, k)), piece)

    def _argument(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            node = self.wrote(given)
            if node is None:
                raise UnrecordedError("a tensor that no operator gave")
            return node
        if isinstance(given, (tuple, list)):
            return type(given)(map(self._argument, given))
        if isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise UnrecordedError("a size that is a symbol")
        return given


@cache
def _is_plain(func: Any) -> bool:
    """Whether ``make_fx`` writes ``func`` down as it is."""
    if func.namespace != "aten" or {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags):
        return False
    taken_apart = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), torch._C.DispatchKey.CompositeImplicitAutograd)
    return not taken_apart and not func.name().startswith("aten::lift")


def recorded(function: Callable[..., Sequence[Any]], inputs: Sequence[Any], recorder: Recorder) -> GraphModule:
    """The graph of ``function(*inputs)`` in ATen-IR.

    Raises :class:`UnrecordedError`, and whatever ``function`` raises.
    """
    for number, fake in enumerate(inputs):
        recorder.given(number, fake)
    with _without_cached_casts(), recorder:
        results = function(*inputs)
    recorder.returned(results)
    return graph_module(torch.nn.Module(), recorder.graph)


@contextlib.contextmanager
def _without_cached_casts() -> Iterator[None]:
    """A cast that is found in the cache of autocast would be no operator of the graph."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
