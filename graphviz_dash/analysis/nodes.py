"""Everything known of each node of a captured graph, in one row: the driver's facts, where the node
comes from, and its times over the replays. The DAG, the node card, the CLI and the exports all take
this one table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.attribution import Attribution, NodeOrigin, attribute
from graphviz_dash.analysis.categories import Category, categorise
from graphviz_dash.analysis.replays import METHODS, UNMATCHED, ReplayMatch, match_replays
from graphviz_dash.model.graph import CapturedGraph, GraphNode
from graphviz_dash.model.run import Run

__all__ = ["NodeOrigin", "NodeRow", "NodeTable", "NodeTimes", "build_node_table", "node_table"]


@dataclass(frozen=True)
class NodeTimes:
    """A node's duration over the traced replays, in ns, and how its rows were found.

    ``method`` is the rung ("graph node id", "alignment: order", "alignment: branches", "none") and
    ``confidence`` the least over the replays. ``samples`` is 0, and the times None, for a node
    that the profiler did not show.
    """

    method: str
    confidence: float
    samples: int
    median_ns: float | None
    min_ns: int | None
    max_ns: int | None
    start_median_ns: float | None  # since the start of its replay's first row
    stream: int | None  # of the first replay


NOT_SEEN = NodeTimes(UNMATCHED, 0.0, 0, None, None, None, None, None)


@dataclass(frozen=True)
class NodeRow:
    """One node: driver facts, origin, times. ``category`` is read from its name."""

    node: GraphNode
    category: Category
    origin: NodeOrigin
    times: NodeTimes


@dataclass(frozen=True)
class NodeTable:
    """All nodes of one graph, by index, with the counts that tell how far to trust them.

    ``attributed`` counts nodes with an operator; ``capture_launches`` the launches seen inside the
    capture; ``replay_kernels`` the GPU rows of all replays, ``matched_kernels`` those of them that
    were matched to a node.
    """

    graph: CapturedGraph
    rows: tuple[NodeRow, ...]
    attributed: int
    capture_launches: int
    replays: int
    replay_kernels: int
    matched_kernels: int


def node_table(run: Run, graph_id: str) -> NodeTable:
    """The table of one graph of ``run``, from its capture trace and its replay trace.

    Raises:
        KeyError: the run has no graph of that id.
    """
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise KeyError(graph_id)
    matched = match_replays(run.graphs, run.replay_trace) if run.replay_trace else None
    return build_node_table(graph, attribute(graph, run.capture_trace), matched)


def build_node_table(
    graph: CapturedGraph, attribution: Attribution, matched: ReplayMatch | None
) -> NodeTable:
    """The table of ``graph`` from results that are already there."""
    times = [
        NOT_SEEN if matched is None else _times(matched, graph.id, node.index)
        for node in graph.nodes
    ]
    rows = tuple(
        NodeRow(node, categorise(node.kind.value, node.label), origin, time)
        for node, origin, time in zip(graph.nodes, attribution.origins, times, strict=True)
    )
    mine = None if matched is None else matched.of_graph(graph.id)
    return NodeTable(
        graph=graph,
        rows=rows,
        attributed=sum(origin.op is not None for origin in attribution.origins),
        capture_launches=attribution.capture_launches,
        replays=0 if matched is None else matched.replays_of(graph.id),
        replay_kernels=0 if mine is None else int(np.count_nonzero(mine)),
        matched_kernels=(
            0 if matched is None or mine is None else int(np.count_nonzero(matched.node[mine] >= 0))
        ),
    )


def _times(matched: ReplayMatch, graph_id: str, node: int) -> NodeTimes:
    rows = matched.rows_of(graph_id, node)
    if not len(rows):
        return NOT_SEEN
    durations = matched.duration[rows]
    return NodeTimes(
        method=METHODS[int(matched.method[rows[0]])],
        confidence=float(matched.confidence[rows].min()),
        samples=len(rows),
        median_ns=float(np.median(durations)),
        min_ns=int(durations.min()),
        max_ns=int(durations.max()),
        start_median_ns=float(np.median(matched.start[rows])),
        stream=int(matched.stream[rows[0]]),
    )
