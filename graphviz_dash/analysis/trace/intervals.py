"""Lookup of the nested interval around a time, per thread."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints

NONE = -1


class Nesting(Struct, frozen=True, dict=True):
    """Intervals of several threads that nest within each thread; arrays of shape (intervals,)."""

    start: Ints
    end: Ints
    """Exclusive end of each interval."""
    thread: Ints
    parent: Ints
    """On the same thread; NONE without one."""
    depth: Ints
    """Number of enclosing intervals."""
    order: Ints
    """Order by thread, then from outside to inside."""

    @classmethod
    def build(cls, start: Ints, duration: Ints, thread: Ints, *, calls: bool = False) -> Nesting:
        """Build the nesting of intervals in any order; at equal starts the longer one is outside.

        Intervals that overlap without nesting are siblings. With ``calls`` of one stack this cannot
        happen: a call that outlasts its caller has a missing return (Kineto misses some built-in
        functions) and ends with its caller. An empty interval counts as one ns, to contain its
        time.
        """
        end = start + np.maximum(duration, 1)
        order = np.lexsort((-end, start, thread))
        parent = np.full(len(start), NONE, dtype=np.int64)
        depth = np.zeros(len(start), dtype=np.int64)
        changes = np.flatnonzero(np.diff(thread[order])) + 1
        for rows in np.split(order, changes) if len(order) else ():
            nested_parents = _find_parents(start[rows], end[rows])
            if nested_parents is None and calls:
                end[rows] = _clip_to_callers(start[rows], end[rows])
            inside, deep = nested_parents or _find_parents_by_stack(
                start[rows].tolist(), end[rows].tolist()
            )
            parent[rows] = np.where(inside == NONE, NONE, rows[inside])
            depth[rows] = deep
        return cls(start, end, thread, parent, depth, order)

    def find_around(self, instants: Ints, thread: Ints) -> Ints:
        """Return the innermost interval around each instant on its thread, or NONE."""
        innermost = np.full(len(instants), NONE, dtype=np.int64)
        threads = self.thread[self.order]
        for thread_id in np.unique(thread):
            first, last = np.searchsorted(threads, [thread_id, thread_id + 1])
            if first == last:
                continue
            rows = self.order[first:last]
            queries = np.flatnonzero(thread == thread_id)
            index = np.searchsorted(self.start[rows], instants[queries], "right") - 1
            innermost[queries] = np.where(index >= 0, rows[np.maximum(index, 0)], NONE)
        # The latest interval to start may have ended; an enclosing one can still run.
        remaining = np.flatnonzero(innermost != NONE)
        while len(remaining):
            remaining = remaining[self.end[innermost[remaining]] <= instants[remaining]]
            innermost[remaining] = self.parent[innermost[remaining]]
            remaining = remaining[innermost[remaining] != NONE]
        return innermost

    def find_nearest(self, requested: npt.NDArray[np.bool_]) -> Ints:
        """Return the innermost ``requested`` interval among each interval and those around it, or
        NONE.

        Shape (intervals,).
        """
        nearest_rows = np.where(requested, np.arange(len(requested), dtype=np.int64), NONE)
        for level in self._levels:
            # From outside to inside: each level uses its own or its parents' result.
            rows = level[nearest_rows[level] == NONE]
            nearest_rows[rows] = nearest_rows[self.parent[rows]]
        return nearest_rows

    @cached_property
    def _levels(self) -> list[Ints]:
        by_depth = np.argsort(self.depth, kind="stable")
        levels = np.flatnonzero(np.diff(self.depth[by_depth])) + 1
        return np.split(by_depth, levels)[1:]


class SelectedIntervals:
    """A selection of the intervals of a nesting."""

    def __init__(self, nesting: Nesting, flags: npt.NDArray[np.bool_]) -> None:
        self.nesting = nesting
        self.flags = flags
        """Selection mask, shape (intervals,)."""

    @cached_property
    def nearest(self) -> Ints:
        """Innermost selected interval among each interval and those around it, or NONE."""
        return self.nesting.find_nearest(self.flags)

    def find_around(self, instants: Ints, thread: Ints) -> Ints:
        """Return the innermost selected interval around each instant on its thread, or NONE."""
        return get_values(self.nearest, self.nesting.find_around(instants, thread))


def get_values(values: Ints, rows: Ints) -> Ints:
    """Return ``values`` at ``rows``, and NONE if the row is NONE."""
    if not len(values):
        return np.full(len(rows), NONE, dtype=np.int64)
    return np.where(rows == NONE, NONE, values[np.maximum(rows, 0)])


def _find_parents(start: Ints, end: Ints) -> tuple[Ints, Ints] | None:
    """Return parent (index or NONE) and depth of one thread's intervals, from outside to inside.

    None if not all nest. The depth is the number of earlier intervals that have not ended, and the
    parent is the latest one of the previous depth, so no loop is needed.
    """
    count = len(start)
    positions = np.arange(count, dtype=np.int64)
    depth = positions - np.searchsorted(np.sort(end), start, "right")
    keys = np.sort(depth * count + positions)
    at = np.searchsorted(keys, (depth - 1) * count + positions) - 1
    parent = np.where(depth > 0, keys[np.maximum(at, 0)] % count, NONE)
    if np.all((parent == NONE) | (end[parent] >= end)):
        return parent, depth
    return None


def _clip_to_callers(start: Ints, end: Ints) -> Ints:
    ends = end.tolist()
    stack: list[int] = []
    for index, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack and ends[index] > ends[stack[-1]]:
            ends[index] = ends[stack[-1]]
        stack.append(index)
    return np.array(ends, dtype=np.int64)


def _find_parents_by_stack(start: list[int], end: list[int]) -> tuple[Ints, Ints]:
    parent = np.full(len(start), NONE, dtype=np.int64)
    depth = np.zeros(len(start), dtype=np.int64)
    stack: list[int] = []
    for index, (begin, stop) in enumerate(zip(start, end, strict=True)):
        # An interval that ends earlier does not enclose this one: it ended before or only overlaps.
        while stack and (end[stack[-1]] <= begin or end[stack[-1]] < stop):
            stack.pop()
        if stack:
            parent[index] = stack[-1]
        depth[index] = len(stack)
        stack.append(index)
    return parent, depth
