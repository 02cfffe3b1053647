"""Recommended capture sizes, their gain over the current sizes, and its confidence interval."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

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
    choose_half_ladders,
    compute_gain_interval,
    is_loss_significant,
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
    find_tradeoffs,
)
from graphviz_dash.features.ladder.analysis.memory_search import is_within_memory
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory
from graphviz_dash.model.absence import Fact, Missing

_MAX_COUNT: Final = 128
"""Maximum number of graphs for which the least time is computed."""
_MAX_LOSS_SHARE: Final = 0.01
"""Largest loss of the smallest set relative to the fastest; noise may hide a larger one."""


class Ceiling(Struct, frozen=True):
    """Largest size of a ladder, and the requests above it."""

    size: int
    """Largest size; 0 if there is none."""
    replay_ns: float | None
    """Time of a request of that size; None if there is none."""
    fallback_ns: float | None
    """Time of the next larger request without a graph; None if not timed."""
    largest_request: int
    requests_above: int
    extended_ns: float | None
    """Time of a graph for the largest request, extrapolated from the two largest samples.

    None if no request is above the largest size, or with fewer samples.
    """
    extended_gain_ns: float | None
    """Gain per request from such a graph, over all requests.

    None if ``extended_ns`` is None or no step without a graph was timed.
    """


class LadderPoint(Struct, frozen=True):
    """Set of sizes with the least time for its memory and startup time."""

    sizes: tuple[int, ...]
    """Sizes to capture, ascending."""
    use: LadderCost
    untimed_count: int
    """Sizes whose times are interpolated."""


class LadderAdvice(Struct, frozen=True):
    """Best ladders for the requests of a family, compared with the captured one."""

    budget: Budget
    current_sizes: tuple[int, ...]
    current_use: LadderCost
    ladder: Ladder
    use: LadderCost
    gain_interval: Spread
    """95% interval of the gain per request, in ns."""
    interpolated: tuple[int, ...]
    """Fastest sizes whose times are interpolated between two sampled sizes."""
    smallest: LadderPoint
    """Fewest sizes within noise of the fastest."""
    smallest_interval: Spread
    """The same for the fewest sizes, in ns."""
    front: tuple[LadderPoint, ...]
    """Pareto front of time, memory and startup time without budgets, fewest sizes first."""
    requests: int
    size_sum: int
    """Sum of the real sizes, such as tokens."""
    step_ns: float | None
    """Time per request outside graphs, for any ladder; None if unknown."""
    ceiling: Ceiling
    curve: tuple[tuple[int, float], ...]
    """Least time per request in ns for each number of graphs, without other limits."""

    @property
    def gain_ns(self) -> float:
        """Gain per request from the fastest sizes."""
        return (self.current_use.total_ns - self.use.total_ns) / self.requests

    @property
    def smallest_gain_ns(self) -> float:
        """Gain per request from the fewest sizes."""
        return (self.current_use.total_ns - self.smallest.use.total_ns) / self.requests

    @property
    def is_better(self) -> bool:
        """True if the fastest sizes are significantly better."""
        return self.ladder.sizes != self.current_sizes and self.gain_interval.low > 0

    @property
    def is_smallest_better(self) -> bool:
        """True if the fewest sizes are significantly faster."""
        return self.smallest.sizes != self.current_sizes and self.smallest_interval.low > 0

    @property
    def is_smallest_worse(self) -> bool:
        """True if the fewest sizes are significantly slower."""
        high = self.smallest_interval.high
        return high is not None and high < 0

    def compute_request_ns(self, use: LadderCost) -> float | None:
        """Compute the total time of a request; None if unknown."""
        if self.step_ns is None or not math.isfinite(use.total_ns):
            return None
        return self.step_ns + use.total_ns / self.requests

    def compute_throughput(self, use: LadderCost) -> float | None:
        """Compute the throughput in size units, such as tokens, per second; None if unknown."""
        request_ns = self.compute_request_ns(use)
        return None if not request_ns else self.size_sum / self.requests / request_ns * 1e9


class LadderBasis(Struct, frozen=True):
    """Budget-independent basis of the advice for a family."""

    data: LadderData
    times: TimeEstimates
    problem: LadderProblem
    """Problem over all captured or requested sizes."""
    halves: tuple[JudgedHalf, ...]
    candidate_problem: LadderProblem
    best_by_count: LaddersByCount
    """Best candidate ladders for each number of graphs."""
    points: tuple[LadderPoint, ...]
    """Ladders with little time, memory or startup time, fewest sizes first."""
    memory: SetMemory
    """Memory of any set of sizes."""


def build_ladder_basis(data: LadderData) -> LadderBasis:
    """Build the basis for advice on ``data``, which has at least one request and one sample."""
    times = estimate_times(data)
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = collect_sizes(data, data.requests)
    problem = build_problem(data, times, sizes, requests, counts.astype(float))
    candidates = select_candidates(sizes, data.requests)
    source_rungs = problem.select(candidates)
    max_count = min(2 * len(data.current_sizes), _MAX_COUNT)
    best_by_count = find_ladders_by_count(source_rungs, max_count)
    memory = SetMemory(data)
    return LadderBasis(
        data=data,
        times=times,
        problem=problem,
        halves=build_judged_halves(data, times, sizes, candidates, max_count),
        candidate_problem=source_rungs,
        best_by_count=best_by_count,
        points=_build_points(problem, source_rungs, times, best_by_count, memory),
        memory=memory,
    )


def _build_points(
    problem: LadderProblem,
    candidates: LadderProblem,
    times: TimeEstimates,
    by_count: LaddersByCount,
    memory: SetMemory,
) -> tuple[LadderPoint, ...]:
    """Build the best ladders by number of graphs, and by memory and startup time, of all candidates
    and of timed ones."""
    timed_problem = candidates.select(np.flatnonzero(np.isin(candidates.sizes, times.sizes)))
    ladders: set[tuple[int, ...]] = set()
    for source, rung_positions in (
        (candidates, by_count.places),
        (candidates, find_tradeoffs(candidates)),
        (
            timed_problem,
            find_ladders_by_count(timed_problem, by_count.max_count).places
            if len(timed_problem.sizes)
            else (),
        ),
        (timed_problem, find_tradeoffs(timed_problem) if len(timed_problem.sizes) else ()),
    ):
        ladders |= {tuple(source.sizes[positions].tolist()) for positions in rung_positions}
    points = [
        build_point(problem, times, memory, sizes)
        for sizes in ladders
        if memory.simulation is None or memory.predict(sizes) is not None
    ]
    return tuple(
        sorted(
            points, key=lambda point: (len(point.sizes), point.untimed_count, point.use.total_ns)
        )
    )


def build_point(
    problem: LadderProblem, times: TimeEstimates, memory: SetMemory, sizes: tuple[int, ...]
) -> LadderPoint:
    """Build the point of ``sizes``, a subset of the sizes of ``problem``."""
    untimed_count = len(set(sizes) - set(times.sizes.tolist()))
    cost = memory.correct(compute_ladder_cost(problem, sizes), sizes)
    return LadderPoint(sizes, cost, untimed_count)


def recommend_ladder(basis: LadderBasis, budget: Budget) -> LadderAdvice | Missing:
    """Find the best ladder within ``budget``; without a limit on graphs, the current number
    applies."""
    data, times, problem, memory = basis.data, basis.times, basis.problem, basis.memory
    limits = Budget(
        len(data.current_sizes) if budget.graphs is None else budget.graphs,
        budget.memory_bytes,
        budget.startup_ns,
    )
    ladder = find_best_ladder(basis.candidate_problem, limits, basis.best_by_count, memory)
    if ladder is None:
        return Missing(
            Fact.LADDER,
            "no ladder within the budget covers the largest request, and no fallback step without "
            "a graph was timed",
        )
    today_use = memory.correct(compute_ladder_cost(problem, data.current_sizes), data.current_sizes)
    fastest = build_point(problem, times, memory, ladder.sizes)
    smallest = _find_smallest(basis, limits, fastest)
    half_ladders = choose_half_ladders(basis.halves, limits, memory)
    gain_ns = (today_use.total_ns - fastest.use.total_ns) / len(data.requests)
    sampled = set(times.sizes.tolist())
    smallest_gain_ns = (today_use.total_ns - smallest.use.total_ns) / len(data.requests)
    return LadderAdvice(
        budget=limits,
        current_sizes=data.current_sizes,
        current_use=today_use,
        ladder=ladder,
        use=fastest.use,
        gain_interval=compute_gain_interval(basis.halves, half_ladders, ladder.sizes, gain_ns),
        smallest=smallest,
        smallest_interval=compute_gain_interval(
            basis.halves, half_ladders, smallest.sizes, smallest_gain_ns
        ),
        front=_select_front(basis.points),
        interpolated=tuple(size for size in ladder.sizes if size not in sampled),
        requests=len(data.requests),
        size_sum=int(data.requests.sum()),
        step_ns=data.step_ns,
        ceiling=_build_ceiling(problem, times, ladder),
        curve=tuple(
            (len(positions), total / len(data.requests))
            for positions, total in zip(
                basis.best_by_count.places, basis.best_by_count.totals_ns, strict=True
            )
        ),
    )


def _find_smallest(basis: LadderBasis, limits: Budget, fastest: LadderPoint) -> LadderPoint:
    """Find the fewest sizes that are not measurably slower than ``fastest``."""
    smallest = fastest
    for point in basis.points:
        if len(point.sizes) >= len(fastest.sizes):
            break
        if _is_as_fast(basis, limits, point, fastest):
            smallest = point
            break
    if limits.memory_bytes is None and limits.startup_ns is None:
        return smallest
    # Points are the best without limits, so a limit may need other sizes.
    low, high = 0, len(smallest.sizes)
    while low < high:
        count = (low + high) // 2
        ladder = find_best_ladder(
            basis.candidate_problem,
            replace(limits, graphs=count),
            basis.best_by_count,
            basis.memory,
        )
        sizes = fastest.sizes if ladder is None else ladder.sizes
        candidate = build_point(basis.problem, basis.times, basis.memory, sizes)
        if len(sizes) <= count and _is_as_fast(basis, limits, candidate, fastest):
            smallest, high = candidate, len(sizes)
        else:
            low = count + 1
    return smallest


def _is_as_fast(
    basis: LadderBasis, limits: Budget, point: LadderPoint, fastest: LadderPoint
) -> bool:
    """Check whether a set is within the limits and not measurably slower than the fastest."""
    use = point.use
    return (
        use.total_ns <= fastest.use.total_ns * (1 + _MAX_LOSS_SHARE)
        and is_within_memory(use.memory_bytes, limits)
        and (limits.startup_ns is None or use.startup_ns <= limits.startup_ns)
        and not is_loss_significant(basis.halves, point.sizes, fastest.sizes)
    )


def _select_front(points: tuple[LadderPoint, ...]) -> tuple[LadderPoint, ...]:
    """Select the Pareto-optimal points."""
    costs = np.array(
        [(point.use.total_ns, point.use.memory_bytes, point.use.startup_ns) for point in points]
    )
    return tuple(
        point
        for point, cost in zip(points, costs, strict=True)
        if np.isfinite(cost[0])
        and not ((costs <= cost).all(axis=1) & (costs < cost).any(axis=1)).any()
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
