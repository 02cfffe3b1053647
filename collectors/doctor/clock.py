"""Track streams forked from the captured stream and find those that never rejoin.

Uses vector clocks: a stream that waits for an event learns the work before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectors.doctor.places import SourceLocation


@dataclass(frozen=True)
class UnjoinedStream:
    """A stream with work that the origin never waited for."""

    stream: int
    spot: SourceLocation | None
    """User line of its last work, or None."""
    op: str
    unjoined: int


class StreamClock:
    """Order between streams from recorded and awaited events, by handle."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._counts: dict[int, dict[int, int]] = {origin: {origin: 0}}
        self._events: dict[int, dict[int, int]] = {}
        self._last: dict[int, tuple[SourceLocation | None, str]] = {}

    def add_work(self, stream: int, spot: SourceLocation | None, op: str) -> None:
        """Count an operator launched on a stream."""
        counts = self._counts.setdefault(stream, {})
        counts[stream] = counts.get(stream, 0) + 1
        self._last[stream] = (spot, op)

    def record_event(self, event: int, stream: int) -> None:
        """Record an event in a stream."""
        self._events[event] = dict(self._counts.setdefault(stream, {}))

    def wait_event(self, event: int, stream: int) -> None:
        """Make a stream wait for an event."""
        counts = self._counts.setdefault(stream, {})
        for other, count in self._events.get(event, {}).items():
            counts[other] = max(counts.get(other, 0), count)

    def is_member(self, stream: int) -> bool:
        """Check if a stream is the origin or waited for it, directly or indirectly."""
        return self._origin in self._counts.get(stream, {})

    def find_unjoined(self) -> tuple[UnjoinedStream, ...]:
        """Return forked streams whose last work the origin did not wait for."""
        joined = self._counts[self._origin]
        streams = []
        for stream, (spot, op) in self._last.items():
            behind = self._counts[stream].get(stream, 0) - joined.get(stream, 0)
            if stream != self._origin and self.is_member(stream) and behind > 0:
                streams.append(UnjoinedStream(stream, spot, op, behind))
        return tuple(streams)
