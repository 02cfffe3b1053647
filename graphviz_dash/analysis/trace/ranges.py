"""What the CPU threads of a trace were in: the outermost operators and annotated ranges, which say
why the GPU had nothing to run.

Annotations are record_function ranges, torch.compile's among them (compiled regions, cache look-ups
of Dynamo). Ranges of steps and of source lines are left out: they are around everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.arrays import Ints, column, encode
from graphviz_dash.analysis.trace.lanes import LaneSet, distinct_values, no_lanes
from graphviz_dash.model.marks import SOURCE, STEP

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

LEVELS: Final = 2
"""How many ranges deep lanes show: an operator in a compiled region, not those that it calls."""

_AROUND_ALL: Final = (STEP, "ProfilerStep#", SOURCE)
"""What the names of ranges begin with that say nothing of their own: steps, and the line of code
around each operator."""


@dataclass(frozen=True)
class CpuRanges:
    """All ranges of a trace by their begin, those of equal begins as the trace has them; arrays of
    shape (ranges,)."""

    pid: Ints
    """Process."""
    tid: Ints
    """Thread."""
    start: Ints
    """Begin, in ns."""
    end: Ints
    """End, in ns."""
    name: npt.NDArray[np.int32]
    """Index into ``names``."""
    names: tuple[str, ...]
    """The names of all ranges."""
    is_op: npt.NDArray[np.bool_]
    """Whether it is an operator, not an annotation."""
    longest: int
    """The length of the longest, in ns."""

    def outermost(self, begin: int, stop: int, least: float) -> LaneSet:
        """Those of at least ``least`` ns that touch [begin, stop] and have fewer than LEVELS such
        others around them, as lanes by (process, thread): the sub-lane is how deep a range lies in
        others, a slice's row its place in the arrays here."""
        first, last = np.searchsorted(self.start, [begin - self.longest, stop + 1])
        part = slice(int(first), int(last))
        seen = (self.end[part] >= begin) & (self.end[part] - self.start[part] >= least)
        return _lanes(self, part.start + np.flatnonzero(seen))


_NONE: Final = np.zeros(0, dtype=np.int64)
NO_RANGES: Final = CpuRanges(
    _NONE, _NONE, _NONE, _NONE, _NONE.astype(np.int32), (), _NONE.astype(np.bool_), 0
)
"""Of a trace without any."""


def cpu_ranges(trace: Trace) -> CpuRanges:
    """The ranges of ``trace``."""
    marks, ops = trace.annotations, trace.ops
    mark_codes, mark_names = _encoded(marks["name"].to_list())
    op_codes, op_names = encode(ops["name"])
    kept = np.array([not name.startswith(_AROUND_ALL) for name in mark_names], dtype=np.bool_)
    rows = np.flatnonzero(kept[mark_codes]) if len(mark_names) else np.zeros(0, dtype=np.int64)
    start = np.concatenate((column(marks, "ts")[rows], column(ops, "ts")))
    end = start + np.maximum(np.concatenate((column(marks, "dur")[rows], column(ops, "dur"))), 0)
    pid = np.concatenate((column(marks, "pid")[rows], column(ops, "pid")))
    tid = np.concatenate((column(marks, "tid")[rows], column(ops, "tid")))
    name = np.concatenate((mark_codes[rows], op_codes + len(mark_names))).astype(np.int32)
    is_op = np.arange(len(start)) >= len(rows)
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    return CpuRanges(
        pid=pid[order],
        tid=tid[order],
        start=start,
        end=end,
        name=name[order],
        names=(*mark_names, *op_names),
        is_op=is_op[order],
        longest=int((end - start).max()) if len(start) else 0,
    )


def _encoded(texts: list[str]) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Texts as codes of shape (texts,) and the text of each code."""
    places: dict[str, int] = {}
    codes = [places.setdefault(text, len(places)) for text in texts]
    return np.array(codes, dtype=np.int32), list(places)


def _lanes(ranges: CpuRanges, rows: Ints) -> LaneSet:
    """The lanes of ``rows``, ascending, as :meth:`CpuRanges.outermost` says."""
    if not len(rows):
        return no_lanes().cpu
    start, end = ranges.start, ranges.end
    _, places = distinct_values(ranges.tid[rows])
    code = np.zeros(rows[-1] + 1, dtype=np.int64)
    code[rows] = places
    left = rows[np.argsort(places, kind="stable")]
    longest = int(end[rows].max()) + 1
    parts = []
    for level in range(LEVELS):
        # As if threads followed one another in time: what reaches furthest so far is around.
        shift = code[left] * longest
        reach = np.maximum.accumulate(end[left] + shift)
        outside = np.append(True, (start[left] + shift)[1:] >= reach[:-1])
        parts += [
            (int(which), level, rows)
            for which, rows in _by_thread(left[outside[: len(left)]], code)
        ]
        left = left[~outside[: len(left)]]
        if not len(left):
            break
    parts.sort(key=lambda part: part[:2])
    packed = np.concatenate([rows for *_, rows in parts])
    first = np.array([rows[0] for *_, rows in parts], dtype=np.int64)
    return LaneSet(
        owner=ranges.pid[first],
        track=ranges.tid[first],
        sub=np.array([level for _, level, _ in parts], dtype=np.int64),
        bounds=_sums(np.array([len(rows) for *_, rows in parts], dtype=np.int64)),
        row=packed,
        start=start[packed],
        end=end[packed],
        busy=_sums(end[packed] - start[packed]),
    )


def _by_thread(rows: Ints, code: Ints) -> list[tuple[int, Ints]]:
    """Rows in the order of threads, split into those of each."""
    begins = np.flatnonzero(np.diff(code[rows], prepend=-1))
    ends = np.append(begins[1:], len(rows))
    return [
        (int(code[rows[begin]]), rows[begin:stop]) for begin, stop in zip(begins, ends, strict=True)
    ]


def _sums(sizes: Ints) -> Ints:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)))
