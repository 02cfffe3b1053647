"""Stop recording replays that add no information.

Recording a replay costs about 0.7 µs. After a thousand steps with one graph, or with several that
each later step replays equally often, replays are only counted. The count takes the place of
torch's method and costs nothing. Any other event restarts the recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock

from collectors.program.loop.events import LoopLog
from collectors.program.steps import BOUNDED
from collectors.program.watch import ReplayCounter
from graphviz_dash.model.loop import MAX_LAUNCH_SAMPLES
from graphviz_dash.model.recording import BoundaryKind


class Rest:
    """Graphs whose replays are counted but not recorded. Initially none."""

    def __init__(self, log: LoopLog) -> None:
        self._log = log
        self._resting: tuple[ReplayCounter, ...] = ()
        self._anchor: ReplayCounter | None = None
        self._counted = 0
        self._lock = Lock()

    def begin(
        self,
        counters: Sequence[ReplayCounter],
        boundary: BoundaryKind | None,
        before: Mapping[str, int],
        after: Mapping[str, int],
    ) -> None:
        """Start resting when steps are no longer counted: replays without ends of steps add no
        information if all graphs come equally often.

        Args:
            boundary: Kind of event that ended steps.
            before: Replays of each graph at half of the steps.
            after: Replays of each graph at the end of a later step.
        """
        with self._lock:
            if boundary in BOUNDED:
                self._resting = tuple(
                    each for each in counters if each.replays > MAX_LAUNCH_SAMPLES
                )
            else:
                self._resting, self._anchor = _find_cycle(counters, before, after)
                if self._anchor is not None:
                    self._counted = self._anchor.replays
                    for counter in counters:
                        counter.awake = counter not in self._resting
            for counter in self._resting:
                counter.note = None

    def stop(self) -> None:
        """Handle a change of steps: a capture, a replay of another graph, or an eager module."""
        if self._anchor is not None:
            self.end()

    def end(self) -> None:
        """Record each replay again."""
        if not self._resting:
            return
        with self._lock:
            self._count()
            for counter in self._resting:
                counter.note = self._log.note
            self._resting, self._anchor = (), None

    def reset(self) -> None:
        """Reset in a forked child, where another thread may have held the lock."""
        self._lock = Lock()
        self._resting, self._anchor = (), None

    def count(self) -> None:
        """Count the replays since the last call as steps without events."""
        if self._anchor is not None:
            with self._lock:
                self._count()

    def _count(self) -> None:
        if self._anchor is not None:
            replays = self._anchor.replays
            self._log.dropped += replays - self._counted
            self._counted = replays


def _find_cycle(
    counters: Sequence[ReplayCounter], before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[tuple[ReplayCounter, ...], ReplayCounter | None]:
    """Return the graphs that each step replays, and the one that it replays least often. Empty if
    steps differ."""
    counts = {counter: after.get(counter.id, 0) - before.get(counter.id, 0) for counter in counters}
    members = tuple(counter for counter, count in counts.items() if count)
    anchor = min(members, key=counts.__getitem__, default=None)
    if anchor is None or any(counts[member] % counts[anchor] for member in members):
        return (), None
    others = (counter for counter, count in counts.items() if not count)
    if any(counter.replays > after.get(counter.id, 0) for counter in others):
        return (), None
    return members, anchor
