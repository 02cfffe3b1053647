"""Events into columns of numbers, piece by piece: what each process that reads a trace does.

Nothing here needs the dataframe engine, so that a process is ready soon after it starts. An
attribute is read by a comprehension into a list and that into an array, nearly twice as fast as by
``operator.attrgetter``.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import accumulate, chain, count
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto_events import ABSENT, NO_RAW, Args, Event
from graphviz_dash.model.trace import (
    ANNOTATION_COLUMNS,
    GPU_COLUMNS,
    OP_COLUMNS,
    PYTHON_COLUMNS,
    RUNTIME_COLUMNS,
)

Ints: TypeAlias = npt.NDArray[np.int64]

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

    def encode(self, values: Sequence[Any]) -> Ints:
        """The numbers of ``values``, in order."""
        return np.fromiter(map(self.numbers.__getitem__, values), np.int64, len(values))


class TableColumns:
    """Columns of one table that grow piece by piece; times are absolute ns. ``rows``: of each
    piece. ``place``, one of the columns, is an event's place within its piece."""

    def __init__(self, where: object) -> None:
        self.where = where
        self.pieces: defaultdict[str, list[Ints]] = defaultdict(list)
        self.rows: list[int] = []
        self.names = Codes()
        self.texts = Codes()
        self.whole_microseconds = True  # every time so far was written as an integer

    def put(self, column: str, values: Ints) -> None:
        """Adds a piece's values of ``column``."""
        self.pieces[column].append(values)

    def column(self, name: str, out: Ints | None = None) -> Ints:
        """All of a column, in file order, in ``out`` if it is given; its pieces are given up."""
        parts = self.pieces.pop(name, [])
        return np.concatenate(parts, out=out) if parts else np.empty(0, np.int64)

    def times(self, events: Sequence[Event], *, exact: bool) -> None:
        """Adds ts and dur, the names, and nothing else.

        Raises:
            NeedsExactTimesError: a float time is too large to hold nanoseconds.
            InputError: a time that is missing, negative (a duration) or absurd.
        """
        ts = self._nanoseconds(events, "ts", exact)
        dur = self._nanoseconds(events, "dur", exact)
        if dur.size and int(dur.min()) < 0:
            worst = events[int(dur.argmin())]
            raise self._refuse(worst, f"a duration of {worst.dur} us", "durations of at least 0")
        self.put("ts", ts)
        self.put("dur", dur)
        self.put("name", self.names.encode([event.name for event in events]))

    def threads(self, events: Sequence[Event]) -> None:
        """Adds pid and tid."""
        for column in ("pid", "tid"):
            self.put(column, self.integers(_READ_EVENT[column](events), column))

    def arguments(self, args: Sequence[Args], *columns: str) -> None:
        """Adds integer arguments, the column named like the attribute of :class:`Args`."""
        for column in columns:
            self.put(column, self.integers(_READ_ARGS[column](args), column))

    def integers(self, values: list[Any], attribute: str) -> Ints:
        """``values`` as int64; text and None that name no number become ABSENT."""
        try:
            return _integers(values)
        except (TypeError, ValueError, OverflowError):
            pass
        try:
            return _integers([_number(value) for value in values])
        except OverflowError as error:
            raise InputError(self.where, f"an absurd {attribute}", "64-bit integers") from error

    def raws(self, values: list[Any]) -> Ints:
        """The codes of arguments that are kept as their JSON text, ABSENT for none."""
        if values.count(NO_RAW) == len(values):
            return np.full(len(values), ABSENT)
        return self.texts.encode(list(map(bytes, values)))

    def _nanoseconds(self, events: Sequence[Event], field: str, exact: bool) -> Ints:
        raw = _READ_EVENT[field](events)
        if exact:
            return self._decimal_times(events, raw, field)
        if self.whole_microseconds:
            try:
                whole = _packed(raw)
                if not raw or -_LATEST_US < int(whole.min()) <= int(whole.max()) < _LATEST_US:
                    return whole * 1000
            except struct.error:
                self.whole_microseconds = False
        try:
            values = np.frombuffer(struct.pack(f"{len(raw)}d", *raw), np.float64)
        except struct.error as error:
            found = f"a {field} with hundreds of digits"
            raise InputError(self.where, found, _TIME_RANGE) from error
        sizes = np.abs(values)
        if values.size == 0 or float(sizes.max()) < FLOAT_EXACT_US:
            # Apart, for the product of a whole time would be rounded a second time, by up to a
            # quarter of a nanosecond: from 51 days on that is too much.
            whole = np.floor(values)
            parts = np.rint((values - whole) * 1000.0)
            return whole.astype(np.int64) * 1000 + parts.astype(np.int64)
        far = ~(sizes < LATEST_NS / 1000)  # NaN, which stands for none, is far too
        if far.any():
            event = events[int(far.argmax())]
            shown = "no" if np.isnan(values[far.argmax()]) else f"an absurd {values[far][0]:g} us"
            raise self._refuse(event, f"{shown} {field}", _TIME_RANGE)
        if all(type(value) is int for value in raw):
            return np.array(raw, np.int64) * 1000
        raise NeedsExactTimesError

    def _decimal_times(self, events: Sequence[Event], raw: list[Any], field: str) -> Ints:
        self.whole_microseconds = False
        out = np.empty(len(raw), np.int64)
        for place, value in enumerate(raw):
            if not abs(float(value)) < LATEST_NS / 1000:
                shown = "no" if value != value else f"an absurd {float(value):g} us"  # noqa: PLR0124
                raise self._refuse(events[place], f"{shown} {field}", _TIME_RANGE)
            out[place] = round(Decimal(value) * 1000)
        return out

    def _refuse(self, event: Event, found: str, expected: str) -> InputError:
        name = event.name if len(event.name) < 60 else f"{event.name[:57]}..."
        return InputError(self.where, f"{found} in {event.cat} {name!r}", expected)


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
        numbers = np.frombuffer(
            bytes(
                [
                    number_of(event.cat, _NO_TABLE) if event.ph == "X" else _NO_TABLE
                    for event in events
                ]
            ),
            np.uint8,
        )
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=_NO_TABLE + 1)).tolist()
        sorted_events = [events[place] for place in order.tolist()]
        begin = 0
        for (name, table), end in zip(self.tables.items(), ends, strict=False):
            table.rows.append(end - begin)
            if end > begin:
                table.put("place", order[begin:end].astype(np.int64))
                _FILL[name](table, sorted_events[begin:end], self.exact)
            begin = end
        self._count_skipped(sorted_events[begin:])

    def _count_skipped(self, events: list[Event]) -> None:
        seen = Counter([event.cat for event in events])
        if seen.pop("", 0):
            seen.update(_PHASES.get(e.ph) or f"phase {e.ph!r}" for e in events if not e.cat)
        self.skipped.update(seen)


def joined(parts: Sequence[EventColumns], owners: Sequence[int]) -> EventColumns:
    """The pieces of ``parts`` as one, in the file's order: ``owners`` says for each piece which of
    the parts has it. ``place`` becomes the event's place in traceEvents. Uses up ``parts``."""
    whole = EventColumns(parts[0].where, exact=parts[0].exact)
    turns = [iter(part.events) for part in parts]
    whole.events = [next(turns[owner]) for owner in owners]
    whole.skipped = sum((part.skipped for part in parts), Counter())
    first = list(accumulate(whole.events, initial=0))
    for name in SCHEMAS:
        whole.tables[name] = _joined([part.tables[name] for part in parts], owners, first)
    return whole


def span_of(tables: Iterable[TableColumns]) -> tuple[int, int]:
    """When the first event begins and the last one ends, in ns; ``tables`` have rows."""
    begin, end = [], []
    for table in tables:
        for ts, dur in zip(table.pieces["ts"], table.pieces["dur"], strict=True):
            begin.append(int(ts.min()))
            end.append(int((ts + dur).max()))
    return min(begin), max(end)


def _joined(
    tables: Sequence[TableColumns], owners: Sequence[int], first: Sequence[int]
) -> TableColumns:
    """``first``: the place in traceEvents of each piece's first event."""
    whole = TableColumns(tables[0].where)
    whole.whole_microseconds = all(t.whole_microseconds for t in tables if any(t.rows))
    turns = [iter(table.rows) for table in tables]
    whole.rows = [next(turns[owner]) for owner in owners]
    filled = [
        (owner, place)
        for owner, place, rows in zip(owners, first, whole.rows, strict=False)
        if rows
    ]
    names = [whole.names.encode(table.names.values) for table in tables]
    texts = [whole.texts.encode(table.texts.values) for table in tables]
    for column in dict.fromkeys(chain.from_iterable(table.pieces for table in tables)):
        parts = [iter(table.pieces.pop(column, ())) for table in tables]
        meanings = names if column == "name" else texts if column in _TEXTS else None
        for owner, place in filled:
            values = next(parts[owner])
            if column == "place":
                values = values + place
            elif meanings is not None and owner:  # the first part's numbers stay
                values = np.append(meanings[owner], ABSENT)[np.maximum(values, -1)]
            whole.put(column, values)
    return whole


def _gpu(table: TableColumns, events: list[Event], exact: bool) -> None:
    args = [event.args for event in events]
    table.times(events, exact=exact)
    table.put("kind", _integers([_KIND_OF[event.cat] for event in events]))
    # Old traces name device and stream only by the process and thread they draw them in.
    for column, thread in (("device", "pid"), ("stream", "tid")):
        values = table.integers(_READ_ARGS[column](args), column)
        if (values == ABSENT).any():
            fallback = table.integers(_READ_EVENT[thread](events), thread)
            values = np.where(values == ABSENT, fallback, values)
        table.put(column, values)
    table.arguments(args, "correlation", "shared", "registers", "bytes")
    _external_ids(table, args)
    for name, shapes in (("grid", [a.grid for a in args]), ("block", [a.block for a in args])):
        for axis, extent in zip("xyz", _extents(shapes, name, table), strict=True):
            table.put(f"{name}_{axis}", extent)
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
    older = np.flatnonzero(dims == ABSENT)
    if older.size:
        dims[older] = table.raws([args[place].old_input_dims for place in older.tolist()])
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
    values = table.integers(_READ_ARGS["external_id"](args), "external_id")
    missing = np.flatnonzero(values == ABSENT)
    if missing.size:
        older = [args[place] for place in missing.tolist()]
        values[missing] = table.integers(_READ_ARGS["old_external_id"](older), "external_id")
    table.put("external_id", values)


def _extents(
    shapes: Sequence[tuple[int, int, int] | str | None], attribute: str, table: TableColumns
) -> list[Ints]:
    """Three columns of grids or blocks; ABSENT where there is none."""
    known = [_NO_SHAPE if isinstance(shape, str) else shape or _NO_SHAPE for shape in shapes]
    try:
        flat = np.fromiter(chain.from_iterable(known), np.int64, 3 * len(known))
    except OverflowError as error:
        raise InputError(table.where, f"an absurd {attribute}", "64-bit integers") from error
    return list(flat.reshape(-1, 3).T)


def _graph_ids(args: Sequence[Args], where: object) -> tuple[Ints, Ints]:
    """Graph and node ids as the bits of unsigned numbers; ABSENT where the trace tells none.

    Kineto writes 0 for work that comes from no graph, and a node either as its number within the
    graph or as ``graph id << 32 | number``; both come out as the number.
    """
    try:
        graph = _unsigned([arg.graph_id for arg in args])
        node = _unsigned([arg.graph_node_id for arg in args])
    except struct.error as error:
        raise InputError(where, "a graph id out of range", "unsigned 64-bit ids") from error
    graph = np.where(graph == 0, node >> np.uint64(32), graph)
    outside = (graph == 0) & (node == 0)
    number = (node & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    number[outside] = ABSENT
    known = graph.view(np.int64).copy()
    known[graph == 0] = ABSENT
    return known, number


def _integers(values: list[Any]) -> Ints:
    """``values``, integers or the text of such, as int64; TypeError, ValueError or OverflowError if
    they are not that."""
    return np.fromiter(values, np.int64, len(values))


def _packed(values: list[Any]) -> Ints:
    """``values`` as int64; struct.error if they are not 64-bit integers all."""
    return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)


def _unsigned(values: list[Any]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(struct.pack(f"{len(values)}Q", *values), np.uint64)


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return ABSENT
    return ABSENT
