"""Wrong rules at ATen-IR."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.fx import Node

from optimus.horizontal import shape_key
from optimus.operators import bound
from optimus.passes import aten_decompose_mm, aten_pad_mm, aten_select_cat, aten_split_cat
from optimus.passes._aten import aten, hand_out, stack
from optimus.passes._joins import Found
from optimus.passes._slices import extents, slice_of, times
from optimus.passes.aten_batch_linear import BatchLinearPostGrad
from optimus.passes.aten_batch_sub import BatchAtenSub
from optimus.passes.aten_decompose_mm import DecomposeMm
from optimus.passes.aten_pad_mm import PadAtenMm
from optimus.passes.aten_select_cat import SelectCatAten
from optimus.passes.aten_split_cat import SplitCatAten
from optimus.pattern import Decline, Match, fires
from optimus.rewriter import Transaction
from optimus.state import GraphState
from optimus.values import tensor


@fires("n, k", "n, k", "n, k", "n, k")
def two_pairs(a, b, x, y):
    return torch.cat([a - x, b - y])


@fires("n: int64", "n: int64", "n: int64", "n: int64", grad=False)
def two_scaled_pairs(a, b, x, y):
    return torch.cat([torch.sub(a, x, alpha=3), torch.sub(b, y, alpha=3)])


@dataclass(frozen=True)
class FactorDropped(BatchAtenSub):
    """The joint operator takes the second operands once, whatever ``alpha`` says."""

    name = "factor_dropped"
    cases = (two_pairs, two_scaled_pairs)
    declines = ()

    def key(self, node: Node, state: GraphState) -> Hashable | Decline | None:
        return (shape_key(node), *(shape_key(bound(node)[name]) for name in ("self", "other"))) if node.target is aten.sub.Tensor else None

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        hand_out(tx, members, tx.call(aten.sub.Tensor, *(stack(tx, [c[name] for c in calls]) for name in ("self", "other"))))


@fires("m, k", "m, k", "k, n", "k, n", "n", "n")
def two_linears(x, y, v, w, b, c):
    return torch.cat([torch.addmm(b, x, v), torch.addmm(c, y, w)])


@dataclass(frozen=True)
class BiasesTurned(BatchLinearPostGrad):
    """The last bias is added to the first product."""

    name = "biases_turned"
    cases = (two_linears,)
    declines = ()

    def fuse(self, members: Sequence[Node], tx: Transaction) -> None:
        calls = [bound(n) for n in members]
        if calls[0].op != "addmm" or any(c["beta"] != 1 or c["alpha"] != 1 for c in calls):
            return
        left, right = (stack(tx, [c[name] for c in calls]) for name in ("mat1", "mat2"))
        bias = stack(tx, [c["self"] for c in reversed(calls)])
        while (fake := tensor(bias)) is not None and fake.dim() < 3:
            bias = tx.call(aten.unsqueeze.default, bias, 1)
        hand_out(tx, members, tx.call(aten.baddbmm.default, bias, left, right))


@dataclass(frozen=True)
class SourcesUnread(SelectCatAten):
    """Slices with the numbers of all slices of the first one's tensor are taken for those."""

    name = "sources_unread"
    cases = (aten_select_cat.along_the_cut,)
    declines = (aten_select_cat.two_tensors, aten_select_cat.another_order)

    def find(self, node: Node, state: GraphState) -> Match | Decline | None:
        slices = [slice_of(n) for n in node.args[0]] if node.target is aten.cat.default else []  # type: ignore[union-attr, arg-type]
        first = slices[0] if slices else None
        fake = None if first is None else tensor(first.source)
        if first is None or fake is None or fake.shape[first.dim] != len(slices) or first.dim != 0 or node.args[1:] not in ((), (0,)):
            return None
        if any(s is None or (s.dim, s.index) != (0, k) for k, s in enumerate(slices)):
            return Decline("every_slice")
        return Match((*(n for n in node.args[0]), node), node, first.source)  # type: ignore[union-attr, misc]

    def rewrite(self, match: Match, tx: Transaction) -> None:
        shape = extents(tx, match.found)
        tx.replace(match.nodes[-1], tx.call(aten.view.default, tx.copy(match.found), [times(tx, *shape[:2]), *shape[2:]]))


@dataclass(frozen=True)
class StrangersBehind(SplitCatAten):
    """Inputs of other origin come behind the runs between which they stood."""

    name = "strangers_behind"
    cases = (aten_split_cat.all_pieces_and_another, aten_split_cat.two_sources)
    declines = (aten_split_cat.along_another_dim,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found: Found = match.found
        runs = sorted(found.runs.items(), key=lambda item: item[0].start)
        if any(run.length < len(cut.sizes) for run, cut in runs):
            return
        covered = {p for run in found.runs for p in range(run.start, run.stop)}
        others = [n for p, n in enumerate(found.join.inputs) if p not in covered]
        tx.replace(found.join.node, tx.call(aten.cat.default, [*(cut.input for _, cut in runs), *others], found.join.dim))


@dataclass(frozen=True)
class FactorsUnread(DecomposeMm):
    """What ``addmm`` multiplies its summands by is left out."""

    name = "factors_unread"
    cases = (aten_decompose_mm.product, aten_decompose_mm.with_a_vector)
    declines = ()

    def rewrite(self, match: Match, tx: Transaction) -> None:
        super().rewrite(replace(match, found=replace(match.found, alpha=1, beta=1)), tx)


@dataclass(frozen=True)
class PaddedWithOnes(PadAtenMm):
    """Both factors get ones behind their summands."""

    name = "padded_with_ones"
    cases = (aten_pad_mm.product,)
    declines = (aten_pad_mm.aligned,)

    def rewrite(self, match: Match, tx: Transaction) -> None:
        found, (_, inner, _) = match.found
        if found.bias is not None or not inner:
            return
        left = tx.call(aten.constant_pad_nd.default, found.left, [0, inner], 1.0)
        right = tx.call(aten.constant_pad_nd.default, found.right, [0, 0, 0, inner], 1.0)
        tx.replace(found.node, tx.call(found.node.target, left, right))  # type: ignore[arg-type]
