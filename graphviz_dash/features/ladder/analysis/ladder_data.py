"""Measurements and requests of a family, and the resulting ladder problem."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import (
    NO_TIMES,
    ReplaySamples,
    SizeTimes,
    compute_median,
    extend_times,
    fit_median_times,
    interpolate,
    interpolate_times,
)
from graphviz_dash.analysis.memory.captured_pools import FamilyPool
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderProblem
from graphviz_dash.features.ladder.analysis.outside_time import OutsideTime
from graphviz_dash.model.absence import Fact, Missing

MAX_SIZES: Final = 512
"""Maximum number of candidates; beyond it, quantiles of the requests are used."""


class SizeCosts(Struct, frozen=True):
    """Cost of having the graphs of a size."""

    size: int
    """Size on the padded axis."""
    exclusive_bytes: float
    """Device memory regardless of other graphs."""
    pool_bytes: float
    """Additional pool memory, shared with other graphs."""
    startup_ns: float
    """One-time cost: capture, instantiation and first launch."""
    executable_bytes: float = 0.0
    """Part of ``exclusive_bytes`` outside the pool."""


class LadderData(Struct, frozen=True):
    """Graphs of a family and its requests."""

    captured: tuple[SizeCosts, ...]
    """Captured sizes, ascending; at least one."""
    samples: tuple[ReplaySamples, ...]
    """At least one; a captured size may have none."""
    requests: Ints
    """Real size of each request in order, shape (requests,)."""
    fallback_sizes: Ints
    """Real sizes of timed steps without a graph, shape (fallbacks,)."""
    fallback_ns: Floats
    """Time of these steps beyond ``step_ns``, shape (fallbacks,)."""
    step_ns: float | None
    """Mean time of a step outside its replay, including waits; None if unknown."""
    fallback_base_ns: float = 0.0
    """Time outside graphs that ``fallback_ns`` excludes."""
    outside: OutsideTime | None = None
    """Time outside graphs by number of requests. None if unknown."""
    all_steps_ns: float | None = None
    """Time of the steps of all families, by median intervals per size. None if unknown."""
    pool: FamilyPool | Missing = Missing(Fact.PREDICTION, "the captures are unknown")
    """Allocations of the captures, or why they are unknown."""
    eager_times: SizeTimes = NO_TIMES
    """GPU times of steps without a graph; empty if unknown."""

    @property
    def current_sizes(self) -> tuple[int, ...]:
        """Captured sizes."""
        return tuple(costs.size for costs in self.captured)


class TimeEstimates(Struct, frozen=True):
    """Estimated times of a family."""

    sizes: Ints
    """Timed sizes, ascending, shape (sizes,)."""
    replay_ns: Floats
    """GPU time of a replay or, above the largest graph, of an eager step; shape (sizes,)."""
    fallback_sizes: Ints
    """Sizes that ran without a graph, ascending, shape (fallback sizes,)."""
    fallback_ns: Floats
    """Time of these steps beyond ``step_ns``, shape (fallback sizes,)."""


def estimate_times(data: LadderData) -> TimeEstimates:
    """Estimate times by the medians of all samples."""
    fallback_sizes, positions = np.unique(data.fallback_sizes, return_inverse=True)
    order = np.argsort(positions, kind="stable")
    groups = np.split(data.fallback_ns[order], np.cumsum(np.bincount(positions))[:-1])
    fallbacks = np.array([compute_median(group) for group in groups if len(group)])
    sizes, times = extend_times(*fit_median_times(data.samples), data.eager_times)
    return TimeEstimates(sizes, times, fallback_sizes, fallbacks)


def collect_sizes(data: LadderData, requests: Ints) -> Ints:
    """Combine captured and requested sizes, up to the largest captured one.

    Other sizes have no advantage, because times between captured sizes are linear.
    """
    captured = np.array(data.current_sizes, dtype=np.int64)
    requested = np.unique(requests)
    return np.union1d(captured, requested[(requested > 0) & (requested <= captured[-1])])


def select_candidates(sizes: Ints, requests: Ints) -> Ints:
    """Select the indices of at most ``MAX_SIZES`` candidate sizes."""
    if len(sizes) <= MAX_SIZES:
        return np.arange(len(sizes))
    covered = np.sort(requests[requests <= sizes[-1]])
    ends = covered[np.linspace(0, len(covered) - 1, MAX_SIZES).astype(np.int64)]
    return np.union1d(np.searchsorted(sizes, ends), [len(sizes) - 1])


def build_problem(
    data: LadderData, times: TimeEstimates, sizes: Ints, requests: Ints, counts: Floats
) -> LadderProblem:
    """Build the ladder problem.

    Values are interpolated between known sizes and constant beyond them, but times are extrapolated
    above the largest. Fallback times are infinite if none was observed.
    """
    captured = np.array(data.current_sizes, dtype=np.int64)
    return LadderProblem(
        sizes=sizes,
        replay_ns=interpolate_times(sizes, times.sizes, times.replay_ns),
        exclusive_bytes=interpolate(sizes, captured, _get_column(data, "exclusive_bytes")),
        pool_bytes=np.maximum.accumulate(
            interpolate(sizes, captured, _get_column(data, "pool_bytes"))
        ),
        startup_ns=interpolate(sizes, captured, _get_column(data, "startup_ns")),
        requests=requests,
        counts=counts,
        fallback_ns=interpolate(requests, times.fallback_sizes, times.fallback_ns),
    )


def _get_column(data: LadderData, name: str) -> Floats:
    return np.array([float(getattr(costs, name)) for costs in data.captured])
