"""Time of a family's steps outside their graphs, by the number of requests."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.loop.family_report import FamilyReport, LoopReport
from graphviz_dash.analysis.loop.size_times import (
    compute_median,
    fit_median_times,
    interpolate,
    interpolate_times,
)
from graphviz_dash.analysis.metrics.loop_columns import CAPTURE, NONE, LoopColumns
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, compute_percentiles

BLOCK_STEPS: Final = 32
"""Consecutive steps whose median shows how the machine varies."""
_MIN_BLOCKS: Final = 8
"""Minimum number of blocks for an interval."""
_MIN_COUNTS: Final = 3
"""Distinct request counts needed for a slope."""


class OutsideTime(Struct, frozen=True):
    """Time of a step outside its graphs: a line over the number of requests."""

    base_ns: float
    """Time independent of the number of requests."""
    request_ns: float
    """Additional time per request; 0 if unknown or not rising."""
    ratios: Spread | None
    """Measured to estimated time: p5 to p95 of medians of ``BLOCK_STEPS`` consecutive steps. None
    with too few steps."""
    sizes: Ints
    """Real sizes of the recorded steps, ascending, shape (sizes,)."""
    requests: Floats
    """Their median number of requests, shape (sizes,); 0 if unknown."""

    def estimate(self, sizes: Ints) -> Floats:
        """Estimate the time of steps of the real ``sizes`` in ns, shape (sizes,)."""
        requests = interpolate(sizes, self.sizes, self.requests) if self.request_ns else 0.0
        times: Floats = self.base_ns + self.request_ns * requests + np.zeros(len(sizes))
        return times


class _Line(Struct, frozen=True):
    rows: Ints
    outside_ns: Floats
    base_ns: float
    request_ns: float

    def compute_ratios(self, requests: Ints) -> Floats:
        line_ns = self.base_ns + self.request_ns * np.maximum(requests[self.rows], 0)
        ratios: Floats = self.outside_ns / np.maximum(line_ns, 1.0)
        return ratios


def fit_outside_time(report: LoopReport, family: FamilyReport) -> OutsideTime | None:
    """Fit the time of ``family``'s steps outside their graphs. None if no replay was timed."""
    columns = report.columns
    line = _fit_line(columns, family)
    if line is None:
        return None
    sizes, requests = _collect_requests(columns, family.index)
    lines = [_fit_line(columns, other) for other in report.families]
    return OutsideTime(
        base_ns=line.base_ns,
        request_ns=line.request_ns,
        ratios=_measure_variation(columns, [other for other in lines if other is not None]),
        sizes=sizes,
        requests=requests,
    )


def _fit_line(columns: LoopColumns, family: FamilyReport) -> _Line | None:
    if not family.samples:
        return None
    replay_rows = np.flatnonzero((columns.family == family.index) & columns.is_replay)
    rows = columns.select_settled(replay_rows)
    rows = rows[columns.padded[rows] != NONE]
    if not len(rows):
        return None
    sizes, times = fit_median_times(family.samples)
    replay_ns = interpolate_times(columns.padded[rows], sizes, times)
    outside_ns = np.maximum(columns.period_ns[rows] - replay_ns, 0.0)
    return _Line(rows, outside_ns, *_fit_requests(columns.requests[rows], outside_ns))


def _fit_requests(requests: Ints, outside_ns: Floats) -> tuple[float, float]:
    """Fit a line to the medians by number of requests, weighted by steps."""
    median_ns = compute_median(outside_ns)
    if (requests == NONE).any():
        return median_ns, 0.0
    counts, places, steps = np.unique(requests, return_inverse=True, return_counts=True)
    if len(counts) < _MIN_COUNTS:
        return median_ns, 0.0
    groups = np.split(outside_ns[np.argsort(places, kind="stable")], np.cumsum(steps)[:-1])
    medians = np.array([compute_median(group) for group in groups])
    slope, base = np.polyfit(counts, medians, 1, w=np.sqrt(steps)).tolist()
    return (base, slope) if slope > 0 and base > 0 else (median_ns, 0.0)


def _collect_requests(columns: LoopColumns, family: int) -> tuple[Ints, Floats]:
    is_step = (columns.family == family) & (columns.real > 0) & (columns.kind != CAPTURE)
    rows = np.flatnonzero(is_step & (columns.requests != NONE))
    if not len(rows):
        return np.zeros(1, dtype=np.int64), np.zeros(1)
    sizes, places, steps = np.unique(columns.real[rows], return_inverse=True, return_counts=True)
    requests = columns.requests[rows][np.argsort(places, kind="stable")].astype(np.float64)
    groups = np.split(requests, np.cumsum(steps)[:-1])
    return sizes, np.array([compute_median(group) for group in groups])


def _measure_variation(columns: LoopColumns, lines: list[_Line]) -> Spread | None:
    """Measure the distance of consecutive steps of all families from their lines."""
    rows = np.concatenate([line.rows for line in lines])
    ratios = np.concatenate([line.compute_ratios(columns.requests) for line in lines])
    return compute_block_spread(ratios[np.argsort(rows)])


def compute_block_spread(ratios: Floats) -> Spread | None:
    """Compute p5 to p95 of the medians of ``BLOCK_STEPS`` consecutive ``ratios``, shape (steps,).
    None with too few steps."""
    count = len(ratios) // BLOCK_STEPS
    if count < _MIN_BLOCKS:
        return None
    blocks = np.array_split(ratios, count)
    low, high = compute_percentiles(np.array([compute_median(block) for block in blocks]), (5, 95))
    return Spread(low, high, SpreadKind.MIDDLE, count)
