"""Lookup tables of a capture's trace for the context of launches."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from graphviz_dash.analysis.arrays import (
    Flags,
    Ints,
    combine_threads,
    encode,
    get_column,
    get_threads,
)
from graphviz_dash.analysis.trace.intervals import NONE, Nesting, SelectedIntervals, get_values
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
    """Shapes."""
    types: str | None
    """Data types of tensors, kinds of other inputs."""
    strides: str | None
    """Strides, in elements."""
    values: str | None
    """Values of inputs that are not tensors."""
    operator: str | None
    """Name of the operator. None without inputs."""
    call: int | None
    """Number of the call in its trace. None without inputs."""


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
        self.nesting = _build_nesting(ops)
        self.names = TextColumn(ops["name"])
        self.external = get_column(ops, "external_id")
        self.sequence = get_column(ops, "sequence")
        forward_tid = get_column(ops, "forward_tid")
        self._has_forward = forward_tid > 0
        self._forward_thread = combine_threads(get_column(ops, "pid"), forward_tid)
        self.linked = self._has_forward & (self.sequence >= 0)
        engine = self.names.match_rows(re.compile("^" + _ENGINE))
        self.backward_ops = SelectedIntervals(self.nesting, engine | self.linked)
        self.numbered_ops = SelectedIntervals(self.nesting, self.sequence >= 0)
        self._inputs = [
            TextColumn(ops[f"input_{name}"]) for name in ("dims", "types", "strides", "values")
        ]
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
    """Last row with each sequence number, by counting thread."""

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
