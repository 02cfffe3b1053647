"""Confidence interval of the gain from the best ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import ReplaySamples, fit_size_times, interpolate_times
from graphviz_dash.analysis.sample_statistics import (
    Spread,
    compute_interval,
    draw_independent_medians,
)
from graphviz_dash.features.ladder.analysis.ladder_data import (
    LadderData,
    TimeEstimates,
    build_problem,
    estimate_times,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import (
    Budget,
    Ladder,
    LadderProblem,
    find_padded_places,
    find_places,
)
from graphviz_dash.features.ladder.analysis.ladder_search import (
    LaddersByCount,
    find_best_ladder,
    find_ladders_by_count,
)
from graphviz_dash.features.ladder.analysis.set_memory import SetMemory

_RESAMPLES: Final = 400
_SEED: Final = 20_261_123


class JudgedHalf(Struct, frozen=True):
    """Half of the requests and samples for choosing ladders, and resamples of the other half."""

    choice_problem: LadderProblem
    best_by_count: LaddersByCount
    """Best ladders for each number of graphs."""
    judge_problem: LadderProblem
    """Problem over all sizes, with the other half's requests and the times of one resample."""
    counts: Floats
    """Frequency of each request in each resample, shape (resamples, requests)."""
    sizes: Ints
    """Sampled sizes, shape (sizes,)."""
    replay_ns: Floats
    """Times of these sizes in each resample, shape (resamples, sizes)."""
    requests: int
    """Number of requests in the other half."""
    current_ns: Floats
    """Time of these requests with the current sizes, shape (resamples,)."""


def build_judged_halves(
    data: LadderData, estimates: TimeEstimates, sizes: Ints, candidates: Ints, max_count: int
) -> tuple[JudgedHalf, ...]:
    """Build both halves, each judged by the other.

    Ladders are chosen among ``sizes[candidates]``. ``estimates`` come from all samples.
    """
    halves = _split_halves(data)
    return tuple(
        _judge_half(*pair, _ChoiceInputs(estimates, sizes, candidates, max_count), stream)
        for stream, pair in enumerate((halves, halves[::-1]))
    )


def choose_half_ladders(
    halves: Sequence[JudgedHalf], budget: Budget, memory: SetMemory
) -> tuple[Ladder | None, ...]:
    """Choose the best ladder of each half within ``budget``; None if a half has none."""
    return tuple(
        find_best_ladder(half.choice_problem, budget, half.best_by_count, memory) for half in halves
    )


def compute_gain_interval(
    halves: Sequence[JudgedHalf],
    half_ladders: Sequence[Ladder | None],
    sizes: Sequence[int],
    gain_ns: float,
) -> Spread:
    """Compute the 95% interval of the gain per request, in ns.

    ``gain_ns`` is the gain from all samples. The upper end comes from resamples. The lower end also
    covers the gain of the ladders that one half of the requests chooses and the other half judges,
    because the fastest ladder of the same data looks better than it is (V. Chernozhukov and others,
    "Double/debiased machine learning", 2018).
    """
    gains, cross_fitted_gains = [np.full(1, gain_ns)], [np.full(1, gain_ns)]
    for half, half_ladder in zip(halves, half_ladders, strict=True):
        gains.append((half.current_ns - _compute_totals(half, sizes)) / half.requests)
        if half_ladder is not None:
            cross_fitted_gains.append(
                (half.current_ns - _compute_totals(half, half_ladder.sizes)) / half.requests
            )
    count = sum(half.requests for half in halves)
    spread, cross_fitted = (_compute_spread(parts, count) for parts in (gains, cross_fitted_gains))
    high = gain_ns if spread.high is None else max(spread.high, gain_ns)
    return Spread(min(spread.low, cross_fitted.low, gain_ns), high, spread.kind, spread.samples)


def is_loss_significant(
    halves: Sequence[JudgedHalf], sizes: Sequence[int], reference: Sequence[int]
) -> bool:
    """Check whether ``sizes`` are significantly slower than ``reference``, at 95%."""
    losses = [
        (_compute_totals(half, sizes) - _compute_totals(half, reference)) / half.requests
        for half in halves
    ]
    return _compute_spread(losses, sum(half.requests for half in halves)).low > 0


def _compute_spread(parts: Sequence[Floats], count: int) -> Spread:
    """Compute the 95% interval of resampled values, without infinite ones."""
    values = np.concatenate(parts)
    finite = values[np.isfinite(values)]
    return compute_interval(finite if len(finite) else np.zeros(1), count)


class _ChoiceInputs(Struct, frozen=True):
    estimates: TimeEstimates
    sizes: Ints
    candidates: Ints
    max_count: int


def _judge_half(
    reference_data: LadderData, judged_by: LadderData, choice: _ChoiceInputs, stream: int
) -> JudgedHalf:
    total_estimate, sizes = choice.estimates, choice.sizes
    requests, counts = np.unique(reference_data.requests, return_counts=True)
    problem = build_problem(
        reference_data, estimate_times(reference_data), sizes, requests, counts.astype(float)
    )
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    resampled_medians = np.stack(
        [draw_independent_medians(m.replay_ns, _RESAMPLES, generator) for m in judged_by.samples]
    )
    sampled, times = fit_size_times(judged_by.samples, resampled_medians)
    requested = np.unique(judged_by.requests)
    candidate_problem = problem.select(choice.candidates)
    half = JudgedHalf(
        choice_problem=candidate_problem,
        best_by_count=find_ladders_by_count(candidate_problem, choice.max_count),
        judge_problem=build_problem(
            judged_by,
            TimeEstimates(
                sampled, times[:, 0], total_estimate.fallback_sizes, total_estimate.fallback_ns
            ),
            sizes,
            requested,
            np.ones(len(requested)),
        ),
        counts=_resample_counts(judged_by.requests, requested, generator),
        sizes=sampled,
        replay_ns=np.ascontiguousarray(times.T),
        requests=len(judged_by.requests),
        current_ns=np.zeros(_RESAMPLES),
    )
    return replace(half, current_ns=_compute_totals(half, judged_by.current_sizes))


def _compute_totals(half: JudgedHalf, ladder: Sequence[int]) -> Floats:
    """Compute the time of the judging requests in each resample, in ns."""
    problem, counts = half.judge_problem, half.counts
    padded = find_padded_places(problem, find_places(problem, ladder))
    has_graph = padded >= 0
    # Requests padded to one size have the same time and are adjacent.
    used, firsts = np.unique(padded[has_graph], return_index=True)
    counts_by_size = np.zeros((_RESAMPLES, 0))
    if len(used):
        counts_by_size = np.add.reduceat(counts[:, has_graph], firsts, axis=1)
    replays = counts_by_size * interpolate_times(problem.sizes[used], half.sizes, half.replay_ns)
    fixed = _compute_fallbacks(counts[:, ~has_graph], problem.fallback_ns[~has_graph])
    totals: Floats = replays.sum(axis=1) + fixed
    return totals


def _split_halves(data: LadderData) -> tuple[LadderData, LadderData]:
    """Split requests into alternating blocks, samples into alternating halves.

    A member with one sample has it in both halves.
    """
    block = max(1, math.isqrt(len(data.requests)))
    is_even = np.arange(len(data.requests)) // block % 2 == 0
    if is_even.all():
        is_even = np.arange(len(data.requests)) % 2 == 0
    halves = []
    for half, is_half in enumerate((is_even, ~is_even)):
        samples = tuple(
            ReplaySamples(
                member.size,
                member.other_axes,
                member.replay_ns[half::2] if len(member.replay_ns) > 1 else member.replay_ns,
                member.steps,
            )
            for member in data.samples
        )
        requests = data.requests[is_half] if is_half.any() else data.requests
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


def _compute_fallbacks(counts: Floats, fallback_ns: Floats) -> Floats:
    """Compute the total fallback time, shape (resamples,); infinite if any time is unknown."""
    timed = np.isfinite(fallback_ns)
    total = counts[:, timed] @ fallback_ns[timed]
    return np.where((counts[:, ~timed] > 0).any(axis=1), np.inf, total)


def _resample_counts(requests: Ints, sizes: Ints, generator: np.random.Generator) -> Floats:
    """Resample blocks of requests, shape (resamples, sizes).

    Blocks preserve the correlation of neighbouring requests.
    """
    block = max(1, math.isqrt(len(requests)))
    positions = np.searchsorted(sizes, requests)
    blocks = -(-len(requests) // block)
    cells = np.arange(len(requests)) // block * len(sizes) + positions
    counts = np.bincount(cells, minlength=blocks * len(sizes)).reshape(blocks, len(sizes))
    draws = generator.multinomial(blocks, np.full(blocks, 1 / blocks), size=_RESAMPLES)
    # Floats, because integers do not use the fast matrix library.
    resampled: Floats = draws.astype(np.float64) @ counts.astype(np.float64)
    return resampled
