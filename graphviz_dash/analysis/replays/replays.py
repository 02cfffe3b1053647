"""Matching of trace rows of replays to graph nodes, by the first applicable method.

1. "graph node id": the trace names the node (newer torch and CUPTI). 2. "alignment: order": the
visible nodes form a chain of dependencies, so the rows by start are those nodes in order. 3.
"alignment: branches": rows by start are assigned to nodes with equal signatures whose predecessors
have all started, following the stream. Equal-looking branches are indistinguishable, which lowers
the confidence.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints, encode, get_column
from graphviz_dash.analysis.graph.flatten import list_flat_variants
from graphviz_dash.analysis.graph.nesting import find_root
from graphviz_dash.analysis.replays.matching import (
    BY_BRANCH,
    BY_ID,
    BY_ORDER,
    NO_IDENTITIES,
    GraphChoice,
    GraphChooser,
    GraphIdentities,
    GraphLaunch,
    GraphMatcher,
    IdMatcher,
    ReplayRows,
    locate_steps,
)
from graphviz_dash.analysis.replays.node_id_trace import build_node_id_trace
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.signatures import Signatures
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.node_ids import NodeIdPass
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace

__all__ = ["BY_BRANCH", "BY_ID", "BY_ORDER", "METHODS", "UNMATCHED", "ReplayMatch", "match_replays"]

Narrow = npt.NDArray[np.int32]

UNMATCHED: Final = "none"
TRACED_PASS: Final = "traced pass"
NODE_ID_PASS: Final = "node-id pass"

METHODS: Final = (UNMATCHED, BY_ID, BY_ORDER, BY_BRANCH)


class ReplayMatch(Struct, frozen=True, dict=True):
    """All rows of all replays, as parallel arrays of shape (rows,).

    A server may keep millions of rows, so the types are narrow.
    """

    graphs: tuple[str, ...]
    """Ids of the captured graphs, including contained ones."""
    roots: tuple[str, ...]
    """Root (launched) graph of each of ``graphs``."""
    replay: Narrow
    """Index of the graph launch, by time."""
    graph: Narrow
    """Index in ``graphs``; -1 if no captured graph matches."""
    gpu_row: Narrow
    """Row of ``trace.gpu``."""
    node: Narrow
    """Node index; -1 if none."""
    method: npt.NDArray[np.int8]
    """Index in METHODS."""
    confidence: Floats
    """In graph and node, 0 to 1."""
    start: Ints
    """Relative to the first row of the replay, in ns."""
    duration: Ints
    """Duration in ns."""
    stream: Ints
    source: str = TRACED_PASS
    """Pass of the trace."""
    stitched: bool = False
    """True if durations include the gaps between rows, which were not measured separately."""

    @property
    def matched_count(self) -> int:
        """Rows matched to a node."""
        return int(np.count_nonzero(self.node >= 0))

    @property
    def doubt(self) -> float:
        """Expected fraction of unmatched or wrongly matched rows."""
        return 1 - float(self.confidence.mean()) if len(self.confidence) else 1.0

    def get_graph_mask(self, graph_id: str) -> npt.NDArray[np.bool_]:
        """Return a mask, shape (rows,), of the rows in replays of the graph."""
        if graph_id not in self.graphs:
            return np.zeros(len(self.graph), dtype=bool)
        return np.asarray(self.graph == self.graphs.index(graph_id))

    def count_replays(self, graph_id: str) -> int:
        """Count the launches of the graph, or of the graph that contains it."""
        return len(self.find_first_rows(graph_id))

    def find_first_rows(self, graph_id: str) -> Ints:
        """Return the index of the first row of each replay that :meth:`count_replays` counts."""
        if graph_id not in self.graphs:
            return np.zeros(0, dtype=np.int64)
        root = self.roots[self.graphs.index(graph_id)]
        family = [index for index, other in enumerate(self.roots) if other == root]
        rows = np.flatnonzero(np.isin(self.graph, family))
        return rows[np.unique(self.replay[rows], return_index=True)[1]]

    def get_node_rows(self, graph_id: str, node: int) -> Ints:
        """Return the indices of one node's rows, in replay order."""
        order, keys = self._by_node
        if graph_id not in self.graphs:
            return np.zeros(0, dtype=np.int64)
        key = (self.graphs.index(graph_id) << 40) + node
        first, last = np.searchsorted(keys, [key, key + 1])
        return order[first:last]

    def get_samples(self, graph_id: str, node: int) -> Ints:
        """Return the durations of one node, one per replay that shows it, in ns."""
        return self.duration[self.get_node_rows(graph_id, node)]

    @cached_property
    def _by_node(self) -> tuple[Ints, Ints]:
        rows = np.flatnonzero(self.node >= 0)
        keys = (self.graph[rows].astype(np.int64) << 40) + self.node[rows]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]


def find_launch_order(node_ids: NodeIdPass | None) -> tuple[str, ...]:
    """Return the graphs that a step of the node-id pass launches, in order.

    Empty if steps differ or an id belongs to no known graph.
    """
    if node_ids is None or not node_ids.launch_steps:
        return ()
    name_of = {ident: ids.graph for ids in node_ids.graphs for ident in ids.executable_ids}
    graph_of = {row.launch: name_of.get(row.graph) for row in node_ids.rows}
    steps: dict[int, list[str | None]] = {}
    for launch, step in enumerate(node_ids.launch_steps):
        steps.setdefault(step, []).append(graph_of.get(launch))
    first, *others = steps.values()
    if any(other != first for other in others) or None in first:
        return ()
    return tuple(name for name in first if name is not None)


def get_identities(run: Run) -> GraphIdentities:
    """Return the known identities of graphs in the traced pass of ``run``."""
    return GraphIdentities(run.replay_ids, find_launch_order(run.node_ids))


def match_node_ids(run: Run) -> ReplayMatch | None:
    """Match the replays of a run's node-id pass; None if it has none.

    ``gpu_row`` refers to the trace of
    :func:`graphviz_dash.analysis.replays.node_id_trace.build_node_id_trace`.
    """
    if run.node_ids is None:
        return None
    match = match_replays(
        run.graphs, build_node_id_trace(run.node_ids), GraphIdentities(run.node_ids.graphs)
    )
    return replace(match, source=NODE_ID_PASS)


def select_timed_replays(run: Run, traced: ReplayMatch | None) -> ReplayMatch | None:
    """Return the replays for node times, of one pass.

    The traced pass (``traced``) is preferred unless the node-id pass has less doubt.
    """
    if traced is not None and traced.doubt == 0.0:
        return traced
    id_replays = match_node_ids(run)
    if traced is None or id_replays is None:
        return traced or id_replays
    return id_replays if id_replays.doubt < traced.doubt else traced


def match_replays(
    graphs: tuple[CapturedGraph, ...], trace: Trace, identities: GraphIdentities = NO_IDENTITIES
) -> ReplayMatch:
    """Match the GPU rows of every graph launch in ``trace`` to the nodes of ``graphs``.

    Each launch is assigned to the most similar graph. Equal-looking graphs are distinguished by
    :mod:`graphviz_dash.analysis.replays.matching`, and the confidence covers both decisions. Child
    graphs and bodies of conditional nodes run as part of their parent, but their rows name them and
    their own nodes. The launch itself shows which bodies ran. Near-linear in the rows.
    """
    launches, called = group_launched_rows(trace)
    ident, executed_ids = _get_ids(trace, "graph_node_id"), _get_ids(trace, "graph_id")
    exec_ids = [int(executed_ids[rows].max()) for rows in launches]
    catalogue = _Catalogue(graphs, identities, trace, shapes=_has_all_shapes(trace, launches))
    codes = catalogue.row_codes
    begin, stream = get_column(trace.gpu, "ts"), get_column(trace.gpu, "stream")
    # Stream numbers are specific to a device.
    lane = stream + (get_column(trace.gpu, "device") << 32)
    steps = locate_steps(called, trace, STEP).tolist()
    choices = GraphChooser(catalogue.matchers, catalogue.roots, identities).choose(
        [
            GraphLaunch(codes[rows], step, exec_id)
            for rows, step, exec_id in zip(launches, steps, exec_ids, strict=True)
        ]
    )
    codes = codes.copy()
    for rows, choice in zip(launches, choices, strict=True):
        if choice.matcher >= 0:
            codes[rows] = catalogue.matchers[choice.matcher].replace_foreign_sizes(codes[rows])
    duration = get_column(trace.gpu, "dur").copy()
    launches = [
        rows
        if choice.matcher < 0
        else catalogue.matchers[choice.matcher].merge_copies(
            rows, ReplayRows(codes[rows], lane[rows], begin[rows]), duration
        )
        for rows, choice in zip(launches, choices, strict=True)
    ]
    count = sum(map(len, launches))
    row = np.concatenate(launches) if launches else np.zeros(0, dtype=np.int64)
    replay, graph, node = (np.full(count, -1, dtype=np.int32) for _ in range(3))
    method = np.full(count, METHODS.index(UNMATCHED), dtype=np.int8)
    start = np.zeros(count, dtype=np.int64)
    confidence = np.zeros(count)
    first = 0
    for number, (rows, choice) in enumerate(zip(launches, choices, strict=True)):
        part = slice(first, first + len(rows))
        first += len(rows)
        replay[part] = number
        start[part] = begin[rows] - begin[rows[0]]
        if choice.matcher < 0:
            continue
        lanes = np.unique(lane[rows], return_inverse=True)[1].reshape(-1)
        replay_rows = ReplayRows(codes[rows], lanes, start[part])
        launch_match = catalogue.match(choice, replay_rows, ident[rows], exec_ids[number])
        graph[part], node[part], confidence[part], method[part] = launch_match
    return ReplayMatch(
        graphs=catalogue.graphs,
        roots=catalogue.root_of,
        replay=replay,
        graph=graph,
        gpu_row=row.astype(np.int32),
        node=node,
        method=method,
        confidence=confidence,
        start=start,
        duration=duration[row],
        stream=stream[row],
        stitched=trace.info.has_stitched_replays,
    )


class _Catalogue:
    """Each root graph of a run, in all the ways it can run."""

    def __init__(
        self,
        graphs: tuple[CapturedGraph, ...],
        identities: GraphIdentities,
        trace: Trace,
        *,
        shapes: bool,
    ) -> None:
        by_id = {graph.id: graph for graph in graphs}
        top = [graph for graph in graphs if graph.parent is None]
        flats = [flat for graph in top for flat in list_flat_variants(graph, by_id)]
        self.graphs = tuple(by_id)
        self.root_of = tuple(find_root(graph, by_id) for graph in graphs)
        self.roots = [flat.root for flat in flats]
        signatures = Signatures(tuple(flat.graph for flat in flats), shapes=shapes)
        codes = [signatures.get_graph_codes(flat.graph.id) for flat in flats]
        self.row_codes = signatures.compute_trace_codes(trace)
        """Code of each GPU row of the trace, shape (rows,)."""
        copy_codes = signatures.copy_codes
        self.matchers = [
            GraphMatcher(flat.graph, code, copy_codes)
            for flat, code in zip(flats, codes, strict=True)
        ]
        self._place = {name: number for number, name in enumerate(by_id)}
        self._owner = [
            np.array([self._place.get(name, -1) for name in flat.owners]) for flat in flats
        ]
        self._index = [np.array(flat.indices) for flat in flats]
        code_of = {
            (owner, index): value
            for flat, code in zip(flats, codes, strict=True)
            for owner, index, value in zip(flat.owners, flat.indices, code.tolist(), strict=True)
        }
        own = {ids.graph: ids.nodes for ids in identities.ids}
        self._by_ids = {
            graph.id: IdMatcher(graph, by_id, own.get(graph.id), code_of, self.graphs)
            for graph in top
        }

    def match(
        self, choice: GraphChoice, rows: ReplayRows, ident: Ints, exec_id: int
    ) -> tuple[Ints, Ints, Floats, Ints]:
        matcher_index = choice.matcher
        root = self.roots[matcher_index]
        if by_ids := self._by_ids[root].match(rows.code, ident, exec_id):
            owner, node = by_ids
            method, confidence = BY_ID, np.where(node >= 0, choice.share, 0.0)
        else:
            order_match = self.matchers[matcher_index].match(rows)
            is_matched = order_match.node >= 0
            owner = self._owner[matcher_index][order_match.node]
            node = np.where(is_matched, self._index[matcher_index][order_match.node], -1)
            method = order_match.method
            confidence = order_match.confidence * choice.share / choice.variant_count
        is_matched = node >= 0
        return (
            np.where(is_matched, owner, self._place[root]),
            node,
            confidence,
            np.where(is_matched, METHODS.index(method), METHODS.index(UNMATCHED)),
        )


def _get_ids(trace: Trace, name: str) -> Ints:
    ids = trace.gpu[name]
    present = ids.is_not_null().to_numpy()
    # The upper half may be any graph id, so the sign bit must be cleared.
    values = ids.fill_null(0).to_numpy() & np.uint64((1 << 63) - 1)
    return np.where(present, values.astype(np.int64), -1)


def _has_all_shapes(trace: Trace, launches: list[Ints]) -> bool:
    """Return whether the trace has the grid of every kernel from a graph (ROCm's does not)."""
    if not launches:
        return True
    rows = np.concatenate(launches)
    gpu = trace.gpu[rows.tolist()]
    kernel = (gpu["kind"].cast(str) == "kernel").to_numpy()
    return bool((gpu["grid_x"].is_not_null().to_numpy() | ~kernel).all())


def find_launch_correlations(trace: Trace) -> tuple[Ints, Ints]:
    """Return correlation ids and call times of the graph launches in a trace, by time."""
    codes, names = encode(trace.runtime["name"])
    is_launch = np.array(
        [get_call_class(name) is CallClass.GRAPH_LAUNCH for name in names], dtype=bool
    )
    if not is_launch.any():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    calls = np.flatnonzero(is_launch[codes])
    launches = get_column(trace.runtime, "correlation")[calls]
    # A driver call inside the runtime call has the same correlation.
    first_positions = np.sort(np.unique(launches, return_index=True)[1])
    return launches[first_positions], get_column(trace.runtime, "ts")[calls[first_positions]]


def group_launched_rows(trace: Trace) -> tuple[list[Ints], Ints]:
    """Return the GPU rows (by start) and call time of each graph launch with rows, by time."""
    launches, launching_calls = find_launch_correlations(trace)
    if not len(launches):
        return [], launching_calls
    gpu = get_column(trace.gpu, "correlation")
    order = np.argsort(gpu, kind="stable")
    first = np.searchsorted(gpu[order], launches, "left")
    last = np.searchsorted(gpu[order], launches, "right")
    is_traced = (last > first) & (launches >= 0)
    # The table is sorted by start, and a stable sort by correlation preserves that.
    rows = [order[a:b] for a, b in zip(first[is_traced], last[is_traced], strict=True)]
    return rows, launching_calls[is_traced]
