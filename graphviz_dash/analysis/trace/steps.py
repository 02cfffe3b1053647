"""Steps of a trace: start, end and GPU work.

GPU work runs after its launch call, and CPU and GPU clocks match only to about a microsecond. A
step's work is therefore found by its launch (``correlation``), not by its time. Work launched
before the trace belongs to no step, unless no steps are marked: then all work counts together.

Steps marked by graphviz-dash end in a synchronisation, so their work is done at their end. Other
steps may not: if the CPU runs ahead, a range only shows the launch of the work, and the step lasts
from the end of all work launched before it to its work's end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_spans, get_streams
from graphviz_dash.analysis.trace.api_calls import CallClass, find_captured, get_call_class
from graphviz_dash.analysis.trace.lanes import Links, link_trace_launches
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.trace import WHOLE_GRAPH_PATTERN

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.model.trace import Trace

PROFILER_STEP: Final = "ProfilerStep#"
_ENGINE: Final = re.compile(r"execute_(?:\d+_)?(?:context|diffusion|dummy|model)|step\[")
_NAMED: Final = re.compile(
    r"(?:(?:train(?:ing)?|test|val(?:idation)?|eval(?:uation)?|inference|forward)[ _.:/-]*)?"
    r"(?:step|iter|iteration)[ _.:#/=-]*\d*$",
    re.IGNORECASE,
)
_MIN_PERIODS: Final = 3
"""Minimum graph launch periods: fewer may match by chance, and the last has no end."""


class StepMethod(StrEnum):
    """Source of the step boundaries."""

    MARKED = "graphviz_dash.step ranges"
    PROFILER = "ProfilerStep ranges"
    ENGINE = "ranges of an inference engine"
    NAMED = "ranges named as steps"
    REPLAYS = "repeated graph launches"
    WHOLE = "the whole trace"


class StepRanges(Struct, frozen=True):
    """Steps in time order, as parallel arrays of shape (steps,).

    CPU times are in ns since the trace's origin.
    """

    index: Ints
    """Step number of its range; its position in time, from 0, without unique numbers."""
    start: Ints
    end: Ints
    method: StepMethod


def find_step_ranges(trace: Trace, links: Links) -> StepRanges:
    """Find the steps of ``trace``; ``links`` are its launches.

    The first available source is used: ranges ``graphviz_dash.step#i``; ``ProfilerStep#i``
    (operators in torch of 2021), which may not end synchronised; steps of an inference engine
    (``execute_...`` and ``step[...]`` of vLLM and SGLang); ranges named as steps, for example by
    NVTX; the period of repeated graph launches. Otherwise the trace is one range.
    """
    tables = (trace.annotations, trace.ops)
    for prefix, method in ((STEP, StepMethod.MARKED), (PROFILER_STEP, StepMethod.PROFILER)):
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
    """Test each name once."""
    codes, names = encode(table["name"])
    matching_codes = [code for code, name in enumerate(names) if pattern.match(name)]
    return np.flatnonzero(np.isin(codes, matching_codes))


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
    begin, end = get_spans(table, rows)
    names = table["name"].gather(rows).cast(str).to_list()
    index = np.array([int(name[len(prefix) :]) for name in names], dtype=np.int64)
    order = _order_distinct_marks(index, begin, end, get_column(table, "pid")[rows])
    if len(np.unique(index[order])) < len(order):
        # Two traces in one, or a profiler started twice: use the position in time.
        index[order] = np.arange(len(order))
    return StepRanges(index[order], begin[order], end[order], method)


def _order_distinct_marks(index: Ints, begin: Ints, end: Ints, process: Ints) -> Ints:
    """Drop the marks of the same step on another thread.

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
    rows = _find_rows(table, pattern)
    if not len(rows):
        return None
    begin, end = get_spans(table, rows)
    outermost = []
    last_end = np.iinfo(np.int64).min
    for row in np.lexsort((-end, begin)).tolist():
        if begin[row] >= last_end:
            outermost.append(row)
            last_end = end[row]
    return StepRanges(np.arange(len(outermost)), begin[outermost], end[outermost], method)


def _find_periods(trace: Trace, links: Links) -> StepRanges | None:
    """Omit the last period, whose end is unknown."""
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


__all__ = [
    "LAUNCHES",
    "PROFILER_STEP",
    "Step",
    "StepMethod",
    "compute_exclusive_ns",
    "compute_launch_times",
    "compute_wait_ends",
    "find_steps",
    "measure_span_union",
]

_KINDS: Final = ("kernel", "memcpy", "memset")
_BEFORE_TRACE: Final = -1
"""Launch time for launches before the trace started, whose first event is at 0."""
_MAX_LAUNCH_DELAY_NS: Final = 1_000_000
"""Upper limit of the delay from a launch to an idle GPU, including large graphs and profiling."""
_WHOLE_GRAPH: Final = re.compile(WHOLE_GRAPH_PATTERN)
LAUNCHES: Final = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)


class Step(Struct, frozen=True):
    """One step; times in ns since the trace's origin."""

    index: int
    """Step number of its range; its position in time, from 0, without unique numbers."""
    start: int
    """Start of the step on the CPU."""
    end: int
    span_start: int
    """Start of the step.

    This is ``start``, or the end of all earlier launched work if the CPU runs ahead, or the start
    of the step's work if the trace does not show that work.
    """
    span_end: int
    """End of the step: ``end``, or the later end of its work if the CPU runs ahead."""
    method: StepMethod
    gpu_rows: Ints
    """Rows of ``trace.gpu`` by start time, shape (n,)."""
    unlinked: int
    """Rows without a known launch, assigned to the step in which they started."""
    busy_ns: int
    """Union of their intervals over all streams within the span, at most its length."""
    work_ns: int
    """Sum of their durations."""
    kernels: int
    """Without graphs that the profiler traced as single units."""
    copies: int
    sets: int
    kernel_launches: int
    """On any CPU thread (backward has a separate one)."""
    graph_launches: int
    copy_calls: int
    """Copy and set calls on any CPU thread."""

    @property
    def duration_ns(self) -> int:
        """Length of the span."""
        return self.span_end - self.span_start

    @property
    def whole_graphs(self) -> int:
        """Graphs that the profiler traced as single units."""
        return len(self.gpu_rows) - self.kernels - self.copies - self.sets

    @property
    def launches(self) -> int:
        """Calls that submit GPU work."""
        return self.kernel_launches + self.graph_launches + self.copy_calls


def count_steps(traced_steps: tuple[Step, ...]) -> int:
    """Count the steps of a trace; 0 if it has no separate ones."""
    return sum(step.method is not StepMethod.WHOLE for step in traced_steps)


def find_steps(trace: Trace, links: Links | None = None) -> tuple[Step, ...]:
    """Find the steps of ``trace`` in time order, by :func:`find_step_ranges`; near-linear in its
    rows.

    ``links`` is computed if None.
    """
    links = links or link_trace_launches(trace)
    ranges = find_step_ranges(trace, links)
    start, end = ranges.start, ranges.end
    launch_starts, is_linked = compute_launch_times(trace, links.launch)
    owner = _find_owners(launch_starts, ranges)
    begin, stop = get_spans(trace.gpu)
    rows_of, order, bounds = _group_rows(owner, len(start))
    step = owner[order]
    latest_stop = np.minimum(stop, compute_wait_ends(trace, links.launch))
    span_start, span_end = _compute_spans(ranges, launch_starts, (begin, latest_stop), owner)
    kind = _encode_names(trace.gpu["kind"], _get_kind_index)
    kind[_encode_names(trace.gpu["name"], _is_whole_graph) == 1] = len(_KINDS)
    kinds = _count_kinds(step, kind[order], len(start), len(_KINDS))
    calls = _count_kinds(*_find_calls(trace.runtime, start, end), len(start), len(LAUNCHES))
    low, high = span_start[step], span_end[step]
    inside = compute_exclusive_ns(
        np.clip(begin[order], low, high), np.clip(stop[order], low, high), step
    )
    busy = _sum_between(inside, bounds)
    work = _sum_between((stop - begin)[order], bounds)
    unlinked_counts = _sum_between((~is_linked[order]).astype(np.int64), bounds)
    return tuple(
        Step(number, first, last, since_ns, until_ns, ranges.method, rows, *counts)
        for number, first, last, since_ns, until_ns, rows, counts in zip(
            ranges.index.tolist(),
            start.tolist(),
            end.tolist(),
            span_start.tolist(),
            span_end.tolist(),
            rows_of,
            np.column_stack((unlinked_counts, busy, work, kinds, calls)).tolist(),
            strict=True,
        )
    )


def compute_exclusive_ns(start: Ints, end: Ints, group: Ints | None = None) -> Ints:
    """Return the contribution of each interval to the union of all, shape (n,).

    ``start`` must ascend. The sum is the length of the union; overlapping time counts for the
    interval that started first. With ``group``, ascending numbers from 0, this holds within each
    group.
    """
    if not len(start):
        return np.zeros(0, dtype=np.int64)
    if group is not None and (groups := int(group[-1])):
        # Shift groups one after another in time, so that they do not overlap.
        low = int(start.min())
        stride = int(end.max()) - low + 1
        if (groups + 1) * stride >= 1 << 62:
            edges = np.flatnonzero(np.diff(group)) + 1
            parts = zip(np.split(start, edges), np.split(end, edges), strict=True)
            return np.concatenate([compute_exclusive_ns(*part) for part in parts])
        shift = group * stride - low
        start, end = start + shift, end + shift
    reach = np.maximum.accumulate(end)
    covered_until = np.concatenate((start[:1], reach[:-1]))
    return np.asarray(np.maximum(end - np.maximum(start, covered_until), 0), dtype=np.int64)


def measure_span_union(step: Step, start: Ints, end: Ints) -> int:
    """Return the length of the union of intervals, with ascending ``start``, within the step's
    span.
    """
    low, high = step.span_start, step.span_end
    return int(compute_exclusive_ns(np.clip(start, low, high), np.clip(end, low, high)).sum())


def _locate(instants: Ints, start: Ints, end: Ints) -> Ints:
    """Return the step around each instant, or -1; the later one if steps overlap."""
    if (instants[1:] >= instants[:-1]).all():
        # Look up the few steps among the many instants, not the other way around.
        bounds = np.searchsorted(instants, start)
        counts = np.diff(bounds, prepend=0, append=len(instants))
        step_index = np.repeat(np.arange(-1, len(start)), counts)
    else:
        step_index = np.searchsorted(start, instants, "right") - 1
    inside = (step_index >= 0) & (instants < end[np.maximum(step_index, 0)])
    return np.where(inside, step_index, -1)


def compute_launch_times(trace: Trace, launch: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the launch time of each GPU row in ns, and whether its call is known, shape (rows,).

    The launch time is -1 before the trace started, and the start of the row if the call is unknown.
    ``launch`` holds the row of each call, or -1.
    """
    is_linked = launch >= 0
    begin = get_column(trace.gpu, "ts")
    if not is_linked.any():
        return begin, is_linked
    launch_starts = np.where(
        is_linked, get_column(trace.runtime, "ts")[np.maximum(launch, 0)], begin
    )
    # Correlation ids ascend with calls, and a stream runs work in the order of calls.
    correlation = get_column(trace.gpu, "correlation")
    called_ids = get_column(trace.runtime, "correlation")
    first_call = called_ids[called_ids > 0].min(initial=np.iinfo(np.int64).max)
    is_early = ~is_linked & (correlation > 0) & (correlation < first_call)
    if is_early.any():
        stream = get_streams(trace.gpu)
        _, code = np.unique(stream, return_inverse=True)
        code = code.reshape(-1)
        first = np.full(int(code.max()) + 1, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, code[is_linked], begin[is_linked])
        launch_starts[is_early & (begin < first[code])] = _BEFORE_TRACE
    return launch_starts, is_linked


def compute_wait_ends(trace: Trace, launch: Ints) -> Ints:
    """Return the end of the first wait for the GPU after the launch of each GPU row, in ns.

    The work has ended by then, whatever the GPU's clock shows. Shape (rows,); the largest integer
    without such a wait. A wait is for one GPU, so waits count only if one process uses one GPU.
    """
    ends = np.full(len(launch), np.iinfo(np.int64).max)
    is_single = trace.gpu["device"].n_unique() == 1 == trace.runtime["pid"].n_unique()
    waits = np.flatnonzero(_encode_names(trace.runtime["name"], _is_device_wait) == 1)
    rows = np.flatnonzero(launch >= 0)
    if not is_single or not len(waits) or not len(rows):
        return ends
    start, stop = get_spans(trace.runtime)
    following = np.searchsorted(start[waits], stop[launch[rows]])
    has_wait = following < len(waits)
    ends[rows[has_wait]] = stop[waits[following[has_wait]]]
    return ends


def _is_device_wait(name: str) -> int:
    return int("DeviceSynchronize" in name)


def _find_owners(launched: Ints, ranges: StepRanges) -> Ints:
    if ranges.method is StepMethod.WHOLE:
        return np.zeros(len(launched), dtype=np.int64)
    return _locate(launched, ranges.start, ranges.end)


def _compute_spans(
    ranges: StepRanges, launched: Ints, ran: tuple[Ints, Ints], owner: Ints
) -> tuple[Ints, Ints]:
    """Return start and end of the span of each step, shape (steps,).

    ``ran`` holds start and end of the rows.
    """
    start, end = ranges.start, ranges.end
    run_begin, stop = ran
    step_ends = end.copy()
    has_owner = owner >= 0
    np.maximum.at(step_ends, owner[has_owner], stop[has_owner])
    is_settled = ranges.method in (StepMethod.MARKED, StepMethod.WHOLE) or (step_ends <= end).all()
    if is_settled:
        return start, end
    order = np.argsort(launched, kind="stable")
    latest_end = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], stop[order])))
    begin = np.maximum(start, latest_end[np.searchsorted(launched[order], start)])
    step_begins = np.full(len(start), np.iinfo(np.int64).max)
    np.minimum.at(step_begins, owner[has_owner], run_begin[has_owner])
    # The CPU had left the step long before the GPU started it: until then, the GPU ran work
    # launched before the trace started.
    is_delayed = (begin == start) & np.isin(np.arange(len(start)), owner[has_owner])
    begin = np.where(is_delayed & (step_begins - _MAX_LAUNCH_DELAY_NS > end), step_begins, begin)
    return begin, np.maximum(begin, step_ends)


def _find_calls(runtime: pl.DataFrame, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the step (or -1) and the index in LAUNCHES of each call that submits work."""
    kind = _encode_names(runtime["name"], _get_call_index)
    rows = np.flatnonzero(kind < len(LAUNCHES))
    call_times = get_column(runtime, "ts")[rows]
    outside = ~find_captured(runtime, call_times)
    return _locate(call_times[outside], start, end), kind[rows[outside]]


def _count_kinds(step: Ints, kind: Ints, steps_count: int, kinds_count: int) -> Ints:
    """Count rows, shape (steps, kinds), ignoring others and -1."""
    cell = (step + 1) * (kinds_count + 1) + kind
    counts = np.bincount(cell, minlength=(steps_count + 1) * (kinds_count + 1))
    return counts.reshape(steps_count + 1, kinds_count + 1)[1:, :kinds_count]


def _sum_between(values: Ints, bounds: Ints) -> Ints:
    return np.diff(np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))[bounds])


def _encode_names(names: pl.Series, code_of: Callable[[str], int]) -> Ints:
    """Compute each distinct name once."""
    codes, distinct = encode(names)
    return np.array([code_of(name) for name in distinct], dtype=np.int64)[codes]


def _get_kind_index(name: str) -> int:
    return _KINDS.index(name) if name in _KINDS else len(_KINDS)


def _is_whole_graph(name: str) -> int:
    return int(_WHOLE_GRAPH.match(name) is not None)


def _get_call_index(name: str) -> int:
    call_class = get_call_class(name)
    return LAUNCHES.index(call_class) if call_class in LAUNCHES else len(LAUNCHES)


def _group_rows(owner: Ints, count: int) -> tuple[list[Ints], Ints, Ints]:
    """Return the rows of each owner, all of them in sequence, and the bounds of each owner."""
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(count + 1))
    order = order[bounds[0] :]
    bounds = bounds - bounds[0]
    return [order[low:high] for low, high in pairwise(bounds.tolist())], order, bounds
