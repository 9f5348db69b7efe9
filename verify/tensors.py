"""Tensors written and read as they lie in memory: strides, offsets, and which of them share memory. No pickle."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from optimus.copies import is_stored, view

FILE, BYTES = "inputs.json", "inputs.bin"
DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}


def write_inputs(folder: Path, inputs: Sequence[Any]) -> None:
    """Write ``inputs`` as ``inputs.json``, which says what each is, and ``inputs.bin``, the bytes of their memory in turn.

    Raises ``TypeError`` for what is neither a strided tensor nor a number, text or None.
    """
    storages: dict[int, int] = {}
    described: list[dict[str, Any]] = []
    with (folder / BYTES).open("wb") as file:
        for given in inputs:
            if isinstance(given, torch.Tensor):
                if not is_stored(given) or given.is_conj() or given.is_neg():
                    raise TypeError(f"inputs: a {type(given).__name__} of layout {given.layout} cannot be written; accepted are strided tensors")
                storage = given.untyped_storage()
                if storage._cdata not in storages:
                    storages[storage._cdata] = file.tell()
                    held = storage.cpu()
                    file.write(ctypes.string_at(held.data_ptr(), held.nbytes()) if held.nbytes() else b"")
                described.append(_described(given, storages[storage._cdata], storage.nbytes()))
            elif given is None or isinstance(given, (bool, int, float, str)):
                described.append({"value": given})
            else:
                raise TypeError(f"inputs: a {type(given).__name__} cannot be written; accepted are tensors, numbers, texts and None")
    (folder / FILE).write_text(json.dumps(described, indent=1))


def _described(given: torch.Tensor, start: int, length: int) -> dict[str, Any]:
    return {
        "dtype": str(given.dtype).removeprefix("torch."),
        "shape": list(given.shape),
        "stride": list(given.stride()),
        "offset": given.storage_offset(),
        "memory": [start, length],
        "device": given.device.type,
        "requires_grad": given.requires_grad,
    }


def read_inputs(folder: Path, device: str | None = None) -> tuple[Any, ...]:
    """What :func:`write_inputs` wrote, on ``device`` (default: where each was, or the CPU where that is missing)."""
    memory = (folder / BYTES).read_bytes()
    storages: dict[tuple[int, int, str], torch.UntypedStorage] = {}
    found: list[Any] = []
    for one in json.loads((folder / FILE).read_text()):
        if "value" in one:
            found.append(one["value"])
            continue
        start, length = one["memory"]
        place = device or (one["device"] if one["device"] != "cuda" or torch.cuda.is_available() else "cpu")
        key = (start, length, place)
        if key not in storages:
            held = torch.empty(length, dtype=torch.uint8)
            if length:
                ctypes.memmove(held.data_ptr(), memory[start : start + length], length)
            storages[key] = held.to(place).untyped_storage()
        found.append(view(storages[key], DTYPES[one["dtype"]], one["offset"], one["shape"], one["stride"], one["requires_grad"]))
    return tuple(found)
