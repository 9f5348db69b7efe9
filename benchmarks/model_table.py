"""Real public models three ways: eager, a compiler alone, the compiler behind optimus. Outputs, gradients, buffers, steps of an optimiser.

One compiled model takes batches of three sizes, with a dynamic batch; outputs, gradients of all parameters and buffers are judged
element by element against float64, and so are the losses of several steps. A difference is explained where the compiler alone has it
too, about as large. Models are those of deepctr-torch, and a few of transformers and timm where these are installed; dropout is off,
for Inductor draws other numbers than eager. A row is written as soon as it is known; the slowest models start first.

    python -m benchmarks.model_table --models DIN,bert --device cuda --compiler inductor --jobs 16 --timeout 300 --total 480 --out table.md
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.models import ENCODERS, IMAGES, SPARSE, TABLE, make

BATCHES, STEPS, RATE = (32, 24, 17), 5, 0.05
OF_IMAGES = (8, 6, 5)
"""Batches of models that read images."""
SLACK = 8.0
"""How many times further off than the compiler alone a value may be, and than it and eager a loss, from float64."""
SLOWEST = ("ONN", "mamba", "t5", "FiBiNET", "test_efficientnet", "DCNMix", "deberta-v2", "gpt2", "PNN", "PLE", "DIEN", "bert", "AutoInt", "MLR")
"""What starts first, in this order: seconds count where as many run at once as there are processors."""


def measure(name: str, device: str, compiler: str, batches: tuple[int, ...] | None = None, sparse: int = SPARSE) -> dict[str, Any]:
    """What differs for one model, in this process."""
    import torch
    from torch._dynamo.utils import counters

    import optimus
    from verify.compare import observe
    from verify.differential import quiet

    start = time.monotonic()
    torch.backends.cudnn.allow_tf32 = False  # convolutions of float32 with 10 bits of mantissa are judged as what they are not
    batches = batches or (OF_IMAGES if name in IMAGES else BATCHES)

    def fresh() -> Any:
        """The same model anew: what some keep of a call cannot be copied."""
        model = make(name, max(batches), device=device, sparse=sparse)[0].to(device)
        return model.eval() if name in ENCODERS else model

    inputs = make(name, max(batches), device=device, sparse=sparse)[1]
    program, values = functional(fresh())

    def given(batch: int) -> list[Any]:
        return [*values(), *(torch.clone(i[:batch]) for i in inputs)]

    ways = {"theirs": (compiler, None), "ours": (optimus.backend, {"compiler": compiler})}
    found: dict[str, Any] = {"model": name, "differences": {}, "bits": {}, "steps": {}}
    with quiet():
        judges = {batch: Judge(program, lambda batch=batch: given(batch)) for batch in batches}
        found["reference"] = [judge.by for judge in judges.values()]
        found["compared"] = judges[batches[0]].counts
        for way, (backend, options) in ways.items():
            torch._dynamo.reset()
            optimus.clear_journals()
            counters.clear()
            fast = torch.compile(program, backend=backend, options=options)
            lines, bits = [], 0
            for batch, judge in judges.items():
                values_given = given(batch)
                for i in values_given[-len(inputs) :]:
                    torch._dynamo.mark_dynamic(i, 0)
                run = observe(fast, values_given)
                raised = run.raised or run.backward_raised
                if raised and way == "theirs":
                    raise RuntimeError(f"{compiler} alone raises {raised}")
                other, said = judge(run)
                bits += other
                lines += [f"batch {batch}: {d}" for d in said]
            found["differences"][way], found["bits"][way] = lines, bits
            if way == "ours":
                found["graphs"] = counters["stats"]["unique_graphs"]
                found["rewrites"] = sum(len(j.rewrites) for j in optimus.journals())
                found["patterns"] = sorted({r.pattern for j in optimus.journals() for r in j})
        found["steps"] = {way: losses(fresh(), inputs, torch.float32, *how) for way, how in {"eager": (None, None), **ways}.items()}
        made = fresh()
        torch.set_default_dtype(torch.float64)  # of what a model makes anew
        try:
            found["steps"]["float64"] = losses(made, inputs, torch.float64, None, None)
        finally:
            torch.set_default_dtype(torch.float32)
    found["unexplained"] = unexplained(found)
    found["seconds"] = round(time.monotonic() - start, 1)
    return found


class Judge:
    """Eager on one batch, and how far off it other runs are. Raises ``RuntimeError`` if eager cannot run, or has no gradient."""

    def __init__(self, program: Callable[..., Any], inputs: Callable[[], list[Any]]) -> None:
        from verify.compare import STAGES, observe, reference

        self.program, self.inputs = program, inputs
        self.eager = observe(program, inputs())
        if self.eager.raised or self.eager.backward_raised:
            raise RuntimeError(f"eager raises {self.eager.raised or self.eager.backward_raised}")
        self.exact = [reference(program, inputs(), self.eager, 0, *STAGES[0])]
        self.counts = {
            "outputs": len(self.eager.outputs),
            "gradients": sum(g is not None for g in self.eager.gradients),
            "buffers": sum(not same(a, b) for a, b in zip(inputs(), self.eager.inputs_after, strict=True)),
        }
        if not self.counts["gradients"]:
            raise RuntimeError("eager has no gradient")

    @property
    def by(self) -> str:
        """What it is judged by."""
        return "none" if self.exact[0] is None else self.exact[0].by

    def __call__(self, run: Any) -> tuple[int, list[str]]:
        """How many outputs, gradients and buffers have other bits than in eager, and what is further off than rounding explains."""
        from verify.compare import STAGES, differences, reference

        bits, lines = len(differences(self.eager, run, bitwise=True)), []
        for k, stage in enumerate(STAGES if bits else ()):
            if k == len(self.exact):
                self.exact.append(reference(self.program, self.inputs(), self.eager, 0, *stage))
            lines = differences(self.eager, run, self.exact[k], bitwise=False)
            if not lines or self.exact[k] is None:
                break
        return bits, lines


def same(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same values, NaN for NaN."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def functional(model: Any) -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    """The model as a function of its parameters, buffers and inputs, and fresh values for the former."""
    from torch.func import functional_call

    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)

    def program(*given: Any) -> Any:
        x = tuple(i.to(given[0].dtype) if i.is_floating_point() else i for i in given[len(names) :])
        return functional_call(model, dict(zip(names, given, strict=False)), x)

    return program, lambda: [v.detach().clone().requires_grad_(v.requires_grad) for v in state.values()]


def losses(model: Any, inputs: tuple[Any, ...], dtype: Any, backend: Any, options: Any) -> list[float]:
    """The losses of several steps of SGD with momentum, which change ``model``."""
    import torch

    torch._dynamo.reset()
    trained = model.to(dtype)
    given = [i.to(dtype) if i.is_floating_point() else i for i in inputs]
    run = trained if backend is None else torch.compile(trained, backend=backend, options=options)
    optimizer = torch.optim.SGD(trained.parameters(), lr=RATE, momentum=0.9)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (run(*given) - 0.25).square().mean()
        loss.backward()
        optimizer.step()
        found.append(float(loss))
    return found


def unexplained(found: dict[str, Any]) -> list[str]:
    """Differences of ours that the compiler alone has not, or not so large; losses further off than eager's and the compiler's."""
    alone = found["differences"]["theirs"]
    sizes = dict(map(_size, alone))
    lines = []
    for line in found["differences"]["ours"]:
        place, size = _size(line)
        if line not in alone and not size <= SLACK * sizes.get(place, 0.0):
            lines.append(line)
    exact = found["steps"]["float64"]
    for step, right in enumerate(exact):
        off = {way: abs(found["steps"][way][step] - right) for way in ("eager", "ours", "theirs")}
        allowed = SLACK * max(off["eager"], off["theirs"]) + 1e-6 * abs(right)
        if not off["ours"] <= allowed:
            lines.append(
                f"step {step + 1}: the loss is off by {off['ours']:.3g}, eager's by {off['eager']:.3g}, the compiler's by {off['theirs']:.3g}"
            )
    return lines


def _size(difference: str) -> tuple[str, float]:
    """Where a difference is, and how many times what is allowed it is; NaN where that is not known, which nothing explains."""
    place = re.split(r": \d+ of \d+ elements", difference)[0]
    worst = re.search(r"at worst (\S+) times what is allowed$", difference)
    return place, float(worst[1]) if worst else math.nan


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in found:
        return f"| {found['model']} | | | | | | | | {found['error']} |"
    bits, both = ([str(kind[way]) for way in ("ours", "theirs")] for kind in (found["bits"], {w: len(d) for w, d in found["differences"].items()}))
    compared = ", ".join(f"{count}" for count in found["compared"].values())
    references = ", ".join(sorted(set(found["reference"])))
    what = "; ".join(found["unexplained"][:2]) or "none"
    cells = (found["model"], found["seconds"], found["graphs"], found["rewrites"], compared, ", ".join(bits), ", ".join(both), references, what)
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| model | seconds | graphs | rewrites | outputs, gradients, buffers | other bits: ours, the compiler | differences: ours, the compiler "
    "| judged by | unexplained |\n|---|---|---|---|---|---|---|---|---|"
)
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


def title(a: argparse.Namespace) -> str:
    """When, where and how the table is made."""
    import torch

    kinds = ("torch", "triton", "deepctr-torch", "transformers", "timm")
    versions = [f"{d.metadata['Name']} {d.version}" for d in metadata.distributions() if d.metadata["Name"] in kinds]
    device = torch.cuda.get_device_name() if a.device == "cuda" else a.device
    return (
        f"# Models three ways, {a.device}, {a.compiler}\n\n{datetime.now(UTC):%Y-%m-%d}, {device}, Python {sys.version.split()[0]}, "
        f"{', '.join(sorted(set(versions)))}; `python -m benchmarks.model_table {shlex.join(sys.argv[1:])}`. "
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
                a.out.write_text("\n".join([text, *map(row, found)]) + "\n")
    return int(any("error" in f or f["unexplained"] for f in found))


if __name__ == "__main__":
    raise SystemExit(main())
