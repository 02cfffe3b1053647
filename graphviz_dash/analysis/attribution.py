"""Where each node of a captured graph comes from: the launch that made it, its op, module and line.

While a stream captures, each launch call adds one node, so the launch calls inside the capture, by
time, are the nodes in creation order. The profiler links a launch to its operator (External id);
ranges of the collector lead to module and source line; a backward operator leads to its forward one
by the autograd sequence number.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.calls import CallClass, call_class
from graphviz_dash.analysis.lanes import Ints, column
from graphviz_dash.analysis.nesting import Nesting, first_where
from graphviz_dash.model.graph import CapturedGraph, NodeKind
from graphviz_dash.model.marks import CAPTURE, MODULE, SOURCE

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

BY_ORDER: Final = "capture order"
BY_KINDS: Final = "capture order, gaps"
NOT_ATTRIBUTED: Final = "none"

_LAUNCHED: Final = (NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET, NodeKind.HOST)
_MOST_UNMATCHED: Final = 0.1
_OPTIMIZER: Final = ("Optimizer.step#", "Optimizer.zero_grad#")
_ENGINE: Final = "autograd::engine::evaluate_function"
_BACKWARD_FRAME: Final = re.compile(
    r"torch/(_tensor|autograd/__init__)\.py\(\d+\): (backward|grad)$"
)
_LIBRARY_FRAME: Final = re.compile(r"^(torch/|<|nn\.Module: )|site-packages|dist-packages")


@dataclass(frozen=True)
class NodeOrigin:
    """What launched a node during capture.

    ``method`` names the rung of attribution: "capture order", "capture order, gaps" (launches and
    nodes did not agree one to one) or "none". ``confidence`` is 0 to 1. ``op`` is the innermost
    operator, ``op_path`` all of them, outermost first. ``input_dims`` and ``input_types`` are the
    JSON text of the trace. ``phase`` is optimizer (inside Optimizer.step or zero_grad), backward
    (on the autograd engine, or inside a call of backward), forward (any other operator) or other.
    ``module`` is a dotted path. ``source`` is ``file:line``; ``source_method`` tells how it was
    found: "range" (the line that called into torch), "forward op" (that of the forward operator),
    "python stack" (first line of the innermost function outside torch) or "enclosing call" (the
    call on another thread that was running). A field is None when the trace does not tell;
    ``reason`` then says why the node has no operator.
    """

    method: str
    confidence: float
    launch_call: str | None = None
    op: str | None = None
    op_path: tuple[str, ...] = ()
    input_dims: str | None = None
    input_types: str | None = None
    phase: str = "other"
    module: str | None = None
    source: str | None = None
    source_method: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Attribution:
    """The origin of every node of one graph, by index; launches seen inside its capture, and how
    many of them no node was found for."""

    graph: str
    origins: tuple[NodeOrigin, ...]
    capture_launches: int
    unmatched_launches: int


def attribute(graph: CapturedGraph, capture: Trace | None) -> Attribution:
    """The origins of the nodes of ``graph``, from the trace of its capture; near-linear."""
    if capture is None:
        return _nothing(graph, "there is no trace of the capture")
    window = _window(graph.id, capture)
    if window is None:
        return _nothing(graph, "the trace of the capture does not show this capture")
    launches = _launch_rows(capture, *window)
    names = capture.runtime["name"].cast(str).to_list()
    made = [node.index for node in graph.nodes if node.kind in _LAUNCHED]
    kinds = [graph.nodes[index].kind for index in made]
    launched = [_launched_kind(names[row]) for row in launches.tolist()]
    pairs, method = _aligned(kinds, launched)
    confidence = 1.0 if method == BY_ORDER else len(pairs) / max(len(kinds), len(launched), 1) / 2
    finder = _Finder(capture, launches)
    by_node = {made[node]: finder.origin(launch, method, confidence) for node, launch in pairs}
    origins = tuple(by_node.get(node.index, _unmatched(node.kind)) for node in graph.nodes)
    return Attribution(graph.id, origins, len(launches), len(launches) - len(pairs))


def _nothing(graph: CapturedGraph, reason: str) -> Attribution:
    origin = NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)
    return Attribution(graph.id, (origin,) * len(graph.nodes), 0, 0)


def _unmatched(kind: NodeKind) -> NodeOrigin:
    reason = (
        "no launch of the capture was found for it"
        if kind in _LAUNCHED
        else f"no launch makes a node of kind {kind.value}"
    )
    return NodeOrigin(NOT_ATTRIBUTED, 0.0, reason=reason)


def _window(graph_id: str, capture: Trace) -> tuple[int, int] | None:
    """Begin and end of the capture of ``graph_id``, in ns of the trace.

    The collector's range, narrowed by the calls that begin and end a capture; without the range
    those calls alone, if there is one pair of them.
    """
    names = capture.runtime["name"].cast(str)
    starts = column(capture.runtime, "ts")
    begins = starts[np.flatnonzero((names.str.contains("StreamBeginCapture")).fill_null(False))]
    ends = starts[np.flatnonzero((names.str.contains("StreamEndCapture")).fill_null(False))]
    marks = capture.annotations.filter(capture.annotations["name"] == CAPTURE + graph_id)
    if marks.height:
        first, last = int(marks["ts"][0]), int(marks["ts"][0]) + int(marks["dur"][0])
        inner_begin = begins[(begins >= first) & (begins <= last)]
        inner_end = ends[(ends >= first) & (ends <= last)]
        return (
            int(inner_begin[0]) if len(inner_begin) else first,
            int(inner_end[-1]) if len(inner_end) else last,
        )
    if len(begins) == 1 and len(ends) == 1:
        return int(begins[0]), int(ends[0])
    return None


def _launch_rows(capture: Trace, begin: int, end: int) -> Ints:
    """Rows of the runtime table that launched something between two instants, by time.

    A runtime call can show the driver call that it makes: of nested ones the outer counts.
    """
    names = capture.runtime["name"].cast(str).to_list()
    classes = np.array(
        [call_class(name or "") in (CallClass.KERNEL_LAUNCH, CallClass.COPY) for name in names],
        dtype=bool,
    )
    starts = column(capture.runtime, "ts")
    rows = np.flatnonzero(classes & (starts >= begin) & (starts <= end))
    nesting = Nesting.build(
        starts[rows], column(capture.runtime, "dur")[rows], column(capture.runtime, "tid")[rows]
    )
    outer = rows[nesting.parent < 0]
    return np.asarray(outer[np.argsort(starts[outer], kind="stable")], dtype=np.int64)


def _launched_kind(call: str) -> NodeKind:
    if "Memcpy" in call:
        return NodeKind.MEMCPY
    if "Memset" in call:
        return NodeKind.MEMSET
    return NodeKind.HOST if "HostFunc" in call else NodeKind.KERNEL


def _aligned(nodes: list[NodeKind], launches: list[NodeKind]) -> tuple[list[tuple[int, int]], str]:
    """Pairs of places in the two sequences, and the method that paired them.

    Where the kinds do not agree one to one there is no telling which kernel a surplus launch is,
    so the pairs of the common subsequence are kept with a low confidence, and none at all when
    more than a tenth would stay unmatched.
    """
    if nodes == launches:
        return [(place, place) for place in range(len(nodes))], BY_ORDER
    matcher = difflib.SequenceMatcher(None, nodes, launches, autojunk=False)
    pairs = [
        (block.a + step, block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]
    longest = max(len(nodes), len(launches))
    if len(pairs) < (1 - _MOST_UNMATCHED) * longest:
        return [], BY_KINDS
    return pairs, BY_KINDS


class _Finder:
    """Looks up what stood around each launch of a capture."""

    def __init__(self, capture: Trace, launches: Ints) -> None:
        self._launches = launches
        runtime, ops, marks = capture.runtime, capture.ops, capture.annotations
        self._calls = runtime["name"].cast(str).to_list()
        self._times = column(runtime, "ts")
        self._threads = column(runtime, "tid")
        self._op_names = ops["name"].cast(str).to_list()
        self._dims, self._types = ops["input_dims"].to_list(), ops["input_types"].to_list()
        self._op_nesting = _nesting(ops)
        self._op_times, self._op_threads = column(ops, "ts"), column(ops, "tid")
        self._mark_names = marks["name"].to_list()
        self._marks = _nesting(marks)
        self._is_module = _prefixed(self._mark_names, MODULE)
        self._is_source = _prefixed(self._mark_names, SOURCE)
        self._is_optimizer = _prefixed(self._mark_names, *_OPTIMIZER)
        self._frame_names = capture.python["name"].cast(str).to_list()
        self._frames = _nesting(capture.python)
        self._is_own_frame = np.array(
            [not _LIBRARY_FRAME.search(name) for name in self._frame_names], dtype=bool
        )
        self._is_backward_frame = np.array(
            [bool(_BACKWARD_FRAME.search(name)) for name in self._frame_names], dtype=bool
        )
        self._sequence = column(ops, "sequence")
        self._forward_thread = column(ops, "forward_tid")
        self._forward_of = self._forward_ops()
        times, threads = self._times[launches], self._threads[launches]
        self._mark_around = self._marks.around(times, threads)
        self._frame_around = self._frames.around(times, threads)
        self._op_of = self._ops_of(column(ops, "external_id"), column(runtime, "external_id"))
        self._source_spans = np.flatnonzero(self._is_source)

    def origin(self, place: int, method: str, confidence: float) -> NodeOrigin:
        """The origin of the node that launch number ``place`` made."""
        row = int(self._launches[place])
        call = self._calls[row]
        op = int(self._op_of[place])
        path = list(self._op_nesting.outward(op)) if op >= 0 else []
        with_dims = next((one for one in path if self._dims[one] is not None), None)
        forward = self._forward_op(path)
        source, source_method = self._source(place, forward)
        return NodeOrigin(
            method=method,
            confidence=confidence,
            launch_call=call,
            op=self._op_names[op] if op >= 0 else None,
            op_path=tuple(self._op_names[one] for one in reversed(path)),
            input_dims=None if with_dims is None else self._dims[with_dims],
            input_types=None if with_dims is None else self._types[with_dims],
            phase=self._phase(place, path),
            module=self._module(place, forward),
            source=source,
            source_method=source_method,
            reason=None if op >= 0 else "it was launched outside any operator",
        )

    def _ops_of(self, op_ids: Ints, launch_ids: Ints) -> Ints:
        """The innermost operator of each launch: by External id, else by time on its thread."""
        row_of = {int(ident): row for row, ident in enumerate(op_ids.tolist()) if ident >= 0}
        around = self._op_nesting.around(self._times[self._launches], self._threads[self._launches])
        linked = [row_of.get(int(launch_ids[row]), -1) for row in self._launches.tolist()]
        return np.where(np.array(linked, dtype=np.int64) >= 0, linked, around)

    def _forward_ops(self) -> dict[int, int]:
        """Sequence number to the forward operator that made the autograd node.

        The number is the next node's: of all forward operators that show it the last to begin
        made the node.
        """
        rows = np.flatnonzero((self._sequence >= 0) & (self._forward_thread <= 0))
        rows = rows[np.argsort(self._op_times[rows], kind="stable")]
        return {int(self._sequence[row]): int(row) for row in rows.tolist()}

    def _forward_op(self, path: list[int]) -> int | None:
        for row in path:
            if self._forward_thread[row] > 0 and self._sequence[row] >= 0:
                return self._forward_of.get(int(self._sequence[row]))
        return None

    def _phase(self, place: int, path: list[int]) -> str:
        marks = self._marks.outward(int(self._mark_around[place]))
        if first_where(marks, self._is_optimizer) is not None:
            return "optimizer"
        if any(
            self._op_names[row].startswith(_ENGINE) or self._forward_thread[row] > 0 for row in path
        ):
            return "backward"
        frames = self._frames.outward(int(self._frame_around[place]))
        if first_where(frames, self._is_backward_frame) is not None:
            return "backward"
        return "forward" if path else "other"

    def _module(self, place: int, forward: int | None) -> str | None:
        found = first_where(self._marks.outward(int(self._mark_around[place])), self._is_module)
        if found is None and forward is not None:
            found = first_where(self._marks_around_op(forward), self._is_module)
        return None if found is None else self._mark_names[found].removeprefix(MODULE)

    def _marks_around_op(self, op: int) -> Iterator[int]:
        around = self._marks.around(self._op_times[op : op + 1], self._op_threads[op : op + 1])
        return self._marks.outward(int(around[0]))

    def _source(self, place: int, forward: int | None) -> tuple[str | None, str | None]:
        found = first_where(self._marks.outward(int(self._mark_around[place])), self._is_source)
        method = "range"
        if found is None and forward is not None:
            found = first_where(self._marks_around_op(forward), self._is_source)
            method = "forward op"
        if found is not None:
            return self._mark_names[found].removeprefix(SOURCE), method
        frame = first_where(
            self._frames.outward(int(self._frame_around[place])), self._is_own_frame
        )
        if frame is not None:
            named = re.match(r"(.+)\((\d+)\): ", self._frame_names[frame])
            if named:
                return f"{named[1]}:{named[2]}", "python stack"
        return self._elsewhere(int(self._times[self._launches[place]]))

    def _elsewhere(self, instant: int) -> tuple[str | None, str | None]:
        """The source range that ran on any thread: a backward() that waits for the engine."""
        spans = self._source_spans
        running = spans[(self._marks.start[spans] <= instant) & (instant < self._marks.end[spans])]
        if not len(running):
            return None, None
        latest = int(running[np.argmax(self._marks.start[running])])
        return self._mark_names[latest].removeprefix(SOURCE), "enclosing call"


def _nesting(table: pl.DataFrame) -> Nesting:
    return Nesting.build(column(table, "ts"), column(table, "dur"), column(table, "tid"))


def _prefixed(names: list[str], *prefixes: str) -> npt.NDArray[np.bool_]:
    return np.array([name.startswith(prefixes) for name in names], dtype=bool)
