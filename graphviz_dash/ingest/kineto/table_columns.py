"""Columns of one table of a trace that grow piece by piece: numbers packed, texts as codes.

Nothing here needs the dataframe engine, so that a process is ready soon after it starts. An
attribute is read by a comprehension into a list, twice as fast as by ``operator.attrgetter``, and
that packed by ``struct``, twice as fast as by numpy, whose calls wait for some thousand rows.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np

from graphviz_dash.ingest.kineto.column_blocks import Block, Ints, narrowed, widened
from graphviz_dash.ingest.kineto.events import ABSENT, Args, Event, UnusableEventError

FLOAT_EXACT_US: Final = float(1 << 43)
"""Below this many microseconds (101 days) a float holds every nanosecond; Kineto's
baseTimeNanoseconds exists to keep times there. Epoch microseconds lie above."""

LATEST_NS: Final = 1 << 61
"""Times and durations beyond (73 years) are refused, so that no sum of two can overflow."""

_LATEST_US: Final = LATEST_NS // 1000
_BLOCK_BYTES: Final = 128 << 10  # of a column: 16,384 rows
ABSENT_BYTES: Final = struct.pack("q", ABSENT)
_Unit: TypeAlias = Callable[[Ints], Ints]
"""What makes nanoseconds of numbers in 64 bits."""

READ_EVENT: Final[dict[str, Callable[[Sequence[Event]], list[Any]]]] = {
    "ts": lambda events: [event.ts for event in events],
    "dur": lambda events: [event.dur for event in events],
    "pid": lambda events: [event.pid for event in events],
    "tid": lambda events: [event.tid for event in events],
}
READ_ARGS: Final[dict[str, Callable[[Sequence[Args]], list[Any]]]] = {
    "external_id": lambda args: [arg.external_id for arg in args],
    "old_external_id": lambda args: [arg.old_external_id for arg in args],
    "correlation": lambda args: [arg.correlation for arg in args],
    "device": lambda args: [arg.device for arg in args],
    "stream": lambda args: [arg.stream for arg in args],
    "shared": lambda args: [arg.shared for arg in args],
    "registers": lambda args: [arg.registers for arg in args],
    "bytes": lambda args: [arg.bytes for arg in args],
    "sequence": lambda args: [arg.sequence for arg in args],
    "forward_tid": lambda args: [arg.forward_tid for arg in args],
    "python_id": lambda args: [arg.python_id for arg in args],
    "python_parent_id": lambda args: [arg.python_parent_id for arg in args],
}


class NeedsExactTimesError(Exception):
    """Times are so large that they must be decoded as decimals; the piece is to be decoded anew."""


class Codes:
    """Strings, or the JSON text of arguments as bytes, as numbers from 0, each kept once.

    No bytes stand for an argument that the event does not have: these are ABSENT.
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[Any, int] = defaultdict(count().__next__, {b"": ABSENT})

    @property
    def values(self) -> list[Any]:
        """What the numbers stand for, from 0."""
        return list(self.numbers)[1:]

    def encode(self, values: Sequence[Any]) -> bytes:
        """The numbers of ``values``, in order, packed as 64-bit integers."""
        return pack("q", list(map(self.numbers.__getitem__, values)))


class TableColumns:
    """Columns of one table that grow piece by piece; times are absolute ns. ``rows``: of each
    piece. ``event_index``, one of the columns, is an event's index within its piece.

    A piece is put column by column, and becomes a part of the table by :meth:`commit`.

    What several processes have made and :func:`joined` has put together has the rows of one process
    behind those of the other: ``file_order`` says which row is next in the file, if it is not the
    next one, and ``first`` for each piece the index in traceEvents of its first event.
    """

    def __init__(self, where: object) -> None:
        self.where = where
        self.blocks: defaultdict[str, list[Block]] = defaultdict(list)
        self.rows: list[int] = []
        self.names = Codes()
        self.texts = Codes()
        self.whole_microseconds = True  # every time so far was written as an integer
        self.first: Ints | None = None
        self.file_order: Ints | None = None
        self._staged: list[tuple[str, bytes, _Unit | None]] = []  # the columns of a piece
        self._staged_rows = 0
        self._whole_before = True
        self._waiting: defaultdict[str, bytearray] = defaultdict(bytearray)  # for a whole block
        self._units: dict[str, _Unit | None] = {}  # of what waits

    def begin(self, rows: int) -> None:
        """Begins a piece of ``rows`` rows."""
        self._staged_rows = rows
        self._whole_before = self.whole_microseconds

    def put(self, column: str, packed: bytes, unit: _Unit | None = None) -> None:
        """The piece's values of ``column``, packed as 64-bit numbers in ``unit``."""
        self._staged.append((column, packed, unit))

    def discard(self) -> None:
        """Forgets the piece that was begun."""
        self._staged.clear()
        self.whole_microseconds = self._whole_before

    def commit(self) -> None:
        """Makes the piece that was begun a part of the table."""
        for column, packed, unit in self._staged:
            self._append(column, packed, unit)
        self._staged.clear()
        self.rows.append(self._staged_rows)

    def _append(self, column: str, packed: bytes, unit: _Unit | None) -> None:
        if self._units.setdefault(column, unit) is not unit:
            self._settle(column)
            self._units[column] = unit
        waiting = self._waiting[column]
        waiting += packed
        if len(waiting) >= _BLOCK_BYTES:
            self._settle(column)

    def settle(self) -> None:
        """Makes blocks of all that waits: to be called when the last piece was added."""
        for column in list(self._waiting):
            self._settle(column)

    def column(self, name: str, out: Ints | None = None) -> Ints:
        """All of a column, piece by piece, in ``out`` if it is given; its blocks are given up."""
        return widened(self.blocks.pop(name, []), out)

    def times(self, events: Sequence[Event], *, exact: bool) -> None:
        """Adds ts and dur, the names, and nothing else.

        Raises:
            NeedsExactTimesError: a float time is too large to hold nanoseconds.
            UnusableEventError: a time that is missing, negative (a duration) or absurd.
        """
        self._time(events, "ts", exact)
        self._time(events, "dur", exact)
        self.put("name", self.names.encode([event.name for event in events]))

    def threads(self, events: Sequence[Event]) -> None:
        """Adds pid and tid."""
        for column in ("pid", "tid"):
            self.put(column, self.integers(READ_EVENT[column](events), column))

    def arguments(self, args: Sequence[Args], *columns: str) -> None:
        """Adds integer arguments, the column named like the attribute of :class:`Args`."""
        for column in columns:
            self.put(column, self.integers(READ_ARGS[column](args), column))

    def integers(self, values: list[Any], attribute: str) -> bytes:
        """``values`` packed as int64; text and None that name no number become ABSENT."""
        try:
            return pack("q", values)
        except struct.error:
            pass
        try:
            return pack("q", [_number(value) for value in values])
        except struct.error as error:
            raise UnusableEventError(f"an absurd {attribute}") from error

    def raws(self, values: list[Any]) -> bytes:
        """The codes of arguments that are kept as their JSON text, ABSENT for none."""
        joined = b"\0".join(values)  # a third faster than bytes(value) for each
        if len(joined) == len(values) - 1:
            return ABSENT_BYTES * len(values)
        texts = joined.split(b"\0")
        if len(texts) != len(values):  # no JSON holds a NUL, but not all that is read is JSON
            texts = list(map(bytes, values))
        return self.texts.encode(texts)

    def _settle(self, column: str) -> None:
        waiting = self._waiting.pop(column, None)
        unit = self._units.pop(column, None)
        if waiting:
            values = np.frombuffer(waiting, np.int64)
            self.blocks[column].append(narrowed(values if unit is None else unit(values)))

    def _time(self, events: Sequence[Event], field: str, exact: bool) -> None:
        """Adds a time or duration; raises as :meth:`times`."""
        packed, unit = self._packed_times(events, field, exact)
        if field == "dur":
            values = np.frombuffer(packed, np.float64 if unit is _of_decimals else np.int64)
            if values.min() < 0:
                durations = np.frombuffer(packed, np.int64)
                if (durations if unit is None else unit(durations)).min() < 0:
                    raise UnusableEventError("a negative duration")
        self.put(field, packed, unit)

    def _packed_times(
        self, events: Sequence[Event], field: str, exact: bool
    ) -> tuple[bytes, _Unit | None]:
        raw = READ_EVENT[field](events)
        if exact:
            return self._decimal_times(raw, field).tobytes(), None
        if self.whole_microseconds:
            try:
                packed = pack("q", raw)
                whole = np.frombuffer(packed, np.int64)
                if -_LATEST_US < int(whole.min()) <= int(whole.max()) < _LATEST_US:
                    return packed, _of_microseconds
            except struct.error:
                self.whole_microseconds = False
        try:
            packed = pack("d", raw)
        except struct.error as error:
            raise UnusableEventError(f"an absurd {field}") from error
        values = np.frombuffer(packed, np.float64)
        sizes = np.abs(values)
        if float(sizes.max()) < FLOAT_EXACT_US:
            return packed, _of_decimals
        far = ~(sizes < LATEST_NS / 1000)  # NaN, which stands for none, is far too
        if far.any():
            missing = np.isnan(values[far.argmax()])
            raise UnusableEventError(f"no {field}" if missing else f"an absurd {field}")
        if all(type(value) is int for value in raw):
            return pack("q", raw), _of_microseconds
        raise NeedsExactTimesError

    def _decimal_times(self, raw: list[Any], field: str) -> Ints:
        self.whole_microseconds = False
        out = np.empty(len(raw), np.int64)
        for row, value in enumerate(raw):
            if not abs(float(value)) < LATEST_NS / 1000:
                missing = value != value  # noqa: PLR0124
                raise UnusableEventError(f"no {field}" if missing else f"an absurd {field}")
            out[row] = round(Decimal(value) * 1000)
        return out


def _of_microseconds(values: Ints) -> Ints:
    """Nanoseconds from whole microseconds."""
    return values * 1000


def _of_decimals(values: Ints) -> Ints:
    """Nanoseconds from microseconds that are floats of less than FLOAT_EXACT_US."""
    floats = values.view(np.float64)
    # Apart, for the product of a whole time would be rounded a second time, by up to a quarter of a
    # nanosecond: from 51 days on that is too much.
    whole = np.floor(floats)
    parts = np.rint((floats - whole) * 1000.0)
    return whole.astype(np.int64) * 1000 + parts.astype(np.int64)


def pack(kind: str, values: Sequence[Any]) -> bytes:
    """``values`` as 64-bit numbers, q, Q or d as the module struct has them; struct.error if they
    are no such numbers all. Half as long as by numpy."""
    return struct.pack(f"{len(values)}{kind}", *values)


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return ABSENT
    return ABSENT
