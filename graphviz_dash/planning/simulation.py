"""Simulation of operations with dependencies that share a GPU.

While total demand is at most the capacity of an engine, each operation runs at full speed. Above
that, capacity is shared fairly (max-min fairness: Bertsekas and Gallager, Data Networks, 1987), so
the few blocks of a small kernel run alongside a large one. Concurrent kernels are slower even at
low demand: each waits for the block scheduler at its start, and all share caches and memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from graphviz_dash.planning.operations import Operation

Wait: TypeAlias = tuple[int, float]
"""Index of an operation, and delay in ns after its end."""

_EPSILON_NS = 1e-6
_INFINITY = float("inf")
_MAX_CONCURRENT = 3
"""Concurrent kernels that slow a kernel."""


class Schedule(Struct, frozen=True):
    """Times in ns since the start of the first operation."""

    start: tuple[float, ...]
    """Start of each operation; 0 for operations without nodes."""
    end: tuple[float, ...]
    critical_path: tuple[int, ...]
    slowed_ns: float
    """Slowdown of the critical path by sharing."""

    @property
    def total_ns(self) -> float:
        """Time from the first start to the last end."""
        return max(self.end, default=0.0)


def simulate(
    operations: Sequence[Operation],
    waits: Sequence[Sequence[Wait]],
    issue_ns: float = 0.0,
    contention: float = 0.0,
    start_ns: float = 0.0,
) -> Schedule:
    """Simulate ``operations``, each after all of its ``waits``, which must be acyclic.

    Args:
        issue_ns: Minimum time between starts, per node of the previous operation.
        contention: Relative slowdown per concurrent kernel, up to three, if larger than that from a
            reduced share.
        start_ns: Additional time of a kernel that starts during others.
    """
    if _is_serial(operations, waits, issue_ns):
        return _simulate_serial(operations, waits)
    return _Simulation(operations, waits, issue_ns, contention, start_ns).run()


def _is_serial(
    operations: Sequence[Operation], waits: Sequence[Sequence[Wait]], issue_ns: float
) -> bool:
    """Test if each operation waits for exactly the previous one."""
    return (
        not issue_ns
        and all(operation.nodes for operation in operations)
        and all(
            [source for source, _ in sources] == ([index - 1] if index else [])
            for index, sources in enumerate(waits)
        )
    )


def _simulate_serial(operations: Sequence[Operation], waits: Sequence[Sequence[Wait]]) -> Schedule:
    start, end, now = [], [], 0.0
    for operation, sources in zip(operations, waits, strict=True):
        now += sum(delay for _, delay in sources)
        start.append(now)
        now += operation.duration_ns
        end.append(now)
    return Schedule(tuple(start), tuple(end), tuple(range(len(operations))), 0.0)


class _Simulation:
    """State of a simulation."""

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
        self._earliest_start = [0.0] * count
        self._last_wait = [-1] * count
        """For each operation, the wait that ended last."""
        self._ready = [
            (0.0, index)
            for index, operation in enumerate(operations)
            if operation.nodes and not self._waiting[index]
        ]
        self._remaining: dict[int, float] = {}
        """Remaining time of each running operation at full speed, in ns."""
        self._demand: dict[int, float] = {}
        """Total demand of the running operations per engine."""

    def run(self) -> Schedule:
        now = launcher_free = 0.0
        while self._ready or self._remaining:
            speeds = self._compute_speeds()
            time_to_finish = min(
                (left_ns / speeds[index] for index, left_ns in self._remaining.items()),
                default=_INFINITY,
            )
            next_start = max(self._ready[0][0], launcher_free) if self._ready else _INFINITY
            next_time = min(now + time_to_finish, next_start)
            for index in self._remaining:
                self._remaining[index] -= (next_time - now) * speeds[index]
            starts_next = next_start <= now + time_to_finish
            now = next_time
            if starts_next:
                launcher_free = now + self._start_next(now) * self._issue_ns
            else:
                self._finish_due(now)
        return self._build_schedule()

    def _compute_speeds(self) -> dict[int, float]:
        """Compute the speed of each running operation, relative to exclusive use."""
        speeds = {}
        for engine in self._demand:
            running = [
                index for index in self._remaining if self._operations[index].engine == engine
            ]
            concurrent = 0 if engine else min(len(running) - 1, _MAX_CONCURRENT)
            contention_speed = 1.0 / (1.0 + self._crowding * concurrent)
            running.sort(key=lambda index: self._operations[index].share)
            capacity = 1.0
            for rank, index in enumerate(running):
                share = self._operations[index].share
                granted = min(share, capacity / (len(running) - rank))
                capacity -= granted
                speeds[index] = min(granted / share if share else 1.0, contention_speed)
        return speeds

    def _start_next(self, now: float) -> int:
        _, index = heapq.heappop(self._ready)
        operation = self._operations[index]
        self._begin[index] = now
        has_concurrent = not operation.engine and any(
            not self._operations[other].engine for other in self._remaining
        )
        self._remaining[index] = (
            operation.duration_ns + has_concurrent * operation.nodes * self._start_ns
        )
        self._demand[operation.engine] = self._demand.get(operation.engine, 0.0) + operation.share
        return operation.nodes

    def _finish_due(self, now: float) -> None:
        for index in [
            index for index, left_ns in self._remaining.items() if left_ns <= _EPSILON_NS
        ]:
            del self._remaining[index]
            self._end[index] = now
            for follower, delay in self._followers[index]:
                self._waiting[follower] -= 1
                if now + delay >= self._earliest_start[follower]:
                    self._earliest_start[follower], self._last_wait[follower] = now + delay, index
                if not self._waiting[follower]:
                    heapq.heappush(self._ready, (self._earliest_start[follower], follower))
        # Recomputed, so that rounding errors do not accumulate.
        self._demand = {}
        for index in self._remaining:
            operation = self._operations[index]
            self._demand[operation.engine] = (
                self._demand.get(operation.engine, 0.0) + operation.share
            )

    def _build_schedule(self) -> Schedule:
        path: list[int] = []
        index = max(range(len(self._end)), key=self._end.__getitem__, default=-1)
        while index >= 0:
            path.append(index)
            index = self._last_wait[index]
        path.reverse()
        slowed = sum(
            self._end[index] - self._begin[index] - self._operations[index].duration_ns
            for index in path
        )
        return Schedule(tuple(self._begin), tuple(self._end), tuple(path), slowed)
