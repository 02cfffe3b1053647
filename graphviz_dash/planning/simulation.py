"""When each operation would run: behind those it waits for, and sharing the GPU with others.

Operations that run at the same time share their engine: as long as they ask for no more than all of
it, each runs as if alone. Beyond that none gets more of it than another that has less than it asks
for (max-min fairness: Bertsekas and Gallager, Data Networks, 1987): the few blocks of a small
kernel find their place beside a large one, which gives way to them. And kernels that run beside
others take longer however little they ask for: each waits at its begin for what launches blocks,
and all share caches and memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from graphviz_dash.planning.operations import Operation

Wait: TypeAlias = tuple[int, float]
"""The index of an operation, and what passes after its end before the waiting one may begin, in
ns."""

_DONE_NS = 1e-6
_NEVER = float("inf")
_MOST_BESIDE = 3
"""More kernels beside one than these lengthen it no further."""


class Schedule(Struct, frozen=True):
    """When operations run; instants in ns since the begin of the first."""

    begin: tuple[float, ...]
    """When each operation begins; 0 for one without nodes."""
    end: tuple[float, ...]
    """When each has ended."""
    path: tuple[int, ...]
    """The operations along the longest way to the last end, in order: each waited for the one
    before."""
    slowed_ns: float
    """By how much sharing lengthened those."""

    @property
    def total_ns(self) -> float:
        """From the first begin to the last end."""
        return max(self.end, default=0.0)


def simulate(
    operations: Sequence[Operation],
    waits: Sequence[Sequence[Wait]],
    issue_ns: float = 0.0,
    crowding: float = 0.0,
    start_ns: float = 0.0,
) -> Schedule:
    """The run of ``operations``, each after all of its ``waits``, which must have no cycle; begins
    lie at least ``issue_ns`` apart for each node of the one before. A kernel that begins beside
    others takes ``start_ns`` longer; each kernel beside one, up to three, adds ``crowding`` to what
    it takes, or its lack of share does, whichever is more."""
    if _is_line(operations, waits, issue_ns):
        return _line(operations, waits)
    return _Run(operations, waits, issue_ns, crowding, start_ns).schedule()


def _is_line(
    operations: Sequence[Operation], waits: Sequence[Sequence[Wait]], issue_ns: float
) -> bool:
    """Whether each operation waits for the one before it and no other."""
    return (
        not issue_ns
        and all(operation.nodes for operation in operations)
        and all(
            [source for source, _ in sources] == ([index - 1] if index else [])
            for index, sources in enumerate(waits)
        )
    )


def _line(operations: Sequence[Operation], waits: Sequence[Sequence[Wait]]) -> Schedule:
    begin, end, now = [], [], 0.0
    for operation, sources in zip(operations, waits, strict=True):
        now += sum(delay for _, delay in sources)
        begin.append(now)
        now += operation.duration_ns
        end.append(now)
    return Schedule(tuple(begin), tuple(end), tuple(range(len(operations))), 0.0)


class _Run:
    """The state of a simulation at one instant."""

    def __init__(
        self,
        operations: Sequence[Operation],
        waits: Sequence[Sequence[Wait]],
        issue_ns: float,
        crowding: float,
        start_ns: float,
    ) -> None:
        count = len(operations)
        self._operations, self._issue_ns = operations, issue_ns
        self._crowding, self._start_ns = crowding, start_ns
        self._waiting = [len(sources) for sources in waits]
        self._followers: list[list[Wait]] = [[] for _ in range(count)]
        for index, sources in enumerate(waits):
            for source, delay in sources:
                self._followers[source].append((index, delay))
        self._begin, self._end = [0.0] * count, [0.0] * count
        self._may_begin = [0.0] * count
        self._last = [-1] * count
        """For each the operation that it waited for last."""
        self._ready = [
            (0.0, index)
            for index, operation in enumerate(operations)
            if operation.nodes and not self._waiting[index]
        ]
        self._left: dict[int, float] = {}
        """What is left of each running operation, in ns alone."""
        self._wanted: dict[int, float] = {}
        """What runs asks for of each engine."""

    def schedule(self) -> Schedule:
        now = launcher_free = 0.0
        while self._ready or self._left:
            speeds = self._speeds()
            left = min(
                (left_ns / speeds[index] for index, left_ns in self._left.items()), default=_NEVER
            )
            next_begin = max(self._ready[0][0], launcher_free) if self._ready else _NEVER
            then = min(now + left, next_begin)
            for index in self._left:
                self._left[index] -= (then - now) * speeds[index]
            begins = next_begin <= now + left
            now = then
            if begins:
                launcher_free = now + self._start(now) * self._issue_ns
            else:
                self._finish(now)
        return self._result()

    def _speeds(self) -> dict[int, float]:
        """How fast each running operation goes: 1 is as if alone."""
        speeds = {}
        for engine in self._wanted:
            running = [index for index in self._left if self._operations[index].engine == engine]
            beside = 0 if engine else min(len(running) - 1, _MOST_BESIDE)
            crowded = 1.0 / (1.0 + self._crowding * beside)
            running.sort(key=lambda index: self._operations[index].share)
            room = 1.0
            for rank, index in enumerate(running):
                share = self._operations[index].share
                given = min(share, room / (len(running) - rank))
                room -= given
                speeds[index] = min(given / share if share else 1.0, crowded)
        return speeds

    def _start(self, now: float) -> int:
        _, index = heapq.heappop(self._ready)
        operation = self._operations[index]
        self._begin[index] = now
        beside = not operation.engine and any(
            not self._operations[other].engine for other in self._left
        )
        self._left[index] = operation.duration_ns + beside * operation.nodes * self._start_ns
        self._wanted[operation.engine] = self._wanted.get(operation.engine, 0.0) + operation.share
        return operation.nodes

    def _finish(self, now: float) -> None:
        for index in [index for index, left_ns in self._left.items() if left_ns <= _DONE_NS]:
            del self._left[index]
            self._end[index] = now
            for follower, delay in self._followers[index]:
                self._waiting[follower] -= 1
                if now + delay >= self._may_begin[follower]:
                    self._may_begin[follower], self._last[follower] = now + delay, index
                if not self._waiting[follower]:
                    heapq.heappush(self._ready, (self._may_begin[follower], follower))
        # Summed anew, so that rounding never adds up.
        self._wanted = {}
        for index in self._left:
            operation = self._operations[index]
            self._wanted[operation.engine] = (
                self._wanted.get(operation.engine, 0.0) + operation.share
            )

    def _result(self) -> Schedule:
        path: list[int] = []
        index = max(range(len(self._end)), key=self._end.__getitem__, default=-1)
        while index >= 0:
            path.append(index)
            index = self._last[index]
        path.reverse()
        slowed = sum(
            self._end[index] - self._begin[index] - self._operations[index].duration_ns
            for index in path
        )
        return Schedule(tuple(self._begin), tuple(self._end), tuple(path), slowed)
