"""Events of a recorded process, five integers each, and the files that contain them.

The program pays for each event, so nothing is analysed at runtime.
:mod:`collectors.program.loop.assembly` finds steps, families and keys afterwards.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import Final, NamedTuple, TypeAlias

import msgspec

from collectors.program.mapped_file import read_mapped_file
from graphviz_dash.model.loop import Phase

EVENTS_FILE: Final = "loop.bin"
FACTS_FILE: Final = "loop.json"

EVENTS_KEPT: Final = 2_000_000
"""Maximum number of events, 40 bytes each on disk."""

_FIELDS: Final = 5
_PORTION: Final = 1_000 * _FIELDS
_SEARCH_LENGTH: Final = 20
"""Number of events searched for the last replay of a thread."""


class EventKind(IntEnum):
    """Kind of an event, which defines its ``ref``."""

    REPLAY = 0
    """Launch of a graph. ``ref``: its number."""
    SCOPE = 1
    """Block of a label, or step of an engine. ``ref``: the number of its scope."""
    CAPTURE = 2
    """Capture of a graph. ``ref``: its number."""
    PASS = 3
    """Call of an outermost module. ``ref``: the number of its pass."""
    STEP = 4
    """End of a step by the step clock. ``ref``: 0."""
    MARK = 5
    """Step of the traced window. ``ref``: its number."""
    PROFILER = 6
    """Start of a profiler of the program or the recorder. ``ref``: 0."""
    GPU = 7
    """GPU time of a replay. ``ref``: the number of the graph. ``begin`` is the launch's, ``end``
    the time in ns."""
    SIZE = 8
    """Size of an engine's step. ``ref``: the requested size. ``begin`` is the step's, ``end`` the
    number of requests."""
    CLEAN = 9
    """End of a profiler's influence: CUPTI is detached. ``ref``: 0."""


class Event(NamedTuple):
    """One event. Times in ns since the start of the recording."""

    kind: EventKind
    ref: int
    thread: int
    begin: int
    end: int


class ScopeFacts(msgspec.Struct, frozen=True, cache_hash=True):
    """Facts about a step from a label or an engine."""

    label: bool
    """True for a label, False for an engine."""
    name: str
    axes: tuple[str, ...]
    """Names of the key's numbers; the padded one first."""
    key: tuple[int, ...]
    real: int | None
    """Requested size. None if unknown."""
    phase: Phase | None
    families: tuple[str, ...] = ()
    """Families whose graphs an engine would use for the step, best first. Empty if ``name`` is its
    family. Otherwise the replayed graphs define family and key."""

    @staticmethod
    @cache
    def build_for_graphs(phase: Phase, families: tuple[str, ...]) -> ScopeFacts:
        """Build the facts of an engine's step whose family and key are those of its graphs."""
        return ScopeFacts(False, "", (), (), None, phase, families)


class CaptureFacts(msgspec.Struct, frozen=True):
    """Facts about a captured graph from an engine."""

    scope: ScopeFacts
    is_segment: bool
    """A step replays several graphs with this key."""


class GraphFacts(msgspec.Struct):
    """Facts about a graph besides its events."""

    captured_at: tuple[str, ...]
    """``file:line`` of the calls that led to its capture."""
    place: str = ""
    """Capturing function and its line."""
    module: int | None = None
    """Number of the first outermost module called in its capture."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Shapes of the tensors passed to this module, without weights."""
    engine: CaptureFacts | None = None
    """Family and key from an engine, or None."""
    numbers: dict[str, int] = {}
    """Integer variables of the capturing functions."""
    fields: dict[str, int] = {}
    """Integer fields of immutable records in these functions."""
    instantiate_ns: int | None = None
    pool: tuple[int, int] | None = None
    pool_added_bytes: int | None = None
    own_bytes: int | None = None
    outside_bytes: int | None = None


class PassFacts(msgspec.Struct, frozen=True):
    """Call of an outermost module outside of captures."""

    module: int
    shapes: tuple[tuple[int, ...], ...]


class LoopFacts(msgspec.Struct):
    """Meaning of the numbers in events."""

    scopes: tuple[ScopeFacts, ...]
    modules: tuple[str, ...]
    passes: tuple[PassFacts, ...]
    graphs: tuple[GraphFacts, ...]
    origin: int
    """Start of the recording by the performance counter, in ns."""
    dropped: int
    """Steps without events: scopes after the event limit, and replays of a graph at rest."""
    engine: str | None
    """Engine whose state was read, with its version."""
    engine_capture_bytes: int | None = None
    """Memory of the captures as measured by the engine."""


Note: TypeAlias = Callable[[tuple[int, ...]], None]
"""Records an event: kind, ref, thread, begin and end. Several events may follow each other."""


class LoopLog:
    """Events of this process, from all threads."""

    def __init__(self) -> None:
        self.origin = time.perf_counter_ns()
        self.dropped = 0
        self.scopes: dict[ScopeFacts, int] = {}
        self._naming = Lock()
        self._rows: list[int] = []
        self._room = EVENTS_KEPT
        self.note: Note = self._rows.extend
        """Records an event given as five numbers, with times by the performance counter. A single
        call into C keeps events of two threads apart; an array needs four times as long."""
        self.note_scope: Note = self._rows.extend
        """Records a scope, or counts it after the event limit."""
        self.note_step: Note = self._rows.extend
        """Records the end of a step, but not after the event limit."""

    @property
    def is_full(self) -> bool:
        """True after the event limit."""
        return len(self._rows) >= self._room * _FIELDS

    def add(self, kind: EventKind, ref: int, begin: int, end: int) -> None:
        """Record an event of this thread, with times by the performance counter."""
        if not self.is_full:
            self.note((kind, ref, get_ident(), begin, end))

    def add_gpu_time(self, graph: int, thread: int, begin: int, gpu_ns: int) -> None:
        """Record the GPU time of a replay, which is known later."""
        self.note((EventKind.GPU, graph, thread, begin, gpu_ns))

    def find_last_replay(self, thread: int) -> int | None:
        """Return the number of the graph that ``thread`` launched last, if its event was recorded
        recently."""
        rows = self._rows[-_SEARCH_LENGTH * _FIELDS :]
        for at in range(len(rows) - _FIELDS, -1, -_FIELDS):
            if rows[at] == EventKind.REPLAY and rows[at + 2] == thread:
                return rows[at + 1]
        return None

    def get_scope_number(self, scope: ScopeFacts) -> int:
        """Return the number of a scope, a new one for new facts."""
        number = self.scopes.get(scope)
        if number is None:
            with self._naming:
                number = self.scopes.setdefault(scope, len(self.scopes))
        return number

    def count_scopes(self) -> None:
        """Record no further steps, and count scopes instead of recording them."""
        self.note_scope = self._drop
        self.note_step = _ignore

    def _drop(self, _event: tuple[int, ...]) -> None:
        self.dropped += 1

    def drain(self) -> bytes:
        """Return and remove the events since the last call."""
        count = len(self._rows)
        # In portions, between which threads of the program can run. An array takes twice as long.
        portions = []
        for at in range(0, count, _PORTION):
            numbers = self._rows[at : min(at + _PORTION, count)]
            portions.append(struct.pack(f"{len(numbers)}q", *numbers))
        del self._rows[:count]
        self._room = max(0, self._room - count // _FIELDS)
        return b"".join(portions)


def _ignore(_event: tuple[int, ...]) -> None:
    """Record nothing."""


def read_events(file: Path, origin: int) -> Iterator[Event]:
    """Read the events of a recording that started at ``origin``, except a truncated one."""
    content = read_mapped_file(file)
    rows = array("q")
    width = rows.itemsize * _FIELDS
    rows.frombytes(content[: len(content) // width * width])
    for at in range(0, len(rows), _FIELDS):
        kind, ref, thread, begin, end = rows[at : at + _FIELDS]
        last = end if kind in (EventKind.GPU, EventKind.SIZE) else end - origin
        yield Event(EventKind(kind), ref, thread, begin - origin, last)
