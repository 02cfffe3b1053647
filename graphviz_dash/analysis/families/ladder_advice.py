"""Which sizes to capture, what they gain over today's, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.families.ladder_data import (
    Estimates,
    LadderData,
    ReplaySamples,
    candidate_sizes,
    estimates,
    problem_of,
    size_weights,
)
from graphviz_dash.analysis.families.ladder_problem import (
    Budget,
    Ladder,
    LadderProblem,
    LadderUse,
    ladder_places,
    padded_places,
    use_of,
)
from graphviz_dash.analysis.families.ladder_search import best_by_count, best_ladder
from graphviz_dash.analysis.sample_statistics import Spread, interval, resampled_medians
from graphviz_dash.model.absence import Fact, Missing

_RESAMPLES: Final = 400
_SEED: Final = 20_261_123


@dataclass(frozen=True)
class Ceiling:
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


@dataclass(frozen=True)
class LadderAdvice:
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


def advise(data: LadderData, budget: Budget) -> LadderAdvice | Missing:
    """The best ladder for ``data`` within ``budget``; without a limit on the number of graphs as
    many sizes as there are today."""
    if not len(data.requests):
        return Missing(Fact.LADDER, "no step of a known real size")
    if not data.samples:
        return Missing(Fact.LADDER, "no replay was timed on the GPU")
    limits = Budget(
        len(data.today) if budget.graphs is None else budget.graphs,
        budget.memory_bytes,
        budget.startup_ns,
    )
    times = estimates(data)
    requests, counts = np.unique(data.requests, return_counts=True)
    sizes = candidate_sizes(data, data.requests)
    problem = problem_of(data, times, sizes, requests, counts.astype(float))
    ladder = best_ladder(problem, limits)
    if ladder is None:
        return Missing(
            Fact.LADDER,
            "no ladder within the budget reaches the largest request, and no step without a graph "
            "was timed that it could fall back to",
        )
    use, today_use = use_of(problem, ladder.sizes), use_of(problem, data.today)
    gain_ns = (today_use.total_ns - use.total_ns) / len(data.requests)
    return LadderAdvice(
        budget=limits,
        today=data.today,
        today_use=today_use,
        ladder=ladder,
        use=use,
        gain=_gain(data, sizes, limits, gain_ns),
        interpolated=tuple(size for size in ladder.sizes if size not in set(times.sizes.tolist())),
        requests=len(data.requests),
        size_sum=int(data.requests.sum()),
        step_ns=data.step_ns,
        ceiling=_ceiling(problem, times, ladder),
        curve=tuple(
            (count, total / len(data.requests))
            for count, total in best_by_count(problem, 2 * len(data.today))
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
        (low, high), (low_ns, high_ns) = times.sizes[-2:], times.replay_ns[-2:]
        slope = max(float(high_ns - low_ns) / float(high - low), 0.0)
        raised = float(high_ns) + slope * float(largest - high)
        if above is not None:
            saved = problem.counts[beyond] * (problem.fallback_ns[beyond] - raised)
            gain = float(saved.sum() / problem.counts.sum())
    return Ceiling(top, replay, above, largest, int(problem.counts[beyond].sum()), raised, gain)


def _gain(data: LadderData, sizes: Ints, budget: Budget, gain_ns: float) -> Spread:
    """See ``LadderAdvice.gain``."""
    halves = _halves(data)
    gains = []
    for stream, (chosen_by, judged_by) in enumerate((halves, halves[::-1])):
        requests, counts = np.unique(chosen_by.requests, return_counts=True)
        problem = problem_of(data, estimates(chosen_by), sizes, requests, counts.astype(float))
        ladder = best_ladder(problem, budget)
        if ladder is not None:
            gains.append(_gains(judged_by, data, sizes, ladder.sizes, stream))
    if not gains:
        return interval(np.full(1, gain_ns), len(data.requests))
    all_gains = np.concatenate(gains)
    spread = interval(all_gains[np.isfinite(all_gains)], len(data.requests))
    low, high = spread.low, spread.high
    return Spread(
        min(low, gain_ns),
        max(gain_ns if high is None else high, gain_ns),
        spread.kind,
        spread.samples,
    )


def _halves(data: LadderData) -> tuple[LadderData, LadderData]:
    """Every second stretch of requests, and every second sample; a member of one sample has it in
    both."""
    block = max(1, math.isqrt(len(data.requests)))
    even = np.arange(len(data.requests)) // block % 2 == 0
    if even.all():
        even = np.arange(len(data.requests)) % 2 == 0
    halves = []
    for half, chosen in enumerate((even, ~even)):
        samples = tuple(
            ReplaySamples(
                member.size,
                member.rest,
                member.replay_ns[half::2] if len(member.replay_ns) > 1 else member.replay_ns,
            )
            for member in data.samples
        )
        requests = data.requests[chosen] if chosen.any() else data.requests
        halves.append(
            LadderData(
                data.captured,
                samples,
                requests,
                data.fallback_sizes,
                data.fallback_ns,
                data.step_ns,
            )
        )
    return halves[0], halves[1]


def _gains(
    half: LadderData, data: LadderData, sizes: Ints, ladder: Sequence[int], stream: int
) -> Floats:
    """What ``ladder`` saves of a request's time over today's sizes, in ns, for resamples of the
    requests and samples of ``half``, shape (resamples,)."""
    size_list, weights = size_weights(half.samples)
    drawn = np.stack(
        [
            _resized(resampled_medians(member.replay_ns, 2 * number + stream))
            for number, member in enumerate(half.samples)
        ]
    )
    replay_ns = (weights @ drawn).T
    requests = np.unique(half.requests)
    counts = _resampled_counts(half.requests, requests, stream)
    whole = estimates(data)
    problem = problem_of(
        data,
        Estimates(size_list, replay_ns[0], whole.fallback_sizes, whole.fallback_ns),
        sizes,
        requests,
        np.ones(len(requests)),
    )
    totals = []
    for chosen in (data.today, ladder):
        padded = padded_places(problem, ladder_places(problem, chosen))
        graphed = padded >= 0
        at = problem.sizes[padded[graphed]]
        fixed = counts[:, ~graphed] @ problem.fallback_ns[~graphed] if (~graphed).any() else 0.0
        columns = _interpolated(at, size_list, replay_ns)
        totals.append((counts[:, graphed] * columns).sum(axis=1) + fixed)
    gains: Floats = (totals[0] - totals[1]) / len(half.requests)
    return gains


def _resized(values: Floats) -> Floats:
    return np.resize(values, _RESAMPLES)


def _interpolated(at: Ints, sizes: Ints, values: Floats) -> Floats:
    """Each row of ``values``, which are at ``sizes``, at other sizes, on straight lines and level
    beyond them: shape (resamples, at)."""
    upper = np.clip(np.searchsorted(sizes, at), 1, max(len(sizes) - 1, 1))
    if len(sizes) == 1:
        return np.repeat(values, len(at), axis=1)
    width = sizes[upper] - sizes[upper - 1]
    share = np.clip((at - sizes[upper - 1]) / width, 0, 1)
    mixed: Floats = values[:, upper - 1] * (1 - share) + values[:, upper] * share
    return mixed


def _resampled_counts(requests: Ints, sizes: Ints, stream: int) -> Floats:
    """How often each of ``sizes`` is asked for in resamples of stretches of requests, neighbours
    being alike; shape (resamples, sizes)."""
    block = max(1, math.isqrt(len(requests)))
    places = np.searchsorted(sizes, requests)
    stretches = -(-len(requests) // block)
    counts = np.zeros((stretches, len(sizes)))
    np.add.at(counts, (np.arange(len(requests)) // block, places), 1)
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    draws = generator.multinomial(stretches, np.full(stretches, 1 / stretches), size=_RESAMPLES)
    resampled: Floats = draws @ counts
    return resampled
