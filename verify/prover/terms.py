"""Solver terms: plain values as terms, and walks that make no Python object for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import z3
from z3 import z3core

Seen = set[int]


def walk(roots: Iterable[z3.ExprRef], seen: Seen, visit: Callable[[int, Any], bool], holds: Callable[[Any], bool] | None = None) -> None:
    """Call ``visit`` with the number and the handle of each term below ``roots`` that is an element or a formula over elements.

    Integer terms, and the conditions of case distinctions, hold no elements and are passed over. ``seen``: numbers of the
    terms met before, which are passed over with all below them. Below a term for which ``visit`` gives False, nothing is.
    ``holds``: whether a condition, given by its handle, holds; of a case distinction only the case that does is then visited.
    """
    context = z3.main_ctx().ref()
    stack: list[Any] = [root.as_ast() for root in roots]
    while stack:
        term = stack.pop()
        number = z3core.Z3_get_ast_id(context, term)
        if number in seen:
            continue
        seen.add(number)
        if z3core.Z3_get_ast_kind(context, term) != z3.Z3_APP_AST:
            continue
        if z3core.Z3_get_sort_kind(context, z3core.Z3_get_sort(context, term)) == z3.Z3_INT_SORT or not visit(number, term):
            continue
        if z3core.Z3_get_decl_kind(context, z3core.Z3_get_app_decl(context, term)) != z3.Z3_OP_ITE:
            chosen = list(range(z3core.Z3_get_app_num_args(context, term)))
        elif holds is None:
            chosen = [1, 2]
        else:
            chosen = [1 if holds(z3core.Z3_get_app_arg(context, term, 0)) else 2]
        stack += [z3core.Z3_get_app_arg(context, term, k) for k in chosen]


def function_of(term: Any) -> int:
    """The number of the function that a term, given by its handle, applies."""
    context = z3.main_ctx().ref()
    return int(z3core.Z3_get_func_decl_id(context, z3core.Z3_get_app_decl(context, term)))


def term_number(term: Any) -> int:
    """The number of a term, given by its handle."""
    return int(z3core.Z3_get_ast_id(z3.main_ctx().ref(), term))


def is_addition(term: Any) -> bool:
    """Whether a term, given by its handle, is a sum of the solver's own."""
    context = z3.main_ctx().ref()
    return bool(z3core.Z3_get_decl_kind(context, z3core.Z3_get_app_decl(context, term)) == z3.Z3_OP_ADD)


def function_number(function: z3.FuncDeclRef) -> int:
    """The number of a function."""
    return int(z3core.Z3_get_func_decl_id(function.ctx_ref(), function.ast))


def lifted(given: Any) -> Any:
    """A number, a truth value, or a term as a term."""
    if isinstance(given, bool):
        return z3.BoolVal(given)
    return z3.IntVal(given) if isinstance(given, int) else given


def wrapped(term: Any) -> Any:
    """The Python object of a handle."""
    return z3.z3._to_expr_ref(term, z3.main_ctx())
