"""Spares a program the notes of replays that would tell nothing new.

A note costs a replay about 0.7 µs. A program that has run its thousand steps with the one graph
that it has goes on as it did: its replays are only counted, which takes the place of torch's own
method and costs nothing, until anything else happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from collectors.program.loop.events import LoopLog
from collectors.program.steps import BOUNDED
from collectors.program.watch import ReplayCounter
from graphviz_dash.model.loop import LAUNCHES_KEPT
from graphviz_dash.model.recording import BoundaryKind


class Rest:
    """The graphs whose replays are counted, not noted; none at first."""

    def __init__(self, log: LoopLog) -> None:
        self._log = log
        self._resting: tuple[ReplayCounter, ...] = ()
        self._alone: ReplayCounter | None = None
        self._counted = 0
        self._lock = Lock()

    def begin(self, counters: Sequence[ReplayCounter], boundary: BoundaryKind | None) -> None:
        """Steps are counted no longer. Without their ends replays tell of no step; and where all
        are of one graph, each is a step as the ones before.

        Args:
            counters: those of all graphs.
            boundary: what ended steps.
        """
        replayed = tuple(counter for counter in counters if counter.replays)
        with self._lock:
            if boundary in BOUNDED:
                self._resting = tuple(each for each in replayed if each.replays > LAUNCHES_KEPT)
            elif len(replayed) == 1:
                self._resting = replayed
                (self._alone,) = replayed
                self._counted = self._alone.replays
                for counter in counters:
                    counter.awake = counter is not self._alone
            for counter in self._resting:
                counter.note = None

    def disturb(self) -> None:
        """Another graph is captured or replayed, or a module runs eagerly: the graph that was alone
        is so no longer."""
        if self._alone is not None:
            self.end()

    def end(self) -> None:
        """Replays belong to steps again, as those in a label do: each is noted."""
        if not self._resting:
            return
        with self._lock:
            self._count()
            for counter in self._resting:
                counter.note = self._log.note
            self._resting, self._alone = (), None

    def forget(self) -> None:
        """In a forked child, where another thread may have held the lock: nothing rests."""
        self._lock = Lock()
        self._resting, self._alone = (), None

    def count(self) -> None:
        """Counts what was replayed meanwhile as steps that were not kept."""
        with self._lock:
            self._count()

    def _count(self) -> None:
        if self._alone is not None:
            replays = self._alone.replays
            self._log.dropped += replays - self._counted
            self._counted = replays
