"""Start and end of the steps of a trace on the CPU, from recorded marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_column
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.lanes import Links
from graphviz_dash.model.marks import STEP

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

_PROFILER_STEP: Final = "ProfilerStep#"
_ENGINE: Final = re.compile(r"execute_(?:\d+_)?(?:context|diffusion|dummy|model)|step\[")
_NAMED: Final = re.compile(
    r"(?:(?:train(?:ing)?|test|val(?:idation)?|eval(?:uation)?|inference|forward)[ _.:/-]*)?"
    r"(?:step|iter|iteration)[ _.:#/=-]*\d*$",
    re.IGNORECASE,
)
_MIN_PERIODS: Final = 3
"""Minimum number of graph launch periods: fewer may match by chance, and the last has no end."""


class StepMethod(StrEnum):
    """Source of the step boundaries."""

    MARKED = "graphviz_dash.step ranges"
    PROFILER = "ProfilerStep ranges"
    ENGINE = "ranges of an inference engine"
    NAMED = "ranges named as steps"
    REPLAYS = "repeated graph launches"
    WHOLE = "the whole trace"


class StepRanges(Struct, frozen=True):
    """Steps in time order, as parallel arrays of shape (steps,)."""

    index: Ints
    """Step number of its range; its position in time, from 0, without unique numbers."""
    start: Ints
    """Start of each step on the CPU, in ns since the trace's origin."""
    end: Ints
    """End of each step on the CPU, in ns since the trace's origin."""
    method: StepMethod
    """Source of the step boundaries."""


def find_step_ranges(trace: Trace, links: Links) -> StepRanges:
    """Find the steps of ``trace``; ``links`` are its launches.

    The first available source is used: ranges ``graphviz_dash.step#i``; ``ProfilerStep#i``
    (operators in torch of 2021), which may not end synchronised; steps of an inference engine
    (``execute_...`` and ``step[...]`` of vLLM and SGLang); ranges named as steps, for example
    NVTX ranges; the period of repeated graph launches. Otherwise the trace is one range.
    """
    tables = (trace.annotations, trace.ops)
    for prefix, method in ((STEP, StepMethod.MARKED), (_PROFILER_STEP, StepMethod.PROFILER)):
        for table in tables:
            if (numbered_ranges := _find_numbered(trace, table, prefix, method)) is not None:
                return numbered_ranges
    for pattern, method in ((_ENGINE, StepMethod.ENGINE), (_NAMED, StepMethod.NAMED)):
        if (outermost := _find_outermost(trace.annotations, pattern, method)) is not None:
            return outermost
    if (replays := _find_periods(trace, links)) is not None:
        return replays
    zero = np.zeros(1, dtype=np.int64)
    return StepRanges(zero, zero, np.array([trace.info.end_ns], dtype=np.int64), StepMethod.WHOLE)


def _find_rows(table: pl.DataFrame, pattern: re.Pattern[str]) -> Ints:
    """Return the rows of ``table`` with names that match ``pattern``; each name is tested once."""
    names = table["name"].unique().drop_nulls().cast(str).to_list()
    matching_names = [name for name in names if pattern.match(name)]
    if not matching_names:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(table["name"].cast(str).is_in(matching_names).fill_null(False).to_numpy())


def _get_bounds(table: pl.DataFrame, rows: Ints) -> tuple[Ints, Ints]:
    begin = get_column(table, "ts")[rows]
    return begin, begin + np.maximum(get_column(table, "dur")[rows], 0)


def _find_numbered(
    trace: Trace, table: pl.DataFrame, prefix: str, method: StepMethod
) -> StepRanges | None:
    # Eighteen digits always fit into int64.
    rows = _find_rows(table, re.compile(rf"{re.escape(prefix)}[0-9]{{1,18}}$"))
    if not len(rows):
        return None
    # Tools repeat the marks for processes that launch nothing.
    launching = np.isin(get_column(table, "pid")[rows], trace.runtime["pid"].unique().to_numpy())
    rows = rows[launching] if launching.any() else rows
    begin, end = _get_bounds(table, rows)
    names = table["name"].gather(rows).cast(str).to_list()
    index = np.array([int(name[len(prefix) :]) for name in names], dtype=np.int64)
    order = _order_distinct_marks(index, begin, end, get_column(table, "pid")[rows])
    if len(np.unique(index[order])) < len(order):
        # Two traces in one, or a profiler started twice: use the position in time.
        index[order] = np.arange(len(order))
    return StepRanges(index[order], begin[order], end[order], method)


def _order_distinct_marks(index: Ints, begin: Ints, end: Ints, process: Ints) -> Ints:
    """Return the marks in time order, without those of the same step on another thread.

    These have the same number and process as an earlier mark, and start before it ends.
    """
    order = np.argsort(begin, kind="stable")
    latest_marks: dict[tuple[int, int], int] = {}
    distinct = []
    for row in order.tolist():
        key = (int(index[row]), int(process[row]))
        if key in latest_marks and begin[row] < latest_marks[key]:
            continue
        latest_marks[key] = int(end[row])
        distinct.append(row)
    return np.array(distinct, dtype=np.int64)


def _find_outermost(
    table: pl.DataFrame, pattern: re.Pattern[str], method: StepMethod
) -> StepRanges | None:
    """Return the matching ranges that start after all earlier ones have ended."""
    rows = _find_rows(table, pattern)
    if not len(rows):
        return None
    begin, end = _get_bounds(table, rows)
    outermost = []
    last_end = np.iinfo(np.int64).min
    for row in np.lexsort((-end, begin)).tolist():
        if begin[row] >= last_end:
            outermost.append(row)
            last_end = end[row]
    return StepRanges(np.arange(len(outermost)), begin[outermost], end[outermost], method)


def _find_periods(trace: Trace, links: Links) -> StepRanges | None:
    """Return periods between repeated graph launches, without the last one (unknown end)."""
    codes, names = encode(trace.runtime["name"])
    launch_rows = [
        at for at, name in enumerate(names) if get_call_class(name) is CallClass.GRAPH_LAUNCH
    ]
    launches = np.flatnonzero(np.isin(codes, launch_rows))
    if len(launches) < _MIN_PERIODS:
        return None
    work = [tuple(signature) for signature in _get_launched_names(trace, links, launches)]
    period = next(
        (
            length
            for length in range(1, len(work) // _MIN_PERIODS + 1)
            if work[length:] == work[:-length]
        ),
        None,
    )
    if period is None or not any(work):
        return None
    begins = get_column(trace.runtime, "ts")[launches[::period]]
    return StepRanges(np.arange(len(begins) - 1), begins[:-1], begins[1:], StepMethod.REPLAYS)


def _get_launched_names(trace: Trace, links: Links, launches: Ints) -> Iterator[list[int]]:
    """Yield the sorted name codes of each launch's work, because branches interleave."""
    names = trace.gpu["name"].to_physical().to_numpy()
    for launch in launches.tolist():
        yield sorted(names[links.get_launched_rows(launch)].tolist())
