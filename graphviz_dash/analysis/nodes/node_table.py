"""Everything known of each node of a captured graph, in one row: the driver's facts, where the node
comes from, and its times over the replays. The DAG, the node card, the CLI and the exports all take
this one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.attribution.attribution import Attribution, NodeOrigin, attributions
from graphviz_dash.analysis.replays.replays import (
    METHODS,
    TRACED_PASS,
    UNMATCHED,
    Narrow,
    ReplayMatch,
    identities_of,
    match_replays,
    timed_replays,
)
from graphviz_dash.analysis.replays.visibility import (
    conditionals_around,
    what_is_left_out,
    why_no_times,
)
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.model.graph import CapturedGraph, GraphNode
from graphviz_dash.model.run import Run

__all__ = [
    "NodeOrigin",
    "NodeRow",
    "NodeTable",
    "NodeTimes",
    "build_node_table",
    "node_table",
    "node_tables",
]


class NodeTimes(msgspec.Struct, frozen=True, gc=False):
    """A node's duration over the replays of one pass, in ns, and how its rows were matched."""

    method: str
    """"graph node id", "alignment: order", "alignment: branches" or "none"."""
    confidence: float
    """How sure the match is, 0 to 1: the least over the replays."""
    samples: int
    """How many replays show the node; 0 for one that the profiler did not show."""
    median_ns: float | None
    """Median duration; None without samples."""
    min_ns: int | None
    """Least duration; None without samples."""
    max_ns: int | None
    """Longest duration; None without samples."""
    start_median_ns: float | None
    """Median start since the start of its replay's first row; None without samples."""
    stream: int | None
    """Stream in the first replay; None without samples."""
    note: str | None = None
    """Why there are no samples, or what the times leave out; None where there is nothing to say."""
    timed_in: str | None = None
    """The pass; None without samples."""


NOT_SEEN = NodeTimes(UNMATCHED, 0.0, 0, None, None, None, None, None)


class NodeRow(msgspec.Struct, frozen=True, gc=False):
    """One node: driver facts, origin, times."""

    node: GraphNode
    """What the driver says of it."""
    category: Category
    """Kernel category, read from its name."""
    origin: NodeOrigin
    """Operator, module and source line that it comes from."""
    times: NodeTimes
    """Its times over the replays."""


class NodeTable(Struct, frozen=True):
    """All nodes of one graph, by index, with the counts that tell how far to trust them."""

    graph: CapturedGraph
    """The captured graph."""
    rows: tuple[NodeRow, ...]
    """A row for each node."""
    attributed: int
    """How many nodes have an operator."""
    capture_launches: int
    """Launches seen inside the capture."""
    replays: int
    """How many replays of the graph were seen."""
    replay_kernels: int
    """GPU rows of all replays."""
    matched_kernels: int
    """GPU rows that were matched to a node."""
    timed_in: str = TRACED_PASS
    """The pass that the replays are of."""


def node_table(run: Run, graph_id: str) -> NodeTable:
    """The table of one graph of ``run``, from its capture trace and from the pass that
    :func:`timed_replays` chooses.

    Raises:
        KeyError: the run has no graph of that id.
    """
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise KeyError(graph_id)
    return node_tables(run, (graph,))[graph_id]


def node_tables(run: Run, graphs: Iterable[CapturedGraph] | None = None) -> dict[str, NodeTable]:
    """The tables of ``graphs`` (all of the run, if not given), by their ids: its traces are read
    for all of them at once."""
    graphs = run.graphs if graphs is None else tuple(graphs)
    if not graphs:
        return {}
    trace = run.replay_trace
    traced = None if trace is None else match_replays(run.graphs, trace, identities_of(run))
    matched = timed_replays(run, traced)
    attributed = attributions(graphs, run.captures)
    return {
        graph.id: build_node_table(graph, attributed[graph.id], matched, run.graphs)
        for graph in graphs
    }


def build_node_table(
    graph: CapturedGraph,
    attribution: Attribution,
    matched: ReplayMatch | None,
    graphs: tuple[CapturedGraph, ...] = (),
) -> NodeTable:
    """The table of ``graph`` from results that are already there; ``graphs`` are all of its run,
    which a body needs to be known as one."""
    replays = 0 if matched is None else matched.replays_of(graph.id)
    around = conditionals_around(graph, {captured.id: captured for captured in graphs})
    seen = {} if matched is None else _times(matched, graph, what_is_left_out(around))
    times = [
        seen.get(node.index)
        or _unseen(
            "there is no trace of replays"
            if matched is None
            else why_no_times(node, around, replays)
        )
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
        timed_in=TRACED_PASS if matched is None else matched.source,
        replays=replays,
        replay_kernels=0 if mine is None else int(np.count_nonzero(mine)),
        matched_kernels=(
            0 if matched is None or mine is None else int(np.count_nonzero(matched.node[mine] >= 0))
        ),
    )


@cache
def _unseen(note: str | None) -> NodeTimes:
    return msgspec.structs.replace(NOT_SEEN, note=note)


def _times(matched: ReplayMatch, graph: CapturedGraph, note: str | None) -> dict[int, NodeTimes]:
    """The times of every node that the rows show, over those that were matched to it."""
    rows = np.flatnonzero(matched.of_graph(graph.id) & (matched.node >= 0))
    # Stable, so that the rows of one node stay in the order of replays.
    rows = rows[np.argsort(matched.node[rows], kind="stable")]
    if not len(rows):
        return {}
    node = matched.node[rows]
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
    counts = np.diff(first, append=len(rows))
    low, median, high = _spread(matched.duration[rows], node, first, counts)
    _, start, _ = _spread(matched.start[rows], node, first, counts)
    named = zip(node[first].tolist(), matched.method[rows[first]].tolist(), strict=True)
    columns = zip(
        np.minimum.reduceat(matched.confidence[rows], first).tolist(),
        counts.tolist(),
        median.tolist(),
        low.tolist(),
        high.tolist(),
        start.tolist(),
        matched.stream[rows[first]].tolist(),
        strict=True,
    )
    return {
        index: NodeTimes(
            METHODS[method], sure, samples, middle, low, high, begin, stream, note, matched.source
        )
        for (index, method), (sure, samples, middle, low, high, begin, stream) in zip(
            named, columns, strict=True
        )
    }


def _spread(values: Ints, node: Narrow, first: Ints, counts: Ints) -> tuple[Ints, Floats, Ints]:
    """Least, median and greatest of each node's values, which begin at ``first``."""
    ordered = values[np.lexsort((values, node))]
    last = first + counts - 1
    median = (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) / 2
    return ordered[first], median, ordered[last]


def nodes_by_duration(table: NodeTable) -> list[NodeRow]:
    """The nodes that were timed, those of the longest median first."""
    timed = [row for row in table.rows if row.times.median_ns is not None]
    return sorted(timed, key=lambda row: (-(row.times.median_ns or 0.0), row.node.index))
