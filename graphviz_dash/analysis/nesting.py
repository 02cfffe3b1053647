"""Which interval lies around an instant, where intervals of one thread nest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphviz_dash.analysis.lanes import Ints

_NONE = -1


@dataclass(frozen=True)
class Nesting:
    """Intervals of several threads that nest within each thread.

    ``start``, ``end`` (exclusive) and ``thread`` have a value for each interval; ``parent`` is the
    interval directly around it on its thread, or -1.
    """

    start: Ints
    end: Ints
    thread: Ints
    parent: Ints

    @classmethod
    def build(cls, start: Ints, duration: Ints, thread: Ints) -> Nesting:
        """The nesting of intervals in any order; at equal starts the longer one is outside."""
        end = start + np.maximum(duration, 0)
        parent = np.full(len(start), _NONE, dtype=np.int64)
        stack: list[int] = []
        current = None
        for row in np.lexsort((-end, start, thread)).tolist():
            if thread[row] != current:
                current, stack = thread[row], []
            while stack and end[stack[-1]] < end[row]:
                # Not around this one; if it only overlaps, it is no parent either.
                stack.pop()
            if stack:
                parent[row] = stack[-1]
            stack.append(row)
        return cls(start, end, thread, parent)

    def around(self, instants: Ints, thread: Ints) -> Ints:
        """For each instant on its thread the innermost interval that holds it, or -1."""
        found = np.full(len(instants), _NONE, dtype=np.int64)
        for which in np.unique(thread):
            mine = np.flatnonzero(self.thread == which)
            asked = np.flatnonzero(thread == which)
            if not len(mine) or not len(asked):
                continue
            mine = mine[np.lexsort((-self.end[mine], self.start[mine]))]
            last = np.searchsorted(self.start[mine], instants[asked], "right") - 1
            for place, at in zip(asked.tolist(), last.tolist(), strict=True):
                row = int(mine[at]) if at >= 0 else _NONE
                # The latest that began may have ended: one around it then still runs.
                while row != _NONE and self.end[row] <= instants[place]:
                    row = int(self.parent[row])
                found[place] = row
        return found

    def outward(self, row: int) -> Iterator[int]:
        """``row`` and the intervals around it, innermost first."""
        while row != _NONE:
            yield row
            row = int(self.parent[row])


def first_where(rows: Iterator[int], wanted: npt.NDArray[np.bool_]) -> int | None:
    """The first of ``rows`` for which ``wanted`` holds."""
    return next((row for row in rows if wanted[row]), None)
