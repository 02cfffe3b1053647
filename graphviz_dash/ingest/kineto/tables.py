"""Columns of numbers into the Polars tables of model/trace.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import polars as pl

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.column_blocks import Ints
from graphviz_dash.ingest.kineto.columns import KINDS, SCHEMAS
from graphviz_dash.ingest.kineto.events import ABSENT
from graphviz_dash.ingest.kineto.table_columns import TableColumns
from graphviz_dash.ingest.limits import Limits

T = TypeVar("T")

TYPES: dict[str, Any] = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "uint64": pl.UInt64,
    "string": pl.String,
    "categorical": pl.Categorical(),
}
"""Polars types by the names that model/trace.py gives them."""

_THREADS: Final = 2  # of five tables two are large; numpy and Polars let other threads run

_IN_FILE_ORDER: Final = ("gpu", "runtime")
"""Tables whose rows of equal ts stay as the file has them; in the others longer ones come first,
which puts what encloses before what is enclosed."""


def frames(
    tables: dict[str, TableColumns], origin: int, limits: Limits, look: Callable[..., T]
) -> tuple[dict[str, pl.DataFrame], dict[str, pl.Series], T]:
    """The finished tables, sorted by ts, times since ``origin``; the index in
    traceEvents of each row; and what ``look`` finds in the tables gpu,
    runtime and annotations, asked while others are made. Uses up ``tables``.

    Raises:
        InputError: a number or name that is out of bounds.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        made = {
            name: pool.submit(_frame, name, table, origin, limits) for name, table in tables.items()
        }
        problems = look(*(made[name].result()[0] for name in ("gpu", "runtime", "annotations")))
    finished = {name: made[name].result() for name in SCHEMAS}
    rows = {name: rows for name, (_, rows) in finished.items()}
    return {name: frame for name, (frame, _) in finished.items()}, rows, problems


def _frame(
    name: str, table: TableColumns, origin: int, limits: Limits
) -> tuple[pl.DataFrame, pl.Series]:
    ts = table.column("ts") - origin
    dur = table.column("dur")
    order = _order(ts, None if name in _IN_FILE_ORDER else dur, table.file_order)
    # Used again for each column: memory that is new costs more than what is done in it. What
    # becomes a column is memory of its own, for Polars need not copy it.
    scratch = None if order is None else np.empty_like(ts)
    columns = []
    for column, kind in (SCHEMAS[name] | {"event_index": "int64"}).items():
        times = {"ts": ts, "dur": dur}.get(column)
        values = table.column(column, scratch) if times is None else times
        if column == "event_index" and table.first is not None:
            values += np.repeat(table.first, table.rows)  # in traceEvents, not in the piece
        if order is not None:
            values = values[order]
        columns.append(_series(table, column, kind, values, limits))
    return pl.DataFrame(columns[:-1]), columns[-1]


def _order(ts: Ints, dur: Ints | None, file_order: Ints | None) -> Ints | None:
    """The rows by ts, those of equal ts by ``dur``, the longest first, if it is given, and then as
    in the file; None: they are in that order."""
    if file_order is not None:
        within = _order(ts[file_order], None if dur is None else dur[file_order], None)
        return file_order if within is None else file_order[within]
    rising = ts[1:] > ts[:-1]
    if rising.all():
        return None
    order = np.argsort(ts, kind="stable")
    if dur is None:
        return order
    ordered = ts[order]
    tied = np.zeros(len(ts) + 1, np.bool_)
    np.equal(ordered[1:], ordered[:-1], out=tied[1:-1])
    indices = np.flatnonzero(tied[1:] | tied[:-1])
    rows = order[indices]
    order[indices] = rows[np.lexsort((-dur[rows], ts[rows]))]
    return order


def _series(table: TableColumns, name: str, kind: str, values: Ints, limits: Limits) -> pl.Series:
    if name == "kind":
        return pl.Series(KINDS, dtype=TYPES[kind]).gather(pl.Series(values)).alias(name)
    if kind in ("string", "categorical"):
        strings = (
            _names(table.names.values, table.where, limits)
            if name == "name"
            else _texts(table.texts.values, table.where, limits)
        )
        return strings.cast(TYPES[kind]).gather(_nullable(name, values)).alias(name)
    series = _nullable(name, values)
    if kind == "int64":
        return series
    if kind == "uint64":
        return series.reinterpret(signed=False)
    try:
        return series.cast(TYPES[kind])
    except pl.exceptions.InvalidOperationError as error:
        actual = f"a {name} of {int(values[np.abs(values).argmax()])}"
        raise InputError(table.where, actual, f"{kind} numbers") from error


def _nullable(name: str, values: Ints) -> pl.Series:
    absent = values == ABSENT
    if not absent.any():
        return pl.Series(name, values)
    if absent.all():
        return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(values))
    return pl.Series(name, values).set(pl.Series(absent), None)


def _names(names: Sequence[str], where: object, limits: Limits) -> pl.Series:
    longest = max(map(len, names), default=0)
    if longest > limits.string_length:
        raise limits.refuse(str(where), "string_length", f"a name of {longest:,} characters")
    return pl.Series(names, dtype=pl.String)


def _texts(recorded: Sequence[bytes], where: object, limits: Limits) -> pl.Series:
    """Recorded JSON as text on one line, each value once."""
    texts = []
    for raw in recorded:
        if len(raw) > limits.string_length:
            actual = f"shapes of {len(raw):,} characters"
            raise limits.refuse(str(where), "string_length", actual)
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
