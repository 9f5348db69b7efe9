"""Proof of what quantised activations change: nothing but the saved values that the result names.

Each case is lowered to its joint graph, which PyTorch's own partitioner cuts into a forward and a backward graph; the shipped pass
quantises what is saved. With the three operators of :mod:`optimus.fp8` as black boxes, for all sizes, it is proved that

* the two graphs that the partitioner made are the joint graph (so that what follows speaks of the program);
* with the pass, outputs are the same terms; and gradients are those of the backward graph in which each value ``t`` that the
  result names is ``decode(encode(t, step(t)), step(t))``, and no other value is.

How far that is from ``t`` is the bound of :mod:`optimus.fp8`, which fuzzing checks (:mod:`verify.lossy`), together with the graphs
of ATen operators that stand for the black boxes in what is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch.fx import Graph, GraphModule, Node

from optimus.fp8 import fp8_decode, fp8_encode, fp8_step
from optimus.journal import Journal
from optimus.passes.activation_quantization import ActivationQuantization
from optimus.quantization import Builder, Quantized, copied, quantize
from verify.lowering import Lowered, LoweringError, lower
from verify.subject import PatternSubject, Subject
from verify.validation import TIMEOUT_S, Reading, validate
from verify.verdict import CONGRUENCE, Proved, Unmodelled, Verdict, worst

SAYS = "the backward pass reads"
"""How the statement of which value is not the same begins."""

READING = Reading(differentiated=True)


def concerns(subject: Subject) -> bool:
    """Whether ``subject`` runs between the forward and the backward graph."""
    return isinstance(subject, PatternSubject) and isinstance(subject.pattern, ActivationQuantization)


def pattern_of(subject: Subject) -> ActivationQuantization:
    """The pattern of a subject that :func:`concerns` this module, with the options it is judged with."""
    assert isinstance(subject, PatternSubject)
    assert isinstance(subject.pattern, ActivationQuantization)
    return subject.pattern.judged()


@dataclass(frozen=True)
class Examined:
    """One program: what the pass did, the verdict on it (None where it did nothing), and the backward graphs."""

    journal: Journal
    verdict: Verdict | None
    before: str
    after: str


def examine(subject: Subject, gm: GraphModule, timeout_s: float = TIMEOUT_S, second_solver: bool = True) -> Examined:
    """Lower a captured graph, partition it, run the pass, and prove what the module says."""
    pattern = pattern_of(subject)
    journal = Journal(plan=str(pattern))
    try:
        lowered = lower(gm)
    except LoweringError as error:
        return Examined(journal, Unmodelled(f"lowering to ATen-IR: {error}"), "", "")
    if not (lowered.wanted and any(lowered.requires_grad)):
        return Examined(journal, None, "", "")
    joint = _as_partitioners_expect(lowered, len(gm.graph.find_nodes(op="placeholder")))
    forward, backward = _partitioned(joint, lowered.outputs)
    found = quantize(forward, backward, lowered.outputs, pattern, journal)
    codes = tuple(g.code.strip() for g in (backward, found.backward))
    if not found.names:
        return Examined(journal, None, *codes)
    whole = compose(forward, backward, lowered.outputs)
    named = compose(forward, returning(backward, found.names, pattern), lowered.outputs)
    gradients = frozenset(range(lowered.outputs, lowered.outputs + len(lowered.wanted)))  # whose memory is nobody's business
    verdicts = [
        validate(before, after, private=gradients, timeout_s=timeout_s, second_solver=second_solver, reading=READING)
        for before, after in ((joint, whole), (named, compose(found.forward, found.backward, lowered.outputs)))
    ]
    return Examined(journal, _told(worst(verdicts), found), *codes)


def misfired(subject: Subject) -> str | None:
    """The first case on which the pass does not fire though it must, or does though it must not, or not for the reason that it must give."""
    from fuzz.templates import captured

    for case in (*subject.cases, *subject.declines):
        journal = examine(subject, captured(case), timeout_s=0.0, second_solver=False).journal
        reasons = {d.reason for d in journal.declined}
        if bool(journal.rewrites) != case.must_fire or not (case.must_fire or case.reason in reasons):
            return f"{case.name}: {len(journal.rewrites)} rewrites, declined for {', '.join(sorted(reasons)) or 'nothing'}"
    return None


def _told(verdict: Verdict, found: Quantized) -> Verdict:
    if not isinstance(verdict, Proved):
        return verdict
    said = (f"{SAYS} decode(encode({name})) for {name}" for name in found.names)
    return replace(verdict, laws=(CONGRUENCE, *said))


def _as_partitioners_expect(lowered: Lowered, inputs: int) -> GraphModule:
    """The joint graph with the names by which partitioners tell inputs from cotangents."""
    graph = copied(lowered.joint.graph)
    for k, node in enumerate(graph.find_nodes(op="placeholder")):
        node._rename(f"primals_{k + 1}" if k < inputs else f"tangents_{k - inputs + 1}")
        node.target = node.name
    return GraphModule(lowered.joint, graph)


def _partitioned(joint: GraphModule, outputs: int) -> tuple[GraphModule, GraphModule]:
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    inputs = [n.meta.get("val") for n in joint.graph.find_nodes(op="placeholder")]
    found: tuple[GraphModule, GraphModule] = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=outputs)
    return found


# ------------------------------------------------------------------------------------------------------------- graphs


def compose(forward: GraphModule, backward: GraphModule, outputs: int) -> GraphModule:
    """One graph from inputs and cotangents to outputs and gradients: what the forward graph saves, the backward graph reads."""
    graph = Graph()
    values: dict[Node, Any] = {}
    _copy(forward.graph, graph, values, {})
    returned = forward.graph.output_node().args[0]
    assert isinstance(returned, (tuple, list))
    saved = {n.name: values[n] for n in returned[outputs:] if isinstance(n, Node)}
    late: dict[Node, Any] = {}
    _copy(backward.graph, graph, late, saved)
    gradients = backward.graph.output_node().args[0]
    assert isinstance(gradients, (tuple, list))
    ends = [_found(values, n) for n in returned[:outputs]] + [_found(late, n) for n in gradients]
    graph.output(ends)
    _inputs_first(graph)
    graph.lint()
    return GraphModule(forward, graph)


def _found(values: Mapping[Node, Any], returned: Any) -> Any:
    return values[returned] if isinstance(returned, Node) else returned


def _copy(source: Graph, graph: Graph, values: dict[Node, Any], given: Mapping[str, Node]) -> None:
    """Append the nodes of ``source``; ``given``: what stands for its inputs, by name."""
    for node in source.nodes:
        if node.op == "output":
            continue
        if node.op == "placeholder" and node.name in given:
            values[node] = given[node.name]
        else:
            values[node] = graph.node_copy(node, values.__getitem__)


def _inputs_first(graph: Graph) -> None:
    given = list(graph.find_nodes(op="placeholder"))
    for one, other in pairwise(given):
        one.append(other)


def returning(backward: GraphModule, names: tuple[str, ...], pattern: ActivationQuantization) -> GraphModule:
    """``backward`` with each input of ``names`` as it comes back from 8 bits. Written apart from the pass, which it is to judge."""
    graph = copied(backward.graph)
    given = graph.find_nodes(op="placeholder")
    place = next(n for n in graph.nodes if n.op != "placeholder")
    for node in given:
        if node.name in names:
            users = list(node.users)
            build = Builder(graph, place, node)
            step = build(fp8_step, node, pattern.format) if pattern.use_scaling else None
            back = build(fp8_decode, build(fp8_encode, node, step, pattern.format), step, node.meta["val"].dtype)
            for user in users:
                user.replace_input_with(node, back)
    graph.lint()
    return GraphModule(backward, graph)
