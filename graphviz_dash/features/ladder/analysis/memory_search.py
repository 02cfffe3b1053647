"""Fastest ladder within a limit of simulated memory.

Each step of the search captures one more size, in the order of captures. Captures only enlarge a
pool, so the memory of a partial ladder is a lower bound. Source: P. Hart, N. Nilsson and
B. Raphael, "A formal basis for the heuristic determination of minimum cost paths" (1968).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.memory.pool_simulation import PartialPool, PoolSimulation
from graphviz_dash.features.ladder.analysis.budget_search import BoundedPath, SizePath
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget, LadderProblem
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory

_MAX_CAPTURES: Final = 1_500
"""Simulated sizes at which the search stops and returns its bound."""
_SLACK: Final = 1 + 1e-9
"""Tolerance for sums of the same numbers in another order."""


def is_within_memory(memory_bytes: float | None, budget: Budget) -> bool:
    """Check the memory of a set. False if it is unknown and limited."""
    limit = budget.memory_bytes
    return limit is None or (memory_bytes is not None and memory_bytes <= limit * _SLACK)


def find_fitting_path(
    problem: LadderProblem,
    path: SizePath,
    budget: Budget,
    memory: SetMemory,
    starts: Iterable[Ints],
) -> BoundedPath | None:
    """Find the fastest path whose simulated memory is within ``budget``.

    Each size of the path serves a request. If the search ends early, the path is the fastest among
    ``starts`` that fits. None without any.
    """
    search = _MemorySearch(problem, path, budget, memory)
    result = search.run()
    if result is not None or not search.is_stopped:
        return result
    best: BoundedPath | None = None
    for places in starts:
        total_ns = path.compute_total_ns(places)
        is_faster = np.isfinite(total_ns) and (best is None or total_ns < best.total_ns)
        if is_faster and search.check_limits(
            places, memory.predict(problem.sizes[places].tolist())
        ):
            best = BoundedPath(places, total_ns, min(search.bound_ns, total_ns))
    return best


class _Times(Struct, frozen=True):
    """Times of a path in the order of captures."""

    order: Ints
    """Index of each size, shape (sizes,)."""
    empty_ns: float
    first_ns: Floats
    """Time that is certain once a size is the first, shape (sizes,)."""
    next_ns: Floats
    """The same if a size follows another, shape (sizes, following sizes)."""
    last_ns: Floats
    """The same if a size is the last, shape (sizes,)."""
    onward_ns: Floats
    """Least time after a size by the maximum number of later sizes, shape (1 + number, sizes)."""


def _build_times(path: SizePath, max_count: int, *, is_descending: bool) -> _Times:
    """Divide the time of a path among its sizes. Infinite if a size serves no request."""
    order = np.arange(len(path.replay_ns))[:: -1 if is_descending else 1]
    cumulative, replay_ns = path.cumulative_requests[order], path.replay_ns[order]
    difference = cumulative - cumulative[:, None]
    is_later_size = np.arange(len(order)) > np.arange(len(order))[:, None]
    above_ns = path.remaining_ns[1:][order]
    up_to_ns = np.where(cumulative > 0, replay_ns * cumulative, np.inf)
    if is_descending:
        first_ns, last_ns, next_ns = above_ns, up_to_ns, -difference * replay_ns[:, None]
    else:
        first_ns, last_ns, next_ns = up_to_ns, above_ns, difference * replay_ns
    next_ns = np.where(is_later_size & (difference != 0), next_ns, np.inf)
    least_rows = [last_ns]
    while len(least_rows) <= max_count:
        least_ns = np.minimum(last_ns, (next_ns + least_rows[-1]).min(axis=1, initial=np.inf))
        least_rows.append(least_ns)
    return _Times(
        order, float(path.remaining_ns[0]), first_ns, next_ns, last_ns, np.array(least_rows)
    )


@dataclass(eq=False)
class _Label:
    """Partial ladder."""

    parent: _Label | None
    place: int
    """Position of the last size in the order of captures."""
    number: int
    """Number of sizes."""
    total_ns: float
    executable_bytes: float
    startup_ns: float
    pool: PartialPool | None = None
    """None before its simulation."""

    def list_places(self) -> list[int]:
        """List the positions of the sizes, the last one first."""
        parents = [] if self.parent is None else self.parent.list_places()
        return [] if self.parent is None else [self.place, *parents]

    def is_never_better_than(self, other: _Label) -> bool:
        """Check whether another ladder with the same pool is as good in everything."""
        return (
            other.number <= self.number
            and other.total_ns <= self.total_ns
            and other.executable_bytes <= self.executable_bytes
            and other.startup_ns <= self.startup_ns
        )


class _MemorySearch:
    """Best-first search: the first complete ladder within the limits is the fastest."""

    def __init__(
        self, problem: LadderProblem, path: SizePath, budget: Budget, memory: SetMemory
    ) -> None:
        assert memory.simulation is not None
        assert budget.memory_bytes is not None
        self._simulation: PoolSimulation = memory.simulation
        number = len(problem.sizes)
        self._graphs = number if budget.graphs is None else min(budget.graphs, number)
        self._times = _build_times(path, self._graphs, is_descending=self._simulation.is_descending)
        order = self._times.order
        self._sizes = problem.sizes[order].tolist()
        self._executable_bytes = memory.estimate_executables(problem.sizes.tolist())[order]
        self._startup_ns = problem.startup_ns[order]
        self._max_startup_ns = np.inf if budget.startup_ns is None else float(budget.startup_ns)
        self._budget = budget
        self._max_bytes = (budget.memory_bytes + memory.other_bytes) * _SLACK
        self._heap: list[tuple[float, bool, int, int, _Label]] = []
        self._ties = count()
        self._expanded: defaultdict[tuple[int, object], list[_Label]] = defaultdict(list)
        self.is_stopped = False
        """The search ended early."""
        self.bound_ns = np.inf
        """Lower bound for all paths within the limits, if the search ended early."""

    def check_limits(self, places: Ints, memory_bytes: float | None) -> bool:
        """Check all limits."""
        positions = np.flatnonzero(np.isin(self._times.order, places))
        startup_ns = float(self._startup_ns[positions].sum())
        return (
            len(places) <= self._graphs
            and startup_ns <= self._max_startup_ns * _SLACK
            and is_within_memory(memory_bytes, self._budget)
        )

    def run(self) -> BoundedPath | None:
        """Return the fastest ladder within the limits. None without any, or if stopped."""
        root = _Label(None, -1, 0, 0.0, 0.0, 0.0, PartialPool())
        self._push(root, self._times.empty_ns, is_complete=True)
        self._push_next(root, self._times.first_ns)
        captures = 0
        while self._heap:
            least_ns, is_partial, *_, label = heapq.heappop(self._heap)
            if not is_partial:
                if self._check_memory(label):
                    places = self._times.order[label.list_places()]
                    return BoundedPath(np.sort(places), least_ns, least_ns)
                continue
            if captures == _MAX_CAPTURES:
                self.is_stopped, self.bound_ns = True, least_ns
                return None
            captures += 1
            self._expand(label)
        return None

    def _expand(self, label: _Label) -> None:
        """Simulate the last size of a ladder, and add the ladders with one more."""
        assert label.parent is not None
        assert label.parent.pool is not None
        label.pool = self._simulation.extend(label.parent.pool, self._sizes[label.place])
        if label.pool is None or not self._count_free_bytes(label) >= 0:
            return
        labels = self._expanded[label.place, self._simulation.describe(label.pool)]
        if any(label.is_never_better_than(other) for other in labels):
            return
        labels.append(label)
        total_ns = label.total_ns + float(self._times.last_ns[label.place])
        self._push(label, total_ns, is_complete=True)
        self._push_next(label, label.total_ns + self._times.next_ns[label.place])

    def _push_next(self, label: _Label, totals_ns: Floats) -> None:
        """Add the ladders with one more size that may be within the limits."""
        left_bytes = self._count_free_bytes(label) - self._executable_bytes
        left_ns = self._max_startup_ns * _SLACK - label.startup_ns - self._startup_ns
        remaining_graphs = np.full(len(self._sizes), float(self._graphs - label.number - 1))
        for left, usage in ((left_bytes, self._executable_bytes), (left_ns, self._startup_ns)):
            if len(usage) and usage.min() > 0:
                remaining_graphs = np.minimum(remaining_graphs, np.floor(left / usage.min()))
            remaining_graphs[left < 0] = -1
        for place in np.flatnonzero((remaining_graphs >= 0) & np.isfinite(totals_ns)).tolist():
            bound_ns = totals_ns[place] + self._times.onward_ns[int(remaining_graphs[place]), place]
            label_after = _Label(
                label,
                place,
                label.number + 1,
                float(totals_ns[place]),
                label.executable_bytes + float(self._executable_bytes[place]),
                label.startup_ns + float(self._startup_ns[place]),
            )
            self._push(label_after, float(bound_ns), is_complete=False)

    def _push(self, label: _Label, bound_ns: float, *, is_complete: bool) -> None:
        if np.isfinite(bound_ns):
            entry = (bound_ns, not is_complete, label.number, next(self._ties), label)
            heapq.heappush(self._heap, entry)

    def _count_free_bytes(self, label: _Label) -> float:
        assert label.pool is not None
        return self._max_bytes - label.pool.pool.reserved_bytes - label.executable_bytes

    def _check_memory(self, label: _Label) -> bool:
        assert label.pool is not None
        pool_bytes = self._simulation.finish(label.pool)
        return pool_bytes + label.executable_bytes <= self._max_bytes
