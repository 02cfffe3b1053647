"""How sure it is what the best ladder gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.families.ladder_data import (
    Estimates,
    LadderData,
    estimates,
    problem_of,
)
from graphviz_dash.analysis.families.ladder_problem import Budget, ladder_places, padded_places
from graphviz_dash.analysis.families.ladder_search import best_ladder
from graphviz_dash.analysis.families.size_times import ReplaySamples, size_times, times_at
from graphviz_dash.analysis.sample_statistics import Spread, interval

_RESAMPLES: Final = 400
_SEED: Final = 20_261_123


def gain_interval(
    data: LadderData,
    whole: Estimates,
    sizes: Ints,
    candidates: Ints,
    budget: Budget,
    gain_ns: float,
) -> Spread:
    """The 95% interval of what the best of the ``sizes`` at the places ``candidates`` save of a
    request's time over today's, in ns, which by all samples, with the estimates ``whole``, is
    ``gain_ns``. It holds that in any case.

    A ladder is the best in part because its samples happened to be fast. So that of one half of
    the requests and samples is judged by resamples of the other half (cross-fitting; V.
    Chernozhukov and others, "Double/debiased machine learning", 2018, has the idea).
    """
    halves = _halves(data)
    gains = []
    for stream, (chosen_by, judged_by) in enumerate((halves, halves[::-1])):
        requests, counts = np.unique(chosen_by.requests, return_counts=True)
        problem = problem_of(data, estimates(chosen_by), sizes, requests, counts.astype(float))
        ladder = best_ladder(problem.only(candidates), budget)
        if ladder is not None:
            gains.append(_gains(judged_by, whole, sizes, ladder.sizes, stream))
    if not gains:
        return interval(np.full(1, gain_ns), len(data.requests))
    finite = np.concatenate(gains)
    finite = finite[np.isfinite(finite)]
    spread = interval(finite if len(finite) else np.full(1, gain_ns), len(data.requests))
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
    half: LadderData, whole: Estimates, sizes: Ints, ladder: Sequence[int], stream: int
) -> Floats:
    """What ``ladder`` saves of a request's time over today's sizes, in ns, for resamples of the
    requests and samples of ``half``, shape (resamples,)."""
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    drawn = np.stack([_resampled_medians(m.replay_ns, generator) for m in half.samples])
    size_list, times = size_times(half.samples, drawn)
    replay_ns = times.T
    requests = np.unique(half.requests)
    counts = _resampled_counts(half.requests, requests, generator)
    problem = problem_of(
        half,
        Estimates(size_list, replay_ns[0], whole.fallback_sizes, whole.fallback_ns),
        sizes,
        requests,
        np.ones(len(requests)),
    )
    totals = []
    for chosen in (half.today, ladder):
        padded = padded_places(problem, ladder_places(problem, chosen))
        graphed = padded >= 0
        at = problem.sizes[padded[graphed]]
        fixed = _fallbacks(counts[:, ~graphed], problem.fallback_ns[~graphed])
        replays = counts[:, graphed] * times_at(at, size_list, replay_ns)
        totals.append(replays.sum(axis=1) + fixed)
    gains: Floats = (totals[0] - totals[1]) / len(half.requests)
    return gains


def _fallbacks(counts: Floats, fallback_ns: Floats) -> Floats:
    """What requests without a graph take together, infinite where one of them is not known;
    ``counts`` are of shape (resamples, sizes), the answer of shape (resamples,)."""
    timed = np.isfinite(fallback_ns)
    total = counts[:, timed] @ fallback_ns[timed]
    return np.where((counts[:, ~timed] > 0).any(axis=1), np.inf, total)


def _resampled_medians(values: Floats, generator: np.random.Generator) -> Floats:
    """Medians of resamples of ``values``, shape (resamples,), without making the resamples: of n
    values drawn evenly the k-th largest is distributed as Beta(k, n - k + 1). Samples of replays
    lie many replays apart, and count as independent."""
    count = len(values)
    middle = (count + 1) // 2
    drawn = generator.beta(middle, count - middle + 1, size=_RESAMPLES)
    return np.sort(values)[(drawn * count).astype(np.int64)]


def _resampled_counts(requests: Ints, sizes: Ints, generator: np.random.Generator) -> Floats:
    """How often each of ``sizes`` is asked for in resamples of stretches of requests, neighbours
    being alike; shape (resamples, sizes)."""
    block = max(1, math.isqrt(len(requests)))
    places = np.searchsorted(sizes, requests)
    stretches = -(-len(requests) // block)
    counts = np.zeros((stretches, len(sizes)))
    np.add.at(counts, (np.arange(len(requests)) // block, places), 1)
    draws = generator.multinomial(stretches, np.full(stretches, 1 / stretches), size=_RESAMPLES)
    resampled: Floats = draws @ counts
    return resampled
