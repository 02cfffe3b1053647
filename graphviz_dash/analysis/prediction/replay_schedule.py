"""When each node of a replay would run: behind those it waits for, and sharing the GPU with others.

Kernels that run at the same time share the GPU: as long as they ask for no more than all of it,
each runs as if alone, and beyond that all slow down alike (processor sharing).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.sample_statistics import Floats

_DONE_NS = 1e-6
_NEVER = float("inf")


@dataclass(frozen=True)
class Schedule:
    """``total_ns`` is from the begin of the first node to the end of the last. ``path`` are the
    items along the longest way to it, in order; ``slowed_ns`` is by how much sharing lengthened
    those."""

    total_ns: float
    path: Ints
    slowed_ns: float


def schedule(
    duration: Floats,
    cost: Floats,
    before: Sequence[Sequence[int]],
    demand: Floats,
    engine: Sequence[int],
) -> Schedule:
    """The replay of items in an order in which each comes after those ``before`` it.

    ``duration`` (n,) is what an item takes alone, ``cost`` (n,) what passes between the end of the
    last item before it and its begin, in ns; ``demand`` (n,) the share that it asks for of its
    ``engine`` (n,), a small number: the multiprocessors, or those that copy.
    """
    count = len(duration)
    if not count:
        return Schedule(0.0, np.zeros(0, dtype=np.int64), 0.0)
    if all(len(one) <= 1 and (not one or one[0] == place - 1) for place, one in enumerate(before)):
        total = float(duration.sum() + cost[1:].sum())
        if sum(not one for one in before) == 1:
            return Schedule(total, np.arange(count, dtype=np.int64), 0.0)
    return _shared(duration.tolist(), cost.tolist(), before, demand.tolist(), engine)


def _shared(
    duration: list[float],
    cost: list[float],
    before: Sequence[Sequence[int]],
    demand: list[float],
    engine: Sequence[int],
) -> Schedule:
    count = len(duration)
    waiting = [len(set(one)) for one in before]
    followers: list[list[int]] = [[] for _ in range(count)]
    for place, sources in enumerate(before):
        for source in set(sources):
            followers[source].append(place)
    begin, end = [0.0] * count, [0.0] * count
    last = [-1] * count
    ready = [(0.0, place) for place in range(count) if not waiting[place]]
    heapq.heapify(ready)
    running: dict[int, float] = {}
    now = 0.0
    engines = max(engine) + 1
    while ready or running:
        wanted = [0.0] * engines
        for one in running:
            wanted[engine[one]] += demand[one]
        slow = [max(share, 1.0) for share in wanted]
        left = min((time * slow[engine[one]] for one, time in running.items()), default=_NEVER)
        next_end = now + left
        next_begin = ready[0][0] if ready else _NEVER
        then = min(next_end, next_begin)
        for one in running:
            running[one] -= (then - now) / slow[engine[one]]
        now = then
        if next_begin <= next_end:
            _, place = heapq.heappop(ready)
            begin[place] = now
            running[place] = duration[place]
            continue
        for place in [one for one, time in running.items() if time <= _DONE_NS]:
            del running[place]
            end[place] = now
            for one in followers[place]:
                waiting[one] -= 1
                # The last to end is what it waited for.
                last[one] = place
                if not waiting[one]:
                    heapq.heappush(ready, (now + cost[one], one))
    place = int(np.argmax(end))
    total = end[place]
    path = []
    while place >= 0:
        path.append(place)
        place = last[place]
    path.reverse()
    slowed = sum(end[one] - begin[one] - duration[one] for one in path)
    return Schedule(total, np.array(path, dtype=np.int64), slowed)
