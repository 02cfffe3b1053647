"""A captured graph with replay measurements.

The profiler barely distorts durations but lengthens gaps. Schedules assume that concurrent kernels
keep their measured durations, so they are bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.graph.critical_path import (
    CriticalPath,
    Dependencies,
    StreamSchedule,
    compute_stream_schedules,
    find_critical_path,
)
from graphviz_dash.analysis.graph.flatten import flatten_graph
from graphviz_dash.analysis.graph.topology import find_visible_edges
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    get_identities,
    match_replays,
    select_timed_replays,
)
from graphviz_dash.analysis.trace.steps import compute_exclusive_ns
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run

UNTRACED: Final = -1


class EdgeGap(Struct, frozen=True):
    """A dependency between traced nodes; paths through untraced nodes count as edges."""

    source: int
    """Index of the node that ``target`` waits for."""
    target: int
    gap_ns: int
    """Median from the end of ``source`` to the start of ``target``; negative for programmatic
    launch.
    """
    lost_ns: int
    """Median from the end of the last predecessor of ``target`` to its start; 0 unless that is
    ``source``.
    """


class MeasuredGraph(Struct, frozen=True, dict=True):
    """One graph, measured over replays in which all visible nodes were matched.

    Own nodes come first if there are no child graphs. Indices refer to ``nodes``.
    """

    graph: str
    nodes: tuple[tuple[str, int], ...]
    """Graph id and index of each node."""
    replays: int
    """Measured replays."""
    source: str
    """Pass of the replays."""
    p50: Ints
    """Median duration in ns, NOT_SEEN if not traced."""
    p99: Ints
    """99th percentile of each node's duration in ns, NOT_SEEN if not traced."""
    slack: Ints
    """Slack in ns, NOT_SEEN if not traced."""
    path: CriticalPath
    """By median durations, over visible nodes."""
    work_ns: int
    """Sum of the medians, in ns."""
    span_ns: int
    """Median from the first start to the last end, in ns."""
    busy_ns: int
    """Median busy time of a replay, in ns."""
    achieved_concurrency: float
    """Median concurrency while busy: sum of durations divided by busy time."""
    streams: int
    """Streams of the last replay."""
    edges: tuple[EdgeGap, ...]
    is_stitched: bool
    """True if durations include the gaps between nodes, so that gaps are unknown."""
    schedules: tuple[StreamSchedule, ...]
    """List schedules, from one stream to the fewest that reach the critical path."""

    @property
    def available_concurrency(self) -> float:
        """Work divided by critical path: upper bound of the average concurrency."""
        return self.work_ns / self.path.length if self.path.length else 1.0

    @property
    def lost_ns(self) -> int:
        """Time lost between nodes of the critical path, in ns."""
        return sum(self.lost_before[index] for index in self.path.nodes)

    @cached_property
    def index_of(self) -> dict[tuple[str, int], int]:
        """Index in ``nodes``, by graph id and index in the graph."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def critical_nodes(self) -> frozenset[int]:
        """Nodes of the critical path."""
        return frozenset(self.path.nodes)

    @cached_property
    def lost_before(self) -> dict[int, int]:
        """Time lost before each traced node, in ns."""
        lost_before = dict.fromkeys(np.flatnonzero(self.p50 != UNTRACED).tolist(), 0)
        for edge in self.edges:
            lost_before[edge.target] = max(lost_before[edge.target], edge.lost_ns)
        return lost_before


def find_timing_replays(run: Run) -> ReplayMatch | None:
    """Return the replays that time the nodes; None if there are none."""
    if not run.graphs:
        return None
    trace = run.replay_trace
    replays = None if trace is None else match_replays(run.graphs, trace, get_identities(run))
    return select_timed_replays(run, replays)


def measure_graph(
    graph: CapturedGraph, graphs: tuple[CapturedGraph, ...], matched: ReplayMatch | None
) -> MeasuredGraph | Missing:
    """Measure ``graph`` over ``matched`` replays, or explain why it cannot be measured.

    Includes child graphs, excludes conditional bodies.
    """
    if matched is None:
        return Missing(Fact.NODE_TIMES, "there is no trace of replays")
    flat = flatten_graph(graph, {child.id: child for child in graphs})
    nodes = tuple(zip(flat.owners, flat.indices, strict=True))
    index_of = {node: index for index, node in enumerate(nodes)}
    row_nodes = _find_row_nodes(matched, index_of)
    rows = np.flatnonzero(row_nodes >= 0)
    if not len(rows):
        return Missing(Fact.NODE_TIMES, "the trace has no replay of this graph")
    start, duration, is_traced = _arrange_by_replay(matched, rows, row_nodes[rows], len(nodes))
    # A node that is missing in some replay would leave a hole in every path through it.
    is_usual = is_traced.sum(axis=0) * 2 > len(is_traced)
    is_complete = is_traced[:, is_usual].all(axis=1)
    if not is_complete.any():
        return Missing(Fact.NODE_TIMES, "no replay shows all nodes of this graph")
    traced_nodes = np.flatnonzero(is_usual)
    start, duration = start[is_complete][:, traced_nodes], duration[is_complete][:, traced_nodes]
    p50 = _round_to_int(np.median(duration, axis=0))
    p99 = _round_to_int(np.percentile(duration, 99, axis=0))
    pairs = np.searchsorted(traced_nodes, find_visible_edges(flat.graph, is_usual)).reshape(-1, 2)
    dependencies = Dependencies.from_edges(len(traced_nodes), pairs)
    path = find_critical_path(dependencies, p50)
    busy, span = zip(
        *(_compute_busy(*replay) for replay in zip(start, duration, strict=True)), strict=True
    )
    return MeasuredGraph(
        graph=graph.id,
        nodes=nodes,
        replays=int(is_complete.sum()),
        source=matched.source,
        p50=_expand_to_nodes(p50, traced_nodes, len(nodes)),
        p99=_expand_to_nodes(p99, traced_nodes, len(nodes)),
        slack=_expand_to_nodes(path.slack, traced_nodes, len(nodes)),
        path=CriticalPath(
            tuple(traced_nodes[list(path.nodes)].tolist()),
            path.length,
            path.earliest,
            path.remaining,
            path.slack,
        ),
        work_ns=int(p50.sum()),
        span_ns=int(np.median(span)),
        busy_ns=int(np.median(busy)),
        achieved_concurrency=float(np.median(duration.sum(axis=1) / np.maximum(busy, 1))),
        streams=len(
            np.unique(matched.stream[rows[matched.replay[rows] == matched.replay[rows[-1]]]])
        ),
        is_stitched=matched.stitched,
        edges=_compute_gaps(start, duration, pairs, traced_nodes),
        schedules=compute_stream_schedules(dependencies, p50, path),
    )


def _find_row_nodes(matched: ReplayMatch, index_of: Mapping[tuple[str, int], int]) -> Ints:
    stride = int(matched.node.max(initial=-1)) + 2
    codes, inverse = np.unique(
        matched.graph.astype(np.int64) * stride + matched.node + 1, return_inverse=True
    )
    names = [(matched.graphs[code // stride], code % stride - 1) for code in codes.tolist()]
    indices = np.array([index_of.get(name, -1) for name in names], dtype=np.int64)
    return np.asarray(indices[inverse.reshape(-1)], dtype=np.int64)


def _arrange_by_replay(
    matched: ReplayMatch, rows: Ints, node_indices: Ints, nodes: int
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Arrange start, duration and presence of each node, each (replays, nodes)."""
    replays, inverse = np.unique(matched.replay[rows], return_inverse=True)
    shape = (len(replays), nodes)
    start, duration = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    is_traced = np.zeros(shape, dtype=np.bool_)
    cell = inverse.reshape(-1), node_indices
    start[cell], duration[cell], is_traced[cell] = matched.start[rows], matched.duration[rows], True
    return start, duration, is_traced


def _compute_gaps(
    start: Ints, duration: Ints, pairs: Ints, traced_nodes: Ints
) -> tuple[EdgeGap, ...]:
    if not len(pairs):
        return ()
    source, target = pairs[:, 0], pairs[:, 1]
    gap = start[:, target] - (start + duration)[:, source]
    median = _round_to_int(np.median(gap, axis=0))
    # The shortest gap of a node follows the last predecessor.
    shortest_gap = np.full(len(traced_nodes), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(shortest_gap, target, median)
    lost_ns = np.where(median == shortest_gap[target], np.maximum(median, 0), 0)
    return tuple(
        EdgeGap(*values)
        for values in zip(
            traced_nodes[source].tolist(),
            traced_nodes[target].tolist(),
            median.tolist(),
            lost_ns.tolist(),
            strict=True,
        )
    )


def _compute_busy(start: Ints, duration: Ints) -> tuple[int, int]:
    order = np.argsort(start, kind="stable")
    end = start + duration
    busy = int(compute_exclusive_ns(start[order], end[order]).sum())
    return busy, int(end.max() - start.min())


def _expand_to_nodes(values: Ints, traced_nodes: Ints, count: int) -> Ints:
    all_nodes = np.full(count, UNTRACED, dtype=np.int64)
    all_nodes[traced_nodes] = values
    return all_nodes


def _round_to_int(values: Floats) -> Ints:
    return np.asarray(np.rint(values), dtype=np.int64)
