"""A captured graph with what its replays took: node times, the critical path and slack, the time
lost between dependent nodes, and what concurrency there is and could be.

All times are of one pass, traced or with node ids: durations are little distorted by the profiler,
the gaps between nodes more (it lengthens them). Schedules assume that a kernel takes as long beside
others as it was measured to take; kernels that share the device take longer, so they are bounds.
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
    critical_path,
    stream_schedules,
)
from graphviz_dash.analysis.graph.flatten import flatten
from graphviz_dash.analysis.graph.topology import visible_edges
from graphviz_dash.analysis.replays.replays import (
    ReplayMatch,
    identities_of,
    match_replays,
    timed_replays,
)
from graphviz_dash.analysis.trace.steps import exclusive_ns
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Run

NOT_SEEN: Final = -1


class EdgeGap(Struct, frozen=True):
    """A dependency between nodes that the trace shows, drawn through those that it does not."""

    source: int
    """Index of the node that ``target`` waits for."""
    target: int
    """Index of the waiting node."""
    gap_ns: int
    """Median over the replays from the end of ``source`` to the start of ``target``; negative where
    the target began before the source had ended (programmatic launch)."""
    lost_ns: int
    """Median time from the end of the last node that ``target`` waits for to its start, if that was
    ``source``, else 0: time in which only the start of the node was missing."""


class MeasuredGraph(Struct, frozen=True, dict=True):
    """One graph, measured over replays in which all visible nodes were matched.

    The graph's own nodes come first if it holds no child graphs, which stand in place of their
    nodes. Indices of nodes are those of ``nodes``.
    """

    graph: str
    """Id of the graph."""
    nodes: tuple[tuple[str, int], ...]
    """For each node the id of its graph and its index there."""
    replays: int
    """How many replays were measured."""
    source: str
    """The pass that they are of."""
    p50: Ints
    """Median duration of each node in ns, NOT_SEEN for one that the trace does not show."""
    p99: Ints
    """99th percentile of each node's duration in ns, NOT_SEEN for one that the trace does not
    show."""
    slack: Ints
    """Slack of each node in ns, NOT_SEEN for one that the trace does not show."""
    path: CriticalPath
    """The critical path by median durations, over visible nodes."""
    work_ns: int
    """Sum of the medians."""
    span_ns: int
    """Median time from the first start to the last end of a replay."""
    busy_ns: int
    """Median time of a replay in which anything ran."""
    achieved: float
    """Median of how much ran at once meanwhile: all durations over busy time."""
    streams: int
    """On how many streams the last replay ran."""
    edges: tuple[EdgeGap, ...]
    """Dependencies between visible nodes."""
    stitched: bool
    """Whether durations hold the gaps between nodes, so that no gap is known."""
    schedules: tuple[StreamSchedule, ...]
    """List scheduling, from one stream to the fewest that reach the critical path."""

    @property
    def available(self) -> float:
        """Work over critical path: how much could run at once, on average, at most."""
        return self.work_ns / self.path.length if self.path.length else 1.0

    @property
    def lost_ns(self) -> int:
        """Time lost between dependent nodes along the critical path."""
        return sum(self.lost[index] for index in self.path.nodes)

    @cached_property
    def index_of(self) -> dict[tuple[str, int], int]:
        """The index of each node in ``nodes``, by its graph's id and its index there."""
        return {node: index for index, node in enumerate(self.nodes)}

    @cached_property
    def critical(self) -> frozenset[int]:
        """The nodes of the critical path."""
        return frozenset(self.path.nodes)

    @cached_property
    def lost(self) -> dict[int, int]:
        """For each node that the trace shows the time lost before it, in ns."""
        lost_before = dict.fromkeys(np.flatnonzero(self.p50 != NOT_SEEN).tolist(), 0)
        for edge in self.edges:
            lost_before[edge.target] = max(lost_before[edge.target], edge.lost_ns)
        return lost_before


def node_timing_replays(run: Run) -> ReplayMatch | None:
    """The replays that the nodes of ``run`` are timed by; None where it has none."""
    if not run.graphs:
        return None
    trace = run.replay_trace
    traced = None if trace is None else match_replays(run.graphs, trace, identities_of(run))
    return timed_replays(run, traced)


def measure_graph(
    graph: CapturedGraph, graphs: tuple[CapturedGraph, ...], matched: ReplayMatch | None
) -> MeasuredGraph | Missing:
    """``graph``, one of its run's ``graphs``, over the replays of ``matched``; or why it cannot be
    measured. Child graphs count as parts of it; bodies of conditionals, which run or do not, are
    left out."""
    if matched is None:
        return Missing(Fact.NODE_TIMES, "there is no trace of replays")
    flat = flatten(graph, {child.id: child for child in graphs})
    nodes = tuple(zip(flat.owner, flat.index, strict=True))
    index_of = {node: index for index, node in enumerate(nodes)}
    row_nodes = _row_nodes(matched, index_of)
    rows = np.flatnonzero(row_nodes >= 0)
    if not len(rows):
        return Missing(Fact.NODE_TIMES, "no replay of this graph was found in the trace")
    start, duration, seen = _by_replay(matched, rows, row_nodes[rows], len(nodes))
    # A node that some replay lacks would leave a hole in every path through it.
    usual = seen.sum(axis=0) * 2 > len(seen)
    whole = seen[:, usual].all(axis=1)
    if not whole.any():
        return Missing(Fact.NODE_TIMES, "no replay shows all nodes of this graph")
    shown = np.flatnonzero(usual)
    start, duration = start[whole][:, shown], duration[whole][:, shown]
    p50 = _rounded(np.median(duration, axis=0))
    p99 = _rounded(np.percentile(duration, 99, axis=0))
    pairs = np.searchsorted(shown, visible_edges(flat.graph, usual)).reshape(-1, 2)
    depend = Dependencies.of(len(shown), pairs)
    path = critical_path(depend, p50)
    busy, span = zip(*(_busy(*replay) for replay in zip(start, duration, strict=True)), strict=True)
    return MeasuredGraph(
        graph=graph.id,
        nodes=nodes,
        replays=int(whole.sum()),
        source=matched.source,
        p50=_spread(p50, shown, len(nodes)),
        p99=_spread(p99, shown, len(nodes)),
        slack=_spread(path.slack, shown, len(nodes)),
        path=CriticalPath(
            tuple(shown[list(path.nodes)].tolist()),
            path.length,
            path.earliest,
            path.rest,
            path.slack,
        ),
        work_ns=int(p50.sum()),
        span_ns=int(np.median(span)),
        busy_ns=int(np.median(busy)),
        achieved=float(np.median(duration.sum(axis=1) / np.maximum(busy, 1))),
        streams=len(
            np.unique(matched.stream[rows[matched.replay[rows] == matched.replay[rows[-1]]]])
        ),
        stitched=matched.stitched,
        edges=_gaps(start, duration, pairs, shown),
        schedules=stream_schedules(depend, p50, path),
    )


def _row_nodes(matched: ReplayMatch, index_of: Mapping[tuple[str, int], int]) -> Ints:
    """The index of each row's node, -1 for one that has none."""
    most = int(matched.node.max(initial=-1)) + 2
    codes, which = np.unique(
        matched.graph.astype(np.int64) * most + matched.node + 1, return_inverse=True
    )
    names = [(matched.graphs[code // most], code % most - 1) for code in codes.tolist()]
    indices = np.array([index_of.get(name, -1) for name in names], dtype=np.int64)
    return np.asarray(indices[which.reshape(-1)], dtype=np.int64)


def _by_replay(
    matched: ReplayMatch, rows: Ints, node_indices: Ints, nodes: int
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Start and duration of each node in each replay, and whether it was seen: (replays, nodes)."""
    replays, which = np.unique(matched.replay[rows], return_inverse=True)
    shape = (len(replays), nodes)
    start, duration = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    seen = np.zeros(shape, dtype=np.bool_)
    cell = which.reshape(-1), node_indices
    start[cell], duration[cell], seen[cell] = matched.start[rows], matched.duration[rows], True
    return start, duration, seen


def _gaps(start: Ints, duration: Ints, pairs: Ints, shown: Ints) -> tuple[EdgeGap, ...]:
    if not len(pairs):
        return ()
    source, target = pairs[:, 0], pairs[:, 1]
    gap = start[:, target] - (start + duration)[:, source]
    median = _rounded(np.median(gap, axis=0))
    # Of a node's gaps the shortest is that after the last one it waited for.
    shortest = np.full(len(shown), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(shortest, target, median)
    lost = np.where(median == shortest[target], np.maximum(median, 0), 0)
    return tuple(
        EdgeGap(*values)
        for values in zip(
            shown[source].tolist(),
            shown[target].tolist(),
            median.tolist(),
            lost.tolist(),
            strict=True,
        )
    )


def _busy(start: Ints, duration: Ints) -> tuple[int, int]:
    """Busy time and span of one replay."""
    order = np.argsort(start, kind="stable")
    end = start + duration
    busy = int(exclusive_ns(start[order], end[order]).sum())
    return busy, int(end.max() - start.min())


def _spread(values: Ints, shown: Ints, count: int) -> Ints:
    all_nodes = np.full(count, NOT_SEEN, dtype=np.int64)
    all_nodes[shown] = values
    return all_nodes


def _rounded(values: Floats) -> Ints:
    return np.asarray(np.rint(values), dtype=np.int64)
