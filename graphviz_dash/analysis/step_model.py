"""A step of the clean pass as the traced pass explains it: when each piece of work would begin and
end if the CPU were as fast as it was without the profiler.

Method. The profiler slows the calls of the CPU and leaves the work of the GPU nearly as it is. So
instants of the CPU (a launching call, a synchronising one) are those of the traced pass, scaled by
one factor: clean launch CPU time over the time that the traced step took to its final
synchronisation. Work begins when its launch has been made and what it must wait for has ended (the
work before it on its stream; in a graph, what its edges say), and after the same delay that the
trace shows there; between the nodes of one graph launch the least delay of all steps, because the
profiler lengthens these. The step ends when the CPU has returned and all work is done, plus the
least time that any traced step of the experiment took to return from its final synchronisation: the
profiler writes its buffers there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.lanes import Ints
from graphviz_dash.analysis.steps import exclusive_ns
from graphviz_dash.analysis.work import NO_GROUP, StepWork


@dataclass(frozen=True)
class StepModel:
    """The modelled clean step; arrays of shape (items,), in ns.

    ``busy`` is what each item adds to the time in which the GPU works: its duration, less what
    others that began before it cover. ``waiting`` is the idle time before it in which its launch
    was missing, ``blocked`` that in which the CPU waited in a synchronising call. ``after_ns`` is
    the time that the CPU needed after the last work had ended, ``return_ns`` the return from the
    final synchronisation. All of them together are ``end_ns``, the modelled step time. ``scale`` is
    the factor of the CPU's instants.
    """

    start: Ints
    end: Ints
    busy: Ints
    waiting: Ints
    blocked: Ints
    after_ns: int
    return_ns: int
    end_ns: int
    scale: float


def model_step(
    work: StepWork, launch_cpu_ns: float, return_ns: int, depends: list[list[int]] | None = None
) -> StepModel:
    """The model of a clean step that returned after ``launch_cpu_ns`` (its median, clean).

    ``depends``: for each item others that it must wait for, besides those before it on its stream.
    """
    scale = launch_cpu_ns / work.cpu_ns if work.cpu_ns else 1.0
    start, end = _begin_and_end(work, scale, depends)
    order = np.argsort(start, kind="stable")
    busy = np.zeros(len(start), dtype=np.int64)
    busy[order] = exclusive_ns(start[order], end[order])
    idle, blocked = _gaps(start, end, order, np.rint(work.waits * scale).astype(np.int64))
    last = int(end.max())
    returned = max(last, round(launch_cpu_ns))
    return StepModel(
        start=start,
        end=end,
        busy=busy,
        waiting=idle - blocked,
        blocked=blocked,
        after_ns=returned - last,
        return_ns=return_ns,
        end_ns=returned + return_ns,
        scale=scale,
    )


def _begin_and_end(
    work: StepWork, scale: float, depends: list[list[int]] | None
) -> tuple[Ints, Ints]:
    launch, call = work.launch.tolist(), work.call.tolist()
    traced, took = work.start.tolist(), work.duration.tolist()
    lanes, groups = work.lane.tolist(), work.group.tolist()
    delays, inside_group = work.delay.tolist(), _inside_groups(work)
    count = len(launch)
    begins, ends = [0] * count, [0] * count
    last_of_lane: dict[int, int] = {}
    everything: list[int] = []
    place = 0
    while place < count:
        group = groups[place]
        stop = place + 1
        while group != NO_GROUP and stop < count and groups[stop] == group:
            stop += 1
        first = min(range(place, stop), key=traced.__getitem__)
        # A graph begins when all work before it on its stream has ended, whatever its branches do.
        waits_for = everything[-1:] if group != NO_GROUP else list((depends or [[]] * count)[place])
        before = last_of_lane.get(lanes[first])
        if before is not None:
            waits_for.append(before)
        inside = min(max(traced[first] - launch[first], 0), call[first])
        launched = launch[first] + inside
        ready = max((traced[one] + took[one] for one in waits_for), default=0)
        delay = max(traced[first] - max(launched, ready), 0)
        begin = max([round(launched * scale), *(ends[one] for one in waits_for)]) + delay
        for one in sorted(range(place, stop), key=traced.__getitem__):
            before_it = [ends[other] for other in inside_group.get(one, ())]
            begins[one] = max(before_it, default=begin) + (delays[one] if one != first else 0)
            ends[one] = begins[one] + took[one]
            last_of_lane[lanes[one]] = max(
                last_of_lane.get(lanes[one], one), one, key=ends.__getitem__
            )
        latest = max(range(place, stop), key=ends.__getitem__)
        if not everything or ends[latest] > ends[everything[-1]]:
            everything.append(latest)
        if group != NO_GROUP:
            # What comes after a graph waits for all of it.
            last_of_lane = dict.fromkeys(set(lanes), everything[-1])
        place = stop
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)


def _inside_groups(work: StepWork) -> dict[int, list[int]]:
    """For each item those before it in the same graph launch."""
    found: dict[int, list[int]] = {}
    groups = work.group.tolist()
    for source, target in work.edges.tolist():
        if groups[source] == groups[target] != NO_GROUP:
            found.setdefault(target, []).append(source)
    return found


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
