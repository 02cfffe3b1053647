"""Array types, and trace columns as integer arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl


Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_PROCESS_SHIFT = 40
"""Bits of a thread id below those of the process. Longer ids, which are addresses, still differ."""
_FEW_ROWS = 1_000
"""A list of so few values is read faster than Polars plans a query for them."""


def get_column(table: pl.DataFrame, name: str) -> Ints:
    """Return an integer column as int64 of shape (rows,), with nulls as -1."""
    series = table[name]
    if series.null_count():
        if len(series) <= _FEW_ROWS and series.dtype.is_signed_integer():
            values = [-1 if value is None else value for value in series.to_list()]
            return np.array(values, dtype=np.int64)
        series = series.fill_null(-1)
    return series.to_numpy().astype(np.int64, copy=False)


def get_spans(table: pl.DataFrame, rows: Ints | Flags | None = None) -> tuple[Ints, Ints]:
    """Return start and end of the selected rows, by default of all."""
    start, duration = get_column(table, "ts"), np.maximum(get_column(table, "dur"), 0)
    if rows is not None:
        start, duration = start[rows], duration[rows]
    return start, start + duration


def get_streams(gpu: pl.DataFrame) -> Ints:
    """Return stream numbers, shape (rows,), which differ for equal streams of different devices."""
    return get_column(gpu, "stream") + (get_column(gpu, "device") << 32)


def get_threads(table: pl.DataFrame) -> Ints:
    """Return thread numbers, shape (rows,), which differ for equal ids of different processes."""
    return combine_threads(get_column(table, "pid"), get_column(table, "tid"))


def combine_threads(process: Ints, thread: Ints) -> Ints:
    """Return one number for each pair of ids."""
    return (process << _PROCESS_SHIFT) ^ thread


def compute_offsets(sizes: npt.ArrayLike) -> Ints:
    """Return the sums of the first 0, 1, ... ``sizes``, shape (sizes + 1,)."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def compute_medians(series: Sequence[Ints]) -> Ints:
    """Return the rounded median of each column of ``series``."""
    return np.asarray(np.rint(np.median(np.stack(series), axis=0)), dtype=np.int64)


def find_first_positions(ids: Ints, requested: Ints) -> Ints:
    """Return the first index of each of ``requested`` in ``ids``, -1 if absent.

    Negative ids never match. Near-linear, and linear if ids are dense, as profiler counters are.
    """
    if not len(ids) or not len(requested):
        return np.full(len(requested), -1, dtype=np.int64)
    span = max(int(ids.max()), -1) + 2
    low = max(0, min(int(ids.min()), span))
    if span - low <= 2 * len(ids) + 1024:
        # One extra slot at each end for values out of range. The first occurrence is written last
        # and wins.
        positions = np.full(span - low + 1, -1, dtype=np.int64)
        positions[np.maximum(ids[::-1], low - 1) - (low - 1)] = np.arange(len(ids) - 1, -1, -1)
        positions[0] = -1
        return positions[np.clip(requested, low - 1, span - 1) - (low - 1)]
    valid = np.flatnonzero(ids >= 0)
    order = valid[np.argsort(ids[valid], kind="stable")]
    sorted_ids = ids[order]
    at = np.minimum(np.searchsorted(sorted_ids, requested, "left"), len(sorted_ids) - 1)
    return np.where((sorted_ids[at] == requested) & (requested >= 0), order[at], -1)


def is_sorted_within_codes(code: Ints, start: Ints, end: Ints) -> bool:
    """Return whether rows with the same ``code`` follow each other without overlap."""
    has_same_code = code[1:] == code[:-1]
    is_late = start[1:] < start[:-1]
    tie = (start[1:] == start[:-1]) & (end[1:] < end[:-1])
    return not bool(np.any(has_same_code & (is_late | tie)))


def encode(series: pl.Series) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Encode a text column as dense codes of shape (rows,) and the text of each code (null: "").

    Long categorical columns are fifteen times as fast.
    """
    if series.null_count() == len(series):
        return np.zeros(len(series), dtype=np.int32), [""] * min(1, len(series))
    if len(series) > _FEW_ROWS and (codes := series.to_physical()).dtype.is_integer():
        return _encode_categories(series, codes)
    seen: dict[str | None, int] = {}
    codes_of = [seen.setdefault(value, len(seen)) for value in series.to_list()]
    return np.array(codes_of, dtype=np.int32), ["" if value is None else value for value in seen]


def _encode_categories(
    series: pl.Series, codes: pl.Series
) -> tuple[npt.NDArray[np.int32], list[str]]:
    physical = codes.to_numpy()
    if codes.null_count():
        physical = codes.cast(int).fill_null(-1).to_numpy() + 1
    first = np.full(int(physical.max()) + 1, -1, dtype=np.int64)
    first[physical[::-1]] = np.arange(len(physical) - 1, -1, -1)
    used = np.flatnonzero(first >= 0)
    # Order of first appearance: the column's own codes depend on earlier reads of the process.
    used = used[np.argsort(first[used])]
    dense = np.zeros(len(first), dtype=np.int32)
    dense[used] = np.arange(len(used), dtype=np.int32)
    # Indexing, because gather() plans a one-column query and is four times as slow.
    values = series[first[used]].to_list()
    return dense[physical], ["" if value is None else str(value) for value in values]
