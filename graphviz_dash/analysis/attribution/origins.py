"""Context of a launch in a capture's trace: operator, module, phase and line."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from graphviz_dash.analysis.arrays import (
    Flags,
    Ints,
    combine_threads,
    encode,
    get_column,
    get_spans,
    get_threads,
)
from graphviz_dash.analysis.trace.intervals import NONE, Nesting, SelectedIntervals, get_values
from graphviz_dash.analysis.trace.lanes import link_launches
from graphviz_dash.model.frames import BACKWARD_FRAME, FRAME, LIBRARY_FRAME, MODULE_FRAME
from graphviz_dash.model.marks import MODULE, SOURCE

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

_OPTIMIZER: Final = ("Optimizer.step#", "Optimizer.zero_grad#")
_ENGINE: Final = "autograd::engine::"
_MODULE_CALL: Final = re.compile("^" + MODULE_FRAME)
_FORWARD: Final = re.compile(r"\): forward\w*$")


class OperatorInputs(NamedTuple):
    """Recorded inputs of one operator call, as JSON text of the trace. None if not recorded."""

    dims: str | None
    types: str | None
    """Data types of tensors, kinds of other inputs."""
    strides: str | None
    """Strides, in elements."""
    values: str | None
    """Values of inputs that are not tensors."""
    operator: str | None
    """Name of the operator. None without inputs."""
    call: int | None
    """Number of the call in its trace; None without inputs."""


NO_INPUTS: Final = OperatorInputs(None, None, None, None, None, None)


class TextColumn:
    """A categorical column at selected rows, as text."""

    def __init__(self, names: pl.Series, rows: Ints | None = None) -> None:
        codes, self.texts = encode(names)
        self.codes = codes if rows is None else codes[rows]

    def __getitem__(self, index: int) -> str:
        return self.texts[int(self.codes[index])]

    def get_texts(self, indices: Ints) -> list[str]:
        """Return the texts at many indices; three times faster than single lookups."""
        texts = self.texts
        return [texts[code] for code in self.codes[indices].tolist()]

    def match_rows(self, pattern: re.Pattern[str]) -> Flags:
        """Compute a mask of the rows whose name matches the pattern."""
        flags = np.array([bool(pattern.search(text)) for text in self.texts], dtype=bool)
        return flags[self.codes] if len(flags) else np.zeros(0, dtype=bool)


class CaptureTables:
    """Tables of a trace, built once on first use."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def ops(self) -> Ops:
        """Operators."""
        return Ops(self._trace.ops)

    @cached_property
    def marks(self) -> Marks:
        """record_function ranges."""
        return Marks(self._trace.annotations)

    @cached_property
    def frames(self) -> Frames:
        """Python frames."""
        return Frames(self._trace.python)


class Ops:
    """Operators of a capture, with links from backward to forward operators."""

    def __init__(self, ops: pl.DataFrame) -> None:
        self.names = TextColumn(ops["name"])
        self._inputs = [
            TextColumn(ops[f"input_{name}"]) for name in ("dims", "types", "strides", "values")
        ]
        self.external = get_column(ops, "external_id")
        self.sequence = get_column(ops, "sequence")
        forward_tid = get_column(ops, "forward_tid")
        self._has_forward = forward_tid > 0
        self._forward_thread = combine_threads(get_column(ops, "pid"), forward_tid)
        self.linked = self._has_forward & (self.sequence >= 0)
        engine = self.names.match_rows(re.compile("^" + _ENGINE))
        self.nesting = _build_nesting(ops)
        self.backward_ops = SelectedIntervals(self.nesting, engine | self.linked)
        self.numbered_ops = SelectedIntervals(self.nesting, self.sequence >= 0)
        self._with_dims = self.nesting.find_nearest(ops["input_dims"].is_not_null().to_numpy())
        self._paths: dict[int, tuple[str, ...]] = {NONE: ()}

    def get_path(self, op: int) -> tuple[str, ...]:
        """List the operators around ``op`` and its own name, outermost first."""
        pending = []
        while op not in self._paths:
            pending.append(op)
            op = int(self.nesting.parent[op])
        path = self._paths[op]
        for inner in reversed(pending):
            path = (*path, self.names[inner])
            self._paths[inner] = path
        return path

    def get_inputs(self, ops: Ints) -> list[OperatorInputs]:
        """Return the inputs of the innermost operator that has recorded ones."""
        rows = get_values(self._with_dims, ops)
        with_inputs = np.flatnonzero(rows != NONE)
        inputs = [NO_INPUTS] * len(ops)
        op_rows = rows[with_inputs]
        texts = [column.get_texts(op_rows) for column in self._inputs]
        names = self.names.get_texts(op_rows)
        rows_with_texts = zip(with_inputs.tolist(), op_rows.tolist(), names, *texts, strict=True)
        for index, call, name, dims, types, strides, values in rows_with_texts:
            inputs[index] = OperatorInputs(
                dims or None, types or None, strides or None, values or None, name, call
            )
        return inputs

    @cached_property
    def forward(self) -> Ints:
        """Forward operator of the backward that encloses each operator, or NONE.

        The last forward operator with the same sequence number created the autograd node.
        """
        rows = np.flatnonzero((self.sequence >= 0) & ~self._has_forward)
        rows = rows[np.lexsort((self.nesting.depth[rows], self.nesting.start[rows]))]
        makers = _SequenceIndex(self.nesting.thread[rows], self.sequence[rows], rows)
        linked_rows = np.flatnonzero(self.linked)
        idents = self._forward_thread[linked_rows]
        forward = np.full(len(self.sequence), NONE, dtype=np.int64)
        for ident in np.unique(idents):
            thread_ops = linked_rows[idents == ident]
            forward[thread_ops] = makers.find_rows(self.sequence[thread_ops])
        return get_values(forward, self.nesting.find_nearest(self.linked))


class _SequenceIndex:
    def __init__(self, thread: Ints, number: Ints, rows: Ints) -> None:
        order = np.lexsort((number, thread))
        thread, number, rows = thread[order], number[order], rows[order]
        changes = (thread[1:] != thread[:-1]) | (number[1:] != number[:-1])
        last = np.flatnonzero(np.append(changes, len(rows) > 0))
        thread, number, rows = thread[last], number[last], rows[last]
        bounds = np.flatnonzero(np.diff(thread)) + 1
        self._threads = list(zip(np.split(number, bounds), np.split(rows, bounds), strict=True))

    def find_rows(self, requested: Ints) -> Ints:
        """Find the rows with the numbers of one "Fwd thread id"; NONE if there is none.

        The id belongs to the thread with most of the numbers; none in case of a tie.
        """
        distinct, inverse = np.unique(requested, return_inverse=True)
        rows_by_thread = [_find_numbers(number, rows, distinct) for number, rows in self._threads]
        scores = [int(np.count_nonzero(rows != NONE)) for rows in rows_by_thread]
        best = max(scores, default=0)
        if scores.count(best) != 1:
            return np.full(len(requested), NONE, dtype=np.int64)
        return rows_by_thread[scores.index(best)][inverse.reshape(-1)]


def _find_numbers(number: Ints, rows: Ints, requested: Ints) -> Ints:
    """Find the row of each number in ``requested``; ``number`` is ascending."""
    if not len(number):
        return np.full(len(requested), NONE, dtype=np.int64)
    position = np.minimum(np.searchsorted(number, requested), len(number) - 1)
    return np.where(number[position] == requested, rows[position], NONE)


class Marks:
    """record_function ranges of a capture."""

    def __init__(self, marks: pl.DataFrame) -> None:
        self.nesting = _build_nesting(marks)
        self._names = marks["name"].to_list()
        self.is_optimizer = self._match_prefixes(*_OPTIMIZER)
        self.module_marks = SelectedIntervals(self.nesting, self._match_prefixes(MODULE))
        self.source_marks = SelectedIntervals(self.nesting, self._match_prefixes(SOURCE))
        self.role_marks = SelectedIntervals(
            self.nesting, self.module_marks.flags | self.is_optimizer
        )

    def get_name(self, row: int, prefix: str) -> str:
        """Return the name without its prefix."""
        return str(self._names[row]).removeprefix(prefix)

    def _match_prefixes(self, *prefixes: str) -> Flags:
        return np.array([name.startswith(prefixes) for name in self._names], dtype=bool)


class Frames:
    """Python frames of a capture."""

    def __init__(self, frames: pl.DataFrame) -> None:
        self.nesting = _build_nesting(frames, calls=True)
        self._names = TextColumn(frames["name"])
        library = self._names.match_rows(LIBRARY_FRAME)
        self.program_frames = SelectedIntervals(
            self.nesting, ~library & self._names.match_rows(FRAME)
        )
        self.backward_frames = SelectedIntervals(
            self.nesting, self._names.match_rows(BACKWARD_FRAME)
        )
        self.module_frames = SelectedIntervals(self.nesting, self._names.match_rows(_MODULE_CALL))
        self.model_frames = SelectedIntervals(self.nesting, self._find_model_frames())
        self._lines: dict[int, str | None] = {}

    def list_modules(self, row: int) -> tuple[str, ...]:
        """List the module calls around and at ``row``, outermost first, such as ``Linear_3``."""
        calls: list[str] = []
        while row != NONE:
            if self.module_frames.flags[row]:
                calls.append(self._names[row].removeprefix(MODULE_FRAME))
            row = int(self.nesting.parent[row])
        return tuple(reversed(calls))

    def _find_model_frames(self) -> Flags:
        """Compute a mask of model frames, excluding library layers and kernel wrappers.

        Model files contain the forward of a module that calls other modules.
        """
        is_module, is_program = self.module_frames.flags, self.program_frames.flags
        if not is_module.any():
            return np.zeros(len(is_program), dtype=np.bool_)
        parent, depth = self.nesting.parent, self.nesting.depth
        module = self.module_frames.nearest
        parent_modules = np.where(is_module, get_values(module, parent), NONE)
        callers = parent_modules[parent_modules != NONE]
        classes = np.array([_parse_class_name(text) for text in self._names.texts], dtype=np.str_)
        calls_modules = np.isin(classes, np.unique(classes[self._names.codes[callers]]))
        # The forward of a module is its first program frame.
        program_above = get_values(self.program_frames.nearest, parent)
        is_first_forward = self._names.match_rows(_FORWARD) & is_program & (module != NONE)
        forwards = np.flatnonzero(
            is_first_forward & (get_values(depth, program_above) < depth[module])
        )
        forwards = forwards[calls_modules[self._names.codes[module[forwards]]]]
        files = np.array([text.rpartition("(")[0] for text in self._names.texts], dtype=np.str_)
        in_model = np.isin(files, np.unique(files[self._names.codes[forwards]]))
        return np.asarray(is_program & (module != NONE) & in_model[self._names.codes])

    def get_line(self, row: int) -> str | None:
        """Return ``file:line`` of the function's first line."""
        code = int(self._names.codes[row])
        if code not in self._lines:
            match = FRAME.match(self._names.texts[code])
            self._lines[code] = f"{match[1]}:{match[2]}" if match else None
        return self._lines[code]


def _parse_class_name(frame: str) -> str:
    """Return the class name, such as ``Linear`` for ``nn.Module: Linear_3``; other frames
    unchanged."""
    return frame.rpartition("_")[0] if frame.startswith(MODULE_FRAME) else frame


def _build_nesting(table: pl.DataFrame, *, calls: bool = False) -> Nesting:
    start, duration = get_column(table, "ts"), get_column(table, "dur")
    return Nesting.build(start, duration, get_threads(table), calls=calls)


_RECORD: Final = "record_param_comms"


class NodeOrigin(msgspec.Struct, frozen=True, gc=False):
    """Origin of a node: its launch during capture. Fields are None if not recorded."""

    method: str
    """Matching method: "capture order", "capture order, gaps" (no one-to-one match) or "none"."""
    confidence: float
    """Confidence of the match, 0 to 1."""
    launch_call: str | None = None
    op: str | None = None
    """Innermost operator around the launch."""
    op_path: tuple[str, ...] = ()
    """All operators around the launch, outermost first."""
    input_dims: str | None = None
    """Input shapes of the innermost operator that has them, as JSON text of the trace."""
    input_types: str | None = None
    """Types of the same inputs, as JSON text of the trace."""
    input_strides: str | None = None
    """Strides of the same inputs, in elements."""
    input_values: str | None = None
    """Values of the same inputs that are not tensors."""
    call_operator: str | None = None
    """Operator with these inputs; it may enclose ``op``."""
    call: int | None = None
    """Number of that operator's call in its trace, shared by all nodes of the call."""
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
        starts = get_column(table, "ts")
        start = int(np.searchsorted(starts, first_ns - max_length, "left"))
        stop = int(np.searchsorted(starts, end, "right"))
        overlapping = table.slice(start, max(0, stop - start))
        _, ends = get_spans(overlapping)
        if ends.min(initial=first_ns) >= first_ns:
            return overlapping
        return overlapping.filter(ends >= first_ns)

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
        """Find the operator that the profiler names, else the innermost one."""
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
