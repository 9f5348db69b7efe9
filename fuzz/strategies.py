"""The public strategies: shapes, tensors, programs.

``programs(cases)`` grows programs from the cases of a pattern and disturbs them; ``programs()`` knows no pattern. Both
draw locally, stop by a drawn flag, and keep only programs that eager runs, so they shrink to few steps and small sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from fuzz.blind import blind_programs
from fuzz.disturb import DISTURBANCES, runs
from fuzz.program import LAYOUTS, Input, Program
from fuzz.templates import instantiate
from fuzz.tensors import EVERY_DTYPE, TensorSpec, tensor_specs
from fuzz.tensors import LAYOUTS as TENSOR_LAYOUTS
from optimus.capture import names, sample_sizes
from optimus.pattern import Case, Pattern

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)


def shapes(min_rank: int = 0, max_rank: int = 4, max_extent: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of ``min_rank`` to ``max_rank`` dimensions with extents from 0 to ``max_extent``."""
    return st.lists(st.integers(0, max_extent), min_size=min_rank, max_size=max_rank).map(tuple)


def inputs(
    name: str = "x", shape: st.SearchStrategy[tuple[int, ...]] | None = None, dtypes: Sequence[torch.dtype] = DTYPES
) -> st.SearchStrategy[Input]:
    """Descriptions of tensors: any of ``dtypes``, any layout, with or without gradient and special values."""
    return st.builds(
        Input,
        name=st.just(name),
        shape=shapes() if shape is None else shape,
        dtype=st.sampled_from(dtypes),
        requires_grad=st.booleans(),
        layout=st.sampled_from(LAYOUTS),
        special=st.booleans(),
        seed=st.integers(0, 99),
    )


def tensors(
    shape: st.SearchStrategy[tuple[int, ...]] | None = None, dtypes: Sequence[torch.dtype] = EVERY_DTYPE, layouts: Sequence[str] = TENSOR_LAYOUTS
) -> st.SearchStrategy[torch.Tensor]:
    """Tensors of any shape (default: 0-d to 4-d, empty ones too), of every dtype, in every layout, with or without gradient.

    Values: ordinary ones; zeros of both signs, NaN with payloads, infinities, subnormal numbers, the ends of the range; or both
    mixed. Layouts: row-major, transposed, permuted, strided, behind an offset, expanded, overlapping. Use
    :func:`fuzz.tensor_specs` for descriptions, which print as Python that makes the same tensor again.
    """
    return tensor_specs(shapes() if shape is None else shape, dtypes, layouts).map(TensorSpec.make)


@st.composite
def options(draw: st.DrawFn, pattern: Pattern) -> Pattern:
    """``pattern``, often with other options within their legal ranges: small numbers for numbers, either of two for flags."""
    if not draw(st.booleans()):
        return pattern
    for name, default in pattern.options().items():
        if isinstance(default, bool):
            pattern = replace(pattern, **{name: draw(st.booleans())})
        elif isinstance(default, int):
            number = draw(st.sampled_from((default, 2, 3, 1, 0)))
            with contextlib.suppress(ValueError):  # out of its range, or excluded by another
                pattern = replace(pattern, **{name: number})
    return pattern


@st.composite
def programs(draw: st.DrawFn, cases: Sequence[Case] = (), max_disturbances: int = 5) -> Program:
    """Programs that run in eager. With ``cases``: one of them at drawn sizes, disturbed up to ``max_disturbances`` times."""
    program = draw(planted(cases)) if cases else draw(blind_programs())
    for _ in range(max_disturbances):
        if not draw(st.sampled_from((False, True, True))):
            break
        disturb = draw(st.sampled_from(DISTURBANCES))
        changed = disturb(draw, program)
        if changed is not None and runs(changed):
            program = changed
    return program


@st.composite
def planted(draw: st.DrawFn, cases: Sequence[Case]) -> Program:
    """A case at drawn sizes, often all the same, as it stands."""
    case = draw(st.sampled_from(list(cases)))
    extents = st.sampled_from((2, 2, 3, 1, 4, 0))
    alike = draw(extents) if draw(st.booleans()) else None
    sizes: dict[str, Any] = {name: draw(extents) if alike is None else alike for name in names(case)}
    program = instantiate(case, sizes, seed=draw(st.integers(0, 9)))
    others = (dict.fromkeys(sizes, 2), sample_sizes(case))
    return program if runs(program) else next(p for given in others if runs(p := instantiate(case, given)))
