"""The driver (the paper's Algorithm 2): horizontal steps, then vertical ones, in the order of the plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any

from torch.fx import GraphModule, Node

from optimus.horizontal import Schedule, common_key, schedule, with_neighbourhoods
from optimus.journal import Journal
from optimus.laws import ALL_LAWS, Law
from optimus.levels import level
from optimus.limit import Limiter, current
from optimus.modes import collector_paused
from optimus.pattern import IR, Decline, HorizontalPattern, Match, Pattern, VerticalPattern
from optimus.plan import Plan, default_plan
from optimus.rewriter import Rewriter, Transaction, Validator
from optimus.state import GraphState
from optimus.values import tensor

FUSED = "optimus_fused"
ROUNDS = 20  # horizontal rounds at most: each needs a group that the previous one brought within reach


def rewrite(gm: GraphModule, plan: Plan | None = None, *, validate: Validator | str | None = None, grad: bool | None = None) -> Journal:
    """Apply ``plan`` (default: the built-in patterns that are on by default) to ``gm`` in place.

    Those of its patterns run that are for the level of ``gm``: ATen-IR where nodes keep their fakes as ``val``, else Torch-IR.

    ``validate``: a callable that judges each region before it is kept, or the name of one in the entry-point group
    ``optimus.validators``. ``grad``: the grad mode at the entry of the graph (default: the one in force).

    Raises ``TypeError`` for something else than a ``GraphModule`` and ``ValueError`` for an unknown validator. Nothing a
    pattern does can raise: what goes wrong is undone and stands in the journal.
    """
    if not isinstance(gm, GraphModule):
        raise TypeError(f"rewrite: got a {type(gm).__name__}; accepted is a torch.fx.GraphModule")
    plan = default_plan() if plan is None else plan
    return Engine(gm, plan, resolve_validator(validate), grad=grad).run()


def resolve_validator(validate: Validator | str | None) -> Validator | None:
    """The validator itself, or the one registered under a name."""
    if validate is None or callable(validate):
        return validate
    from importlib.metadata import entry_points

    found = {e.name: e for e in entry_points(group="optimus.validators")}
    if validate not in found:
        raise ValueError(f"validate={validate!r} is unknown; accepted are a callable, None and the names {sorted(found)}")
    validator: Validator = found[validate].load()
    return validator


class Engine:
    """One run of a plan over one graph and the graphs inside it."""

    def __init__(
        self,
        gm: GraphModule,
        plan: Plan,
        validate: Validator | None = None,
        *,
        grad: bool | None = None,
        laws: frozenset[Law] = ALL_LAWS,
        limiter: Limiter | None = None,
    ) -> None:
        self.gm = gm
        self.plan = plan
        self.validate = validate
        self.grad = grad
        self.laws = laws
        self.limiter = current() if limiter is None else limiter
        self.journal = Journal(plan=str(plan), ir=level(gm.graph).value)

    def run(self) -> Journal:
        """Apply the plan; the graph is left valid whatever happens."""
        start = time.perf_counter()
        self.journal.nodes_before = _size(self.gm)
        if self.limiter is not None:
            self.limiter.enter()
        with collector_paused():
            for gm in _graphs(self.gm):
                self._run_graph(gm)
        if self.limiter is not None:
            self.limiter.leave()
        self.journal.nodes_after = _size(self.gm)
        self.journal.stopped = self.journal.stopped or "every step of the plan is settled"
        self.journal.seconds["all"] = time.perf_counter() - start
        return self.journal

    def _run_graph(self, gm: GraphModule) -> None:
        if not any(tensor(n) is not None for n in gm.graph.nodes):
            return
        state = GraphState.of(gm.graph, self.grad)
        if state.symbolic and _flipped(gm):
            self.journal.stopped = FLIPPED
            return
        rewriter = Rewriter(state, self.journal, self.validate, self.laws, limiter=self.limiter)
        before = len(self.journal.rewrites)
        for kind in (HorizontalPattern, VerticalPattern):
            for pattern in self.plan:
                if isinstance(pattern, kind) and pattern.ir is rewriter.state.ir:
                    self._step(pattern, rewriter)
        if len(self.journal.rewrites) > before:
            if rewriter.state.ir is IR.ATEN:
                rewriter.refresh()
            gm.graph.lint()
            gm.recompile()

    def _step(self, pattern: Pattern, rewriter: Rewriter) -> None:
        start = time.perf_counter()
        if not any(map(rewriter.state.by_op.get, pattern.anchors)) or not rewriter.admits(pattern):
            return
        if isinstance(pattern, HorizontalPattern):
            _horizontal(pattern, rewriter)
        elif isinstance(pattern, VerticalPattern):
            _vertical(pattern, rewriter)
        self.journal.seconds[pattern.name] = self.journal.seconds.get(pattern.name, 0.0) + time.perf_counter() - start


FLIPPED = "an input is conjugated or negated lazily, of which PyTorch loses track in returned views whose sizes are computed"


def _flipped(gm: GraphModule) -> bool:
    """Whether an input is a view that is conjugated or negated when it is read."""
    return any((fake := tensor(n)) is not None and (fake.is_conj() or fake.is_neg()) for n in gm.graph.find_nodes(op="placeholder"))


def _graphs(gm: GraphModule) -> list[GraphModule]:
    """The graph and those of the higher-order regions it calls, innermost first."""
    found = [m for m in gm.modules() if isinstance(m, GraphModule)]
    return list(reversed(found))


def _size(gm: GraphModule) -> int:
    return sum(len(g.graph.nodes) for g in _graphs(gm))


# ------------------------------------------------------------------------------------------------------------ vertical


def _vertical(pattern: VerticalPattern, rewriter: Rewriter) -> None:
    refusals: dict[Node, Decline] = {}
    most = len(rewriter.state.graph.nodes)
    for _ in range(pattern.counter):
        refusals.clear()
        done = _sweep(pattern, rewriter, refusals, most)
        most -= done
        if not done or not rewriter.admits(pattern):
            break
    for node, refusal in refusals.items():
        rewriter.decline(pattern, node, refusal)


def _sweep(pattern: VerticalPattern, rewriter: Rewriter, refusals: dict[Node, Decline], most: int) -> int:
    """Visit every anchor once, in graph order, those included that the sweep makes. How many matches were rewritten.

    ``most`` bounds that number, for a pattern may fire on what it makes. The graph had that many nodes, and a pattern that
    comes to an end rewrites each at most once.
    """
    done = 0
    state = rewriter.state
    anchors, op_of = pattern.anchors, state.ops.get
    ahead, at = state.having(anchors, pieces=pattern.pieces), 0
    waiting: list[tuple[Any, Node]] = []
    while waiting or at < len(ahead):
        if at == len(ahead) or (waiting and waiting[0][0] < ahead[at]._sort_key):
            place, node = heappop(waiting)
        else:
            node, at = ahead[at], at + 1
            place = node._sort_key
        if node._erased:
            continue
        found = _asked(pattern.find, node, state)
        if isinstance(found, Decline):
            refusals[node] = found
        elif found is not None and done == most:
            refusals[node] = Decline("endless", "the pattern fires again on what it makes, more often than the graph had nodes")
            break
        elif found is not None:
            resume = min((*found.nodes, found.before), key=lambda n: n._sort_key).prev  # survives the rewrite
            if rewriter.apply(pattern, found, partial(pattern.rewrite, found)):
                done += 1
                again = resume.next
                while again._sort_key <= place and again.op != "root":  # what stands between may match now
                    if op_of(again) in anchors:
                        heappush(waiting, (again._sort_key, again))
                    again = again.next
                for new in rewriter.latest:
                    if op_of(new) in anchors and new._sort_key > place:
                        heappush(waiting, (new._sort_key, new))
    return done


def _asked(question: Callable[[Any, GraphState], Any], about: Node | list[Node], state: GraphState) -> Any:
    """The answer of a pattern; a refusal where it raises, for its errors never reach the user's model."""
    try:
        return question(about, state)
    except Exception as error:  # noqa: BLE001 - whatever a pattern raises
        return Decline("error", f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------------------------------------------------- horizontal


def _horizontal(pattern: HorizontalPattern, rewriter: Rewriter) -> None:
    refusals: dict[Node, Decline] = {}
    for _ in range(ROUNDS):
        refusals.clear()
        if not _round(pattern, rewriter, refusals) or not rewriter.admits(pattern):
            break
    for node, refusal in refusals.items():
        rewriter.decline(pattern, node, refusal)


def _round(pattern: HorizontalPattern, rewriter: Rewriter, refusals: dict[Node, Decline]) -> bool:
    state = rewriter.state
    candidates = _candidates(pattern, rewriter, refusals)
    if len(candidates) < pattern.min_fuse_set_size:
        refusals.update(dict.fromkeys(candidates, _too_few(pattern)))
        return False
    segments = _segments(state)
    keys = with_neighbourhoods(state.graph.nodes, candidates, pattern.max_depth)
    changed = False
    for segment in segments:
        inside = {n: keys[n] for n in segment if n in keys}
        if max(Counter(inside.values()).values(), default=0) < pattern.min_fuse_set_size:
            refusals.update(dict.fromkeys(inside, _too_few(pattern)))
            continue
        found = schedule(state, segment, inside, pattern.min_fuse_set_size, pattern.max_fuse_set_size)
        refusals.update(dict.fromkeys(found.lonely, _too_few(pattern)))
        groups = []
        for members in found.groups:
            paying = _asked(partial(_paying, pattern), members, state)
            if isinstance(paying, Decline):
                refusals.update(dict.fromkeys(members, paying))
            else:
                groups.append(paying)
        if groups:
            _reorder(segment, found)
            joined = [_join(pattern, members, rewriter) for members in groups]
            changed = changed or any(joined)
    return changed


def _paying(pattern: HorizontalPattern, members: list[Node], state: GraphState) -> list[Node] | Decline:
    """Those of ``members`` that the pattern would join."""
    found = pattern.worth(members, state)
    if isinstance(found, Decline):
        return found
    chosen = set(found)
    paying = [n for n in members if n in chosen]
    return paying if len(paying) >= pattern.min_fuse_set_size else _too_few(pattern)


def _too_few(pattern: HorizontalPattern) -> Decline:
    return Decline("too_few", f"fewer than min_fuse_set_size={pattern.min_fuse_set_size} alike and near each other")


def _segments(state: GraphState) -> list[list[Node]]:
    """The runs of nodes between placeholders, changes of ambient mode, and the output."""
    if not state.effect:
        whole = [n for n in state.graph.nodes if n.op not in ("placeholder", "output")]
        return [whole] if whole else []
    segments: list[list[Node]] = [[]]
    for node in state.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if state.effects(node).switches_mode:
            segments.append([])
        else:
            segments[-1].append(node)
    return [s for s in segments if s]


def _candidates(pattern: HorizontalPattern, rewriter: Rewriter, refusals: dict[Node, Decline]) -> dict[Node, Hashable]:
    found: dict[Node, Hashable] = {}
    state = rewriter.state
    for node in state.having(pattern.anchors):
        if node.meta.get(FUSED) == pattern.name or state.effects(node).switches_mode:
            continue
        key = _asked(pattern.key, node, state)
        common = common_key(node, state)
        if isinstance(key, Decline):
            refusals[node] = key
        elif key is None or common is None or not rewriter.is_plain(node):
            continue
        elif not pattern.fuse_returned and not state.escaping.isdisjoint(state.storages(node)):
            refusals[node] = Decline(Law.ALIASING.reason, "the result is returned, so that it needs memory of its own")
        elif node in state.doubtful:
            refusals[node] = Decline(Law.TYPES.reason, "its gradient may be none at all, and would become one of zeros")
        else:
            found[node] = (key, common)
    return found


def _reorder(segment: Sequence[Node], found: Schedule) -> None:
    """Put the nodes of ``segment`` into the order of the schedule."""
    place = segment[0].prev
    for node in found.order:
        if place.next is not node:
            place.append(node)
        place = node


def _join(pattern: HorizontalPattern, members: list[Node], rewriter: Rewriter) -> bool:
    def build(tx: Transaction) -> None:
        pattern.fuse(members, tx)
        for node in tx.new:
            node.meta[FUSED] = pattern.name

    return rewriter.apply(pattern, Match(tuple(members), members[0]), build)
