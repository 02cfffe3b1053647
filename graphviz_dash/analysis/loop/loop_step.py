"""Step time of a recorded program with graph families, if steps do not wait for the GPU."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.loop_columns import CAPTURE, NONE, LoopColumns, build_loop_columns
from graphviz_dash.model.loop import ProgramLoop

_MIN_STEPS: Final = 32
"""Minimum number of steps."""


def compute_loop_step_ns(loop: ProgramLoop) -> float | None:
    """Compute the mean interval between settled steps of a family, in ns.

    None with fewer than 32 steps, without GPU times, or if replays last longer than the interval,
    because then the CPU runs ahead.
    """
    columns = build_loop_columns(loop)
    rows = [
        columns.select_settled(
            np.flatnonzero((columns.family == family) & (columns.kind != CAPTURE))
        )
        for family in range(len(loop.families))
    ]
    timed = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    if len(timed) < _MIN_STEPS:
        return None
    period, replay = _compute_period_and_replay(columns, timed)
    if replay is None or replay > period:
        return None
    return float(columns.period_ns[timed].mean())


def compute_loop_replay_ns(loop: ProgramLoop) -> float | None:
    """Compute the mean GPU time of the replays in a step, in ns; None without GPU times."""
    columns = build_loop_columns(loop)
    return _compute_period_and_replay(columns, np.flatnonzero(columns.period_ns != NONE))[1]


def list_engine_periods(loop: ProgramLoop) -> list[int]:
    """List the intervals between steps of an engine, in ns; empty without an engine, or with fewer
    than 32."""
    if loop.engine is None:
        return []
    columns = build_loop_columns(loop)
    rows = (columns.period_ns != NONE) & (columns.real != NONE) & (columns.kind != CAPTURE)
    periods: list[int] = columns.period_ns[rows].tolist()
    return periods if len(periods) >= _MIN_STEPS else []


def _compute_period_and_replay(columns: LoopColumns, timed: Ints) -> tuple[float, float | None]:
    """Compute the mean interval and replay time of the steps ``timed``, in ns; None if not
    timed."""
    member_ids = columns.family * (1 + int(columns.member.max())) + columns.member
    is_sampled = columns.is_replay & (columns.gpu_ns != NONE)
    medians = {
        member: float(np.median(columns.gpu_ns[is_sampled & (member_ids == member)]))
        for member in np.unique(member_ids[is_sampled]).tolist()
    }
    known_rows = timed[columns.is_replay[timed] & np.isin(member_ids[timed], list(medians))]
    if not len(known_rows):
        return 0.0, None
    replays = [medians[member] for member in member_ids[known_rows].tolist()]
    return float(columns.period_ns[known_rows].mean()), sum(replays) / len(replays)
