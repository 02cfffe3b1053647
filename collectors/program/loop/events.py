"""What a recorded process notes of its loop, five integers an event, and the files that hold them.

The program pays for each event, so that nothing is looked at while it runs: steps, families and
keys are found when it has ended, by :mod:`collectors.program.loop.assembly`.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from threading import Lock, get_ident
from typing import Final, NamedTuple, TypeAlias

import msgspec

from graphviz_dash.model.loop import Phase

EVENTS_FILE: Final = "loop.bin"
FACTS_FILE: Final = "loop.json"

EVENTS_KEPT: Final = 2_000_000
"""Events that are noted; 40 bytes each on disk."""

_FIELDS: Final = 5
_PORTION: Final = 1_000 * _FIELDS


class EventKind(IntEnum):
    """What happened; what ``ref`` of the event is."""

    REPLAY = 0
    """A graph was launched; its number."""
    SCOPE = 1
    """A block of a label, or a step of an engine; the number of its scope."""
    CAPTURE = 2
    """A graph was captured; its number."""
    PASS = 3
    """A module was called from outside any other; the number of its pass."""
    STEP = 4
    """A step ended as the step clock counts them; 0."""
    MARK = 5
    """A step of the traced window; its number."""
    PROFILER = 6
    """A profiler began, the program's own or ours; 0."""
    GPU = 7
    """GPU time of a replay; the number of the graph. ``begin`` is the launch's, ``end`` the time in
    ns."""


class Event(NamedTuple):
    """One event; times in ns since the recording began."""

    kind: EventKind
    ref: int
    thread: int
    begin: int
    end: int


class ScopeFacts(msgspec.Struct, frozen=True):
    """What a label, or an engine, says of a step."""

    label: bool
    """Whether the program said it, and not an engine."""
    name: str
    """The name of the family."""
    axes: tuple[str, ...]
    """Names of the numbers of the key, the padded one first."""
    key: tuple[int, ...]
    """A number for each."""
    real: int | None
    """The size that was asked for; None where nothing says."""
    phase: Phase | None
    """What is computed; None where nothing says."""


class GraphFacts(msgspec.Struct):
    """What is known of a graph besides its events; fields as in ``model.loop.GraphCost``."""

    captured_at: tuple[str, ...]
    """``file:line`` of the calls that led to its capture."""
    place: str = ""
    """The function that captures, and its line."""
    module: int | None = None
    """The number of the first outermost module that was called in its capture."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes of the tensors that this module was given, weights left out."""
    instantiate_ns: int | None = None
    pool: tuple[int, int] | None = None
    pool_added_bytes: int | None = None
    own_bytes: int | None = None
    outside_bytes: int | None = None


class PassFacts(msgspec.Struct, frozen=True):
    """A module as it was called from outside any other, and from no capture."""

    module: int
    """Its number."""
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the tensors that it was given."""


class LoopFacts(msgspec.Struct):
    """What the numbers in events mean."""

    scopes: tuple[ScopeFacts, ...]
    modules: tuple[str, ...]
    """Classes of modules."""
    passes: tuple[PassFacts, ...]
    """By their numbers."""
    graphs: tuple[GraphFacts, ...]
    """By their numbers."""
    origin: int
    """When the recording began, in ns of the performance counter, by which events are noted."""
    dropped: int
    """Steps that were counted and not kept: scopes that came when no further event was, and replays
    of a graph at rest."""
    engine: str | None
    """The engine whose state was read, with its version."""


Note: TypeAlias = Callable[[tuple[int, int, int, int, int]], None]
"""Notes an event: kind, ref, thread, begin and end."""


class LoopLog:
    """Events of this process, as they come, from any thread."""

    def __init__(self) -> None:
        self.origin = time.perf_counter_ns()
        """When it began, by the performance counter."""
        self.dropped = 0
        """Steps that were counted, and not kept."""
        self.scopes: dict[ScopeFacts, int] = {}
        """The number of each scope."""
        self._naming = Lock()
        self._rows: list[int] = []
        self._room = EVENTS_KEPT
        self.note: Note = self._rows.extend
        """Notes an event, given as its five numbers; times by the performance counter. One call
        into C, so that events of two threads never mix, and the cheapest that there is: an array
        takes four times as long, for it makes bytes of each number at once."""
        self.note_scope: Note = self._rows.extend
        """Notes a scope, or counts it where no further event is kept."""

    @property
    def is_full(self) -> bool:
        """Whether no further event is to be noted."""
        return len(self._rows) >= self._room * _FIELDS

    def add(self, kind: EventKind, ref: int, begin: int, end: int) -> None:
        """Notes what this thread did from ``begin`` to ``end`` of the performance counter."""
        if not self.is_full:
            self.note((kind, ref, get_ident(), begin, end))

    def add_gpu_time(self, graph: int, thread: int, begin: int, gpu_ns: int) -> None:
        """Notes what a replay took on the GPU, which is known later than the rest."""
        self.note((EventKind.GPU, graph, thread, begin, gpu_ns))

    def scope_number(self, scope: ScopeFacts) -> int:
        """The number of a scope, a new one where it is the first of its kind."""
        number = self.scopes.get(scope)
        if number is None:
            with self._naming:
                number = self.scopes.setdefault(scope, len(self.scopes))
        return number

    def count_scopes(self) -> None:
        """No further event is kept: scopes are counted from here on."""
        self.note_scope = self._drop

    def _drop(self, _event: tuple[int, int, int, int, int]) -> None:
        self.dropped += 1

    def drained(self) -> bytes:
        """The events since the last time, which are kept here no longer."""
        count = len(self._rows)
        # In portions, between which the program's threads run.
        portions = [
            array("q", self._rows[at : min(at + _PORTION, count)]).tobytes()
            for at in range(0, count, _PORTION)
        ]
        del self._rows[:count]
        self._room = max(0, self._room - count // _FIELDS)
        return b"".join(portions)


def read_events(file: Path, origin: int) -> Iterator[Event]:
    """The events in ``file``, as they were noted, in a recording that began at ``origin``; not one
    that was cut by the end of a process."""
    content = file.read_bytes()
    rows = array("q")
    width = rows.itemsize * _FIELDS
    rows.frombytes(content[: len(content) // width * width])
    for at in range(0, len(rows), _FIELDS):
        kind, ref, thread, begin, end = rows[at : at + _FIELDS]
        last = end if kind == EventKind.GPU else end - origin
        yield Event(EventKind(kind), ref, thread, begin - origin, last)
