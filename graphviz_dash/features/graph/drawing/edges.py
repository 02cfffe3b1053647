"""Edges between two boxes of the DAG: ends, type and ports."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.folding.tree import FoldGroup
from graphviz_dash.model.graph import EdgeType, GraphEdge, KernelParams

_MAX_ROWS: Final = 24
_LABEL_LENGTH: Final = 60

_PORTS: Final = {
    0: "its completion",
    1: "its programmatic launch completion",
    2: "its launch order",
}
"""Event of a kernel that the next node waits for (cudaGraphKernelNodePort*)."""


class EdgeRow(msgspec.Struct, frozen=True):
    """Edge of a link."""

    source: int
    """Index of the source node."""
    target: int
    """Index of the target node."""
    before: str
    """Name of the source."""
    after: str
    """Name of the target."""
    what: str
    """Type and ports, in words."""
    critical: bool
    """Whether it is on the critical path."""


class EdgeList(msgspec.Struct, frozen=True):
    """Edges of a link."""

    total: int
    """Number of edges."""
    kinds: list[str]
    """Counts by type, in words."""
    rows: list[EdgeRow]
    """First edges."""


def list_edges_between(graph: FoldedGraph, source: str, target: str) -> EdgeList:
    """List the edges from one box to another, without edges inside either.

    Raises:
        KeyError: there is no such box.
    """
    edges = graph.edges
    source_range, target_range = _find_leaf_range(graph, source), _find_leaf_range(graph, target)
    leaving = (edges.source >= source_range[0]) & (edges.source < source_range[1])
    entering = (edges.target >= target_range[0]) & (edges.target < target_range[1])
    if source_range[0] <= target_range[0] and target_range[1] <= source_range[1]:
        leaving &= (edges.source < target_range[0]) | (edges.source >= target_range[1])
    elif target_range[0] <= source_range[0] and source_range[1] <= target_range[1]:
        entering &= (edges.target < source_range[0]) | (edges.target >= source_range[1])
    numbers = np.flatnonzero(leaving & entering).tolist()
    all_edges = graph.full_graph.table.graph.edges
    kinds = Counter(_describe_edge(all_edges[number]) for number in numbers)
    return EdgeList(
        len(numbers),
        [f"{count:,} × {kind}" for kind, count in kinds.most_common()],
        [
            _build_row(graph, all_edges[number], bool(edges.critical[number]))
            for number in numbers[:_MAX_ROWS]
        ],
    )


def _find_leaf_range(graph: FoldedGraph, ident: str) -> tuple[int, int]:
    if ident in graph.groups:
        group: FoldGroup = graph.groups[ident]
        return group.first, group.first + group.count
    node = int(ident[1:]) if ident[:1] == "n" and ident[1:].isdecimal() else len(graph.rows)
    if node >= len(graph.rows):
        raise KeyError(ident)
    position = int(graph.root.order.positions[node])
    return position, position + 1


def _build_row(graph: FoldedGraph, edge: GraphEdge, critical: bool) -> EdgeRow:
    before, after = (_format_node_name(graph, node) for node in (edge.source, edge.target))
    return EdgeRow(edge.source, edge.target, before, after, _describe_edge(edge), critical)


def _format_node_name(graph: FoldedGraph, node: int) -> str:
    row = graph.rows[node]
    owner, index = graph.full_graph.owners[node]
    label = escape_control_characters(row.node.label)
    short = shorten_name(label) if isinstance(row.node.params, KernelParams) else label
    suffix = (
        ""
        if owner == graph.full_graph.table.graph.id
        else f" of {escape_control_characters(owner)}"
    )
    return f"{index}{suffix} {short[:_LABEL_LENGTH]}"


def _describe_edge(edge: GraphEdge) -> str:
    if edge.type is EdgeType.FULL and not edge.from_port and not edge.to_port:
        return "full dependency, waits for the entire node"
    waits = _PORTS.get(edge.from_port, f"port {edge.from_port}")
    return (
        f"{edge.type.value} dependency, port {edge.from_port} to {edge.to_port}: waits for {waits}"
    )
