"""Linears of different shapes in one launch.

Each linear is a problem: a row of a table in device memory with its extents and strides, and four addresses in another.
Its result is cut into tiles; the programs of a launch are the tiles of all problems, one problem after the other, and
each finds its problem by the numbers of their first tiles. Sums are in float32, rounded once at the end. Every extent
is masked.

A launch takes problems of one layout, since only what is known while compiling (which stride is 1, what 16 divides)
makes wide loads: linears of ordinary weights need one launch, their backward pass three. What follows from shapes and
strides is computed once; a further call allocates results, sends addresses and launches.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from optimus.grouped import Biases, check

ANY, ROWS, COLS = 0, 1, 2
"""Along which dimension of a matrix its elements lie side by side: neither, the last, the first."""

DTYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


@triton.jit
def _load(base, rows, columns, row_end, column_end, row_stride, column_stride, ORDER: tl.constexpr, WIDTH: tl.constexpr):
    """A tile of a matrix, zero beyond its ends; ``ORDER`` as above. Along it, ``WIDTH`` elements are within or beyond the ends together."""
    mask = (rows < row_end)[:, None] & (columns < column_end)[None, :]
    if ORDER == 1:
        at = base + rows[:, None] * row_stride + columns[None, :]
        if WIDTH > 1:
            at = tl.max_contiguous(tl.multiple_of(at, (1, 16)), (1, WIDTH))
            mask = tl.max_constancy(mask, (1, WIDTH))
    elif ORDER == 2:
        at = base + rows[:, None] + columns[None, :] * column_stride
        if WIDTH > 1:
            at = tl.max_contiguous(tl.multiple_of(at, (16, 1)), (WIDTH, 1))
            mask = tl.max_constancy(mask, (WIDTH, 1))
    else:
        at = base + rows[:, None] * row_stride + columns[None, :] * column_stride
    return tl.load(at, mask=mask, other=0.0)


@triton.jit
def _group_linear(addresses, members, table, problems, DTYPE: tl.constexpr, MOST: tl.constexpr, X_ORDER: tl.constexpr, W_ORDER: tl.constexpr,
                  WIDTH: tl.constexpr, ONE_COLUMN: tl.constexpr, PRECISION: tl.constexpr, WIDEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                  BK: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    every = tl.arange(0, MOST)
    firsts = tl.load(table + every * 10, mask=every < problems, other=2147483647)
    row = table + (tl.sum((firsts <= tile).to(tl.int32), 0) - 1) * 10
    tile -= tl.load(row).to(tl.int32)
    address = addresses + tl.load(row + 1)
    pointer = tl.pointer_type(DTYPE)
    x, w = tl.load(address).to(pointer), tl.load(address + members).to(pointer)
    m, n, k = tl.load(row + 2).to(tl.int32), tl.load(row + 3).to(tl.int32), tl.load(row + 4).to(tl.int32)
    xm, xk, wn, wk = tl.load(row + 5), tl.load(row + 6), tl.load(row + 7), tl.load(row + 8)
    across = tl.cdiv(n, BN)
    rows = (tile // across) * BM + tl.arange(0, BM)
    columns = (tile % across) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    if ONE_COLUMN:  # a matrix times a vector: no use for a matrix unit, and none for its rounding
        partial = tl.zeros((BM, BK), tl.float32)
        for start in range(0, k, BK):
            steps = start + inner
            a = _load(x, rows, steps, m, k, xm, xk, X_ORDER, WIDTH)
            b = tl.load(w + steps * wk, mask=steps < k, other=0.0)
            partial += a.to(tl.float32) * b.to(tl.float32)[None, :]
        total = tl.sum(partial, 1)[:, None] + tl.zeros((BM, BN), tl.float32)
    else:
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            steps = start + inner
            a = _load(x, rows, steps, m, k, xm, xk, X_ORDER, WIDTH)
            b = _load(w, columns, steps, n, k, wn, wk, W_ORDER, WIDTH)
            if WIDEN:
                a, b = a.to(tl.float32), b.to(tl.float32)
            total = tl.dot(a, tl.trans(b), total, input_precision=PRECISION)
    bias = tl.load(address + 2 * members)
    if bias != 0:
        total += tl.load(bias.to(pointer) + columns * tl.load(row + 9), mask=columns < n, other=0.0).to(tl.float32)[None, :]
    out = tl.load(address + 3 * members).to(pointer) + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(out, total.to(DTYPE), mask=(rows < m)[:, None] & (columns < n)[None, :])


@dataclass(frozen=True, slots=True)
class _Layout:
    """What all problems of one launch have in common; ``width``: how many elements one load takes."""

    x_order: int
    w_order: int
    width: int
    one_column: bool


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch, but for the addresses."""

    layout: _Layout
    table: Tensor
    problems: int
    tiles: int
    tile: tuple[int, int, int]


@dataclass
class _Plan:
    """What follows from shapes, strides, dtype and device. ``launches``: by whether 16 divides all addresses."""

    shapes: list[tuple[int, ...]]
    launches: dict[bool, list[_Launch]] = field(default_factory=dict)


MOST_PLANS = 1000
_plans: dict[Hashable, _Plan] = {}
_looks = attrgetter("shape", "dtype")


def group_linear(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> list[Tensor]:
    """``linear(inputs[i], weights[i], biases[i])`` for every ``i``, each in memory of its own.

    All of one dtype of ``DTYPES`` and on one device; inputs of any rank, weights of two dimensions, biases of one. Raises
    what :func:`optimus.grouped.check` does.
    """
    plan = _plan(inputs, weights, biases)
    results = [inputs[0].new_empty(shape) for shape in plan.shapes]
    rows = [x if x.dim() == 2 else _matrix(x) for x in inputs]  # copies live until all is launched, then the order of the stream keeps them
    addresses = [t.data_ptr() for t in (*rows, *weights)]
    aligned = not any(a % 16 for a in addresses)
    addresses += [0 if b is None else b.data_ptr() for b in biases]
    addresses += [t.data_ptr() for t in results]
    with torch.cuda.device(inputs[0].device) if inputs[0].is_cuda else nullcontext():
        if aligned not in plan.launches:
            plan.launches[aligned] = _launches(rows, weights, biases, aligned)
        sent = torch.frombuffer(array("q", addresses), dtype=torch.int64).to(inputs[0].device, non_blocking=True)
        for launch in plan.launches[aligned]:
            _run(launch, sent, len(inputs), inputs[0])
    return results


def _plan(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases) -> _Plan:
    given = [*inputs, *weights, *(b for b in biases if b is not None)]
    key = (len(inputs), *map(_looks, given), *map(Tensor.stride, given), *map(Tensor.get_device, given), *(b is None for b in biases))
    found = _plans.get(key)
    if found is None:
        check(inputs, weights, biases)
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        found = _plans[key] = _Plan([(*x.shape[:-1], w.shape[0]) for x, w in zip(inputs, weights, strict=True)])
    return found


def _matrix(x: Tensor) -> Tensor:
    return x.unsqueeze(0) if x.dim() == 1 else x.flatten(0, -2)


def _launches(inputs: Sequence[Tensor], weights: Sequence[Tensor], biases: Biases, aligned: bool) -> list[_Launch]:
    grouped: dict[_Layout, list[tuple[int, ...]]] = defaultdict(list)
    for number, (x, w, bias) in enumerate(zip(inputs, weights, biases, strict=True)):
        (m, k), n = x.shape, w.shape[0]
        if m and n:
            strides = (*x.stride(), *w.stride(), 0 if bias is None else bias.stride(0))
            grouped[_layout(x, w, aligned)].append((number, m, n, k, *strides))
    return [_launch(layout, problems, inputs[0]) for layout, problems in grouped.items()]


def _launch(layout: _Layout, problems: list[tuple[int, ...]], like: Tensor) -> _Launch:
    """A tile is no larger than the largest problem needs, and at least what a matrix unit takes."""
    bm, bn = (min(64, max(16, triton.next_power_of_2(max(p[i] for p in problems)))) for i in (1, 2))
    firsts = list(accumulate((triton.cdiv(m, bm) * triton.cdiv(n, bn) for _, m, n, *_ in problems), initial=0))
    table = torch.tensor([(first, *p) for first, p in zip(firsts, problems, strict=False)], dtype=torch.int64, device=like.device)
    return _Launch(layout, table, len(problems), firsts[-1], (bm, bn, 32 if like.dtype == torch.float32 else 64))


def _layout(x: Tensor, w: Tensor, aligned: bool) -> _Layout:
    width = 16 // x.element_size()
    one_column = w.shape[0] == 1
    x_order, w_order = _order(x), ANY if one_column else _order(w)
    wide = aligned and _wide(x, x_order, width) and (one_column or _wide(w, w_order, width))
    return _Layout(x_order, w_order, width if wide else 1, one_column)


def _order(matrix: Tensor) -> int:
    return ROWS if matrix.stride(1) == 1 else COLS if matrix.stride(0) == 1 else ANY


def _wide(matrix: Tensor, order: int, width: int) -> bool:
    """Whether loads of ``width`` elements along ``order`` start at multiples of 16 bytes and never cross an end."""
    along, across = (1, 0) if order == ROWS else (0, 1)
    return order != ANY and matrix.shape[along] % width == 0 and matrix.stride(across) % width == 0


def _run(launch: _Launch, addresses: Tensor, members: int, like: Tensor) -> None:
    layout = launch.layout
    precision = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"
    widen = not like.is_cuda and like.dtype == torch.bfloat16  # Triton's interpreter would multiply the bits as whole numbers
    kernel: Any = _group_linear
    kernel[(launch.tiles,)](
        addresses, members, launch.table, launch.problems, DTYPES[like.dtype], triton.next_power_of_2(launch.problems), layout.x_order,
        layout.w_order, layout.width, layout.one_column, precision, widen, *launch.tile,
    )  # fmt: skip
