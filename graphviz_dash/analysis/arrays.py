"""Types of arrays, and columns of trace tables as integer arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl


Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


def column(table: pl.DataFrame, name: str) -> Ints:
    """An integer column as int64 of shape (rows,), null as -1."""
    series = table[name]
    if series.null_count():
        series = series.fill_null(-1)
    return series.to_numpy().astype(np.int64, copy=False)


def first_places(ids: Ints, wanted: Ints) -> Ints:
    """Where each of ``wanted`` stands first among ``ids``, -1 where it does not; ids below 0 are
    none. Near-linear; linear where the ids lie close together, as a profiler counts them."""
    if not len(ids) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    span = max(int(ids.max()), -1) + 2
    low = max(0, min(int(ids.min()), span))
    if span - low <= 2 * len(ids) + 1024:
        # One place more at either end, for what is below or above; the first one written last wins.
        places = np.full(span - low + 1, -1, dtype=np.int64)
        places[np.maximum(ids[::-1], low - 1) - (low - 1)] = np.arange(len(ids) - 1, -1, -1)
        places[0] = -1
        return places[np.clip(wanted, low - 1, span - 1) - (low - 1)]
    valid = np.flatnonzero(ids >= 0)
    order = valid[np.argsort(ids[valid], kind="stable")]
    ordered = ids[order]
    at = np.minimum(np.searchsorted(ordered, wanted, "left"), len(ordered) - 1)
    return np.where((ordered[at] == wanted) & (wanted >= 0), order[at], -1)


def sorted_within(code: Ints, start: Ints, end: Ints) -> bool:
    """Whether rows of equal ``code`` follow each other without overlap."""
    same = code[1:] == code[:-1]
    late = start[1:] < start[:-1]
    tie = (start[1:] == start[:-1]) & (end[1:] < end[:-1])
    return not bool(np.any(same & (late | tie)))


def encode(series: pl.Series) -> tuple[npt.NDArray[np.int32], list[str]]:
    """A column of text as dense codes of shape (rows,) and the text of each code (null: "");
    fifteen times as fast where it is categorical."""
    if not len(series):
        return np.zeros(0, dtype=np.int32), []
    codes = series.to_physical()
    if not codes.dtype.is_integer():
        seen: dict[str, int] = {}
        codes_of = [seen.setdefault(value or "", len(seen)) for value in series.to_list()]
        return np.array(codes_of, dtype=np.int32), list(seen)
    physical = codes.to_numpy()
    if codes.null_count():
        physical = codes.cast(int).fill_null(-1).to_numpy() + 1
    first = np.full(int(physical.max()) + 1, -1, dtype=np.int64)
    first[physical[::-1]] = np.arange(len(physical) - 1, -1, -1)
    used = np.flatnonzero(first >= 0)
    # By first appearance: the column's own codes depend on what else the process has read.
    used = used[np.argsort(first[used])]
    dense = np.zeros(len(first), dtype=np.int32)
    dense[used] = np.arange(len(used), dtype=np.int32)
    # By index: gather() plans a query of one column, which takes four times as long.
    values = series[first[used]].to_list()
    return dense[physical], ["" if value is None else str(value) for value in values]
