"""Model of a clean step from the traced pass: start and end of each item at unprofiled CPU speed.

Method: the profiler slows CPU calls but barely changes GPU work. CPU times (launch and
synchronising calls) are therefore traced times scaled by one factor: clean launch CPU time over the
traced time to the final synchronisation.

An item starts after its launch and after its predecessors (on its stream, or by graph edges), plus
the traced delay. Between nodes of one graph launch it is the minimum delay of all steps, because
the profiler lengthens these delays. Branches of a graph start one after another as the launch call
reaches them, which counts as CPU time. A copy between host and device waits for the previous one in
the same direction if it always did. A collective of several ranks transfers as long as on the rank
with the shortest wait, and starts when the last rank has arrived. All ranks are modelled together
and start a step at the same time, like synchronised ranks.

The step ends when the CPU has returned and all work is done, plus the minimum return time of any
traced step from the final synchronisation, because the profiler writes its buffers there.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.ranks.ranks import NO_MEETING
from graphviz_dash.analysis.step_comparison.typical_step import NO_GROUP, TypicalStep
from graphviz_dash.analysis.trace.lanes import merge_busy
from graphviz_dash.analysis.trace.steps import compute_exclusive_ns

_Arrival: TypeAlias = tuple[int, int, int]
"""Number of a collective, its item index, and its start."""

_Model: TypeAlias = Generator[_Arrival, int, tuple[Ints, Ints, Ints]]


class StepModel(Struct, frozen=True):
    """The modelled clean step; arrays of shape (items,), in ns.

    All parts add up to ``end_ns``.
    """

    start: Ints
    """Start of each item, relative to the step."""
    end: Ints
    busy: Ints
    """Contribution of each item to GPU busy time.

    This is its duration without waits for other ranks and overlap with earlier items.
    """
    ranks: Ints
    """Contribution of its wait for other ranks, without concurrent work."""
    waiting: Ints
    """Idle time before it due to a late launch."""
    blocked: Ints
    """Idle time before it in a synchronising call of the CPU."""
    cpu_tail_ns: int
    """CPU time after the end of the last work."""
    return_ns: int
    end_ns: int
    scale: float
    """Scale factor for traced CPU times."""


def model_step(
    work: TypicalStep,
    launch_cpu_ns: float,
    return_ns: int,
    depends: list[list[int]] | None = None,
    latest_arrivals: Mapping[int, int] | None = None,
) -> StepModel:
    """Model a clean step that returned after ``launch_cpu_ns`` (clean median).

    ``depends`` holds additional dependencies of each item. ``latest_arrivals`` comes from
    :func:`find_last_arrivals`; without it, collectives wait as long as in the trace.
    """
    scale = _compute_scale(work, launch_cpu_ns)
    start, end, rank_wait = _run_model(_simulate_items(work, scale, depends), work, latest_arrivals)
    order = np.argsort(start, kind="stable")
    arrival_ns = start + rank_wait
    busy, ranks = _measure_working(arrival_ns, end), _measure_waiting(start, arrival_ns, end)
    idle, blocked_ns = _measure_gaps(
        start, end, order, np.rint(work.waits * scale).astype(np.int64)
    )
    finish = int(end.max())
    returned = max(finish, round(launch_cpu_ns))
    return StepModel(
        start=start,
        end=end,
        busy=busy,
        ranks=ranks,
        waiting=idle - blocked_ns,
        blocked=blocked_ns,
        cpu_tail_ns=returned - finish,
        return_ns=return_ns,
        end_ns=returned + return_ns,
        scale=scale,
    )


def find_last_arrivals(ranks: Sequence[tuple[TypicalStep, float]]) -> dict[int, int]:
    """Return when the last rank arrives at each collective, by number, in ns since the common
    start.

    ``ranks`` holds each rank's work and clean launch CPU time in ns.
    """
    models = [_simulate_items(work, _compute_scale(work, launch), None) for work, launch in ranks]
    arrivals = [next(model, None) for model in models]
    latest_items: dict[int, int] = {}
    while waiting := [arrival for arrival in arrivals if arrival is not None]:
        # All ranks are at the same collective, unless their steps differ; then the first continues.
        number = min(meeting for meeting, _, _ in waiting)
        latest_items[number] = max(begin for meeting, _, begin in waiting if meeting == number)
        for rank, model in enumerate(models):
            current_arrival = arrivals[rank]
            if current_arrival is not None and current_arrival[0] == number:
                arrivals[rank] = _send_wait(model, latest_items[number] - current_arrival[2])
    return latest_items


def _compute_scale(work: TypicalStep, launch_cpu_ns: float) -> float:
    return launch_cpu_ns / work.cpu_ns if work.cpu_ns else 1.0


def _send_wait(model: _Model, wait: int) -> _Arrival | None:
    """Resume a model until its next collective; None at its end."""
    try:
        return model.send(wait)
    except StopIteration:
        return None


def _run_model(
    model: _Model, work: TypicalStep, latest_arrivals: Mapping[int, int] | None
) -> tuple[Ints, Ints, Ints]:
    """Run a model to its end; return start, end, and wait for other ranks of each item."""
    wait: int | None = None
    while True:
        try:
            number, item, begin = next(model) if wait is None else model.send(wait)
        except StopIteration as done:
            times: tuple[Ints, Ints, Ints] = done.value
            return times
        wait = (
            int(work.rank_wait[item])
            if latest_arrivals is None
            else max(latest_arrivals.get(number, 0) - begin, 0)
        )


def _measure_working(start: Ints, end: Ints) -> Ints:
    order = np.argsort(start, kind="stable")
    added_ns = np.zeros(len(start), dtype=np.int64)
    added_ns[order] = compute_exclusive_ns(start[order], end[order])
    return added_ns


def _measure_waiting(start: Ints, arrived: Ints, end: Ints) -> Ints:
    """Return the exclusive part of each wait from ``start`` to ``arrived``.

    Concurrent work (``arrived`` to ``end``) and earlier waits are subtracted.
    """
    added_ns = np.zeros(len(start), dtype=np.int64)
    waits = np.flatnonzero(arrived > start)
    waits = waits[np.argsort(start[waits], kind="stable")]
    if len(waits):
        work = merge_busy(np.zeros(len(start), dtype=np.int64), arrived, end)
        before = np.maximum.accumulate(np.concatenate(([0], arrived[waits][:-1])))
        begin = np.minimum(np.maximum(start[waits], before), arrived[waits])
        added_ns[waits] = arrived[waits] - begin - work.measure_overlap(begin, arrived[waits])
    return added_ns


def _simulate_items(work: TypicalStep, scale: float, depends: list[list[int]] | None) -> _Model:
    """Simulate start, end and wait for other ranks of each item.

    At each collective, yields number, index and start, and receives the wait.
    """
    work_ns, meetings = (work.duration - work.rank_wait).tolist(), work.meeting.tolist()
    launch, traced_start = work.launch.tolist(), work.start.tolist()
    lanes, groups = work.lane.tolist(), work.group.tolist()
    members, engines = _group_predecessors(work), _find_engine_predecessors(work)
    delays = _scale_branch_delays(work, scale, members)
    count = len(launch)
    begins, ends, waits = [0] * count, [0] * count, [0] * count
    last_of_lane: dict[int, int] = {}
    latest_items: list[int] = []
    leading = 0
    while leading < count:
        group = groups[leading]
        stop = leading + 1
        while group != NO_GROUP and stop < count and groups[stop] == group:
            stop += 1
        first = min(range(leading, stop), key=traced_start.__getitem__)
        # A graph starts when all earlier work on its stream has ended, regardless of its branches.
        waits_for = (
            latest_items[-1:] if group != NO_GROUP else list((depends or [[]] * count)[leading])
        )
        before = last_of_lane.get(lanes[first])
        if before is not None:
            waits_for.append(before)
        if leading in engines:
            waits_for.append(engines[leading])
        inside, delay = _measure_launch_delay(work, first, waits_for)
        launched_ns = round((launch[first] + inside) * scale)
        begin = max([launched_ns, *(ends[waited_item] for waited_item in waits_for)]) + delay
        for item in sorted(range(leading, stop), key=traced_start.__getitem__):
            member_ends = [ends[other] for other in members.get(item, ())]
            begins[item] = max(member_ends, default=begin) + (delays[item] if item != first else 0)
            if meetings[item] != NO_MEETING:
                waits[item] = yield meetings[item], item, begins[item]
            ends[item] = begins[item] + waits[item] + work_ns[item]
            last_of_lane[lanes[item]] = max(
                last_of_lane.get(lanes[item], item), item, key=ends.__getitem__
            )
        latest_item = max(range(leading, stop), key=ends.__getitem__)
        if not latest_items or ends[latest_item] > ends[latest_items[-1]]:
            latest_items.append(latest_item)
        if group != NO_GROUP:
            # Work after a graph waits for all of it.
            last_of_lane = dict.fromkeys(set(lanes), latest_items[-1])
        leading = stop
    return (
        np.array(begins, dtype=np.int64),
        np.array(ends, dtype=np.int64),
        np.array(waits, dtype=np.int64),
    )


def _measure_launch_delay(work: TypicalStep, item: int, waits_for: list[int]) -> tuple[int, int]:
    """Return an item's median launch time within its call, and its median delay after being ready.

    The last dependency differs between steps.
    """
    times = work.step_times
    start, launch = times.start[:, item], times.launch[:, item]
    inside = np.clip(start - launch, 0, times.call[:, item])
    ready = launch + inside
    for waited_item in waits_for:
        ready = np.maximum(ready, times.start[:, waited_item] + times.duration[:, waited_item])
    return round(float(np.median(inside))), round(float(np.median(np.maximum(start - ready, 0))))


def _find_engine_predecessors(work: TypicalStep) -> dict[int, int]:
    """Return the previous copy in the same direction for each direct host-device copy.

    Only if it never started before the previous one ended: an engine does one copy at a time.
    """
    previous: dict[int, int] = {}
    last: dict[str, int] = {}
    times = work.step_times
    for index, item in enumerate(work.items):
        direction = next((mark for mark in ("HtoD", "DtoH") if mark in item.name), None)
        if item.kind != "memcpy" or direction is None or work.group[index] != NO_GROUP:
            continue
        before = last.get(direction)
        if before is not None and bool(
            (times.start[:, index] >= times.start[:, before] + times.duration[:, before]).all()
        ):
            previous[index] = before
        last[direction] = index
    return previous


def _scale_branch_delays(
    work: TypicalStep, scale: float, members: dict[int, list[int]]
) -> list[int]:
    """Return the delays of nodes.

    A branch without predecessors that starts during the launch call waits for that call, so its
    delay is scaled as CPU time.
    """
    in_call = work.start < work.launch + work.call
    return [
        round(delay * scale) if is_early and item not in members else delay
        for item, (delay, is_early) in enumerate(
            zip(work.delay.tolist(), in_call.tolist(), strict=True)
        )
    ]


def _group_predecessors(work: TypicalStep) -> dict[int, list[int]]:
    sources: dict[int, list[int]] = {}
    groups = work.group.tolist()
    for source, target in work.edges.tolist():
        if groups[source] == groups[target] != NO_GROUP:
            sources.setdefault(target, []).append(source)
    return sources


def _measure_gaps(start: Ints, end: Ints, order: Ints, waits: Ints) -> tuple[Ints, Ints]:
    """Return the idle time before each item, and its part in a synchronising call."""
    busy_until = np.concatenate(([0], np.maximum.accumulate(end[order])[:-1]))
    busy_until = np.maximum(busy_until, 0)
    idle = np.zeros(len(start), dtype=np.int64)
    blocked_ns = np.zeros(len(start), dtype=np.int64)
    idle[order] = np.maximum(start[order] - busy_until, 0)
    for begin, stop in waits.tolist():
        inside = np.minimum(start[order], stop) - np.maximum(busy_until, begin)
        blocked_ns[order] += np.maximum(inside, 0)
    return idle, np.minimum(blocked_ns, idle)
