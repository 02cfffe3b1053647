"""Stop handling replays of graphs that end no steps.

Handling a replay costs 2 to 4 µs if the program leaves the processor's caches cold. Once a program
has settled, most of its graphs tick in each step without ending one. Such graphs sleep: their
replays are counted and recorded, but not handled. Any change wakes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectors.program.steps import PATIENCE, StepClock
from collectors.program.watch import ReplayCounter


class SleepingGraphs:
    """Graphs whose replays are not handled. Initially none.

    Each is the only graph of its step candidate, which is not the anchor.
    """

    def __init__(self) -> None:
        self.is_active = False
        """The program has settled, so that graphs may sleep."""
        self._counters: tuple[ReplayCounter, ...] = ()
        self._replays: list[int] = []
        self._steps = 0

    def begin(self, counters: Sequence[ReplayCounter], steps: int) -> None:
        """Let ``counters`` sleep, after ``steps`` steps."""
        self._counters, self._steps = tuple(counters), steps
        self._replays = [counter.replays for counter in counters]
        self.is_active = True
        for counter in counters:
            counter.awake = False

    def end(self) -> None:
        """Forget the graphs without waking them."""
        self.is_active, self._counters = False, ()

    def handle_next_replays(self) -> None:
        """Let each graph handle its next replay, in any thread."""
        for counter in self._counters:
            counter.tick = counter.follows = None
            counter.awake = True

    def has_other_anchor(self, clock: StepClock) -> bool:
        """Check if a sleeping graph was replayed often enough without the anchor to replace it."""
        replays = [counter.replays for counter in self._counters]
        # After the replays: steps that end in between must not be missing.
        steps = clock.steps
        # More ticks than this cannot be spread over the steps with less than the limit in each.
        limit = PATIENCE * (steps - self._steps + 1)
        if any(now - before >= limit for now, before in zip(replays, self._replays, strict=False)):
            return True
        if steps != self._steps:
            self._steps, self._replays = steps, replays
        return False
