"""Rules from outside: a class in a file or a module, or every one in a folder. What cannot be loaded is one line to the user."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from optimus.pattern import IR, Case, Exactness, HorizontalPattern, Pattern, VerticalPattern
from optimus.plan import patterns
from verify.cli import UsageError
from verify.compare import USERS
from verify.watchdog import limited

IMPORT_S = 60.0
"""Seconds that the import of a file of rules may take."""

ABSTRACT = (Pattern, VerticalPattern, HorizontalPattern)
OURS = ("optimus", "fuzz", "verify")


@dataclass(frozen=True)
class Rule:
    """A rule and how it was named: ``source`` is what ``--rule`` takes to load it again."""

    pattern: Pattern
    source: str


def load(rules: Sequence[str] = (), folders: Sequence[str] = ()) -> list[Rule]:
    """The rules called ``FILE:NAME`` or ``MODULE:NAME``, then those in the files of ``folders``.

    Raises :class:`verify.cli.UsageError` for what is missing, raises, is no pattern, or has the name of another one.
    """
    found = [load_rule(text) for text in rules]
    for folder in folders:
        found += load_folder(folder)
    named: dict[str, str] = {}
    known = patterns()
    for rule in found:
        name = rule.pattern.name
        if name in named and named[name] != rule.source:
            raise UsageError(f"two rules are called {name!r}: {named[name]} and {rule.source}; accepted are rules of different names")
        if name in known and type(known[name]) is not type(rule.pattern):
            raise UsageError(f"rule {rule.source}: {name!r} is the name of a registered pattern; accepted is a name of its own")
        named[name] = rule.source
    return list({rule.source: rule for rule in found}.values())


def load_rule(text: str) -> Rule:
    """The rule called ``text``, such as ``rules.py:MyRule`` or ``mypackage.rules:MyRule``; see :func:`load`."""
    where, _, name = text.rpartition(":")
    if not where or not name.isidentifier():
        raise UsageError(f"rule {text}: accepted is FILE.py:NAME or MODULE:NAME, such as rules.py:MyRule")
    module = _file(where, text) if where.endswith(".py") or "/" in where else _module(where, text)
    if not hasattr(module, name):
        near = [n for n, _ in _rules_of(module)] or [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
        raise UsageError(f"rule {text}: {where} has no class {name}; it has {', '.join(near[:8]) or 'none'}")
    return Rule(_pattern(getattr(module, name), text), text)


def load_folder(folder: str) -> list[Rule]:
    """Every rule in the files under ``folder`` that import ``optimus``; tests, hidden folders and environments are left out."""
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"--rule-dir {folder}: is {'no folder' if root.exists() else 'not there'}; accepted is a folder with files of rules")
    found = []
    for file in _files(root):
        source = f"{root / file}"
        for name, given in _rules_of(_file(source, source)):
            found.append(Rule(_pattern(given, f"{source}:{name}"), f"{source}:{name}"))
    if not found:
        raise UsageError(f"--rule-dir {folder}: no file there holds a rule; accepted are classes derived from optimus.Pattern that have a name")
    return found


def _files(root: Path) -> Iterator[Path]:
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).parts
        hidden = any(p.startswith(".") or p in ("__pycache__", "site-packages", "node_modules") for p in parts)
        if not hidden and not file.name.startswith("test_") and file.name != "conftest.py" and _mentions_us(file):
            yield file.relative_to(root)


def _mentions_us(file: Path) -> bool:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return True  # the import says what is wrong with it
    named = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    named += [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module and not n.level]
    return any(n.split(".")[0] == "optimus" for n in named)


def _rules_of(module: ModuleType) -> list[tuple[str, type[Pattern]]]:
    """The concrete patterns that a module defines, in the order of its text."""
    mine = [(n, v) for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__ and not n.startswith("_")]
    return [(n, v) for n, v in mine if issubclass(v, Pattern) and isinstance(getattr(v, "name", None), str)]


def _file(where: str, text: str) -> ModuleType:
    file = Path(where)
    if not file.is_file():
        raise UsageError(f"rule {text}: the file {where} is {'no file' if file.exists() else 'not there'}; accepted is a file of Python")
    file = file.resolve()
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").exists():  # a module of a package: its relative imports have to work
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    for loaded in list(sys.modules.values()):
        if getattr(loaded, "__file__", None) == str(file) and loaded.__name__ != "__main__":
            return loaded
    name = ".".join(parts if parts[-1] != "__init__" else parts[:-1])
    if len(parts) > 1 and parts[0] not in OURS:
        return _imported(name, text, lambda: importlib.import_module(name))
    taken = name in sys.modules or _elsewhere(name, file)
    return _imported(name, text, lambda: _executed(f"{parts[-1]}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}" if taken else name, file))


def _elsewhere(name: str, file: Path) -> bool:
    """Whether ``import name`` gives something else than ``file``."""
    found = importlib.util.find_spec(name) if "." not in name else None
    return "." in name or (found is not None and found.origin != str(file))


def _executed(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module(name: str, text: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return _imported(name, text, lambda: importlib.import_module(name))


def _imported(name: str, text: str, load: Any) -> ModuleType:
    try:
        with limited(IMPORT_S, lambda: f"the import of {name}"):
            module: ModuleType = load()
    except USERS as error:
        raise UsageError(f"rule {text}: {name} cannot be imported ({_one_line(error)}){_shadow(error)}") from None
    return module


def _shadow(error: BaseException) -> str:
    """What to add where a rule wanted a package of its own that is called as one of ours."""
    wanted = (getattr(error, "name", None) or "").split(".")[0] if isinstance(error, ImportError) else ""
    for folder in map(Path, sys.path):
        if wanted in OURS and (folder / wanted).is_dir() and (folder / wanted).resolve() not in map(Path, sys.modules[wanted].__path__):
            return (
                f"; the folder {folder / wanted} is shadowed here by the package {wanted} of optimus-verify: import it by another name, "
                f"such as from a package around it"
            )
    return ""


def _one_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _pattern(given: Any, text: str) -> Pattern:
    """``given`` as a pattern with default options, or as it is if it is one."""
    if isinstance(given, Pattern):
        _check(given, text)
        return given
    if not inspect.isclass(given) or not issubclass(given, Pattern) or given in ABSTRACT:
        what = f"the class {given.__name__}" if inspect.isclass(given) else f"a {type(given).__name__}"
        raise UsageError(f"rule {text}: is {what}; accepted is a class derived from optimus.VerticalPattern or optimus.HorizontalPattern")
    try:
        made = given()
    except USERS as error:
        raise UsageError(f"rule {text}: cannot be made with its default options ({_one_line(error)})") from None
    _check(made, text)
    return made


def _check(made: Pattern, text: str) -> None:
    """Raise :class:`UsageError` for a pattern that lacks what the engine and the judge read."""
    for attribute, kind, accepted in (
        ("name", str, "a text"),
        ("anchors", (frozenset, set), "a frozenset of names of operators"),
        ("exactness", Exactness, "a member of optimus.Exactness"),
        ("ir", IR, "a member of optimus.pattern.IR"),
        ("cases", (tuple, list), "a tuple of programs marked by optimus.fires"),
        ("declines", (tuple, list), "a tuple of programs marked by optimus.declines"),
    ):
        value = getattr(made, attribute, None)
        if not isinstance(value, kind) or (attribute == "name" and not str(value).isidentifier()):
            raise UsageError(f"rule {text}: {attribute} is {value!r}; accepted is {accepted}{', an identifier' if attribute == 'name' else ''}")
        wrong = next((c for c in value if not isinstance(c, Case)), None) if isinstance(value, (tuple, list)) else None
        if wrong is not None:
            raise UsageError(f"rule {text}: {attribute} holds {wrong!r}; accepted are {accepted.removeprefix('a tuple of ')}")
    base = VerticalPattern if isinstance(made, VerticalPattern) else HorizontalPattern
    for method in ("find", "rewrite") if base is VerticalPattern else ("key", "fuse"):
        if getattr(type(made), method, None) is getattr(base, method):
            raise UsageError(f"rule {text}: {type(made).__name__} does not define {method}(); accepted is a pattern that does")
