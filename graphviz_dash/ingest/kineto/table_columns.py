"""Growing columns of one table of a trace, with packed numbers and encoded texts.

Does not import Polars, so that processes start quickly. Comprehensions are twice as fast as
``operator.attrgetter``, and ``struct`` packs twice as fast as numpy.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.ingest.kineto.column_blocks import Block, Ints, compress_values, expand_blocks
from graphviz_dash.ingest.kineto.events import ABSENT, Args, Event, UnusableEventError

FLOAT_EXACT_US: Final = float(1 << 43)
"""Limit (101 days) below which a float is exact to the nanosecond. Epoch microseconds are above
it."""

MAX_TIME_NS: Final = 1 << 61
"""Maximum time (73 years), so that no sum of two overflows."""

_MAX_TIME_US: Final = MAX_TIME_NS // 1000
_BLOCK_BYTES: Final = 128 << 10  # of a column: 16,384 rows
ABSENT_BYTES: Final = struct.pack("q", ABSENT)
_Unit: TypeAlias = Callable[[Ints], Ints]

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
    """Times are too large for floats and must be decoded as decimals."""


class TextCodes:
    """Codes from 0 for distinct strings, or for JSON text of arguments as bytes.

    Empty bytes represent a missing argument, with code ABSENT.
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[Any, int] = defaultdict(count().__next__, {b"": ABSENT})

    @property
    def values(self) -> list[Any]:
        """Values by code."""
        return list(self.numbers)[1:]

    def encode(self, values: Sequence[Any]) -> bytes:
        """Encode ``values`` as packed 64-bit codes."""
        return pack("q", list(map(self.numbers.__getitem__, values)))


class TableColumns:
    """Growing columns of one table, with times in absolute ns.

    ``rows``: rows per piece. ``event_index``: index of an event in its piece. A piece is added
    column by column and joins the table with :meth:`commit`.

    After a merge of several processes, ``file_order`` contains the row order of the file, if
    different, and ``first_events`` the index in traceEvents of each piece's first event.
    """

    def __init__(self, source: object) -> None:
        self.where = source
        self.blocks: defaultdict[str, list[Block]] = defaultdict(list)
        self.rows: list[int] = []
        self.names = TextCodes()
        self.texts = TextCodes()
        self.whole_microseconds = True  # true while all times are integers
        self.first_events: Ints | None = None
        self.file_order: Ints | None = None
        self._staged: list[tuple[str, bytes, _Unit | None]] = []  # the columns of a piece
        self._staged_rows = 0
        self._previous_whole_microseconds = True
        self._pending: defaultdict[str, bytearray] = defaultdict(bytearray)  # until a block is full
        self._units: dict[str, _Unit | None] = {}  # of waiting values

    def start_piece(self, rows: int) -> None:
        """Start a piece of ``rows`` rows."""
        self._staged_rows = rows
        self._previous_whole_microseconds = self.whole_microseconds

    def stage_column(self, column: str, packed: bytes, unit: _Unit | None = None) -> None:
        """Stage values packed as 64-bit numbers in ``unit``."""
        self._staged.append((column, packed, unit))

    def discard(self) -> None:
        """Discard the staged piece."""
        self._staged.clear()
        self.whole_microseconds = self._previous_whole_microseconds

    def commit(self) -> None:
        """Add the staged piece to the table."""
        for column, packed, unit in self._staged:
            self._append_values(column, packed, unit)
        self._staged.clear()
        self.rows.append(self._staged_rows)

    def _append_values(self, column: str, packed: bytes, unit: _Unit | None) -> None:
        if self._units.setdefault(column, unit) is not unit:
            self._finish_block(column)
            self._units[column] = unit
        waiting = self._pending[column]
        waiting += packed
        if len(waiting) >= _BLOCK_BYTES:
            self._finish_block(column)

    def finish(self) -> None:
        """Convert waiting values after the last piece."""
        for column in list(self._pending):
            self._finish_block(column)

    def keep_rows(self, selection: npt.NDArray[np.bool_]) -> None:
        """Keep only these rows of the finished table."""
        for column, blocks in self.blocks.items():
            values = expand_blocks(blocks)[selection]
            self.blocks[column] = [compress_values(values)] if len(values) else []
        new_rows = np.concatenate(([0], np.cumsum(selection)))
        bounds = np.cumsum([0, *self.rows])
        self.rows = np.diff(new_rows[bounds]).tolist()
        if self.file_order is not None:
            order = self.file_order[selection[self.file_order]]
            self.file_order = new_rows[order]

    def expand_column(self, name: str, out: Ints | None = None) -> Ints:
        """Expand a column, in ``out`` if given, and release its blocks."""
        return expand_blocks(self.blocks.pop(name, []), out)

    def stage_times(self, events: Sequence[Event], *, exact: bool) -> None:
        """Stage ts, dur and names.

        Raises:
            NeedsExactTimesError: A float time is too large for nanoseconds.
            UnusableEventError: A time is missing or out of range, or a duration is negative.
        """
        self._stage_time(events, "ts", exact)
        self._stage_time(events, "dur", exact)
        self.stage_column("name", self.names.encode([event.name for event in events]))

    def stage_threads(self, events: Sequence[Event]) -> None:
        """Stage pid and tid."""
        processes = READ_EVENT["pid"](events)
        if any(type(process) is str for process in processes):
            processes = [_number_process(process) for process in processes]
        self.stage_column("pid", self.pack_integers(processes, "pid"))
        self.stage_column("tid", self.pack_integers(READ_EVENT["tid"](events), "tid"))

    def stage_arguments(self, args: Sequence[Args], *columns: str) -> None:
        """Stage integer arguments."""
        for column in columns:
            self.stage_column(column, self.pack_integers(READ_ARGS[column](args), column))

    def pack_integers(self, values: list[Any], attribute: str) -> bytes:
        """Pack ``values`` as int64. Text without a number and None become ABSENT."""
        try:
            return pack("q", values)
        except struct.error:
            pass
        try:
            return pack("q", [_convert_number(value) for value in values])
        except struct.error as error:
            raise UnusableEventError(f"a {attribute} out of range") from error

    def encode_raw_values(self, values: list[Any]) -> bytes:
        """Encode arguments kept as JSON text, with ABSENT for missing ones."""
        concatenated = b"\0".join(values)  # a third faster than bytes(value) for each
        if len(concatenated) == len(values) - 1:
            return ABSENT_BYTES * len(values)
        texts = concatenated.split(b"\0")
        if len(texts) != len(values):  # valid JSON has no NUL, but invalid JSON is accepted too
            texts = list(map(bytes, values))
        return self.texts.encode(texts)

    def _finish_block(self, column: str) -> None:
        waiting = self._pending.pop(column, None)
        unit = self._units.pop(column, None)
        if waiting:
            values = np.frombuffer(waiting, np.int64)
            self.blocks[column].append(compress_values(values if unit is None else unit(values)))

    def _stage_time(self, events: Sequence[Event], field: str, exact: bool) -> None:
        """Stage a time or duration. Raises as :meth:`stage_times`."""
        packed, unit = self._pack_times(events, field, exact)
        if field == "dur":
            values = np.frombuffer(packed, np.float64 if unit is _convert_floats else np.int64)
            if values.min() < 0:
                durations = np.frombuffer(packed, np.int64)
                if (durations if unit is None else unit(durations)).min() < 0:
                    raise UnusableEventError("a negative duration")
        self.stage_column(field, packed, unit)

    def _pack_times(
        self, events: Sequence[Event], field: str, exact: bool
    ) -> tuple[bytes, _Unit | None]:
        raw = READ_EVENT[field](events)
        if exact:
            return self._convert_decimal_times(raw, field).tobytes(), None
        if self.whole_microseconds:
            try:
                packed = pack("q", raw)
                microseconds = np.frombuffer(packed, np.int64)
                if (
                    -_MAX_TIME_US
                    < int(microseconds.min())
                    <= int(microseconds.max())
                    < _MAX_TIME_US
                ):
                    return packed, _convert_microseconds
            except struct.error:
                self.whole_microseconds = False
        try:
            packed = pack("d", raw)
        except struct.error as error:
            raise UnusableEventError(f"a {field} out of range") from error
        values = np.frombuffer(packed, np.float64)
        sizes = np.abs(values)
        if float(sizes.max()) < FLOAT_EXACT_US:
            return packed, _convert_floats
        out_of_range = ~(sizes < MAX_TIME_NS / 1000)  # true for NaN too, which marks a missing time
        if out_of_range.any():
            missing = np.isnan(values[out_of_range.argmax()])
            raise UnusableEventError(f"no {field}" if missing else f"a {field} out of range")
        if all(type(value) is int for value in raw):
            return pack("q", raw), _convert_microseconds
        raise NeedsExactTimesError

    def _convert_decimal_times(self, raw: list[Any], field: str) -> Ints:
        self.whole_microseconds = False
        out = np.empty(len(raw), np.int64)
        for row, value in enumerate(raw):
            if not abs(float(value)) < MAX_TIME_NS / 1000:
                missing = value != value  # noqa: PLR0124
                raise UnusableEventError(f"no {field}" if missing else f"a {field} out of range")
            out[row] = round(Decimal(value) * 1000)
        return out


def _convert_microseconds(values: Ints) -> Ints:
    return values * 1000


def _convert_floats(values: Ints) -> Ints:
    floats = values.view(np.float64)
    # Converted in two parts: rounding the product of a whole time would add an error of up to a
    # quarter of a nanosecond, too much from 51 days on.
    microseconds = np.floor(floats)
    nanoseconds = np.rint((floats - microseconds) * 1000.0)
    return microseconds.astype(np.int64) * 1000 + nanoseconds.astype(np.int64)


def pack(kind: str, values: Sequence[Any]) -> bytes:
    """Pack ``values`` as struct's kind q, Q or d. Raises struct.error for other values."""
    return struct.pack(f"{len(values)}{kind}", *values)


def _number_process(process: Any) -> Any:
    """Number a process that is named by text, such as ``[TP00] 100``, by a hash below -1.

    A hash is the same in each process that reads the trace.
    """
    if isinstance(process, str) and _convert_number(process) == ABSENT:
        return -2 - zlib.crc32(process.encode())
    return process


def _convert_number(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return ABSENT
    return ABSENT
