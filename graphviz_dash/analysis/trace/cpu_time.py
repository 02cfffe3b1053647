"""CPU time of traced steps, equal to the total in torch.profiler's table."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from graphviz_dash.analysis.arrays import Ints, encode, get_column, get_threads
from graphviz_dash.analysis.trace.lanes import split_overlaps
from graphviz_dash.analysis.trace.steps import Step, compute_exclusive_ns
from graphviz_dash.model.marks import STEP
from graphviz_dash.model.trace import Trace

_BLOCK_ROWS: Final = 1 << 16  # data for this many rows fits in a core's cache
_THREADS: Final = 2  # numpy releases the GIL while sorting
_MAX_TIME: Final = 1 << 62


class _Rows(NamedTuple):
    """Intervals of one table by start, with threads; shape (rows,)."""

    start: Ints
    duration: Ints
    thread: Ints


def compute_self_cpu_ns(trace: Trace, traced_steps: Sequence[Step]) -> Ints:
    """Return the "Self CPU time total" of each step's events, shape (steps,).

    torch.profiler sums the self time of each operator, range and runtime call. Per thread this
    equals the union of their intervals. The range that marks the step is excluded (it includes
    Python time); the final synchronisation is included. Events belong to the step in which they
    start.
    """
    annotations = trace.annotations
    codes, names = encode(annotations["name"])
    is_step = np.isin(codes, [code for code, name in enumerate(names) if name.startswith(STEP)])
    tables = (trace.ops, annotations.filter(~is_step), trace.runtime)
    rows = [
        _Rows(get_column(table, "ts"), get_column(table, "dur"), get_threads(table))
        for table in tables
    ]
    threads = np.unique(np.concatenate([table_rows.thread for table_rows in rows]))
    begin = np.array([step.start for step in traced_steps], dtype=np.int64)
    stop = np.array([step.end for step in traced_steps], dtype=np.int64)
    totals = np.zeros(len(traced_steps), dtype=np.int64)
    with ThreadPoolExecutor(_THREADS) as pool:
        # Groups of steps without overlap; usually just one.
        for chain in split_overlaps(begin, stop):
            edges = np.column_stack((begin[chain], stop[chain])).ravel()
            bounds = np.stack([np.searchsorted(table_rows.start, edges) for table_rows in rows])
            sums = pool.map(
                lambda block: _measure_unions(rows, block, threads), _split_blocks(bounds)
            )
            totals[chain] = np.concatenate(list(sums))
    return totals


def _split_blocks(bounds: Ints) -> list[Ints]:
    """Split ``bounds`` into blocks of complete steps.

    ``bounds`` holds first and last row of each step in each table, shape (tables, 2 * steps).
    """
    sizes = (bounds[:, 1::2] - bounds[:, ::2]).sum(axis=0)
    block = np.cumsum(sizes) // _BLOCK_ROWS
    return np.split(bounds, 2 * (np.flatnonzero(np.diff(block)) + 1), axis=1)


def _measure_unions(tables: Sequence[_Rows], bounds: Ints, threads: Ints) -> Ints:
    """Sum the union lengths of each step over threads."""
    starts, ends, groups = [], [], []
    spans = np.arange(bounds.shape[1] - 1)  # odd spans are between two steps
    for rows, edges in zip(tables, bounds, strict=True):
        inside = slice(edges[0], edges[-1])
        span = np.repeat(spans, np.diff(edges))
        starts.append(rows.start[inside])
        ends.append(rows.start[inside] + np.maximum(rows.duration[inside], 0))
        groups.append(span * len(threads) + np.searchsorted(threads, rows.thread[inside]))
    start, end, group = map(np.concatenate, (starts, ends, groups))
    if not len(start):
        return np.zeros(bounds.shape[1] // 2, dtype=np.int64)
    low = int(start.min())
    stride = int(end.max()) - low + 1
    if len(spans) * len(threads) * stride < _MAX_TIME:
        # Shift groups one after another. At a gap, as many intervals have ended as have started, so
        # starts and ends can be sorted separately.
        shift = group * stride - low
        start, end = np.sort(start + shift), np.sort(end + shift)
        exclusive = end - np.maximum(start, np.concatenate((start[:1], end[:-1])))
    else:
        order = np.lexsort((start, group))
        exclusive = compute_exclusive_ns(start[order], end[order], group[order])
    rows_of = np.diff(bounds, axis=1).sum(axis=0)
    sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(exclusive)))
    ends_at = np.cumsum(rows_of)
    return np.asarray(sums[ends_at] - sums[ends_at - rows_of], dtype=np.int64)[::2]
