"""Which inputs of a backward graph it takes an exponential of.

``exp(x + e)`` is ``exp(e) exp(x)``: what is added to an exponent becomes a factor. A backward pass that computes a softmax again, from
scores and the logarithm of their sum, multiplies gradients by it.
"""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from optimus.values import tensor
from optimus.views import root

aten, prims = torch.ops.aten, torch.ops.prims

ELEMENTWISE = {
    aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.pow.Tensor_Scalar,
    aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar, aten._to_copy.default, aten.clone.default,
    prims.convert_element_type.default, aten._log_softmax.default,
}  # fmt: skip
"""What an exponent is computed by."""
EXPONENTIALS = {
    aten.exp.default: 0, aten.exp2.default: 0, aten.expm1.default: 0, aten.sinh.default: 0, aten.cosh.default: 0, aten._softmax.default: 0,
    aten._log_softmax_backward_data.default: 1,
}  # fmt: skip
"""Operators that take the exponential of an argument, and its position."""
ATTENTION = "_scaled_dot_product"
"""How the backward operators begin that compute the weights of attention again: from queries and keys, the second and third argument."""


def exponents(graph: Graph) -> frozenset[str]:
    """The names of the inputs of ``graph`` that an exponential is taken of, as they are or with others in a sum or product.

    The negative of a square is none: its exponential is at most 1 (the density of the normal distribution, in the gradient of ``gelu``).
    """
    sources: dict[Node, frozenset[str]] = {}
    found: frozenset[str] = frozenset()
    for node in graph.nodes:
        read = [sources.get(n, frozenset()) for n in node.all_input_nodes]
        if node.op == "placeholder":
            sources[node] = frozenset({node.name})
        elif node.target in EXPONENTIALS:
            exponent = node.args[EXPONENTIALS[node.target]]
            found |= frozenset() if _is_negative_square(exponent) else sources.get(exponent, frozenset())
        elif _recomputes_attention(node):
            found |= frozenset().union(*(sources.get(n, frozenset()) for n in node.args[1:3] if isinstance(n, Node)))
        elif node.target in ELEMENTWISE or (tensor(node) is not None and root(node) is not node):
            sources[node] = frozenset().union(*read)
    return found


def _recomputes_attention(node: Node) -> bool:
    name = getattr(node.target, "__name__", "")
    return name.startswith(ATTENTION) and "backward" in name


def _is_negative_square(node: object) -> bool:
    """``y * y * c`` for a number ``c`` below zero."""
    if not isinstance(node, Node) or node.target is not aten.mul.Tensor:
        return False
    square, by = node.args
    if not isinstance(square, Node) or not isinstance(by, (int, float)) or not by < 0:
        return False
    return square.target is aten.mul.Tensor and square.args[0] is square.args[1]
