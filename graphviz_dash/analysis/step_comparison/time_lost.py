"""Where one run loses time against another within a step of each, piece of work by piece of work.

Method. Both steps begin at 0. When the first run has ended the pieces of work that it shares with
the other up to some instant, the other had ended all of these by another instant of its own step:
the difference is how far the first lags behind there. Between two such instants both runs spend
time with their GPUs busy and time with them idle, so that what is lost in between is the idle time
that the first has more of, plus the busy time that it has more of; both may be negative, where it
gains. The parts add up to the difference of the steps' lengths exactly. Which work is which is what
analysis/step/work_pairs.py found; work without a partner counts as busy time of its run.

Of several ranks the time in which collectives only wait for others is neither: it is lost to
waiting, a third part.

Within such an interval the idle loss is laid on the time in which the first run's GPUs idle, and
the busy loss on the time in which they work; over the whole interval where it has none of that.
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
    """One step of a run's trace; ``rows`` are its rows of the GPU table in the order of the items
    of the run's typical step."""

    trace: Trace
    step: Step
    rows: Ints
    waited: Ints | None = None
    """How long each of the rows waited for other ranks, in ns; None for a run of one process."""


class TimeLost(Struct, frozen=True):
    """What the first run loses against the other, over its own step; times in ns since the begin of
    the step of each."""

    at: Ints
    """Instants at which a shared piece of work ends in the first run, ascending from 0 to the end
    of its step, shape (n,)."""
    other: Ints
    """When the other run had ended all shared work that ends by then, shape (n,)."""
    idle: Ints
    """What was lost up to each instant in idle time; with ``busy`` and ``waiting`` it adds up to
    ``at - other``, shape (n,)."""
    busy: Ints
    """What was lost up to each instant in busy time, shape (n,)."""
    waiting: Ints
    """What was lost up to each instant by waiting for other ranks, shape (n,)."""
    curve: Floats
    """Instants with the idle, the busy and the waiting loss up to them, straight in between, shape
    (4, m)."""
    methods: Mapping[str, int]
    """Pairs of work by how they were matched."""
    alone: tuple[int, int]
    """How many pieces of work have no partner, of the first run and of the other."""

    def lost_before(self, instants: Ints) -> tuple[Ints, Ints, Ints]:
        """Idle, busy and waiting loss up to each of ``instants``, in whole ns; before the step
        nothing."""
        at, *losses = self.curve
        idle, busy, waiting = (
            np.rint(np.interp(instants, at, loss)).astype(np.int64) for loss in losses
        )
        return idle, busy, waiting


def time_lost(pairs: WorkPairs, first: TracedStep, second: TracedStep) -> TimeLost:
    """What ``first`` loses against ``second``; ``pairs`` are of their runs, baseline first."""
    ends = [_ends(side) for side in (first, second)]
    shared = [row for row in pairs.rows if row.before and row.after]
    done = np.array(
        [(ends[0][list(row.before)].max(), ends[1][list(row.after)].max()) for row in shared],
        dtype=np.int64,
    ).reshape(-1, 2)
    done = done[np.argsort(done[:, 0], kind="stable")]
    lengths = [side.step.duration_ns for side in (first, second)]
    at = np.concatenate(([0], done[:, 0], [max(lengths[0], int(done[:, 0].max(initial=0)))]))
    other = np.concatenate(([0], done[:, 1], [max(lengths[1], int(done[:, 1].max(initial=0)))]))
    # The two clocks of a trace differ by a microsecond: work may seem to end before its step began.
    at = np.maximum.accumulate(np.maximum(at, 0))
    other = np.maximum.accumulate(np.maximum(other, 0))
    worked = [_Worked(side) for side in (first, second)]
    busy = worked[0].before(at) - worked[1].before(other)
    waiting = worked[0].waited_before(at) - worked[1].waited_before(other)
    idle = (at - other) - busy - waiting
    return TimeLost(
        at=at,
        other=other,
        idle=idle,
        busy=busy,
        waiting=waiting,
        curve=_curve(at, (idle, busy, waiting), worked[0]),
        methods=dict(Counter(row.method for row in shared).most_common()),
        alone=(
            sum(len(row.before) for row in pairs.rows if not row.after),
            sum(len(row.after) for row in pairs.rows if not row.before),
        ),
    )


def _ends(side: TracedStep) -> Ints:
    start = side.trace.gpu["ts"].gather(side.rows).to_numpy()
    duration = side.trace.gpu["dur"].gather(side.rows).to_numpy()
    return np.asarray(start + np.maximum(duration, 0) - side.step.span_start, dtype=np.int64)


class _Worked:
    """How long the GPUs of a step have worked before any instant: all its streams as one."""

    def __init__(self, side: TracedStep) -> None:
        end = _ends(side)
        start = side.trace.gpu["ts"].gather(side.rows).to_numpy() - side.step.span_start
        start = start.astype(np.int64)
        lanes = np.zeros(len(end), dtype=np.int64)
        self.occupied = merge_busy(lanes, start, end)
        self.periods = self.occupied
        if side.waited is not None:
            self.periods = merge_busy(lanes, np.minimum(start + side.waited, end), end)

    def before(self, instants: Ints) -> Ints:
        return _within(self.periods, instants)

    def waited_before(self, instants: Ints) -> Ints:
        """How long collectives have only waited before each of ``instants``."""
        return _within(self.occupied, instants) - _within(self.periods, instants)

    def edges(self) -> Ints:
        return np.concatenate(
            [edge for each in (self.periods, self.occupied) for edge in (each.start, each.end)]
        )


def _within(periods: LaneSet, instants: Ints) -> Ints:
    """How much of ``periods`` lies before each of ``instants``, from the step's begin on."""
    if not len(periods):
        return np.zeros(len(instants), dtype=np.int64)
    busy = periods.busy_before(0, instants)
    # What ran before the step's begin by its clock belongs to no interval.
    return np.asarray(busy - periods.busy_before(0, np.zeros(1, np.int64)), dtype=np.int64)


def _curve(at: Ints, losses: tuple[Ints, Ints, Ints], worked: _Worked) -> Floats:
    """The losses at every instant where one of them bends."""
    edges = worked.edges()
    instants = np.unique(np.concatenate((at, edges[(edges > 0) & (edges < at[-1])])))
    interval = np.clip(np.searchsorted(at, instants, "right") - 1, 0, max(len(at) - 2, 0))
    begin, end = at[interval], at[np.minimum(interval + 1, len(at) - 1)]
    length = np.maximum(end - begin, 1)
    passed = (instants - begin) / length
    work_then, work_all = (
        worked.before(instant) - worked.before(begin) for instant in (instants, end)
    )
    wait_then, wait_all = (
        worked.waited_before(instant) - worked.waited_before(begin) for instant in (instants, end)
    )
    idle_then = instants - begin - work_then - wait_then
    idle_all = end - begin - work_all - wait_all
    curve = [instants.astype(np.float64)]
    spent = ((idle_then, idle_all), (work_then, work_all), (wait_then, wait_all))
    for lost, (then, whole) in zip(losses, spent, strict=True):
        share = np.where(whole > 0, then / np.maximum(whole, 1), passed)
        step = lost[np.minimum(interval + 1, len(at) - 1)] - lost[interval]
        bent = lost[interval] + step * share
        # An interval of no length at the end has no share of it passed.
        bent[-1] = lost[-1]
        curve.append(bent)
    return np.stack(curve)
