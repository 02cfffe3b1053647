"""A captured graph with its data dependencies instead of the captured ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.graph.critical_path import CriticalPath, Dependencies, critical_path
from graphviz_dash.analysis.nodes.measured_graph import NOT_SEEN, MeasuredGraph
from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.prediction.analysis.work import GraphWork
from graphviz_dash.model.graph import GraphEdge


class DataGraph(Struct, frozen=True):
    """A graph by data dependencies.

    ``full_graph`` has the required edges without redundant ones; ``measured`` has their critical
    path and slack.
    """

    whole: WholeGraph
    measured: MeasuredGraph


def data_graph(whole: WholeGraph, measured: MeasuredGraph, work: GraphWork) -> DataGraph | None:
    """Return ``full_graph`` with the dependencies of its ``work``; None for a graph that contains
    others.

    Nodes without GPU time, such as empty ones, lose their edges.
    """
    if whole.bodies:
        return None
    nodes = [group[0] for group in work.nodes]
    pairs = [
        (nodes[source], nodes[target])
        for source, target in reduced([operation.after for operation in work.operations])
    ]
    edges = tuple(GraphEdge(source, target) for source, target in sorted(pairs))
    graph = msgspec.structs.replace(whole.table.graph, edges=edges)
    depend = Dependencies.of(len(measured.nodes), np.array(pairs, dtype=np.int64).reshape(-1, 2))
    path = critical_path(depend, np.maximum(measured.p50, 0))
    shown = measured.p50 != NOT_SEEN
    on_path = tuple(node for node in path.nodes if shown[node])
    return DataGraph(
        replace(whole, table=replace(whole.table, graph=graph)),
        replace(
            measured,
            edges=(),
            path=CriticalPath(on_path, path.length, path.earliest, path.rest, path.slack),
            slack=np.where(shown, path.slack, NOT_SEEN),
        ),
    )


def reduced(after: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the dependencies (source, target) in ``after`` that no others imply.

    This is the transitive reduction. Items may depend only on earlier ones. Quadratic in bits.
    """
    reach: list[int] = []
    pairs: list[tuple[int, int]] = []
    for index, sources in enumerate(after):
        reached = 0
        for source in sorted(set(sources), reverse=True):
            if not reached >> source & 1:
                pairs.append((source, index))
                reached |= reach[source] | 1 << source
        reach.append(reached)
    return pairs
