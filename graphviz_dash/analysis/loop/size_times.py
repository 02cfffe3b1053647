"""Replay time by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.sample_statistics import compute_percentiles

_MIN_EAGER: Final = 16
_MIN_GROUP: Final = 4
_MAX_GROUPS: Final = 16


class ReplaySamples(Struct, frozen=True):
    """Sampled replays of one member of a family."""

    size: int
    """Size on the padded axis."""
    other_axes: tuple[int, ...]
    """Other numbers of its key, which a ladder does not change."""
    replay_ns: Floats
    """GPU times in ns, shape (samples,); at least one."""
    steps: int
    """Steps that replayed it, sampled or not."""


class SizeTimes(Struct, frozen=True):
    """GPU times of eager steps by size; empty if unknown."""

    sizes: Ints
    """Ascending, shape (sizes,)."""
    times: Floats
    """In ns, not decreasing, shape (sizes,)."""


NO_TIMES: Final = SizeTimes(np.zeros(0, dtype=np.int64), np.zeros(0))


def compute_median(values: Floats) -> float:
    """Compute the median of at least one value."""
    return compute_percentiles(values, (50,))[0]


def fit_size_times(samples: Sequence[ReplaySamples], times: Floats) -> tuple[Ints, Floats]:
    """Fit times by size from the ``times`` of the members, shape (members, ...).

    Returns the sizes and their times, shape (sizes, ...). If keys have other numbers, a member's
    time is a size term plus a term for them, fitted by least squares and averaged over all steps.
    """
    sizes: Ints = np.unique(np.array([member.size for member in samples], dtype=np.int64))
    other_keys = sorted({member.other_axes for member in samples})
    if len(other_keys) == 1 and len(sizes) == len(samples):
        return sizes, times[np.argsort([member.size for member in samples])]
    rows = np.zeros((len(samples) + 1, len(sizes) + len(other_keys)))
    for row, member in enumerate(samples):
        rows[row, np.searchsorted(sizes, member.size)] = 1
        column = len(sizes) + other_keys.index(member.other_axes)
        rows[row, column] = 1
        rows[-1, column] += member.steps
    rows[-1] /= max(rows[-1].sum(), 1)
    fit: Floats = np.asarray(np.linalg.pinv(rows), dtype=np.float64)
    return sizes, fit[: len(sizes), : len(samples)] @ times


def fit_median_times(samples: Sequence[ReplaySamples]) -> tuple[Ints, Floats]:
    """Fit the medians of the samples, shape (sizes,), as :func:`fit_size_times` does."""
    return fit_size_times(
        samples, np.array([compute_median(member.replay_ns) for member in samples])
    )


def fit_eager_times(sizes: Ints, times: Floats) -> SizeTimes:
    """Fit GPU times of eager steps, shape (steps,), by the medians of groups of similar sizes.

    Empty with fewer than ``_MIN_EAGER`` steps.
    """
    if len(sizes) < _MIN_EAGER:
        return NO_TIMES
    order = np.argsort(sizes, kind="stable")
    sizes, times = sizes[order], times[order]
    ends = np.linspace(0, len(sizes), min(_MAX_GROUPS, len(sizes) // _MIN_GROUP) + 1)
    # Steps of one size stay together.
    bounds = np.unique(np.searchsorted(sizes, sizes[ends[1:-1].astype(np.int64)]))
    groups = [group for group in np.split(np.arange(len(sizes)), bounds) if len(group)]
    middle = np.array([int(np.median(sizes[group])) for group in groups], dtype=np.int64)
    medians = np.array([compute_median(times[group]) for group in groups])
    return SizeTimes(middle, np.maximum.accumulate(medians))


def extend_times(sizes: Ints, times: Floats, eager: SizeTimes) -> tuple[Ints, Floats]:
    """Append the times of eager steps above the largest size, shape (sizes,), without a
    decrease."""
    is_larger = eager.sizes > sizes[-1]
    all_times = np.append(times, np.maximum(eager.times[is_larger], times[-1]))
    return np.append(sizes, eager.sizes[is_larger]), all_times


def interpolate_times(sizes: Ints, measured_sizes: Ints, times: Floats) -> Floats:
    """Interpolate ``times`` (..., measured) at ``sizes``, shape (..., sizes).

    Constant below the smallest measured size, extrapolated above the largest, without a decrease.
    """
    if len(measured_sizes) == 1:
        return np.repeat(times, len(sizes), axis=-1)
    upper = np.clip(np.searchsorted(measured_sizes, sizes), 1, len(measured_sizes) - 1)
    low, high = times[..., upper - 1], times[..., upper]
    share = np.maximum(
        (sizes - measured_sizes[upper - 1]) / (measured_sizes[upper] - measured_sizes[upper - 1]), 0
    )
    # No decrease above the largest size.
    rise = np.where(sizes > measured_sizes[-1], np.maximum(high - low, 0), high - low)
    base = np.where(sizes > measured_sizes[-1], high - rise, low)
    result: Floats = base + rise * share
    return result


def interpolate(sizes: Ints, measured_sizes: Ints, values: Floats) -> Floats:
    """Interpolate ``values``, constant beyond the measured sizes; infinite if empty.

    Shape (sizes,).
    """
    if not len(measured_sizes):
        return np.full(len(sizes), np.inf)
    return np.interp(sizes, measured_sizes, values)
