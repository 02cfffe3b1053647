"""The time of a replay by size, from the samples of a family's graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.sample_statistics import percentiles


class ReplaySamples(Struct, frozen=True):
    """Sampled replays of one member of the family."""

    size: int
    """Its size on the axis that is padded."""
    rest: tuple[int, ...]
    """The other numbers of its key, which a ladder leaves as they are."""
    replay_ns: Floats
    """GPU times, in ns, shape (samples,); at least one."""
    steps: int
    """The steps that replayed it, sampled or not."""


def median(values: Floats) -> float:
    """The median of at least one value."""
    return percentiles(values, (50,))[0]


def size_times(samples: Sequence[ReplaySamples], times: Floats) -> tuple[Ints, Floats]:
    """The sizes that were sampled, ascending, and the times of these, shape (sizes, ...), by the
    ``times`` of the members, shape (members, ...).

    Where keys have other numbers besides, the time of a member is taken for the sum of one for its
    size and one for those numbers, fitted by least squares; a size has its own at the average of
    the others over the steps, which no ladder changes. With a single number each size has the time
    of its member.
    """
    sizes: Ints = np.unique(np.array([member.size for member in samples], dtype=np.int64))
    rests = sorted({member.rest for member in samples})
    if len(rests) == 1 and len(sizes) == len(samples):
        return sizes, times[np.argsort([member.size for member in samples])]
    rows = np.zeros((len(samples) + 1, len(sizes) + len(rests)))
    for row, member in enumerate(samples):
        rows[row, np.searchsorted(sizes, member.size)] = 1
        column = len(sizes) + rests.index(member.rest)
        rows[row, column] = 1
        rows[-1, column] += member.steps
    rows[-1] /= max(rows[-1].sum(), 1)
    fit: Floats = np.asarray(np.linalg.pinv(rows), dtype=np.float64)
    return sizes, fit[: len(sizes), : len(samples)] @ times


def times_at(sizes: Ints, seen: Ints, times: Floats) -> Floats:
    """The ``times`` of ``seen`` sizes at others: on straight lines between them, level below the
    smallest, rising above the largest as between the two largest. ``times`` are of shape
    (..., seen), at least one; the answer of shape (..., sizes)."""
    if len(seen) == 1:
        return np.repeat(times, len(sizes), axis=-1)
    upper = np.clip(np.searchsorted(seen, sizes), 1, len(seen) - 1)
    low, high = times[..., upper - 1], times[..., upper]
    share = np.maximum((sizes - seen[upper - 1]) / (seen[upper] - seen[upper - 1]), 0)
    # Above the largest no time falls.
    rise = np.where(sizes > seen[-1], np.maximum(high - low, 0), high - low)
    base = np.where(sizes > seen[-1], high - rise, low)
    result: Floats = base + rise * share
    return result


def between(sizes: Ints, seen: Ints, values: Floats) -> Floats:
    """``values`` at the sizes ``seen``, on straight lines between them and level beyond them;
    infinite where nothing was seen. Shape (sizes,)."""
    if not len(seen):
        return np.full(len(sizes), np.inf)
    return np.interp(sizes, seen, values)
