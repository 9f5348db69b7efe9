"""Sizes and guards of a captured graph as integer terms and formulas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
import z3
from torch.utils._sympy.functions import CeilToInt, CleanDiv, FloorDiv, FloorToInt, IntTrueDiv, Max, Min, Mod, PythonMod, ToFloat
from torch.utils._sympy.numbers import int_oo

from verify.semantics.tensor import Product, UnmodelledError


@dataclass
class Sizes:
    """The symbols of one shape environment as solver variables, named after what they stand for."""

    environment: Any = None
    variables: dict[sympy.Symbol, z3.ArithRef] = field(default_factory=dict)

    def term(self, size: Any) -> Any:
        """A size as an int or a solver term; a product of symbols as :class:`Product`."""
        if isinstance(size, int):
            return size
        expression = size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size)
        if isinstance(size, torch.SymInt) and self.environment is None:
            self.environment = size.node.shape_env
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
        args = [self._term(a) for a in e.args]
        match e:
            case sympy.Add():
                return sum(args[1:], start=args[0])
            case sympy.Mul():
                found = args[0]
                for a in args[1:]:
                    found = found * a
                return found
            case FloorDiv() | CleanDiv():
                return self._divided(args, e)
            case Mod() | PythonMod():
                self._positive(args, e)
                return args[0] % args[1]
            case Max() | sympy.Max():
                return _extreme(args, lambda a, b: z3.If(a >= b, a, b))
            case Min() | sympy.Min():
                return _extreme(args, lambda a, b: z3.If(a <= b, a, b))
            case CeilToInt() | FloorToInt() if isinstance(e.args[0], IntTrueDiv):
                above, below = (self._term(a) for a in e.args[0].args)
                return self._divided([above + below - 1 if isinstance(e, CeilToInt) else above, below], e)
            case sympy.Pow() if e.exp.is_Integer and e.exp > 0:
                found = args[0]
                for _ in range(int(e.exp) - 1):
                    found = found * args[0]
                return found
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

    def _variable(self, symbol: sympy.Symbol) -> z3.ArithRef:
        if symbol not in self.variables:
            self.variables[symbol] = z3.Int(str(symbol))
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

    def premises(self) -> list[z3.BoolRef]:
        """What the capture took for granted: ranges of the symbols, guards, run-time assertions."""
        if self.environment is None:
            return []
        found: list[Any] = []
        guards: Iterable[Any] = [g.expr for g in self.environment.guards]
        asserted = [a.expr for listed in self.environment.deferred_runtime_asserts.values() for a in listed]
        for guard in (*guards, *asserted):
            found.append(self.formula(guard))
        for symbol, replacement in self.environment.replacements.items():
            found.append(self.formula(sympy.Eq(symbol, replacement, evaluate=False)))
        for symbol in list(self.variables):
            bounds = self.environment.var_to_range.get(symbol)
            if bounds is None:
                continue
            variable = self.variables[symbol]
            if bounds.lower not in (-int_oo, -sympy.oo):
                found.append(variable >= int(bounds.lower))
            if bounds.upper not in (int_oo, sympy.oo):
                found.append(variable <= int(bounds.upper))
        return [f for f in found if isinstance(f, z3.BoolRef)]


def _extreme(args: list[Any], choose: Any) -> Any:
    found = args[0]
    for a in args[1:]:
        found = choose(found, a)
    return found
