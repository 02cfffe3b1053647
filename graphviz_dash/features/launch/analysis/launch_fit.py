"""Growth of launch time with graph size, with confidence intervals.

Model: ``base + slope * max(0, nodes - knee)``, with ``knee`` at 0 or a measured size, by least
squared relative residuals. Intervals come from 300 resamples of processes and of trials within
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.sample_statistics import Spread, compute_interval

RESAMPLES: Final = 300
_SEED: Final = 20_240_601

MIN_SIZES: Final = 4
"""Fewer sizes cannot determine a knee."""


class GrowthFit(Struct, frozen=True):
    """``base_ns + slope_ns * max(0, nodes - knee)``, with 95% intervals of all three."""

    base_ns: float
    """Time up to the knee."""
    slope_ns: float
    """Additional time per node beyond the knee."""
    knee: int
    """Nodes up to which the time is constant; 0 or a measured size."""
    base_interval: Spread
    slope_interval: Spread
    knee_interval: Spread
    """Interval of ``knee``, in nodes."""

    def evaluate(self, nodes: int) -> float:
        """Compute the fitted time in ns."""
        return self.base_ns + self.slope_ns * max(0, nodes - self.knee)


class AddedTime(Struct, frozen=True):
    """Additional CPU time of a repeat launch, in ns, with a 95% interval."""

    ns: float
    interval: Spread


def arrange_samples(rows: Iterable[Sequence[int]]) -> Floats:
    """Arrange samples as (sizes, trials), truncated to the shortest row."""
    listed = [*rows]
    trials = min(len(row) for row in listed)
    return np.array([row[:trials] for row in listed], dtype=np.float64)


def fit_growth(sizes: Sequence[int], samples: Floats, process_trials: int | None) -> GrowthFit:
    """Fit ``samples`` (sizes, trials) over at least ``MIN_SIZES`` ascending sizes.

    Each ``process_trials`` consecutive trials belong to one process; None for a single process.
    """
    nodes = np.array(sizes, dtype=np.float64)
    # At least two sizes above a knee; otherwise the slope is noise of one measurement.
    knees = np.array([0.0, *nodes[:-2]])
    (base,), (slope,), (knee,) = _fit_hinges(nodes, np.median(samples, axis=1)[None, :], knees)
    bases, slopes, bends = _fit_hinges(nodes, _resample_medians(samples, process_trials), knees)
    trials = samples.shape[1]
    return GrowthFit(
        float(base),
        float(slope),
        int(knee),
        compute_interval(bases, trials),
        compute_interval(slopes, trials),
        compute_interval(bends, trials),
    )


def fit_slope(sizes: Sequence[int], samples: Floats, process_trials: int | None) -> AddedTime:
    """Fit a line to ``samples`` (sizes, trials) over ``sizes``."""
    positions, no_knee = np.array(sizes, dtype=np.float64), np.zeros(1)
    (slope,) = _fit_hinges(positions, np.median(samples, axis=1)[None, :], no_knee)[1]
    resampled_slopes = _fit_hinges(positions, _resample_medians(samples, process_trials), no_knee)[
        1
    ]
    return AddedTime(float(slope), compute_interval(resampled_slopes, samples.shape[1]))


def compute_difference(samples: Floats, process_trials: int | None) -> AddedTime:
    """Compute the difference between the medians of both rows, shape (2, trials)."""
    first_median, second_median = np.median(samples, axis=1)
    resampled_differences = np.diff(_resample_medians(samples, process_trials), axis=1)[:, 0]
    return AddedTime(
        float(second_median - first_median),
        compute_interval(resampled_differences, samples.shape[1]),
    )


def _fit_hinges(nodes: Floats, times: Floats, knees: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit a hinge to each row; return base, slope and knee, each of shape (rows,).

    Least squares with weights 1/time: ``nodes`` (sizes,), ``times`` (rows, sizes), ``knees``
    (knees,).
    """
    rise = np.maximum(0.0, nodes - knees[:, None])[:, None, :]
    weight = 1.0 / times**2
    constants, slopes, square = (
        weight.sum(axis=1),
        (weight * rise).sum(axis=2),
        (weight * rise**2).sum(axis=2),
    )
    flat, steep = (weight * times).sum(axis=1), (weight * times * rise).sum(axis=2)
    determinant = constants * square - slopes**2
    slope = (constants * steep - slopes * flat) / determinant
    base = (flat - slope * slopes) / constants
    residual = ((base[:, :, None] + slope[:, :, None] * rise) / times - 1.0) ** 2
    best = residual.sum(axis=2).argmin(axis=0)
    row = np.arange(len(times))
    return base[best, row], slope[best, row], knees[best]


def _resample_medians(samples: Floats, process_trials: int | None) -> Floats:
    """Compute medians of resamples, shape (resamples, sizes).

    A trial is drawn for all sizes together, because disturbances affect neighbouring measurements.
    """
    generator = np.random.Generator(np.random.PCG64(_SEED))
    trials = samples.shape[1]
    return np.asarray(
        np.median(samples[:, _draw_trials(generator, trials, process_trials)], axis=2).T
    )


def _draw_trials(
    generator: np.random.Generator, trials: int, process_trials: int | None
) -> npt.NDArray[np.int64]:
    """Draw trial indices, shape (resamples, trials)."""
    if process_trials is None or trials < 2 * process_trials:
        return generator.integers(0, trials, (RESAMPLES, trials))
    # Exclude an interrupted process, whose last trials are missing.
    processes = trials // process_trials
    process_indices = generator.integers(0, processes, (RESAMPLES, processes, 1))
    trial_indices = generator.integers(0, process_trials, (RESAMPLES, processes, process_trials))
    return (process_indices * process_trials + trial_indices).reshape(
        RESAMPLES, processes * process_trials
    )
