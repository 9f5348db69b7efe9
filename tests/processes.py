"""What processes that tests start are given, and processes that start with PyTorch imported."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent

SEARCH_PATH = tuple(p for p in sys.path if p and p != str(ROOT))
"""As it was before any test ran: some put folders of their own in front."""

PRELOADED = ["torch", "torch._dynamo", "torch._inductor.compile_fx", "numpy"]


def environment(*first: Path, **others: str) -> dict[str, str]:
    """This process's environment and search path, with the folders ``first`` and the repository in front, and no proofs from elsewhere."""
    path = [*map(str, first), str(ROOT), *SEARCH_PATH]
    found = {**os.environ, "OPTIMUS_CACHE_DIR": "none", **others, "PYTHONPATH": os.pathsep.join(path)}
    found.pop("PYTEST_ADDOPTS", None)
    return found


def python(
    *arguments: str, where: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS`` in a process of its own, forked from one that has imported PyTorch and nothing of ours; with a GPU, which no fork can use, an ordinary one.

    The arguments: ``-m MODULE``, ``-c CODE`` or a file, and its own. ``env`` is one of :func:`environment`. What must hold of a bare
    start, such as what is not imported, wants a process that is started as usual.
    """
    where, env = where or Path.cwd(), dict(env or environment())
    if torch.cuda.is_available():
        return subprocess.run([sys.executable, *arguments], cwd=where, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        process = context.Process(target=_run, args=(arguments, where, env, *files))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, timeout)
        return subprocess.CompletedProcess(arguments, process.exitcode, *(f.read_text() for f in files))


def _run(arguments: tuple[str, ...], where: Path, env: Mapping[str, str], *files: Path) -> None:
    """What the interpreter does at its start, and then the program."""
    for stream, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.chdir(where)
    os.environ.clear()
    os.environ.update(env)
    for name in [m for m in sys.modules if m.partition(".")[0] in ("tests", "__mp_main__")]:
        del sys.modules[name]
    first, rest = arguments[0], arguments[1:]
    front = str(where) if first == "-m" else "" if first == "-c" else str(Path(first).absolute().parent)
    sys.path[:] = [front, *env["PYTHONPATH"].split(os.pathsep)]
    try:
        if first == "-m":
            sys.argv[:] = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv[:] = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})  # the code is that of a test
        else:
            sys.argv[:] = arguments
            runpy.run_path(first, run_name="__main__")
    finally:
        atexit._run_exitfuncs()
