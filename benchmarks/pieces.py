"""A program for each pattern with any number of pieces or members, every size of it a symbol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
import torch.nn.functional as F

import optimus
from optimus.pattern import Case, Pattern

Program = Callable[..., Any]


def _members(function: Program) -> Callable[[int], Case]:
    return lambda n: optimus.fires(*["m, k"] * n)(lambda *xs: torch.cat([function(x) for x in xs]))


def _linears(n: int) -> Case:
    def linears(*t: torch.Tensor) -> Any:
        return torch.stack([F.linear(x, w, b) for x, w, b in zip(t[:n], t[n : 2 * n], t[2 * n :], strict=True)])

    return optimus.fires(*["m, k"] * n, *["o, k"] * n, *["o"] * n)(linears)


def _linears_of_one(n: int) -> Case:
    def linears(x: torch.Tensor, *t: torch.Tensor) -> Any:
        return torch.cat([F.linear(x, w, b) for w, b in zip(t[:n], t[n:], strict=True)], dim=1)

    return optimus.fires("m, k", *["o, k"] * n, *["o"] * n)(linears)


def _linears_of_widths(n: int) -> Case:
    def linears(*t: torch.Tensor) -> Any:
        return torch.cat([F.linear(x, w, b) for x, w, b in zip(t[:n], t[n : 2 * n], t[2 * n :], strict=True)], dim=1)

    widths = [f"o{k % 3}" for k in range(n)]
    return optimus.fires(*["m, k"] * n, *[f"{w}, k" for w in widths], *widths)(linears)


def _norms(n: int) -> Case:
    def norms(x: torch.Tensor, *t: torch.Tensor) -> Any:
        return torch.cat([F.layer_norm(s, (8,), w, b) for s, w, b in zip(torch.unbind(x), t[:n], t[n:], strict=True)])

    return optimus.fires(f"{n}, m, 8", *["8"] * (2 * n))(norms)


def _einsums(n: int) -> Case:
    def einsums(*t: torch.Tensor) -> Any:
        return [torch.einsum("abc,abcd->abd", x, w) * 2 for x, w in zip(t[:n], t[n:], strict=True)]

    return optimus.fires(*["a, b, c"] * n, *["a, b, c, d"] * n)(einsums)


def _pieces(shape: str, function: Callable[[Any, int, int], Any], *others: str) -> Callable[[int], Case]:
    """A program of one tensor of ``n`` pieces of ``k``, written ``N`` in ``shape``."""

    def case(n: int) -> Case:
        def with_size(x: torch.Tensor, k: int) -> Any:
            return function(x, k, n)

        def with_other(x: torch.Tensor, y: torch.Tensor, k: int) -> Any:
            return function((x, y), k, n)

        return optimus.fires(shape.replace("N", str(n)), *others)(with_other if others else with_size)

    return case


def _slices(function: Callable[[Any], Any], *others: str) -> Callable[[int], Case]:
    """A program of one tensor whose first dimension has the extent ``n``."""

    def case(n: int) -> Case:
        return optimus.fires(f"{n}, m, k", *others)(lambda *t: function(t))

    return case


def _merged(x: Any, k: int, n: int) -> Any:
    first, rest = torch.split(x, [k, (n - 1) * k], dim=1)
    return [p * 2 for p in (first, *torch.split(rest, [k] * (n - 1), dim=1))]


def _cut(x: Any, k: int, n: int, dim: int = 1) -> tuple[torch.Tensor, ...]:
    return torch.split(x, [k] * n, dim=dim)


def _inner(x: Any, k: int, n: int) -> Any:
    pieces = _cut(x, k, n)
    return torch.cat(pieces[1:-1], dim=1).sin(), pieces[0] * 2, pieces[-1]


def _kept(x: Any, k: int, n: int) -> Any:
    pieces = _cut(x, k, n)
    return torch.cat(pieces, dim=1) * 2, [p + 1 for p in pieces]


def _beside(t: Any, k: int, n: int) -> Any:
    pieces = _cut(t[0], k, n)
    return torch.cat([t[1], *pieces], dim=1).exp(), pieces[1] * 2


PROGRAMS: dict[str, Callable[[int], Case]] = {
    "batch_linear": _linears,
    "batch_linear_lhs": _linears_of_one,
    "group_linear": _linears_of_widths,
    "batch_tanh": _members(torch.tanh),
    "batch_sigmoid": _members(torch.sigmoid),
    "batch_relu": _members(torch.relu),
    "batch_detach": _members(lambda x: x.detach() * 2),
    "batch_clamp": _members(lambda x: torch.clamp(x, -1, 1)),
    "batch_nan_to_num": _members(torch.nan_to_num),
    "batch_layernorm": _norms,
    "normalization_pass": _pieces("m, N * k", lambda x, k, n: [p + 1 for p in x.split([k] * n, -1)]),
    "remove_split_with_size_one_pass": lambda n: optimus.fires(*["m, k"] * n)(lambda *xs: [x.chunk(1, dim=-1)[0].sin() for x in xs]),
    "merge_getitem_cat_pass": _pieces("m, N * k", _inner),
    "merge_splits_pass": _pieces("m, N * k", _merged),
    "mutate_cat_pass": _pieces("m, N * k", _kept),
    "split_cat_pass": _pieces("m, N * k", lambda x, k, n: torch.cat(_cut(x, k, n), dim=1) * 2),
    "unbind_stack_pass": _slices(lambda t: torch.stack(torch.unbind(t[0]), dim=1).sin()),
    "split_cat_to_slices_pass": _pieces("m, N * k", _beside, "m, e"),
    "unbind_cat_to_view_pass": _slices(lambda t: torch.cat(torch.unbind(t[0]), dim=1) * 2),
    "split_stack_to_cats_pass": _pieces("N * k, m", lambda x, k, n: torch.stack(_cut(x, k, n, 0)) * 2),
    "unbind_stack_to_slices_pass": _slices(lambda t: torch.stack(torch.unbind(t[0])) * 2),
    "move_reshape_out_of_split_stack_pass": _pieces("N * k, m", lambda x, k, n: torch.stack([p.reshape(-1) for p in _cut(x, k, n, 0)]).sin()),
    "einsum_to_pointwise_pass": _einsums,
}


def for_any_number(pattern: Pattern) -> Pattern:
    """The pattern as it fires on few members too."""
    small = {name: 2 for name in ("min_fuse_set_size", "threshold_to_cat") if name in {f.name for f in fields(pattern)}}
    return replace(pattern.judged(), **small)
