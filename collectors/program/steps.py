"""What a step is in a program that we did not write: of four kinds, the surest that ticks.

1. explicit: the program calls ``collectors.step()`` at the end of each step.
2. optimizer: ``step()`` of a torch optimizer returns, or a graph is replayed in whose capture it
   did.
3. replays: the same graph is replayed again, so that one cycle of replays is a step.
4. forwards: the same outermost module is called again.

Several things of a kind may tick (two optimizers, a graph for each layer): the first is the anchor
that ends steps, until another one has ticked :data:`PATIENCE` times without it. A surer kind takes
over when it first ticks. Only the anchor's thread counts.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from graphviz_dash.model.recording import BoundaryKind

PATIENCE: Final = 16
"""Ticks of another candidate, the anchor being silent, after which that one is the anchor."""

_SERVED: Final = (BoundaryKind.LABEL, BoundaryKind.ENGINE)
"""What a program or its engine says of a step is sure: a thread that serves is the anchor as soon
as the one before, which warmed up, is silent."""

BOUNDED: Final = (BoundaryKind.EXPLICIT, BoundaryKind.OPTIMIZER)
"""Where steps end so, what is replayed between two ends is one step."""

_ORDER: Final = {kind: number for number, kind in enumerate(BoundaryKind)}


class StepClock:
    """Turns ticks into steps. ``ended`` is called at the end of each, in the anchor's thread, and
    ``began`` where a first step begins because there is a new anchor."""

    def __init__(self, ended: Callable[[], None], began: Callable[[], None]) -> None:
        self.boundary_kind: BoundaryKind | None = None
        self.boundary: str | None = None
        self.steps = 0
        self._ended = ended
        self._began = began
        self._anchor: object = None
        self._thread = 0
        self._is_ending = False
        self._others: Counter[object] = Counter()

    def wants(self, kind: BoundaryKind) -> bool:
        """Whether ticks of ``kind`` could still count: no surer one has ticked."""
        return (
            self.boundary_kind is None
            or kind is self.boundary_kind
            or _ORDER[kind] < _ORDER[self.boundary_kind]
        )

    def rename(self, candidate: object, boundary: str) -> None:
        """Says in other words what ends steps, if ``candidate`` is what does."""
        if candidate == self._anchor:
            self.boundary = boundary

    def tick(self, kind: BoundaryKind, candidate: object, boundary: str) -> None:
        """Something that may end a step happened.

        Args:
            kind: the kind of thing.
            candidate: what distinguishes it from others of its kind; compared by equality and kept,
                so it must not hold the thing itself alive.
            boundary: the same in words.
        """
        # What happens at every step comes first: it is in the program's way.
        if kind is self.boundary_kind and candidate == self._anchor:
            if threading.get_ident() == self._thread:
                if self._others:
                    self._others.clear()
                self.steps += 1
                self._is_ending = True
                try:
                    self._ended()
                finally:
                    self._is_ending = False
            return
        # The end of a step may take a while, in which other threads tick.
        if self._is_ending or not self.wants(kind):
            return
        if kind is not self.boundary_kind:
            self._anchor_to(kind, candidate, boundary)
            return
        self._others[candidate] += 1
        if self._others[candidate] >= (2 if kind in _SERVED else PATIENCE):
            self._anchor_to(kind, candidate, boundary)

    def _anchor_to(self, kind: BoundaryKind, candidate: object, boundary: str) -> None:
        self.boundary_kind, self._anchor, self.boundary = kind, candidate, boundary
        self._thread = threading.get_ident()
        self._others.clear()
        self._began()
