"""When each node of a replay would run: behind those it waits for, and sharing the GPU with others.

Kernels that run at the same time share the GPU: as long as they ask for no more than all of it,
each runs as if alone, and beyond that all slow down alike (processor sharing).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.arrays import Floats, Ints

_DONE_NS = 1e-6
_NEVER = float("inf")


@dataclass(frozen=True)
class ReplaySchedule:
    """``total_ns`` is from the begin of the first node to the end of the last. ``path`` are the
    items along the longest way to it, in order; ``slowed_ns`` is by how much sharing lengthened
    those."""

    total_ns: float
    path: Ints
    slowed_ns: float


def replay_schedule(
    duration: Floats,
    cost: Floats,
    before: Sequence[Sequence[int]],
    demand: Floats,
    engine: Sequence[int],
) -> ReplaySchedule:
    """The replay of items in an order in which each comes after those ``before`` it.

    ``duration`` (n,) is what an item takes alone, ``cost`` (n,) what passes between the end of the
    last item before it and its begin, in ns; ``demand`` (n,) the share that it asks for of its
    ``engine`` (n,), a small number: the multiprocessors, or those that copy.
    """
    count = len(duration)
    if not count:
        return ReplaySchedule(0.0, np.zeros(0, dtype=np.int64), 0.0)
    if all(
        len(sources) <= 1 and (not sources or sources[0] == index - 1)
        for index, sources in enumerate(before)
    ):
        total = float(duration.sum() + cost[1:].sum())
        if sum(not sources for sources in before) == 1:
            return ReplaySchedule(total, np.arange(count, dtype=np.int64), 0.0)
    return _shared(duration.tolist(), cost.tolist(), before, demand.tolist(), engine)


def _shared(
    duration: list[float],
    cost: list[float],
    before: Sequence[Sequence[int]],
    demand: list[float],
    engine: Sequence[int],
) -> ReplaySchedule:
    count = len(duration)
    waiting = [len(set(sources)) for sources in before]
    followers: list[list[int]] = [[] for _ in range(count)]
    for item, sources in enumerate(before):
        for source in set(sources):
            followers[source].append(item)
    begin, end = [0.0] * count, [0.0] * count
    last = [-1] * count
    ready = [(0.0, item) for item in range(count) if not waiting[item]]
    heapq.heapify(ready)
    running: dict[int, float] = {}
    now = 0.0
    engines = max(engine) + 1
    while ready or running:
        wanted = [0.0] * engines
        for item in running:
            wanted[engine[item]] += demand[item]
        slow = [max(share, 1.0) for share in wanted]
        left = min(
            (left_ns * slow[engine[item]] for item, left_ns in running.items()), default=_NEVER
        )
        next_end = now + left
        next_begin = ready[0][0] if ready else _NEVER
        then = min(next_end, next_begin)
        for item in running:
            running[item] -= (then - now) / slow[engine[item]]
        now = then
        if next_begin <= next_end:
            _, item = heapq.heappop(ready)
            begin[item] = now
            running[item] = duration[item]
            continue
        for item in [item for item, left_ns in running.items() if left_ns <= _DONE_NS]:
            del running[item]
            end[item] = now
            for follower in followers[item]:
                waiting[follower] -= 1
                # The last to end is what it waited for.
                last[follower] = item
                if not waiting[follower]:
                    heapq.heappush(ready, (now + cost[follower], follower))
    item = int(np.argmax(end))
    total = end[item]
    path = []
    while item >= 0:
        path.append(item)
        item = last[item]
    path.reverse()
    slowed = sum(end[item] - begin[item] - duration[item] for item in path)
    return ReplaySchedule(total, np.array(path, dtype=np.int64), slowed)
