from __future__ import annotations

import numpy as np

from graphviz_dash.analysis.attribution.origins import NodeOrigin
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED
from graphviz_dash.analysis.nodes.needless_edges import find_redundant_edges
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind, Operand
from tests.analysis.scenes import graph_of


def _origin(op: str, backward: str, dims: str) -> NodeOrigin:
    path = (f"autograd::engine::evaluate_function: {backward}", backward, op)
    return NodeOrigin("t", 1.0, op=op, op_path=path, input_dims=dims, module="m")


def test_the_parts_of_a_products_backward_need_not_follow_each_other() -> None:
    origins = [
        None,
        _origin("aten::mm", "AddmmBackward0", "[[2,3],[3,4]]"),
        _origin("aten::mm", "AddmmBackward0", "[[4,2],[2,3]]"),
        _origin("aten::sum", "AddmmBackward0", "[[2,3]]"),
        None,
    ]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4)])
    found = find_redundant_edges(edges, np.array([1, 10, 20, 5, 1]), origins)
    assert found.edges == ((1, 2), (2, 3))
    assert [group.parts for group in found.groups] == [((1,), (2,), (3,))]
    assert found.path_ns == 1 + 20 + 1


def _line(*offsets: int | None) -> CapturedGraph:
    """Kernels in a line, each with 8 bytes of memory at its offset; None: it does not tell."""
    return graph_of(
        [
            GraphNode(at, NodeKind.KERNEL, operands=None if one is None else (Operand(0, one, 8),))
            for at, one in enumerate(offsets)
        ]
    )


def test_nodes_without_memory_in_common_need_not_follow_each_other() -> None:
    edges = np.array([(0, 1), (1, 2), (2, 3)])
    found = find_redundant_edges(edges, np.array([10, 20, 5, 1]), [None] * 4, _line(0, 64, 0, 64))
    assert found.edges == ((0, 1), (1, 2), (2, 3))
    assert (found.operator_only_count, found.unknown_nodes) == (0, 0)
    assert found.path_ns == 20 + 1


def test_memory_and_meaning_tell_together() -> None:
    origins = [
        None,
        _origin("aten::mm", "AddmmBackward0", "[[2,3],[3,4]]"),
        _origin("aten::mm", "AddmmBackward0", "[[4,2],[2,3]]"),
        None,
        None,
    ]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4)])
    graph = _line(0, 0, 0, 64, None)
    found = find_redundant_edges(edges, np.array([1, 10, 20, 50, 2]), origins, graph)
    assert found.edges == ((1, 2), (2, 3))
    assert (found.operator_only_count, found.unknown_nodes) == (1, 1)
    assert found.path_ns == 50 + 2


def test_an_untraced_node_keeps_its_edges() -> None:
    """A call on the CPU between two kernels that share nothing."""
    graph = _line(0, None, 64)
    found = find_redundant_edges(np.array([(0, 2)]), np.array([10, UNTRACED, 5]), [None] * 3, graph)
    assert found.edges == ()
    assert found.path_ns == 15


def test_two_kernels_of_one_product_stay_in_order() -> None:
    """Split products: nothing but the shapes tells two kernels of one from two products."""
    origins = [_origin("aten::mm", "MmBackward0", "[[2,3],[3,4]]")] * 2
    found = find_redundant_edges(np.array([(0, 1)]), np.array([10, 5]), origins)
    assert found.edges == ()
    assert found.path_ns == 15


def test_other_operators_say_nothing() -> None:
    origins = [
        _origin("aten::mul", "MulBackward0", "[[2]]"),
        _origin("aten::mul", "MulBackward0", "[[3]]"),
    ]
    assert find_redundant_edges(np.array([(0, 1)]), np.array([1, 1]), origins).groups == ()
