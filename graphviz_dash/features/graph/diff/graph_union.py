"""Two graphs as one, to be drawn together: the second graph, and in it what only the first has."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.graph.change import Change
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.diff.graph_diff import GraphDiff, NodeDiff
from graphviz_dash.model.graph import GraphEdge

FIRST: Final = "the other graph"
"""What the first graph is called among the owners of nodes."""


class GraphUnion(Struct, frozen=True):
    """``whole`` has the nodes of the second graph at their indices, then those that only the first
    has; ``nodes`` says what became of each by its index, ``edges`` what became of each dependency
    between two of them. Bodies are left out."""

    whole: WholeGraph
    nodes: tuple[NodeDiff, ...]
    edges: Mapping[tuple[int, int], Change]


def unite(diff: GraphDiff, first: NodeTable, second: NodeTable) -> GraphUnion:
    """The union of the two graphs that ``diff`` compares, whose node tables are given.

    Of the dependencies that only the first graph has, those of its own nodes are kept; where these
    would close a cycle with the second graph's, only those that lead to them are.
    """
    count = len(diff.b.nodes)
    index_of = {node.a: index for index, node in enumerate(diff.nodes) if node.a is not None}
    rows = list(second.rows)
    owner = [(diff.b.id, index) for index in range(count)]
    for index in range(count, len(diff.nodes)):
        first_index = diff.nodes[index].a or 0
        row = first.rows[first_index]
        node = msgspec.structs.replace(row.node, index=index, bodies=())
        rows.append(msgspec.structs.replace(row, node=node))
        owner.append((FIRST, first_index))
    gone = [
        msgspec.structs.replace(edge, source=index_of[edge.source], target=index_of[edge.target])
        for edge in diff.a.edges
        if max(index_of[edge.source], index_of[edge.target]) >= count
    ]
    edges = (*diff.b.edges, *gone)
    if not _acyclic(edges):
        edges = (*diff.b.edges, *(edge for edge in gone if edge.target >= count))
    changes = {edge.b: edge.change for edge in diff.edges if edge.b is not None}
    changes |= {(edge.source, edge.target): Change.REMOVED for edge in edges[len(diff.b.edges) :]}
    graph = msgspec.structs.replace(
        diff.b, nodes=tuple(row.node for row in rows), edges=tuple(edges)
    )
    table = replace(second, graph=graph, rows=tuple(rows))
    whole = WholeGraph(table, tuple(owner), {}, tuple(range(len(rows))))
    return GraphUnion(whole, diff.nodes, changes)


def _acyclic(edges: tuple[GraphEdge, ...]) -> bool:
    order: TopologicalSorter[int] = TopologicalSorter()
    for edge in edges:
        order.add(edge.target, edge.source)
    try:
        order.prepare()
    except CycleError:
        return False
    return True
