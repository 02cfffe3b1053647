"""Which streams are forked from the captured one, and which are not joined to it again.

A vector clock: each stream counts its own work and learns, by waiting for an event, of the work
that was before that event.
"""

from __future__ import annotations

from dataclasses import dataclass

from collectors.doctor.places import Spot


@dataclass(frozen=True)
class Unjoined:
    """A stream with work that the origin never waited for."""

    stream: int
    """The handle of the stream."""
    spot: Spot | None
    """The line of its last work; None where it is not the user's."""
    op: str
    """The operator or call of its last work."""
    unjoined: int
    """How many pieces of its work nothing waited for."""


class Clock:
    """The order between streams, as recorded and waited events make it. Streams and events are
    given by their handles."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._counts: dict[int, dict[int, int]] = {origin: {origin: 0}}
        self._events: dict[int, dict[int, int]] = {}
        self._last: dict[int, tuple[Spot | None, str]] = {}

    def works(self, stream: int, spot: Spot | None, op: str) -> None:
        """An operator was launched on a stream."""
        own = self._counts.setdefault(stream, {})
        own[stream] = own.get(stream, 0) + 1
        self._last[stream] = (spot, op)

    def records(self, event: int, stream: int) -> None:
        """An event was recorded in a stream."""
        self._events[event] = dict(self._counts.setdefault(stream, {}))

    def waits(self, event: int, stream: int) -> None:
        """A stream waits for an event."""
        counts = self._counts.setdefault(stream, {})
        for other, count in self._events.get(event, {}).items():
            counts[other] = max(counts.get(other, 0), count)

    def is_member(self, stream: int) -> bool:
        """Whether a stream is the origin, or has waited for it, directly or not."""
        return self._origin in self._counts.get(stream, {})

    def unjoined(self) -> tuple[Unjoined, ...]:
        """Forked streams whose last work the origin does not know of."""
        joined = self._counts[self._origin]
        streams = []
        for stream, (spot, op) in self._last.items():
            behind = self._counts[stream].get(stream, 0) - joined.get(stream, 0)
            if stream != self._origin and self.is_member(stream) and behind > 0:
                streams.append(Unjoined(stream, spot, op, behind))
        return tuple(streams)
