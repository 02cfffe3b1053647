"""Launches during the capture of a graph; each creates one node.

Source: CUDA programming guide, "Creating a Graph Using Stream Capture".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.marks import CAPTURE

if TYPE_CHECKING:
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
    """Return the kind of node that the API call ``call`` creates in a capture; None if none."""
    return next((kind for kind, pattern in _CALLS if pattern.match(call)), None)


def find_capture_windows(graph_id: str, capture: Trace) -> list[tuple[int, int]]:
    """Find possible capture windows of the graph, as (begin, end) in ns of the trace.

    Uses the collector's range if there is one, else every pair of calls that begin and end a
    capture.
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
