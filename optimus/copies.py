"""Copies of tensors as they lie in memory: strides, offsets, and which of them share it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch


def is_stored(given: Any) -> bool:
    """Whether ``given`` is an ordinary strided tensor."""
    return isinstance(given, torch.Tensor) and type(given) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and given.layout is torch.strided


def fresh(inputs: Sequence[Any]) -> list[Any]:
    """Copies of ``inputs`` that share memory with one another as these do, and with nothing else.

    What is no ordinary tensor is cloned if it is a tensor, else taken as it is.
    """
    return _copies(inputs, None)


def beside(inputs: Sequence[Any], written: Collection[int]) -> list[Any]:
    """Leaves that hold what ``inputs`` hold; those numbered ``written``, and what shares memory with them, in memory of their own."""
    return _copies(inputs, {i.untyped_storage()._cdata for k, i in enumerate(inputs) if k in written and is_stored(i)})


def _copies(inputs: Sequence[Any], apart: set[int] | None) -> list[Any]:
    """``apart``: the storages to be copied; None: all."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(given: Any) -> Any:
        if not isinstance(given, torch.Tensor):
            return given
        if not is_stored(given) or given.is_conj() or given.is_neg():
            return given.detach().clone().requires_grad_(given.requires_grad)
        storage = given.untyped_storage()
        if apart is not None and storage._cdata not in apart:
            return given.detach().requires_grad_(given.requires_grad)
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.clone()
        return view(storages[storage._cdata], given.dtype, int(given.storage_offset()), given.shape, given.stride(), given.requires_grad)

    with torch.no_grad():
        return [copied(i) for i in inputs]


def view(
    storage: torch.UntypedStorage, dtype: torch.dtype, offset: int, shape: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> torch.Tensor:
    """A leaf over a part of ``storage``."""
    made = torch.empty(0, dtype=dtype, device=storage.device)
    with torch.no_grad():
        made.set_(storage, offset, tuple(shape), tuple(stride))
    return made.requires_grad_(requires_grad)
