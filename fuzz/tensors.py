"""Tensors of every kind: values that are hard on rewrites, every dtype, every layout. A description makes the tensor, and prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

FLOATS = {torch.float64: (11, 52), torch.float32: (8, 23), torch.bfloat16: (8, 7), torch.float16: (5, 10)}
"""Bits of exponent and mantissa."""

SMALL_FLOATS = tuple(
    d for n in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz") if isinstance(d := getattr(torch, n, None), torch.dtype)
)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}

EVERY_DTYPE = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, *INTEGERS, torch.bool, torch.complex64, torch.complex128, *SMALL_FLOATS,
)  # fmt: skip

LAYOUTS = ("contiguous", "transposed", "strided", "offset", "permuted", "expanded", "overlapping")
"""Row-major; the last two dimensions exchanged in memory; every other element of a larger tensor; behind the start of its memory;
all dimensions in reverse order; the first dimension repeated with stride 0; windows that overlap, each dimension with stride 1."""

VALUES = ("ordinary", "special", "mixed")
"""From a normal distribution or of small integers; of :func:`specials` alone; of both."""

_BITS = {64: torch.int64, 32: torch.int32, 16: torch.int16}


@dataclass(frozen=True)
class TensorSpec:
    """A tensor by its description. The same description makes the same tensor, bit by bit."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    values: str = "ordinary"
    requires_grad: bool = False
    seed: int = 0

    def make(self) -> torch.Tensor:
        """The tensor; gradients are required of floating-point and complex ones alone."""
        made = _laid_out(self.layout, self.shape, self._draw)
        return made.detach().requires_grad_(self.requires_grad and (self.dtype in FLOATS or self.dtype in COMPLEX))

    def _draw(self, shape: tuple[int, ...]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        ordinary = _ordinary(shape, self.dtype, generator)
        if self.values == "ordinary" or not ordinary.numel():
            return ordinary
        table = specials(self.dtype)
        picked = torch.randint(0, len(table), shape, generator=generator)
        special = _bits(table)[picked].view(self.dtype) if self.dtype not in COMPLEX else table[picked]
        if self.values == "special":
            return special
        return _where(torch.rand(shape, generator=generator) < 0.5, special, ordinary)

    def __repr__(self) -> str:
        return f"TensorSpec({self.shape}, {self.dtype}, {self.layout!r}, {self.values!r}, {self.requires_grad}, {self.seed})"


def specials(dtype: torch.dtype) -> torch.Tensor:
    """The hard values of a dtype, as one dimension: zeros of both signs, infinities, NaN quiet and signalling, of both signs and with
    payloads, the least and greatest subnormal and normal numbers, 1 and its neighbour; the ends of integers."""
    if dtype in FLOATS:
        exponent, mantissa = FLOATS[dtype]
        width = 1 + exponent + mantissa
        sign, infinite, one = 1 << (width - 1), ((1 << exponent) - 1) << mantissa, ((1 << (exponent - 1)) - 1) << mantissa
        quiet, full = infinite | 1 << (mantissa - 1), (1 << mantissa) - 1
        positive = (0, 1, full, 1 << mantissa, one, one + 1, infinite - 1, infinite, quiet, quiet | 5, infinite | 1)
        patterns = [p | s for p in positive for s in (0, sign)]
        signed = [p - (1 << width) if p >> (width - 1) else p for p in patterns]
        return torch.tensor(signed, dtype=_BITS[width]).view(dtype)
    if dtype in COMPLEX:
        parts = specials(COMPLEX[dtype])
        return torch.complex(parts, parts.flip(0)).to(dtype)
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype in SMALL_FLOATS:
        info = torch.finfo(dtype)
        return torch.tensor([0.0, -0.0, math.nan, info.tiny, -info.max, info.max, 1.0]).to(dtype)
    info_i = torch.iinfo(dtype)
    return torch.tensor([0, 1, info_i.max, info_i.min, info_i.max - 1], dtype=dtype)


def _bits(table: torch.Tensor) -> torch.Tensor:
    """``table`` as integers of the same width, so that indexing keeps the payload of a NaN."""
    return table.view(_BITS.get(8 * table.element_size(), torch.uint8)) if table.dtype is not torch.bool else table.to(torch.uint8)


def _where(chosen: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if one.dtype in COMPLEX:
        return torch.where(chosen, one, other)
    return torch.where(chosen, _bits(one), _bits(other)).view(one.dtype)


def _ordinary(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype in INTEGERS:
        return torch.randint(0 if dtype is torch.uint8 else -4, 5, shape, generator=generator).to(dtype)
    if dtype in COMPLEX:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def _laid_out(layout: str, shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], torch.Tensor]) -> torch.Tensor:
    """The tensor that ``draw`` gives for some larger or other shape, seen as ``shape``. Where a layout needs more dimensions: as it is."""
    rank = len(shape)
    if layout == "transposed" and rank >= 2:
        return draw((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
    if layout == "permuted" and rank >= 2:
        return draw(shape[::-1]).permute(*reversed(range(rank)))
    if layout == "strided" and rank:
        return draw((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "offset" and rank:
        return draw((shape[0] + 1, *shape[1:]))[1:]
    if layout == "expanded" and rank:
        return draw((1, *shape[1:])).expand(shape)
    if layout == "overlapping" and rank and all(shape):
        return draw((1 + sum(s - 1 for s in shape),)).as_strided(shape, (1,) * rank)
    return draw(shape)


def tensor_specs(
    shape: st.SearchStrategy[tuple[int, ...]], dtypes: Sequence[torch.dtype] = EVERY_DTYPE, layouts: Sequence[str] = LAYOUTS
) -> st.SearchStrategy[TensorSpec]:
    """Descriptions of tensors of ``dtypes`` in ``layouts``. They shrink to a small row-major float32 of ordinary values."""
    return st.builds(
        TensorSpec,
        shape=shape,
        dtype=st.sampled_from(dtypes),
        layout=st.sampled_from(layouts),
        values=st.sampled_from(VALUES),
        requires_grad=st.booleans(),
        seed=st.integers(0, 99),
    )
