"""All that is measured on one GPU below Torch-IR, in one call: ``python -m benchmarks.lower_levels OUT [--small]``.

Runs the benchmarks of quantised activations, of padded and decomposed products, and of the ATen-IR and Inductor-IR patterns that are off by
default, each in a process of its own that is ended when its time is over. What they print is shown and written to ``OUT`` line by line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

PARTS: dict[str, tuple[list[str], int]] = {
    "activation_quantization": (["--json"], 200),
    "aten_mm": (["--json"], 230),
    "aten_batches": (["--json"], 300),
}
"""The benchmarks in order: arguments, and seconds after which each is ended."""


def run(name: str, out: Path, small: bool, seconds: int | None) -> int:
    """One benchmark; its exit code, or 124 if its time was over."""
    flags, limit = PARTS[name]
    jobs = ["--jobs", "1"] if small and name == "aten_batches" else []
    command = [sys.executable, "-u", "-m", f"benchmarks.{name}", *flags, str(out / f"{name}.jsonl"), *jobs, *(["--small"] if small else [])]
    start = time.perf_counter()
    with (out / f"{name}.txt").open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        timer = threading.Timer(limit if seconds is None else seconds, _end, [process])
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
            file.flush()
        code = process.wait()
        late = not timer.is_alive()
        timer.cancel()
        file.write(f"exit code {code}{', ended because its time was over' if late else ''}, {time.perf_counter() - start:.0f} s\n")
    print(f"{name}: exit code {code}, {time.perf_counter() - start:.0f} s", flush=True)
    return 124 if late else code


def _end(process: subprocess.Popen[str]) -> None:
    """End a benchmark and all that it started, which is in a session of its own."""
    os.killpg(process.pid, 9)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, help="a folder")
    parser.add_argument("--small", action="store_true", help="little ones, on the CPU")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="this part only; may be given several times")
    parser.add_argument("--seconds", type=int, help="the time of each part")
    a = parser.parse_args(argv)
    a.out.mkdir(parents=True, exist_ok=True)
    codes = [run(name, a.out, a.small, a.seconds) for name in a.part or PARTS]
    return next((c for c in codes if c), 0)


if __name__ == "__main__":
    sys.exit(main())
