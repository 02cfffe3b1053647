"""Steps of a program by phase and execution mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Floats, Ints
from graphviz_dash.analysis.metrics.loop_columns import (
    CAPTURE,
    FALLBACK,
    KINDS,
    NONE,
    PHASES,
    LoopColumns,
)
from graphviz_dash.analysis.sample_statistics import Summary, summarise
from graphviz_dash.model.loop import GraphFamily, Phase, StepKind

_MAX_REAL: Final = 1 << 62


class StepMode(Struct, frozen=True):
    """Steps of one phase that ran in the same way."""

    phase: Phase | None
    kind: StepKind
    """One graph, several segments, or none."""
    family: int | None
    """Family whose graphs ran or, without a graph, would have to fit. None if there is none."""
    steps: int
    sizes: tuple[int, int] | None
    """Smallest and largest real size; None if unknown."""
    steps_above: int
    """Steps without a graph that exceed the family's largest graph."""
    sizes_above: tuple[int, int] | None
    """Smallest and largest real size of these; None without any."""
    requests: tuple[int, int] | None
    """Smallest and largest number of requests; None if unknown."""
    step_time: Summary | None
    """Median time (``LoopColumns.period_ns``) and its quartiles, in ns. None if not recorded, or if
    replays last longer: the CPU then runs ahead of the GPU.
    """
    time_share: float | None
    """Share of the time of all steps, 0 to 1, by median intervals per size. None if not recorded.
    """
    is_gpu_bound: bool
    """Most of them last as long as the GPU works, so that graphs would not make them faster."""


def summarize_modes(
    columns: LoopColumns,
    families: Sequence[GraphFamily],
    replay_steps: Mapping[int, int],
) -> tuple[StepMode, ...]:
    """Summarize the steps by phase and mode, in the order of phases.

    Captures have no share of the time. ``replay_steps`` has the number of steps that replayed
    graphs of a family, with those that were only counted.
    """
    rows = np.arange(len(columns.kind))
    if not len(rows):
        return ()
    groups = np.stack((columns.phase[rows], columns.kind[rows], columns.family[rows]))
    keys, positions = np.unique(groups, axis=1, return_inverse=True)
    counts = _count_steps(keys, np.bincount(positions.ravel()), replay_steps)
    weights = counts / np.bincount(positions.ravel())
    times = _estimate_times(columns, rows) * weights[positions.ravel()]
    total_ns = float(np.nansum(times))
    modes = []
    for number, (phase, kind, family) in enumerate(keys.T.tolist()):
        mask = positions.ravel() == number
        mode_rows = rows[mask]
        largest = _find_largest_size(families[family]) if family != NONE else None
        exceeds_graphs = columns.real[mode_rows] > (_MAX_REAL if largest is None else largest)
        rows_above = mode_rows[exceeds_graphs] if kind == FALLBACK else mode_rows[:0]
        mode_ns = float(np.nansum(times[mask]))
        modes.append(
            StepMode(
                phase=None if phase == NONE else PHASES[phase],
                kind=KINDS[kind],
                family=None if family == NONE else family,
                steps=int(counts[number]),
                sizes=_find_range(columns.real[mode_rows]),
                steps_above=len(rows_above),
                sizes_above=_find_range(columns.real[rows_above]),
                requests=_find_range(columns.requests[mode_rows]),
                step_time=_summarize_intervals(columns, mode_rows),
                time_share=mode_ns / total_ns if total_ns > 0 and kind != CAPTURE else None,
                is_gpu_bound=bool(columns.is_gpu_bound[mode_rows].mean() > 1 / 2),
            )
        )
    return tuple(modes)


def _count_steps(keys: Ints, counts: Ints, replay_steps: Mapping[int, int]) -> Ints:
    """Return the steps of each mode, with those that were only counted if one mode has all."""
    counts = counts.copy()
    _, kinds, families = keys
    for family, steps in replay_steps.items():
        is_replay = (families == family) & (kinds != FALLBACK) & (kinds != CAPTURE)
        if np.count_nonzero(is_replay) == 1:
            counts[is_replay] = np.maximum(counts[is_replay], steps)
    return counts


def estimate_total_ns(columns: LoopColumns) -> float | None:
    """Estimate the time of all steps without captures, by median intervals per size. None if
    unknown."""
    rows = np.arange(len(columns.kind))
    total_ns = float(np.nansum(_estimate_times(columns, rows))) if len(rows) else 0.0
    return total_ns if total_ns > 0 else None


def _summarize_intervals(columns: LoopColumns, rows: Ints) -> Summary | None:
    intervals, replays = columns.period_ns[rows], columns.gpu_ns[rows]
    interval, replay = summarise(intervals[intervals != NONE]), summarise(replays[replays != NONE])
    runs_ahead = interval is not None and replay is not None and replay.median > interval.median
    return None if runs_ahead else interval


def _find_largest_size(family: GraphFamily) -> int | None:
    if family.size_axis is None:
        return None
    keys = [member.key for member in family.members if member.key is not None]
    return max((key[family.size_axis] for key in keys), default=None)


def _find_range(values: Ints) -> tuple[int, int] | None:
    sizes = values[values != NONE]
    return (int(sizes.min()), int(sizes.max())) if len(sizes) else None


def _estimate_times(columns: LoopColumns, rows: Ints) -> Floats:
    """Estimate the time of each step: the median of similar ones, or of its mode if none of these
    was timed.

    Single intervals include waits for requests. Captures have no time.
    """
    mode = [column[rows] for column in (columns.kind, columns.family, columns.phase)]
    bucket = np.ceil(4 * np.log2(np.maximum(columns.real[rows], 1))).astype(np.int64)
    period = columns.period_ns[rows].astype(np.float64)
    period[period == NONE] = np.nan
    similar = _compute_group_medians([*mode, columns.member[rows], bucket], period)
    times = np.where(np.isnan(similar), _compute_group_medians(mode, period), similar)
    return np.where(columns.kind[rows] == CAPTURE, 0.0, times)


def _compute_group_medians(keys: Sequence[Ints], period: Floats) -> Floats:
    """Compute the median period of the steps with equal keys, for each step; NaN without any."""
    _, positions = np.unique(np.stack(keys), axis=1, return_inverse=True)
    positions = positions.ravel()
    medians = np.full(int(positions.max()) + 1, np.nan)
    timed_rows = np.flatnonzero(np.isfinite(period))
    timed_rows = timed_rows[np.argsort(positions[timed_rows], kind="stable")]
    if not len(timed_rows):
        return np.full(len(period), np.nan)
    groups_with_times, starts = np.unique(positions[timed_rows], return_index=True)
    for group, values in zip(
        groups_with_times.tolist(), np.split(period[timed_rows], starts[1:]), strict=True
    ):
        medians[group] = np.median(values)
    group_medians: Floats = medians[positions]
    return group_medians
