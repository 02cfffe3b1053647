"""The best ladder of capture sizes within a budget, exactly.

A request is padded to the next captured size, so the sizes of a ladder divide the requests, and
each size answers for those above the one before it: a shortest path over ascending sizes. A limit
on the number of graphs alone makes it a path of so many arcs (one pass for each graph over all
pairs of sizes). Memory and start-up add up along the path, and are searched for in budget_search.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.features.ladder.analysis.budget_search import Limits, SizePath, cheapest_within
from graphviz_dash.features.ladder.analysis.ladder_problem import Budget, Ladder, LadderProblem

_EQUAL: Final = 1 + 1e-12


class CountedLadders(Struct, frozen=True):
    """The best ladder of each number of graphs, for one problem: what a search within any limit on
    their number needs first, and takes longest for."""

    most: int
    """Up to how many graphs."""
    places: tuple[Ints, ...]
    """The places of their sizes, by their number; of the numbers with which the requests whose
    fallback is unknown are reached."""
    totals_ns: tuple[float, ...]
    """What all requests take with each, in ns."""

    def up_to(self, graphs: int) -> CountedLadders:
        """Those of at most so many graphs."""
        kept = [number for number, places in enumerate(self.places) if len(places) <= graphs]
        return CountedLadders(
            min(self.most, graphs),
            tuple(self.places[number] for number in kept),
            tuple(self.totals_ns[number] for number in kept),
        )


def best_ladder(
    problem: LadderProblem, budget: Budget, counted: CountedLadders | None = None
) -> Ladder | None:
    """The sizes with which all requests take least; None where no ladder within ``budget`` reaches
    the requests whose fallback is unknown.

    O(graphs sizes^2) where the number of graphs is the only limit that binds, O(sizes^2) where none
    does, or where ``counted`` holds the ladders of as many graphs.
    """
    path = _path(problem)
    limits = _limits(problem, budget)
    ladders: tuple[Ints, ...] = ()
    if budget.graphs is not None and budget.graphs < len(problem.sizes):
        if counted is None or counted.most < budget.graphs:
            counted = ladders_by_count(problem, budget.graphs)
        within = counted.up_to(budget.graphs)
        ladders, totals = within.places, within.totals_ns
        if not ladders:
            return None
        # The fewest of those that sums in another order may make differ.
        best, total = next(
            pair for pair in zip(ladders, totals, strict=True) if pair[1] <= min(totals) * _EQUAL
        )
        if limits.hold(best):
            return Ladder(tuple(problem.sizes[best].tolist()), total, total)
    result = cheapest_within(path, limits, ladders)
    if result is None:
        return None
    # A size that serves nothing takes no time, and is of no use.
    served = np.diff(path.covered[result.places], prepend=0.0) > 0
    sizes = problem.sizes[result.places[served]]
    return Ladder(tuple(sizes.tolist()), result.total_ns, result.bound_ns)


def ladders_by_count(problem: LadderProblem, most: int) -> CountedLadders:
    """For each number of graphs up to ``most`` with which all requests can be served, the ladder
    with which they take least."""
    path = _path(problem)
    ladders = _by_count(path, min(most, len(problem.sizes)))
    return CountedLadders(most, tuple(ladders), tuple(map(path.total_ns, ladders)))


def _path(problem: LadderProblem) -> SizePath:
    return SizePath(problem.replay_ns, problem.covered(), problem.beyond_ns())


def _limits(problem: LadderProblem, budget: Budget) -> Limits:
    nothing = np.zeros(len(problem.sizes))
    rows = [
        (own, end, limit)
        for own, end, limit in (
            (nothing + 1, nothing, budget.graphs),
            (problem.own_bytes, problem.pool_bytes, budget.memory_bytes),
            (problem.startup_ns, nothing, budget.startup_ns),
        )
        if limit is not None
    ]
    # Of nothing every share is too much.
    shares = np.array([max(float(limit), 0.5) for _, _, limit in rows])
    shape = (len(rows), len(problem.sizes))
    each = np.array([own for own, _, _ in rows]).reshape(shape).T / shares
    return Limits(each, np.array([end for _, end, _ in rows]).reshape(shape).T / shares)


def _by_count(path: SizePath, most: int) -> list[Ints]:
    """For each number of graphs up to ``most`` the ladder that takes least, where one reaches all
    that it must."""
    count = len(path.replay_ns)
    places = np.arange(count)
    whole = path.replay_ns * path.covered
    # A row for each size: what a size before it takes off the requests that it answers for.
    less = np.where(places < places[:, None], np.outer(-path.replay_ns, path.covered), np.inf)
    ladders = [np.zeros(0, dtype=np.int64)] if np.isfinite(path.beyond_ns[0]) else []
    parents = [np.full(count, -1)]
    reached = whole
    sums = np.empty_like(less)
    for number in range(1, most + 1):
        if number > 1:
            np.add(less, reached, out=sums)
            parents.append(np.argmin(sums, axis=1))
            reached = sums[places, parents[-1]] + whole
        totals = reached + path.beyond_ns[1:]
        last = int(np.argmin(totals))
        if np.isfinite(totals[last]):
            ladders.append(_traced(parents, last))
    return ladders


def _traced(parents: list[Ints], last: int) -> Ints:
    places = [last]
    for parent in reversed(parents[1:]):
        places.append(int(parent[places[-1]]))
    return np.array(places[::-1], dtype=np.int64)
