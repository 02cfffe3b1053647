"""How launch time grows with the graph, and how sure that is.

A time is fitted by a straight part and a rising one: ``base + slope * max(0, nodes - knee)``.
``knee`` is 0 or one of the sizes that were measured; of these the one is taken whose fit leaves the
smallest sum of squared relative residuals of the medians. Intervals come from refitting 300
resamples: of the processes, and of the trials within each that was drawn, since one process differs
from the next by more than its trials differ among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats
from graphviz_dash.analysis.sample_statistics import Spread, interval

RESAMPLES: Final = 300
_SEED: Final = 20_240_601

FEWEST_SIZES: Final = 4
"""Sizes that a fit must have: fewer could not tell a knee."""


class GrowthFit(Struct, frozen=True):
    """``base_ns + slope_ns * max(0, nodes - knee)``, with 95% intervals of all three."""

    base_ns: float
    """Time up to the knee, in ns."""
    slope_ns: float
    """What each node beyond the knee adds, in ns."""
    knee: int
    """Nodes up to which the time is constant; 0 or a size that was measured."""
    base_interval: Spread
    """Of ``base_ns``, in ns."""
    slope_interval: Spread
    """Of ``slope_ns``, in ns."""
    knee_interval: Spread
    """Of ``knee``, in nodes."""

    def at(self, nodes: int) -> float:
        """The fitted time of a graph of so many nodes, in ns."""
        return self.base_ns + self.slope_ns * max(0, nodes - self.knee)


class AddedTime(Struct, frozen=True):
    """What something adds to the CPU time of a repeat launch, in ns, with a 95% interval."""

    ns: float
    interval: Spread


def table(rows: Iterable[Sequence[int]]) -> Floats:
    """The samples as (sizes, trials); the shortest row decides where one lost trials."""
    listed = [*rows]
    trials = min(len(row) for row in listed)
    return np.array([row[:trials] for row in listed], dtype=np.float64)


def fit(sizes: Sequence[int], samples: Floats, process_trials: int | None) -> GrowthFit:
    """The fit of ``samples`` (sizes, trials) over ascending ``sizes``, at least FEWEST_SIZES; each
    ``process_trials`` trials in a row are of one process, None: all of the same."""
    nodes = np.array(sizes, dtype=np.float64)
    # Two sizes above a knee at the least, or the slope would be one measurement's noise.
    knees = np.array([0.0, *nodes[:-2]])
    (base,), (slope,), (knee,) = _hinges(nodes, np.median(samples, axis=1)[None, :], knees)
    bases, slopes, bends = _hinges(nodes, _resampled(samples, process_trials), knees)
    trials = samples.shape[1]
    return GrowthFit(
        float(base),
        float(slope),
        int(knee),
        interval(bases, trials),
        interval(slopes, trials),
        interval(bends, trials),
    )


def slope_of(sizes: Sequence[int], samples: Floats, process_trials: int | None) -> AddedTime:
    """The slope of a straight fit of ``samples`` (sizes, trials) over ``sizes``."""
    places, straight = np.array(sizes, dtype=np.float64), np.zeros(1)
    (slope,) = _hinges(places, np.median(samples, axis=1)[None, :], straight)[1]
    again = _hinges(places, _resampled(samples, process_trials), straight)[1]
    return AddedTime(float(slope), interval(again, samples.shape[1]))


def difference(samples: Floats, process_trials: int | None) -> AddedTime:
    """The median of the second row of ``samples`` (2, trials) less that of the first."""
    before, after = np.median(samples, axis=1)
    again = np.diff(_resampled(samples, process_trials), axis=1)[:, 0]
    return AddedTime(float(after - before), interval(again, samples.shape[1]))


def _hinges(nodes: Floats, times: Floats, knees: Floats) -> tuple[Floats, Floats, Floats]:
    """Base, slope and knee of the best fit to each row of ``times``, each of shape (rows,).

    Least squares with weights of one over the time, for every knee at once: ``nodes`` (sizes,),
    ``times`` (rows, sizes), ``knees`` (knees,).
    """
    rise = np.maximum(0.0, nodes - knees[:, None])[:, None, :]
    weight = 1.0 / times**2
    ones, along, square = (
        weight.sum(axis=1),
        (weight * rise).sum(axis=2),
        (weight * rise**2).sum(axis=2),
    )
    flat, steep = (weight * times).sum(axis=1), (weight * times * rise).sum(axis=2)
    determinant = ones * square - along**2
    slope = (ones * steep - along * flat) / determinant
    base = (flat - slope * along) / ones
    residual = ((base[:, :, None] + slope[:, :, None] * rise) / times - 1.0) ** 2
    best = residual.sum(axis=2).argmin(axis=0)
    row = np.arange(len(times))
    return base[best, row], slope[best, row], knees[best]


def _resampled(samples: Floats, process_trials: int | None) -> Floats:
    """Medians by size of resamples, shape (resamples, sizes); a trial is drawn for all sizes
    together, because what disturbs the machine disturbs neighbours alike."""
    generator = np.random.Generator(np.random.PCG64(_SEED))
    trials = samples.shape[1]
    return np.asarray(np.median(samples[:, _drawn(generator, trials, process_trials)], axis=2).T)


def _drawn(
    generator: np.random.Generator, trials: int, process_trials: int | None
) -> npt.NDArray[np.int64]:
    """Places of the trials of each resample, shape (resamples, trials)."""
    if process_trials is None or trials < 2 * process_trials:
        return generator.integers(0, trials, (RESAMPLES, trials))
    # A process that was interrupted is left out: its last trials are missing.
    processes = trials // process_trials
    chosen = generator.integers(0, processes, (RESAMPLES, processes, 1))
    within = generator.integers(0, process_trials, (RESAMPLES, processes, process_trials))
    return (chosen * process_trials + within).reshape(RESAMPLES, processes * process_trials)
