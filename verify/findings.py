"""Finds on disk: a folder with a program that replays it, in plain Python."""

from __future__ import annotations

import hashlib
from pathlib import Path

from verify.fuzzing import Finding

FOLDER = Path("optimus-failures")


def save(finding: Finding, name: str, root: Path | None = None, source: str = "") -> Path:
    """Keep a find of the pattern or rule ``name``. The same find goes to the same folder.

    ``root``: where the folder goes (default: :data:`FOLDER`). ``source``: what ``--rule`` takes, for a rule from outside.
    """
    digest = hashlib.sha256(str(finding.program).encode()).hexdigest()[:10]
    folder = (root or FOLDER) / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    inputs = ", ".join(i.source().removesuffix(".make()") for i in finding.program.inputs)
    what = finding.differences[0].replace("\\", "/").replace('"""', "'''")
    (folder / "replay.py").write_text(
        f'"""{name}: {what}\n\nExits with 1 while the fault lives.\n"""\n\nimport sys\n\nimport torch\nfrom fuzz.program import Input\n'
        f"from verify.replay import replay\n\n\n{finding.program.source()}\n\n\nINPUTS = [{inputs}]\n\n"
        f'if __name__ == "__main__":\n    sys.exit(replay({source or name!r}, program, INPUTS))\n'
    )
    return folder
