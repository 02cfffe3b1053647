"""A step of the clean pass as the traced pass explains it: when each piece of work would begin and
end if the CPU were as fast as it was without the profiler.

Method. The profiler slows the calls of the CPU and leaves the work of the GPU nearly as it is. So
instants of the CPU (a launching call, a synchronising one) are those of the traced pass, scaled by
one factor: clean launch CPU time over the time that the traced step took to its final
synchronisation. Work begins when its launch has been made and what it must wait for has ended (the
work before it on its stream; in a graph, what its edges say), and after the same delay that the
trace shows there; between the nodes of one graph launch the least delay of all steps, because the
profiler lengthens these. The branches of a graph begin one after another while its launching call
comes to them, which counts as the CPU's. A copy between host and device waits for the one before it
in that direction where it always did. A collective of several ranks transfers for as long as on the
rank that waits least, and begins to when the last rank has arrived: the models of all ranks run
side by side, and begin a step together, as synchronised ranks do. The step ends when the CPU has
returned and all work is done, plus the least time that any traced step of the experiment took to
return from its final synchronisation: the profiler writes its buffers there.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.ranks.waits import ALONE
from graphviz_dash.analysis.step_comparison.typical_step import NO_GROUP, TypicalStep
from graphviz_dash.analysis.trace.lanes import merge_busy
from graphviz_dash.analysis.trace.steps import exclusive_ns

_Arrival: TypeAlias = tuple[int, int, int]
"""The number of a collective, its place among the items, and when it begins."""

_Model: TypeAlias = Generator[_Arrival, int, tuple[Ints, Ints, Ints]]


class StepModel(Struct, frozen=True):
    """The modelled clean step; arrays of shape (items,), in ns. All of its times together are
    ``end_ns``."""

    start: Ints
    """When each item begins, since the step's begin."""
    end: Ints
    """When each item ends, since the step's begin."""
    busy: Ints
    """What each item adds to the time in which the GPU works: its duration without its wait for
    other ranks, less what others that began before it cover."""
    ranks: Ints
    """What its wait for other ranks adds, in which nothing works."""
    waiting: Ints
    """The idle time before it in which its launch was missing."""
    blocked: Ints
    """The idle time before it in which the CPU waited in a synchronising call."""
    after_ns: int
    """The time that the CPU needed after the last work had ended, in ns."""
    return_ns: int
    """The return from the final synchronisation, in ns."""
    end_ns: int
    """The modelled step time, in ns."""
    scale: float
    """The factor by which the traced instants of the CPU were scaled."""


def model_step(
    work: TypicalStep,
    launch_cpu_ns: float,
    return_ns: int,
    depends: list[list[int]] | None = None,
    last: Mapping[int, int] | None = None,
) -> StepModel:
    """The model of a clean step that returned after ``launch_cpu_ns`` (its median, clean).

    ``depends``: for each item others that it must wait for, besides those before it on its stream.
    ``last``: when the last rank arrives at each collective (:func:`last_arrivals`); without it a
    collective waits as long as it did in the trace.
    """
    scale = _scale(work, launch_cpu_ns)
    start, end, rank_wait = _run(_begin_and_end(work, scale, depends), work, last)
    order = np.argsort(start, kind="stable")
    arrived = start + rank_wait
    busy, ranks = _working(arrived, end), _only_waiting(start, arrived, end)
    idle, blocked = _gaps(start, end, order, np.rint(work.waits * scale).astype(np.int64))
    done = int(end.max())
    returned = max(done, round(launch_cpu_ns))
    return StepModel(
        start=start,
        end=end,
        busy=busy,
        ranks=ranks,
        waiting=idle - blocked,
        blocked=blocked,
        after_ns=returned - done,
        return_ns=return_ns,
        end_ns=returned + return_ns,
        scale=scale,
    )


def last_arrivals(ranks: Sequence[tuple[TypicalStep, float]]) -> dict[int, int]:
    """When the last of the ranks arrives at each collective of all of them, by its number, in ns
    since their steps began together; for each rank its work and its clean launch CPU time in ns."""
    models = [_begin_and_end(work, _scale(work, launch), None) for work, launch in ranks]
    arrived = [next(model, None) for model in models]
    latest: dict[int, int] = {}
    while waiting := [arrival for arrival in arrived if arrival is not None]:
        # All are at the same one, unless their steps differ: then the first goes on.
        number = min(meeting for meeting, _, _ in waiting)
        latest[number] = max(begin for meeting, _, begin in waiting if meeting == number)
        for rank, model in enumerate(models):
            at = arrived[rank]
            if at is not None and at[0] == number:
                arrived[rank] = _send(model, latest[number] - at[2])
    return latest


def _scale(work: TypicalStep, launch_cpu_ns: float) -> float:
    return launch_cpu_ns / work.cpu_ns if work.cpu_ns else 1.0


def _send(model: _Model, wait: int) -> _Arrival | None:
    """Lets a model go on after a wait, to its next collective; None at its end."""
    try:
        return model.send(wait)
    except StopIteration:
        return None


def _run(
    model: _Model, work: TypicalStep, last: Mapping[int, int] | None
) -> tuple[Ints, Ints, Ints]:
    """A model to its end: start, end, and wait for other ranks of each item."""
    wait: int | None = None
    while True:
        try:
            number, item, begin = next(model) if wait is None else model.send(wait)
        except StopIteration as done:
            times: tuple[Ints, Ints, Ints] = done.value
            return times
        wait = int(work.rank_wait[item]) if last is None else max(last.get(number, 0) - begin, 0)


def _working(start: Ints, end: Ints) -> Ints:
    """What each item adds to the union of those that begin before it."""
    order = np.argsort(start, kind="stable")
    added = np.zeros(len(start), dtype=np.int64)
    added[order] = exclusive_ns(start[order], end[order])
    return added


def _only_waiting(start: Ints, arrived: Ints, end: Ints) -> Ints:
    """What each wait, from ``start`` to ``arrived``, adds to the union of all work (``arrived`` to
    ``end``) and of the waits before it."""
    added = np.zeros(len(start), dtype=np.int64)
    waits = np.flatnonzero(arrived > start)
    waits = waits[np.argsort(start[waits], kind="stable")]
    if len(waits):
        work = merge_busy(np.zeros(len(start), dtype=np.int64), arrived, end)
        before = np.maximum.accumulate(np.concatenate(([0], arrived[waits][:-1])))
        begin = np.minimum(np.maximum(start[waits], before), arrived[waits])
        working = work.busy_before(0, arrived[waits]) - work.busy_before(0, begin)
        added[waits] = arrived[waits] - begin - working
    return added


def _begin_and_end(work: TypicalStep, scale: float, depends: list[list[int]] | None) -> _Model:
    """When each item begins and ends, and how long it waits for other ranks: at each collective
    yields its number, its place and when it begins, and is sent its wait."""
    takes, meetings = (work.duration - work.rank_wait).tolist(), work.meeting.tolist()
    launch, traced = work.launch.tolist(), work.start.tolist()
    lanes, groups = work.lane.tolist(), work.group.tolist()
    inside_group, engines = _inside_groups(work), _same_engine(work)
    delays = _delays_of_branches(work, scale, inside_group)
    count = len(launch)
    begins, ends, waits = [0] * count, [0] * count, [0] * count
    last_of_lane: dict[int, int] = {}
    everything: list[int] = []
    leading = 0
    while leading < count:
        group = groups[leading]
        stop = leading + 1
        while group != NO_GROUP and stop < count and groups[stop] == group:
            stop += 1
        first = min(range(leading, stop), key=traced.__getitem__)
        # A graph begins when all work before it on its stream has ended, whatever its branches do.
        waits_for = (
            everything[-1:] if group != NO_GROUP else list((depends or [[]] * count)[leading])
        )
        before = last_of_lane.get(lanes[first])
        if before is not None:
            waits_for.append(before)
        if leading in engines:
            waits_for.append(engines[leading])
        inside, delay = _before(work, first, waits_for)
        launched = round((launch[first] + inside) * scale)
        begin = max([launched, *(ends[earlier] for earlier in waits_for)]) + delay
        for item in sorted(range(leading, stop), key=traced.__getitem__):
            before_it = [ends[other] for other in inside_group.get(item, ())]
            begins[item] = max(before_it, default=begin) + (delays[item] if item != first else 0)
            if meetings[item] != ALONE:
                waits[item] = yield meetings[item], item, begins[item]
            ends[item] = begins[item] + waits[item] + takes[item]
            last_of_lane[lanes[item]] = max(
                last_of_lane.get(lanes[item], item), item, key=ends.__getitem__
            )
        latest = max(range(leading, stop), key=ends.__getitem__)
        if not everything or ends[latest] > ends[everything[-1]]:
            everything.append(latest)
        if group != NO_GROUP:
            # What comes after a graph waits for all of it.
            last_of_lane = dict.fromkeys(set(lanes), everything[-1])
        leading = stop
    return (
        np.array(begins, dtype=np.int64),
        np.array(ends, dtype=np.int64),
        np.array(waits, dtype=np.int64),
    )


def _before(work: TypicalStep, item: int, waits_for: list[int]) -> tuple[int, int]:
    """How far into its launching call an item was launched, and how long after that, and after all
    of ``waits_for`` had ended, it began: medians over the steps, of each by itself, because what
    was the last to be ready differs from one to another."""
    each = work.each
    start, launch = each.start[:, item], each.launch[:, item]
    inside = np.clip(start - launch, 0, each.call[:, item])
    ready = launch + inside
    for earlier in waits_for:
        ready = np.maximum(ready, each.start[:, earlier] + each.duration[:, earlier])
    return round(float(np.median(inside))), round(float(np.median(np.maximum(start - ready, 0))))


def _same_engine(work: TypicalStep) -> dict[int, int]:
    """For each copy between host and device, launched by itself, the one before it in the same
    direction, if it never began before that had ended: one engine does one copy at a time."""
    previous: dict[int, int] = {}
    last: dict[str, int] = {}
    each = work.each
    for index, item in enumerate(work.items):
        direction = next((mark for mark in ("HtoD", "DtoH") if mark in item.name), None)
        if item.kind != "memcpy" or direction is None or work.group[index] != NO_GROUP:
            continue
        before = last.get(direction)
        if before is not None and bool(
            (each.start[:, index] >= each.start[:, before] + each.duration[:, before]).all()
        ):
            previous[index] = before
        last[direction] = index
    return previous


def _delays_of_branches(
    work: TypicalStep, scale: float, inside_group: dict[int, list[int]]
) -> list[int]:
    """The delays of nodes. A branch that has nothing before it in its graph launch, and begins
    before the launching call has returned, begins as late as that call comes to it: an instant of
    the CPU, which is scaled."""
    in_call = work.start < work.launch + work.call
    return [
        round(delay * scale) if early and item not in inside_group else delay
        for item, (delay, early) in enumerate(
            zip(work.delay.tolist(), in_call.tolist(), strict=True)
        )
    ]


def _inside_groups(work: TypicalStep) -> dict[int, list[int]]:
    """For each item those before it in the same graph launch."""
    sources: dict[int, list[int]] = {}
    groups = work.group.tolist()
    for source, target in work.edges.tolist():
        if groups[source] == groups[target] != NO_GROUP:
            sources.setdefault(target, []).append(source)
    return sources


def _gaps(start: Ints, end: Ints, order: Ints, waits: Ints) -> tuple[Ints, Ints]:
    """Idle time before each item, and how much of it lies in a synchronising call."""
    reach = np.concatenate(([0], np.maximum.accumulate(end[order])[:-1]))
    reach = np.maximum(reach, 0)
    idle = np.zeros(len(start), dtype=np.int64)
    blocked = np.zeros(len(start), dtype=np.int64)
    idle[order] = np.maximum(start[order] - reach, 0)
    for begin, stop in waits.tolist():
        inside = np.minimum(start[order], stop) - np.maximum(reach, begin)
        blocked[order] += np.maximum(inside, 0)
    return idle, np.minimum(blocked, idle)
