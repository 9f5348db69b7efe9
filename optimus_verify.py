"""Where programs enter: the command ``optimus-verify``, ``python -m optimus_verify``, and the plugin that pytest loads.

A repository of rules may have folders of its own called ``fuzz``, ``verify`` or ``optimus``. This one module has a name that
nothing shadows; it loads the packages next to it by their place, whatever stands in front of them on the search path.
The plugin does nothing, and imports nothing, unless one of its options is given.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
PACKAGES = ("optimus", "fuzz", "verify")


class ShadowedError(ImportError):
    """One of our packages cannot be loaded, as another of its name is there already. The message is one line."""


def load_packages(*folders: Path) -> list[str]:
    """Load the packages of this distribution. Returns those that they shadow, as ``name (folder)``, on the search path and in ``folders``.

    Raises :class:`ShadowedError` where a package of that name, from elsewhere, was imported before.
    """
    shadowed = []
    for name in PACKAGES:
        place = str(HOME / name)
        loaded = sys.modules.get(name)
        if loaded is not None and place not in map(str, getattr(loaded, "__path__", ())):
            where = ", ".join(map(str, getattr(loaded, "__path__", ()))) or getattr(loaded, "__file__", "?")
            raise ShadowedError(
                f"the package {name} of optimus-verify cannot be loaded: {where} was imported under that name before; "
                f"run optimus-verify --rule FILE:NAME, or pytest --noconftest, which does not import it"
            )
        found = importlib.util.find_spec(name) if loaded is None else None
        others = {str(p) for p in (found.submodule_search_locations or ())} if found is not None else set()
        others |= {str(folder / name) for folder in folders if any((folder / name).glob("*.py"))}
        shadowed += [f"{name} ({other})" for other in sorted(others - {place})]
        if loaded is None:
            _load(name)
    return shadowed


def _load(name: str) -> None:
    """Import the package ``name`` from its place."""
    spec = importlib.machinery.PathFinder.find_spec(name, [str(HOME)])
    if spec is None or spec.loader is None:
        importlib.import_module(name)  # an import hook knows where it is
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def main() -> int:
    """The command ``optimus-verify``: see :mod:`verify.cli`."""
    try:
        _load_light()
    except ShadowedError as error:
        print(f"optimus-verify: {error}", file=sys.stderr)
        return 2
    return int(importlib.import_module("verify.cli").main())


def _load_light() -> None:
    """Have ``verify`` from its place now, and ``optimus`` and ``fuzz`` when they are needed, so that help needs no PyTorch."""
    sys.meta_path.insert(0, _Here())


class _Here(importlib.machinery.PathFinder):
    """Finds our packages in their place, in front of anything else on the search path."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return super().find_spec(fullname, [str(HOME)], target) if fullname in PACKAGES and path is None else None


def hunt_in_process(*arguments: Any) -> None:
    """What a process of a campaign runs: see :func:`verify.workers.loop`. It stands here, where nothing shadows it."""
    load_packages()
    importlib.import_module("verify.workers").loop(*arguments)


def judge_in_process(pipe: Any, sources: Any, fuzz_s: float, every: bool, wanted: Any) -> None:
    """What a process that judges mutants runs: see :func:`verify.mutant.serve`, and with a mutant :func:`verify.mutant.alone`."""
    if wanted is None:
        load_packages()
        importlib.import_module("verify.mutant").serve(pipe, sources, fuzz_s, every)
    else:
        _load_light()
        importlib.import_module("verify.mutant").alone(pipe, sources, fuzz_s, every, wanted)


# ---------------------------------------------------------------------------------------------------------------- pytest

OPTIONS = ("optimus_rule", "optimus_rule_dir", "optimus_pattern")


def pytest_addoption(parser: Any) -> None:
    """The options; see ``docs/rules.md``."""
    group = parser.getgroup("optimus", "judge rewrites of PyTorch graphs (optimus-verify)")
    group.addoption("--optimus-rule", action="append", default=[], metavar="FILE:NAME", help="judge this rule, as MODULE:NAME too")
    group.addoption("--optimus-rule-dir", action="append", default=[], metavar="DIR", help="judge every rule in the files of this folder")
    group.addoption("--optimus-pattern", action="append", default=[], metavar="NAME", help="judge this registered pattern; all: every one")
    group.addoption("--optimus-profile", default="ci", metavar="NAME", help="how much is drawn: dev, ci or night (default ci)")


def pytest_configure(config: Any) -> None:
    """Register the tests if any of the options is given."""
    if not any(config.getoption(option, None) for option in OPTIONS):
        return
    import pytest

    try:
        shadowed = load_packages(config.rootpath, config.invocation_params.dir)
    except ShadowedError as error:
        raise pytest.UsageError(f"optimus: {error}") from None
    plugin = importlib.import_module("verify.pytest_plugin")
    try:
        config.pluginmanager.register(plugin.Plugin(config, shadowed), "optimus-judge")
    except plugin.UsageError as error:
        raise pytest.UsageError(f"optimus: {error}") from None


if __name__ == "__main__":
    sys.exit(importlib.import_module("optimus_verify").main())  # under its own name, by which other processes find what they run
