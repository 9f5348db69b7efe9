"""How good the prover is: mutants of rewritten graphs, judged by it and by eager.

Every case of every pattern is rewritten, with symbolic sizes and with all sizes equal to 3. Each mutant of the result
differs in one place: two operands exchanged, a number one off, a list reversed, shortened or with an item twice, another
operand or operator, an operator left out, two outputs exchanged. Eager compares it with the original element by element,
gradients by random cotangents included, at several sizes and draws; the prover never sees these.

    python -m benchmarks.mutants --per-pattern 100
"""

from __future__ import annotations

import argparse
import copy
import itertools
import operator
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fuzz.templates import captured, instantiate, symbol_values
from optimus.capture import names
from optimus.engine import Engine
from optimus.pattern import Case, Pattern, Refused
from optimus.plan import Plan, on_graphs
from optimus.rewriter import run_fake
from optimus.state import GraphState
from optimus.values import value, value_key
from optimus.versions import no_new_guards
from verify.compare import Run, differences, differing_bits, observe
from verify.validation import validate
from verify.verdict import Proved, Refuted, Unknown, explain, word
from verify.witness import real_inputs, replay

SQUARE = 3
DRAWS = ("ordinary", "exact")
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, AttributeError, NotImplementedError, Refused)
"""What an operator raises on fakes that it does not accept, and a size that would have to be decided."""

HARMFUL, ROUNDED, HARMLESS = "harmful", "rounding", "harmless"
"""Kinds of mutants by what eager shows: a difference, one that the order of rounding explains, no difference in any bit."""

Change = Callable[[GraphModule], None]

OPERATORS: dict[Any, tuple[Any, ...]] = {
    torch.mul: (torch.add, torch.sub), torch.add: (torch.mul, torch.sub), operator.mul: (operator.add,), operator.add: (operator.mul, operator.sub),
    torch.tanh: (torch.sigmoid, torch.relu), torch.sigmoid: (torch.tanh,), torch.movedim: (torch.transpose,), torch.transpose: (torch.movedim,),
    torch.sum: (torch.mean, torch.amax), torch.baddbmm: (torch.addbmm,), torch.cat: (torch.stack,), torch.stack: (torch.cat,), torch.bmm: (torch.matmul,),
    "cos": ("sin",), "sin": ("cos",), "exp": ("cos",),
}  # fmt: skip
"""What each operator is exchanged for."""


@dataclass(frozen=True)
class Mutant:
    """One change of one graph, and whether it could be made at all."""

    what: str
    change: Change


# ------------------------------------------------------------------------------------------------------------- mutations


def mutants(gm: GraphModule) -> Iterator[Mutant]:
    """All mutants of a graph; nodes are named by their position, so that a change can be made to a copy."""
    nodes = list(gm.graph.nodes)
    position = {node: k for k, node in enumerate(nodes)}
    for k, node in enumerate(nodes):
        if node.op not in ("call_function", "call_method", "output"):
            continue
        for args, kwargs in _changed((node.args, node.kwargs), nodes[:k]):
            yield Mutant(f"{node.name}: {_text(args, kwargs)}", _with_arguments(k, _positions(args, position), _positions(kwargs, position)))
        for other in OPERATORS.get(node.target, ()):
            yield Mutant(f"{node.name} becomes {getattr(other, '__name__', other)}", _with_target(k, other))
        if node.op != "output":
            yield from (Mutant(f"{node.name} left out for {n.name}", _without(k, position[n])) for n in _stand_ins(node))


def _text(args: Any, kwargs: Any) -> str:
    return ", ".join([*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())])


def _changed(given: Any, earlier: Sequence[Node]) -> Iterator[Any]:
    """The argument with one thing in it changed."""
    if isinstance(given, bool):
        yield not given
    elif isinstance(given, (int, float)):
        yield from (given + 1, given - 1)
    elif isinstance(given, Node):
        yield from _alike(given, earlier)
    elif isinstance(given, dict):
        for name, item in given.items():
            yield from ({**given, name: new} for new in _changed(item, earlier))
    elif isinstance(given, (list, tuple)):
        for k, item in enumerate(given):
            yield from (type(given)([*given[:k], new, *given[k + 1 :]]) for new in _changed(item, earlier))
        for i, j in itertools.combinations(range(len(given)), 2):
            if isinstance(given[i], Node) and isinstance(given[j], Node) and given[i] is not given[j]:
                yield type(given)([*given[:i], given[j], *given[i + 1 : j], given[i], *given[j + 1 :]])
        if len(given) > 1 and all(isinstance(g, (int, Node)) for g in given):
            yield from (type(given)(given[::-1]), type(given)(given[:-1]), type(given)([*given, given[-1]]))


def _alike(node: Node, earlier: Sequence[Node]) -> list[Node]:
    """Other values of the kind of ``node``, the nearest two."""
    found = value(node)
    tensors = isinstance(found, torch.Tensor)
    if not tensors:
        return []
    others = [n for n in reversed(earlier) if n is not node and isinstance(value(n), torch.Tensor) and value(n).dim() == found.dim()]
    return others[:2]


def _stand_ins(node: Node) -> list[Node]:
    return [n for n in node.all_input_nodes if isinstance(value(n), type(value(node)))][:1]


@dataclass(frozen=True)
class _At:
    """A node by its position."""

    position: int


def _positions(given: Any, position: dict[Node, int]) -> Any:
    return torch.fx.node.map_aggregate(given, lambda a: _At(position[a]) if isinstance(a, Node) else a)


def _with_arguments(k: int, args: Any, kwargs: Any) -> Change:
    def change(gm: GraphModule) -> None:
        nodes = list(gm.graph.nodes)
        put = lambda given: torch.fx.node.map_aggregate(given, lambda a: nodes[a.position] if isinstance(a, _At) else a)  # noqa: E731
        nodes[k].args, nodes[k].kwargs = put(args), put(kwargs)

    return change


def _with_target(k: int, target: Any) -> Change:
    def change(gm: GraphModule) -> None:
        list(gm.graph.nodes)[k].target = target

    return change


def _without(k: int, stand_in: int) -> Change:
    def change(gm: GraphModule) -> None:
        nodes = list(gm.graph.nodes)
        nodes[k].replace_all_uses_with(nodes[stand_in])

    return change


def changed(gm: GraphModule, mutant: Mutant) -> GraphModule:
    """A copy of ``gm`` with the change made and metadata computed anew; raises one of ``REFUSALS`` where an operator refuses."""
    after = copy.deepcopy(gm)
    mutant.change(after)
    after.graph.eliminate_dead_code(is_impure_node=lambda n: n.op in ("placeholder", "output"))
    state = GraphState.of(after.graph)
    for node in after.graph.nodes:
        if node.op in ("call_function", "call_method"):
            with state.mode(node).active(), state.fake_mode or torch.no_grad(), no_new_guards(state.shape_env, ValueError):
                node.meta[value_key(node)] = run_fake(node)
    after.recompile()
    return after


# -------------------------------------------------------------------------------------------------------------- judgement


@dataclass
class Count:
    """What became of the mutants of one pattern."""

    refused: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unseen: int = 0

    def add(self, kind: str, verdict: Any, what: str, seconds: float) -> None:
        """Count one. A refutation has been seen in eager: it is then harmful, whatever our own draws showed."""
        self.seconds.append(seconds)
        self.unseen += kind != HARMFUL and isinstance(verdict, Refuted)
        kind = HARMFUL if isinstance(verdict, Refuted) else kind
        self.judged[f"{kind} {word(verdict)}"] += 1
        if kind == HARMFUL and isinstance(verdict, Proved):
            self.wrong.append(what)
        elif kind == ROUNDED and isinstance(verdict, Proved) and verdict.claim == "E0":
            self.wrong.append(f"{what}: claimed to be bit-exact")
        elif isinstance(verdict, Refuted):
            self.reasons["the solver gave up, tensors differ"] += "the solver gave up" in verdict.counterexample.what
        elif not isinstance(verdict, Proved):
            self.open.append(f"{kind}, {explain(verdict)}: {what}")
            self.reasons["no replay" if isinstance(verdict, Unknown) and "differs in the semantics" in verdict.reason else word(verdict)] += 1

    def total(self, kind: str) -> int:
        """How many mutants of a kind."""
        return sum(n for name, n in self.judged.items() if name.startswith(kind + " "))


Inputs = Callable[[], list[Any]]


def subjects(pattern: Pattern) -> Iterator[tuple[str, GraphModule, list[Inputs]]]:
    """Each case of a pattern, with symbolic sizes and with equal ones: its name, its graph, and ways to make inputs."""
    for case in pattern.cases:
        gm = captured(case)
        yield case.name, gm, list(_inputs(case, gm))
        program = instantiate(case, dict.fromkeys(names(case), SQUARE))
        plain = program.graph()
        placeholders = list(plain.graph.find_nodes(op="placeholder"))
        yield f"{case.name}, square", plain, [lambda d=d, k=k, p=placeholders: real_inputs(p, {}, d, k) for k, d in enumerate((*DRAWS, *DRAWS))]


def _inputs(case: Case, gm: GraphModule) -> Iterator[Inputs]:
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    known = names(case)
    chosen = [dict.fromkeys(known, 2), dict.fromkeys(known, 3)]
    chosen += [{name: 2 + (3 * k + turn) % 5 for k, name in enumerate(known)} for turn in (0, 2)]
    for seed, sizes in enumerate(chosen):
        symbols = {str(s): n for s, n in symbol_values(case, sizes).items()}
        for draw in DRAWS:
            yield lambda s=symbols, d=draw, k=seed: real_inputs(placeholders, s, d, k)


def by_eager(before: GraphModule, rewritten: GraphModule, after: GraphModule, inputs: Sequence[Inputs]) -> str:
    """Whether eager shows a difference: beyond the order of summation, only in that, or not in a single bit.

    Bits in which ``rewritten``, the graph that was mutated, differs from the original too are not the mutant's: vectorised
    kernels round some functions otherwise at the end of a tensor.
    """
    kind = HARMLESS
    for make in inputs:
        one, other = observe(before.forward, make()), observe(after.forward, make())
        if differences(one, other, bitwise=True):
            if replay(before, after, make()):
                return HARMFUL
            kind = ROUNDED if _other_bits(one, other) and not _other_bits(one, observe(rewritten.forward, make())) else kind
    return kind


def _other_bits(one: Run, other: Run) -> bool:
    pairs = [(a, b) for a, b in zip(one.outputs, other.outputs, strict=True) if isinstance(a, torch.Tensor)]
    return any(bool(differing_bits(a, b).any()) for a, b in pairs)


def run(pattern: Pattern, most: int, seed: int = 0, timeout_s: float = 5.0) -> Count:
    """Judge up to ``most`` mutants of a pattern, drawn evenly from its cases."""
    count = Count()
    draw = random.Random(seed)
    prepared = []
    for name, before, inputs in subjects(pattern):
        after = copy.deepcopy(before)
        if Engine(after, Plan((pattern.judged(),))).run().rewrites:
            found = list(mutants(after))
            draw.shuffle(found)
            prepared.append((name, before, after, inputs, iter(found)))
    while prepared and len(count.seconds) < most:
        for entry in list(prepared):
            name, before, after, inputs, rest = entry
            mutant = next(rest, None)
            if mutant is None:
                prepared.remove(entry)
            elif len(count.seconds) < most:
                _judge(count, f"{pattern.name}, {name}, {mutant.what}", before, after, mutant, inputs, timeout_s)
    return count


def _judge(count: Count, what: str, before: GraphModule, rewritten: GraphModule, mutant: Mutant, inputs: Sequence[Inputs], timeout_s: float) -> None:
    try:
        after = changed(rewritten, mutant)
    except REFUSALS:
        count.refused += 1
        return
    start = time.monotonic()
    verdict = validate(before, after, timeout_s=timeout_s, second_solver=False)
    seconds = time.monotonic() - start
    count.add(by_eager(before, rewritten, after, inputs), verdict, what, seconds)


# ------------------------------------------------------------------------------------------------------------------ report

COLUMNS = (
    "pattern", "mutants", "harmful", "refuted", "left open", "harmless", "proved", "left open", "rounding", "proved", "left open", "wrong", "median ms",
)  # fmt: skip


def _row(name: str, counts: Sequence[Count]) -> list[str]:
    total: Counter[str] = sum((c.judged for c in counts), Counter())
    numbers: list[int] = [sum(total.values())]
    for kind, right in ((HARMFUL, "refuted"), (HARMLESS, "proved"), (ROUNDED, "proved")):
        mine = sum(c.total(kind) for c in counts)
        numbers += [mine, total[f"{kind} {right}"], mine - total[f"{kind} refuted"] - total[f"{kind} proved"]]
    seconds = [s for c in counts for s in c.seconds] or [0.0]
    numbers += [sum(len(c.wrong) for c in counts), round(1000 * statistics.median(seconds))]
    return [name, *map(str, numbers)]


def table(counts: dict[str, Count]) -> str:
    """The results as Markdown."""
    import cvc5
    import z3

    rows = [_row(f"`{name}`", [c]) for name, c in counts.items()] + [_row("all", list(counts.values()))]
    everything = list(counts.values())
    tried = sum(c.reasons["the solver gave up, tensors differ"] for c in everything)
    refuted = sum(c.judged["harmful refuted"] for c in everything) - tried
    unreplayed = sum(c.reasons["no replay"] for c in everything)
    lines = [
        "# Mutants of rewritten graphs",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, torch {torch.__version__}, z3 {z3.get_version_string()}, "
        f"cvc5 {cvc5.__version__} (not asked here); `python -m benchmarks.mutants`.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "`harmful`: eager shows a difference in some element, gradient, stride, or shared memory. `rounding`: other bits, which the order of",
        "rounding explains and in which the rewritten graph itself does not differ. `harmless`: the same bits. `left open`: neither proved",
        "nor refuted. `wrong`: harmful and proved, or other bits and claimed to be bit-exact. Times are by the wall, replays included.",
        "",
        f"Counterexamples of the solver that differ when replayed: {refuted} of {refuted + unreplayed}. "
        f"Refuted by real tensors where the solver gave up: {tried}. Refuted although our own draws showed no difference: {sum(c.unseen for c in everything)}. "
        f"Mutants that operators refuse, or that would fix a size, and that nobody judged: {sum(c.refused for c in everything)}.",
    ]
    for title, found in (("Wrong", [w for c in everything for w in c.wrong]), ("Open", [o for c in everything for o in c.open])):
        if found:
            lines += ["", f"## {title}", "", *(f"* {text}" for text in found)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge mutants of all patterns, or of those named, and write the table."""
    parser = argparse.ArgumentParser("benchmarks.mutants", allow_abbrev=False)
    parser.add_argument("--per-pattern", type=int, default=100)
    parser.add_argument("--pattern", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="benchmarks/results/mutants.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: dict[str, Count] = {}
    for name, pattern in ((p.name, p) for p in on_graphs()):
        if not options.pattern or name in options.pattern:
            counts[name] = run(pattern, options.per_pattern, options.seed)
            print(" ".join(_row(name, [counts[name]])), *counts[name].wrong, sep="\n  ", flush=True)
    Path(options.out).write_text(table(counts))


if __name__ == "__main__":
    main()
