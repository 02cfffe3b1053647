"""Which interval lies around an instant, where intervals of one thread nest."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints

NONE = -1
"""No interval."""


class Nesting(Struct, frozen=True, dict=True):
    """Intervals of several threads that nest within each thread; arrays of shape (intervals,)."""

    start: Ints
    """Begin of each interval."""
    end: Ints
    """Its end, exclusive."""
    thread: Ints
    """Its thread."""
    parent: Ints
    """The interval directly around it on its thread, or NONE."""
    depth: Ints
    """How many intervals are around it."""
    order: Ints
    """Sorts by thread, then from outside to inside."""

    @classmethod
    def build(cls, start: Ints, duration: Ints, thread: Ints, *, calls: bool = False) -> Nesting:
        """The nesting of intervals in any order; at equal starts the longer one is outside.

        Intervals that overlap without nesting are siblings; ``calls`` of one stack cannot overlap
        so: one that outlasts the one around it was not seen to return (Kineto misses the return of
        some built-in functions) and ends with it. An empty interval counts as one nanosecond long,
        so that it can hold the instant at which it lies.
        """
        end = start + np.maximum(duration, 1)
        order = np.lexsort((-end, start, thread))
        parent = np.full(len(start), NONE, dtype=np.int64)
        depth = np.zeros(len(start), dtype=np.int64)
        changes = np.flatnonzero(np.diff(thread[order])) + 1
        for rows in np.split(order, changes) if len(order) else ():
            nested = _nested(start[rows], end[rows])
            if nested is None and calls:
                end[rows] = _returned(start[rows], end[rows])
            inside, deep = nested or _parents_one_by_one(start[rows].tolist(), end[rows].tolist())
            parent[rows] = np.where(inside == NONE, NONE, rows[inside])
            depth[rows] = deep
        return cls(start, end, thread, parent, depth, order)

    def around(self, instants: Ints, thread: Ints) -> Ints:
        """For each instant on its thread the innermost interval that holds it, or NONE."""
        innermost = np.full(len(instants), NONE, dtype=np.int64)
        threads = self.thread[self.order]
        for which in np.unique(thread):
            first, last = np.searchsorted(threads, [which, which + 1])
            if first == last:
                continue
            mine = self.order[first:last]
            asked = np.flatnonzero(thread == which)
            at = np.searchsorted(self.start[mine], instants[asked], "right") - 1
            innermost[asked] = np.where(at >= 0, mine[np.maximum(at, 0)], NONE)
        # The latest that began may have ended: one around it can still run.
        left = np.flatnonzero(innermost != NONE)
        while len(left):
            left = left[self.end[innermost[left]] <= instants[left]]
            innermost[left] = self.parent[innermost[left]]
            left = left[innermost[left] != NONE]
        return innermost

    def nearest(self, wanted: npt.NDArray[np.bool_]) -> Ints:
        """For each interval the innermost of itself and those around it that is ``wanted``, shape
        (intervals,), or NONE."""
        near = np.where(wanted, np.arange(len(wanted), dtype=np.int64), NONE)
        for level in self._levels:
            # From outside to inside: a level's answer is its own or its parents'.
            rows = level[near[level] == NONE]
            near[rows] = near[self.parent[rows]]
        return near

    @cached_property
    def _levels(self) -> list[Ints]:
        """The intervals with others around them, by how many these are."""
        by_depth = np.argsort(self.depth, kind="stable")
        levels = np.flatnonzero(np.diff(self.depth[by_depth])) + 1
        return np.split(by_depth, levels)[1:]


class Wanted:
    """The intervals of a nesting that are looked for."""

    def __init__(self, nesting: Nesting, flags: npt.NDArray[np.bool_]) -> None:
        self.nesting = nesting
        self.flags = flags
        """Which intervals, shape (intervals,)."""

    @cached_property
    def nearest(self) -> Ints:
        """For each interval the innermost wanted one of itself and those around it, or NONE."""
        return self.nesting.nearest(self.flags)

    def around(self, instants: Ints, thread: Ints) -> Ints:
        """For each instant on its thread the innermost wanted interval that holds it, or NONE."""
        return values_at(self.nearest, self.nesting.around(instants, thread))


def values_at(values: Ints, rows: Ints) -> Ints:
    """``values`` at ``rows``, and NONE where the row is NONE."""
    if not len(values):
        return np.full(len(rows), NONE, dtype=np.int64)
    return np.where(rows == NONE, NONE, values[np.maximum(rows, 0)])


def _nested(start: Ints, end: Ints) -> tuple[Ints, Ints] | None:
    """Parent (a place, or NONE) and depth of the intervals of one thread, from outside to inside;
    None where not all nest.

    An interval's depth is the count of those that began before it and have not ended, and its
    parent is the latest of one depth less: no loop is needed.
    """
    count = len(start)
    places = np.arange(count, dtype=np.int64)
    depth = places - np.searchsorted(np.sort(end), start, "right")
    keys = np.sort(depth * count + places)
    at = np.searchsorted(keys, (depth - 1) * count + places) - 1
    parent = np.where(depth > 0, keys[np.maximum(at, 0)] % count, NONE)
    if np.all((parent == NONE) | (end[parent] >= end)):
        return parent, depth
    return None


def _returned(start: Ints, end: Ints) -> Ints:
    """The ends of the calls of one thread, from outside to inside, none after that of the call
    around it."""
    ends = end.tolist()
    stack: list[int] = []
    for index, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack and ends[index] > ends[stack[-1]]:
            ends[index] = ends[stack[-1]]
        stack.append(index)
    return np.array(ends, dtype=np.int64)


def _parents_one_by_one(start: list[int], end: list[int]) -> tuple[Ints, Ints]:
    parent = np.full(len(start), NONE, dtype=np.int64)
    depth = np.zeros(len(start), dtype=np.int64)
    stack: list[int] = []
    for index, (begin, stop) in enumerate(zip(start, end, strict=True)):
        # What ends earlier is not around this one: it ended before, or it only overlaps.
        while stack and (end[stack[-1]] <= begin or end[stack[-1]] < stop):
            stack.pop()
        if stack:
            parent[index] = stack[-1]
        depth[index] = len(stack)
        stack.append(index)
    return parent, depth
