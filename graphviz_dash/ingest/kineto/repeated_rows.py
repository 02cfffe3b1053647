"""Removal of rows that a file contains several times, as files that were joined twice.

A thread makes one call at a time, so equal rows are copies. Work of a graph launch may be equal by
chance; it counts as repeated only if each row occurs equally often.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import pluralize


def drop_repeated_rows(
    name: str, frame: pl.DataFrame, events: pl.Series
) -> tuple[pl.DataFrame, pl.Series, int]:
    """Drop repeated rows of the table ``name``, sorted by ts, with their indices in traceEvents.

    Returns both and the number of dropped rows.
    """
    if name not in ("gpu", "runtime") or frame.height < 2:
        return frame, events, 0
    ts = frame["ts"].to_numpy()
    has_tie = np.zeros(len(ts), np.bool_)
    np.equal(ts[1:], ts[:-1], out=has_tie[1:])
    has_tie[:-1] |= has_tie[1:]
    candidates = frame.with_row_index("row").filter(pl.Series(has_tie)).filter(pl.col("dur") > 0)
    candidates = candidates.drop_nulls("correlation").filter(pl.col("correlation") > 0)
    columns = frame.columns
    repeats = candidates.with_columns(
        copy=pl.int_range(pl.len()).over(columns), count=pl.len().over(columns)
    ).filter(pl.col("count") > 1)
    if name == "gpu" and repeats.height:
        rows_by_launch = frame.group_by("correlation").agg(rows=pl.len())
        repeats = repeats.join(rows_by_launch, on="correlation").filter(
            (pl.len().over("correlation") == pl.col("rows"))
            & (pl.col("count").n_unique().over("correlation") == 1)
        )
    copies = repeats.filter(pl.col("copy") > 0)["row"].to_numpy()
    if not len(copies):
        return frame, events, 0
    is_original = np.ones(len(ts), np.bool_)
    is_original[copies] = False
    return frame.filter(pl.Series(is_original)), events.filter(pl.Series(is_original)), len(copies)


def build_repetition_problem(repeats: Mapping[str, int]) -> tuple[TraceProblem, ...]:
    """Describe the repeated rows by table; empty if there are none."""
    total = sum(repeats.values())
    if not total:
        return ()
    return (
        TraceProblem(
            "repeated-events",
            f"{pluralize(total, 'slice')} occur several times in the file with equal times and "
            "ids, as in files that were joined twice. Each counts once.",
        ),
    )
