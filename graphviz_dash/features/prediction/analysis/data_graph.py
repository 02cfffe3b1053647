"""A captured graph with its data dependencies instead of the captured ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.graph.critical_path import (
    CriticalPath,
    Dependencies,
    find_critical_path,
)
from graphviz_dash.analysis.nodes.measured_graph import UNTRACED, MeasuredGraph
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph
from graphviz_dash.features.prediction.analysis.work import GraphWork
from graphviz_dash.model.graph import GraphEdge


class DataGraph(Struct, frozen=True):
    """A graph by data dependencies.

    ``full_graph`` has the required edges without redundant ones, ``measured`` their critical path
    and slack.
    """

    full_graph: ExpandedGraph
    measured: MeasuredGraph


def build_data_graph(
    full_graph: ExpandedGraph, measured: MeasuredGraph, work: GraphWork
) -> DataGraph | None:
    """Return ``full_graph`` with the dependencies of its ``work``; None for nested graphs.

    Nodes without GPU time, such as empty ones, lose their edges.
    """
    if full_graph.bodies:
        return None
    nodes = [group[0] for group in work.nodes]
    pairs = [
        (nodes[source], nodes[target])
        for source, target in reduce_dependencies(
            [operation.dependencies for operation in work.operations]
        )
    ]
    edges = tuple(GraphEdge(source, target) for source, target in sorted(pairs))
    graph = msgspec.structs.replace(full_graph.table.graph, edges=edges)
    depend = Dependencies.from_edges(
        len(measured.nodes), np.array(pairs, dtype=np.int64).reshape(-1, 2)
    )
    path = find_critical_path(depend, np.maximum(measured.p50, 0))
    is_traced = measured.p50 != UNTRACED
    on_path = tuple(node for node in path.nodes if is_traced[node])
    return DataGraph(
        replace(full_graph, table=replace(full_graph.table, graph=graph)),
        replace(
            measured,
            edges=(),
            path=CriticalPath(on_path, path.length, path.earliest, path.remaining, path.slack),
            slack=np.where(is_traced, path.slack, UNTRACED),
        ),
    )


def reduce_dependencies(predecessors: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the dependencies (source, target) that no others imply.

    This is the transitive reduction. Items may depend only on earlier ones. Quadratic in bits.
    """
    reach: list[int] = []
    pairs: list[tuple[int, int]] = []
    for index, sources in enumerate(predecessors):
        reached = 0
        for source in sorted(set(sources), reverse=True):
            if not reached >> source & 1:
                pairs.append((source, index))
                reached |= reach[source] | 1 << source
        reach.append(reached)
    return pairs
