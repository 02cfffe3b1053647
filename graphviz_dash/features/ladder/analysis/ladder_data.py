"""What is measured of the sizes of a family and asked of it, and the problem that this poses."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.size_times import (
    ReplaySamples,
    between,
    median,
    size_times,
    times_at,
)
from graphviz_dash.features.ladder.analysis.ladder_problem import LadderProblem

MOST_SIZES: Final = 512
"""Sizes that a ladder is chosen from; of more those at the ends of equal shares of the requests."""


class SizeCosts(Struct, frozen=True):
    """What it takes to have the graphs of a size."""

    size: int
    """The size on the axis that is padded."""
    own_bytes: float
    """Device memory that they need whichever others there are."""
    pool_bytes: float
    """What they use of the pool besides, in turn with the others."""
    startup_ns: float
    """What they take once: capture, instantiation, first launch."""


class LadderData(Struct, frozen=True):
    """The graphs of a family, and the requests to it."""

    captured: tuple[SizeCosts, ...]
    """By size, ascending; at least one."""
    samples: tuple[ReplaySamples, ...]
    """At least one; a captured size may have none."""
    requests: Ints
    """The real size of each request, in their order, shape (requests,)."""
    fallback_sizes: Ints
    """The real sizes of steps that ran without a graph and were timed, shape (fallbacks,)."""
    fallback_ns: Floats
    """What they took over ``step_ns``, in ns, shape (fallbacks,)."""
    step_ns: float | None
    """What a step takes besides its replay on average, whatever the size, in ns: the host's work
    that the GPU waits for, eager work between, waiting. None where it is not known."""

    @property
    def today(self) -> tuple[int, ...]:
        """The sizes that were captured."""
        return tuple(costs.size for costs in self.captured)


class Estimates(Struct, frozen=True):
    """What is taken for the times of a family."""

    sizes: Ints
    """The sizes that were sampled, ascending, shape (sizes,)."""
    replay_ns: Floats
    """GPU time of a replay of each, in ns, shape (sizes,)."""
    fallback_sizes: Ints
    """The sizes that ran without a graph, ascending, shape (fallback sizes,)."""
    fallback_ns: Floats
    """What they took over the step's own, in ns, shape (fallback sizes,)."""


def estimates(data: LadderData) -> Estimates:
    """The medians of all samples."""
    fallback_sizes, places = np.unique(data.fallback_sizes, return_inverse=True)
    order = np.argsort(places, kind="stable")
    groups = np.split(data.fallback_ns[order], np.cumsum(np.bincount(places))[:-1])
    fallbacks = np.array([median(group) for group in groups if len(group)])
    sizes, times = size_times(
        data.samples, np.array([median(member.replay_ns) for member in data.samples])
    )
    return Estimates(sizes, times, fallback_sizes, fallbacks)


def all_sizes(data: LadderData, requests: Ints) -> Ints:
    """The sizes that were captured and those asked for, as far as the largest captured. One between
    them serves no request that the next below it does not, and takes no less: times between
    captured sizes lie on a line."""
    captured = np.array(data.today, dtype=np.int64)
    asked = np.unique(requests)
    return np.union1d(captured, asked[(asked > 0) & (asked <= captured[-1])])


def candidate_places(sizes: Ints, requests: Ints) -> Ints:
    """The places of those of ``sizes`` that a ladder is chosen from, which is all of them unless
    they are more than ``MOST_SIZES``."""
    if len(sizes) <= MOST_SIZES:
        return np.arange(len(sizes))
    within = np.sort(requests[requests <= sizes[-1]])
    ends = within[np.linspace(0, len(within) - 1, MOST_SIZES).astype(np.int64)]
    return np.union1d(np.searchsorted(sizes, ends), [len(sizes) - 1])


def problem_of(
    data: LadderData, times: Estimates, sizes: Ints, requests: Ints, counts: Floats
) -> LadderProblem:
    """The problem of a ladder among ``sizes`` for ``requests`` of each size, ``counts`` of them.

    Between captured sizes times, bytes and start-up lie on the line between the two, below the
    smallest they are its own; times above the largest that was sampled go on rising. What a step
    takes without a graph is that of the sizes it was seen at, between them on the line, beyond them
    as at the nearest; infinite where it was seen at none.
    """
    captured = np.array(data.today, dtype=np.int64)
    return LadderProblem(
        sizes=sizes,
        replay_ns=times_at(sizes, times.sizes, times.replay_ns),
        own_bytes=between(sizes, captured, _column(data, "own_bytes")),
        pool_bytes=np.maximum.accumulate(between(sizes, captured, _column(data, "pool_bytes"))),
        startup_ns=between(sizes, captured, _column(data, "startup_ns")),
        requests=requests,
        counts=counts,
        fallback_ns=between(requests, times.fallback_sizes, times.fallback_ns),
    )


def _column(data: LadderData, name: str) -> Floats:
    return np.array([float(getattr(costs, name)) for costs in data.captured])
