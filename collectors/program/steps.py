"""Detect the steps of an unknown program from four kinds of events, the most reliable first.

1. explicit: the program calls ``collectors.step()`` at the end of each step.
2. optimizer: ``step()`` of a torch optimizer returns, or a graph with such a call is replayed.
3. replays: the same graph is replayed again; one cycle of replays is a step.
4. forwards: the same outermost module is called again, or the same compiled function.

Several candidates of a kind may tick, such as two optimizers or a graph per layer. The first is the
anchor that ends steps, until another one has ticked :data:`PATIENCE` times without it. A more
reliable kind takes over at its first tick. Only the anchor's thread counts.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Final

from collectors.program.loop.events import EventKind, Note
from graphviz_dash.model.recording import BoundaryKind

PATIENCE: Final = 16
"""Ticks of another candidate, without one of the anchor, that make it the anchor."""

_SERVED: Final = (BoundaryKind.LABEL, BoundaryKind.ENGINE)
"""Kinds reported by the program or its engine. A thread that serves becomes the anchor quickly once
the previous one, which warmed up, is silent."""

BOUNDED: Final = (BoundaryKind.EXPLICIT, BoundaryKind.OPTIMIZER)
"""Kinds with explicit ends: all replays between two ends belong to one step."""

_STEP: Final = int(EventKind.STEP)
_ORDER: Final = {kind: number for number, kind in enumerate(BoundaryKind)}


class StepSeries:
    """Times of steps since the last capture.

    In slots, because an access to each one delays the program.
    """

    __slots__ = (
        "_clock",
        "drain_ns",
        "is_special",
        "last",
        "number",
        "plain_steps",
        "since_capture",
        "times",
    )

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock
        self.is_special = True
        """The end of a step may need more than a time."""
        self.plain_steps = 0
        """Number of steps from now on whose ends only add a time."""
        self.since_capture = 0
        """Steps since the last capture, or without a capture if the program serves requests."""
        self.times: list[int] = []
        """Step times in ns."""
        self.last = 0
        """End of the last step by the performance counter. 0 before the first."""
        self.drain_ns: int | None = None
        """Wait for the GPU after the last time, in ns. None if the series continues."""
        self.number = 0

    def end_plain_step(self) -> int:
        """Count a step that ends now if its end only adds a time.

        Returns the time by the performance counter, or 0 without counting anything. Raises nothing.
        """
        if not self.plain_steps or self.is_special:
            return 0
        now = perf_counter_ns()
        self.plain_steps -= 1
        self.since_capture += 1
        if self.drain_ns is None:
            self.times.append(now - self.last)
            self.last = now
        return now

    def end_anchor_step(self, note: Note) -> bool:
        """Count and record a step that the anchor ends now if its end only adds a time.

        Returns False without counting anything otherwise. Raises nothing. A single function with
        few objects, because each one may delay the program by a microsecond.
        """
        clock, thread = self._clock, get_ident()
        if not self.plain_steps or self.is_special or thread != clock.thread:
            return False
        now = perf_counter_ns()
        self.plain_steps -= 1
        self.since_capture += 1
        clock.steps += 1
        if self.drain_ns is None:
            self.times.append(now - self.last)
            self.last = now
        note((_STEP, 0, thread, now, now))
        return True

    def add_time(self, now: int) -> None:
        """Add the time of the step that ends now."""
        self.times.append(now - self.last)
        self.last = now

    def restart(self) -> None:
        """Start another series of times."""
        self.times.clear()
        self.number += 1
        self.last = self.plain_steps = 0


class StepClock:
    """Converts ticks into steps. Calls ``ended`` at the end of each step, in the anchor's thread,
    and ``began`` at the first step of a new anchor.

    In slots, because an access to each one delays the program.
    """

    __slots__ = (
        "_began",
        "_ended",
        "_is_ending",
        "_others",
        "_others_step",
        "anchor",
        "boundary",
        "boundary_kind",
        "steps",
        "thread",
    )

    def __init__(self, ended: Callable[[], None], began: Callable[[], None]) -> None:
        self.boundary_kind: BoundaryKind | None = None
        self.boundary: str | None = None
        self.steps = 0
        """Number of steps. A caller that handles the end of a step itself, in the anchor's thread,
        adds it."""
        self.anchor: object = None
        """Candidate that ends steps."""
        self.thread = 0
        """Thread in which it does."""
        self._ended = ended
        self._began = began
        self._is_ending = False
        self._others: dict[object, int] = {}
        self._others_step = 0

    def is_relevant(self, kind: BoundaryKind) -> bool:
        """Check if ticks of ``kind`` can count: no more reliable kind has ticked."""
        return (
            self.boundary_kind is None
            or kind is self.boundary_kind
            or _ORDER[kind] < _ORDER[self.boundary_kind]
        )

    def count_other(self, kind: BoundaryKind, candidate: object) -> bool:
        """Count a tick of ``candidate`` if it neither ends a step nor makes it the anchor. Returns
        False otherwise: then the tick must be handled. The first tick of a step need not be
        counted. Raises nothing."""
        if kind is not self.boundary_kind or candidate == self.anchor or self._is_ending:
            return False
        others = self._get_others()
        ticks = others.get(candidate, 1) + 1
        if ticks >= PATIENCE or kind in _SERVED:
            return False
        others[candidate] = ticks
        return True

    def rename(self, candidate: object, boundary: str) -> None:
        """Change the description of the event that ends steps, if ``candidate`` is the anchor."""
        if candidate == self.anchor:
            self.boundary = boundary

    def handle_tick(self, kind: BoundaryKind, candidate: object, boundary: str) -> None:
        """Handle an event that may end a step.

        ``candidate`` is its identity within ``kind``, compared by equality and kept, so it must not
        keep objects of the program alive.
        """
        # The most frequent cases come first because they delay the program.
        if kind is self.boundary_kind:
            if candidate == self.anchor:
                if get_ident() == self.thread:
                    self.steps += 1
                    self._is_ending = True
                    try:
                        self._ended()
                    finally:
                        self._is_ending = False
            # Ending a step can be slow, and other threads tick in the meantime.
            elif not self._is_ending:
                others = self._get_others()
                others[candidate] = ticks = others.get(candidate, 0) + 1
                if ticks >= 2 and (ticks >= PATIENCE or kind in _SERVED):
                    self._set_anchor(kind, candidate, boundary)
        elif not self._is_ending and self.is_relevant(kind):
            self._set_anchor(kind, candidate, boundary)

    def _get_others(self) -> dict[object, int]:
        """Return the ticks of other candidates in the current step."""
        if self._others_step != self.steps:
            self._others_step = self.steps
            self._others.clear()
        return self._others

    def _set_anchor(self, kind: BoundaryKind, candidate: object, boundary: str) -> None:
        self.boundary_kind, self.anchor, self.boundary = kind, candidate, boundary
        self.thread = get_ident()
        self._others.clear()
        self._began()
