"""Real public models three ways: eager, a compiler alone, the compiler behind optimus. Outputs, gradients, buffers, steps of an optimiser.

One compiled model takes batches of three sizes, with a dynamic batch; outputs, gradients of all parameters and buffers are judged
element by element against float64, and so are the losses of several steps. All runs twice; a difference is explained where the compiler
alone has it too, about as large, or lies as far apart from run to run. Models are those of deepctr-torch, and a few of transformers and timm where these are installed; dropout is off,
for Inductor draws other numbers than eager. A row is written as soon as it is known; the slowest models start first.

    python -m benchmarks.model_table --models DIN,bert --device cuda --compiler inductor --jobs 16 --timeout 300 --total 480 --out table.md
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.models import ENCODERS, IMAGES, SPARSE, TABLE
from benchmarks.three_ways import BATCHES, COMPILERS, NONDETERMINISTIC, OF_IMAGES, SAME_GRAPH, STEPS, TURNS, UNEXPLAINED, measure

SLOWEST = (
    "FiBiNET",
    "mamba",
    "ONN",
    "t5",
    "test_convnext",
    "test_resnet",
    "test_efficientnet",
    "DCNMix",
    "PLE",
    "AFM",
    "test_vit",
    "AFN",
    "AutoInt",
    "deberta-v2",
)
"""What starts first, in this order: the slowest model ends last, and seconds count where as many run at once as there are processors."""


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in found:
        return f"| {found['model']} | {' | ' * 9}{found['error']} |"
    bits, both = ([str(kind[way]) for way in ("ours", "theirs")] for kind in (found["bits"], {w: len(d) for w, d in found["differences"].items()}))
    compared = ", ".join(f"{count}" for count in found["compared"].values())
    references = ", ".join(sorted(set(found["reference"])))
    name = found["model"] + (f" (by {found['compiler']})" if found["refused"] else "")
    graph = "the same" if found["one graph"] else "rewritten" if found["rewrites"] else "other"
    cells = (
        *(name, found["seconds"], found["graphs"], found["rewrites"], graph, compared),
        *(", ".join(bits), ", ".join(map(partial(_apart, found), ("eager", "theirs", "ours"))), ", ".join(both), references, _verdict(found)),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _apart(found: dict[str, Any], way: str) -> str:
    count = found["apart"][way]
    return f"{count} (by {found['furthest'][way]:.2g})" if count else "0"


def _verdict(found: dict[str, Any]) -> str:
    """``none``, or the first differences that are unexplained; and how many others are put down to what."""
    counted = [f"{len(found[c])} {c}" for c in (NONDETERMINISTIC, SAME_GRAPH, COMPILERS) if found[c]]
    counted += ["the compiler compiled twice"] if found["compiled again"] else []
    return "; ".join([*(found[UNEXPLAINED][:2] or ["none"]), *counted])


REASONS = {
    "DIN": "`Dice` of deepctr_torch/layers/activation.py calls `self.bn(x)` on a transposed tensor. On the CPU PyTorch's fake "
    "`_native_batch_norm_legit_functional` has the strides of its input, (256, 1, 64), and the kernel gives (256, 4, 1), so that the "
    "`view` that AOTAutograd has written for the next `linear` cannot be taken. Compilers that decompose the batch norm do not meet this."
}
"""Why a compiler alone cannot run a model, where that was looked into."""


def note(found: dict[str, Any]) -> str:
    """What is said below the table of a model that the compiler alone cannot run."""
    said = f"\n{found['model']} by {found['compiler']}: {found['refused'].rstrip('.')}."
    return f"{said} {REASONS[found['model']]}" if found["model"] in REASONS else said


HEAD = (
    "| model | seconds | graphs | rewrites | graph that the compiler gets | outputs, gradients, buffers | other bits: ours, the compiler "
    "| other bits from run to run: eager, the compiler, ours | differences: ours, the compiler | judged by | unexplained |"
    "\n|---|---|---|---|---|---|---|---|---|---|---|"
)
MEANING = f"""
Each compiled function runs {TURNS} times on each batch, and is trained {TURNS} times from the same start. Other bits from run to run, in brackets
how far apart at most, as a part of what is allowed. Unexplained is a difference behind optimus that is none of these: "{COMPILERS}", the compiler
alone has it too, about as large; "{NONDETERMINISTIC}", the compiler alone lies apart by at least as much from run to run as it is too large;
"{SAME_GRAPH}", the compiler got the very same graph with optimus and without, by its text, and does not give the same bits there twice.
Where one would be unexplained, the compiler alone compiles a second time.
"""
RESULT = "RESULT "


def apart(name: str, a: argparse.Namespace, deadline: float) -> dict[str, Any]:
    """:func:`measure` in a process of its own."""
    timeout = min(a.timeout, deadline - time.monotonic())
    if timeout <= 0:
        return {"model": name, "error": "not started, there was no time left"}
    command = [sys.executable, "-m", "benchmarks.model_table", "--one", name, "--device", a.device, "--compiler", a.compiler]
    try:
        done = subprocess.run([*command, "--sparse", str(a.sparse)], capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "error": f"took longer than {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    if not lines:
        return {"model": name, "error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    result: dict[str, Any] = json.loads(lines[-1].removeprefix(RESULT))
    return result


def _command() -> str:
    """The arguments, but for the folder of the file that is written."""
    return shlex.join(Path(a).name if before == "--out" else a for before, a in zip(["", *sys.argv[1:]], sys.argv[1:], strict=False))


def title(a: argparse.Namespace) -> str:
    """When, where and how the table is made."""
    import torch

    kinds = ("torch", "triton", "deepctr-torch", "transformers", "timm")
    versions = [f"{d.metadata['Name']} {d.version}" for d in metadata.distributions() if d.metadata["Name"] in kinds]
    device = torch.cuda.get_device_name() if a.device == "cuda" else a.device
    return (
        f"# Models three ways, {a.device}, {a.compiler}\n\n{datetime.now(UTC):%Y-%m-%d}, {device}, Python {sys.version.split()[0]}, "
        f"{', '.join(sorted(set(versions)))}; `python -m benchmarks.model_table {_command()}`. "
        f"Batches of {BATCHES}, of images {OF_IMAGES}; {a.sparse} sparse features; {STEPS} steps of SGD.\n\n"
    )


def main() -> int:
    """Print the table. 1 if a difference is unexplained or a model could not be measured."""
    known = (*TABLE, *ENCODERS, *IMAGES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(known), help="names, separated by commas")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiler", default="aot_eager")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one model")
    parser.add_argument("--total", type=float, default=math.inf, help="seconds for all models")
    parser.add_argument("--jobs", type=int, default=1, help="models at once")
    parser.add_argument("--sparse", type=int, default=SPARSE, help="sparse features that models of deepctr-torch read")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help="measure this model in this process")
    a = parser.parse_args()
    if a.one:
        print(RESULT + json.dumps(measure(a.one, a.device, a.compiler, sparse=a.sparse)))
        return 0
    deadline = time.monotonic() + a.total
    names = sorted(a.models.split(","), key=lambda name: SLOWEST.index(name) if name in SLOWEST else len(SLOWEST))
    text = title(a) + HEAD
    print(text, flush=True)
    found = []
    with ThreadPoolExecutor(a.jobs) as pool:
        for done in as_completed([pool.submit(apart, name, a, deadline) for name in names]):
            found.append(done.result())
            print(row(found[-1]), flush=True)
            if a.out:
                notes = [note(f) for f in found if f.get("refused")]
                a.out.write_text("\n".join([text, *map(row, found), *notes, MEANING]))
    return int(any("error" in f or f[UNEXPLAINED] for f in found))


if __name__ == "__main__":
    raise SystemExit(main())
