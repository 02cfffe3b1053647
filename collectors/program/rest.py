"""Spares a program the notes of replays that would tell nothing new.

A note costs a replay about 0.7 µs. A program that has run its thousand steps with one graph, or
with some that each of the later steps replayed equally often, goes on as it did: its replays are
only counted, which takes the place of torch's own method and costs nothing, until anything else
happens.
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
    """The graphs whose replays are counted, not noted; none at first."""

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
    ) -> None:
        """Steps are counted no longer. Without their ends replays tell of no step; and where all
        come equally often, each step is as the ones before.

        Args:
            counters: those of all graphs.
            boundary: what ended steps.
            before: how often each was replayed when half of the steps had been.
        """
        with self._lock:
            if boundary in BOUNDED:
                self._resting = tuple(
                    each for each in counters if each.replays > MAX_LAUNCH_SAMPLES
                )
            else:
                self._resting, self._anchor = _cycle(counters, before)
                if self._anchor is not None:
                    self._counted = self._anchor.replays
                    for counter in counters:
                        counter.awake = counter not in self._resting
            for counter in self._resting:
                counter.note = None

    def disturb(self) -> None:
        """Another graph is captured or replayed, or a module runs eagerly: steps are no longer as
        they were."""
        if self._anchor is not None:
            self.end()

    def end(self) -> None:
        """Replays belong to steps again, as those in a label do: each is noted."""
        if not self._resting:
            return
        with self._lock:
            self._count()
            for counter in self._resting:
                counter.note = self._log.note
            self._resting, self._anchor = (), None

    def forget(self) -> None:
        """In a forked child, where another thread may have held the lock: nothing rests."""
        self._lock = Lock()
        self._resting, self._anchor = (), None

    def count(self) -> None:
        """Counts what was replayed meanwhile as steps that were not kept."""
        with self._lock:
            self._count()

    def _count(self) -> None:
        if self._anchor is not None:
            replays = self._anchor.replays
            self._log.dropped += replays - self._counted
            self._counted = replays


def _cycle(
    counters: Sequence[ReplayCounter], before: Mapping[str, int]
) -> tuple[tuple[ReplayCounter, ...], ReplayCounter | None]:
    """The graphs that each step replays, and one that it replays least often; none where a step is
    not like the others."""
    since = {each: each.replays - before.get(each.id, 0) for each in counters}
    replayed = tuple(each for each, times in since.items() if times)
    anchor = min(replayed, key=since.__getitem__, default=None)
    if anchor is None or any(since[each] % since[anchor] for each in replayed):
        return (), None
    return replayed, anchor
