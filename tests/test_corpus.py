"""Every fault ever found in a rewrite is kept, whole, and stays mended."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.judge import compiled, differing, eager
from tests.hostile.registry import Hostile
from verify.corpus import eager_plan, entry, replay

CORPUS = Path(__file__).parent.parent / "corpus"
FOLDERS = sorted(d for d in CORPUS.iterdir() if (d / "program.py").exists() or (d / "fault.json").exists())
MODELS = [d for d in FOLDERS if (d / "model.json").exists()]
FAULTS = [d for d in FOLDERS if d not in MODELS]
LIMIT = 200 * 1024  # bytes in all


def loaded(folder: Path) -> dict[str, Any]:
    return runpy.run_path(str(folder / "program.py"))


@pytest.mark.parametrize("folder", FAULTS, ids=lambda d: d.name)
def test_folder_is_complete(folder: Path) -> None:
    fault = json.loads((folder / "fault.json").read_text())
    assert set(fault) == {"what", "broke", "address", "right"}
    assert all(isinstance(fault[key], str) and fault[key] for key in ("what", "broke", "right"))
    assert fault["address"] is None or fault["address"].startswith("https://")
    assert "\n" not in fault["right"]
    module = loaded(folder)
    assert callable(module["program"]) and isinstance(module["make_inputs"](), tuple)


@pytest.mark.parametrize("way", ["plain", "dynamic"])
@pytest.mark.parametrize("folder", FAULTS, ids=lambda d: d.name)
def test_as_eager(folder: Path, way: str) -> None:
    module = loaded(folder)
    program = Hostile(folder.name, "corpus", module["program"], module["make_inputs"], grad=False, capture=module.get("CAPTURE", False))
    base, ours = eager(program, way), compiled(program, way)
    assert base.run.raised is None, f"eager refuses: {base.run.raised}"
    found = differing(program, way, base, ours, bitwise=ours.bitwise)
    assert not found, "\n".join(found)
    assert not ours.errors, "rewrites given up on account of an error, not for a reason"


@pytest.mark.parametrize("folder", MODELS, ids=lambda d: d.name)
def test_a_captured_model_is_as_eager_and_fires_as_it_did(folder: Path) -> None:
    found = replay(entry(folder), eager_plan())
    assert found.differences == ()
    assert found.fired


def test_corpus_is_small() -> None:
    assert len(FAULTS) >= 50
    assert len(MODELS) >= 3
    assert sum(f.stat().st_size for d in FOLDERS for f in d.iterdir() if f.is_file()) < LIMIT
