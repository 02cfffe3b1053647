"""Conversion of numeric columns to the Polars tables of model/trace.py."""

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
from graphviz_dash.ingest.kineto.repeated_rows import RowRepairs, repair_rows
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
"""Polars types by their names in model/trace.py."""

_THREADS: Final = 2  # two of five tables are large; numpy and Polars release the GIL

# Polars imports numpy at the first array that it gets, and fails if two threads give it theirs at
# the same time ("'module' object does not support item assignment").
pl.Series(np.empty(0, np.int64))

_FILE_ORDER_TABLES: Final = ("gpu", "runtime")
"""Tables whose rows with equal ts keep the file's order. In others, longer (enclosing) rows come
first."""


def build_frames(
    tables: dict[str, TableColumns], origin: int, limits: Limits, find: Callable[..., T]
) -> tuple[dict[str, pl.DataFrame], dict[str, pl.Series], T]:
    """Build the tables, sorted by ts, with times since ``origin``.

    Returns them, the index in traceEvents of each row, and the result of ``find`` for gpu, runtime
    and annotations. Drops repeated rows and merges those of captured copies; ``find`` receives
    their numbers. Consumes ``tables``.

    Raises:
        InputError: A number or name is out of range.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        futures = {
            name: pool.submit(_build_frame, name, table, origin, limits)
            for name, table in tables.items()
        }
        results = {name: futures[name].result() for name in ("gpu", "runtime", "annotations")}
        repairs = [table_repairs for _, _, table_repairs in results.values()]
        problems = find(*(frame for frame, _, _ in results.values()), repairs)
    finished = {name: futures[name].result() for name in SCHEMAS}
    rows = {name: rows for name, (_, rows, _) in finished.items()}
    return {name: frame for name, (frame, _, _) in finished.items()}, rows, problems


def _build_frame(
    name: str, table: TableColumns, origin: int, limits: Limits
) -> tuple[pl.DataFrame, pl.Series, RowRepairs]:
    ts = table.expand_column("ts") - origin
    dur = table.expand_column("dur")
    order = _sort_rows(ts, None if name in _FILE_ORDER_TABLES else dur, table.file_order)
    # Reused for each column, because new memory costs more than the work on it. Final columns have
    # their own memory, which Polars uses without a copy.
    scratch = None if order is None else np.empty_like(ts)
    columns = []
    for column, kind in (SCHEMAS[name] | {"event_index": "int64"}).items():
        times = {"ts": ts, "dur": dur}.get(column)
        values = table.expand_column(column, scratch) if times is None else times
        if column == "event_index" and table.first_events is not None:
            values += np.repeat(table.first_events, table.rows)  # in traceEvents, not in the piece
        if order is not None:
            values = values[order]
        columns.append(_build_series(table, column, kind, values, limits))
    return repair_rows(name, pl.DataFrame(columns[:-1]), columns[-1])


def _sort_rows(ts: Ints, dur: Ints | None, file_order: Ints | None) -> Ints | None:
    """Sort by ts, descending ``dur`` if given, and file order. None if already sorted."""
    if file_order is not None:
        suborder = _sort_rows(ts[file_order], None if dur is None else dur[file_order], None)
        return file_order if suborder is None else file_order[suborder]
    is_rising = ts[1:] > ts[:-1]
    if is_rising.all():
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


def _build_series(
    table: TableColumns, name: str, kind: str, values: Ints, limits: Limits
) -> pl.Series:
    if name == "kind":
        return pl.Series(name, KINDS, dtype=TYPES[kind])[values]
    if kind in ("string", "categorical"):
        strings = (
            _build_names(table.names.values, table.where, limits)
            if name == "name"
            else _build_texts(table.texts.values, table.where, limits)
        )
        texts, indices = strings.cast(TYPES[kind]), _build_nullable(name, values)
        if indices.null_count() == len(indices):
            return texts.clear(len(indices)).alias(name)
        # Indexing, because gather() plans a query for one column.
        return texts[indices].alias(name)
    series = _build_nullable(name, values)
    if kind == "int64":
        return series
    if kind == "uint64":
        return series.reinterpret(signed=False)
    try:
        return series.cast(TYPES[kind])
    except pl.exceptions.InvalidOperationError as error:
        description = f"a {name} of {int(values[np.abs(values).argmax()])}"
        raise InputError(table.where, description, f"{kind} numbers") from error


def _build_nullable(name: str, values: Ints) -> pl.Series:
    absent = values == ABSENT
    if not absent.any():
        return pl.Series(name, values)
    if absent.all():
        return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, len(values))
    return pl.Series(name, values).set(pl.Series(absent), None)


def _build_names(names: Sequence[str], source: object, limits: Limits) -> pl.Series:
    max_length = max(map(len, names), default=0)
    if max_length > limits.string_length:
        raise limits.build_error(
            str(source), "string_length", f"a name of {max_length:,} characters"
        )
    return pl.Series(names, dtype=pl.String)


def _build_texts(recorded: Sequence[bytes], source: object, limits: Limits) -> pl.Series:
    texts = []
    for raw in recorded:
        if len(raw) > limits.string_length:
            description = f"shapes of {len(raw):,} characters"
            raise limits.build_error(str(source), "string_length", description)
        if raw.count(b"[") > limits.nesting and _compute_depth(raw) > limits.nesting:
            raise limits.build_error(str(source), "nesting", "shapes nested too deeply")
        line = msgspec.json.format(raw, indent=0) if b"\n" in raw else raw
        texts.append(line.decode("utf-8", "replace"))
    return pl.Series(texts, dtype=pl.String)


def _compute_depth(raw: bytes) -> int:
    """Compute the nesting depth of ``raw``, including brackets in strings."""
    deepest = depth = 0
    for byte in raw.translate(None, _NON_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_NON_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
