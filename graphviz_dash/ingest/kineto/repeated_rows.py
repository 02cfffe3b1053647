"""Removal of rows that a file contains several times, as files that were joined twice.

A thread makes one call at a time, so equal rows are copies. Work of a graph launch may be equal by
chance: kernels without a node id count as repeated only if each row of the launch occurs equally
often. Copies and nodes with an id count as repeated alone: a launch runs a node once at a time. 113
traces with 126,719 rows contain no equal rows, and no node twice in a launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from msgspec import Struct

from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import pluralize


class RowRepairs(Struct, frozen=True):
    """Numbers of repaired rows of one table."""

    repeats: int = 0
    """Dropped rows."""
    splits: int = 0
    """Captured copies with two rows, now one."""


def repair_rows(
    name: str, frame: pl.DataFrame, events: pl.Series
) -> tuple[pl.DataFrame, pl.Series, RowRepairs]:
    """Drop repeated rows of the table ``name``, sorted by ts, and merge those of captured copies.

    Returns the rows, their indices in traceEvents, and the numbers of repaired rows.
    """
    frame, events, repeats = drop_repeated_rows(name, frame, events)
    splits = 0
    if name == "gpu" and frame["graph_node_id"].null_count() < frame.height:
        frame, events, splits = merge_split_copies(frame, events)
    return frame, events, RowRepairs(repeats, splits)


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
    if not has_tie.any():
        return frame, events, 0
    candidates = frame.with_row_index("row").filter(pl.Series(has_tie)).filter(pl.col("dur") > 0)
    candidates = candidates.drop_nulls("correlation").filter(pl.col("correlation") > 0)
    columns = frame.columns
    repeats = candidates.with_columns(
        copy=pl.int_range(pl.len()).over(columns), count=pl.len().over(columns)
    ).filter(pl.col("count") > 1)
    if name == "gpu" and repeats.height:
        rows_by_launch = frame.group_by("correlation").agg(rows=pl.len())
        repeats = repeats.join(rows_by_launch, on="correlation").filter(
            (pl.col("graph_node_id").fill_null(0) > 0)
            | (pl.col("kind").cast(pl.String) == "memcpy")
            | (pl.len().over("correlation") == pl.col("rows"))
            & (pl.col("count").n_unique().over("correlation") == 1)
        )
    copies = repeats.filter(pl.col("copy") > 0)["row"].to_numpy()
    if not len(copies):
        return frame, events, 0
    is_original = np.ones(len(ts), np.bool_)
    is_original[copies] = False
    return frame.filter(pl.Series(is_original)), events.filter(pl.Series(is_original)), len(copies)


def merge_split_copies(gpu: pl.DataFrame, events: pl.Series) -> tuple[pl.DataFrame, pl.Series, int]:
    """Merge both rows of a captured copy, by the id of its node.

    Newer drivers run a captured copy as two kernels and report a row with the full size for each
    (pytorch issue 191284). Returns the rows, their indices in traceEvents, and the number of merged
    copies.
    """
    ids = ["correlation", "device", "graph_id", "graph_node_id"]
    is_copy = pl.col("kind").cast(pl.String) == "memcpy"
    copies = gpu.with_row_index("row").filter(is_copy).drop_nulls(ids)
    copies = copies.filter(pl.col("graph_node_id") > 0)
    lane = ["device", "stream"]
    rank = gpu.select(place=pl.int_range(pl.len()).over(lane))["place"]
    copies = copies.with_columns(place=rank.gather(copies["row"]))
    pairs = copies.group_by(*ids, "stream", "name", "bytes", maintain_order=True).agg(
        rows=pl.len(),
        first=pl.col("row").first(),
        second=pl.col("row").last(),
        distance=pl.col("place").last() - pl.col("place").first(),
        dur=pl.col("ts").last() + pl.col("dur").last() - pl.col("ts").first(),
    )
    pairs = pairs.filter((pl.col("rows") == 2) & (pl.col("distance") == 1))
    if not pairs.height:
        return gpu, events, 0
    dur = gpu["dur"].scatter(pairs["first"], pairs["dur"])
    has_row = np.ones(gpu.height, np.bool_)
    has_row[pairs["second"].to_numpy()] = False
    mask = pl.Series(has_row)
    return gpu.with_columns(dur).filter(mask), events.filter(mask), pairs.height


def describe_repairs(repairs: Iterable[RowRepairs]) -> Iterator[TraceProblem]:
    """Describe the repaired rows of all tables."""
    repairs = tuple(repairs)
    if total := sum(table.repeats for table in repairs):
        yield TraceProblem(
            "repeated-events",
            f"{pluralize(total, 'slice')} occur several times in the file with equal times and "
            "ids, as in files that were joined twice. Each counts once.",
        )
    if splits := sum(table.splits for table in repairs):
        yield TraceProblem(
            "split-copies",
            f"{pluralize(splits, 'captured copy')} had two rows with the full size each: newer "
            "drivers report a row for each of two kernels. Each copy counts once, from the start "
            "of the first to the end of the second row.",
        )
