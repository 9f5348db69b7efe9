"""Wrong ways to rewrite one or two operators: an argument forgotten, a cast, a NaN, an index, a factor of a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from optimus.operators import Call, bind
from optimus.pattern import Decline, Exactness, Match, declines, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import tensor

from .bare import BareSubject
from .building import Rule


@dataclass(frozen=True)
class OneOperator(Rule):
    """``op(...)  ->  put(...)`` where ``fits``."""

    requirements = {"fits": "the arguments are as they should be"}

    def fits(self, call: Call) -> bool:
        return True

    def put(self, tx: Transaction, call: Call) -> Node:
        raise NotImplementedError

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        call = bind(node)
        if call is None or call.writes or call.args.get("out") is not None or tensor(node) is None:
            return None
        return Match((node,), node, call) if self.fits(call) else Decline("fits")

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, self.put(tx, match.found))


@fires("n, k", "n, k")
def difference(x, y):
    return torch.sub(x, y) * 2


@declines("fits", "n, k", "n, k")
def scaled_difference(x, y):
    return torch.sub(x, y, alpha=3) * 2


@dataclass(frozen=True)
class PlainDifference(OneOperator):
    """``sub(x, y)  ->  x + -y``: right as it stands."""

    name = "plain_difference"
    anchors = frozenset({"sub"})
    cases = (difference,)
    declines = (scaled_difference,)

    def fits(self, call):
        return call["alpha"] == 1 and all(isinstance(call[n], Node) for n in ("self", "other"))

    def put(self, tx, call):
        return tx.call(torch.add, call["self"], tx.call(torch.neg, call["other"]))


@dataclass(frozen=True)
class AlphaDropped(PlainDifference):
    """The factor of the second operand is forgotten."""

    name = "alpha_dropped"

    def fits(self, call):
        return all(isinstance(call[n], Node) for n in ("self", "other"))


@fires("n, m", "n, k", "k, m")
def affine(b, x, y):
    return torch.addmm(b, x, y) * 2


@declines("fits", "n, m", "n, k", "k, m")
def scaled_affine(b, x, y):
    return torch.addmm(b, x, y, beta=0.5, alpha=0.25) * 2


@dataclass(frozen=True)
class Unfused(OneOperator):
    """``addmm(b, x, y)  ->  b + x @ y``: right as it stands, up to rounding."""

    name = "unfused"
    anchors = frozenset({"addmm"})
    exactness = Exactness.REASSOCIATES
    cases = (affine,)
    declines = (scaled_affine,)

    def fits(self, call):
        return call["alpha"] == 1 and call["beta"] == 1

    def put(self, tx, call):
        return tx.call(torch.add, call["self"], tx.call(torch.mm, call["mat1"], call["mat2"]))


@dataclass(frozen=True)
class FactorsDropped(Unfused):
    """Both factors are forgotten."""

    name = "factors_dropped"

    def fits(self, call):
        return True


@fires("n, k")
def narrow_and_back(x):
    return x.to(torch.bfloat16).to(torch.float32) * 2


@fires("n, k: bfloat16")
def wide_and_back(x):
    return x.to(torch.float32).to(torch.bfloat16) * 2


@dataclass(frozen=True)
class RoundTrip(OneOperator):
    """``x.to(wider).to(dtype of x)  ->  x``: right as it stands."""

    name = "round_trip"
    anchors = frozenset({"to"})
    cases = (wide_and_back,)
    declines = ()

    def loses(self, narrow: torch.dtype, wide: torch.dtype) -> bool:
        return not (narrow is torch.bfloat16 and wide is torch.float32)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        inner = node.args[0] if node.args else None
        source = inner.args[0] if isinstance(inner, Node) and inner.target == "to" and inner.args else None
        if node.target != "to" or not isinstance(source, Node) or any(len(n.args) != 2 for n in (node, inner)):
            return None
        x, y, z = (tensor(n) for n in (source, inner, node))
        if x is None or y is None or z is None or x.dtype is not z.dtype or x.dtype is y.dtype or self.loses(x.dtype, y.dtype):
            return None
        return Match((inner, node), node, source)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, tx.call(torch.clone, match.found))


@dataclass(frozen=True)
class RoundingForgotten(RoundTrip):
    """A cast there and back is taken for nothing, whichever of the two types holds less."""

    name = "rounding_forgotten"
    cases = (narrow_and_back, wide_and_back)

    def loses(self, narrow, wide):
        return False


@fires("n, k", "n, k")
def larger(x, y):
    return torch.maximum(x, y) * 2


@fires("n, k: int64", "n, k: int64")
def larger_of_integers(x, y):
    return torch.maximum(x, y) * 2


@dataclass(frozen=True)
class WhereOfIntegers(OneOperator):
    """``maximum(x, y)  ->  where(x > y, x, y)`` of integers: right as it stands."""

    name = "where_of_integers"
    anchors = frozenset({"maximum"})
    cases = (larger_of_integers,)
    declines = ()

    def fits(self, call):
        return all((t := tensor(call[n])) is not None and not t.is_floating_point() for n in ("self", "other"))

    def put(self, tx, call):
        x, y = call["self"], call["other"]
        return tx.call(torch.where, tx.call(torch.gt, x, y), x, y)


@dataclass(frozen=True)
class NanLost(WhereOfIntegers):
    """A comparison with NaN is false: the other operand comes out, where ``maximum`` says NaN."""

    name = "nan_lost"
    cases = (larger,)

    def fits(self, call):
        return True


@fires("n, k", grad=False)
def place_of_the_least(x):
    return torch.argmin(x.t()) + 1


@fires("n, k", grad=False)
def the_least(x):
    return torch.amin(x.t()) * 2


@dataclass(frozen=True)
class LeastOfAll(OneOperator):
    """``amin(x.t())  ->  amin(x)``: right as it stands."""

    name = "least_of_all"
    anchors = frozenset({"amin"})
    cases = (the_least,)
    declines = ()

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        inner = node.args[0] if len(node.args) == 1 and not node.kwargs else None
        turned = bind(inner) if isinstance(inner, Node) else None
        return Match((inner, node), node, turned["self"]) if turned is not None and turned.op == "t" else None

    def rewrite(self, match: Match, tx: Transaction) -> None:
        tx.replace(match.before, tx.call(self.operator(), match.found))

    def operator(self) -> Callable[..., Any]:
        return torch.amin


@dataclass(frozen=True)
class PlaceNotTurned(LeastOfAll):
    """The place of the least element counts in the order of the transposed matrix."""

    name = "place_not_turned"
    anchors = frozenset({"argmin"})
    cases = (place_of_the_least,)

    def operator(self):
        return torch.argmin


@fires("n, k", "n, k")
def product(x, y):
    return (x * y).cos()


@dataclass(frozen=True)
class ProductWithoutGradient(OneOperator):
    """``x * y  ->  x * y.detach()`` where no gradient of ``y`` is wanted: right as it stands."""

    name = "product_without_gradient"
    anchors = frozenset({"mul"})
    cases = ()
    declines = ()

    def fits(self, call):
        return isinstance(call["other"], Node) and (t := tensor(call["other"])) is not None and not t.requires_grad

    def put(self, tx, call):
        return tx.call(torch.mul, call["self"], tx.call(torch.detach, call["other"]))


@dataclass(frozen=True)
class GradientLost(ProductWithoutGradient):
    """One operand is cut off: the value is right, and one gradient is none."""

    name = "gradient_lost"
    cases = (product,)

    def fits(self, call):
        return isinstance(call["self"], Node) and isinstance(call["other"], Node)


@fires("a, b, c")
def turned(x):
    return torch.permute(x, (0, 2, 1)) * 2


@declines("fits", "a, b, c")
def turned_further(x):
    return torch.permute(x, (1, 2, 0)) * 2


@dataclass(frozen=True)
class LastTwo(OneOperator):
    """``permute(x, (0, 2, 1))  ->  transpose(x, 1, 2)``: right as it stands."""

    name = "last_two"
    anchors = frozenset({"permute"})
    cases = (turned,)
    declines = (turned_further,)

    def fits(self, call):
        return tuple(call["dims"]) == (0, 2, 1)

    def put(self, tx, call):
        return tx.call(torch.transpose, call["self"], 1, 2)


@dataclass(frozen=True)
class BatchMoved(LastTwo):
    """Only where the middle dimension comes from is read, so that a permutation that moves the first one matches too."""

    name = "batch_moved"

    def fits(self, call):
        return len(call["dims"]) == 3 and call["dims"][1] == 2


@fires("n, k", grad=False)
def saturated(x):
    return torch.clamp(torch.round(x * 100), -128, 127).to(torch.int8)


@dataclass(frozen=True)
class SaturatedTwice(OneOperator):
    """``clamp(x, a, b)  ->  clamp(clamp(x, a, b), a, b)``: right as it stands."""

    name = "saturated_twice"
    anchors = frozenset({"clamp"})
    cases = (saturated,)
    declines = ()
    counter: int = 1

    def fits(self, call):
        return all(isinstance(call[n], (int, float)) for n in ("min", "max")) and bind(call["self"]) is not None and bind(call["self"]).op != "clamp"

    def put(self, tx, call):
        once = tx.call(torch.clamp, call["self"], call["min"], call["max"])
        return tx.call(torch.clamp, once, call["min"], call["max"])


@dataclass(frozen=True)
class NotSaturated(SaturatedTwice):
    """The clamp in front of a cast to a narrow type is left out: what is out of range wraps."""

    name = "not_saturated"

    def put(self, tx, call):
        return tx.call(torch.clone, call["self"])


@fires("n, k", grad=False)
def unused_write(x):
    y = x * 2
    y.add_(1)
    return y * 3


def _drop(graph: Graph, also_writes: bool) -> bool:
    """Erase what nobody reads; ``also_writes``: in-place operators too."""
    done = False
    for node in reversed(list(graph.nodes)):
        call = bind(node)
        if node.users or call is None or call.random or (call.writes and not also_writes) or call.reshapes:
            continue
        graph.erase_node(node)
        done = True
    return done


EFFECT_DROPPED = BareSubject("effect_dropped", lambda graph: _drop(graph, True), (unused_write,))
DEAD_DROPPED = BareSubject("dead_dropped", lambda graph: _drop(graph, False), (unused_write,))
