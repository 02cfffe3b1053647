"""Recommended capture sizes, their gain over the current sizes, and its confidence interval."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.loop.size_times import times_at
from graphviz_dash.analysis.sample_statistics import Spread
from graphviz_dash.features.ladder.analysis.ladder_data import (
    Estimates,
    LadderData,
    all_sizes,
    candidate_places,
    estimates,
    problem_of,
)
from graphviz_dash.features.ladder.analysis.ladder_gain import (
    JudgedHalf,
    gain_interval,
    judged_halves,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    Ladder,
    LadderProblem,
    LadderUse,
    ladder_places,
    use_of,
)
from graphviz_dash.features.ladder.analysis.ladder_search import (
    CountedLadders,
    best_ladder,
    ladders_by_count,
)
from graphviz_dash.model.absence import Fact, Missing

_MOST_COUNTED: Final = 128
"""Maximum number of graphs for which the least time is computed."""


class Ceiling(Struct, frozen=True):
    """Largest size of a ladder, and the requests above it."""

    size: int
    """Largest size; 0 if there is none."""
    replay_ns: float | None
    """Time of a request of that size, in ns; None if there is none."""
    above_ns: float | None
    """Time of the next larger request without a graph, in ns; None if not timed."""
    largest_request: int
    """Largest requested size."""
    requests_above: int
    """Number of requests above the largest size."""
    raised_ns: float | None
    """Time of a graph for the largest request in ns, extrapolated from the two largest samples.

    None if no request is above the largest current size, or with fewer samples.
    """
    raised_gain_ns: float | None
    """Gain per request from such a graph, over all requests, in ns.

    None if ``raised_ns`` is None or no step without a graph was timed.
    """


class LadderAdvice(Struct, frozen=True):
    """Best ladder for the requests of a family, compared with the captured one."""

    budget: Budget
    """Applied limits."""
    today: tuple[int, ...]
    """Captured sizes."""
    today_use: LadderUse
    """Cost of the captured sizes."""
    ladder: Ladder
    """Best sizes."""
    use: LadderUse
    """Cost of the best sizes."""
    gain: Spread
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
        return (self.today_use.total_ns - self.use.total_ns) / self.requests

    @property
    def is_better(self) -> bool:
        """True if the best sizes are significantly better than the current ones."""
        return self.ladder.sizes != self.today and self.gain.low > 0

    def request_ns(self, use: LadderUse) -> float | None:
        """Compute the total time of a request with a ladder, in ns; None if unknown."""
        if self.step_ns is None or not math.isfinite(use.total_ns):
            return None
        return self.step_ns + use.total_ns / self.requests

    def rate(self, use: LadderUse) -> float | None:
        """Compute the throughput in size units per second, such as tokens; None if unknown."""
        request_ns = self.request_ns(use)
        return None if not request_ns else self.size_sum / self.requests / request_ns * 1e9


class LadderBasis(Struct, frozen=True):
    """Budget-independent basis of the advice for a family."""

    data: LadderData
    """Measurements and requests."""
    times: Estimates
    """Medians of all samples."""
    problem: LadderProblem
    """Problem over all captured or requested sizes."""
    halves: tuple[JudgedHalf, ...]
    """Halves that judge the gain."""
    chosen_from: LadderProblem
    """Problem over the candidates only."""
    counted: CountedLadders
    """Best candidate ladders for each number of graphs."""


def ladder_basis(data: LadderData) -> LadderBasis:
    """Build the basis for advice on ``data``, which has at least one request and one sample."""
    times = estimates(data)
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = all_sizes(data, data.requests)
    problem = problem_of(data, times, sizes, requests, counts.astype(float))
    candidates = candidate_places(sizes, data.requests)
    chosen_from = problem.only(candidates)
    max_count = min(2 * len(data.today), _MOST_COUNTED)
    return LadderBasis(
        data=data,
        times=times,
        problem=problem,
        halves=judged_halves(data, times, sizes, candidates, max_count),
        chosen_from=chosen_from,
        counted=ladders_by_count(chosen_from, max_count),
    )


def advise(basis: LadderBasis, budget: Budget) -> LadderAdvice | Missing:
    """Find the best ladder within ``budget``.

    Without a limit on graphs, the current number of sizes applies.
    """
    data, times, problem = basis.data, basis.times, basis.problem
    limits = Budget(
        len(data.today) if budget.graphs is None else budget.graphs,
        budget.memory_bytes,
        budget.startup_ns,
    )
    ladder = best_ladder(basis.chosen_from, limits, basis.counted)
    if ladder is None:
        return Missing(
            Fact.LADDER,
            "no ladder within the budget covers the largest request, and no fallback step without "
            "a graph was timed",
        )
    use, today_use = use_of(problem, ladder.sizes), use_of(problem, data.today)
    gain_ns = (today_use.total_ns - use.total_ns) / len(data.requests)
    sampled = set(times.sizes.tolist())
    return LadderAdvice(
        budget=limits,
        today=data.today,
        today_use=today_use,
        ladder=ladder,
        use=use,
        gain=gain_interval(basis.halves, limits, gain_ns),
        interpolated=tuple(size for size in ladder.sizes if size not in sampled),
        requests=len(data.requests),
        size_sum=int(data.requests.sum()),
        step_ns=data.step_ns,
        ceiling=_ceiling(problem, times, ladder),
        curve=tuple(
            (len(places), total / len(data.requests))
            for places, total in zip(basis.counted.places, basis.counted.totals_ns, strict=True)
        ),
    )


def _ceiling(problem: LadderProblem, times: Estimates, ladder: Ladder) -> Ceiling:
    top = ladder.sizes[-1] if ladder.sizes else 0
    replay = float(problem.replay_ns[ladder_places(problem, [top])[0]]) if top else None
    above_ns = None
    if len(times.fallback_sizes):
        above_ns = float(np.interp(top + 1, times.fallback_sizes, times.fallback_ns))
    largest = int(problem.requests[-1])
    is_above = problem.requests > top
    raised_ns = gain_ns = None
    if largest > problem.sizes[-1] and len(times.sizes) > 1:
        raised_ns = float(times_at(problem.requests[-1:], times.sizes, times.replay_ns)[0])
        if above_ns is not None:
            saved_ns = problem.counts[is_above] * (problem.fallback_ns[is_above] - raised_ns)
            gain_ns = float(saved_ns.sum() / problem.counts.sum())
    return Ceiling(
        top, replay, above_ns, largest, int(problem.counts[is_above].sum()), raised_ns, gain_ns
    )
