"""Attribution of captured nodes to the launches that created them: operator, module and line.

Each launch call of a capture adds one node, in creation order. Launches link to operators by
External id, to module and line by collector ranges, and backward operators to forward ones by
sequence number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.attribution.origins import CaptureTables, NodeOrigin, OriginResolver
from graphviz_dash.analysis.sequence_alignment import Alignment, align
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.marks import CAPTURE
from graphviz_dash.model.trace import Trace

# The first match wins. Synchronous calls cannot be captured.
_CALLS: Final = tuple(
    (kind, re.compile(r"^(cuda|cu|hip)" + pattern))
    for kind, pattern in (
        (NodeKind.HOST, r"LaunchHostFunc"),
        (NodeKind.KERNEL, r"(Ext)?(Module)?Launch(Cooperative)?(Kernel|$)(?!.*MultiDevice)"),
        (NodeKind.MEMCPY, r"Memcpy\w*Async"),
        (NodeKind.MEMSET, r"Memset\w*Async"),
        (NodeKind.MEM_ALLOC, r"(Malloc(FromPool)?|MemAlloc(FromPool)?)Async"),
        (NodeKind.MEM_FREE, r"(Mem)?FreeAsync"),
    )
)

LAUNCHED_KINDS: Final = tuple(kind for kind, _ in _CALLS)
"""Kinds of node created by calls that the profiler records."""


@lru_cache(maxsize=4096)
def parse_launched_kind(call: str) -> NodeKind | None:
    """Return the kind of node that ``call`` creates in a capture; None if none."""
    return next((kind for kind, pattern in _CALLS if pattern.match(call)), None)


def find_capture_windows(graph_id: str, capture: Trace) -> list[tuple[int, int]]:
    """Find possible capture windows of the graph, as (begin, end) in ns of the trace.

    Uses the collector's range, else every pair of calls that begin and end a capture.
    """
    codes, names = encode(capture.runtime["name"])
    starts = get_column(capture.runtime, "ts")
    begins, ends = (
        starts[np.array([word in name for name in names], dtype=bool)[codes]]
        if names
        else starts[:0]
        for word in ("StreamBeginCapture", "StreamEndCapture")
    )
    marks = capture.annotations
    program_marks = np.flatnonzero(
        (marks["name"] == CAPTURE + graph_id).fill_null(False).to_numpy()
    )
    if len(program_marks):
        first = int(marks["ts"][int(program_marks[0])])
        last = first + int(marks["dur"][int(program_marks[0])])
        inner_begin = begins[(begins >= first) & (begins <= last)]
        inner_end = ends[(ends >= first) & (ends <= last)]
        return [
            (
                int(inner_begin[0]) if len(inner_begin) else first,
                int(inner_end[-1]) if len(inner_end) else last,
            )
        ]
    end_indices = np.searchsorted(ends, begins)
    return [
        (int(begin), int(ends[index]))
        for begin, index in zip(begins, end_indices, strict=True)
        if index < len(ends)
    ]


def find_launch_rows(capture: Trace) -> tuple[Ints, list[NodeKind]]:
    """Find runtime rows that create a node if captured, by time, with their kinds.

    Only outer calls count, and only calls without GPU work.
    """
    runtime = capture.runtime
    codes, names = encode(runtime["name"])
    kinds = [parse_launched_kind(name) for name in names]
    if not any(kinds):
        return np.zeros(0, dtype=np.int64), []
    rows = np.flatnonzero(np.array([kind is not None for kind in kinds])[codes])
    nesting = Nesting.build(
        get_column(runtime, "ts")[rows],
        get_column(runtime, "dur")[rows],
        get_threads(runtime)[rows],
    )
    rows = rows[nesting.parent == NONE]
    correlation = get_column(runtime, "correlation")[rows]
    was_executed = (correlation >= 0) & np.isin(correlation, get_column(capture.gpu, "correlation"))
    rows = rows[~was_executed]
    rows = rows[np.argsort(get_column(runtime, "ts")[rows], kind="stable")]
    return rows, [kind for code in codes[rows].tolist() if (kind := kinds[code]) is not None]


__all__ = [
    "GAP_ALIGNED",
    "NOT_ATTRIBUTED",
    "ORDER_ALIGNED",
    "Attribution",
    "NodeOrigin",
    "attribute_graph",
    "attribute_graphs",
]

ORDER_ALIGNED: Final = "capture order"
GAP_ALIGNED: Final = "capture order, gaps"
NOT_ATTRIBUTED: Final = "none"

_GAP_CONFIDENCE: Final = 0.9
"""Confidence of a launch that all pairings with the fewest gaps assign to the same node."""

_CODES: Final = {kind: code for code, kind in enumerate(LAUNCHED_KINDS)}


class Attribution(Struct, frozen=True):
    """Origins of the nodes of one graph, by index."""

    graph: str
    origins: tuple[NodeOrigin, ...]
    capture_launches: int
    unmatched_launches: int
    """Number of these launches without a node."""
    unmatched_nodes: int
    """Nodes of launched kinds without a launch."""


class _CaptureTrace:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.tables = CaptureTables(trace)

    @cached_property
    def launches(self) -> tuple[Ints, Ints, Ints]:
        """Rows, times and kind codes of launches that create a node."""
        rows, kinds = find_launch_rows(self.trace)
        codes = np.array([_CODES[kind] for kind in kinds], dtype=np.int64)
        return rows, get_column(self.trace.runtime, "ts")[rows], codes


def attribute_graph(graph: CapturedGraph, *captures: Trace) -> Attribution:
    """Attribute the nodes of one graph; see :func:`attribute_graphs`."""
    return attribute_graphs((graph,), captures)[graph.id]


def attribute_graphs(
    graphs: Iterable[CapturedGraph], captures: Sequence[Trace]
) -> dict[str, Attribution]:
    """Attribute the nodes of ``graphs``, by graph id, from the capture trace of each graph.

    Equal sequences are paired in order with confidence 1. Others are aligned by kind, with
    confidence 0.9 or lower if ambiguous. If more than a tenth remains unpaired, nothing is paired.
    """
    captures_by_index = dict(enumerate(map(_CaptureTrace, captures)))
    return {
        graph.id: _attribute_graph(graph, captures_by_index.get(graph.capture_trace_index))
        for graph in graphs
    }


def _attribute_graph(graph: CapturedGraph, capture: _CaptureTrace | None) -> Attribution:
    launched_nodes = [node.index for node in graph.nodes if node.kind in _CODES]
    if graph.parent is not None:
        holder, node = graph.parent
        reason = (
            f"it is in a body of node {node} of {holder}, whose launches cannot be distinguished"
        )
        return _build_unattributed(graph, reason, len(launched_nodes))
    if capture is None:
        return _build_unattributed(graph, "the capture was not traced", len(launched_nodes))
    windows = find_capture_windows(graph.id, capture.trace)
    if graph.capture_index is not None:
        windows = windows[graph.capture_index : graph.capture_index + 1]
    if not windows:
        return _build_unattributed(
            graph, "the trace contains no capture of this graph", len(launched_nodes)
        )
    kinds = np.array([_CODES[graph.nodes[index].kind] for index in launched_nodes], dtype=np.int64)
    best_fit = _find_best_window(kinds, capture, windows)
    if best_fit is None:
        return _build_unattributed(
            graph, "the trace contains several equal captures", len(launched_nodes)
        )
    launches, alignment = best_fit
    if alignment is None:
        reason = (
            f"the capture contains {len(launches):,} launches, which do not match "
            f"{len(launched_nodes):,} nodes"
            if len(launches)
            else "no launch of the capture created it: it was added through the graph API"
        )
        return _build_unattributed(graph, reason, len(launched_nodes), len(launches))
    exact = alignment.pair_count == len(launched_nodes) == len(launches)
    origins = OriginResolver(capture.trace, launches, capture.tables)
    by_node = {
        node: origins.get_origin(
            partner,
            ORDER_ALIGNED if exact else GAP_ALIGNED,
            1.0 if exact else _GAP_CONFIDENCE if spread == 0 else 1 / (1 + spread),
        )
        for node, partner, spread in zip(
            launched_nodes, alignment.partner.tolist(), alignment.spread.tolist(), strict=True
        )
        if partner >= 0
    }
    return Attribution(
        graph=graph.id,
        origins=tuple(
            by_node.get(node.index) or _build_unmatched(node.kind) for node in graph.nodes
        ),
        capture_launches=len(launches),
        unmatched_launches=len(launches) - alignment.pair_count,
        unmatched_nodes=len(launched_nodes) - alignment.pair_count,
    )


def _find_best_window(
    kinds: Ints, capture: _CaptureTrace, windows: list[tuple[int, int]]
) -> tuple[Ints, Alignment | None] | None:
    """Find the window that fits best and align its launches; None if several fit equally well."""
    rows, times, codes = capture.launches
    candidates = []
    for begin, end in windows:
        first, last = np.searchsorted(times, [begin, end])
        alignment = align(kinds, codes[first:last])
        unpaired = len(kinds) + int(last - first) - 2 * (alignment.pair_count if alignment else 0)
        candidates.append((unpaired, rows[first:last], alignment))
    fewest_unpaired = min(unpaired for unpaired, _, _ in candidates)
    best = [
        (launches, alignment)
        for unpaired, launches, alignment in candidates
        if unpaired == fewest_unpaired
    ]
    return best[0] if len(best) == 1 else None


def _build_unattributed(
    graph: CapturedGraph, reason: str, nodes: int, launches: int = 0
) -> Attribution:
    origin = NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)
    return Attribution(graph.id, (origin,) * len(graph.nodes), launches, launches, nodes)


def _build_unmatched(kind: NodeKind) -> NodeOrigin:
    reason = (
        "no matching launch found in the capture"
        if kind in _CODES
        else f"launches do not create nodes of kind {kind.value}"
    )
    return NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)
