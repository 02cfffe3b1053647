"""Slices from begin and end events (phases B and E), which some converters write instead of X.

They nest like brackets per process and thread. Only pairs of a known category become slices, at the
index of their end event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from graphviz_dash.ingest.kineto.events import NO_TIME, Event, ThreadId

_PHASES: Final = frozenset("BE")


class SplitSlicesError(Exception):
    """Begin and end events may be in pieces that different processes read."""


def has_pairs(events: Sequence[Event]) -> bool:
    """Return True if there are begin or end events."""
    return not _PHASES.isdisjoint({event.ph for event in events})


class SlicePairing:
    """Begin events without an end so far, by lane."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[ThreadId, ThreadId], list[Event]] = defaultdict(list)

    def join_slices(self, events: Sequence[Event]) -> list[Event]:
        """Replace each end event with the slice. Its begin event loses its category, so it counts
        as read."""
        return [self._join(event) for event in events]

    def count_unfinished(self) -> int:
        """Count the begin events with a category that have no end."""
        return sum(bool(event.cat) for lane in self._open.values() for event in lane)

    def _join(self, event: Event) -> Event:
        if event.ph == "B":
            self._open[event.pid, event.tid].append(event)
            return Event(ph="B")
        if event.ph != "E" or not self._open[event.pid, event.tid]:
            return event
        begin = self._open[event.pid, event.tid].pop()
        return Event(
            ph="X",
            cat=begin.cat,
            name=begin.name,
            pid=begin.pid,
            tid=begin.tid,
            ts=begin.ts,
            dur=_subtract_times(event.ts, begin.ts),
            args=begin.args,
        )


def _subtract_times(end: float | Decimal, start: float | Decimal) -> float | Decimal:
    """Subtract times of any type, exactly if possible. NaN if one is missing."""
    if isinstance(end, int) and isinstance(start, int):
        return end - start
    try:
        return Decimal(str(end)) - Decimal(str(start))
    except ArithmeticError:
        return NO_TIME
