"""Completeness of a trace, and the claims that it supports.

Profilers lose records, tools merge traces of several ranks, and files are cut. Counts of the
remaining rows are still exact, but conclusions from them are not. Every conclusion therefore asks
:class:`TraceIntegrity`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Flags, Ints, encode, get_column
from graphviz_dash.analysis.trace.api_calls import CallClass, find_captured, get_call_class
from graphviz_dash.analysis.trace.lanes import Links, link_trace_launches
from graphviz_dash.analysis.trace.lost_calls import (
    StrayKernels,
    find_incomplete_launches,
    measure_delay,
)
from graphviz_dash.analysis.trace.steps import (
    Step,
    StepMethod,
    compute_launch_times,
    compute_wait_ends,
    find_steps,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.trace import Trace
from graphviz_dash.units import format_count, format_ns, pluralize

_Launch: TypeAlias = tuple[int, bytes]
"""Row of a launch, and the sorted name codes of its work."""
_MIN_LAUNCHES: Final = 3
"""Minimum launches of a graph, most of which run the same work."""
_MIN_SHARE: Final = 0.5
"""Minimum share of a replay's work; with less, it may be another graph."""


def find_partial_replays(trace: Trace, links: Links, steps: Sequence[Step]) -> Ints:
    """Find the runtime rows of launches that lack work of most other launches of their graph.

    Launches are of the same graph if they have its id, or else the same place in their steps. A
    server may replay another graph there, so in the second case the work must be unique. Bodies of
    conditional nodes are not linked to launches and do not matter.
    """
    codes, names = encode(trace.runtime["name"])
    is_graph = [get_call_class(name) is CallClass.GRAPH_LAUNCH for name in names]
    if not any(is_graph):
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(np.array(is_graph, dtype=np.bool_)[codes])
    name_codes = trace.gpu["name"].to_physical().to_numpy().astype(np.int64)
    graph_ids = get_column(trace.gpu, "graph_id")
    by_id: defaultdict[int, list[_Launch]] = defaultdict(list)
    by_row: dict[int, bytes] = {}
    for row in rows.tolist():
        work = links.get_launched_rows(row)
        by_row[row] = np.sort(name_codes[work]).tobytes()
        if len(work) and (ident := int(graph_ids[work].max())) >= 0:
            by_id[ident].append((row, by_row[row]))
    if by_id:
        partial = {row for launches in by_id.values() for row in _find_incomplete(launches)}
    else:
        frequency = Counter(by_row.values())
        starts = get_column(trace.runtime, "ts")[rows]
        partial = {
            row
            for launches in _group_by_place(rows, starts, by_row, steps)
            for row in _find_incomplete(launches)
            if frequency[by_row[row]] == 1
        }
    return np.array(sorted(partial), dtype=np.int64)


def _group_by_place(
    rows: Ints, starts: Ints, by_row: dict[int, bytes], steps: Sequence[Step]
) -> Iterator[list[_Launch]]:
    groups: defaultdict[tuple[int, int], list[_Launch]] = defaultdict(list)
    for step in steps:
        first, last = np.searchsorted(starts, [step.start, step.end]).tolist()
        for position, row in enumerate(rows[first:last].tolist()):
            groups[last - first, position].append((row, by_row[row]))
    yield from groups.values()


def _find_incomplete(launches: list[_Launch]) -> list[int]:
    typical, count = Counter(work for _, work in launches).most_common(1)[0]
    if len(launches) < _MIN_LAUNCHES or 2 * count <= len(launches):
        return []
    complete = np.frombuffer(typical, np.int64)
    return [row for row, work in launches if _is_part(np.frombuffer(work, np.int64), complete)]


def _is_part(work: Ints, complete: Ints) -> bool:
    if not _MIN_SHARE * len(complete) <= len(work) < len(complete):
        return False
    return Counter(work.tolist()) <= Counter(complete.tolist())


_MAX_LOST_SHARE: Final = 0.05
"""Maximum share of lost records in an unmarked trace whose totals are predicted, and of calls lost
in addition to GPU records.
"""
_MAX_CLOCK_SHARE: Final = 0.1
"""Maximum clock error for busy and launch-bound time, relative to the median step."""
_MIN_DRIFT: Final = 0.01
"""Minimum drift of the clocks for which predictions allow."""
_MAX_OVERLAP_SHARE: Final = 0.1
"""Maximum overlap of a marked step with earlier ones, relative to the median mark."""
_STEPS_IF_CUT: Final = 3
"""Minimum complete steps with the same work in a file that was cut."""
_STEPS_IF_LOST: Final = 2
"""The same if records were lost in steps other than the first and the last."""


class Claim(StrEnum):
    """A kind of conclusion from a trace."""

    STEPS = "values per step"
    COUNTS = "GPU work of the steps"
    """Counts of the complete steps as they are."""
    LAUNCHES = "launch counts of the steps"
    BUSY = "GPU busy time of the steps"
    WORK = "GPU work of a typical step"
    """Basis of predictions and speedups."""
    LAUNCH_BOUND = "launch-bound time"
    DATA_DEPENDENCE = "data-dependent steps"


class TraceIntegrity(Struct, frozen=True):
    """Completeness of a trace."""

    launches: int
    """Kernel and graph launches outside captures."""
    launches_with_work: int
    """Those whose GPU work is in the trace."""
    kernels: int
    kernels_with_launch: int
    """Kernels whose launch is in the trace, or precedes it."""
    steps: int
    """Number of marked steps; 0 if the trace marks none."""
    complete_steps: tuple[int, ...]
    """Steps whose launches all have GPU work, and which lack no launches."""
    launched_steps: tuple[int, ...]
    """Steps whose kernels all have a launch."""
    empty_steps: int
    """Steps without any work, call or operator."""
    incomplete_launches: int
    """Steps that lack work of others that ran the same operators."""
    overlapping_steps: int
    """Steps that start before an earlier one ends."""
    instant_kernels: int
    """Number of kernels that last 0 ns."""
    unknown_launches: int
    """Kernels whose call is not known as a launch, as of out-of-tree backends."""
    is_cut: bool
    """True if the file ends early or is damaged."""
    processes: int
    """Processes that launch work."""
    devices: int
    """GPUs with kernels."""
    shared_ids: int
    """Launches that share their correlation id with another."""
    partial_replays: int
    """Graph launches that lack work of others of the same graph."""
    clock_error_ns: int
    """Longest time in ns by which work starts before its launch or ends after a wait for it."""
    has_calls: bool
    """API calls or operators of the CPU."""
    step_ns: int
    """Median length of the steps, or length of the trace, in ns."""

    @property
    def lost_work(self) -> int:
        """Launches without GPU work."""
        return self.launches - self.launches_with_work

    @property
    def lost_launches(self) -> int:
        """Kernels without a launch."""
        return self.kernels - self.kernels_with_launch

    @property
    def clock_drift(self) -> float:
        """Relative error of GPU durations if drift explains the clock error; 0 if negligible."""
        drift = self.clock_error_ns / max(self.step_ns * max(self.steps, 1), 1)
        return drift if drift > _MIN_DRIFT else 0.0

    @property
    def has_lost_records(self) -> bool:
        """True if the steps lack GPU work, launches or all events."""
        return self.lost_work + self.empty_steps + self.incomplete_launches > 0

    @property
    def is_complete(self) -> bool:
        """True if nothing is known to be missing or merged."""
        losses = self.lost_work + self.lost_launches + self.partial_replays + self.empty_steps
        losses += self.incomplete_launches
        faults = (self.is_cut, self._merged_reason, self._find_overlaps(), self._find_untimed())
        return not (losses or any(faults))

    @property
    def needed_steps(self) -> int:
        """Complete steps with the same work that a typical step needs."""
        if self.is_cut:
            return _STEPS_IF_CUT
        inner = set(range(1, self.steps - 1))
        return _STEPS_IF_LOST if inner.difference(self.complete_steps) else 1

    @property
    def _merged_reason(self) -> str | None:
        if self.processes > 1:
            return (
                f"it merges the traces of {self.processes:,} processes: use the trace of each "
                "rank or process, or `graphviz-dash import`, which writes one run per process if "
                "the file shows the process of all GPU work"
            )
        if self.shared_ids and not self.complete_steps:
            return (
                f"{self.shared_ids:,} launches share correlation ids, as in merged traces or "
                "several profiler sessions: use one trace per rank and session"
            )
        return None

    @property
    def has_step_times(self) -> bool:
        """True if the lengths of the steps, or of an unmarked trace, are known."""
        has_steps = self._merged_reason is None and self._find_overlaps() is None
        return has_steps and self.explain_clock_error(1.0) is None

    def supports(self, claim: Claim) -> bool:
        """Return True if the trace supports ``claim``."""
        return self.explain(claim) is None

    def explain(self, claim: Claim) -> Missing | None:
        """Return why the trace does not support ``claim``; None if it does."""
        reason = self._find_obstacle(claim)
        return None if reason is None else Missing(Fact.COMPLETE_TRACE, reason)

    def _find_obstacle(self, claim: Claim) -> str | None:
        if (reason := self._merged_reason or self._find_overlaps()) is not None:
            return reason
        match claim:
            case Claim.STEPS:
                reason = None if self.steps else "the trace marks no steps"
            case Claim.LAUNCHES:
                reason = self._find_unknown_launches() or self._find_lost_launches()
                reason = reason or self._find_stray_kernels()
            case Claim.COUNTS | Claim.BUSY:
                reason = self._find_lost_steps() or self._find_stray_kernels()
                if claim is Claim.BUSY:
                    reason = reason or self.explain_clock_error() or self._find_untimed()
            case Claim.WORK:
                reason = self._find_unknown_launches() or self._find_lost_work()
                # With a larger error, even the step in which work ran is unknown.
                reason = reason or self.explain_clock_error(1.0) or self._find_untimed()
            case Claim.LAUNCH_BOUND:
                reason = self._find_unknown_launches() or self._find_lost_work()
                reason = reason or self._find_lost_time()
            case Claim.DATA_DEPENDENCE:
                any_step = "the file is cut, so parts of any step may be missing"
                reason = any_step if self.is_cut else None
        return reason

    def _find_overlaps(self) -> str | None:
        if not self.overlapping_steps:
            return None
        verb = "starts before an earlier one ends" if self.overlapping_steps == 1 else "overlap"
        return (
            f"{self.overlapping_steps:,} of {self.steps:,} marked steps {verb}, as marks of nested "
            "loops or several threads do: mark the steps of one loop only"
        )

    def _find_untimed(self) -> str | None:
        if self.instant_kernels <= _MAX_LOST_SHARE * self.kernels:
            return None
        kernels = pluralize(self.kernels, "kernel")
        return f"{format_count(self.instant_kernels)} of {kernels} last 0 ns in the trace"

    def _find_unknown_launches(self) -> str | None:
        if self.unknown_launches <= _MAX_LOST_SHARE * self.kernels:
            return None
        kernels = pluralize(self.kernels, "kernel")
        return f"the calls of {self.unknown_launches:,} of {kernels} are not known as launches"

    def _find_lost_steps(self) -> str | None:
        if not self.steps or self.complete_steps:
            return None
        if self.partial_replays and not self.lost_work:
            launches = pluralize(self.partial_replays, "graph launch")
            return f"{launches} lack work of other launches, and no step is complete"
        if self.incomplete_launches and not self.lost_work:
            return f"{self.format_incomplete_launches()}, and no step is complete"
        if not self.lost_work:
            return "kernels without a launch run in every step, and none is complete"
        return f"{self.format_lost_work()}, and no step is complete"

    def _find_stray_kernels(self) -> str | None:
        clock = self.explain_clock_error(1.0)
        if not self.steps or not self.lost_launches or clock is None:
            return None
        return f"{self.format_lost_launches()}, and {clock}"

    def _find_lost_launches(self) -> str | None:
        if not self.steps or self.launched_steps or not self.kernels:
            return None
        if not self.lost_launches:
            return "each step may have launched kernels whose call is not in the trace"
        reason = self.format_lost_launches()
        return reason if self.lost_launches == self.kernels else f"{reason}, some in each step"

    def format_lost_launches(self) -> str:
        """Format the number of kernels without a launch."""
        kernels = pluralize(self.kernels, "kernel")
        verb = "has" if self.kernels == 1 else "have"
        return f"{format_count(self.lost_launches)} of {kernels} {verb} no launch in the trace"

    def format_lost_work(self) -> str:
        """Format the number of launches without GPU work."""
        launches = pluralize(self.launches, "kernel or graph launch")
        verb = "has" if self.launches == 1 else "have"
        return f"{format_count(self.lost_work)} of {launches} {verb} no GPU work"

    def format_empty_steps(self) -> str:
        """Format the number of steps without any event."""
        verb = "contains" if self.empty_steps == 1 else "contain"
        return f"{self.empty_steps:,} of {self.steps:,} steps {verb} no work, call or operator"

    def format_incomplete_launches(self) -> str:
        """Format the number of steps that lack launches."""
        verb = "lacks" if self.incomplete_launches == 1 else "lack"
        return (
            f"{self.incomplete_launches:,} of {self.steps:,} steps {verb} work of others "
            "with the same operators"
        )

    def format_losses(self) -> str:
        """Format the most important loss of GPU work."""
        if self.incomplete_launches and not self.lost_work:
            return self.format_incomplete_launches()
        if self.empty_steps and not self.lost_work:
            return self.format_empty_steps()
        return self.format_lost_work()

    def _find_lost_work(self) -> str | None:
        if (reason := self._find_lost_steps()) is not None:
            return reason
        lost_share = self.lost_work / self.launches if self.launches else 0.0
        if not self.steps:
            return self.format_lost_work() if lost_share > _MAX_LOST_SHARE else None
        stray_share = self.lost_launches / self.kernels if self.kernels else 0.0
        if min(lost_share, stray_share) > _MAX_LOST_SHARE:
            # Where calls and kernels are lost independently, some are lost with their kernels.
            strays = format_count(self.lost_launches)
            return f"{self.format_lost_work()}, and {strays} kernels have no launch"
        if len(self.complete_steps) < self.needed_steps:
            subject = "the file is cut" if self.is_cut else self.format_losses()
            return (
                f"{subject}, and only {len(self.complete_steps):,} of {self.steps:,} steps "
                f"{'is' if len(self.complete_steps) == 1 else 'are'} complete"
            )
        return None

    def _find_lost_time(self) -> str | None:
        if not self.has_calls:
            return "the trace contains no events of the CPU"
        return self.explain_clock_error() or self._find_untimed()

    def explain_clock_error(self, max_share: float = _MAX_CLOCK_SHARE) -> str | None:
        """Return a reason if the clock error is above a share of a step."""
        if self.clock_error_ns <= max_share * self.step_ns:
            return None
        return (
            "CPU and GPU clocks differ: work starts before its launch or ends after a wait for it "
            f"by up to {format_ns(self.clock_error_ns)}"
        )


def assess_integrity(
    trace: Trace, steps: Sequence[Step] | None = None, links: Links | None = None
) -> TraceIntegrity:
    """Assess the completeness of ``trace``; near-linear in its rows.

    ``steps`` and ``links`` are computed if None.
    """
    links = links or link_trace_launches(trace)
    steps = find_steps(trace, links) if steps is None else steps
    calls = _Launches(trace)
    partial = find_partial_replays(trace, links, steps)
    kernel = (trace.gpu["kind"] == "kernel").fill_null(False).to_numpy()
    correlation = get_column(trace.gpu, "correlation")
    launch_ns, has_launch = compute_launch_times(trace, links.launch)
    clock_error_ns = _measure_clock_error(trace, links.launch)
    lengths = [step.duration_ns for step in steps]
    step_ns = int(np.median(lengths)) if lengths else trace.info.end_ns
    # Work may precede the first call, but not all calls of a trace without any.
    has_order = bool(len(trace.runtime)) and clock_error_ns <= step_ns
    is_pending = (launch_ns < 0) & has_order
    with_launch = has_launch | is_pending | (correlation <= 0)
    # roctracer records collectives and replays without an id: their launches seem to have no work.
    idless_kernels = int(np.count_nonzero(kernel & ~has_launch & (correlation <= 0)))
    lost_work = max(int(np.count_nonzero(calls.is_lost)) - idless_kernels, 0)
    is_stray = kernel & ~has_launch & (correlation > 0)
    begin = get_column(trace.gpu, "ts")
    is_marked = bool(steps) and steps[0].method is not StepMethod.WHOLE
    # Without any pair of launch and kernel, the error of the clocks is unknown.
    has_launches = bool(has_launch[kernel].any()) or not is_stray.any()
    starts = get_column(trace.runtime, "ts")
    with_work = _find_complete_steps(calls, steps, correlation, has_launch, starts[partial])
    empty = _find_empty_steps(trace, steps) if is_marked else frozenset()
    incomplete = find_incomplete_launches(trace, links, steps) if is_marked else frozenset()
    delay_ns = max(clock_error_ns, measure_delay(steps, begin - launch_ns, has_launch))
    stray = StrayKernels(begin, launch_ns, is_stray, (clock_error_ns, delay_ns))
    has_id = get_column(trace.runtime, "correlation") > 0
    first_call_ns = int(starts[has_id].min(initial=trace.info.end_ns))
    return TraceIntegrity(
        launches=len(calls.rows),
        launches_with_work=len(calls.rows) - lost_work,
        kernels=int(np.count_nonzero(kernel)),
        kernels_with_launch=int(np.count_nonzero(kernel & with_launch)),
        steps=len(steps) if is_marked else 0,
        complete_steps=tuple(
            index
            for index in with_work
            if index not in empty | incomplete and not stray.is_uncertain(steps[index])
        )
        if is_marked
        else (),
        launched_steps=tuple(
            index
            for index, step in enumerate(steps if is_marked and has_launches else ())
            if index not in empty | incomplete
            and not is_stray[step.gpu_rows].any()
            and not stray.has_lost_calls(step, first_call_ns)
        ),
        empty_steps=len(empty),
        incomplete_launches=len(incomplete),
        overlapping_steps=_count_overlapping_steps(steps) if is_marked else 0,
        instant_kernels=int(np.count_nonzero(kernel & (get_column(trace.gpu, "dur") == 0))),
        unknown_launches=_count_unknown_launches(trace, links.launch[kernel]),
        is_cut=trace.info.is_cut,
        processes=len(np.unique(get_column(trace.runtime, "pid")[calls.rows])),
        devices=len(np.unique(get_column(trace.gpu, "device")[kernel])),
        shared_ids=int(np.count_nonzero(calls.is_shared)),
        partial_replays=len(partial),
        clock_error_ns=clock_error_ns,
        has_calls=bool(len(starts) or len(trace.ops)),
        step_ns=step_ns,
    )


def select_complete_steps(
    trace: Trace, steps: tuple[Step, ...], integrity: TraceIntegrity | None = None
) -> tuple[Step, ...] | Missing:
    """Select the steps of ``trace`` whose GPU work is complete, or explain why there are none.

    Without marks, ``steps`` are returned. ``integrity`` is computed if None.
    """
    integrity = integrity or assess_integrity(trace, steps)
    missing = integrity.explain(Claim.COUNTS)
    if missing is not None:
        return missing
    return tuple(steps[index] for index in integrity.complete_steps) or steps


def select_launched_steps(
    steps: tuple[Step, ...], integrity: TraceIntegrity
) -> tuple[Step, ...] | Missing:
    """Select the steps whose launches are all in the trace, or explain why there are none.

    Without marks, ``steps`` are returned. Complete GPU work is preferred.
    """
    missing = integrity.explain(Claim.LAUNCHES)
    if missing is not None:
        return missing
    complete = set(integrity.launched_steps).intersection(integrity.complete_steps)
    indices = sorted(complete) or integrity.launched_steps
    return tuple(steps[index] for index in indices) or steps


def _count_unknown_launches(trace: Trace, launch: Ints) -> int:
    codes, names = encode(trace.runtime["name"])
    is_other = np.array([get_call_class(n) is CallClass.OTHER for n in names], dtype=np.bool_)
    calls = launch[launch >= 0]
    return int(np.count_nonzero(is_other[codes[calls]])) if len(calls) else 0


def _find_empty_steps(trace: Trace, steps: Sequence[Step]) -> frozenset[int]:
    """Return none if all steps are empty."""
    starts = [np.sort(get_column(table, "ts")) for table in (trace.runtime, trace.ops)]
    empty = frozenset(
        index
        for index, step in enumerate(steps)
        if not len(step.gpu_rows) and not any(_count_between(column, step) for column in starts)
    )
    return empty if len(empty) < len(steps) else frozenset()


def _count_overlapping_steps(steps: Sequence[Step]) -> int:
    begin = np.array([step.start for step in steps], dtype=np.int64)
    end = np.array([step.end for step in steps], dtype=np.int64)
    overlap = np.maximum.accumulate(end)[:-1] - begin[1:]
    return int(np.count_nonzero(overlap > _MAX_OVERLAP_SHARE * np.median(end - begin)))


def _measure_clock_error(trace: Trace, launch: Ints) -> int:
    """Measure by how much GPU times contradict launches and waits, in ns."""
    has_launch = launch >= 0
    begin = get_column(trace.gpu, "ts")[has_launch]
    end = begin + get_column(trace.gpu, "dur")[has_launch]
    starts = get_column(trace.runtime, "ts")
    error = int((starts[launch[has_launch]] - begin).max(initial=0))
    return max(error, int((end - compute_wait_ends(trace, launch)[has_launch]).max(initial=0)))


class _Launches:
    """Kernel and graph launches outside captures, by time; arrays of shape (launches,)."""

    def __init__(self, trace: Trace) -> None:
        codes, names = encode(trace.runtime["name"])
        starts = get_column(trace.runtime, "ts")
        correlation = get_column(trace.runtime, "correlation")
        work_ids = get_column(trace.gpu, "correlation")
        launches = (CallClass.KERNEL_LAUNCH, CallClass.GRAPH_LAUNCH)
        # cudaLaunchHostFunc runs on the CPU.
        is_launch = [get_call_class(n) in launches and "HostFunc" not in n for n in names]
        self.rows: Ints = _select_rows(codes, is_launch)
        self.rows = self.rows[~find_captured(trace.runtime, starts[self.rows])]
        self.start: Ints = starts[self.rows]
        ids = correlation[self.rows]
        self.is_lost: Flags = ~np.isin(ids, work_ids)
        _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
        self.is_shared: Flags = (counts[inverse.reshape(-1)] > 1) & (ids > 0)
        copies = _select_rows(codes, [get_call_class(n) is CallClass.COPY for n in names])
        self.lost_copies: Ints = starts[copies[~np.isin(correlation[copies], work_ids)]]


def _select_rows(codes: npt.NDArray[np.int32], flags: Sequence[bool]) -> Ints:
    if not flags:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.array(flags, dtype=np.bool_)[codes])


def _find_complete_steps(
    calls: _Launches, steps: Sequence[Step], correlation: Ints, has_launch: Flags, partial: Ints
) -> tuple[int, ...]:
    """Return the indices of the steps whose launches all have work.

    ``partial`` are the starts of launches that lack some. Work without any correlation id makes up
    for a launch without work: roctracer records collectives and replays in this way.
    """
    lost_starts, shared_starts = (calls.start[flags] for flags in (calls.is_lost, calls.is_shared))
    lost_copies = [_count_between(calls.lost_copies, step) for step in steps]
    # Copies of no bytes and between CPU buffers never have work.
    typical_copies = min(lost_copies, default=0)
    complete = []
    for index, step in enumerate(steps):
        rows = step.gpu_rows
        idless_kernels = int(np.count_nonzero(~has_launch[rows] & (correlation[rows] <= 0)))
        missing = _count_between(lost_starts, step) - idless_kernels + _count_between(partial, step)
        if (
            missing <= 0
            and not _count_between(shared_starts, step)
            and lost_copies[index] == typical_copies
        ):
            complete.append(index)
    return tuple(complete)


def _count_between(instants: Ints, step: Step) -> int:
    first, last = np.searchsorted(instants, [step.start, step.end])
    return int(last - first)
