"""The critical path of a graph of dependent pieces of work, the slack of each, and what any number
of streams would make of it.

Definitions: the critical path is the chain of dependent nodes whose durations sum to the most; no
schedule is shorter. Slack is by how much a node could take longer, or begin later, with the
critical path unchanged. Available concurrency is all work divided by the critical path (Brent's
bound). Schedules: list scheduling by the longest way to the end (Hu 1961; Graham 1969), which is
at most twice the best, and exact where the critical path is reached.
"""

from __future__ import annotations

import heapq

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints


class Dependencies(Struct, frozen=True):
    """Nodes 0..count-1 with edges, made ready for walking."""

    count: int
    """How many nodes there are."""
    after: list[list[int]]
    """For each node those that wait for it."""
    before: list[list[int]]
    """For each node those that it waits for."""
    order: list[int]
    """All nodes in a topological order."""

    @classmethod
    def of(cls, count: int, edges: Ints) -> Dependencies:
        """From edges (k, 2), source first, without cycles (ValueError if there is one)."""
        after = _lists(count, edges[:, 0], edges[:, 1])
        before = _lists(count, edges[:, 1], edges[:, 0])
        if len(edges) == 0 or bool(np.all(edges[:, 0] < edges[:, 1])):
            return cls(count, after, before, list(range(count)))
        waiting = [len(sources) for sources in before]
        order = [node for node in range(count) if not waiting[node]]
        for node in order:
            for follower in after[node]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    order.append(follower)
        if len(order) < count:
            raise ValueError("the edges of the graph have a cycle")
        return cls(count, after, before, order)


class CriticalPath(Struct, frozen=True):
    """The longest chain of dependent nodes, and what it leaves to the others; times in ns."""

    nodes: tuple[int, ...]
    """The nodes of the path, in order."""
    length: int
    """The sum of their durations."""
    earliest: Ints
    """The earliest start of each node."""
    rest: Ints
    """Each node's own duration and the longest way after it."""
    slack: Ints
    """By how much each node could begin later with the critical path unchanged."""


class StreamSchedule(Struct, frozen=True):
    """How long a graph takes on ``streams`` streams, in ns."""

    streams: int
    length: int


def critical_path(depend: Dependencies, duration: Ints) -> CriticalPath:
    """The critical path by ``duration`` (count,) in ns, 0 for nodes that take no time.

    Of several as long it is the one through the nodes of the lowest indices.
    """
    took: list[int] = duration.tolist()
    earliest = [0] * depend.count
    for node in depend.order:
        end = earliest[node] + took[node]
        for follower in depend.after[node]:
            earliest[follower] = max(earliest[follower], end)
    rest = [0] * depend.count
    for node in reversed(depend.order):
        longest = 0
        for follower in depend.after[node]:
            longest = max(longest, rest[follower])
        rest[node] = took[node] + longest
    length = max(rest, default=0)
    starts = np.array(earliest, dtype=np.int64)
    left = np.array(rest, dtype=np.int64)
    return CriticalPath(
        nodes=_path(depend, took, rest, length),
        length=length,
        earliest=starts,
        rest=left,
        slack=length - starts - left,
    )


def _path(depend: Dependencies, took: list[int], rest: list[int], length: int) -> tuple[int, ...]:
    if not depend.count:
        return ()
    node = next(
        candidate
        for candidate in range(depend.count)
        if rest[candidate] == length and not depend.before[candidate]
    )
    path = [node]
    while depend.after[node]:
        wanted = rest[node] - took[node]
        node = min(candidate for candidate in depend.after[node] if rest[candidate] == wanted)
        path.append(node)
    return tuple(path)


def list_schedule(
    depend: Dependencies, duration: Ints, path: CriticalPath, streams: int
) -> StreamSchedule:
    """List scheduling on ``streams`` streams: whenever one is free it takes, of what may begin, the
    node with the longest way to the end."""
    took: list[int] = duration.tolist()
    rest: list[int] = path.rest.tolist()
    waiting = [len(sources) for sources in depend.before]
    ready = [(-rest[node], node) for node in range(depend.count) if not waiting[node]]
    heapq.heapify(ready)
    running: list[tuple[int, int]] = []
    now = 0
    while ready or running:
        while ready and len(running) < streams:
            _, node = heapq.heappop(ready)
            heapq.heappush(running, (now + took[node], node))
        now, node = heapq.heappop(running)
        for follower in depend.after[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (-rest[follower], follower))
    return StreamSchedule(streams, now)


def stream_schedules(
    depend: Dependencies, duration: Ints, path: CriticalPath
) -> tuple[StreamSchedule, ...]:
    """Schedules on 1, 2, 4, ... streams up to the fewest on which list scheduling reaches the
    critical path, that one included; ascending."""
    single = StreamSchedule(1, int(duration.sum()))
    if single.length <= path.length:
        return (single,)
    most = _most_at_once(path.earliest, duration)
    schedules = {1: single}
    low, high = 1, most
    streams = 2
    while streams < most:
        schedules[streams] = list_schedule(depend, duration, path, streams)
        if schedules[streams].length <= path.length:
            high = streams
            break
        low, streams = streams, streams * 2
    while high - low > 1:
        middle = (low + high) // 2
        schedules[middle] = list_schedule(depend, duration, path, middle)
        if schedules[middle].length <= path.length:
            high = middle
        else:
            low = middle
    schedules[high] = StreamSchedule(high, path.length)
    return tuple(schedules[streams] for streams in sorted(schedules) if streams <= high)


def _most_at_once(start: Ints, duration: Ints) -> int:
    """The most nodes that run at once when each begins as early as it can."""
    runs = duration > 0
    begins, ends = np.sort(start[runs]), np.sort((start + duration)[runs])
    ended = np.searchsorted(ends, begins, "right")
    return int((np.arange(1, len(begins) + 1) - ended).max(initial=1))


def _lists(count: int, by: Ints, values: Ints) -> list[list[int]]:
    order = np.lexsort((values, by))
    ordered: list[int] = values[order].tolist()
    first: list[int] = np.searchsorted(by[order], np.arange(count + 1)).tolist()
    return [ordered[first[index] : first[index + 1]] for index in range(count)]
