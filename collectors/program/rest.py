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
    """The graph whose replays are counted, not noted; none at first."""

    def __init__(self, log: LoopLog) -> None:
        self._log = log
        self._counter: ReplayCounter | None = None
        self._counted = 0
        self._lock = Lock()

    def begin(self, counters: Sequence[ReplayCounter], boundary: BoundaryKind | None) -> None:
        """Steps are counted no longer. Without their ends replays tell of no step; and where all
        are of one graph, each is a step as the ones before.

        Args:
            counters: those of all graphs.
            boundary: what ended steps.
        """
        replayed = [counter for counter in counters if counter.replays]
        if boundary in BOUNDED:
            for counter in replayed:
                if counter.replays > LAUNCHES_KEPT:
                    counter.note = None
        elif len(replayed) == 1:
            with self._lock:
                (self._counter,) = replayed
                self._counted = self._counter.replays
                self._counter.note = None
                for other in counters:
                    other.awake = other is not self._counter

    def end(self) -> None:
        """Something else happened: each replay is noted again."""
        if self._counter is None:
            return
        with self._lock:
            if self._counter is not None:
                self._count(self._counter)
                self._counter.note = self._log.note
                self._counter = None

    def count(self) -> None:
        """Counts what was replayed meanwhile as steps that were not kept."""
        with self._lock:
            if self._counter is not None:
                self._count(self._counter)

    def _count(self, counter: ReplayCounter) -> None:
        replays = counter.replays
        self._log.dropped += replays - self._counted
        self._counted = replays
