"""What a proof depends on, as a digest: the key under which it is kept.

The judge itself counts in full: every source file of ``optimus``, ``fuzz`` and ``verify``, that is engine, operator table,
semantics and prover, and the versions of Python, PyTorch and the solvers. Of a pattern counts the file that defines it with
all files that it imports, however far, and its options. Code that is changed in memory is not seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import torch

from optimus.pattern import Case, Pattern
from verify.rules import RuleSubject
from verify.subject import PatternSubject, Subject
from verify.versions import versions

PACKAGES = ("optimus", "fuzz", "verify")
PINNED = ("torch", "sympy", "numpy", "triton", "mpmath")
"""Packages that count by their version."""

STARTED = time.time()


def digest(*parts: str) -> str:
    """A digest of texts, which tells apart where one ends and the next begins."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode()
        found.update(f"{len(data)}:".encode() + data)
    return found.hexdigest()


def settings(timeout_s: float, second_solver: bool) -> list[str]:
    """What every key depends on."""
    ambient = (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.cuda.is_available())
    return [judge_digest(), repr(sorted(versions().items())), repr(pinned_versions()), repr(timeout_s), repr(second_solver), repr(ambient)]


@functools.cache
def pinned_versions() -> tuple[tuple[str, str], ...]:
    """The versions of :data:`PINNED`, as far as they are installed."""
    found = []
    for name in PINNED:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


@functools.cache
def judge_digest() -> str:
    """A digest of the sources of :data:`PACKAGES`."""
    found: list[str] = []
    for package in PACKAGES:
        root = Path(str(sys.modules[package].__file__ if package in sys.modules else _spec_file(package))).parent
        for file in sorted(root.rglob("*.py")):
            found += [f"{package}/{file.relative_to(root).as_posix()}", file_digest(file)]
    return digest(*found)


def _spec_file(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.origin


def file_digest(file: Path) -> str:
    """A digest of a file. One that was changed since this process began may not be what it runs; it equals no other."""
    changed = file.stat().st_mtime > STARTED
    return hashlib.sha256(file.read_bytes()).hexdigest() + (f" changed while process {STARTED!r} ran" if changed else "")


def case_key(subject: Subject, case: Case, timeout_s: float, second_solver: bool) -> str | None:
    """The key of the proof of a case or decline; None where it cannot be told what the proof depends on."""
    known = subject_key(subject)
    listed = [*subject.cases, *subject.declines]
    if known is None or not any(case is c for c in listed):
        return None
    at = next(k for k, c in enumerate(listed) if case is c)
    told = (at, case.name, case.program.__module__, case.program.__qualname__, case.shapes, case.sizes, case.reason, case.grad)
    return digest("case", known, repr(told), *settings(timeout_s, second_solver))


def general_key(subject: Subject, timeout_s: float, second_solver: bool) -> str | None:
    """The key of the proof of the rule in general; see :func:`case_key`."""
    known = subject_key(subject)
    return None if known is None else digest("general", known, *settings(timeout_s, second_solver))


def edges_key(subject: Subject, most: int, timeout_s: float, second_solver: bool) -> str | None:
    """The key of the proofs at sizes 0 and 1; see :func:`case_key`."""
    known = subject_key(subject)
    return None if known is None else digest("edges", known, repr(most), *settings(timeout_s, second_solver))


def subject_key(subject: Subject) -> str | None:
    """A digest of a pattern with its options and the laws it is judged under; None for any other subject.

    Also None for a class that its module does not hold under its name, such as one made by a function: its source alone
    does not say what it does.
    """
    if type(subject) not in (PatternSubject, RuleSubject):
        return None
    assert isinstance(subject, PatternSubject)
    sources = pattern_sources(type(subject.pattern))
    if sources is None:
        return None
    cls = type(subject.pattern)
    options = [f"{name}={given!r}" for name, given in sorted(subject.pattern.options().items())]
    return digest(subject.name, cls.__module__, cls.__qualname__, *options, repr(sorted(law.name for law in subject.laws)), *sources)


def pattern_sources(cls: type[Pattern]) -> list[str] | None:
    """Names and digests of the files that define a pattern's class and those above it, and of what they import."""
    found: list[str] = []
    for one in cls.__mro__[:-1]:
        module = sys.modules.get(one.__module__)
        if module is None or not _holds(module, one):
            return None
        if _counts(one.__module__):
            closure = _closure(one.__module__)
            if closure is None:
                return None
            found += closure
    return found


def _holds(module: ModuleType, cls: type) -> bool:
    found: object = module
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


def _counts(name: str) -> bool:
    """Whether the source of a module counts by itself."""
    top = name.partition(".")[0]
    return top == "__main__" or top not in {*sys.stdlib_module_names, *PACKAGES, *PINNED}


def _closure(start: str) -> list[str] | None:
    """Names and digests of a module's file and all files it imports; None if some module has no file."""
    found: dict[str, str] = {}
    todo = [start]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        file = _file_of(name)
        if file is None:
            return None
        found[name] = "missing" if file == Path() else file_digest(file)
        if file.suffix == ".py":
            todo += [n for n in _imports(name, file) if _counts(n)]
    return [text for name in sorted(found) for text in (name, found[name])]


def _file_of(name: str) -> Path | None:
    """The file of a module; an empty path if there is no such module, None if it has no file."""
    module = sys.modules.get(name)
    if module is not None:
        given = getattr(module, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            spec = None
        if spec is None:
            return Path()
        given = spec.origin
    return Path(given) if given is not None and Path(given).is_file() else None


def _imports(name: str, file: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, packages around them included; names of a package may be modules of it."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            yield from _with_parents(base)
            yield from (n for alias in node.names if _counts(base) and _file_of(n := f"{base}.{alias.name}") not in (None, Path()))


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: k + 1]) for k in range(len(parts)))
