"""How sure it is what the best ladder gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import ReplaySamples, size_times, times_at
from graphviz_dash.analysis.sample_statistics import Spread, independent_medians, interval
from graphviz_dash.features.ladder.analysis.ladder_data import (
    Estimates,
    LadderData,
    estimates,
    problem_of,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    LadderProblem,
    ladder_places,
    padded_places,
)
from graphviz_dash.features.ladder.analysis.ladder_search import (
    CountedLadders,
    best_ladder,
    ladders_by_count,
)

_RESAMPLES: Final = 400
_SEED: Final = 20_261_123


class JudgedHalf(Struct, frozen=True):
    """One half of the requests and samples, by which ladders are chosen, and resamples of the other
    half, by which they are judged."""

    chosen_by: LadderProblem
    """Among the sizes that a ladder is chosen from."""
    counted: CountedLadders
    """The best of these ladders for each number of graphs."""
    judged_by: LadderProblem
    """Among all sizes, with the requests of the other half; its times are those of one resample."""
    counts: Floats
    """How often each of these requests comes in each resample, shape (resamples, requests)."""
    sizes: Ints
    """The sampled sizes, shape (sizes,)."""
    replay_ns: Floats
    """Their times in each resample, shape (resamples, sizes)."""
    requests: int
    """How many requests the other half has."""
    today_ns: Floats
    """What all of them take with today's sizes in each resample, shape (resamples,)."""


def judged_halves(
    data: LadderData, whole: Estimates, sizes: Ints, candidates: Ints, most: int
) -> tuple[JudgedHalf, ...]:
    """Both halves as judged by the other; ladders are chosen among the ``sizes`` at the places
    ``candidates``, the best of each number of graphs up to ``most`` at once, and ``whole`` are the
    estimates of all samples."""
    halves = _halves(data)
    return tuple(
        _judged(*pair, _Choice(whole, sizes, candidates, most), stream)
        for stream, pair in enumerate((halves, halves[::-1]))
    )


def gain_interval(halves: Sequence[JudgedHalf], budget: Budget, gain_ns: float) -> Spread:
    """The 95% interval of what the best sizes within ``budget`` save of a request's time over
    today's, in ns, which by all samples is ``gain_ns``. It holds that in any case.

    A ladder is the best in part because its samples happened to be fast. So that of one half of
    the requests and samples is judged by resamples of the other half (cross-fitting; V.
    Chernozhukov and others, "Double/debiased machine learning", 2018, has the idea).
    """
    gains = [np.full(1, gain_ns)]
    for half in halves:
        ladder = best_ladder(half.chosen_by, budget, half.counted)
        if ladder is not None:
            gains.append((half.today_ns - _totals(half, ladder.sizes)) / half.requests)
    all_gains = np.concatenate(gains)
    spread = interval(all_gains[np.isfinite(all_gains)], sum(half.requests for half in halves))
    high = gain_ns if spread.high is None else max(spread.high, gain_ns)
    return Spread(min(spread.low, gain_ns), high, spread.kind, spread.samples)


class _Choice(Struct, frozen=True):
    """What both halves have in common; see :func:`judged_halves`."""

    whole: Estimates
    sizes: Ints
    candidates: Ints
    most: int


def _judged(
    chosen_by: LadderData, judged_by: LadderData, choice: _Choice, stream: int
) -> JudgedHalf:
    whole, sizes = choice.whole, choice.sizes
    requests, counts = np.unique(chosen_by.requests, return_counts=True)
    problem = problem_of(chosen_by, estimates(chosen_by), sizes, requests, counts.astype(float))
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    drawn = np.stack(
        [independent_medians(m.replay_ns, _RESAMPLES, generator) for m in judged_by.samples]
    )
    sampled, times = size_times(judged_by.samples, drawn)
    asked = np.unique(judged_by.requests)
    among = problem.only(choice.candidates)
    half = JudgedHalf(
        chosen_by=among,
        counted=ladders_by_count(among, choice.most),
        judged_by=problem_of(
            judged_by,
            Estimates(sampled, times[:, 0], whole.fallback_sizes, whole.fallback_ns),
            sizes,
            asked,
            np.ones(len(asked)),
        ),
        counts=_resampled_counts(judged_by.requests, asked, generator),
        sizes=sampled,
        replay_ns=np.ascontiguousarray(times.T),
        requests=len(judged_by.requests),
        today_ns=np.zeros(_RESAMPLES),
    )
    return replace(half, today_ns=_totals(half, judged_by.today))


def _totals(half: JudgedHalf, ladder: Sequence[int]) -> Floats:
    """What all requests of the judging half take with ``ladder`` in each resample, in ns."""
    problem, counts = half.judged_by, half.counts
    padded = padded_places(problem, ladder_places(problem, ladder))
    graphed = padded >= 0
    # Requests that are padded to one size take the same time, and stand beside each other.
    used, firsts = np.unique(padded[graphed], return_index=True)
    together = np.zeros((_RESAMPLES, 0))
    if len(used):
        together = np.add.reduceat(counts[:, graphed], firsts, axis=1)
    replays = together * times_at(problem.sizes[used], half.sizes, half.replay_ns)
    fixed = _fallbacks(counts[:, ~graphed], problem.fallback_ns[~graphed])
    totals: Floats = replays.sum(axis=1) + fixed
    return totals


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
                member.steps,
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


def _fallbacks(counts: Floats, fallback_ns: Floats) -> Floats:
    """What requests without a graph take together, infinite where one of them is not known;
    ``counts`` are of shape (resamples, sizes), the answer of shape (resamples,)."""
    timed = np.isfinite(fallback_ns)
    total = counts[:, timed] @ fallback_ns[timed]
    return np.where((counts[:, ~timed] > 0).any(axis=1), np.inf, total)


def _resampled_counts(requests: Ints, sizes: Ints, generator: np.random.Generator) -> Floats:
    """How often each of ``sizes`` is asked for in resamples of stretches of requests, neighbours
    being alike; shape (resamples, sizes)."""
    block = max(1, math.isqrt(len(requests)))
    places = np.searchsorted(sizes, requests)
    stretches = -(-len(requests) // block)
    cells = np.arange(len(requests)) // block * len(sizes) + places
    counts = np.bincount(cells, minlength=stretches * len(sizes)).reshape(stretches, len(sizes))
    draws = generator.multinomial(stretches, np.full(stretches, 1 / stretches), size=_RESAMPLES)
    # As floating-point numbers: whole ones would not be multiplied by the fast library.
    resampled: Floats = draws.astype(np.float64) @ counts.astype(np.float64)
    return resampled
