"""Mutants of a pass's own source: made here, judged by :mod:`verify.mutant`, and all of a subject by :mod:`verify.mutants`.

cosmic-ray says where a source can be changed and makes the change; its runner, which rewrites files in place and runs a command,
is not used.
"""

from __future__ import annotations

import ast
import functools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optimus.pattern import Pattern
from verify.branches import sources
from verify.cli import UsageError
from verify.mutant import Mutant

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


def mutants(pattern: Pattern) -> list[Mutant]:
    """Every mutant of the code that finds and rewrites, in all files that the pattern is written in.

    Not of cases, functions that make them (modules that hold nothing else have no mutants), statements of the rule in general,
    docstrings, or signatures. Raises :class:`verify.cli.UsageError` where cosmic-ray is not installed.
    """
    return [mutant for file in sources(pattern) for mutant in mutants_of(file)]


@functools.cache
def mutants_of(file: Path) -> tuple[Mutant, ...]:
    """Those of one file, each text once."""
    found: list[Mutant] = []
    text = file.read_text()
    inside = code_of_the_pass(text)
    seen = {text}
    for name, operator in _operators():
        for occurrence, line in enumerate(_places(text, operator)):
            changed = _changed(text, operator, occurrence) if line in inside else None
            if changed is not None and changed not in seen:
                seen.add(changed)
                found.append(Mutant(file, name, line, changed))
    return tuple(found)


def sample(found: list[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most ``most`` of them, drawn without preference, in the order of the source."""
    chosen = found if len(found) <= most else random.Random(seed).sample(found, most)
    return sorted(chosen, key=lambda m: (m.file.name, m.line, m.operator))


def code_of_the_pass(text: str) -> set[int]:
    """The lines of the bodies of functions, but for docstrings, and for functions that are, make or describe cases or state the rule in general."""
    tree = ast.parse(text)
    if _only_makes_cases(tree):
        return set()
    lines: set[int] = set()
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        if node.name == "general" or _states_a_rule(node) or any(_is_a_case(inner) for inner in ast.walk(node)):
            left_out |= _lines(node)
            continue
        documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        for statement in node.body[1 if documented else 0 :]:
            lines |= _lines(statement)
    return lines - left_out


def _only_makes_cases(tree: ast.Module) -> bool:
    """Whether a module has functions that make cases, and no class of a pattern."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not _is_a_case(node)]
    makes = any(_is_a_case(inner) for node in functions for inner in ast.walk(node))
    return makes and not any(isinstance(node, ast.ClassDef) and node.bases for node in ast.walk(tree))


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _states_a_rule(node: ast.FunctionDef) -> bool:
    first = node.args.args[0].annotation if node.args.args else None
    return isinstance(first, ast.Name) and first.id == "Rule"


def _is_a_case(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(_marks_a_case(d) for d in node.decorator_list)


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
