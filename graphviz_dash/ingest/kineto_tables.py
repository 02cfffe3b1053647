"""Events into the columns of model/trace.py: arrays piece by piece, Polars tables at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from itertools import chain, count
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto_events import ABSENT, NO_RAW, Args, Event
from graphviz_dash.ingest.limits import Limits

Ints: TypeAlias = npt.NDArray[np.int64]

FLOAT_EXACT_US: Final = float(1 << 43)
"""Below this many microseconds (101 days) a float holds every nanosecond; Kineto's
baseTimeNanoseconds exists to keep times there. Epoch microseconds lie above."""

LATEST_NS: Final = 1 << 61
"""Times and durations beyond (73 years) are refused, so that no sum of two can overflow."""

TYPES: dict[str, Any] = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical(),
}
"""Polars types by the names that model/trace.py gives them."""


class NeedsExactTimesError(Exception):
    """Times are so large that they must be decoded as decimals; the piece is to be decoded anew."""


class Names:
    """Strings as numbers, each kept once. ``limit`` characters at most."""

    def __init__(self) -> None:
        self.codes: defaultdict[Any, int] = defaultdict(count().__next__)

    def encode(self, values: Iterable[Any]) -> Ints:
        """The numbers of ``values``, in order."""
        return np.fromiter(map(self.codes.__getitem__, values), np.int64)

    def series(self, where: object, limits: Limits) -> pl.Series:
        """All strings, in the order of their numbers; InputError for one that is too long."""
        longest = max(map(len, self.codes), default=0)
        if longest > limits.string_length:
            raise limits.refuse(str(where), "string_length", f"a name of {longest:,} characters")
        return pl.Series(list(self.codes), dtype=pl.String)


class Table:
    """Columns of one table that grow piece by piece. Times are absolute ns until :meth:`frame`."""

    def __init__(self, where: object, limits: Limits) -> None:
        self.where = where
        self.limits = limits
        self.pieces: defaultdict[str, list[Ints]] = defaultdict(list)
        self.names = Names()
        self.texts = Names()
        self.rows = 0
        self.whole_microseconds = True  # every time so far was written as an integer

    def add(self, events: Sequence[Event], exact: bool) -> None:
        """Adds the times, names and threads of ``events``.

        Raises:
            NeedsExactTimesError: a float time is too large to hold nanoseconds.
            InputError: a time that is missing, negative (a duration) or absurd.
        """
        ts = self._times(events, "ts", exact)
        dur = self._times(events, "dur", exact)
        if dur.size and int(dur.min()) < 0:
            worst = events[int(dur.argmin())]
            raise self._refuse(worst, f"a duration of {worst.dur} us", "durations of at least 0")
        self._put("ts", ts)
        self._put("dur", dur)
        self._put("name", self.names.encode(map(attrgetter("name"), events)))
        self.rows += len(events)

    def threads(self, events: Sequence[Event]) -> None:
        """Adds pid and tid."""
        for column in ("pid", "tid"):
            self._put(column, self.integers(events, column))

    def arguments(self, args: Sequence[Args], columns: Sequence[str]) -> None:
        """Adds integer arguments, the column named like the attribute of :class:`Args`."""
        for column in columns:
            self._put(column, self.integers(args, column))

    def raws(self, column: str, raws: Sequence[msgspec.Raw]) -> None:
        """Adds arguments kept as their JSON text."""
        if all(raw is NO_RAW for raw in raws):
            self._put(column, np.full(len(raws), ABSENT))
            return
        codes = self.texts.encode(map(bytes, raws))
        empty = np.fromiter((raw is NO_RAW for raw in raws), np.bool_, len(raws))
        codes[empty] = ABSENT
        self._put(column, codes)

    def integers(self, items: Sequence[Event] | Sequence[Args], attribute: str) -> Ints:
        """An attribute of ``items`` as int64; text and None that name no number become ABSENT."""
        try:
            try:
                return np.fromiter(map(attrgetter(attribute), items), np.int64, len(items))
            except (TypeError, ValueError):
                values = map(_number, map(attrgetter(attribute), items))
                return np.fromiter(values, np.int64, len(items))
        except OverflowError as error:
            raise InputError(self.where, f"an absurd {attribute}", "64-bit integers") from error

    def put(self, column: str, values: Ints) -> None:
        """Adds a column made elsewhere."""
        self._put(column, values)

    def column(self, name: str) -> Ints:
        """All of a column, in file order."""
        parts = self.pieces[name]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def frame(self, schema: dict[str, str], origin: int, outer_first: bool) -> pl.DataFrame:
        """The finished table, sorted by ts, times since ``origin``; with ``outer_first`` longer
        slices first at equal ts, which puts what encloses before what is enclosed."""
        ts = self.column("ts") - origin
        order = np.lexsort((-self.column("dur"), ts)) if outer_first else _stable_order(ts)
        columns = {}
        for name, kind in schema.items():
            values = ts if name == "ts" else self.column(name)
            columns[name] = self._series(name, kind, values[order])
        return pl.DataFrame(columns)

    def _series(self, name: str, kind: str, values: Ints) -> pl.Series:
        if kind in ("string", "categorical"):
            pool = self.names if name == "name" else self.texts
            strings = (
                pool.series(self.where, self.limits)
                if pool is self.names
                else _texts(pool, self.where, self.limits)
            )
            texts = strings.cast(TYPES[kind])
            return texts.gather(_nullable(name, values)).alias(name)
        series = _nullable(name, values)
        if kind == "int64":
            return series
        if kind == "uint64":
            return series.reinterpret(signed=False)
        try:
            return series.cast(TYPES[kind])
        except pl.exceptions.InvalidOperationError as error:
            found = f"a {name} of {int(values[np.abs(values).argmax()])}"
            raise InputError(self.where, found, f"{kind} numbers") from error

    def _times(self, events: Sequence[Event], field: str, exact: bool) -> Ints:
        read = attrgetter(field)
        if exact:
            return self._decimal_times(events, list(map(read, events)), field)
        try:
            values = np.fromiter(map(read, events), np.float64, len(events))
        except OverflowError as error:
            found = f"a {field} with hundreds of digits"
            raise InputError(self.where, found, _TIME_RANGE) from error
        if self.whole_microseconds:
            whole = bool((values == np.floor(values)).all())
            self.whole_microseconds = whole and all(type(v) is int for v in map(read, events))
        sizes = np.abs(values)
        if values.size == 0 or float(sizes.max()) < FLOAT_EXACT_US:
            return np.rint(values * 1000.0).astype(np.int64)
        far = ~(sizes < LATEST_NS / 1000)  # NaN, which stands for none, is far too
        if far.any():
            event = events[int(far.argmax())]
            shown = "no" if np.isnan(values[far.argmax()]) else f"an absurd {values[far][0]:g} us"
            raise self._refuse(event, f"{shown} {field}", _TIME_RANGE)
        raw = list(map(read, events))
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

    def _put(self, column: str, values: Ints) -> None:
        self.pieces[column].append(values)


_TIME_RANGE = "times within 73 years of zero, in microseconds"


def shapes(args: Sequence[Args], attribute: str, table: Table) -> list[Ints]:
    """Three columns of grids or blocks; ABSENT where there is none."""
    none = (ABSENT, ABSENT, ABSENT)
    values = chain.from_iterable(map(partial(_or, none), map(attrgetter(attribute), args)))
    try:
        flat = np.fromiter(values, np.int64, 3 * len(args))
    except OverflowError as error:
        raise InputError(table.where, f"an absurd {attribute}", "64-bit integers") from error
    return list(flat.reshape(-1, 3).T)


def graph_ids(args: Sequence[Args], where: object) -> tuple[Ints, Ints]:
    """Graph and node ids as the bits of unsigned numbers; ABSENT where the trace tells none.

    Kineto writes 0 for work that comes from no graph, and a node either as its number within the
    graph or as ``graph id << 32 | number``; both come out as the number.
    """
    try:
        graph = np.fromiter(map(attrgetter("graph_id"), args), np.uint64)
        node = np.fromiter(map(attrgetter("graph_node_id"), args), np.uint64)
    except (OverflowError, ValueError) as error:
        raise InputError(where, "a graph id out of range", "unsigned 64-bit ids") from error
    graph = np.where(graph == 0, node >> np.uint64(32), graph)
    outside = (graph == 0) & (node == 0)
    number = (node & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    number[outside] = ABSENT
    known = graph.view(np.int64).copy()
    known[graph == 0] = ABSENT
    return known, number


def _stable_order(ts: Ints) -> Ints | slice:
    if ts.size == 0 or bool((ts[1:] >= ts[:-1]).all()):
        return slice(None)
    return np.argsort(ts, kind="stable")


def _or(none: tuple[int, int, int], value: tuple[int, int, int] | None) -> tuple[int, int, int]:
    return value or none


def _number(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return ABSENT
    return ABSENT


def _nullable(name: str, values: Ints) -> pl.Series:
    absent = values == ABSENT
    if not absent.any():
        return pl.Series(name, values)
    if absent.all():
        return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(values))
    return pl.Series(name, values).set(pl.Series(absent), None)


def _texts(pool: Names, where: object, limits: Limits) -> pl.Series:
    """Recorded JSON as text on one line, each value once."""
    texts = []
    for raw in pool.codes:
        if len(raw) > limits.string_length:
            found = f"shapes of {len(raw):,} characters"
            raise limits.refuse(str(where), "string_length", found)
        if raw.count(b"[") > limits.nesting and _depth(raw) > limits.nesting:
            raise limits.refuse(str(where), "nesting", "shapes nested too deeply")
        line = msgspec.json.format(raw, indent=0) if b"\n" in raw else raw
        texts.append(line.decode("utf-8", "replace"))
    return pl.Series(texts, dtype=pl.String)


def _depth(raw: bytes) -> int:
    """How deep ``raw`` is nested, brackets inside strings counted too."""
    deepest = depth = 0
    for byte in raw.translate(None, _NO_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
