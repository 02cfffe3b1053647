"""Ladder problem: cost of each size, requests, and budgets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints


class LadderProblem(Struct, frozen=True):
    """Candidate sizes, and requests that are padded to the next captured size."""

    sizes: Ints
    """Candidate sizes, ascending, shape (sizes,)."""
    replay_ns: Floats
    """Time of a step that replays each size."""
    exclusive_bytes: Floats
    """Device memory regardless of other graphs: executable and exclusive pool memory."""
    pool_bytes: Floats
    """Pool of graphs up to each size, non-decreasing; graphs reuse the same memory."""
    startup_ns: Floats
    """One-time cost: capture, instantiation and first launch."""
    requests: Ints
    """Requested sizes, ascending, shape (requests,)."""
    counts: Floats
    """Number of requests of each size."""
    fallback_ns: Floats
    """Time of each request without a graph; infinite if unknown, so that a ladder must cover it."""

    def select(self, positions: Ints) -> LadderProblem:
        """Restrict the problem to some sizes."""
        return replace(
            self,
            sizes=self.sizes[positions],
            replay_ns=self.replay_ns[positions],
            exclusive_bytes=self.exclusive_bytes[positions],
            pool_bytes=self.pool_bytes[positions],
            startup_ns=self.startup_ns[positions],
        )

    def count_covered(self) -> Floats:
        """Count the requests up to each size, shape (sizes,)."""
        cumulative = np.concatenate(([0.0], np.cumsum(self.counts)))
        return cumulative[np.searchsorted(self.requests, self.sizes, side="right")]

    def compute_remaining_ns(self) -> Floats:
        """Compute the fallback time of all requests above each size, shape (1 + sizes,).

        The first entry is that of an empty ladder.
        """
        fallback_by_size = self.counts * np.where(self.counts > 0, self.fallback_ns, 0.0)
        remaining = np.concatenate((np.cumsum(fallback_by_size[::-1])[::-1], [0.0]))
        position = np.searchsorted(self.requests, self.sizes, side="right")
        return remaining[np.concatenate(([0], position))]


class Budget(Struct, frozen=True):
    """Limits of a ladder; None for no limit."""

    graphs: int | None = None
    memory_bytes: int | None = None
    """Device memory of the graphs, including their pool."""
    startup_ns: int | None = None
    """Time until the last graph is ready."""


class Ladder(Struct, frozen=True):
    """Chosen sizes, with a bound on their distance from the optimum."""

    sizes: tuple[int, ...]
    """Ascending; empty if no graph pays off."""
    total_ns: float
    """Total time of all requests, in ns."""
    bound_ns: float
    """Lower bound for all ladders within the budget; ``total_ns`` for the optimum."""

    @property
    def is_best(self) -> bool:
        """True if no ladder within the budget is faster."""
        return self.bound_ns >= self.total_ns


class LadderCost(Struct, frozen=True):
    """Cost of a ladder for the requests of a problem."""

    total_ns: float
    """Time of all requests; infinite if a fallback time is unknown."""
    padding_ns: float
    """Part of the total beyond graphs of the exact sizes."""
    fallback_ns: float
    """Part of the total without a graph."""
    fallbacks: float
    """Number of requests without a graph."""
    memory_bytes: float
    startup_ns: float


def find_padded_places(problem: LadderProblem, padded_positions: Ints) -> Ints:
    """Find the padded size of each request; -1 if all are smaller. Shape (requests,)."""
    ladder = problem.sizes[padded_positions]
    position = np.searchsorted(ladder, problem.requests, side="left")
    return np.where(position < len(ladder), np.append(padded_positions, -1)[position], -1)


def find_places(problem: LadderProblem, sizes: Sequence[int]) -> Ints:
    """Find the indices of ``sizes`` in ``problem.sizes``."""
    return np.searchsorted(problem.sizes, np.asarray(sorted(sizes), dtype=np.int64))


def compute_ladder_cost(problem: LadderProblem, sizes: Sequence[int]) -> LadderCost:
    """Compute the cost of ``sizes``, a subset of ``problem.sizes``."""
    positions = find_places(problem, sizes)
    padded = find_padded_places(problem, positions)
    counts = problem.counts
    has_graph = (padded >= 0) & (counts > 0)
    falls_back = (padded < 0) & (counts > 0)
    replays = counts[has_graph] * problem.replay_ns[padded[has_graph]]
    exact_ns = np.interp(problem.requests[has_graph], problem.sizes, problem.replay_ns)
    fallback_ns = float((counts[falls_back] * problem.fallback_ns[falls_back]).sum())
    return LadderCost(
        total_ns=float(replays.sum()) + fallback_ns,
        padding_ns=float((replays - counts[has_graph] * exact_ns).sum()),
        fallback_ns=fallback_ns,
        fallbacks=float(counts[falls_back].sum()),
        memory_bytes=compute_memory_bytes(problem, positions),
        startup_ns=float(problem.startup_ns[positions].sum()),
    )


def compute_memory_bytes(problem: LadderProblem, positions: Ints) -> float:
    """Compute the device memory of the graphs at ascending ``positions``."""
    if not len(positions):
        return 0.0
    return float(problem.exclusive_bytes[positions].sum() + problem.pool_bytes[positions[-1]])
