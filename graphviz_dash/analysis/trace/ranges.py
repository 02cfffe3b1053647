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
from graphviz_dash.analysis.trace.lanes import LaneSet, pack_lanes
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
    """The outermost ranges of each thread, as lanes."""

    lanes: LaneSet
    """By (process, thread); the sub-lane is how deep a range lies in others. A slice's row is a
    place of ``name`` and ``is_op``."""
    name: npt.NDArray[np.int32]
    """Index into ``names``, shape (ranges,)."""
    names: tuple[str, ...]
    """The names of all ranges."""
    is_op: npt.NDArray[np.bool_]
    """Whether it is an operator, not an annotation, shape (ranges,)."""


def cpu_ranges(trace: Trace) -> CpuRanges:
    """The ranges of ``trace``, LEVELS deep."""
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
    outer = _outermost(start, end, tid)
    return CpuRanges(
        pack_lanes(pid[outer], tid[outer], outer, start[outer], end[outer]),
        name,
        (*mark_names, *op_names),
        is_op,
    )


def _encoded(texts: list[str]) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Texts as codes of shape (texts,) and the text of each code."""
    places: dict[str, int] = {}
    codes = [places.setdefault(text, len(places)) for text in texts]
    return np.array(codes, dtype=np.int32), list(places)


def _outermost(start: Ints, end: Ints, thread: Ints) -> Ints:
    """The intervals of each thread with fewer than LEVELS others around them, outer ones first at
    equal starts."""
    left = np.lexsort((-end, start, thread))
    found = []
    for _ in range(LEVELS):
        # As if threads followed one another in time: what reaches furthest so far is around.
        changes = np.diff(thread[left], prepend=thread[left[:1]]) != 0
        shift = np.cumsum(changes) * (int(end.max()) + 1 if len(end) else 1)
        begins, ends = start[left] + shift, end[left] + shift
        reach = np.concatenate(([-1], np.maximum.accumulate(ends)[:-1])) if len(left) else begins
        outside = begins >= reach
        found.append(left[outside])
        left = left[~outside]
    every = np.concatenate(found)
    return every[np.lexsort((-end[every], start[every]))]
