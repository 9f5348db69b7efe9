"""The guides run line by line, each in an empty folder."""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest

from tests.processes import ROOT, environment, python

GUIDE = (ROOT / "docs" / "rules.md").read_text()
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", GUIDE, re.S)
EXTRAS = {"mutants": "cosmic_ray"}
PROGRAMS = {"optimus-verify": ["-m", "optimus_verify"], "pytest": ["-m", "pytest", "-p", "optimus_verify", "-p", "no:cacheprovider"]}


def command(line: str) -> tuple[list[str], int]:
    """A line of a shell as arguments for Python, and the exit code it promises."""
    text, _, comment = line.partition("  # ")
    first, *others = shlex.split(text)
    promised = re.search(r"exits with (\d)", comment)
    return [*PROGRAMS[first], *others], int(promised[1]) if promised else 0


def test_the_guide_runs_from_an_empty_folder(tmp_path):
    ran = []
    for language, text in BLOCKS:
        lines = [text] if language == "python" else [line for line in text.splitlines() if not line.startswith("pip ")]
        for line in lines:
            arguments, expected = (["-c", line], 0) if language == "python" else command(line)
            if EXTRAS.get(arguments[2] if len(arguments) > 2 else "") and importlib.util.find_spec(EXTRAS[arguments[2]]) is None:
                expected = 2  # says which extra is missing
            done = python(*arguments, where=tmp_path, env=environment())
            assert done.returncode == expected, f"{line}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            assert "Traceback" not in done.stderr, f"{line}\n{done.stderr[-3000:]}"  # which exits with 1, as a refutation does
            ran.append(line)
    assert len(ran) >= 8
    assert (tmp_path / "optimus-failures").is_dir()


@pytest.mark.parametrize("name", ["docs/rules.md", "docs/rules-ci.yml"])
def test_what_the_guides_name_exists(name):
    text = (ROOT / name).read_text()
    options = set(re.findall(r"--optimus-[a-z-]+", text))
    assert options
    source = (ROOT / "optimus_verify.py").read_text()
    assert all(f'"{option}"' in source for option in options)
    assert all((ROOT / "docs" / link).exists() for link in re.findall(r"\]\(([\w.-]+)\)", text))
