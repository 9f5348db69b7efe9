"""The lines of the README run."""

from __future__ import annotations

import re
import shlex
import sys
import types

import pytest

from tests.processes import ROOT, environment, python

README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines() if line.startswith("optimus-verify")]


@pytest.mark.parametrize("source", PYTHON, ids=range(len(PYTHON)))
def test_python_runs(source, capsys, monkeypatch):
    module = types.ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    exec(compile(source, "README.md", "exec"), module.__dict__)
    if "Swapped" in source:
        promised = README[README.index("```text\n") + 8 :].split("```")[0].split("...")[0].strip()
        assert promised.splitlines()[:2] == capsys.readouterr().out.splitlines()[:2]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path):
    words = [w if w != "result.json" else str(tmp_path / w) for w in shlex.split(command)[1:]]
    done = python("-m", "verify.cli", *words, where=ROOT, env=environment())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_names_of_the_table_exist():
    import fuzz
    import optimus
    import verify

    packages = {"optimus": optimus, "verify": verify, "fuzz": fuzz}
    named = re.findall(r"`(optimus|verify|fuzz)\.([A-Za-z_]+)\(", README)
    assert len(named) > 8
    for package, name in named:
        assert hasattr(packages[package], name), f"{package}.{name}"
