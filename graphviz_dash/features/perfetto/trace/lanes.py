"""Slices laid into lanes in which they nest, and the order of their begins and ends there.

A trace that tells slices by their begin and their end can only show slices that lie inside one
another or apart. On one CPU thread calls nest, but the clocks of profilers differ by some
nanoseconds, so that a few slices end inside the next; they go to overflow lanes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.trace.lanes import split_overlaps

_NESTED_LANES: Final = 8
"""Lanes filled with nested slices; what fits in none of them goes to lanes without overlap, whose
number is that of the slices that run at once, in near-linear time for any input."""


def nested_lanes(start: Ints, end: Ints) -> list[Ints]:
    """Positions of the slices of each lane, in the order of their begins.

    Slices are given in any order; of two that are equal the earlier one becomes the outer one. The
    first lane holds all that nest when taken in the order of time.
    """
    left = np.lexsort((-end, start))
    lanes: list[Ints] = []
    while len(left) and len(lanes) < _NESTED_LANES:
        fits = _nesting(start[left].tolist(), end[left].tolist())
        lanes.append(left[fits])
        left = left[~fits]
    # An empty slice at the instant where another begins must stand before it there.
    left = left[np.lexsort((end[left], start[left]))]
    return lanes + [left[part] for part in split_overlaps(start[left], end[left])]


def event_places(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Where the begin and the end of each slice stand among the 2n events of a lane.

    The slices are those of one lane, in its order. Ends stand before begins of the same instant,
    inner ends before outer ones, and the end of an empty slice directly behind its begin.
    """
    count = len(start)
    own = np.arange(count, dtype=np.int64)
    # Slices own+1 .. after-1 lie inside.
    after = np.maximum(np.searchsorted(start, end, "left"), own + 1)
    opened = np.bincount(own + 1, minlength=count + 2) - np.bincount(after, minlength=count + 2)
    depth = np.cumsum(opened)[:count]
    begin = 2 * own - depth
    return begin, begin + 2 * (after - own) - 1


def event_places_of_lanes(start: Ints, end: Ints, lanes: list[Ints]) -> tuple[Ints, Ints]:
    """:func:`event_places` of several lanes, one behind the other; ``lanes`` are positions of the
    slices of each. The many that hold one slice each take no call of their own."""
    counts = np.array([len(lane) for lane in lanes])
    first = 2 * (np.cumsum(counts) - counts)
    begin = np.repeat(first, counts)
    end_places = begin + 1
    at = first // 2
    for lane in np.flatnonzero(counts > 1).tolist():
        rows = lanes[lane]
        own = slice(int(at[lane]), int(at[lane]) + len(rows))
        begins, ends = event_places(start[rows], end[rows])
        begin[own] = begins + first[lane]
        end_places[own] = ends + first[lane]
    return begin, end_places


def _nesting(start: list[int], end: list[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which slices, taken in order, lie inside those taken before or apart from them."""
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
