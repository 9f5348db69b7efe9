"""Operators that jump: where they read what was added up in another order, rounding does not bound what comes out.

A function counts as one that jumps unless it is known to be continuous wherever it is defined, for the dtypes and the literal
arguments that it has. At a pole or outside its domain a function is not defined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verify.prover.laws import FLOATS
from verify.prover.terms import walk
from verify.semantics.logic import Symbol

ENTIRE = {
    "constant", "integer", "scale", "detach", "under", "written", "read_wide", "mean", "pick", "sum", "add", "sub", "rsub", "mul",
    "reciprocal", "square", "neg", "positive", "abs", "addcmul", "addcdiv", "lerp", "where", "masked_fill", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "exp", "conj", "real", "imag", "complex", "prod", "cumsum", "cumprod", "conv1d", "conv2d", "conv3d", "convolution",
    "index_add", "scatter_add", "tensordot", "dot", "mv", "addmv", "outer",
}  # fmt: skip
"""Of complex numbers too: all others may have a cut along which they jump."""

CONTINUOUS = ENTIRE | {
    "standardised", "normalised", "norm_backward", "row_mean", "row_rstd", "sqrt", "rsqrt", "hypot", "logaddexp", "logaddexp2", "maximum",
    "minimum", "clamp", "clamp_min", "clamp_max", "relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "elu", "celu",
    "selu", "gelu", "silu", "mish", "softsign", "tanhshrink", "sigmoid", "log_sigmoid", "logsigmoid", "asin", "acos", "atan", "asinh",
    "acosh", "atanh", "sinc", "exp2", "expm1", "log", "log1p", "log2", "log10", "erf", "erfc", "erfinv", "lgamma", "sigmoid_backward",
    "tanh_backward", "silu_backward", "gelu_backward", "mish_backward", "var", "std", "var_mean", "std_mean", "amax", "amin",
    "logsumexp", "softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "logcumsumexp", "max", "min", "sort",
    "topk", "cummax", "cummin", "median", "kthvalue", "batch_norm", "group_norm", "instance_norm", "rms_norm", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "nll_loss",
    "cross_entropy", "embedding_dense_backward", "scaled_dot_product_attention", "dropout", "native_dropout",
}  # fmt: skip
"""Of several results, the first bears the name of the operator alone: the largest elements, not where they are."""


def _number(text: str | None) -> float | None:
    """A literal that is a finite or infinite number; None of any other, of an operand and of none."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _quotient(symbol: Symbol) -> bool:
    """Not rounded to a whole number."""
    return dict(symbol.literals).get("rounding_mode", "None") == "None"


def _power(symbol: Symbol) -> bool:
    """One of the two is a number: at 0 ** 0 a power of both jumps, and complex ones have a cut unless the exponent is whole."""
    literals = dict(symbol.literals)
    base, exponent = literals.get("self"), literals.get("exponent")
    if symbol.op.startswith("reflected_"):
        base, exponent = literals.get("other"), base
    fixed, to = _number(base), _number(exponent)
    if fixed is not None:
        return 0 < fixed < math.inf
    if to is not None:
        return math.isfinite(to) and (to.is_integer() or not _is_complex(symbol))
    return exponent == "#2" and len(symbol.dtypes) == 2 and not is_float(symbol.dtypes[1])  # integers are the same on both sides


def _norm(name: str) -> Callable[[Symbol], bool]:
    """Of an order of 1 or more, which makes a norm: that of order 0 counts."""

    def holds(symbol: Symbol) -> bool:
        order = dict(symbol.literals).get(name, "")
        return order == "'fro'" or (_number(order) or 0) >= 1

    return holds


def _shrunk(symbol: Symbol) -> bool:
    """By a number that is not negative."""
    return (_number(dict(symbol.literals).get("lambd")) or 0) >= 0


def _logit(symbol: Symbol) -> bool:
    """Cut off at bounds in their order, if at all."""
    text = dict(symbol.literals).get("eps", "None")
    bound = _number(text)
    return text == "None" or (bound is not None and bound <= 1 / 2)


def _logit_backward(symbol: Symbol) -> bool:
    """Not cut off, which makes it 0 outside the bounds."""
    return dict(symbol.literals).get("eps", "None") == "None"


CONDITIONS: dict[str, Callable[[Symbol], bool]] = {
    "div": _quotient,
    "pow": _power,
    "float_power": _power,
    "norm": _norm("p"),
    "cdist": _norm("p"),
    "linalg_vector_norm": _norm("ord"),
    "softshrink": _shrunk,
    "logit": _logit,
    "logit_backward": _logit_backward,
}
"""Functions that are continuous for some literal arguments."""
COMPLEX = ENTIRE | {"div", "pow", "float_power", "norm", "linalg_vector_norm", "var", "std", "var_mean", "std_mean"}
"""Those that stay continuous where numbers are complex."""


def is_float(dtype: str) -> bool:
    """Whether numbers of a dtype are rounded."""
    return dtype.startswith(FLOATS)


def _dtypes(symbol: Symbol) -> tuple[str, ...]:
    """The dtypes of the operands; a black box has them among its literals."""
    return (*symbol.dtypes, *(found for _, text in symbol.literals for found in re.findall(r"#\d+:torch\.(\w+)", text)))


def _is_complex(symbol: Symbol) -> bool:
    return any(dtype.startswith("complex") for dtype in (*_dtypes(symbol), symbol.result))


def may_jump(symbol: Symbol) -> bool:
    """Whether a small difference of operands may make a large one of the result."""
    dtypes = _dtypes(symbol)
    if dtypes and not any(map(is_float, dtypes)):
        return False
    if symbol.op == "cast" or (dtypes and symbol.result and not is_float(symbol.result)):
        return not is_float(symbol.result)
    name = symbol.op.removeprefix("reflected_").partition("#")[0]
    known = CONDITIONS[name](symbol) if name in CONDITIONS else name in CONTINUOUS
    return not known or (_is_complex(symbol) and name not in COMPLEX)


@dataclass
class _Use:
    op: str
    term: Any  # kept, or its number may come back for another
    operands: tuple[Any, ...]
    sides: set[str]


@dataclass
class Jumps:
    """The uses of functions that may jump, by the number of the term."""

    _uses: dict[int, _Use] = field(default_factory=dict)

    def note(self, symbol: Symbol, term: Any, operands: Sequence[Any], side: str) -> None:
        """Remember a term that applies ``symbol``, and from which of the two programs it comes."""
        if may_jump(symbol):
            self._uses.setdefault(term.get_id(), _Use(symbol.op, term, tuple(operands), set())).sides.add(side)

    def reached(self, rounds: Callable[[Any], bool], inside: Callable[[int], Sequence[Any]], shared: bool) -> tuple[str, ...]:
        """The operators that read what is added up, in one program otherwise than in the other.

        ``rounds``: whether a term, given by its handle, is a sum or an addition; ``inside``: the terms that a constant stands for.
        ``shared``: a term that both programs have is computed in one way.
        """
        found: dict[str, None] = {}
        for use in self._uses.values():
            if use.op not in found and not (shared and use.sides >= {"before", "after"}) and _reads(use.operands, rounds, inside):
                found[use.op] = None
        return tuple(sorted(found))


def _reads(operands: Sequence[Any], rounds: Callable[[Any], bool], inside: Callable[[int], Sequence[Any]]) -> bool:
    seen: set[int] = set()
    hit = False
    stack = [operands]

    def visit(number: int, term: Any) -> bool:
        nonlocal hit
        hit = hit or rounds(term)
        stack.append(inside(number))
        return not hit

    while stack and not hit:
        walk(stack.pop(), seen, visit)
    return hit
