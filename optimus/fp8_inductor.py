"""How Inductor compiles ``optimus::fp8_step`` and ``optimus::fp8_encode``: in kernels of their own, that read what memory holds.

Inside a fused kernel Inductor keeps float16 and bfloat16 wider than they are and rounds what it stores, so that what is fused with what
decides how results are rounded. An encoding that could be fused with the operators around it would change them. So what is encoded is
written to memory as it is where it is saved without encoding, and no kernel is fused with those of the encoding: the kernels of the
forward pass stay those that they are without it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from optimus.fp8 import encode, fp8_encode, fp8_step, step


@functools.cache
def register() -> None:
    """Tell Inductor. More than once does nothing."""
    from torch._inductor.lowering import register_lowering

    @register_lowering(fp8_step, type_promotion_kind=None)  # type: ignore[untyped-decorator]
    def _step(x: Any, format: torch.dtype) -> Any:
        return _apart(x, lambda: step(_lowered, x, x.get_dtype(), format))

    @register_lowering(fp8_encode, type_promotion_kind=None)  # type: ignore[untyped-decorator]
    def _encode(x: Any, step: Any, format: torch.dtype) -> Any:
        return _apart(x, lambda: encode(_lowered, x, x.get_dtype(), step, format))


def _lowered(op: Any, *args: Any) -> Any:
    """Inductor's form of an operator."""
    from torch._inductor.lowering import lowerings

    return lowerings[op](*args)


def _apart(x: Any, make: Any) -> Any:
    """What ``make`` makes of ``x``, all in buffers that are not fused with others."""
    from torch._inductor.virtualized import V

    x.realize()
    before = len(V.graph.buffers)
    found = make()
    found.realize()
    V.graph.no_fuse_buffer_names.update(b.get_name() for b in V.graph.buffers[before:])
    return found
