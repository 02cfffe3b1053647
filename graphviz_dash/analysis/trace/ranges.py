"""Outermost operators and annotated ranges on CPU threads, which explain an idle GPU.

Annotations are record_function ranges, including those of torch.compile (compiled regions, Dynamo
cache look-ups). Ranges of steps and source lines enclose everything and are excluded.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, combine_threads, compute_offsets, encode, get_column
from graphviz_dash.analysis.trace.lanes import LaneSet, create_empty_lanes, find_distinct_values
from graphviz_dash.model.marks import SOURCE, STEP
from graphviz_dash.model.trace import Trace

LEVELS: Final = 2
"""Depth of range lanes: an operator in a compiled region, but not the operators that it calls."""

_AROUND_ALL: Final = (STEP, "ProfilerStep#", SOURCE)
"""Prefixes of uninformative ranges: steps, and the source line around each operator."""


class CpuRanges(Struct, frozen=True):
    """All ranges of a trace, annotations before operators, each by start.

    Arrays of shape (ranges,), times in ns.
    """

    annotations: int
    """Number of annotations."""

    pid: Ints
    tid: Ints
    start: Ints
    end: Ints
    name: npt.NDArray[np.int32]
    """Index into ``names``."""
    names: tuple[str, ...]
    max_length: int

    def find_outermost(self, begin: int, stop: int, min_length: float) -> LaneSet:
        """Return ranges of ``min_length`` ns or more that touch [begin, stop], as lanes by thread.

        Only ranges nested in fewer than LEVELS others are included. The sub-lane is the nesting
        depth; a slice's row is its index in these arrays.
        """
        outermost = []
        for part in (slice(0, self.annotations), slice(self.annotations, len(self.start))):
            at = np.searchsorted(self.start[part], [begin - self.max_length, stop + 1])
            first, last = (part.start + at).tolist()
            is_long = self.end[first:last] - self.start[first:last] >= min_length
            outermost.append(first + np.flatnonzero(is_long & (self.end[first:last] >= begin)))
        rows = np.concatenate(outermost)
        return _build_lanes(self, rows[np.argsort(self.start[rows], kind="stable")])


_NONE: Final = np.zeros(0, dtype=np.int64)
NO_RANGES: Final = CpuRanges(0, _NONE, _NONE, _NONE, _NONE, _NONE.astype(np.int32), (), 0)


def build_cpu_ranges(trace: Trace) -> CpuRanges:
    """Build the ranges of ``trace``."""
    marks, ops = trace.annotations, trace.ops
    mark_codes, mark_names = encode(marks["name"])
    op_codes, op_names = encode(ops["name"])
    is_included = np.array(
        [not name.startswith(_AROUND_ALL) for name in mark_names], dtype=np.bool_
    )
    rows = (
        np.flatnonzero(is_included[mark_codes]) if len(mark_names) else np.zeros(0, dtype=np.int64)
    )
    start = np.concatenate((get_column(marks, "ts")[rows], get_column(ops, "ts")))
    end = start + np.maximum(
        np.concatenate((get_column(marks, "dur")[rows], get_column(ops, "dur"))), 0
    )
    pid = np.concatenate((get_column(marks, "pid")[rows], get_column(ops, "pid")))
    tid = np.concatenate((get_column(marks, "tid")[rows], get_column(ops, "tid")))
    name = np.concatenate((mark_codes[rows], op_codes + len(mark_names))).astype(np.int32)
    return CpuRanges(
        annotations=len(rows),
        pid=pid,
        tid=tid,
        start=start,
        end=end,
        name=name,
        names=(*mark_names, *op_names),
        max_length=int((end - start).max()) if len(start) else 0,
    )


def _build_lanes(ranges: CpuRanges, rows: Ints) -> LaneSet:
    if not len(rows):
        return create_empty_lanes().cpu
    start, end = ranges.start, ranges.end
    _, positions = find_distinct_values(combine_threads(ranges.pid[rows], ranges.tid[rows]))
    code = np.zeros(int(rows.max()) + 1, dtype=np.int64)
    code[rows] = positions
    remaining = rows[np.argsort(positions, kind="stable")]
    max_end = int(end[rows].max()) + 1
    parts = []
    for level in range(LEVELS):
        # Shift threads one after another in time: the range that reaches furthest so far is the
        # enclosing one.
        shift = code[remaining] * max_end
        end_so_far = np.maximum.accumulate(end[remaining] + shift)
        outside = np.append(True, (start[remaining] + shift)[1:] >= end_so_far[:-1])
        parts += [
            (int(thread_code), level, rows)
            for thread_code, rows in _split_by_thread(remaining[outside[: len(remaining)]], code)
        ]
        remaining = remaining[~outside[: len(remaining)]]
        if not len(remaining):
            break
    parts.sort(key=lambda part: part[:2])
    packed_rows = np.concatenate([rows for *_, rows in parts])
    first = np.array([rows[0] for *_, rows in parts], dtype=np.int64)
    return LaneSet(
        owner=ranges.pid[first],
        track=ranges.tid[first],
        sub=np.array([level for _, level, _ in parts], dtype=np.int64),
        bounds=compute_offsets(np.array([len(rows) for *_, rows in parts], dtype=np.int64)),
        row=packed_rows,
        start=start[packed_rows],
        end=end[packed_rows],
        busy=compute_offsets(end[packed_rows] - start[packed_rows]),
    )


def _split_by_thread(rows: Ints, code: Ints) -> list[tuple[int, Ints]]:
    begins = np.flatnonzero(np.diff(code[rows], prepend=-1))
    ends = np.append(begins[1:], len(rows))
    return [
        (int(code[rows[begin]]), rows[begin:stop]) for begin, stop in zip(begins, ends, strict=True)
    ]
