from __future__ import annotations

import msgspec

from graphviz_dash.analysis.graph.flatten import flatten_graph, list_flat_variants
from graphviz_dash.model.graph import CapturedGraph, GraphNode, NodeKind
from tests.analysis.scenes import graph_of, kernel

OUTER, BODY = "graph-0", "graph-0.1"


def holding(kind: NodeKind) -> dict[str, CapturedGraph]:
    """Three nodes in a line, the middle one of ``kind`` around a body of two kernels."""
    middle = GraphNode(1, kind, bodies=(BODY,))
    outer = graph_of([kernel(0, "a"), middle, kernel(2, "d")], [(0, 1), (1, 2)])
    body = graph_of([kernel(0, "b"), kernel(1, "c")], [(0, 1)])
    graphs = (
        msgspec.structs.replace(outer, id=OUTER),
        msgspec.structs.replace(body, id=BODY, parent=(OUTER, 1)),
    )
    return {graph.id: graph for graph in graphs}


def test_a_graph_that_holds_none_is_as_it_is() -> None:
    graph = graph_of([kernel(0, "a"), kernel(1, "b")], [(0, 1)])
    flat = flatten_graph(graph, {graph.id: graph})
    assert flat.graph is graph
    assert (flat.owners, flat.indices) == ([graph.id] * 2, [0, 1])


def test_a_child_graph_lies_between_its_neighbours() -> None:
    graphs = holding(NodeKind.CHILD_GRAPH)
    flat = flatten_graph(graphs[OUTER], graphs)
    index = {name: at for at, name in enumerate(zip(flat.owners, flat.indices, strict=True))}
    edges = {(edge.source, edge.target) for edge in flat.graph.edges}
    end = index["", -1]
    assert (index[OUTER, 1], index[BODY, 0]) in edges
    assert (index[BODY, 0], index[BODY, 1]) in edges
    assert {(index[BODY, 1], end), (end, index[OUTER, 2])} <= edges


def test_a_conditional_node_runs_its_body_or_not() -> None:
    graphs = holding(NodeKind.CONDITIONAL)
    ways = list_flat_variants(graphs[OUTER], graphs)
    assert sorted(flat.owners.count(BODY) for flat in ways) == [0, 2]
    assert {flat.root for flat in ways} == {OUTER}
