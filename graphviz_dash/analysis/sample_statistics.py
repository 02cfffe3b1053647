"""Medians with their spread, and how sure a ratio of two medians is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats

Numbers: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64]

_RESAMPLES: Final = 1000
_FEWEST_RESAMPLES: Final = 200
# Values drawn for one bootstrap: a series of 100,000 iterations must not take seconds.
_MOST_DRAWS: Final = 5_000_000
_SEED: Final = 20_240_601


class SpreadKind(StrEnum):
    """What the two ends of a spread are."""

    QUARTILES = "p25-p75"
    INTERVAL = "95% interval"
    MIDDLE = "p5-p95"
    PREDICTION = "90% interval"


class Spread(Struct, frozen=True):
    """The range around a value, and what it rests on."""

    low: float
    """Its lower end, in the value's unit."""
    high: float | None
    """Its upper end; None where it is open upwards: a break-even that may never come."""
    kind: SpreadKind
    """What the two ends are."""
    samples: int
    """The number of samples, of the shorter series where there are two."""
    processes: int = 1
    """In how many processes they were taken: the interval of one covers what varied within it, not
    what varies from one process to the next."""


class Summary(Struct, frozen=True):
    """A series as its median (mean of the middle two for an even count) and quartiles."""

    median: float
    spread: Spread

    @property
    def relative_spread(self) -> float:
        """p75 - p25 over the median; 0 for a median of 0."""
        low, high = self.spread.low, self.spread.high or 0.0
        return (high - low) / self.median if self.median else 0.0


def summarise(values: Sequence[float] | Numbers) -> Summary | None:
    """Median and quartiles of ``values``; None for an empty series."""
    series = np.asarray(values, dtype=np.float64)
    if not series.size:
        return None
    low, median, high = percentiles(series, (25, 50, 75))
    return Summary(median, Spread(low, high, SpreadKind.QUARTILES, int(series.size)))


def percentiles(values: Floats, of: Sequence[float]) -> list[float]:
    """The percentiles ``of`` at least one value, by linear interpolation, to the last bit those of
    numpy: its own take ten times as long for a short series, and at their first call import its
    masked arrays, which a first page would wait for."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    results = []
    for percent in of:
        position = percent / 100 * last
        low = math.floor(position)
        before, after = float(ordered[low]), float(ordered[min(low + 1, last)])
        share, gap = position - low, after - before
        results.append(before + gap * share if share < 0.5 else after - gap * (1 - share))
    return results


def independent_medians(values: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    """Medians of resamples of ``values`` that have nothing in common with their neighbours, such as
    replays that lie many replays apart; shape (resamples,). The resamples are not made: of n values
    drawn evenly the k-th largest is distributed as Beta(k, n - k + 1)."""
    count = len(values)
    middle = (count + 1) // 2
    drawn = generator.beta(middle, count - middle + 1, size=resamples)
    return np.sort(values)[(drawn * count).astype(np.int64)]


def resampled_medians(values: Sequence[float] | Numbers, stream: int) -> Floats:
    """Medians of circular block bootstrap resamples of a series, shape (resamples,).

    Blocks are as long as the square root of the series, because neighbouring iterations are alike
    (clocks, neighbours on the host). The same values give the same medians; ``stream`` keeps two
    series apart. Source: D. Politis and J. Romano, "A circular block-resampling procedure for
    stationary data" (1992).
    """
    return resampled_process_medians((values,), stream)


def resampled_process_medians(
    processes: Sequence[Sequence[float] | Numbers], stream: int
) -> Floats:
    """Medians over all of at least one series, of a process each, shape (resamples,).

    Each resample draws as many processes as there are, with replacement, and in each of them as
    many iterations, in blocks as :func:`resampled_medians` does. Source: A. Davison and D. Hinkley,
    "Bootstrap Methods and their Application" (1997), section 3.8.
    """
    # Ranks instead of values: small integers are sorted ten times as fast.
    ordered, rank = np.unique(
        np.concatenate([np.asarray(values, dtype=np.float64) for values in processes]),
        return_inverse=True,
    )
    rank = rank.astype(np.uint16 if len(ordered) <= 1 << 16 else np.uint32)
    ends = np.cumsum([len(values) for values in processes])
    series = [_Circle(part) for part in np.split(rank, ends[:-1]) if len(part)]
    each = -(-rank.size // len(series))
    count = each * len(series)
    resamples = min(_RESAMPLES, max(_FEWEST_RESAMPLES, _MOST_DRAWS // count))
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    medians = np.empty(resamples)
    middle = ((count - 1) // 2, count // 2)
    # A hundred at a time bounds the memory whatever the length of the series.
    for first in range(0, resamples, 100):
        rows = min(100, resamples - first)
        if len(series) == 1:
            drawn = series[0].draw(generator, rows, each)
        else:
            drawn = np.empty((rows * len(series), each), rank.dtype)
            chosen = generator.integers(0, len(series), size=len(drawn))
            for number, circle in enumerate(series):
                own = np.flatnonzero(chosen == number)
                drawn[own] = circle.draw(generator, len(own), each)
        drawn = np.sort(drawn.reshape(rows, count), axis=1)
        low, high = (ordered[drawn[:, at]] for at in middle)
        medians[first : first + rows] = (low + high) / 2
    return medians


class _Circle:
    """A series from which blocks are drawn; the last value's neighbour is the first."""

    def __init__(self, rank: npt.NDArray[Any]) -> None:
        self._length = len(rank)
        self._block = max(1, math.isqrt(self._length))
        circle = np.concatenate((rank, rank[: self._block - 1]))
        self._runs = np.lib.stride_tricks.sliding_window_view(circle, self._block)

    def draw(self, generator: np.random.Generator, rows: int, count: int) -> npt.NDArray[Any]:
        """``count`` values for each of ``rows``, shape (rows, count)."""
        blocks = -(-count // self._block)
        begins = generator.integers(0, self._length, size=(rows, blocks))
        return self._runs[begins].reshape(rows, -1)[:, :count]


def interval(values: Floats, samples: int, processes: int = 1) -> Spread:
    """The 95% interval (2.5th to 97.5th percentile) of bootstrapped ``values``.

    Simulated with two series of 200, the interval of their ratio of medians held the true one in
    93% of cases for independent iterations, in 88% where neighbours correlate by 0.8. With five
    processes of 40 iterations in each series it held the true ratio in 92% to 98%, whether the
    processes or the iterations varied more; with three, in 84%.
    """
    low, high = percentiles(values, (2.5, 97.5))
    return Spread(low, high, SpreadKind.INTERVAL, samples, processes)
