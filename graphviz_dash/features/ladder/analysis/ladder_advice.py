"""Recommended capture sizes, their gain over the current sizes, and its confidence interval."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.loop.size_times import interpolate_times
from graphviz_dash.analysis.sample_statistics import Spread
from graphviz_dash.features.ladder.analysis.ladder_data import (
    LadderData,
    TimeEstimates,
    build_problem,
    collect_sizes,
    estimate_times,
    select_candidates,
)
from graphviz_dash.features.ladder.analysis.ladder_gain import (
    JudgedHalf,
    build_judged_halves,
    compute_gain_interval,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    Ladder,
    LadderCost,
    LadderProblem,
    compute_ladder_cost,
    find_places,
)
from graphviz_dash.features.ladder.analysis.ladder_search import (
    LaddersByCount,
    find_best_ladder,
    find_ladders_by_count,
)
from graphviz_dash.model.absence import Fact, Missing

_MAX_COUNT: Final = 128
"""Maximum number of graphs for which the least time is computed."""


class Ceiling(Struct, frozen=True):
    """Largest size of a ladder, and the requests above it."""

    size: int
    """Largest size; 0 if there is none."""
    replay_ns: float | None
    """Time of a request of that size, in ns; None if there is none."""
    fallback_ns: float | None
    """Time of the next larger request without a graph, in ns; None if not timed."""
    largest_request: int
    """Largest requested size."""
    requests_above: int
    """Number of requests above the largest size."""
    extended_ns: float | None
    """Time of a graph for the largest request in ns, extrapolated from the two largest samples.

    None if no request is above the largest current size, or with fewer samples.
    """
    extended_gain_ns: float | None
    """Gain per request from such a graph, over all requests, in ns.

    None if ``raised_ns`` is None or no step without a graph was timed.
    """


class LadderAdvice(Struct, frozen=True):
    """Best ladder for the requests of a family, compared with the captured one."""

    budget: Budget
    """Applied limits."""
    current_sizes: tuple[int, ...]
    """Captured sizes."""
    current_use: LadderCost
    """Cost of the captured sizes."""
    ladder: Ladder
    """Best sizes."""
    use: LadderCost
    """Cost of the best sizes."""
    gain_interval: Spread
    """Cross-fitted 95% interval of the gain per request, in ns; always contains ``gain_ns``."""
    interpolated: tuple[int, ...]
    """Best sizes whose times are interpolated between two sampled sizes."""
    requests: int
    """Number of requests."""
    size_sum: int
    """Sum of the real sizes: tokens if a size counts tokens."""
    step_ns: float | None
    """Time per request outside graphs, in ns, for any ladder; None if unknown."""
    ceiling: Ceiling
    """Cost of requests above the largest size."""
    curve: tuple[tuple[int, float], ...]
    """Least time per request in ns for each number of graphs, without other limits."""

    @property
    def gain_ns(self) -> float:
        """Gain per request from the best sizes, in ns."""
        return (self.current_use.total_ns - self.use.total_ns) / self.requests

    @property
    def is_better(self) -> bool:
        """True if the best sizes are significantly better than the current ones."""
        return self.ladder.sizes != self.current_sizes and self.gain_interval.low > 0

    def compute_request_ns(self, use: LadderCost) -> float | None:
        """Compute the total time of a request with a ladder, in ns; None if unknown."""
        if self.step_ns is None or not math.isfinite(use.total_ns):
            return None
        return self.step_ns + use.total_ns / self.requests

    def compute_throughput(self, use: LadderCost) -> float | None:
        """Compute the throughput in size units per second, such as tokens; None if unknown."""
        request_ns = self.compute_request_ns(use)
        return None if not request_ns else self.size_sum / self.requests / request_ns * 1e9


class LadderBasis(Struct, frozen=True):
    """Budget-independent basis of the advice for a family."""

    data: LadderData
    """Measurements and requests."""
    times: TimeEstimates
    """Medians of all samples."""
    problem: LadderProblem
    """Problem over all captured or requested sizes."""
    halves: tuple[JudgedHalf, ...]
    """Halves that judge the gain."""
    candidate_problem: LadderProblem
    """Problem over the candidates only."""
    best_by_count: LaddersByCount
    """Best candidate ladders for each number of graphs."""


def build_ladder_basis(data: LadderData) -> LadderBasis:
    """Build the basis for advice on ``data``, which has at least one request and one sample."""
    times = estimate_times(data)
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = collect_sizes(data, data.requests)
    problem = build_problem(data, times, sizes, requests, counts.astype(float))
    candidates = select_candidates(sizes, data.requests)
    chosen_from = problem.select(candidates)
    max_count = min(2 * len(data.current_sizes), _MAX_COUNT)
    return LadderBasis(
        data=data,
        times=times,
        problem=problem,
        halves=build_judged_halves(data, times, sizes, candidates, max_count),
        candidate_problem=chosen_from,
        best_by_count=find_ladders_by_count(chosen_from, max_count),
    )


def recommend_ladder(basis: LadderBasis, budget: Budget) -> LadderAdvice | Missing:
    """Find the best ladder within ``budget``.

    Without a limit on graphs, the current number of sizes applies.
    """
    data, times, problem = basis.data, basis.times, basis.problem
    limits = Budget(
        len(data.current_sizes) if budget.graphs is None else budget.graphs,
        budget.memory_bytes,
        budget.startup_ns,
    )
    ladder = find_best_ladder(basis.candidate_problem, limits, basis.best_by_count)
    if ladder is None:
        return Missing(
            Fact.LADDER,
            "no ladder within the budget covers the largest request, and no fallback step without "
            "a graph was timed",
        )
    use, today_use = (
        compute_ladder_cost(problem, ladder.sizes),
        compute_ladder_cost(problem, data.current_sizes),
    )
    gain_ns = (today_use.total_ns - use.total_ns) / len(data.requests)
    sampled = set(times.sizes.tolist())
    return LadderAdvice(
        budget=limits,
        current_sizes=data.current_sizes,
        current_use=today_use,
        ladder=ladder,
        use=use,
        gain_interval=compute_gain_interval(basis.halves, limits, gain_ns),
        interpolated=tuple(size for size in ladder.sizes if size not in sampled),
        requests=len(data.requests),
        size_sum=int(data.requests.sum()),
        step_ns=data.step_ns,
        ceiling=_build_ceiling(problem, times, ladder),
        curve=tuple(
            (len(places), total / len(data.requests))
            for places, total in zip(
                basis.best_by_count.places, basis.best_by_count.totals_ns, strict=True
            )
        ),
    )


def _build_ceiling(problem: LadderProblem, times: TimeEstimates, ladder: Ladder) -> Ceiling:
    top = ladder.sizes[-1] if ladder.sizes else 0
    replay = float(problem.replay_ns[find_places(problem, [top])[0]]) if top else None
    above_ns = None
    if len(times.fallback_sizes):
        above_ns = float(np.interp(top + 1, times.fallback_sizes, times.fallback_ns))
    largest = int(problem.requests[-1])
    is_above = problem.requests > top
    raised_ns = gain_ns = None
    if largest > problem.sizes[-1] and len(times.sizes) > 1:
        raised_ns = float(interpolate_times(problem.requests[-1:], times.sizes, times.replay_ns)[0])
        if above_ns is not None:
            saved_ns = problem.counts[is_above] * (problem.fallback_ns[is_above] - raised_ns)
            gain_ns = float(saved_ns.sum() / problem.counts.sum())
    return Ceiling(
        top, replay, above_ns, largest, int(problem.counts[is_above].sum()), raised_ns, gain_ns
    )
