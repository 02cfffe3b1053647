"""Medians with their spread, and the confidence interval of a ratio of two medians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats

Numbers: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64]

_RESAMPLES: Final = 1000
_MIN_RESAMPLES: Final = 200
# Limit of values per bootstrap, so that 100,000 iterations do not need seconds.
_MAX_DRAWS: Final = 5_000_000
_SEED: Final = 20_240_601


class SpreadKind(StrEnum):
    """Meaning of the two ends of a spread."""

    QUARTILES = "p25-p75"
    INTERVAL = "95% interval"
    MIDDLE = "p5-p95"
    PREDICTION = "90% interval"


class Spread(Struct, frozen=True):
    """The range around a value and the samples behind it."""

    low: float
    high: float | None
    """None if unbounded, as for a break-even that may never occur."""
    kind: SpreadKind
    samples: int
    """Samples of the shorter series if there are two."""
    processes: int = 1
    """With one, the interval omits variation between processes."""
    has_extension: bool = False
    """True if the interval of the samples was extended because it misses the value."""

    def include(self, value: float) -> Spread:
        """Return the spread, extended to contain ``value``.

        An interval of resampled medians may miss the median of a series with few distinct values.
        """
        if self.low <= value and (self.high is None or value <= self.high):
            return self
        high = None if self.high is None else max(self.high, value)
        return replace(self, low=min(self.low, value), high=high, has_extension=True)


class Summary(Struct, frozen=True):
    """The median and quartiles of a series (an even count averages the middle two)."""

    median: float
    spread: Spread

    @property
    def relative_spread(self) -> float:
        """(p75 - p25) / median; 0 for a median of 0."""
        low, high = self.spread.low, self.spread.high or 0.0
        return (high - low) / self.median if self.median else 0.0


def summarise(values: Sequence[float] | Numbers) -> Summary | None:
    """Return the median and quartiles of ``values``; None for an empty series."""
    series = np.asarray(values, dtype=np.float64)
    if not series.size:
        return None
    low, median, high = compute_percentiles(series, (25, 50, 75))
    return Summary(median, Spread(low, high, SpreadKind.QUARTILES, int(series.size)))


def compute_percentiles(values: Floats, percents: Sequence[float]) -> list[float]:
    """Return percentiles of ``values``, bit-identical to numpy's linear interpolation.

    numpy is ten times as slow for a short series, and its first call imports masked arrays.
    """
    sorted_values = np.sort(values)
    last = len(sorted_values) - 1
    results = []
    for percent in percents:
        position = percent / 100 * last
        low = math.floor(position)
        before, after = float(sorted_values[low]), float(sorted_values[min(low + 1, last)])
        share, gap = position - low, after - before
        results.append(before + gap * share if share < 0.5 else after - gap * (1 - share))
    return results


def draw_independent_medians(
    values: Floats, resamples: int, generator: np.random.Generator
) -> Floats:
    """Draw medians of resamples of independent ``values``, shape (resamples,).

    Suitable for replays that are many replays apart. No resample is built: of n values drawn
    evenly, the k-th largest has the distribution Beta(k, n - k + 1).
    """
    count = len(values)
    middle = (count + 1) // 2
    drawn_values = generator.beta(middle, count - middle + 1, size=resamples)
    return np.sort(values)[(drawn_values * count).astype(np.int64)]


def compute_resampled_medians(values: Sequence[float] | Numbers, stream: int) -> Floats:
    """Return medians of circular block bootstrap resamples, shape (resamples,).

    The block length is the square root of the series length because neighbouring iterations
    correlate (clocks, host load). Deterministic; ``stream`` separates two series. Source: D.
    Politis and J. Romano, "A circular block-resampling procedure for stationary data" (1992).
    """
    return compute_resampled_process_medians((values,), stream)


def compute_resampled_process_medians(
    processes: Sequence[Sequence[float] | Numbers], stream: int
) -> Floats:
    """Return medians over one series per process (at least one series), shape (resamples,).

    Each resample draws processes with replacement, then blocks of iterations within each. Source:
    A. Davison and D. Hinkley, "Bootstrap Methods and their Application" (1997), section 3.8.
    """
    return _compute_medians(
        tuple(np.asarray(values, np.float64).tobytes() for values in processes), stream
    )


@lru_cache(maxsize=64)
def _compute_medians(processes: tuple[bytes, ...], stream: int) -> Floats:
    """Resample once, because each run is compared with the same baseline. Read-only."""
    arrays = [np.frombuffer(values, np.float64) for values in processes]
    # Ranks instead of values, because integers sort faster. Numpy sorts 32 bits with AVX2, but 16
    # bits only with AVX-512: without it eight times as slowly.
    distinct_values, rank = np.unique(np.concatenate(arrays), return_inverse=True)
    rank = rank.astype(np.uint32)
    ends = np.cumsum([len(values) for values in arrays])
    series = [_CircularSeries(part) for part in np.split(rank, ends[:-1]) if len(part)]
    per_process = -(-rank.size // len(series))
    count = per_process * len(series)
    resamples = min(_RESAMPLES, max(_MIN_RESAMPLES, _MAX_DRAWS // count))
    generator = np.random.Generator(np.random.PCG64([_SEED, stream]))
    medians = np.empty(resamples)
    middle = ((count - 1) // 2, count // 2)
    # One hundred resamples per batch bound the memory for any series length.
    for first in range(0, resamples, 100):
        rows = min(100, resamples - first)
        if len(series) == 1:
            drawn_values = series[0].draw(generator, rows, per_process)
        else:
            drawn_values = np.empty((rows * len(series), per_process), rank.dtype)
            chosen = generator.integers(0, len(series), size=len(drawn_values))
            for number, circle in enumerate(series):
                indices = np.flatnonzero(chosen == number)
                drawn_values[indices] = circle.draw(generator, len(indices), per_process)
        drawn_values = np.sort(drawn_values.reshape(rows, count), axis=1)
        low, high = (distinct_values[drawn_values[:, at]] for at in middle)
        medians[first : first + rows] = (low + high) / 2
    medians.flags.writeable = False
    return medians


class _CircularSeries:
    """A series whose last value is followed by the first."""

    def __init__(self, rank: npt.NDArray[Any]) -> None:
        self._length = len(rank)
        self._block = max(1, math.isqrt(self._length))
        circle = np.concatenate((rank, rank[: self._block - 1]))
        self._runs = np.lib.stride_tricks.sliding_window_view(circle, self._block)

    def draw(self, generator: np.random.Generator, rows: int, count: int) -> npt.NDArray[Any]:
        """Return shape (rows, count)."""
        blocks = -(-count // self._block)
        starts = generator.integers(0, self._length, size=(rows, blocks))
        return self._runs[starts].reshape(rows, -1)[:, :count]


def compute_interval(values: Floats, samples: int, processes: int = 1) -> Spread:
    """Return the 95% interval (2.5th to 97.5th percentile) of bootstrapped ``values``.

    In simulations with two series of 200, the interval of their ratio of medians contained the true
    ratio in 93% of cases for independent iterations and 88% for a correlation of 0.8. Five
    processes of 40 iterations gave 92% to 98%, three gave 84%.
    """
    low, high = compute_percentiles(values, (2.5, 97.5))
    return Spread(low, high, SpreadKind.INTERVAL, samples, processes)
