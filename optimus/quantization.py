"""Quantised activations between the graphs that a partitioner makes: for Inductor's ``custom_partitioner_fn`` and for AOTAutograd."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import Graph, GraphModule, Node

from optimus import fp8_inductor
from optimus.caching import identity
from optimus.exponents import exponents
from optimus.fp8 import expansion, fp8_decode, fp8_encode, fp8_step
from optimus.journal import Declined, Journal, Rewrite, source_line
from optimus.limit import Limiter, cache_key, current, graph_of
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.pattern import IR, Decline
from optimus.plan import Plan
from optimus.values import tensor
from optimus.versions import no_new_guards

Record = Callable[[Journal], None]
Partition = Callable[..., tuple[GraphModule, GraphModule]]

OPERATORS = frozenset({fp8_step, fp8_encode, fp8_decode})


@dataclass(frozen=True)
class Quantized:
    """A forward and a backward graph. ``names``: the saved values that are quantised, as both graphs called them."""

    forward: GraphModule
    backward: GraphModule
    names: tuple[str, ...]


def quantize(
    forward: GraphModule,
    backward: GraphModule,
    outputs: int,
    pattern: ActivationQuantization,
    journal: Journal,
    static: Sequence[int] = (),
    limiter: Limiter | None = None,
) -> Quantized:
    """Quantise what ``forward`` saves for ``backward``, by the operators of :mod:`optimus.fp8`; both graphs stay as they are.

    ``outputs``: how many results of ``forward`` are none that it saves. ``static``: positions of inputs of ``forward`` that are
    parameters or buffers. ``journal`` and ``limiter`` are told what was done and what not. Raises ``ValueError`` where the graphs do not belong together.
    """
    returned = list(forward.graph.output_node().args[0])  # type: ignore[arg-type]
    inputs = {n.name: n for n in backward.graph.find_nodes(op="placeholder")}
    tensors = [n for n in returned[outputs:] if isinstance(n, Node) and tensor(n) is not None]
    missing = next((n.name for n in tensors if n.name not in inputs), None)
    if missing is not None:
        raise ValueError(f"the forward graph saves {missing}, which the backward graph does not read")
    held = [n for n in returned[:outputs] if isinstance(n, Node)]
    given = list(forward.graph.find_nodes(op="placeholder"))
    fixed = frozenset(given[k] for k in static if k < len(given))
    answers = pattern.choose(tensors, held, fixed, exponents(backward.graph))
    names = _tell(journal, pattern, tensors, answers, limiter)
    if not names:
        return Quantized(forward, backward, ())
    return Quantized(_forward(forward, outputs, names, pattern), _backward(backward, names, pattern), tuple(names))


def _shape_env(fake: Any) -> Any:
    return getattr(getattr(fake, "fake_mode", None), "shape_env", None)


def _tell(
    journal: Journal, pattern: ActivationQuantization, saved: Sequence[Node], answers: Sequence[Node | Decline], limiter: Limiter | None
) -> list[str]:
    """The names of what is quantised: all that ``limiter`` allows."""
    names = []
    for node, answer in zip(saved, answers, strict=True):
        if not isinstance(answer, Decline) and limiter is not None and not limiter.allows(pattern.name, node.name):
            answer = Decline("limit")
        if isinstance(answer, Decline):
            journal.declined.append(Declined(pattern.name, node.name, answer.reason, answer.detail))
            continue
        ordinal = 1 + sum(r.pattern == pattern.name for r in journal.rewrites)
        added = tuple(_names_of(node.name, pattern))
        line = source_line(node)
        lines = () if line is None else (line,)
        journal.rewrites.append(Rewrite(len(journal.rewrites) + 1, pattern.name, ordinal, (node.name,), (node.name,), (), added, lines))
        if limiter is not None:
            limiter.note(node.name, journal.rewrites[-1])
        names.append(node.name)
    return names


def _names_of(name: str, pattern: ActivationQuantization) -> list[str]:
    return [f"{name}_fp8", *([f"{name}_step"] if pattern.use_scaling else [])]


# ------------------------------------------------------------------------------------------------------------- surgery


def _forward(gm: GraphModule, outputs: int, names: Sequence[str], pattern: ActivationQuantization) -> GraphModule:
    """``gm`` with the values called ``names`` saved as numbers of 8 bits, each followed by its steps."""
    graph = copied(gm.graph)
    output = graph.output_node()
    returned = list(output.args[0])  # type: ignore[arg-type]
    kinds = list(output.meta.get("desc") or [None] * len(returned))
    chosen = set(names)
    found: list[tuple[Any, Any]] = list(zip(returned[:outputs], kinds[:outputs], strict=True))
    last = next((n for n in reversed(graph.find_nodes(op="placeholder"))), None)
    for node, kind in zip(returned[outputs:], kinds[outputs:], strict=True):
        if not isinstance(node, Node) or node.name not in chosen:
            found.append((node, kind))
            continue
        place = last if node.op == "placeholder" and last is not None else node
        found += [(new, kind) for new in _encoded(graph, node, place.next, pattern)]
    if "desc" in output.meta:
        output.meta["desc"] = [kind for _, kind in found]
    output.args = (tuple(node for node, _ in found) if isinstance(output.args[0], tuple) else [node for node, _ in found],)
    return _module(gm, graph)


def _encoded(graph: Graph, node: Node, before: Node, pattern: ActivationQuantization) -> list[Node]:
    """The numbers and the steps that stand for ``node``, made in front of ``before``."""
    fp8, *steps = _names_of(node.name, pattern)
    build = Builder(graph, before, node)
    step = build(fp8_step, node, pattern.format, name=steps[0]) if steps else None
    code = build(fp8_encode, node, step, pattern.format, name=fp8)
    return [code] if step is None else [code, step]


def _backward(gm: GraphModule, names: Sequence[str], pattern: ActivationQuantization) -> GraphModule:
    """``gm`` reading numbers of 8 bits, and steps, in place of the inputs called ``names``."""
    graph = copied(gm.graph)
    chosen = set(names)
    for node in graph.find_nodes(op="placeholder"):
        if node.name in chosen:
            _decoded(graph, node, pattern)
    return _module(gm, graph)


def _decoded(graph: Graph, node: Node, pattern: ActivationQuantization) -> None:
    fake = tensor(node)
    assert fake is not None
    first = min(node.users, key=lambda n: n._sort_key)
    made = []
    fakes = []
    with no_new_guards(_shape_env(fake), None):
        step = fp8_step(fake, pattern.format) if pattern.use_scaling else None
        fakes = [f for f in (fp8_encode(fake, step, pattern.format), step) if f is not None]
    place = node
    for name, found in zip(_names_of(node.name, pattern), fakes, strict=True):
        with graph.inserting_after(place):
            place = graph.placeholder(name)
        place.meta.update(_meta(node), val=found)
        made.append(place)
    decoded = Builder(graph, first, node)(fp8_decode, made[0], made[1] if len(made) > 1 else None, fake.dtype)
    node.replace_all_uses_with(decoded)
    graph.erase_node(node)


KEPT = ("stack_trace", "nn_module_stack", "saved_tensor_with_no_vc_check", "autograd_backward", "desc")


def _meta(node: Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in KEPT if key in node.meta}


@dataclass
class Builder:
    """Adds calls to ``graph`` in front of ``before``, with metadata; what they come from is ``origin``."""

    graph: Graph
    before: Node
    origin: Node

    def __call__(self, target: Any, *args: Any, name: str | None = None) -> Node:
        """A new node that calls ``target``."""
        with self.graph.inserting_before(self.before):
            node = self.graph.create_node("call_function", target, args, {}, name)
        fakes = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        with no_new_guards(next((e for f in fakes if (e := _shape_env(f)) is not None), None), None):
            found = target(*fakes)
        node.meta.update({k: v for k, v in _meta(self.origin).items() if k != "desc"}, val=found)
        return node


def expand(gm: GraphModule) -> None:
    """Write the operators of :mod:`optimus.fp8` in ``gm`` as those of ATen that they mean, which compilers fuse."""
    for node in list(gm.graph.nodes):
        if node.target not in OPERATORS:
            continue
        (x, *others) = node.args
        pairs = [(a, a.meta["val"].dtype) if isinstance(a, Node) else a for a in (x, *others)]
        found = expansion(node.target, Builder(gm.graph, node, node), *pairs)
        node.replace_all_uses_with(found)
        gm.graph.erase_node(node)
        found._rename(node.name)
    gm.recompile()


def copied(graph: Graph) -> Graph:
    """A copy with the same names and metadata."""
    new = Graph(tracer_cls=graph._tracer_cls)
    values: dict[Node, Node] = {}
    for node in graph.nodes:
        values[node] = new.node_copy(node, values.__getitem__)
        values[node].meta = copy.copy(node.meta)
    new._codegen = copy.copy(graph._codegen)
    return new


def _module(like: GraphModule, graph: Graph) -> GraphModule:
    graph.lint()
    return GraphModule(like, graph)


# ---------------------------------------------------------------------------------------------------------- partitioner


@dataclass
class Partitioner(CustomPartitionerFn):
    """A partitioner that quantises what another one saves; for ``torch._inductor.config.custom_partitioner_fn``.

    ``previous``: that other one; PyTorch's min-cut partitioner where there is none. Also an argument ``partition_fn`` of AOTAutograd.
    What goes wrong leaves the graphs as they were, and stands in the journal.
    """

    plan: Plan
    record: Record = field(repr=False)
    previous: Any = None
    expanded: bool = False
    """Whether the forward graph gets operators of ATen too, for a compiler that is not Inductor, which has kernels for ours."""

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[GraphModule, GraphModule]:
        """See :class:`torch._inductor.custom_graph_pass.CustomPartitionerFn`."""
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        partition: Partition = self.previous or min_cut_rematerialization_partition
        forward, backward = partition(gm, joint_inputs, **kwargs)
        journal = Journal(plan=str(self.plan), ir=IR.ATEN.value, nodes_before=_size(forward, backward))
        start = time.perf_counter()
        with graph_of(current()) as limiter:
            for pattern in patterns_of(self.plan):
                forward, backward = _kept(forward, backward, kwargs, pattern, journal, self.expanded, limiter)
        journal.seconds["all"] = time.perf_counter() - start
        journal.nodes_after = _size(forward, backward)
        journal.stopped = "every saved value was looked at"
        self.record(journal)
        return forward, backward

    def uuid(self) -> Any:
        """Part of Inductor's cache key: changes with the plan, its options and code, and the partitioner in front; see :func:`optimus.caching.identity`."""
        return identity(self.plan, self.previous) + (":expanded" if self.expanded else "") + cache_key()

    def __reduce__(self) -> Any:
        """Inductor pickles its configuration into the cache key, so that only what matters may be in it."""
        return _restored, (self.plan.to_json(), self.previous, self.expanded, self.uuid())


def _restored(plan: str, previous: Any, expanded: bool, _: str) -> Partitioner:
    return Partitioner(Plan.from_json(plan), lambda _: None, previous, expanded)


def _kept(
    forward: GraphModule,
    backward: GraphModule,
    given: dict[str, Any],
    pattern: ActivationQuantization,
    journal: Journal,
    expanded: bool,
    limiter: Limiter | None,
) -> tuple[GraphModule, GraphModule]:
    """Both graphs quantised; as they were where that raises."""
    before, counted = len(journal.rewrites), 0 if limiter is None else len(limiter.applied)
    try:
        static = given.get("static_lifetime_input_indices") or ()
        found = quantize(forward, backward, given["num_fwd_outputs"], pattern, journal, static, limiter)
        if found.names:
            if expanded:
                expand(found.forward)
            else:
                fp8_inductor.register()
            expand(found.backward)
        return found.forward, found.backward
    except Exception as error:  # noqa: BLE001 - a pass never makes a compile fail
        del journal.rewrites[before:]
        if limiter is not None:
            del limiter.applied[counted:]
        journal.declined.append(Declined(pattern.name, "graph", "error", f"{type(error).__name__}: {error}"))
        return forward, backward


def _size(*graphs: GraphModule) -> int:
    return sum(len(g.graph.nodes) for g in graphs)


def patterns_of(plan: Plan) -> list[ActivationQuantization]:
    """The steps of ``plan`` that quantise activations."""
    return [p for p in plan if isinstance(p, ActivationQuantization)]


def inductor_patches(plan: Plan, record: Record, previous: Any = None) -> dict[str, Any]:
    """Options of Inductor that run the quantising steps of ``plan``; none where it has none. ``previous``: the partitioner that was set."""
    if not patterns_of(plan):
        return {}
    return {"custom_partitioner_fn": Partitioner(plan, record, previous)}
