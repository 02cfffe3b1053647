"""Table of a captured graph's nodes: driver facts, origin, and replay times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

import msgspec
import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.attribution.attribution import Attribution, NodeOrigin, attribute_graphs
from graphviz_dash.analysis.replays.replays import (
    METHODS,
    TRACED_PASS,
    UNMATCHED,
    Narrow,
    ReplayMatch,
    get_identities,
    match_replays,
    select_timed_replays,
)
from graphviz_dash.analysis.replays.visibility import (
    describe_hidden_work,
    explain_missing_times,
    find_enclosing_conditionals,
)
from graphviz_dash.analysis.trace.kernel_categories import Category, categorise
from graphviz_dash.model.graph import CapturedGraph, GraphNode
from graphviz_dash.model.run import Run
from graphviz_dash.model.source_code import SourceCode

__all__ = [
    "NodeOrigin",
    "NodeRow",
    "NodeTable",
    "NodeTimes",
    "build_node_table",
    "build_table",
    "build_tables",
]


class NodeTimes(msgspec.Struct, frozen=True, gc=False):
    """Duration of a node over the replays of one pass, in ns, and the matching method."""

    method: str
    """"graph node id", "alignment: order", "alignment: branches" or "none"."""
    confidence: float
    """0 to 1: the minimum over the replays."""
    samples: int
    """Replays that show the node; 0 if the profiler did not record it."""
    median_ns: float | None
    """None without samples, like the times below."""
    min_ns: int | None
    max_ns: int | None
    start_median_ns: float | None
    """Relative to the first row of the replay."""
    stream: int | None
    """Stream in the first replay; None without samples."""
    note: str | None = None
    """Reason for missing samples, or limits of the times."""
    timed_in: str | None = None
    """Pass of the times; None without samples."""


NO_TIMES = NodeTimes(UNMATCHED, 0.0, 0, None, None, None, None, None)


class NodeRow(msgspec.Struct, frozen=True, gc=False):
    """One node: driver facts, origin, times."""

    node: GraphNode
    category: Category
    """Kernel category, derived from the name."""
    origin: NodeOrigin
    times: NodeTimes


class NodeTable(Struct, frozen=True):
    """All nodes of one graph, by index, with counts that show the data quality."""

    graph: CapturedGraph
    rows: tuple[NodeRow, ...]
    attributed_nodes: int
    """Nodes with an operator."""
    capture_launches: int
    """Launches during the capture."""
    replays: int
    """Number of recorded replays of the graph."""
    replay_kernels: int
    """GPU rows of all replays."""
    matched_kernels: int
    """GPU rows matched to a node."""
    timed_in: str = TRACED_PASS
    """Pass of the replays."""


def build_table(run: Run, graph_id: str) -> NodeTable:
    """Build the table of a graph from its capture trace and timed replays.

    See :func:`select_timed_replays` for the choice of the pass.

    Raises:
        KeyError: the run has no graph with that id.
    """
    graph = next((graph for graph in run.graphs if graph.id == graph_id), None)
    if graph is None:
        raise KeyError(graph_id)
    return build_tables(run, (graph,))[graph_id]


def build_tables(run: Run, graphs: Iterable[CapturedGraph] | None = None) -> dict[str, NodeTable]:
    """Build the tables of ``graphs`` (default: all) by id, reading the traces once."""
    graphs = run.graphs if graphs is None else tuple(graphs)
    if not graphs:
        return {}
    trace = run.replay_trace
    all_replays = None if trace is None else match_replays(run.graphs, trace, get_identities(run))
    timed_replays = select_timed_replays(run, all_replays)
    attributions = attribute_graphs(graphs, run.capture_traces)
    return {
        graph.id: build_node_table(graph, attributions[graph.id], timed_replays, run.graphs)
        for graph in graphs
    }


def build_node_table(
    graph: CapturedGraph,
    attribution: Attribution,
    matched: ReplayMatch | None,
    graphs: tuple[CapturedGraph, ...] = (),
) -> NodeTable:
    """Build the table from existing results; ``graphs`` are all graphs of the run."""
    replays = 0 if matched is None else matched.count_replays(graph.id)
    conditionals = find_enclosing_conditionals(
        graph, {captured.id: captured for captured in graphs}
    )
    times_by_node = (
        {}
        if matched is None
        else _compute_times(matched, graph, describe_hidden_work(conditionals))
    )
    times = [
        times_by_node.get(node.index)
        or _build_missing_times(
            "there is no trace of replays"
            if matched is None
            else explain_missing_times(node, conditionals, replays)
        )
        for node in graph.nodes
    ]
    rows = tuple(
        NodeRow(node, categorise(node.kind.value, node.label), origin, time)
        for node, origin, time in zip(graph.nodes, attribution.origins, times, strict=True)
    )
    is_graph_row = None if matched is None else matched.get_graph_mask(graph.id)
    return NodeTable(
        graph=graph,
        rows=rows,
        attributed_nodes=sum(origin.op is not None for origin in attribution.origins),
        capture_launches=attribution.capture_launches,
        timed_in=TRACED_PASS if matched is None else matched.source,
        replays=replays,
        replay_kernels=0 if is_graph_row is None else int(np.count_nonzero(is_graph_row)),
        matched_kernels=(
            0
            if matched is None or is_graph_row is None
            else int(np.count_nonzero(matched.node[is_graph_row] >= 0))
        ),
    )


@cache
def _build_missing_times(note: str | None) -> NodeTimes:
    return msgspec.structs.replace(NO_TIMES, note=note)


def _compute_times(
    matched: ReplayMatch, graph: CapturedGraph, note: str | None
) -> dict[int, NodeTimes]:
    rows = np.flatnonzero(matched.get_graph_mask(graph.id) & (matched.node >= 0))
    # A stable sort keeps the rows of one node in replay order.
    rows = rows[np.argsort(matched.node[rows], kind="stable")]
    if not len(rows):
        return {}
    node = matched.node[rows]
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
    counts = np.diff(first, append=len(rows))
    low, median, high = _compute_spread(matched.duration[rows], node, first, counts)
    _, start, _ = _compute_spread(matched.start[rows], node, first, counts)
    nodes_with_methods = zip(
        node[first].tolist(), matched.method[rows[first]].tolist(), strict=True
    )
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
            METHODS[method],
            confidence,
            samples,
            median_ns,
            low,
            high,
            start_ns,
            stream,
            note,
            matched.source,
        )
        for (index, method), (confidence, samples, median_ns, low, high, start_ns, stream) in zip(
            nodes_with_methods, columns, strict=True
        )
    }


def _compute_spread(
    values: Ints, node: Narrow, first: Ints, counts: Ints
) -> tuple[Ints, Floats, Ints]:
    sorted_values = values[np.lexsort((values, node))]
    last = first + counts - 1
    median = (sorted_values[first + (counts - 1) // 2] + sorted_values[first + counts // 2]) / 2
    return sorted_values[first], median, sorted_values[last]


def sort_nodes_by_duration(table: NodeTable) -> list[NodeRow]:
    """List the timed nodes, longest median first."""
    timed_rows = [row for row in table.rows if row.times.median_ns is not None]
    return sorted(timed_rows, key=lambda row: (-(row.times.median_ns or 0.0), row.node.index))


_MAX_OPERATORS = 4


class LineShare(Struct, frozen=True):
    """Share of a graph that comes from one source line."""

    source: str
    """"file:line"."""
    code: str | None
    """Code of the line; None if unknown."""
    nodes: int
    work_ns: float | None
    """Sum of medians, in ns; None if none was timed."""
    share: float | None
    """Share of all nodes' medians, 0 to 1; None if ``work_ns`` is None."""
    operators: tuple[str, ...]
    """Operators, most frequent first."""


def list_source_lines(
    table: NodeTable, source_code: SourceCode | None = None
) -> tuple[LineShare, ...]:
    """Group the nodes by source line, most GPU time first."""
    code = {} if source_code is None else source_code.lines
    by_line: defaultdict[str, list[NodeRow]] = defaultdict(list)
    total = 0.0
    for row in table.rows:
        total += row.times.median_ns or 0.0
        if row.origin.source is not None:
            by_line[row.origin.source].append(row)
    shares = []
    for source, rows in by_line.items():
        medians = [row.times.median_ns for row in rows if row.times.median_ns is not None]
        work = sum(medians) if medians else None
        share = None if work is None else work / total if total else 0.0
        operator_counts = Counter(row.origin.op for row in rows if row.origin.op is not None)
        operators = tuple(op for op, _ in operator_counts.most_common(_MAX_OPERATORS))
        shares.append(LineShare(source, code.get(source), len(rows), work, share, operators))
    return tuple(sorted(shares, key=lambda line: (-(line.work_ns or 0.0), line.source)))
