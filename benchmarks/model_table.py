"""Real public models three ways: eager, a compiler alone, the compiler behind optimus. Outputs, gradients, steps of an optimiser.

One compiled model takes batches of three sizes, with a dynamic batch; outputs and gradients of all parameters are judged element
by element against float64, and so are the losses of several steps. A difference is explained where the compiler alone has it too.
Models are those of deepctr-torch, and a few of transformers and timm where these are installed; dropout is off, for Inductor
draws other numbers than eager.

    python -m benchmarks.model_table --device cuda --compiler inductor --jobs 8 --out table.md
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

BATCHES, STEPS, RATE = (32, 24, 17), 5, 0.05
SLACK = 8.0
"""How many times further than eager's own a loss may be from that of float64."""


def measure(name: str, device: str, compiler: str, batches: tuple[int, ...] = BATCHES) -> dict[str, Any]:
    """What differs for one model, in this process."""
    import torch

    import optimus
    from benchmarks.models import ENCODERS, make
    from verify.compare import differences, observe, reference
    from verify.differential import quiet

    def fresh() -> Any:
        """The same model anew: what some keep of a call cannot be copied."""
        model = make(name, max(batches), device=device)[0].to(device)
        return model.eval() if name in ENCODERS else model

    model, inputs = fresh(), make(name, max(batches), device=device)[1]
    program, values = functional(model)
    ways = {"ours": (optimus.backend, {"compiler": compiler}), "theirs": (compiler, None)}
    found: dict[str, Any] = {"model": name, "differences": {}, "reference": [], "steps": {}}
    with quiet():
        for way, (backend, options) in ways.items():
            torch._dynamo.reset()
            optimus.clear_journals()
            fast = torch.compile(program, backend=backend, options=options, dynamic=True)
            lines: list[str] = []
            for batch in batches:
                given = [i[:batch] for i in inputs]
                eager = observe(program, [*values(), *given])
                compiled = observe(fast, [*values(), *given])
                exact = reference(program, [*values(), *given], eager, nudges=3)
                lines += [f"batch {batch}: {d}" for d in differences(eager, compiled, exact, bitwise=False)]
                found["reference"].append(None if exact is None else exact.by)
            found["differences"][way] = lines
            if way == "ours":
                found["graphs"] = len(optimus.journals())
                found["rewrites"] = sum(len(j.rewrites) for j in optimus.journals())
                found["patterns"] = sorted({r.pattern for j in optimus.journals() for r in j})
        found["steps"] = {way: losses(fresh(), inputs, torch.float32, *how) for way, how in {"eager": (None, None), **ways}.items()}
        found["steps"]["float64"] = losses(fresh(), inputs, torch.float64, None, None)
    found["unexplained"] = unexplained(found)
    return found


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
    """Differences of ours where the compiler alone has none, or none in so many elements; losses further off than eager's and the compiler's."""
    theirs = dict(map(_counted, found["differences"]["theirs"]))
    lines = [d for d in found["differences"]["ours"] for place, count in [_counted(d)] if count > SLACK * theirs.get(place, 0)]
    exact = found["steps"]["float64"]
    for step, right in enumerate(exact):
        off = {way: abs(found["steps"][way][step] - right) for way in ("eager", "ours", "theirs")}
        allowed = SLACK * max(off["eager"], off["theirs"]) + 1e-6 * abs(right)
        if not off["ours"] <= allowed:
            lines.append(
                f"step {step + 1}: the loss is off by {off['ours']:.3g}, eager's by {off['eager']:.3g}, the compiler's by {off['theirs']:.3g}"
            )
    return lines


def _counted(difference: str) -> tuple[str, int]:
    """Where a difference is, and in how many elements; 1 for what has none."""
    place, count = re.fullmatch(r"(.*?)(?:: (\d+) of \d+ elements.*)?", difference, re.DOTALL).groups()  # type: ignore[union-attr]
    return place, int(count or 1)


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in found:
        return f"| {found['model']} | | | | | {found['error']} |"
    both = [str(len(found["differences"][way])) for way in ("ours", "theirs")]
    references = ", ".join(sorted({str(r or "none") for r in found["reference"]}))
    what = "; ".join(found["unexplained"][:2]) or "none"
    return f"| {found['model']} | {found['graphs']} | {found['rewrites']} | {', '.join(both)} | {references} | {what} |"


HEAD = "| model | graphs | rewrites | differences of ours, of the compiler | judged by | unexplained |\n|---|---|---|---|---|---|"
RESULT = "RESULT "


def apart(name: str, device: str, compiler: str, timeout: float) -> dict[str, Any]:
    """:func:`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.model_table", "--one", name, "--device", device, "--compiler", compiler]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"model": name, "error": f"took longer than {timeout:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    if not lines:
        return {"model": name, "error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    result: dict[str, Any] = json.loads(lines[-1].removeprefix(RESULT))
    return result


def main() -> int:
    """Print the table. 1 if a difference is unexplained or a model could not be measured."""
    from benchmarks.models import ENCODERS, IMAGES, TABLE

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join((*TABLE, *ENCODERS, *IMAGES)))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiler", default="aot_eager")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--jobs", type=int, default=1, help="models at once")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help="measure this model in this process")
    a = parser.parse_args()
    if a.one:
        print(RESULT + json.dumps(measure(a.one, a.device, a.compiler)))
        return 0
    print(HEAD, flush=True)
    found = []
    with ThreadPoolExecutor(a.jobs) as pool:
        for one in pool.map(lambda name: apart(name, a.device, a.compiler, a.timeout), a.models.split(",")):
            found.append(one)
            print(row(one), flush=True)
            if a.out:
                title = f"# Models three ways, {a.device}, {a.compiler}\n\nBatches {BATCHES}, {STEPS} steps.\n\n"
                a.out.write_text(title + "\n".join([HEAD, *map(row, found)]) + "\n")
    return int(any("error" in f or f["unexplained"] for f in found))


if __name__ == "__main__":
    raise SystemExit(main())
