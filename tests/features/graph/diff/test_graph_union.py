from __future__ import annotations

from graphlib import TopologicalSorter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_node_table
from graphviz_dash.features.graph.diff.graph_diff import diff_graphs
from graphviz_dash.features.graph.diff.graph_union import FIRST_GRAPH, merge_graphs
from graphviz_dash.features.graph.diff_narrative import format_node_changes
from graphviz_dash.model.graph import CapturedGraph, GraphEdge, GraphNode, KernelParams, NodeKind


def _node(index: int, name: str) -> GraphNode:
    params = KernelParams(name, name, (1, 1, 1), (32, 1, 1), 0, 0, 16)
    return GraphNode(index, NodeKind.KERNEL, params)


def _line(*names: str) -> CapturedGraph:
    return CapturedGraph(
        "graph-0",
        tuple(_node(index, name) for index, name in enumerate(names)),
        tuple(GraphEdge(index, index + 1) for index in range(len(names) - 1)),
        "test",
    )


def _table(graph: CapturedGraph) -> NodeTable:
    return build_node_table(graph, attribute_graph(graph), None)


def test_a_removed_node_stays_between_its_neighbours() -> None:
    a, b = _line("first", "gone", "last"), _line("first", "last", "fresh")
    diff = diff_graphs([a], [b])
    union = merge_graphs(diff, _table(a), _table(b))
    assert [row.node.label for row in union.graph.table.rows] == ["first", "last", "fresh", "gone"]
    assert [node.change for node in union.nodes] == [
        Change.SAME,
        Change.SAME,
        Change.ADDED,
        Change.REMOVED,
    ]
    assert union.graph.owners[3] == (FIRST_GRAPH, 1)
    assert union.edges == {
        (0, 1): Change.ADDED,
        (1, 2): Change.ADDED,
        (0, 3): Change.REMOVED,
        (3, 1): Change.REMOVED,
    }


@given(st.permutations(list("abcdef")), st.permutations(list("abcdefgh")))
def test_any_two_graphs_unite_without_a_cycle(first: list[str], second: list[str]) -> None:
    a, b = _line(*first), _line(*second[:6])
    union = merge_graphs(diff_graphs([a], [b]), _table(a), _table(b))
    graph = union.graph.table.graph
    assert [node.index for node in graph.nodes] == list(range(len(union.nodes)))
    order: TopologicalSorter[int] = TopologicalSorter()
    for edge in graph.edges:
        order.add(edge.target, edge.source)
    order.prepare()
    assert set(b.edges) <= set(graph.edges)


def test_a_difference_is_told_in_one_line() -> None:
    a = _line("k", "m")
    wider = msgspec.structs.replace(a.nodes[1].params, grid=(8, 1, 1))
    b = msgspec.structs.replace(
        a, nodes=(a.nodes[0], msgspec.structs.replace(a.nodes[1], params=wider)), edges=()
    )
    first, second = diff_graphs([a], [b]).nodes
    assert format_node_changes(first) == ""
    assert format_node_changes(second) == "grid 1x1x1 to 8x1x1, depends on other nodes"
