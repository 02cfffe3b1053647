"""Which sizes to capture, what they gain over today's, and how sure that is."""

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
"""Numbers of graphs of which the least time is told."""


class Ceiling(Struct, frozen=True):
    """The largest size of a ladder, and the requests above it."""

    size: int
    """The largest size; 0 where there is none."""
    replay_ns: float | None
    """What a request of that size takes, in ns; None where there is none."""
    above_ns: float | None
    """What the next larger request takes, without a graph; None where no such step was timed."""
    largest_request: int
    """The largest size that was asked for."""
    requests_above: int
    """How many requests are above it."""
    raised_ns: float | None
    """What a graph for the largest request would take, in ns, if times went on rising as between
    the two largest that were sampled: a guess, for no such graph was seen. None where no request is
    above today's largest size, or fewer than two sizes were sampled."""
    raised_gain_ns: float | None
    """What such a graph would save of a request's time, over all requests; None as ``raised_ns``,
    and where no step without a graph was timed."""


class LadderAdvice(Struct, frozen=True):
    """The best ladder for the requests of a family, beside the one that was captured."""

    budget: Budget
    """What it was to keep within."""
    today: tuple[int, ...]
    """The sizes that were captured."""
    today_use: LadderUse
    """What they come to."""
    ladder: Ladder
    """The best sizes."""
    use: LadderUse
    """What they come to."""
    gain: Spread
    """The 95% interval of what the best sizes save of a request's time, in ns: each half of the
    requests and samples judges the sizes that are best for the other half, and the interval always
    holds ``gain_ns``."""
    interpolated: tuple[int, ...]
    """Those of the best sizes whose times lie between two that were sampled."""
    requests: int
    """How many requests the ladders were judged by."""
    size_sum: int
    """Their real sizes together: tokens, where a size counts tokens."""
    step_ns: float | None
    """What a request takes besides, in ns, whatever the ladder; None where it is not known."""
    ceiling: Ceiling
    """What a request above the largest size costs."""
    curve: tuple[tuple[int, float], ...]
    """For each number of graphs the least time of a request, in ns, without the other budgets."""

    @property
    def gain_ns(self) -> float:
        """What the best sizes save of a request's time, in ns."""
        return (self.today_use.total_ns - self.use.total_ns) / self.requests

    @property
    def is_better(self) -> bool:
        """Whether the best sizes are better than today's for sure."""
        return self.ladder.sizes != self.today and self.gain.low > 0

    def request_ns(self, use: LadderUse) -> float | None:
        """The whole time of a request with a ladder, in ns; None where it is not known."""
        if self.step_ns is None or not math.isfinite(use.total_ns):
            return None
        return self.step_ns + use.total_ns / self.requests

    def rate(self, use: LadderUse) -> float | None:
        """Units of size a second, such as tokens, with a ladder; None where that is not known."""
        request_ns = self.request_ns(use)
        return None if not request_ns else self.size_sum / self.requests / request_ns * 1e9


class LadderBasis(Struct, frozen=True):
    """What advice on a family rests on, whatever the budget."""

    data: LadderData
    """What was measured and asked for."""
    times: Estimates
    """The medians of all samples."""
    problem: LadderProblem
    """Among all sizes that were captured or asked for."""
    halves: tuple[JudgedHalf, ...]
    """By which the gain is judged."""
    chosen_from: LadderProblem
    """Among the candidates alone."""
    counted: CountedLadders
    """The best of these for each number of graphs."""


def ladder_basis(data: LadderData) -> LadderBasis:
    """What advice on ``data``, which has at least one request and one sample, rests on."""
    times = estimates(data)
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = all_sizes(data, data.requests)
    problem = problem_of(data, times, sizes, requests, counts.astype(float))
    candidates = candidate_places(sizes, data.requests)
    chosen_from = problem.only(candidates)
    most = min(2 * len(data.today), _MOST_COUNTED)
    return LadderBasis(
        data=data,
        times=times,
        problem=problem,
        halves=judged_halves(data, times, sizes, candidates, most),
        chosen_from=chosen_from,
        counted=ladders_by_count(chosen_from, most),
    )


def advise(basis: LadderBasis, budget: Budget) -> LadderAdvice | Missing:
    """The best ladder within ``budget``; without a limit on the number of graphs as many sizes as
    there are today."""
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
            "no ladder within the budget reaches the largest request, and no step without a graph "
            "was timed that it could fall back to",
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
    above = None
    if len(times.fallback_sizes):
        above = float(np.interp(top + 1, times.fallback_sizes, times.fallback_ns))
    largest = int(problem.requests[-1])
    beyond = problem.requests > top
    raised = gain = None
    if largest > problem.sizes[-1] and len(times.sizes) > 1:
        raised = float(times_at(problem.requests[-1:], times.sizes, times.replay_ns)[0])
        if above is not None:
            saved = problem.counts[beyond] * (problem.fallback_ns[beyond] - raised)
            gain = float(saved.sum() / problem.counts.sum())
    return Ceiling(top, replay, above, largest, int(problem.counts[beyond].sum()), raised, gain)
