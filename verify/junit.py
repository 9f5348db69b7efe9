"""What the witnesses say, one outcome each, and as JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from verify.cli import UsageError
from verify.judgement import Judgement, declined
from verify.paste import paste
from verify.verdict import Proved, Refuted, Verdict, explain


@dataclass(frozen=True)
class Outcome:
    """What one witness says. ``kind``: ``passed``, ``failed`` (it objects) or ``undecided`` (nothing is proved)."""

    witness: str
    kind: str
    text: str
    detail: str = ""
    seconds: float = 0.0


def outcomes(judgement: Judgement, replay: str = "") -> Iterator[Outcome]:
    """Every witness of a judgement. ``replay``: the command that replays what fuzzing found."""
    if judgement.fault is not None:
        yield Outcome("rule", "failed" if judgement.verdict == "refuted" else "undecided", judgement.line, seconds=judgement.seconds)
        return
    for part in judgement.proof.parts:
        yield _of(f"proof[{part.case.name}]", part.verdict, part.seconds, declined(part))
        for level, verdict in (("forward", part.aten.forward), ("backward", part.aten.backward)) if part.aten is not None else ():
            if verdict is not None:
                yield _of(f"proof[{part.case.name}: ATen {level}]", verdict)
    if judgement.proof.general is not None:
        yield _of("general", judgement.proof.general)
    if judgement.proof.edges is not None:
        edges = judgement.proof.edges
        wrong = [f"{e.case}: {explain(e.verdict) if e.verdict is not None else 'not proved'}" for e in edges.wrong]
        yield Outcome("edges", "passed" if not wrong else "failed" if "refuted" in " ".join(wrong) else "undecided", str(edges), "\n".join(wrong))
    yield _fuzz(judgement, replay)
    for run in judgement.runs:
        text = run.ours[0] if run.blamed else "no difference"
        name = f"differential[{run.name}: {run.compiler}{', dynamic' if run.dynamic else ''}]"
        yield Outcome(name, "failed" if run.blamed else "passed", text, "\n".join(run.ours))


def _of(witness: str, verdict: Verdict, seconds: float = 0.0, text: str = "") -> Outcome:
    kind = "passed" if isinstance(verdict, Proved) else "failed" if isinstance(verdict, Refuted) else "undecided"
    detail = str(verdict.counterexample) if isinstance(verdict, Refuted) else ""
    return Outcome(witness, kind, text or explain(verdict), detail, seconds)


def _fuzz(judgement: Judgement, replay: str) -> Outcome:
    fuzz = judgement.fuzz
    seen = f"{fuzz.tried} programs, {fuzz.fired} rewritten"
    if fuzz.finding is not None:
        detail = "\n".join([*fuzz.finding.differences, "", paste(fuzz.finding.program), *(["", f"replay: {replay}"] if replay else [])])
        return Outcome("fuzz", "failed", f"{fuzz.finding.differences[0]} ({seen})", detail, fuzz.seconds)
    if not fuzz.fired:
        return Outcome("fuzz", "undecided", f"none of {fuzz.tried} fuzzed programs made it fire", seconds=fuzz.seconds)
    return Outcome("fuzz", "passed", f"no difference ({seen})", seconds=fuzz.seconds)


def tree(judgements: Sequence[Judgement], replays: Sequence[str]) -> ElementTree.ElementTree[ElementTree.Element]:
    """A test suite for each pattern or rule, a test for each witness. What is undecided is an error, what objects a failure."""
    root = ElementTree.Element("testsuites", name="optimus-verify")
    for judgement, replay in zip(judgements, replays, strict=True):
        found = list(outcomes(judgement, replay))
        counts = {
            "tests": len(found),
            "failures": sum(o.kind == "failed" for o in found),
            "errors": sum(o.kind == "undecided" for o in found),
            "skipped": 0,
        }
        attributes = {k: str(v) for k, v in counts.items()} | {"time": f"{judgement.seconds:.3f}"}
        suite = ElementTree.SubElement(root, "testsuite", {"name": judgement.name, **attributes})
        for outcome in found:
            _case(suite, judgement, outcome)
    return ElementTree.ElementTree(root)


def _case(suite: ElementTree.Element, judgement: Judgement, outcome: Outcome) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=judgement.name, name=outcome.witness, time=f"{outcome.seconds:.3f}")
    if outcome.kind == "passed":
        ElementTree.SubElement(case, "system-out").text = _legal(outcome.text)
        return
    tag, kind = ("failure", "refuted") if outcome.kind == "failed" else ("error", judgement.verdict)
    ElementTree.SubElement(case, tag, message=_legal(outcome.text), type=kind).text = _legal(outcome.detail or outcome.text)


def _legal(text: str) -> str:
    """Text without the control characters that XML does not allow."""
    return "".join(c if c >= " " or c in "\n\t" else "?" for c in text)


def write(path: str, judgements: Sequence[Judgement], replays: Sequence[str]) -> None:
    """Write JUnit XML. Raises :class:`verify.cli.UsageError` where the file cannot be written."""
    found = tree(judgements, replays)
    ElementTree.indent(found)
    try:
        found.write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise UsageError(f"--junit {path}: cannot be written ({error.strerror or error})") from None


def check(path: str) -> None:
    """Raise :class:`verify.cli.UsageError` where ``path`` cannot be written; what is there stays."""
    try:
        there = Path(path).exists()
        with Path(path).open("a"):
            pass
        if not there:
            Path(path).unlink()
    except OSError as error:
        raise UsageError(f"--junit {path}: cannot be written ({error.strerror or error}); accepted is a file") from None
