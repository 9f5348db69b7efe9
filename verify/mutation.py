"""Mutants of a pass's own source, and which witness sees each: a measure of the judge and of a pattern's cases.

cosmic-ray says where a source can be changed and makes the change; its runner, which rewrites files in place and runs a command,
is not used: here each mutant is judged in a process of its own, in memory, by the witnesses of :mod:`verify.judgement`.
"""

from __future__ import annotations

import ast
import difflib
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from optimus.pattern import Pattern
from verify.branches import sources
from verify.cli import UsageError

OPERATORS = (
    "AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer", "ZeroIterationForLoop",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub",
    "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq", "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is", "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_Add", "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_Mul",
    "ReplaceBinaryOperator_BitOr_BitAnd", "ReplaceBinaryOperator_BitAnd_BitOr",
)  # fmt: skip
"""The operators of cosmic-ray that are used: one exchange for each kind of place."""

GUARD = "GuardNeverTaken"
"""One of our own besides: an ``if`` whose body ends in ``return`` is never taken, as a requirement that was forgotten."""

WITNESSES = ("cases", "proof", "edges", "fuzz", "differential")
TIME = "time"
"""What is named as the witness where a mutant does not come to an end."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: Path
    operator: str
    line: int
    source: str

    def diff(self) -> str:
        """The change as a unified diff of one line of context."""
        before, after = self.file.read_text().splitlines(), self.source.splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.file.name, f"{self.file.name}, {self.operator}", lineterm="", n=1))


@dataclass(frozen=True)
class Killed:
    """What became of a mutant: the witnesses that saw it, each with what it said. None did: it survived."""

    mutant: Mutant
    by: tuple[tuple[str, str], ...]
    seconds: float


# ------------------------------------------------------------------------------------------------------------ the mutants


def mutants(pattern: Pattern) -> list[Mutant]:
    """Every mutant of the code that finds and rewrites: not of cases, of the rule in general, or of signatures.

    Raises :class:`verify.cli.UsageError` where cosmic-ray is not installed.
    """
    found: list[Mutant] = []
    for file in sources(pattern):
        text = file.read_text()
        inside = _code(text)
        seen = {text}
        for name, operator in _operators():
            for occurrence, line in enumerate(_places(text, operator)):
                changed = _changed(text, operator, occurrence) if line in inside else None
                if changed is not None and changed not in seen:
                    seen.add(changed)
                    found.append(Mutant(file, name, line, changed))
    return found


def sample(found: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most ``most`` of them, drawn without preference, in the order of the source."""
    chosen = found if len(found) <= most else random.Random(seed).sample(found, most)
    return sorted(chosen, key=lambda m: (m.file.name, m.line, m.operator))


def _code(text: str) -> set[int]:
    """The lines of the bodies of functions, but for docstrings, and for functions that are cases or state the rule in general."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or node.name == "general" or any(_marks_a_case(d) for d in node.decorator_list):
            continue
        documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        for statement in node.body[1 if documented else 0 :]:
            lines |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def _marks_a_case(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in ("fires", "declines")


class _Guard:
    """The operator :data:`GUARD`, with the two methods that cosmic-ray asks of one."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "if_stmt" and len(node.children) == 4 and "return" in node.children[3].get_code() and node.children[1].type != "keyword":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, _: int) -> Any:
        import parso

        never = parso.parse("False").children[0]
        never.prefix = " "
        node.children[1] = never
        never.parent = node
        return node


def _operators() -> Iterator[tuple[str, Any]]:
    try:
        from cosmic_ray.plugins import get_operator
    except ImportError:
        raise UsageError("mutants needs cosmic-ray: pip install 'optimus-verify[mutants]'") from None
    yield GUARD, _Guard()
    for name in OPERATORS:
        yield name, get_operator(f"core/{name}")()


def _places(text: str, operator: Any) -> list[int]:
    """The lines of the places that ``operator`` can change, in the order in which cosmic-ray counts them."""
    from cosmic_ray.ast import Visitor, get_ast

    lines: list[int] = []

    class Lister(Visitor):  # type: ignore[misc]
        def visit(self, node: Any) -> Any:
            lines.extend(start[0] for start, _ in operator.mutation_positions(node))
            return node

    Lister().walk(get_ast(text))
    return lines


def _changed(text: str, operator: Any, occurrence: int) -> str | None:
    """The source with one place changed; None where the result is no Python."""
    from cosmic_ray.mutating import mutate_code

    changed: str | None = mutate_code(text, operator, occurrence)
    try:
        ast.parse(changed or "")
    except SyntaxError:
        return None
    return changed


# ------------------------------------------------------------------------------------------------------------ the verdict


def mutated(pattern: Pattern, file: Path, source: str) -> Pattern:
    """``pattern`` as ``source`` makes it, in place of ``file``. Changes the modules of this process. Raises what the source raises."""
    cls = type(pattern)
    order = [sys.modules[c.__module__] for c in reversed(cls.__mro__) if issubclass(c, Pattern) and c.__module__ != Pattern.__module__]
    for module in dict.fromkeys(order):
        before = {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and kind.__module__ == module.__name__}
        _executed(module, source if Path(str(module.__file__)) == file else Path(str(module.__file__)).read_text())
        _known_everywhere({id(kind): vars(module)[name] for name, kind in before.items() if name in vars(module)})
    made: Pattern = getattr(sys.modules[cls.__module__], cls.__name__)(**pattern.options())
    return made


def _executed(module: ModuleType, source: str) -> None:
    exec(compile(source, str(module.__file__), "exec"), module.__dict__)


def _known_everywhere(changed: dict[int, type]) -> None:
    """Give every module of ours that imported a class the changed one, by which patterns of some kinds are known. ``changed``: by the old one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("optimus", "fuzz", "verify"):
            for called, given in list(vars(module).items()):
                if id(given) in changed:
                    setattr(module, called, changed[id(given)])


def ask(pattern: Pattern, budget_s: float, every: bool) -> list[tuple[str, str]]:
    """The witnesses that object to ``pattern``, in order, each with what it says. ``every``: do not stop at the first."""
    from verify import quantizer
    from verify.rules import rule_subject
    from verify.subject import PatternSubject

    plain = PatternSubject(pattern)
    subject = plain if quantizer.concerns(plain) else rule_subject(pattern)
    found: list[tuple[str, str]] = []
    for witness in WITNESSES:
        said = _asked(witness, subject, budget_s)
        if said is not None:
            found.append((witness, said))
            if not every:
                break
    return found


def _asked(witness: str, subject: Any, budget_s: float) -> str | None:
    """What a witness objects to; None if to nothing."""
    from verify import quantizer
    from verify.edges import prove_edges
    from verify.hunting import differential, hunt
    from verify.proof import proofs
    from verify.rules import vet
    from verify.verdict import Proved, explain

    if witness == "cases":
        if quantizer.concerns(subject):
            return quantizer.misfired(subject)
        fault = vet(subject)
        return None if fault is None else str(fault)
    if witness == "proof":
        wrong = next((v for p in proofs(subject, second_solver=False) for v in p.verdicts if not isinstance(v, Proved)), None)
        return None if wrong is None else explain(wrong)
    if witness == "edges":
        edges = prove_edges(subject, second_solver=False)
        return str(edges) if edges.wrong else None
    if witness == "fuzz":
        report = hunt(subject, seconds=budget_s)
        return report.finding.differences[0] if report.finding is not None else None if report.fired else "it never fired"
    blamed = next((run for run in differential(subject, ("aot_eager",)) if run.blamed), None)
    return None if blamed is None else f"{blamed.name}: {blamed.ours[0]}"


def judge_mutant(source: str, mutant: Mutant, budget_s: float, every: bool) -> Killed:
    """Judge one mutant in this process, whose modules are of no use afterwards. ``source``: a pattern's name or ``FILE:NAME``."""
    from verify.replay import subject_of

    start = time.monotonic()
    try:
        pattern = mutated(subject_of(source).pattern, mutant.file, mutant.source)
        by = ask(pattern, budget_s, every)
    except Exception as error:  # noqa: BLE001 - what the mutant raises when it is loaded or judged
        by = [("cases", f"raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")]
    return Killed(mutant, tuple(by), time.monotonic() - start)
