"""Work of a typical traced step of a run: items, launch times, durations and origins.

Times are medians over the steps with the same work in the same launch order. Steps that differ (a
first one that allocates, another branch of the model) are counted and excluded. Steps that replay
different graphs with the same nodes are equal: torch.compile records one graph for each place in
its tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.absence import NO_GPU_WORK, explain_missing
from graphviz_dash.analysis.arrays import (
    Flags,
    Ints,
    compute_medians,
    encode,
    get_column,
    get_streams,
)
from graphviz_dash.analysis.attribution.attribution import attribute_graphs
from graphviz_dash.analysis.attribution.origins import NodeOrigin, OriginResolver, select_near
from graphviz_dash.analysis.graph.topology import find_visible_edges
from graphviz_dash.analysis.ranks.ranks import RankWaits
from graphviz_dash.analysis.replays.replays import ReplayMatch, get_identities, match_replays
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.lanes import link_trace_launches
from graphviz_dash.analysis.trace.steps import Step, StepMethod, find_steps
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.run import Run
from graphviz_dash.model.trace import Trace

NO_GROUP: Final = -1

BY_TRACE: Final = "traced pass"
"""Method that uses the operators around a launch in the trace."""

_SHAPE_COLUMNS: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")
_KINDS: Final = {NodeKind.KERNEL: "kernel", NodeKind.MEMCPY: "memcpy", NodeKind.MEMSET: "memset"}


class WorkItem(Struct, frozen=True):
    """A kernel, copy or set of the step."""

    kind: str
    """kernel, memcpy or memset; a small copy that the driver runs as a kernel counts as a copy."""
    name: str
    """Name of the kernel, or the profiler's name of the copy or set."""
    shape: tuple[int, ...]
    """Grid, block and shared memory of a kernel, -1 if not recorded."""
    size: int | None
    """Bytes of a copy or set, if recorded."""
    origin: NodeOrigin
    graph: str | None
    """Id of the graph with this node; None for eager work."""
    node: int | None
    """Index in that graph; None for eager work."""


class PerStepTimes(Struct, frozen=True):
    """Times of the same items in each step, shape (steps, items), in ns."""

    launch: Ints
    """Start of the launch call, relative to the step."""
    call: Ints
    """Duration of the launch call."""
    start: Ints
    """Start on the GPU, relative to the step."""
    duration: Ints


class TypicalStep(Struct, frozen=True):
    """Items of a typical step in launch order (nodes of one graph launch in capture order).

    Parallel arrays of shape (items,); times are medians over the matching steps, in ns, defined as
    in :class:`PerStepTimes`.
    """

    run: str
    items: tuple[WorkItem, ...]
    launch: Ints
    call: Ints
    start: Ints
    duration: Ints
    rank_wait: Ints
    """Wait for other ranks, as a part of the duration."""
    meeting: Ints
    """Number of the collective, the same on all ranks; NO_MEETING for other work."""
    lane: Ints
    """Dense stream number."""
    group: Ints
    """Number of the graph launch; NO_GROUP for work launched directly."""
    edges: Ints
    """Items that follow each other within or around a graph, shape (k, 2), source first."""
    delay: Ints
    """Minimum delay over the steps from the last predecessor in the same graph launch to the start.

    Without one, it counts from the launch's first node; 0 for items outside graphs.
    """
    step_times: PerStepTimes
    """As large as the trace; empty if dropped."""
    step_ns: int
    cpu_ns: int
    """Time from the start of the step to its final synchronisation."""
    waits: Ints
    """Start and end of the other synchronising calls of the step, shape (k, 2)."""
    return_ns: int
    """Minimum return time over the steps.

    It counts from the end of the last work or, if later, the call of the final synchronisation.
    """
    matching_steps: int
    """Traced steps with this work."""
    traced_steps: int
    """Number of steps in the trace."""
    rows: Mapping[int, Ints]
    """Rows of the items in the GPU table, shape (items,), by number of a matching step."""

    @property
    def without_step_times(self) -> TypicalStep:
        """The same without the times of each step."""
        empty_times = np.zeros((0, len(self.items)), dtype=np.int64)
        return replace(
            self, step_times=PerStepTimes(empty_times, empty_times, empty_times, empty_times)
        )


def build_typical_step(
    run: Run,
    waits: RankWaits | None = None,
    replays: ReplayMatch | None = None,
    traced_steps: tuple[Step, ...] | None = None,
) -> TypicalStep | Missing:
    """Build a typical step of ``run``, or explain why this is impossible.

    ``waits`` are the waits of its collectives for other ranks. ``replays`` and ``traced_steps`` are
    computed if None.
    """
    trace = run.replay_trace
    if trace is None:
        return explain_missing(run, Fact.TRACED_PASS)
    traced_steps = traced_steps or find_steps(trace)
    if not traced_steps or traced_steps[0].method is not StepMethod.MARKED:
        return _make_missing("the trace marks no steps that end in a synchronisation")
    if any(step.unlinked for step in traced_steps):
        return _make_missing("the trace does not show the launch of all GPU work")
    calls = _Calls(trace)
    nodes = _Nodes(run, trace, replays)
    if waits is None:
        waits = RankWaits.create_empty(trace.gpu.height)
    step_reads = [_StepWork(step, calls, nodes, waits) for step in traced_steps]
    if any(step_read.final is None for step_read in step_reads):
        return _make_missing("the trace shows no synchronisation at the end of a step")
    signatures = Counter(step_read.signature for step_read in step_reads)
    typical_signature = signatures.most_common(1)[0][0]
    matching = [step_read for step_read in step_reads if step_read.signature == typical_signature]
    if not len(matching[0].rows):
        return _make_missing((find_missing_gpu_work(trace) or NO_GPU_WORK).reason)
    return _build_typical_step(run, trace, matching, len(traced_steps), (calls, nodes))


def _make_missing(reason: str) -> Missing:
    return Missing(Fact.TYPICAL_STEP, reason)


class _Calls:
    def __init__(self, trace: Trace) -> None:
        self.gpu_start = get_column(trace.gpu, "ts")
        self.gpu_duration = np.maximum(get_column(trace.gpu, "dur"), 0)
        self.gpu_kind = trace.gpu["kind"].to_physical().to_numpy()
        self.gpu_name = trace.gpu["name"].to_physical().to_numpy()
        codes, names = encode(trace.runtime["name"])
        classes = [get_call_class(name) for name in names]
        self.start = get_column(trace.runtime, "ts")
        self.duration = np.maximum(get_column(trace.runtime, "dur"), 0)
        self.is_graph = _match_class(classes, CallClass.GRAPH_LAUNCH)[codes]
        self.waits = np.flatnonzero(_match_class(classes, CallClass.SYNCHRONISE)[codes])
        self.of_row = link_trace_launches(trace).launch


def _match_class(classes: list[CallClass], requested: CallClass) -> Flags:
    return np.array([call_kind is requested for call_kind in classes], dtype=np.bool_)


class _Nodes:
    """Graph (index in ``graphs``, -1: none) and node of each GPU row of a trace."""

    def __init__(self, run: Run, trace: Trace, replays: ReplayMatch | None) -> None:
        self.graphs = run.graphs
        self.graph = np.full(trace.gpu.height, -1, dtype=np.int64)
        self.node = np.full(trace.gpu.height, -1, dtype=np.int64)
        if run.graphs:
            replay_match = replays or match_replays(run.graphs, trace, get_identities(run))
            self.graph[replay_match.gpu_row] = replay_match.graph
            self.node[replay_match.gpu_row] = replay_match.node
        self.wiring = _find_equal_graphs(self.graphs, self.graph)[self.graph]
        """First graph with the same nodes and edges, for each row; -1 if none."""


def _find_equal_graphs(graphs: Sequence[CapturedGraph], replayed: Ints) -> Ints:
    """Return for each replayed graph the first one with the same node kinds and edges.

    Shape (graphs + 1,); -1 for other graphs and for the last element, which index -1 selects.
    """
    first: dict[bytes, int] = {}
    wirings = np.full(len(graphs) + 1, -1, dtype=np.int64)
    for position in np.unique(replayed[replayed >= 0]).tolist():
        graph = graphs[position]
        kinds = ",".join(node.kind for node in graph.nodes)
        edges = np.array([(edge.source, edge.target) for edge in graph.edges], dtype=np.int64)
        wiring = blake2b(kinds.encode() + edges.tobytes(), digest_size=16).digest()
        wirings[position] = first.setdefault(wiring, position)
    return wirings


class _StepWork:
    def __init__(self, step: Step, calls: _Calls, nodes: _Nodes, waits: RankWaits) -> None:
        self.index, self.begin, self.end = step.index, step.start, step.end
        rows = step.gpu_rows
        call = calls.of_row[rows]
        start = calls.gpu_start[rows]
        node = nodes.node[rows]
        # Nodes in capture order, followed by the unmatched rows of a launch by start.
        node_order = np.where(node >= 0, node, np.iinfo(np.int64).max)
        order = np.lexsort((start, node_order, nodes.graph[rows], calls.start[call]))
        self.rows, call = rows[order], call[order]
        self.launch = calls.start[call] - step.start
        self.call = calls.duration[call]
        self.start = start[order] - step.start
        self.duration = calls.gpu_duration[self.rows]
        self.rank_wait, self.meeting = waits.wait_ns[self.rows], waits.meeting[self.rows]
        self.group = np.where(
            calls.is_graph[call], np.unique(call, return_inverse=True)[1].reshape(-1), NO_GROUP
        )
        inside = calls.waits[
            (calls.start[calls.waits] >= step.start) & (calls.start[calls.waits] < step.end)
        ]
        last = int((self.start + self.duration).max()) if len(rows) else 0
        self.final: int | None = None
        self.waits = np.zeros((0, 2), dtype=np.int64)
        if len(inside):
            begin = calls.start[inside] - step.start
            end = begin + calls.duration[inside]
            self.final = int(begin[-1])
            # A call after the end of all work waits for nothing.
            self.return_ns = max(0, int(end[-1]) - max(last, self.final))
            self.waits = np.stack((begin[:-1], end[:-1]), axis=1)
        kind, name = calls.gpu_kind[self.rows], calls.gpu_name[self.rows]
        looks = (kind, name, nodes.wiring[self.rows], nodes.node[self.rows], self.group >= 0)
        # A 16-byte digest, because a trace may have thousands of steps.
        self.signature = (
            blake2b(
                np.stack([look.astype(np.int64) for look in looks]).tobytes(), digest_size=16
            ).digest(),
            len(self.waits),
        )


def _build_typical_step(
    run: Run, trace: Trace, reads: list[_StepWork], step_count: int, sources: tuple[_Calls, _Nodes]
) -> TypicalStep:
    nodes = sources[1]
    first = reads[0]
    items = _build_items(run, trace, first, sources)
    medians = {
        name: compute_medians([getattr(read, name) for read in reads])
        for name in ("launch", "call", "start", "duration", "rank_wait", "waits")
    }
    lanes = get_streams(trace.gpu)
    lane = np.unique(lanes[first.rows], return_inverse=True)[1].reshape(-1)
    edges = _find_edges(first, lane, nodes)
    step_times = PerStepTimes(
        *(
            np.stack([getattr(read, name) for read in reads])
            for name in ("launch", "call", "start", "duration")
        )
    )
    return TypicalStep(
        run=run.name,
        items=items,
        **medians,
        meeting=first.meeting,
        lane=lane,
        group=first.group,
        edges=edges,
        delay=np.stack([_measure_delays(read, edges) for read in reads]).min(axis=0),
        step_times=step_times,
        step_ns=int(np.median([read.end - read.begin for read in reads])),
        cpu_ns=int(np.median([read.final or 0 for read in reads])),
        return_ns=min(read.return_ns for read in reads),
        matching_steps=len(reads),
        traced_steps=step_count,
        rows={read.index: read.rows for read in reads},
    )


def _measure_delays(read: _StepWork, edges: Ints) -> Ints:
    if not (read.group != NO_GROUP).any():
        return np.zeros_like(read.start)
    inside = edges[
        (read.group[edges[:, 0]] == read.group[edges[:, 1]]) & (read.group[edges[:, 0]] != NO_GROUP)
    ]
    first = np.full(int(read.group.max()) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    is_grouped = read.group != NO_GROUP
    np.minimum.at(first, read.group[is_grouped], read.start[is_grouped])
    ready = np.full(len(read.start), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(ready, inside[:, 1], (read.start + read.duration)[inside[:, 0]])
    # A node without predecessors waits like the first node of the launch.
    ready = np.where(ready == np.iinfo(np.int64).min, first[np.maximum(read.group, 0)], ready)
    return np.where(is_grouped, read.start - ready, 0)


def _build_items(
    run: Run, trace: Trace, read: _StepWork, sources: tuple[_Calls, _Nodes]
) -> tuple[WorkItem, ...]:
    calls, nodes = sources
    kinds = trace.gpu["kind"][read.rows].to_list()
    names = trace.gpu["name"][read.rows].to_list()
    shapes = np.stack(
        [get_column(trace.gpu, dimension)[read.rows] for dimension in _SHAPE_COLUMNS], axis=1
    ).tolist()
    sizes = get_column(trace.gpu, "bytes")[read.rows].tolist()
    eager = np.flatnonzero(read.group == NO_GROUP)
    launches = calls.of_row[read.rows[eager]]
    origins = OriginResolver(select_near(trace, read.begin, read.end), launches)
    eager_origins = {
        int(index): origins.get_origin(position, BY_TRACE, 1.0)
        for position, index in enumerate(eager.tolist())
    }
    positions = np.unique(nodes.graph[read.rows])
    captured_graphs = [nodes.graphs[place] for place in positions[positions >= 0].tolist()]
    attributions = attribute_graphs(captured_graphs, run.capture_traces)
    unknown = NodeOrigin("none", 0.0, reason="no graph node matches it")
    items = []
    for index, row in enumerate(read.rows.tolist()):
        graph = nodes.graphs[nodes.graph[row]] if nodes.graph[row] >= 0 else None
        node = int(nodes.node[row])
        kind, name, size = kinds[index], names[index], sizes[index]
        if graph is not None and node >= 0:
            kind, name, size = _describe_as_node(graph, node, kind, name, size)
        items.append(
            WorkItem(
                kind=kind,
                name=name or "",
                shape=tuple(shapes[index]) if kind == "kernel" else (),
                size=None if kind == "kernel" or size < 0 else size,
                origin=eager_origins.get(index)
                or (
                    attributions[graph.id].origins[node]
                    if graph is not None and node >= 0
                    else unknown
                ),
                graph=graph.id if graph is not None and node >= 0 else None,
                node=node if graph is not None and node >= 0 else None,
            )
        )
    return tuple(items)


def _describe_as_node(
    graph: CapturedGraph, node: int, kind: str, name: str | None, size: int
) -> tuple[str, str | None, int]:
    """Return kind, name and bytes of a row according to its node.

    Small memcpys and memsets run as kernels of the driver.
    """
    graph_node = graph.nodes[node]
    node_kind = _KINDS.get(graph_node.kind, kind)
    if node_kind == kind or graph_node.params is None:
        return kind, name, size
    return node_kind, graph_node.label, int(getattr(graph_node.params, "bytes", size))


def _find_edges(read: _StepWork, lane: Ints, nodes: _Nodes) -> Ints:
    """Return the order of items: graph edges, streams, and around graph launches."""
    edges: list[tuple[int, int]] = []
    segments: list[tuple[int, int]] = []
    count = len(read.rows)
    begin = 0
    for index in range(1, count + 1):
        if index < count and read.group[index] == read.group[begin] != NO_GROUP:
            continue
        segments.append((begin, index))
        begin = index
    last_of_lane: dict[int, int] = {}
    ends: list[int] = []
    for begin, end in segments:
        if read.group[begin] == NO_GROUP:
            before = last_of_lane.get(int(lane[begin]))
            edges += [
                (earlier_item, begin)
                for earlier_item in (ends or ([] if before is None else [before]))
            ]
            last_of_lane[int(lane[begin])] = begin
            ends = []
            continue
        inner = _find_inner_edges(read, nodes, begin, end)
        edges += inner
        targets, sources = {b for _, b in inner}, {a for a, _ in inner}
        ends_before = ends or ([begin - 1] if begin else [])
        for item in range(begin, end):
            if item not in targets:
                edges += [(earlier_item, item) for earlier_item in ends_before]
        ends = [item for item in range(begin, end) if item not in sources]
        last_of_lane.clear()
    return np.array(sorted(set(edges)), dtype=np.int64).reshape(-1, 2)


def _find_inner_edges(
    read: _StepWork, nodes: _Nodes, begin: int, end: int
) -> list[tuple[int, int]]:
    """Return the edges between the items of one launch, across invisible nodes."""
    edges: list[tuple[int, int]] = []
    rows = read.rows[begin:end]
    for graph_index in np.unique(nodes.graph[rows]).tolist():
        if graph_index < 0:
            continue
        graph = nodes.graphs[graph_index]
        item_of = {
            int(node): begin + index
            for index, (node, owner) in enumerate(
                zip(nodes.node[rows].tolist(), nodes.graph[rows].tolist(), strict=True)
            )
            if node >= 0 and owner == graph_index
        }
        is_visible = np.zeros(len(graph.nodes), dtype=np.bool_)
        is_visible[list(item_of)] = True
        edges += [
            (item_of[a], item_of[b]) for a, b in find_visible_edges(graph, is_visible).tolist()
        ]
    return edges
