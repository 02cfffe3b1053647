"""Union of two graphs for drawing: the second graph plus the removed parts of the first."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, NodeDiff
from graphviz_dash.model.graph import GraphEdge

FIRST_GRAPH: Final = "the other graph"
"""Owner name for nodes of the first graph."""


class GraphUnion(Struct, frozen=True):
    """Union of two graphs, without bodies.

    ``whole`` has the nodes of the second graph, then the removed nodes; ``nodes`` and ``edges``
    hold the changes.
    """

    graph: ExpandedGraph
    nodes: tuple[NodeDiff, ...]
    edges: Mapping[tuple[int, int], Change]


def merge_graphs(diff: GraphDiff, first: NodeTable, second: NodeTable) -> GraphUnion:
    """Merge the two graphs of ``diff``.

    Removed dependencies that would form a cycle are dropped.
    """
    count = len(diff.b.nodes)
    index_of = {node.a: index for index, node in enumerate(diff.nodes) if node.a is not None}
    rows = list(second.rows)
    owners = [(diff.b.id, index) for index in range(count)]
    for index in range(count, len(diff.nodes)):
        first_index = diff.nodes[index].a or 0
        row = first.rows[first_index]
        node = msgspec.structs.replace(row.node, index=index, bodies=())
        rows.append(msgspec.structs.replace(row, node=node))
        owners.append((FIRST_GRAPH, first_index))
    removed = [
        msgspec.structs.replace(edge, source=index_of[edge.source], target=index_of[edge.target])
        for edge in diff.a.edges
        if max(index_of[edge.source], index_of[edge.target]) >= count
    ]
    edges = (*diff.b.edges, *removed)
    if not _is_acyclic(edges):
        edges = (*diff.b.edges, *(edge for edge in removed if edge.target >= count))
    changes = {edge.b: edge.change for edge in diff.edges if edge.b is not None}
    changes |= {(edge.source, edge.target): Change.REMOVED for edge in edges[len(diff.b.edges) :]}
    graph = msgspec.structs.replace(
        diff.b, nodes=tuple(row.node for row in rows), edges=tuple(edges)
    )
    table = replace(second, graph=graph, rows=tuple(rows))
    union_graph = ExpandedGraph(table, tuple(owners), {}, tuple(range(len(rows))))
    return GraphUnion(union_graph, diff.nodes, changes)


def _is_acyclic(edges: tuple[GraphEdge, ...]) -> bool:
    order: TopologicalSorter[int] = TopologicalSorter()
    for edge in edges:
        order.add(edge.target, edge.source)
    try:
        order.prepare()
    except CycleError:
        return False
    return True
