"""Passes as those of a backend of somebody else: of a graph or a module, right and wrong."""

from __future__ import annotations

import copy

import torch
from torch.fx import Graph, GraphModule


def nothing(graph: Graph) -> None:
    """Changes nothing."""


def method_for_function(gm: GraphModule) -> GraphModule:
    """``torch.tanh(x)`` as ``x.tanh()``, which is the same."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is torch.tanh and len(node.args) == 1 and not node.kwargs:
            node.op, node.target = "call_method", "tanh"
    return gm


def tanh_for_sigmoid(graph: Graph) -> None:
    """Wrong: another function."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is torch.sigmoid:
            node.target = torch.tanh


def raises(graph: Graph) -> None:
    """Wrong."""
    raise RuntimeError("boom")


def without_an_output(gm: GraphModule) -> None:
    """Wrong."""
    gm.graph.erase_node(gm.graph.output_node())


def not_printable(graph: Graph) -> None:
    """Wrong: methods are called on nothing."""
    for node in graph.nodes:
        if node.op == "call_function":
            node.op, node.target, node.args = "call_method", "tanh", ()


def a_number(gm: GraphModule) -> int:
    """Wrong."""
    return 3


def times_an_attribute(gm: GraphModule) -> GraphModule:
    """Right: every ``tanh`` is multiplied by an attribute that is 1."""
    made = copy.deepcopy(gm)
    made.one_of_its_own = torch.ones(())
    for node in list(made.graph.nodes):
        fake = node.meta.get("example_value")
        if node.op == "call_function" and node.target is torch.tanh and fake.dtype is torch.float32 and "out" not in node.kwargs:
            with made.graph.inserting_after(node):
                one = made.graph.get_attr("one_of_its_own")
            with made.graph.inserting_after(one):
                product = made.graph.call_function(torch.mul, (node, one))
            node.replace_all_uses_with(product, delete_user_cb=lambda user, product=product: user is not product)
            product.meta["example_value"] = fake
    return made


PASSES = [method_for_function, tanh_for_sigmoid]
NO_FUNCTIONS = [1]
