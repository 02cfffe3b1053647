"""The launches inside the capture of a graph: each of them makes one node.

Source: CUDA programming guide, "Creating a Graph Using Stream Capture": what is launched into a
capturing stream is not run but appended to the graph.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.intervals import NONE, Nesting
from graphviz_dash.model.graph import NodeKind
from graphviz_dash.model.marks import CAPTURE

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

# First match wins. Calls that are not asynchronous do not go into a capture.
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
"""Kinds of node that a call makes which the profiler shows."""


@lru_cache(maxsize=4096)
def launched_kind(call: str) -> NodeKind | None:
    """The kind of node that the API call ``call`` makes in a capture; None if it makes none."""
    return next((kind for kind, pattern in _CALLS if pattern.match(call)), None)


def capture_windows(graph_id: str, capture: Trace) -> list[tuple[int, int]]:
    """When the graph may have been captured, as (begin, end) in ns of the trace.

    The collector's range of that graph, narrowed to the calls in it that begin and end a capture,
    on whatever threads they are: one window. Without that range every pair of such calls.
    """
    codes, names = encode(capture.runtime["name"])
    starts = column(capture.runtime, "ts")
    begins, ends = (
        starts[np.array([word in name for name in names], dtype=bool)[codes]]
        if names
        else starts[:0]
        for word in ("StreamBeginCapture", "StreamEndCapture")
    )
    marks = capture.annotations
    ours = np.flatnonzero((marks["name"] == CAPTURE + graph_id).fill_null(False).to_numpy())
    if len(ours):
        first = int(marks["ts"][int(ours[0])])
        last = first + int(marks["dur"][int(ours[0])])
        inner_begin = begins[(begins >= first) & (begins <= last)]
        inner_end = ends[(ends >= first) & (ends <= last)]
        return [
            (
                int(inner_begin[0]) if len(inner_begin) else first,
                int(inner_end[-1]) if len(inner_end) else last,
            )
        ]
    after = np.searchsorted(ends, begins)
    return [
        (int(begin), int(ends[at]))
        for begin, at in zip(begins, after, strict=True)
        if at < len(ends)
    ]


def launch_rows(capture: Trace) -> tuple[Ints, list[NodeKind]]:
    """Rows of the runtime table that would make a node if captured, by time, and the kinds.

    A runtime call may show the driver call that it makes: of nested ones the outer counts. A call
    whose work the trace shows on the GPU ran, so it was not captured.
    """
    runtime = capture.runtime
    codes, names = encode(runtime["name"])
    kinds = [launched_kind(name) for name in names]
    if not any(kinds):
        return np.zeros(0, dtype=np.int64), []
    rows = np.flatnonzero(np.array([kind is not None for kind in kinds])[codes])
    nesting = Nesting.build(
        column(runtime, "ts")[rows], column(runtime, "dur")[rows], column(runtime, "tid")[rows]
    )
    rows = rows[nesting.parent == NONE]
    correlation = column(runtime, "correlation")[rows]
    ran = (correlation >= 0) & np.isin(correlation, column(capture.gpu, "correlation"))
    rows = rows[~ran]
    rows = rows[np.argsort(column(runtime, "ts")[rows], kind="stable")]
    return rows, [kind for code in codes[rows].tolist() if (kind := kinds[code]) is not None]
