"""Imports point one way: torch, optimus, fuzz, verify. Only one sub-package knows a solver."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ("optimus", "fuzz", "verify")


def _imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("package", ORDER)
def test_nothing_imports_what_stands_above_it(package):
    above = ORDER[ORDER.index(package) + 1 :]
    for file in (ROOT / package).rglob("*.py"):
        tops = {name.split(".")[0] for name in _imported(file)}
        assert not tops & set(above), file
        assert not tops & {"tests", "benchmarks"}, file


def test_one_sub_package_knows_a_solver():
    for file in ROOT.glob("*/**/*.py"):
        if file.parts[len(ROOT.parts)] in ORDER and "prover" not in file.parts:
            assert not {n.split(".")[0] for n in _imported(file)} & {"z3", "cvc5"}, file


def test_importing_optimus_loads_no_judge():
    code = "import sys, optimus; print(sorted({'z3', 'cvc5', 'hypothesis', 'pytest', 'coverage', 'rich', 'verify', 'fuzz'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_importing_optimus_loads_no_kernel():
    """PyTorch may import Triton where it is installed; nothing here does."""
    code = "import sys, optimus; print([m for m in sys.modules if m.startswith('optimus.kernels')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_only_kernels_import_triton():
    for package in ORDER:
        for file in (ROOT / package).rglob("*.py"):
            assert "kernels" in file.parts or "triton" not in {n.split(".")[0] for n in _imported(file)}, file


def test_help_needs_no_torch():
    code = "import sys; from verify.cli import parser; parser().format_help(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"
