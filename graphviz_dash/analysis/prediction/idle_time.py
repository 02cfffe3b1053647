"""Causes of GPU idle time in an eager step.

The GPU idles because the launch of the next work comes late, so the activity of the launching
threads until then explains the idle time. A graph only removes the launching.

Calls that wait or copy always count as waiting, and data loading without launches as data.
Otherwise, all time between two launches within ``LAUNCHING_NS`` of each other is launching. In
longer intervals, operators with launches count as launching, and the remaining time goes to the
events that ran in it. No launching is counted in a gap longer than the limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import (
    Flags,
    Floats,
    Ints,
    encode,
    get_column,
    get_spans,
    get_threads,
)
from graphviz_dash.analysis.prediction.eager_step import LAUNCHING_NS, EagerStep
from graphviz_dash.analysis.trace.api_calls import CallClass, get_call_class
from graphviz_dash.analysis.trace.lanes import LaneSet, link_trace_launches, merge_busy

if TYPE_CHECKING:
    import polars as pl

    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.trace import Trace

_MAX_CALL_OVERHEAD_NS: Final = 30_000
"""Maximum overhead of a call that waits or copies; longer calls wait for something."""
_DOMINANT_SHARE: Final = 0.8
"""Share of a gap from which an event names its cause."""


class IdleCause(StrEnum):
    """Cause of GPU idle time, in display order."""

    LAUNCHING = "launching"
    """Operators, launch calls, and the Python code between them: removed by a graph."""
    DATA = "waiting for data"
    WAITING = "copies and synchronisation"
    """Calls that wait, and copies that involve the CPU."""
    LOADING = "allocating and loading code"
    """Allocating calls, and launches and operators long enough to load their code."""
    PROFILER = "the profiler"
    GRAPH = "within graph launches"
    """Between the nodes of one launch."""
    OTHER = "other Python"
    """Other code of the program, including CPU operators."""
    UNKNOWN = "unknown"
    """A trace without CPU events does not show what the CPU did."""


class IdlePart(Struct, frozen=True):
    """One cause of idle time."""

    cause: IdleCause
    ns: float
    source: str | None
    """Operator, call, range or frame with most of it; None if unknown."""


class IdleTime(Struct, frozen=True):
    """Idle time of a typical traced step by cause, largest first, in ns."""

    parts: tuple[IdlePart, ...]
    launching: Floats
    """Launch-related idle time before each item of the first matching step, shape (items,)."""

    @property
    def total_ns(self) -> float:
        """Total idle time."""
        return sum(part.ns for part in self.parts)

    @property
    def remaining(self) -> tuple[IdlePart, ...]:
        """Parts that a graph does not remove."""
        return tuple(part for part in self.parts if part.cause is not IdleCause.LAUNCHING)

    @property
    def remaining_share(self) -> float:
        """Fraction of the idle time that a graph does not remove."""
        return sum(part.ns for part in self.remaining) / self.total_ns if self.parts else 0.0


_DATA: Final = re.compile(
    r"DataLoader|dataloader\.py|utils/data/|preprocess|image_processing|video_processing"
    r"|feature_extraction|tokeniz|decord|torchcodec|\bcv2\b|\bPIL/|librosa|soundfile|torchaudio"
    r"|(?:read|load|decode)_(?:video|image|audio|frame|jpeg)|image_utils|video_utils"
    r"|image_transforms|torchvision/(?:io|transforms)|/datasets/",
    re.I,
)
_PROFILER: Final = re.compile(r"torch/profiler/|autograd/profiler|^PyTorch Profiler|^profiler::")
_OPERATOR: Final = re.compile(r"::|Backward\d*$")
"""Operators, as opposed to program ranges that older traces list among them."""
_MARKS: Final = ("ProfilerStep#", "graphviz_dash.")
_SUBMITS: Final = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH, CallClass.COPY)


def analyse_idle_time(trace: Trace, step: EagerStep, *, mean: bool = False) -> IdleTime:
    """Find the causes of idle time in the steps with the typical work; near-linear in the trace's
    rows.

    Averages the half of them closest to the median length, or all with ``mean``.
    """
    cpu = _CpuActivity(trace)
    gaps = _Gaps(trace, {index: step.steps[index] for index in step.matching})
    divided_gaps = cpu.divide_gaps(gaps)
    selected_steps = list(step.matching) if mean else _select_middle_steps(step)
    is_within = np.isin(gaps.step, selected_steps)
    parts = [
        IdlePart(cause, float(ns.sum()) / len(selected_steps), cpu.find_source(cause, gaps, ns))
        for cause, ns in ((cause, np.where(is_within, ns, 0)) for cause, ns in divided_gaps.items())
        if ns.sum() > 0
    ]
    launch_idle = np.zeros(len(trace.gpu) + 1)
    launch_idle[gaps.row] = divided_gaps[IdleCause.LAUNCHING]
    return IdleTime(tuple(sorted(parts, key=lambda part: -part.ns)), launch_idle[step.rows])


def measure_launch_idle(trace: Trace, steps: Sequence[Step]) -> list[int]:
    """Measure the idle time of each step while the CPU launches, in ns.

    This is :attr:`IdleCause.LAUNCHING` of :func:`analyse_idle_time`, for any steps.
    """
    gaps = _Gaps(trace, dict(enumerate(steps)))
    launching = _CpuActivity(trace).divide_gaps(gaps)[IdleCause.LAUNCHING]
    sums = np.zeros(len(steps), dtype=np.int64)
    np.add.at(sums, gaps.step, launching)
    return [int(ns) for ns in sums]


def _select_middle_steps(step: EagerStep) -> list[int]:
    """Return the middle half of the steps by length.

    An outlier, such as a first step that loads its code, may idle longer than all others.
    """
    by_length = sorted(step.matching, key=lambda index: step.steps[index].duration_ns)
    outer = (len(by_length) + 1) // 4
    return by_length[outer : len(by_length) - outer]


class _Gaps:
    """GPU idle periods in steps, by their index; arrays of shape (gaps,), times in ns."""

    def __init__(self, trace: Trace, steps: Mapping[int, Step]) -> None:
        begin, end = get_spans(trace.gpu)
        busy_until = np.maximum.accumulate(end)
        busy_until = np.concatenate(([0], busy_until))
        launch = link_trace_launches(trace).launch
        rows = np.arange(len(begin), dtype=np.int64)
        starts = get_column(trace.runtime, "ts")
        launch_starts = np.where(launch >= 0, starts[launch], begin) if len(starts) else begin
        parts = []
        for index, traced_step in steps.items():
            first, last = np.searchsorted(begin, [traced_step.span_start, traced_step.span_end])
            free = np.maximum(busy_until[first : last + 1], traced_step.span_start)
            gap_ends = np.append(begin[first:last], traced_step.span_end)
            call_times = np.append(launch_starts[first:last], traced_step.span_end)
            step_indices = np.full(len(free), index)
            parts.append(
                (free, gap_ends, call_times, np.append(rows[first:last], -1), step_indices)
            )
        free, gap_ends, launch_starts, row, indices = (
            np.concatenate(series) for series in zip(*parts, strict=True)
        )
        idle = gap_ends > free
        _, first_rows = np.unique(launch, return_index=True)
        is_inner = launch >= 0
        is_inner[first_rows] = False
        self.step: Ints = indices[idle]
        self.begin: Ints = free[idle]
        self.end: Ints = gap_ends[idle]
        """Start of the next work, or end of the step."""
        self.row: Ints = row[idle]
        """Row of the next work in ``trace.gpu``, -1 for the end of the step."""
        self.is_inner: Flags = (self.row >= 0) & np.append(is_inner, False)[self.row]
        """True if the next work has the launch of earlier work, as the nodes of a graph do."""
        self.launched: Ints = np.minimum(launch_starts[idle], self.end)
        """Start of the call that launches this work."""


class _Events(Struct, frozen=True):
    """Name codes and times in ns of one table's rows on the launching threads, shape (rows,)."""

    names: list[str]
    code: Ints
    start: Ints
    end: Ints

    @classmethod
    def read(cls, table: pl.DataFrame, threads: Ints) -> _Events:
        code, names = encode(table["name"])
        on_threads = np.isin(get_threads(table), threads)
        start, end = get_spans(table, on_threads)
        return cls(names, np.asarray(code[on_threads], dtype=np.int64), start, end)

    def match_names(self, predicate: Callable[[str], bool]) -> Flags:
        flags = np.array([predicate(name) for name in self.names], dtype=np.bool_)
        return np.asarray(flags[self.code], dtype=np.bool_)

    def select(self, rows: Flags) -> _Events:
        return _Events(self.names, self.code[rows], self.start[rows], self.end[rows])

    def iterate_overlapping(self, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield overlap, full length and name."""
        touch = np.flatnonzero((self.start < end) & (self.end > begin))
        inside = np.minimum(self.end[touch], end) - np.maximum(self.start[touch], begin)
        length = self.end[touch] - self.start[touch]
        for row, ns, exclusive_ns in zip(
            touch.tolist(), inside.tolist(), length.tolist(), strict=True
        ):
            yield ns, exclusive_ns, self.names[self.code[row]]


def _merge_spans(parts: list[_Events]) -> LaneSet:
    start = np.concatenate([part.start for part in parts])
    end = np.concatenate([part.end for part in parts])
    return merge_busy(np.zeros(len(start), dtype=np.int64), start, end)


class _CpuActivity:
    def __init__(self, trace: Trace) -> None:
        self.is_recorded = any(
            table.height for table in (trace.runtime, trace.ops, trace.annotations, trace.python)
        )
        submits = np.flatnonzero(
            _Events.read(trace.runtime, get_threads(trace.runtime)).match_names(
                lambda name: get_call_class(name) in _SUBMITS
            )
        )
        marks = trace.annotations["name"].str.starts_with("ProfilerStep#").fill_null(False)
        threads = np.union1d(
            get_threads(trace.runtime)[submits],
            get_threads(trace.annotations.filter(marks)),
        )
        calls = _Events.read(trace.runtime, threads)
        ops, ranges, frames = (
            _Events.read(table, threads) for table in (trace.ops, trace.annotations, trace.python)
        )
        length = calls.end - calls.start
        launching = calls.match_names(lambda name: get_call_class(name) in _SUBMITS)
        waits = calls.match_names(lambda name: get_call_class(name) is CallClass.SYNCHRONISE)
        copies = calls.match_names(lambda name: get_call_class(name) is CallClass.COPY) & (
            length > _MAX_CALL_OVERHEAD_NS
        )
        loads = launching & ~copies & (length > LAUNCHING_NS)
        memory = calls.match_names(lambda name: get_call_class(name) is CallClass.MEMORY)
        self._all = (ops, ranges, frames)
        submit_times = calls.select(launching)
        begins = np.sort(submit_times.start)
        operators = ops.select(
            (_count_launches(ops, begins) > 0)
            & ops.match_names(lambda name: bool(_OPERATOR.search(name)))
        )
        quick = operators.end - operators.start <= LAUNCHING_NS
        self._submitted: Ints = np.sort(submit_times.end)
        self._parts: dict[IdleCause, list[_Events]] = {
            IdleCause.PROFILER: [
                events.select(events.match_names(lambda name: bool(_PROFILER.search(name))))
                for events in self._all
            ],
            IdleCause.WAITING: [calls.select(waits | copies)],
            IdleCause.DATA: [
                events.select(events.match_names(lambda name: bool(_DATA.search(name))))
                for events in self._all
            ],
            IdleCause.LOADING: [calls.select(memory | loads)],
            IdleCause.LAUNCHING: [submit_times, operators.select(quick)],
        }
        self._slow = operators.select(~quick)
        self._loading_only = [
            events.select(_count_launches(events, begins) == 0)
            for events in self._parts[IdleCause.DATA]
        ]

    def divide_gaps(self, gaps: _Gaps) -> dict[IdleCause, Ints]:
        """Return the time of each cause in each gap, shape (gaps,), in ns."""
        begin, end = gaps.begin, gaps.end
        gap_ns = end - begin
        if not self.is_recorded:
            return {IdleCause.LAUNCHING: np.zeros_like(gap_ns), IdleCause.UNKNOWN: gap_ns}
        waiting = _merge_spans(self._parts[IdleCause.WAITING])
        launch_index = np.searchsorted(self._submitted, gaps.launched, "right")
        last_submit_end = (
            np.concatenate((begin[:1], self._submitted))[launch_index] if len(begin) else begin
        )
        launch_interval = (
            gaps.launched
            - last_submit_end
            - waiting.measure_overlap(last_submit_end, gaps.launched)
        )
        is_long = (launch_interval > LAUNCHING_NS) | (gap_ns > LAUNCHING_NS)
        divided_gaps: dict[IdleCause, Ints] = {}
        parts: list[_Events] = []
        covered_ns = np.zeros(len(begin), dtype=np.int64)
        for cause, events in self._parts.items():
            parts = [*parts, *events]
            inside = _merge_spans(parts).measure_overlap(begin, end)
            divided_gaps[cause] = np.where(is_long, inside - covered_ns, 0)
            covered_ns = inside
        slow = _merge_spans([*parts, self._slow]).measure_overlap(begin, end) - covered_ns
        divided_gaps[IdleCause.LOADING] = divided_gaps[IdleCause.LOADING] + np.where(
            is_long, slow, 0
        )
        covered_ns = covered_ns + slow
        waited_ns = waiting.measure_overlap(begin, end)
        waits_too = [*self._parts[IdleCause.WAITING], *self._loading_only]
        loaded_ns = _merge_spans(waits_too).measure_overlap(begin, end) - waited_ns
        divided_gaps[IdleCause.DATA] = np.where(is_long, divided_gaps[IdleCause.DATA], loaded_ns)
        waited_ns = np.where(waited_ns > _MAX_CALL_OVERHEAD_NS, waited_ns, 0)
        divided_gaps[IdleCause.WAITING] = np.where(
            is_long, divided_gaps[IdleCause.WAITING], waited_ns
        )
        # From the launch call to the start of its work, without copies by the CPU.
        calling = end - gaps.launched - waiting.measure_overlap(gaps.launched, end)
        handover = np.where(
            is_long, np.minimum(calling, gap_ns - covered_ns), gap_ns - waited_ns - loaded_ns
        )
        launching = divided_gaps[IdleCause.LAUNCHING] + np.maximum(handover, 0)
        divided_gaps[IdleCause.LAUNCHING] = np.where(gap_ns > LAUNCHING_NS, 0, launching)
        divided_gaps = {cause: np.where(gaps.is_inner, 0, ns) for cause, ns in divided_gaps.items()}
        divided_gaps[IdleCause.GRAPH] = np.where(gaps.is_inner, gap_ns, 0)
        divided_gaps[IdleCause.OTHER] = gap_ns - sum(divided_gaps.values())
        return divided_gaps

    def find_source(self, cause: IdleCause, gaps: _Gaps, ns: Ints) -> str | None:
        if cause in (IdleCause.LAUNCHING, IdleCause.GRAPH, IdleCause.UNKNOWN):
            return None
        longest_row = int(np.argmax(ns))
        begin, end = int(gaps.begin[longest_row]), int(gaps.end[longest_row])
        if cause is not IdleCause.OTHER:
            slow = [self._slow] if cause is IdleCause.LOADING else []
            parts = [*self._parts[cause], *slow]
            return max(row for part in parts for row in part.iterate_overlapping(begin, end))[2]
        nearby_ranges = [
            (exclusive_ns, name)
            for events in self._all
            for overlap_ns, exclusive_ns, name in events.iterate_overlapping(
                begin, int(gaps.launched[longest_row])
            )
            if overlap_ns >= _DOMINANT_SHARE * int(ns[longest_row]) and not _has_other_cause(name)
        ]
        return min(nearby_ranges)[1] if nearby_ranges else None


def _count_launches(events: _Events, begins: Ints) -> Ints:
    return np.asarray(
        np.searchsorted(begins, events.end) - np.searchsorted(begins, events.start), dtype=np.int64
    )


def _has_other_cause(name: str) -> bool:
    return name.startswith(_MARKS) or bool(_DATA.search(name) or _PROFILER.search(name))
