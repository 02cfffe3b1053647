"""Time that one run loses against another within a step, by piece of work.

Method: both steps start at 0. When the first run has finished a set of shared work, its lag is the
difference to the time at which the other run had finished it. Between two such points, each run's
time is busy or idle, so the additional lag is the excess idle time plus the excess busy time of the
first run; both may be negative. The parts add up exactly to the difference of the step lengths.
work_pairs.py provides the shared work; other work counts as busy time of its run.

With several ranks, time in which collectives only wait for other ranks is a third part: waiting.

Within an interval, the idle loss is distributed over the first run's idle time and the busy loss
over its busy time, or over the whole interval if there is none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.trace.lanes import LaneSet, merge_busy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphviz_dash.analysis.step_comparison.work_pairs import WorkPairs
    from graphviz_dash.analysis.trace.steps import Step
    from graphviz_dash.model.trace import Trace


class TracedStep(Struct, frozen=True):
    """One step of a run's trace.

    ``rows`` are its GPU table rows in the order of the items of the typical step.
    """

    trace: Trace
    step: Step
    rows: Ints
    wait_ns: Ints | None = None
    """Time in ns that each row waited for other ranks; None for a single process."""


class TimeLost(Struct, frozen=True):
    """Time that the first run loses to the other over its step, in ns since each step's start."""

    times: Ints
    """End times of shared work in the first run, ascending from 0 to its step's end, shape (n,)."""
    other_times: Ints
    """Time when the other run had finished all shared work that ends by then, shape (n,)."""
    idle: Ints
    """Cumulative idle loss, shape (n,); ``idle + busy + waiting == times - other_times``."""
    busy: Ints
    waiting: Ints
    """Cumulative loss from waiting for other ranks."""
    curve: Floats
    """Times with cumulative idle, busy and waiting loss, linear in between, shape (4, m)."""
    methods: Mapping[str, int]
    """Paired pieces of work by matching method."""
    unpaired_counts: tuple[int, int]
    """Unpaired pieces of work in the first and in the other run."""
    work_ns: int
    """Difference of the summed durations of work, without waits for other ranks.

    The rest of the busy loss is overlap that the first run lacks.
    """

    def interpolate_losses(self, instants: Ints) -> tuple[Ints, Ints, Ints]:
        """Return cumulative idle, busy and waiting loss at ``instants``, in whole ns."""
        at, *losses = self.curve
        idle, busy, waiting = (
            np.rint(np.interp(instants, at, loss)).astype(np.int64) for loss in losses
        )
        return idle, busy, waiting


def compute_time_lost(pairs: WorkPairs, first: TracedStep, second: TracedStep) -> TimeLost:
    """Compute the time that ``first`` loses to ``second``; ``pairs`` has the baseline first."""
    ends = [_get_end_times(side) for side in (first, second)]
    shared = [row for row in pairs.rows if row.before and row.after]
    end_times = np.array(
        [(ends[0][list(row.before)].max(), ends[1][list(row.after)].max()) for row in shared],
        dtype=np.int64,
    ).reshape(-1, 2)
    end_times = end_times[np.argsort(end_times[:, 0], kind="stable")]
    lengths = [side.step.duration_ns for side in (first, second)]
    at = np.concatenate(
        ([0], end_times[:, 0], [max(lengths[0], int(end_times[:, 0].max(initial=0)))])
    )
    other = np.concatenate(
        ([0], end_times[:, 1], [max(lengths[1], int(end_times[:, 1].max(initial=0)))])
    )
    # The two clocks of a trace differ by a microsecond, so work may seem to end before its step
    # starts.
    at = np.maximum.accumulate(np.maximum(at, 0))
    other = np.maximum.accumulate(np.maximum(other, 0))
    cumulative = [_CumulativeBusy(side) for side in (first, second)]
    busy = cumulative[0].get_busy(at) - cumulative[1].get_busy(other)
    waiting = cumulative[0].get_waited(at) - cumulative[1].get_waited(other)
    idle = (at - other) - busy - waiting
    return TimeLost(
        times=at,
        other_times=other,
        idle=idle,
        busy=busy,
        waiting=waiting,
        curve=_build_curve(at, (idle, busy, waiting), cumulative[0]),
        methods=dict(Counter(row.method for row in shared).most_common()),
        unpaired_counts=(
            sum(len(row.before) for row in pairs.rows if not row.after),
            sum(len(row.after) for row in pairs.rows if not row.before),
        ),
        work_ns=_sum_work_ns(first) - _sum_work_ns(second),
    )


def _sum_work_ns(side: TracedStep) -> int:
    duration = np.maximum(side.trace.gpu["dur"][side.rows].to_numpy(), 0)
    wait_ns = 0 if side.wait_ns is None else int(np.minimum(side.wait_ns, duration).sum())
    return int(duration.sum()) - wait_ns


def _get_end_times(side: TracedStep) -> Ints:
    start = side.trace.gpu["ts"][side.rows].to_numpy()
    duration = side.trace.gpu["dur"][side.rows].to_numpy()
    return np.asarray(start + np.maximum(duration, 0) - side.step.span_start, dtype=np.int64)


class _CumulativeBusy:
    """Cumulative busy time of a step's GPUs, over all its streams."""

    def __init__(self, side: TracedStep) -> None:
        end = _get_end_times(side)
        start = side.trace.gpu["ts"][side.rows].to_numpy() - side.step.span_start
        start = start.astype(np.int64)
        lanes = np.zeros(len(end), dtype=np.int64)
        self.occupied = merge_busy(lanes, start, end)
        self.periods = self.occupied
        if side.wait_ns is not None:
            self.periods = merge_busy(lanes, np.minimum(start + side.wait_ns, end), end)

    def get_busy(self, instants: Ints) -> Ints:
        return _measure_before(self.periods, instants)

    def get_waited(self, instants: Ints) -> Ints:
        return _measure_before(self.occupied, instants) - _measure_before(self.periods, instants)

    def get_edges(self) -> Ints:
        return np.concatenate(
            [
                edge
                for periods in (self.periods, self.occupied)
                for edge in (periods.start, periods.end)
            ]
        )


def _measure_before(periods: LaneSet, instants: Ints) -> Ints:
    """Return the time covered by ``periods`` before each instant, from the step's start."""
    if not len(periods):
        return np.zeros(len(instants), dtype=np.int64)
    busy = periods.compute_busy_before(0, instants)
    # Work before the step's start belongs to no interval.
    return np.asarray(busy - periods.compute_busy_before(0, np.zeros(1, np.int64)), dtype=np.int64)


def _build_curve(
    times: Ints, losses: tuple[Ints, Ints, Ints], cumulative: _CumulativeBusy
) -> Floats:
    """Return the losses at every time where their slope changes."""
    edges = cumulative.get_edges()
    instants = np.unique(np.concatenate((times, edges[(edges > 0) & (edges < times[-1])])))
    interval = np.clip(np.searchsorted(times, instants, "right") - 1, 0, max(len(times) - 2, 0))
    begin, end = times[interval], times[np.minimum(interval + 1, len(times) - 1)]
    length = np.maximum(end - begin, 1)
    passed_share = (instants - begin) / length
    work_then, work_all = (
        cumulative.get_busy(instant) - cumulative.get_busy(begin) for instant in (instants, end)
    )
    wait_then, wait_all = (
        cumulative.get_waited(instant) - cumulative.get_waited(begin) for instant in (instants, end)
    )
    idle_then = instants - begin - work_then - wait_then
    idle_all = end - begin - work_all - wait_all
    curve = [instants.astype(np.float64)]
    partial_and_total = ((idle_then, idle_all), (work_then, work_all), (wait_then, wait_all))
    for lost_ns, (partial, total) in zip(losses, partial_and_total, strict=True):
        share = np.where(total > 0, partial / np.maximum(total, 1), passed_share)
        step = lost_ns[np.minimum(interval + 1, len(times) - 1)] - lost_ns[interval]
        bent = lost_ns[interval] + step * share
        # A zero-length interval at the end has no elapsed share.
        bent[-1] = lost_ns[-1]
        curve.append(bent)
    return np.stack(curve)
