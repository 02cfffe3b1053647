"""Assignment of slices to lanes in which they nest, and the order of their events.

Trace formats require slices in a lane to nest or to be disjoint. Calls on a CPU thread nest, but
profiler clocks differ by some nanoseconds, so a few slices end inside the next one. These go to
overflow lanes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.trace.lanes import split_overlaps

_NESTED_LANES: Final = 8
"""Lanes with nested slices. The rest goes to lanes without overlap, as many as concurrent slices,
in near-linear time."""


def split_nested_lanes(start: Ints, end: Ints) -> list[Ints]:
    """Compute positions of each lane's slices, in the order of their begins.

    Slices come in any order; of two equal slices, the earlier becomes the outer one. The first lane
    holds all slices that nest in time order.
    """
    remaining = np.lexsort((-end, start))
    lanes: list[Ints] = []
    while len(remaining) and len(lanes) < _NESTED_LANES:
        fits = _find_nested(start[remaining].tolist(), end[remaining].tolist())
        lanes.append(remaining[fits])
        remaining = remaining[~fits]
    # An empty slice must precede a slice that starts at the same time.
    remaining = remaining[np.lexsort((end[remaining], start[remaining]))]
    return lanes + [remaining[part] for part in split_overlaps(start[remaining], end[remaining])]


def compute_event_positions(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Compute begin and end positions of a lane's slices among its 2n events.

    Ends precede begins at the same time, inner ends precede outer ones, and the end of an empty
    slice directly follows its begin.
    """
    count = len(start)
    index = np.arange(count, dtype=np.int64)
    # Slices index+1 .. after-1 are inside.
    after = np.maximum(np.searchsorted(start, end, "left"), index + 1)
    opened = np.bincount(index + 1, minlength=count + 2) - np.bincount(after, minlength=count + 2)
    depth = np.cumsum(opened)[:count]
    begin = 2 * index - depth
    return begin, begin + 2 * (after - index) - 1


def compute_lane_event_positions(start: Ints, end: Ints, lanes: list[Ints]) -> tuple[Ints, Ints]:
    """Apply :func:`compute_event_positions` to consecutive lanes of slice positions.

    Lanes with a single slice need no call.
    """
    counts = np.array([len(lane) for lane in lanes])
    first = 2 * (np.cumsum(counts) - counts)
    begin = np.repeat(first, counts)
    end_places = begin + 1
    offset = first // 2
    for lane in np.flatnonzero(counts > 1).tolist():
        rows = lanes[lane]
        lane_slice = slice(int(offset[lane]), int(offset[lane]) + len(rows))
        begins, ends = compute_event_positions(start[rows], end[rows])
        begin[lane_slice] = begins + first[lane]
        end_places[lane_slice] = ends + first[lane]
    return begin, end_places


def _find_nested(start: list[int], end: list[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Mark slices that are inside earlier ones or disjoint from them."""
    fits = np.ones(len(start), dtype=np.bool_)
    open_ends: list[int] = []
    for index, (begin, stop) in enumerate(zip(start, end, strict=True)):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        if open_ends and open_ends[-1] < stop:
            fits[index] = False
        else:
            open_ends.append(stop)
    return fits
