"""Critical path, slack and stream schedules of a graph of dependent work.

Slack is the delay of a node that leaves the critical path unchanged. Available concurrency is total
work divided by the critical path (Brent's bound). Schedules use list scheduling by longest
remaining path (Hu 1961; Graham 1969), at most twice the optimum.
"""

from __future__ import annotations

import heapq

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints


class Dependencies(Struct, frozen=True):
    """Nodes 0..count-1 with edges, prepared for traversal."""

    count: int
    successors: list[list[int]]
    predecessors: list[list[int]]
    order: list[int]
    """Nodes in topological order."""

    @classmethod
    def from_edges(cls, count: int, edges: Ints) -> Dependencies:
        """Build from edges (k, 2), source first; raises ValueError if there is a cycle."""
        after = _group_values(count, edges[:, 0], edges[:, 1])
        before = _group_values(count, edges[:, 1], edges[:, 0])
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
    """Longest chain of dependent nodes, and the slack of the others; times in ns."""

    nodes: tuple[int, ...]
    """Nodes of the path, in order."""
    length: int
    """Sum of their durations."""
    earliest: Ints
    remaining: Ints
    """Duration of each node plus the longest path after it."""
    slack: Ints
    """Possible delay of each node with the critical path unchanged."""


class StreamSchedule(Struct, frozen=True):
    """Duration of a graph on ``streams`` streams, in ns."""

    streams: int
    length: int


def find_critical_path(dependencies: Dependencies, duration: Ints) -> CriticalPath:
    """Find the critical path for ``duration`` (count,) in ns; lowest indices break ties."""
    durations: list[int] = duration.tolist()
    earliest_start = [0] * dependencies.count
    for node in dependencies.order:
        end = earliest_start[node] + durations[node]
        for follower in dependencies.successors[node]:
            earliest_start[follower] = max(earliest_start[follower], end)
    remaining_ns = [0] * dependencies.count
    for node in reversed(dependencies.order):
        longest_ns = 0
        for follower in dependencies.successors[node]:
            longest_ns = max(longest_ns, remaining_ns[follower])
        remaining_ns[node] = durations[node] + longest_ns
    length = max(remaining_ns, default=0)
    starts = np.array(earliest_start, dtype=np.int64)
    remaining = np.array(remaining_ns, dtype=np.int64)
    return CriticalPath(
        nodes=_trace_path(dependencies, durations, remaining_ns, length),
        length=length,
        earliest=starts,
        remaining=remaining,
        slack=length - starts - remaining,
    )


def _trace_path(
    dependencies: Dependencies, durations: list[int], remaining: list[int], length: int
) -> tuple[int, ...]:
    if not dependencies.count:
        return ()
    node = next(
        candidate
        for candidate in range(dependencies.count)
        if remaining[candidate] == length and not dependencies.predecessors[candidate]
    )
    path = [node]
    while dependencies.successors[node]:
        next_remaining = remaining[node] - durations[node]
        node = min(
            candidate
            for candidate in dependencies.successors[node]
            if remaining[candidate] == next_remaining
        )
        path.append(node)
    return tuple(path)


def simulate_schedule(
    dependencies: Dependencies, duration: Ints, path: CriticalPath, streams: int
) -> StreamSchedule:
    """Simulate list scheduling; of the ready nodes, the longest remaining path runs first."""
    durations: list[int] = duration.tolist()
    remaining: list[int] = path.remaining.tolist()
    pending_counts = [len(sources) for sources in dependencies.predecessors]
    ready = [
        (-remaining[node], node) for node in range(dependencies.count) if not pending_counts[node]
    ]
    heapq.heapify(ready)
    running: list[tuple[int, int]] = []
    now = 0
    while ready or running:
        while ready and len(running) < streams:
            _, node = heapq.heappop(ready)
            heapq.heappush(running, (now + durations[node], node))
        now, node = heapq.heappop(running)
        for follower in dependencies.successors[node]:
            pending_counts[follower] -= 1
            if not pending_counts[follower]:
                heapq.heappush(ready, (-remaining[follower], follower))
    return StreamSchedule(streams, now)


def compute_stream_schedules(
    dependencies: Dependencies, duration: Ints, path: CriticalPath
) -> tuple[StreamSchedule, ...]:
    """Schedule on 1, 2, 4, ... streams, up to the fewest that reach the critical path;
    ascending."""
    single = StreamSchedule(1, int(duration.sum()))
    if single.length <= path.length:
        return (single,)
    max_streams = _compute_max_concurrency(path.earliest, duration)
    schedules = {1: single}
    low, high = 1, max_streams
    streams = 2
    while streams < max_streams:
        schedules[streams] = simulate_schedule(dependencies, duration, path, streams)
        if schedules[streams].length <= path.length:
            high = streams
            break
        low, streams = streams, streams * 2
    while high - low > 1:
        middle = (low + high) // 2
        schedules[middle] = simulate_schedule(dependencies, duration, path, middle)
        if schedules[middle].length <= path.length:
            high = middle
        else:
            low = middle
    schedules[high] = StreamSchedule(high, path.length)
    return tuple(schedules[streams] for streams in sorted(schedules) if streams <= high)


def _compute_max_concurrency(start: Ints, duration: Ints) -> int:
    is_running = duration > 0
    begins, ends = np.sort(start[is_running]), np.sort((start + duration)[is_running])
    ended_counts = np.searchsorted(ends, begins, "right")
    return int((np.arange(1, len(begins) + 1) - ended_counts).max(initial=1))


def _group_values(count: int, keys: Ints, values: Ints) -> list[list[int]]:
    order = np.lexsort((values, keys))
    sorted_values: list[int] = values[order].tolist()
    first: list[int] = np.searchsorted(keys[order], np.arange(count + 1)).tolist()
    return [sorted_values[first[index] : first[index + 1]] for index in range(count)]
