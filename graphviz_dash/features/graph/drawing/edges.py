"""The edges that run between two boxes of the DAG, one by one: ends, type and ports."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np

from graphviz_dash.analysis.trace.kernel_names import short_name
from graphviz_dash.errors import printable
from graphviz_dash.features.graph.drawing.folded import FoldedGraph
from graphviz_dash.features.graph.folding.tree import Group
from graphviz_dash.model.graph import EdgeType, GraphEdge, KernelParams

_MOST: Final = 24
_LABEL: Final = 60

_PORTS: Final = {
    0: "its completion",
    1: "its programmatic launch completion",
    2: "its launch order",
}
"""What of a kernel the next node waits for (cudaGraphKernelNodePort*)."""


class EdgeRow(msgspec.Struct, frozen=True):
    """One edge of a link."""

    source: int
    """Index of the node that it leaves."""
    target: int
    """Index of the node that it enters."""
    before: str
    """What the source is called."""
    after: str
    """What the target is called."""
    what: str
    """Its type and ports, in words."""
    critical: bool
    """Whether it is on the critical path."""


class EdgeList(msgspec.Struct, frozen=True):
    """The edges of a link."""

    total: int
    """How many there are."""
    kinds: list[str]
    """What they are, in words."""
    rows: list[EdgeRow]
    """The first of them."""


def edges_between(graph: FoldedGraph, source: str, target: str) -> EdgeList:
    """The edges from what is in one box to what is in another, those inside either left out.

    Raises:
        KeyError: there is no such box.
    """
    edges = graph.edges
    begin, end = _range(graph, source), _range(graph, target)
    leaving = (edges.source >= begin[0]) & (edges.source < begin[1])
    entering = (edges.target >= end[0]) & (edges.target < end[1])
    if begin[0] <= end[0] and end[1] <= begin[1]:
        leaving &= (edges.source < end[0]) | (edges.source >= end[1])
    elif end[0] <= begin[0] and begin[1] <= end[1]:
        entering &= (edges.target < begin[0]) | (edges.target >= begin[1])
    numbers = np.flatnonzero(leaving & entering).tolist()
    every = graph.whole.table.graph.edges
    kinds = Counter(_what(every[at]) for at in numbers)
    return EdgeList(
        len(numbers),
        [f"{count:,} × {what}" for what, count in kinds.most_common()],
        [_row(graph, every[at], bool(edges.critical[at])) for at in numbers[:_MOST]],
    )


def _range(graph: FoldedGraph, ident: str) -> tuple[int, int]:
    if ident in graph.groups:
        group: Group = graph.groups[ident]
        return group.first, group.first + group.count
    node = int(ident[1:]) if ident[:1] == "n" and ident[1:].isdecimal() else len(graph.rows)
    if node >= len(graph.rows):
        raise KeyError(ident)
    at = int(graph.root.order.at[node])
    return at, at + 1


def _row(graph: FoldedGraph, edge: GraphEdge, critical: bool) -> EdgeRow:
    before, after = (_name(graph, node) for node in (edge.source, edge.target))
    return EdgeRow(edge.source, edge.target, before, after, _what(edge), critical)


def _name(graph: FoldedGraph, node: int) -> str:
    row = graph.rows[node]
    owner, index = graph.whole.owner[node]
    label = printable(row.node.label)
    short = short_name(label) if isinstance(row.node.params, KernelParams) else label
    of = "" if owner == graph.whole.table.graph.id else f" of {printable(owner)}"
    return f"{index}{of} {short[:_LABEL]}"


def _what(edge: GraphEdge) -> str:
    if edge.type is EdgeType.FULL and not edge.from_port and not edge.to_port:
        return "full dependency, waits for all of the node"
    waits = _PORTS.get(edge.from_port, f"port {edge.from_port}")
    return (
        f"{edge.type.value} dependency, port {edge.from_port} to {edge.to_port}: waits for {waits}"
    )
