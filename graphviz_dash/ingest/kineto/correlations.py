"""Matching of correlation ids between calls and GPU work with sorted arrays.

Uses a tenth of the memory and time of joining the tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from graphviz_dash.ingest.kineto.column_blocks import Flags, Ints
from graphviz_dash.ingest.kineto.events import ABSENT

_SPARSE: Final = 8  # ids of a process are close together: use a byte per id up to this ratio
_SMALL: Final = 1 << 16


def mask_members(ids: pl.Series, reference: pl.Series) -> pl.Series:
    """Test which ``ids`` are in ``reference``. False for null."""
    values = _drop_nulls(reference)
    if not ids.null_count():
        return pl.Series(_is_in(ids.to_numpy(), values))
    present = ids.is_not_null().to_numpy()
    members = np.zeros(len(ids), np.bool_)
    members[present] = _is_in(_drop_nulls(ids), values)
    return pl.Series(members)


def fill_absent(ids: pl.Series) -> Ints:
    """Return an integer column with nulls as ABSENT, shape (rows,)."""
    return (ids.fill_null(ABSENT) if ids.null_count() else ids).to_numpy()


def _drop_nulls(ids: pl.Series) -> Ints:
    # An expression of Polars costs 0.2 ms whatever the number of rows.
    return (ids.drop_nulls() if ids.null_count() else ids).to_numpy()


def _is_in(values: Ints, reference: Ints) -> Flags:
    """Compute np.isin, which is ten times slower since numpy 2.3."""
    if not len(reference):
        return np.zeros(len(values), np.bool_)
    minimum, maximum = int(reference.min()), int(reference.max())
    if maximum - minimum > _SPARSE * len(reference) + _SMALL:
        reference = np.sort(reference)
        indices = np.searchsorted(reference, values)
        indices[indices == len(reference)] = 0
        return np.equal(reference[indices], values)
    marks = np.zeros(maximum - minimum + 1, np.bool_)
    marks[reference - minimum] = True
    inside = (values >= minimum) & (values <= maximum)
    inside[inside] = marks[values[inside] - minimum]
    return inside


def find_repeated(ids: pl.Series) -> tuple[pl.Series, int]:
    """Find the distinct repeated ``ids`` and the number of their rows, ignoring null."""
    distinct, counts = np.unique(_drop_nulls(ids), return_counts=True)
    is_repeated = counts > 1
    return pl.Series(distinct[is_repeated], dtype=pl.Int64), int(counts[is_repeated].sum())


class CallIntervals:
    """Start of the first call and return of the last call, by correlation id."""

    def __init__(self, runtime: pl.DataFrame, gpu: pl.DataFrame) -> None:
        has_all_ids = not runtime["correlation"].null_count()
        identified = runtime if has_all_ids else runtime.drop_nulls("correlation")
        ids = identified["correlation"].to_numpy()
        work_ids = fill_absent(gpu["correlation"])
        if not len(ids):
            self.work: Ints = np.empty(0, np.int64)
            self.start: Ints = self.work
            self.end: Ints = self.work
            return
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        ids = ids[starts]
        indices = np.searchsorted(ids, work_ids)
        indices[indices == len(ids)] = 0
        self.work = np.flatnonzero(ids[indices] == work_ids)
        ts = identified["ts"].to_numpy()[order]
        self.start = np.minimum.reduceat(ts, starts)[indices[self.work]]
        ts += identified["dur"].to_numpy()[order]
        self.end = np.maximum.reduceat(ts, starts)[indices[self.work]]
