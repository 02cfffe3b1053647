"""Exact search for the best ladder of capture sizes within a budget.

Requests are padded to the next captured size, so a ladder is a shortest path over ascending sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.features.ladder.analysis.budget_search import (
    Limits,
    SizePath,
    find_cheapest_path,
    find_priced_path,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    Ladder,
    LadderProblem,
)
from graphviz_dash.features.ladder.analysis.memory_search import find_fitting_path, is_within_memory
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory

_EQUAL: Final = 1 + 1e-12
_PRICES: Final = (0.0, *np.geomspace(1e-4, 1.0, 8).tolist())
"""Prices of all memory or startup time, relative to the total time of the requests."""


class LaddersByCount(Struct, frozen=True):
    """Best ladder for each number of graphs; the most expensive part of a limited search."""

    max_count: int
    places: tuple[Ints, ...]
    """Indices of their sizes.

    Omits numbers of graphs that cannot cover requests with unknown fallback times.
    """
    totals_ns: tuple[float, ...]
    """Time of all requests with each ladder."""

    def select_up_to(self, graphs: int) -> LaddersByCount:
        """Select the ladders with at most this many graphs."""
        selected = [
            number for number, positions in enumerate(self.places) if len(positions) <= graphs
        ]
        return LaddersByCount(
            min(self.max_count, graphs),
            tuple(self.places[number] for number in selected),
            tuple(self.totals_ns[number] for number in selected),
        )


_TRIAL_SIZES: Final = 16
"""Number of largest sizes to try if the search by simulation ends early."""


def find_best_ladder(
    problem: LadderProblem,
    budget: Budget,
    by_count: LaddersByCount | None = None,
    memory: SetMemory | None = None,
) -> Ladder | None:
    """Find the sizes with the least total time.

    A limit of memory is for the memory by ``memory``, or for the memory of ``problem`` without its
    simulation. None if no ladder within ``budget`` covers the requests with unknown fallback times.
    """
    if budget.memory_bytes is None or memory is None or memory.simulation is None:
        return _find_summed_ladder(problem, budget, by_count)
    ladder = _find_summed_ladder(problem, replace(budget, memory_bytes=None), by_count)
    if ladder is None or is_within_memory(memory.predict(ladder.sizes), budget):
        return ladder
    path = _build_path(problem)
    trials = _generate_trials(problem, budget, memory)
    result = find_fitting_path(problem, path, budget, memory, trials)
    if result is None:
        return None
    return Ladder(tuple(problem.sizes[result.places].tolist()), result.total_ns, result.bound_ns)


def _generate_trials(problem: LadderProblem, budget: Budget, memory: SetMemory) -> Iterator[Ints]:
    """Generate ladders that may be within a limit of memory: single sizes, and for several of those
    within it as the largest size, a bisection over the number of graphs."""
    yield np.zeros(0, dtype=np.int64)
    number = len(problem.sizes)
    max_count = number if budget.graphs is None else budget.graphs
    yield from np.arange(number)[:, None][: number * min(max_count, 1)]
    sizes = problem.sizes.tolist()
    largest = [n for n in range(number) if is_within_memory(memory.predict((sizes[n],)), budget)]
    selection = np.linspace(0, len(largest) - 1, min(len(largest), _TRIAL_SIZES)).round()
    for last in (largest[int(row)] for row in selection):
        part = problem.select(np.arange(last + 1))
        ladders = find_ladders_by_count(part, max_count).places
        low, high = 0, len(ladders) - 1
        while low <= high:
            middle = (low + high) // 2
            places = ladders[middle]
            yield places
            if is_within_memory(memory.predict(part.sizes[places].tolist()), budget):
                low = middle + 1
            else:
                high = middle - 1


def _find_summed_ladder(
    problem: LadderProblem, budget: Budget, by_count: LaddersByCount | None
) -> Ladder | None:
    """Find the fastest ladder by the memory of ``problem``.

    O(graphs sizes^2) if the number of graphs binds, else O(sizes^2).
    """
    path = _build_path(problem)
    limits = _build_limits(problem, budget)
    ladders: tuple[Ints, ...] = ()
    if budget.graphs is not None and budget.graphs < len(problem.sizes):
        if by_count is None or by_count.max_count < budget.graphs:
            by_count = find_ladders_by_count(problem, budget.graphs)
        allowed = by_count.select_up_to(budget.graphs)
        ladders, totals = allowed.places, allowed.totals_ns
        if not ladders:
            return None
        # The smallest ladder among totals that are equal up to rounding.
        best, total = next(
            pair for pair in zip(ladders, totals, strict=True) if pair[1] <= min(totals) * _EQUAL
        )
        if limits.is_satisfied_by(best):
            return Ladder(tuple(problem.sizes[best].tolist()), total, total)
    result = find_cheapest_path(path, limits, ladders)
    if result is None:
        return None
    # Drop sizes that serve no request.
    is_used = np.diff(path.cumulative_requests[result.places], prepend=0.0) > 0
    sizes = problem.sizes[result.places[is_used]]
    return Ladder(tuple(sizes.tolist()), result.total_ns, result.bound_ns)


def find_ladders_by_count(problem: LadderProblem, max_count: int) -> LaddersByCount:
    """Find the fastest ladder for each feasible number of graphs."""
    path = _build_path(problem)
    ladders = _search_by_count(path, min(max_count, len(problem.sizes)))
    return LaddersByCount(max_count, tuple(ladders), tuple(map(path.compute_total_ns, ladders)))


def find_tradeoffs(problem: LadderProblem) -> tuple[Ints, ...]:
    """Find Pareto-optimal trades of time for memory and startup time, as indices of sizes.

    Prices of both form a grid. Empty if a fallback time is unknown. O(sizes^2) for each price.
    """
    path = _build_path(problem)
    memory = float(problem.exclusive_bytes.sum() + problem.pool_bytes[-1:].sum())
    startup = float(problem.startup_ns.sum())
    limits = _build_limits(problem, Budget(None, round(memory), round(startup)))
    if not np.isfinite(path.remaining_ns[0]):
        return ()
    fastest_ns = path.compute_total_ns(find_priced_path(path, limits, np.zeros(2)))
    ladders = {
        tuple(find_priced_path(path, limits, fastest_ns * np.array(prices)).tolist())
        for prices in product(_PRICES, _PRICES)
    }
    return tuple(np.array(positions, dtype=np.int64) for positions in sorted(ladders))


def _build_path(problem: LadderProblem) -> SizePath:
    return SizePath(problem.replay_ns, problem.count_covered(), problem.compute_remaining_ns())


def _build_limits(problem: LadderProblem, budget: Budget) -> Limits:
    zeros = np.zeros(len(problem.sizes))
    rows = [
        (per_size, per_last, limit)
        for per_size, per_last, limit in (
            (zeros + 1, zeros, budget.graphs),
            (problem.exclusive_bytes, problem.pool_bytes, budget.memory_bytes),
            (problem.startup_ns, zeros, budget.startup_ns),
        )
        if limit is not None
    ]
    # A limit of 0 excludes every share.
    shares = np.array([max(float(limit), 0.5) for _, _, limit in rows])
    shape = (len(rows), len(problem.sizes))
    size_usage = np.array([per_size for per_size, _, _ in rows]).reshape(shape).T / shares
    return Limits(
        size_usage, np.array([per_last for _, per_last, _ in rows]).reshape(shape).T / shares
    )


def _search_by_count(path: SizePath, max_count: int) -> list[Ints]:
    count = len(path.replay_ns)
    positions = np.arange(count)
    total_by_size = path.replay_ns * path.cumulative_requests
    # One row per size: time saved by a smaller size that serves part of its requests.
    reduction = np.where(
        positions < positions[:, None], np.outer(-path.replay_ns, path.cumulative_requests), np.inf
    )
    ladders = [np.zeros(0, dtype=np.int64)] if np.isfinite(path.remaining_ns[0]) else []
    parents = [np.full(count, -1)]
    best_ns = total_by_size
    sums = np.empty_like(reduction)
    for number in range(1, max_count + 1):
        if number > 1:
            np.add(reduction, best_ns, out=sums)
            parents.append(np.argmin(sums, axis=1))
            best_ns = sums[positions, parents[-1]] + total_by_size
        totals = best_ns + path.remaining_ns[1:]
        last = int(np.argmin(totals))
        if np.isfinite(totals[last]):
            ladders.append(_trace_back(parents, last))
    return ladders


def _trace_back(parents: list[Ints], last: int) -> Ints:
    positions = [last]
    for parent in reversed(parents[1:]):
        positions.append(int(parent[positions[-1]]))
    return np.array(positions[::-1], dtype=np.int64)
