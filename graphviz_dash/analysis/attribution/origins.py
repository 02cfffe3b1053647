"""Context of a launch in a capture's trace: operator, module, phase and line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from graphviz_dash.analysis.arrays import Ints, get_column, get_threads
from graphviz_dash.analysis.attribution.capture_tables import CaptureTables, TextColumn
from graphviz_dash.analysis.trace.intervals import NONE, SelectedIntervals, get_values
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.model.marks import MODULE, SOURCE

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace


_RECORD: Final = "record_param_comms"


class NodeOrigin(msgspec.Struct, frozen=True, gc=False):
    """Origin of a node: its launch during capture. Fields are None if not recorded."""

    method: str
    """Matching method: "capture order", "capture order, gaps" (no one-to-one match) or "none"."""
    confidence: float
    """Confidence of the match, 0 to 1."""
    launch_call: str | None = None
    """Name of the runtime or driver call."""
    op: str | None = None
    """Innermost operator around the launch."""
    op_path: tuple[str, ...] = ()
    """All operators around the launch, outermost first."""
    input_dims: str | None = None
    """Input shapes of the innermost operator that has them, as JSON text of the trace."""
    input_types: str | None = None
    """Types of the same inputs, as JSON text of the trace."""
    input_strides: str | None = None
    """Strides of the same inputs in elements, as JSON text of the trace."""
    input_values: str | None = None
    """Values of the same inputs that are not tensors, as JSON text of the trace."""
    call_operator: str | None = None
    """Operator with these inputs; it may enclose ``op``."""
    call: int | None = None
    """Number of the call of that operator in its trace, shared by all nodes of the call."""
    phase: str = "other"
    """First match of these rules.

    backward: an autograd engine operator, or an operator with a recorded forward operator.
    optimizer: inside Optimizer.step or zero_grad, outside any nested module forward. backward:
    inside a Python call of backward or grad. forward: inside a module's forward, or in an operator
    with an autograd number. other: none of these.
    """
    module: str | None = None
    """Dotted path of the innermost module; for backward, that of the forward operator.

    Without collector ranges, the module calls of the Python stack (``Block_0.Linear_3``).
    """
    source: str | None = None
    """``file:line`` of the launch."""
    source_method: str | None = None
    """Source of the line.

    "range": the line that called into torch. "forward op": the line of the forward operator.
    "python stack": the first line of the innermost model function if module frames identify one,
    else of the innermost function outside torch. "enclosing call": a call on another thread, such
    as backward().
    """
    reason: str | None = None
    """Reason for a missing operator or line; None if neither is missing."""


def select_near(trace: Trace, begin: int, end: int, margin: int | None = None) -> Trace:
    """Restrict ``trace`` to a step and ``margin`` ns before it (default: twice its length).

    Avoids gigabytes for a long trace.
    """
    first_ns = begin - (2 * (end - begin) if margin is None else margin)

    def filter_table(table: pl.DataFrame) -> pl.DataFrame:
        # Tables are sorted by start, so only few rows need a check.
        max_length = int(table["dur"].max() or 0)  # type: ignore[arg-type]  # a column of integers
        start = table["ts"].search_sorted(first_ns - max_length, "left")
        stop = table["ts"].search_sorted(end, "right")
        overlapping = table.slice(start, max(0, stop - start))
        return overlapping.filter(overlapping["ts"] + overlapping["dur"].fill_null(0) >= first_ns)

    return replace(
        trace,
        ops=filter_table(trace.ops),
        annotations=filter_table(trace.annotations),
        python=filter_table(trace.python),
    )


class OriginResolver:
    """Origins of the launches at the given rows of the capture's runtime table."""

    def __init__(self, capture: Trace, launches: Ints, tables: CaptureTables | None = None) -> None:
        tables = tables or CaptureTables(capture)
        runtime = capture.runtime
        self._at = get_column(runtime, "ts")[launches]
        self._on = get_threads(runtime)[launches]
        calls = TextColumn(runtime["name"], launches)
        self._ops, self._marks, self._frames = tables.ops, tables.marks, tables.frames
        self._op = self._find_innermost_ops(get_column(runtime, "external_id")[launches])
        self._forward = get_values(self._ops.forward, self._op)
        self._engine = get_values(self._ops.backward_ops.nearest, self._op)
        self._module = self._find_modules()
        self._module_frame = self._find_module_frames()
        self._phase = self._determine_phases()
        self._sources = self._find_sources()
        self._inputs = self._ops.get_inputs(self._op)
        # Launches are looked up one by one; lists are faster than arrays for that.
        self._op_of, self._module_of = self._op.tolist(), self._module.tolist()
        self._call_of = calls.get_texts(np.arange(len(launches)))

    def get_origin(self, launch: int, method: str, confidence: float) -> NodeOrigin:
        """Return the origin of launch number ``launch``."""
        op = self._op_of[launch]
        source, source_method = self._sources[launch]
        reason = None
        if op == NONE:
            reason = "launched outside any operator"
        elif source is None:
            reason = "no collector range or Python frame gives a line"
        path = self._ops.get_path(op)
        # Skip the record of a collective's parameters inside the calling operator.
        if path and path[-1] == _RECORD and len(path) > 1:
            path = path[:-1]
        inputs = self._inputs[launch]
        module = self._module_of[launch]
        return NodeOrigin(
            method=method,
            confidence=confidence,
            launch_call=self._call_of[launch],
            op=path[-1] if path else None,
            op_path=path,
            input_dims=inputs.dims,
            input_types=inputs.types,
            input_strides=inputs.strides,
            input_values=inputs.values,
            call_operator=inputs.operator,
            call=inputs.call,
            phase=self._phase[launch],
            module=self._get_module_name(module, int(self._module_frame[launch])),
            source=source,
            source_method=source_method,
            reason=reason,
        )

    def _find_innermost_ops(self, external: Ints) -> Ints:
        """Find the operator that the profiler names, else the innermost one around each launch."""
        # Zero means no id.
        linked_rows = link_launches(
            np.where(external > 0, external, NONE), self._ops.external
        ).launch
        return np.where(
            linked_rows != NONE, linked_rows, self._ops.nesting.find_around(self._at, self._on)
        )

    def _restrict_to_engine(self, marks: Ints) -> Ints:
        """Clear ``marks`` that enclose the whole backward of a launch with a forward operator."""
        engine_start = get_values(self._ops.nesting.start, self._engine)
        outside = (self._forward != NONE) & (
            get_values(self._marks.nesting.start, marks) < engine_start
        )
        return np.where(outside, NONE, marks)

    def _find_modules(self) -> Ints:
        modules = self._marks.module_marks
        marks = self._restrict_to_engine(modules.find_around(self._at, self._on))
        return np.where(marks != NONE, marks, self._find_in_forward(modules))

    def _find_module_frames(self) -> Ints:
        modules = self._frames.module_frames
        frames, forward = modules.find_around(self._at, self._on), self._find_in_forward(modules)
        return np.where(forward != NONE, forward, frames)

    def _get_module_name(self, mark: int, frame: int) -> str | None:
        if mark != NONE:
            return self._marks.get_name(mark, MODULE)
        return ".".join(self._frames.list_modules(frame)) or None

    def _find_in_forward(self, requested: SelectedIntervals) -> Ints:
        has_forward = self._forward != NONE
        instants = get_values(self._ops.nesting.start, self._forward)
        threads = get_values(self._ops.nesting.thread, self._forward)
        return np.where(has_forward, requested.find_around(instants, threads), NONE)

    def _determine_phases(self) -> list[str]:
        marks = self._marks
        role = marks.role_marks.find_around(self._at, self._on)
        in_role = role != NONE
        in_optimizer = in_role & (get_values(marks.is_optimizer.astype(np.int64), role) == 1)
        in_backward_call = self._frames.backward_frames.find_around(self._at, self._on) != NONE
        is_numbered = get_values(self._ops.numbered_ops.nearest, self._op) != NONE
        in_forward = in_role | is_numbered | (self._module_frame != NONE)
        rules = [self._engine != NONE, in_optimizer, in_backward_call, in_forward]
        phases = np.select(rules, [0, 1, 2, 3], default=4)
        words = ("backward", "optimizer", "backward", "forward", "other")
        return [words[rule] for rule in phases.tolist()]

    def _find_sources(self) -> list[tuple[str | None, str | None]]:
        marks, frames = self._marks, self._frames
        program_marks = marks.source_marks.find_around(self._at, self._on)
        program_frame = frames.program_frames.find_around(self._at, self._on)
        # With a forward operator, the line that called backward is not informative.
        program_frame = np.where(self._forward != NONE, NONE, program_frame)
        model_frame = frames.model_frames.find_around(self._at, self._on)
        model_frame = np.where(self._forward != NONE, NONE, model_frame)
        methods: list[tuple[Ints, bool, str]] = [
            (self._restrict_to_engine(program_marks), True, "range"),
            (self._find_in_forward(marks.source_marks), True, "forward op"),
            (self._find_in_forward(frames.model_frames), False, "forward op"),
            (self._find_in_forward(frames.program_frames), False, "forward op"),
            (model_frame, False, "python stack"),
            (program_frame, False, "python stack"),
            (_find_on_any_thread(marks.source_marks, self._at), True, "enclosing call"),
            (_find_on_any_thread(frames.program_frames, self._at), False, "enclosing call"),
        ]
        sources: list[tuple[str | None, str | None]] = [(None, None)] * len(self._at)
        open_launches = np.ones(len(self._at), dtype=np.bool_)
        for rows, is_mark, method in methods:
            launches = np.flatnonzero(open_launches & (rows != NONE))
            open_launches[launches] = False
            for launch, row in zip(launches.tolist(), rows[launches].tolist(), strict=True):
                line = marks.get_name(row, SOURCE) if is_mark else frames.get_line(row)
                sources[launch] = (line, method)
        return sources


def _find_on_any_thread(requested: SelectedIntervals, instants: Ints) -> Ints:
    """Find the wanted interval at each instant on any thread; the latest start wins."""
    latest_rows = np.full(len(instants), NONE, dtype=np.int64)
    latest_start = np.full(len(instants), NONE, dtype=np.int64)
    for thread in np.unique(requested.nesting.thread[requested.flags]):
        threads = np.full(len(instants), thread, dtype=np.int64)
        rows = requested.find_around(instants, threads)
        starts = get_values(requested.nesting.start, rows)
        is_later = (rows != NONE) & (starts > latest_start)
        latest_rows, latest_start = (
            np.where(is_later, rows, latest_rows),
            np.where(is_later, starts, latest_start),
        )
    return latest_rows
