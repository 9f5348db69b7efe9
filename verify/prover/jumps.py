"""Operators that jump: where they read what was added up in another order, rounding does not bound what comes out.

A function counts as one that jumps unless it is known to be continuous wherever it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verify.prover.laws import FLOATS
from verify.prover.terms import walk
from verify.semantics.logic import Symbol

CONTINUOUS = {
    "constant", "integer", "scale", "detach", "under", "written", "read_wide", "mean", "pick", "sum", "standardised", "normalised",
    "norm_backward", "row_mean", "row_rstd", "add", "sub", "rsub", "mul", "div", "reciprocal", "square", "sqrt", "rsqrt", "pow", "neg",
    "positive", "abs", "addcmul", "addcdiv", "lerp", "hypot", "logaddexp", "logaddexp2", "xlogy", "maximum", "minimum", "fmax", "fmin",
    "clamp", "clamp_min", "clamp_max", "where", "masked_fill", "relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu",
    "elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "softshrink", "softsign", "tanhshrink", "sigmoid", "log_sigmoid",
    "logsigmoid", "tanh", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sinc", "exp", "exp2",
    "expm1", "log", "log1p", "log2", "log10", "erf", "erfc", "erfinv", "lgamma", "logit", "conj", "real", "imag", "sigmoid_backward",
    "tanh_backward", "silu_backward", "gelu_backward", "mish_backward", "softplus_backward", "logit_backward", "var", "std", "var_mean",
    "std_mean", "amax", "amin", "prod", "logsumexp", "softmax", "log_softmax", "cumsum", "cumprod", "nansum", "norm",
    "linalg_vector_norm", "_softmax_backward_data", "_log_softmax_backward_data", "logcumsumexp", "max", "min", "sort", "topk", "cummax",
    "cummin", "median", "kthvalue", "conv1d", "conv2d", "conv3d", "convolution", "batch_norm", "group_norm", "instance_norm", "rms_norm",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "mse_loss", "l1_loss", "smooth_l1_loss",
    "huber_loss", "nll_loss", "cross_entropy", "index_add", "scatter_add", "embedding_dense_backward", "scaled_dot_product_attention",
    "dropout", "native_dropout", "tensordot", "dot", "mv", "addmv", "outer", "cdist",
}  # fmt: skip
"""Of several results, the first bears the name of the operator alone: the largest elements, not where they are."""


def is_float(dtype: str) -> bool:
    """Whether numbers of a dtype are rounded."""
    return dtype.startswith(FLOATS)


def may_jump(symbol: Symbol) -> bool:
    """Whether a small difference of operands may make a large one of the result."""
    if symbol.op == "cast":
        return is_float(symbol.dtypes[0]) and not is_float(symbol.result)
    name = symbol.op.removeprefix("reflected_").partition("#")[0]
    return name not in CONTINUOUS and (not symbol.dtypes or any(map(is_float, symbol.dtypes)))


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
