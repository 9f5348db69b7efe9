"""Sizes and guards of a captured graph as integer terms and formulas."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
import z3
from torch.utils._sympy.functions import CeilToInt, CleanDiv, FloorDiv, FloorToInt, IntTrueDiv, Max, Min, Mod, PythonMod, ToFloat
from torch.utils._sympy.numbers import int_oo

from verify.semantics.tensor import Product, UnmodelledError


def environment_of(size: Any) -> Any:
    """The shape environment of a size; None of a plain number."""
    return size.node.shape_env if isinstance(size, torch.SymInt) else None


@dataclass
class Sizes:
    """The symbols of one shape environment as solver variables, named after what they stand for.

    ``prefix``: goes in front of the names of symbols that no :meth:`identify` has tied to a known term.
    """

    environment: Any = None
    prefix: str = ""
    variables: dict[sympy.Symbol, Any] = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict)

    def identify(self, size: Any, term: Any) -> None:
        """Let a symbol stand for ``term``, which another environment has for the same size."""
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
            self.environment = environment_of(size)
            self.variables.setdefault(size.node.expr, term)

    def term(self, size: Any) -> Any:
        """A size as an int or a solver term; a product of symbols as :class:`Product`."""
        if isinstance(size, int):
            return size
        expression = size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size)
        if isinstance(size, torch.SymInt) and self.environment is None:
            self.environment = environment_of(size)
        if expression not in self._known:
            self._known[expression] = self._size(expression)
        return self._known[expression]

    def _size(self, expression: Any) -> Any:
        if isinstance(expression, sympy.Mul):
            factors = tuple(self._term(a) for a in expression.args)
            if sum(not isinstance(f, int) for f in factors) > 1:
                return Product(factors)
        return self._term(expression)

    def _term(self, e: Any) -> Any:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return self._variable(e)
        if isinstance(e, (CeilToInt, FloorToInt)) and isinstance(e.args[0], IntTrueDiv):
            above, below = (self._term(a) for a in e.args[0].args)
            return self._divided([above + below - 1 if isinstance(e, CeilToInt) else above, below], e)
        args = [self._term(a) for a in e.args]
        match e:
            case sympy.Add():
                return sum(args[1:], start=args[0])
            case sympy.Mul():
                return math.prod(args[1:], start=args[0])
            case sympy.Pow() if e.exp.is_Integer and e.exp > 0:
                return math.prod([args[0]] * int(e.exp))
            case FloorDiv() | CleanDiv():
                return self._divided(args, e)
            case Mod() | PythonMod():
                self._positive(args, e)
                return args[0] % args[1]
            case Max() | sympy.Max():
                return functools.reduce(lambda a, b: z3.If(a >= b, a, b), args)
            case Min() | sympy.Min():
                return functools.reduce(lambda a, b: z3.If(a <= b, a, b), args)
            case ToFloat():
                return args[0]
        raise UnmodelledError(f"the size {e}")

    def _divided(self, args: list[Any], e: Any) -> Any:
        self._positive(args, e)
        return args[0] // args[1] if isinstance(args[0], int) else args[0] / args[1]

    @staticmethod
    def _positive(args: list[Any], e: Any) -> None:
        if not isinstance(args[1], int) or args[1] <= 0:
            raise UnmodelledError(f"the size {e}, a division by a symbol")

    def _variable(self, symbol: sympy.Symbol) -> Any:
        if symbol not in self.variables:
            same = None if self.environment is None else self.environment.replacements.get(symbol)
            self.variables[symbol] = z3.Int(self.prefix + str(symbol)) if same is None else self._term(same)
        return self.variables[symbol]

    def formula(self, guard: Any) -> z3.BoolRef | None:
        """A guard as a formula; None where it says something that cannot be said here (it is then no premise)."""
        try:
            return self._formula(guard)
        except UnmodelledError:
            return None

    def _formula(self, g: Any) -> Any:
        if g in (sympy.true, sympy.false):
            return z3.BoolVal(bool(g))
        match g:
            case sympy.And():
                return z3.And([self._formula(a) for a in g.args])
            case sympy.Or():
                return z3.Or([self._formula(a) for a in g.args])
            case sympy.Not():
                return z3.Not(self._formula(g.args[0]))
        if not isinstance(g, sympy.core.relational.Relational):
            raise UnmodelledError(f"the guard {g}")
        left, right = self._term(g.lhs), self._term(g.rhs)
        match g:
            case sympy.Eq():
                return left == right
            case sympy.Ne():
                return left != right
            case sympy.StrictLessThan():
                return left < right
            case sympy.LessThan():
                return left <= right
            case sympy.StrictGreaterThan():
                return left > right
            case sympy.GreaterThan():
                return left >= right
        raise UnmodelledError(f"the guard {g}")

    def assumptions(self) -> tuple[list[z3.BoolRef], list[str]]:
        """What the capture took for granted: guards, run-time assertions, ranges of the symbols; and those that cannot be said here."""
        if self.environment is None:
            return [], []
        guards: Iterable[Any] = [g.expr for g in self.environment.guards]
        asserted = [a.expr for listed in self.environment.deferred_runtime_asserts.values() for a in listed]
        said = [(str(guard), self.formula(guard)) for guard in (*guards, *asserted)]
        found: list[Any] = [formula for _, formula in said if formula is not None]
        for symbol in list(self.variables):
            bounds = self.environment.var_to_range.get(symbol)
            if bounds is None:
                continue
            variable = self.variables[symbol]
            if bounds.lower not in (-int_oo, -sympy.oo):
                found.append(variable >= int(bounds.lower))
            if bounds.upper not in (int_oo, sympy.oo):
                found.append(variable <= int(bounds.upper))
        return [z3.BoolVal(f) if isinstance(f, bool) else f for f in found], [text for text, formula in said if formula is None]
