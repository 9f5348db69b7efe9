"""Finds on disk: a folder with a program that replays it, in plain Python."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from verify.fuzzing import Finding

FOLDER = Path("optimus-failures")


@dataclass(frozen=True)
class Saved:
    """A find as text: the name of its folder, and the program that replays it."""

    folder: str
    replay: str

    def write(self, root: Path | None = None) -> Path:
        """Write it under ``root`` (default: :data:`FOLDER`). Returns its folder."""
        folder = (root or FOLDER) / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "replay.py").write_text(self.replay)
        return folder


def as_text(finding: Finding, name: str, source: str = "") -> Saved:
    """A find of the pattern or rule ``name``. ``source``: what ``--rule`` takes, for a rule from outside."""
    digest = hashlib.sha256(f"{finding.program}{finding.options or ''}{finding.symbolic or ''}".encode()).hexdigest()[:10]
    inputs = ", ".join(i.source().removesuffix(".make()") for i in finding.program.inputs)
    further = (f", options={dict(finding.options)!r}" if finding.options else "") + (", dynamic=True" if finding.symbolic else "")
    bare = finding.program.bare
    note = f"\nIn the graph that failed, these values carried no metadata: {', '.join(sorted(bare))}.\n" if bare else ""
    what = finding.differences[0].replace("\\", "/").replace('"""', "'''")
    return Saved(
        f"{name}-{digest}",
        f'"""{name}: {what}\n\nExits with 1 while the fault lives.\n{note}"""\n\nimport sys\n\nimport torch\nfrom fuzz.program import Input\n'
        f"from verify.replay import replay\n\n\n{finding.program.source()}\n\n\nINPUTS = [{inputs}]\n\n"
        f'if __name__ == "__main__":\n    sys.exit(replay({source or name!r}, program, INPUTS{further}))\n',
    )


def save(finding: Finding, name: str, root: Path | None = None, source: str = "") -> Path:
    """Keep a find on disk, see :func:`as_text`. The same find goes to the same folder."""
    return as_text(finding, name, source).write(root)
