"""Which row of a replay's trace is which node of the graph: a ladder, and each row says its rung.

1. "graph node id": the trace names the node (newer torch and CUPTI).
2. "alignment: order": the nodes that a trace shows depend on each other one after another, so the
   rows by start are those nodes in order.
3. "alignment: branches": rows by start are given to nodes whose predecessors have all started, of
   the same signature, following the stream; branches that look alike cannot be told apart, and the
   confidence says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.by_id import IdMatcher
from graphviz_dash.analysis.calls import CallClass, call_class
from graphviz_dash.analysis.flatten import variants
from graphviz_dash.analysis.lanes import Ints, column, encode
from graphviz_dash.analysis.matching import BY_BRANCH, BY_ID, BY_ORDER, GraphMatcher, Rows
from graphviz_dash.analysis.node_id_trace import trace_of
from graphviz_dash.analysis.signatures import Signatures
from graphviz_dash.analysis.which_graph import (
    NOTHING_KNOWN,
    GraphChooser,
    Known,
    Launch,
    launch_order,
    steps_of,
)
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run
    from graphviz_dash.model.trace import Trace

__all__ = ["BY_BRANCH", "BY_ID", "BY_ORDER", "METHODS", "UNMATCHED", "ReplayMatch", "match_replays"]

Floats = npt.NDArray[np.float64]

UNMATCHED: Final = "none"
TRACED_PASS: Final = "traced pass"
NODE_ID_PASS: Final = "node-id pass"

METHODS: Final = (UNMATCHED, BY_ID, BY_ORDER, BY_BRANCH)


@dataclass(frozen=True)
class ReplayMatch:
    """All rows of all replays, as parallel arrays of shape (rows,).

    ``roots`` are the launched graphs that ``graphs`` are or lie in. ``replay`` numbers the graph
    launches of the trace by time, ``graph`` indexes ``graphs`` (-1: a graph that no captured one
    looks like), ``gpu_row`` is the row of ``trace.gpu``, ``node`` the
    node index or -1, ``method`` indexes METHODS, ``confidence`` is 0 to 1, ``start`` (ns since its
    replay's first row), ``duration`` (ns) and ``stream`` are the trace's. ``source`` is the pass
    that the trace is of.
    """

    graphs: tuple[str, ...]
    roots: tuple[str, ...]
    replay: Ints
    graph: Ints
    gpu_row: Ints
    node: Ints
    method: Ints
    confidence: Floats
    start: Ints
    duration: Ints
    stream: Ints
    source: str = TRACED_PASS

    @property
    def matched(self) -> int:
        """Rows that were matched to a node."""
        return int(np.count_nonzero(self.node >= 0))

    @property
    def doubt(self) -> float:
        """Share of the rows that are likely to be of another node or are of none, 0 to 1."""
        return 1 - float(self.confidence.mean()) if len(self.confidence) else 1.0

    def of_graph(self, graph_id: str) -> npt.NDArray[np.bool_]:
        """Which rows belong to replays of the graph, shape (rows,)."""
        if graph_id not in self.graphs:
            return np.zeros(len(self.graph), dtype=bool)
        return np.asarray(self.graph == self.graphs.index(graph_id))

    def replays_of(self, graph_id: str) -> int:
        """How often the trace shows the graph launched, or the one that it is a body in."""
        if graph_id not in self.graphs:
            return 0
        root = self.roots[self.graphs.index(graph_id)]
        family = [place for place, other in enumerate(self.roots) if other == root]
        return len(np.unique(self.replay[np.isin(self.graph, family)]))

    def rows_of(self, graph_id: str, node: int) -> Ints:
        """The places, in these arrays, of one node's rows in the order of replays."""
        order, keys = self._by_node
        if graph_id not in self.graphs:
            return np.zeros(0, dtype=np.int64)
        key = (self.graphs.index(graph_id) << 40) + node
        first, last = np.searchsorted(keys, [key, key + 1])
        return order[first:last]

    def samples(self, graph_id: str, node: int) -> Ints:
        """The durations of one node, a value for each replay that shows it, in ns."""
        return self.duration[self.rows_of(graph_id, node)]

    @cached_property
    def _by_node(self) -> tuple[Ints, Ints]:
        rows = np.flatnonzero(self.node >= 0)
        keys = (self.graph[rows] << 40) + self.node[rows]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]


def known_of(run: Run) -> Known:
    """What the bundle of ``run`` tells of the graphs in its traced pass."""
    return Known(run.replay_ids, launch_order(run.node_ids))


def match_node_ids(run: Run) -> ReplayMatch | None:
    """The replays of a run's node-id pass; None where it has none. ``gpu_row`` is a row of what
    :func:`graphviz_dash.analysis.node_id_trace.trace_of` makes of it."""
    if run.node_ids is None:
        return None
    found = match_replays(run.graphs, trace_of(run.node_ids), Known(run.node_ids.graphs))
    return replace(found, source=NODE_ID_PASS)


def timed_replays(run: Run, traced: ReplayMatch | None) -> ReplayMatch | None:
    """The replays that times of nodes are taken from: those of the traced pass, unless they leave
    in doubt what the node-id pass names. ``traced`` are the former; passes are never mixed."""
    if traced is not None and traced.doubt == 0.0:
        return traced
    named = match_node_ids(run)
    if traced is None or named is None:
        return traced or named
    return named if named.doubt < traced.doubt else traced


def match_replays(
    graphs: tuple[CapturedGraph, ...], trace: Trace, known: Known = NOTHING_KNOWN
) -> ReplayMatch:
    """Matches the GPU rows of every graph launch in ``trace`` with the nodes of ``graphs``.

    With several graphs each launch is given to the one that its rows look like most; those that
    look the same are told apart as :mod:`graphviz_dash.analysis.which_graph` says, and the
    confidence is that of both decisions together. A child graph runs as a part of the graph that
    holds it: its rows name it and its own nodes. So does the body of a conditional node: which of
    them ran is told by what the launch shows. Near-linear in the rows.
    """
    by_id = {graph.id: graph for graph in graphs}
    flats = [flat for graph in graphs if graph.parent is None for flat in variants(graph, by_id)]
    roots = [flat.root for flat in flats]
    place = {name: number for number, name in enumerate(by_id)}
    owners = [np.array([place.get(name, -1) for name in flat.owner]) for flat in flats]
    indices = [np.array(flat.index) for flat in flats]
    signatures = Signatures(tuple(flat.graph for flat in flats))
    codes = signatures.of_trace(trace)
    matchers = [GraphMatcher(flat.graph, signatures.of_graph(flat.graph.id)) for flat in flats]
    code_of = {
        key: code
        for flat in flats
        for key, code in zip(
            zip(flat.owner, flat.index, strict=True),
            signatures.of_graph(flat.graph.id).tolist(),
            strict=True,
        )
    }
    own = {ids.graph: ids.nodes for ids in known.ids}
    named = {
        root: IdMatcher(by_id[root], by_id, own.get(root), code_of, tuple(by_id)) for root in roots
    }
    begin, stream = column(trace.gpu, "ts"), column(trace.gpu, "stream")
    # A stream's number is its own device's.
    lane = stream + (column(trace.gpu, "device") << 32)
    ident = _ids(trace, "graph_node_id")
    launches, called = _launched_rows(trace)
    executed = _ids(trace, "graph_id")
    exec_ids = [int(executed[rows].max()) for rows in launches]
    steps = steps_of(called, trace, STEP).tolist()
    choices = GraphChooser(matchers, roots, known).choose(
        [
            Launch(codes[rows], step, exec_id)
            for rows, step, exec_id in zip(launches, steps, exec_ids, strict=True)
        ]
    )
    count = sum(map(len, launches))
    row = np.concatenate(launches) if launches else np.zeros(0, dtype=np.int64)
    replay, graph, node, method = (np.full(count, -1, dtype=np.int64) for _ in range(4))
    start = np.zeros(count, dtype=np.int64)
    confidence = np.zeros(count)
    first = 0
    for number, (rows, (which, share, ways)) in enumerate(zip(launches, choices, strict=True)):
        part = slice(first, first + len(rows))
        first += len(rows)
        replay[part], method[part] = number, METHODS.index(UNMATCHED)
        start[part] = begin[rows] - begin[rows[0]]
        if which < 0:
            continue
        if by_ids := named[roots[which]].match(codes[rows], ident[rows], exec_ids[number]):
            found = by_ids[1] >= 0
            graph[part] = np.where(found, by_ids[0], place[roots[which]])
            node[part] = by_ids[1]
            confidence[part] = np.where(found, share, 0.0)
            method[part] = np.where(found, METHODS.index(BY_ID), METHODS.index(UNMATCHED))
            continue
        lanes = np.unique(lane[rows], return_inverse=True)[1].reshape(-1)
        matched = matchers[which].match(Rows(codes[rows], lanes, start[part]))
        found = matched.node >= 0
        graph[part] = np.where(found, owners[which][matched.node], place[roots[which]])
        node[part] = np.where(found, indices[which][matched.node], -1)
        confidence[part] = matched.confidence * share / ways
        method[part] = np.where(found, METHODS.index(matched.method), METHODS.index(UNMATCHED))
    return ReplayMatch(
        graphs=tuple(by_id),
        roots=tuple(_root(graph, by_id) for graph in graphs),
        replay=replay,
        graph=graph,
        gpu_row=row,
        node=node,
        method=method,
        confidence=confidence,
        start=start,
        duration=column(trace.gpu, "dur")[row],
        stream=stream[row],
    )


def _root(graph: CapturedGraph, by_id: dict[str, CapturedGraph]) -> str:
    """The id of the launched graph that ``graph`` is or lies in."""
    while graph.parent is not None and graph.parent[0] in by_id:
        graph = by_id[graph.parent[0]]
    return graph.id


def _ids(trace: Trace, name: str) -> Ints:
    """The graph or graph node id of each row, -1 where there is none."""
    ids = trace.gpu[name]
    told = ids.is_not_null().to_numpy()
    # The upper half may be any graph id, so that the sign bit is no sign.
    values = ids.fill_null(0).to_numpy() & np.uint64((1 << 63) - 1)
    return np.where(told, values.astype(np.int64), -1)


def _launched_rows(trace: Trace) -> tuple[list[Ints], Ints]:
    """For each graph launch that has any, its GPU rows by start, and when it was called; launches
    by time."""
    codes, names = encode(trace.runtime["name"])
    is_launch = np.array([call_class(name) is CallClass.GRAPH_LAUNCH for name in names], dtype=bool)
    if not is_launch.any():
        return [], np.zeros(0, dtype=np.int64)
    calls = np.flatnonzero(is_launch[codes])
    launches = column(trace.runtime, "correlation")[calls]
    # A driver call inside the runtime call has the same correlation.
    once = np.sort(np.unique(launches, return_index=True)[1])
    launches, called = launches[once], column(trace.runtime, "ts")[calls[once]]
    gpu = column(trace.gpu, "correlation")
    order = np.argsort(gpu, kind="stable")
    first = np.searchsorted(gpu[order], launches, "left")
    last = np.searchsorted(gpu[order], launches, "right")
    shown = (last > first) & (launches >= 0)
    # The table is sorted by start, and a stable sort by correlation keeps that.
    rows = [order[a:b] for a, b in zip(first[shown], last[shown], strict=True)]
    return rows, called[shown]
