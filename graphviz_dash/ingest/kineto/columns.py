"""Events into columns of numbers, piece by piece: what each process that reads a trace does.

Nothing here needs the dataframe engine, so that a process is ready soon after it starts. An
attribute is read by a comprehension into a list, twice as fast as by ``operator.attrgetter``, and
that packed by ``struct``, twice as fast as by numpy, whose calls wait for some thousand rows.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import accumulate, chain, compress, count
from typing import Any, Final, TypeAlias

import numpy as np

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.column_blocks import Block, Ints, narrowed, widened
from graphviz_dash.ingest.kineto.events import ABSENT, Args, Event
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
)

SCHEMAS: Final = {
    "gpu": GPU_COLUMNS,
    "runtime": RUNTIME_COLUMNS,
    "ops": OP_COLUMNS,
    "annotations": ANNOTATION_COLUMNS,
    "python": PYTHON_COLUMNS,
}
"""Columns of each table of :class:`Trace`, by its name."""

KINDS: Final = ("kernel", "memcpy", "memset")
"""The values of the column ``kind``, in the order of their numbers."""

FLOAT_EXACT_US: Final = float(1 << 43)
"""Below this many microseconds (101 days) a float holds every nanosecond; Kineto's
baseTimeNanoseconds exists to keep times there. Epoch microseconds lie above."""

LATEST_NS: Final = 1 << 61
"""Times and durations beyond (73 years) are refused, so that no sum of two can overflow."""

_KERNEL, _MEMCPY, _MEMSET = range(3)

# Kineto's categories, those of torch before 1.12 among them.
_TABLE_OF: Final = {
    "kernel": "gpu",
    "Kernel": "gpu",
    "gpu_memcpy": "gpu",
    "Memcpy": "gpu",
    "gpu_memset": "gpu",
    "Memset": "gpu",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "Runtime": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "cpu_op": "ops",
    "Operator": "ops",
    "user_annotation": "annotations",
    "python_function": "python",
    "Python": "python",
}
_KIND_OF: Final = {
    "kernel": _KERNEL,
    "Kernel": _KERNEL,
    "gpu_memcpy": _MEMCPY,
    "Memcpy": _MEMCPY,
    "gpu_memset": _MEMSET,
    "Memset": _MEMSET,
}
_PHASES: Final = {"M": "metadata", "i": "instant", "I": "instant", "C": "counter"}
_NUMBER_OF: Final = {category: list(SCHEMAS).index(table) for category, table in _TABLE_OF.items()}
_NO_TABLE: Final = len(SCHEMAS)
_TEXTS: Final = ("input_dims", "input_types")
_NO_SHAPE: Final = (ABSENT, ABSENT, ABSENT)
_LATEST_US: Final = LATEST_NS // 1000
_BLOCK_BYTES: Final = 128 << 10  # of a column: 16,384 rows
_ABSENT_BYTES: Final = struct.pack("q", ABSENT)
_Unit: TypeAlias = Callable[[Ints], Ints]
"""What makes nanoseconds of numbers in 64 bits."""

_TIME_RANGE: Final = "times within 73 years of zero, in microseconds"

_READ_EVENT: Final[dict[str, Callable[[Sequence[Event]], list[Any]]]] = {
    "ts": lambda events: [event.ts for event in events],
    "dur": lambda events: [event.dur for event in events],
    "pid": lambda events: [event.pid for event in events],
    "tid": lambda events: [event.tid for event in events],
}
_READ_ARGS: Final[dict[str, Callable[[Sequence[Args]], list[Any]]]] = {
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
        return _pack("q", list(map(self.numbers.__getitem__, values)))


class TableColumns:
    """Columns of one table that grow piece by piece; times are absolute ns. ``rows``: of each
    piece. ``event_index``, one of the columns, is an event's index within its piece.

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
        self._waiting: defaultdict[str, bytearray] = defaultdict(bytearray)  # for a whole block
        self._units: dict[str, _Unit | None] = {}  # of what waits

    def put(self, column: str, packed: bytes, unit: _Unit | None = None) -> None:
        """Adds a piece's values of ``column``, packed as 64-bit numbers in ``unit``."""
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
            InputError: a time that is missing, negative (a duration) or absurd.
        """
        self._time(events, "ts", exact)
        self._time(events, "dur", exact)
        self.put("name", self.names.encode([event.name for event in events]))

    def threads(self, events: Sequence[Event]) -> None:
        """Adds pid and tid."""
        for column in ("pid", "tid"):
            self.put(column, self.integers(_READ_EVENT[column](events), column))

    def arguments(self, args: Sequence[Args], *columns: str) -> None:
        """Adds integer arguments, the column named like the attribute of :class:`Args`."""
        for column in columns:
            self.put(column, self.integers(_READ_ARGS[column](args), column))

    def integers(self, values: list[Any], attribute: str) -> bytes:
        """``values`` packed as int64; text and None that name no number become ABSENT."""
        try:
            return _pack("q", values)
        except struct.error:
            pass
        try:
            return _pack("q", [_number(value) for value in values])
        except struct.error as error:
            raise InputError(self.where, f"an absurd {attribute}", "64-bit integers") from error

    def raws(self, values: list[Any]) -> bytes:
        """The codes of arguments that are kept as their JSON text, ABSENT for none."""
        joined = b"\0".join(values)  # a third faster than bytes(value) for each
        if len(joined) == len(values) - 1:
            return _ABSENT_BYTES * len(values)
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
                self._check_durations(events, np.frombuffer(packed, np.int64), unit)
        self.put(field, packed, unit)

    def _check_durations(self, events: Sequence[Event], values: Ints, unit: _Unit | None) -> None:
        durations = values if unit is None else unit(values)
        if durations.min() < 0:
            worst = events[int(durations.argmin())]
            raise self._refuse(worst, f"a duration of {worst.dur} us", "durations of at least 0")

    def _packed_times(
        self, events: Sequence[Event], field: str, exact: bool
    ) -> tuple[bytes, _Unit | None]:
        raw = _READ_EVENT[field](events)
        if exact:
            return self._decimal_times(events, raw, field).tobytes(), None
        if self.whole_microseconds:
            try:
                packed = _pack("q", raw)
                whole = np.frombuffer(packed, np.int64)
                if -_LATEST_US < int(whole.min()) <= int(whole.max()) < _LATEST_US:
                    return packed, _of_microseconds
            except struct.error:
                self.whole_microseconds = False
        try:
            packed = _pack("d", raw)
        except struct.error as error:
            actual = f"a {field} with hundreds of digits"
            raise InputError(self.where, actual, _TIME_RANGE) from error
        values = np.frombuffer(packed, np.float64)
        sizes = np.abs(values)
        if float(sizes.max()) < FLOAT_EXACT_US:
            return packed, _of_decimals
        far = ~(sizes < LATEST_NS / 1000)  # NaN, which stands for none, is far too
        if far.any():
            event = events[int(far.argmax())]
            shown = "no" if np.isnan(values[far.argmax()]) else f"an absurd {values[far][0]:g} us"
            raise self._refuse(event, f"{shown} {field}", _TIME_RANGE)
        if all(type(value) is int for value in raw):
            return _pack("q", raw), _of_microseconds
        raise NeedsExactTimesError

    def _decimal_times(self, events: Sequence[Event], raw: list[Any], field: str) -> Ints:
        self.whole_microseconds = False
        out = np.empty(len(raw), np.int64)
        for row, value in enumerate(raw):
            if not abs(float(value)) < LATEST_NS / 1000:
                shown = "no" if value != value else f"an absurd {float(value):g} us"  # noqa: PLR0124
                raise self._refuse(events[row], f"{shown} {field}", _TIME_RANGE)
            out[row] = round(Decimal(value) * 1000)
        return out

    def _refuse(self, event: Event, actual: str, expected: str) -> InputError:
        name = event.name if len(event.name) < 60 else f"{event.name[:57]}..."
        return InputError(self.where, f"{actual} in {event.cat} {name!r}", expected)


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


class EventColumns:
    """Events of a trace as columns: those of some of its pieces, in order.

    ``tables``: by the names of :data:`SCHEMAS`. ``events``: entries of traceEvents in each piece.
    ``skipped``: events that no table holds, by category or, without one, by their kind.
    """

    def __init__(self, where: object, *, exact: bool) -> None:
        self.where = where
        self.exact = exact
        self.tables = {name: TableColumns(where) for name in SCHEMAS}
        self.skipped: Counter[str] = Counter()
        self.events: list[int] = []

    def add(self, events: list[Event]) -> None:
        """Adds a piece.

        Raises:
            NeedsExactTimesError, InputError: as :meth:`TableColumns.times`; nothing is of use then.
        """
        self.events.append(len(events))
        number_of = _NUMBER_OF.get
        numbers = bytes(
            [number_of(event.cat, _NO_TABLE) if event.ph == "X" else _NO_TABLE for event in events]
        )
        for number, (name, table) in enumerate(self.tables.items()):
            chosen, indices = _chosen(events, numbers, number)
            table.rows.append(len(chosen))
            if chosen:
                table.put("event_index", indices)
                _FILL[name](table, chosen, self.exact)
        self._count_skipped(_chosen(events, numbers, _NO_TABLE)[0])

    def settle(self) -> None:
        """To be called when the last piece was added."""
        for table in self.tables.values():
            table.settle()

    def _count_skipped(self, events: list[Event]) -> None:
        seen = Counter([event.cat for event in events])
        if seen.pop("", 0):
            seen.update(_PHASES.get(e.ph) or f"phase {e.ph!r}" for e in events if not e.cat)
        self.skipped.update(seen)


def _chosen(events: list[Event], numbers: bytes, number: int) -> tuple[list[Event], bytes]:
    """The events with this number, and their indices, packed."""
    if number not in numbers:
        return [], b""
    here = np.frombuffer(numbers, np.uint8) == number
    return list(compress(events, here.tobytes())), np.flatnonzero(here).astype(np.int64).tobytes()


def joined(parts: Sequence[EventColumns], owners: Sequence[int]) -> EventColumns:
    """The pieces of ``parts`` as one: ``owners`` says for each piece, in the file's order, which of
    the parts has it. Uses up ``parts``."""
    whole = EventColumns(parts[0].where, exact=parts[0].exact)
    turns = [iter(part.events) for part in parts]
    whole.events = [next(turns[owner]) for owner in owners]
    whole.skipped = sum((part.skipped for part in parts), Counter())
    first = np.fromiter(accumulate(whole.events[:-1], initial=0), np.int64, len(owners))
    pieces = np.argsort(np.array(owners), kind="stable")  # those of one part behind the other's
    for name in SCHEMAS:
        whole.tables[name] = _joined([part.tables[name] for part in parts], pieces)
        whole.tables[name].first = first[pieces]
    return whole


def span_of(tables: Iterable[TableColumns]) -> tuple[int, int]:
    """When the first event begins and the last one ends, in ns; ``tables`` have rows."""
    begin, end = [], []
    for table in tables:
        ts = widened(table.blocks["ts"])
        begin.append(int(ts.min()))
        ts += widened(table.blocks["dur"])
        end.append(int(ts.max()))
    return min(begin), max(end)


def _joined(tables: Sequence[TableColumns], pieces: Ints) -> TableColumns:
    """``pieces``: the numbers in the file of the tables' pieces, one table behind the other."""
    whole, *others = tables
    whole.whole_microseconds = all(t.whole_microseconds for t in tables if any(t.rows))
    for table in others:
        meanings = {
            "name": np.frombuffer(whole.names.encode(table.names.values), np.int64),
            **dict.fromkeys(
                _TEXTS, np.frombuffer(whole.texts.encode(table.texts.values), np.int64)
            ),
        }
        for column, blocks in table.blocks.items():
            meaning = meanings.get(column)
            whole.blocks[column] += (
                blocks if meaning is None else [_renumbered(block, meaning) for block in blocks]
            )
        whole.rows += table.rows
    if others:
        whole.file_order = _file_order(np.array(whole.rows, np.int64), pieces)
    return whole


def _renumbered(block: Block, meanings: Ints) -> Block:
    codes = np.maximum(widened([block]), -1)  # the last one is for what is absent
    return narrowed(np.append(meanings, ABSENT)[codes])


def _file_order(rows: Ints, pieces: Ints) -> Ints:
    """The rows in the file's order: ``rows`` of each piece, and which piece of the file it is."""
    starts = np.cumsum(rows) - rows
    there = np.argsort(pieces)
    rows, starts = rows[there], starts[there]
    before = np.cumsum(rows) - rows
    order: Ints = np.arange(rows.sum()) + np.repeat(starts - before, rows)
    return order


def _gpu(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.times(events, exact=exact)
    table.put("kind", _pack("q", [_KIND_OF[event.cat] for event in events]))
    # Old traces name device and stream only by the process and thread they draw them in.
    for column, thread in (("device", "pid"), ("stream", "tid")):
        packed = table.integers(_READ_ARGS[column](args), column)
        if (missing := _missing(packed)).size:
            fallback = table.integers(_READ_EVENT[thread](events), thread)
            packed = _replaced(packed, missing, np.frombuffer(fallback, np.int64)[missing])
        table.put(column, packed)
    table.arguments(args, "correlation", "shared", "registers", "bytes")
    _external_ids(table, args)
    for name, shapes in (("grid", [a.grid for a in args]), ("block", [a.block for a in args])):
        for axis, extent in zip("xyz", _extents(shapes, name, table), strict=True):
            table.put(f"{name}_{axis}", extent.tobytes())
    graph, node = _graph_ids(args, table.where)
    table.put("graph_id", graph)
    table.put("graph_node_id", node)


def _runtime(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.times(events, exact=exact)
    table.threads(events)
    table.arguments(args, "correlation")
    _external_ids(table, args)


def _ops(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.times(events, exact=exact)
    table.threads(events)
    table.arguments(args, "sequence", "forward_tid")
    _external_ids(table, args)
    dims = table.raws([arg.input_dims for arg in args])
    if (missing := _missing(dims)).size:
        older = table.raws([args[row].old_input_dims for row in missing.tolist()])
        dims = _replaced(dims, missing, np.frombuffer(older, np.int64))
    table.put("input_dims", dims)
    table.put("input_types", table.raws([arg.input_types for arg in args]))


def _annotations(table: TableColumns, events: list[Event], exact: bool) -> None:
    table.times(events, exact=exact)
    table.threads(events)


def _python(table: TableColumns, events: list[Event], exact: bool) -> None:
    table.times(events, exact=exact)
    table.threads(events)
    table.arguments([event.args for event in events], "python_id", "python_parent_id")


_FILL: Final = {
    "gpu": _gpu,
    "runtime": _runtime,
    "ops": _ops,
    "annotations": _annotations,
    "python": _python,
}


def _external_ids(table: TableColumns, args: Sequence[Args]) -> None:
    """Adds the External id, under the name that older torch gave it if need be."""
    packed = table.integers(_READ_ARGS["external_id"](args), "external_id")
    if (missing := _missing(packed)).size:
        older = _READ_ARGS["old_external_id"]([args[row] for row in missing.tolist()])
        older_packed = table.integers(older, "external_id")
        packed = _replaced(packed, missing, np.frombuffer(older_packed, np.int64))
    table.put("external_id", packed)


def _missing(packed: bytes) -> Ints:
    """The indices of ABSENT."""
    return np.flatnonzero(np.frombuffer(packed, np.int64) == ABSENT)


def _replaced(packed: bytes, indices: Ints, values: Ints) -> bytes:
    """``packed`` with other ``values`` at ``indices``."""
    numbers = np.frombuffer(packed, np.int64).copy()
    numbers[indices] = values
    return numbers.tobytes()


def _extents(
    shapes: Sequence[tuple[int, int, int] | str | None], attribute: str, table: TableColumns
) -> list[Ints]:
    """Three columns of grids or blocks; ABSENT where there is none."""
    extents = [_NO_SHAPE if isinstance(shape, str) else shape or _NO_SHAPE for shape in shapes]
    try:
        flat = _pack("q", list(chain.from_iterable(extents)))
    except struct.error as error:
        raise InputError(table.where, f"an absurd {attribute}", "64-bit integers") from error
    return list(np.frombuffer(flat, np.int64).reshape(-1, 3).T)


def _graph_ids(args: Sequence[Args], where: object) -> tuple[bytes, bytes]:
    """Graph and node ids, packed, as the bits of unsigned numbers; ABSENT where the trace tells
    none.

    Kineto writes 0 for work that comes from no graph, and a node either as its number within the
    graph or as ``graph id << 32 | number``; both come out as the number.
    """
    graphs, nodes = [arg.graph_id for arg in args], [arg.graph_node_id for arg in args]
    if not any(graphs) and not any(nodes):
        absent = _ABSENT_BYTES * len(args)
        return absent, absent
    try:
        graph = np.frombuffer(_pack("Q", graphs), np.uint64)
        node = np.frombuffer(_pack("Q", nodes), np.uint64)
    except struct.error as error:
        raise InputError(where, "a graph id out of range", "unsigned 64-bit ids") from error
    graph = np.where(graph == 0, node >> np.uint64(32), graph)
    outside = (graph == 0) & (node == 0)
    number = (node & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    number[outside] = ABSENT
    graph_ids = graph.view(np.int64).copy()
    graph_ids[graph == 0] = ABSENT
    return graph_ids.tobytes(), number.tobytes()


def _pack(kind: str, values: Sequence[Any]) -> bytes:
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
