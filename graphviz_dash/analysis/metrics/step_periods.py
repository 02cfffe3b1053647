"""Attribution of a loop's time to its steps.

The time from a step's start to the start of the next one includes a wait for the GPU. An engine
with asynchronous scheduling starts a step while the GPU still executes the previous one, and then
waits for that one. If the GPU is slower than the CPU, the time of a step is therefore the interval
after its own.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Flags, Floats, Ints

UNKNOWN: Final = -1

_MIN_STEPS: Final = 64
"""Minimum number of steps to detect asynchronous scheduling."""
_MIN_GROUP: Final = 3
_MAX_RATIO: Final = 0.8
"""Maximum ratio of the deviations within groups of like steps with and without asynchronous
scheduling."""
_MIN_WAIT: Final = 0.1
"""Minimum wait for the GPU, as a share of the interval, of a step that waits for another one."""
_MIN_OWN_WAIT: Final = 0.6
"""The same of a step that is limited by the GPU, if steps are not asynchronous. Larger, because the
program may also work between two steps."""


class StepPeriods(Struct, frozen=True):
    """Times of steps in ns, shape (steps,)."""

    period_ns: Ints
    """Time of each step, ``UNKNOWN`` at the ends of a sequence. Periods of a sequence have the sum
    of its intervals."""
    is_gpu_bound: Flags
    """The period is the time of the GPU."""
    is_asynchronous: bool
    """A step starts while the GPU executes the previous one, and waits for that one."""


def compute_periods(begin: Ints, end: Ints, sequence: Ints, group: Ints) -> StepPeriods:
    """Attribute the time between the starts of steps to these steps.

    Args:
        begin: Starts in ns, shape (steps,).
        end: Returns of the last call of each step.
        sequence: Number of the sequence of each step: intervals of different ones are unrelated.
            Negative if its times are not used.
        group: Equal for steps that should last equally long. Negative for other steps.
    """
    order = np.lexsort((begin, sequence))
    begin, end, sequence, group = (column[order] for column in (begin, end, sequence, group))
    is_sequence_end = np.append(sequence[1:] != sequence[:-1], True)[: len(order)]
    intervals = np.where(is_sequence_end | (sequence < 0), UNKNOWN, np.append(begin[1:], 0) - begin)
    periods = StepPeriods(intervals, np.zeros(len(order), dtype=bool), False)
    if np.count_nonzero(intervals != UNKNOWN) >= _MIN_STEPS:
        waits = _measure_waits(begin, end, intervals)
        periods = _shift_periods(begin, intervals, waits)
        if not _is_more_regular(periods.period_ns, intervals, group):
            is_gpu_bound = _find_gpu_bound(intervals, waits, group)
            periods = StepPeriods(intervals, is_gpu_bound, False)
    places = np.argsort(order)
    return replace(
        periods,
        period_ns=periods.period_ns[places],
        is_gpu_bound=periods.is_gpu_bound[places],
    )


def _measure_waits(begin: Ints, end: Ints, intervals: Ints) -> Ints:
    """Measure the waits between the end of a step's calls and the next step."""
    outside = intervals - (end - begin)
    # The shortest time between two steps contains no wait.
    waits: Ints = outside - outside[intervals != UNKNOWN].min()
    return waits


def _find_gpu_bound(intervals: Ints, waits: Ints, group: Ints) -> Flags:
    """Find steps that wait for the GPU and follow a like step. Their interval is its time, whether
    they wait for their own work or for the previous step's."""
    follows_like_step = np.append(False, (group[1:] == group[:-1]) & (intervals[:-1] != UNKNOWN))
    waits_long = (intervals != UNKNOWN) & (waits >= _MIN_OWN_WAIT * intervals)
    is_gpu_bound: Flags = waits_long & follows_like_step & (group >= 0)
    return is_gpu_bound


def _is_more_regular(periods: Ints, intervals: Ints, group: Ints) -> bool:
    """Check whether ``periods`` of like steps vary much less than their ``intervals``."""
    rows = np.flatnonzero((periods > 0) & (intervals > 0) & (group >= 0))
    _, places, counts = np.unique(group[rows], return_inverse=True, return_counts=True)
    is_comparable = counts[places] >= _MIN_GROUP
    rows, places = rows[is_comparable], places[is_comparable]
    if len(rows) < _MIN_STEPS:
        return False
    before = _measure_deviation(np.log(intervals[rows]), places)
    return _measure_deviation(np.log(periods[rows]), places) < _MAX_RATIO * before


def _measure_deviation(values: Floats, groups: Ints) -> float:
    """Measure the mean distance from the median of the group."""
    order = np.lexsort((values, groups))
    values = values[order]
    first = np.flatnonzero(np.append(True, np.diff(groups[order]) != 0))
    counts = np.diff(np.append(first, len(values)))
    medians = (values[first + (counts - 1) // 2] + values[first + counts // 2]) / 2
    return float(np.abs(values - np.repeat(medians, counts)).mean())


def _shift_periods(begin: Ints, intervals: Ints, waits: Ints) -> StepPeriods:
    """Compute the times between the ends of steps on the GPU.

    A step ends when the CPU has waited for it, at the start of the step after the next. A step that
    does not wait is the first after a pause of the GPU: the two steps before it had ended by
    its start, and share their time equally.
    """
    count = len(begin)
    has_interval = intervals != UNKNOWN
    is_restart = has_interval & (waits < _MIN_WAIT * intervals) | np.append(
        True, ~has_interval[:-1]
    )
    next_begin = np.where(has_interval, begin + intervals, UNKNOWN)
    following = np.minimum(np.arange(count) + 1, count - 1)
    precedes_restart = is_restart[following]
    ends = np.where(precedes_restart, next_begin, next_begin[following])
    is_second_last = ~precedes_restart & is_restart[following[following]]
    ends = np.where(is_second_last, (next_begin + next_begin[following]) // 2, ends)
    has_period = has_interval & (precedes_restart | has_interval[following])
    start = np.where(is_restart, begin, np.append(0, ends[:-1]))
    period = np.where(has_period, ends - start, UNKNOWN)
    is_gpu_bound = has_period & ~precedes_restart & ~is_second_last & ~is_restart
    return StepPeriods(period, is_gpu_bound, True)
