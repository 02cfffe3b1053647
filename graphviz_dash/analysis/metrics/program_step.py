"""Step of a recorded program's loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.metrics.loop_columns import (
    CAPTURE,
    NONE,
    LoopColumns,
    build_loop_columns,
)
from graphviz_dash.analysis.metrics.recorded_step import (
    RecordedStep,
    StepFigure,
    StepStatistic,
    compute_recorded_step,
    has_mostly_long_steps,
    make_untimed,
    summarise_steps,
)
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.loop import ProgramLoop
from graphviz_dash.model.run import Run


def get_recorded_step_ns(run: Run) -> float | None:
    """Return the step time of the program's loop in ns; None if unknown."""
    step = compute_program_step(run)
    return None if isinstance(step, Missing) else step.main.ns


def compute_program_step(run: Run) -> RecordedStep | Missing:
    """Compute the step of the program's loop.

    A server whose steps have no synchronization has the intervals of its graph families. If a few
    long steps take most of the time, such as waits for requests, the step of an engine covers all
    its steps, also those after the traced window.
    """
    recording, loop = run.recording, run.loop
    if recording is None:
        return _explain_not_recorded(run)
    if loop is None or recording.profiler_active:
        return compute_recorded_step(recording)
    contains_replays = _has_steps_above_replays(loop)
    step = compute_recorded_step(
        recording, runs_ahead=None if contains_replays is None else not contains_replays
    )
    if isinstance(step, Missing):
        periods = list_loop_periods(loop)
        return step if not periods else _summarise_periods(periods)
    periods = list_engine_periods(loop)
    if not periods or not step.is_median or not has_mostly_long_steps(recording):
        return step
    return _summarise_periods(periods)


def _summarise_periods(periods: Sequence[int]) -> RecordedStep:
    mean = StepFigure(float(np.mean(periods)), None)
    return RecordedStep(summarise_steps(periods), mean, periods, 0, 0.0)


def select_statistic(runs: Iterable[Run]) -> StepStatistic:
    """Select the statistic that compares recorded ``runs``: the mean if a step has no median."""
    steps = [compute_program_step(run) for run in runs if run.recording is not None]
    lacks_median = any(not isinstance(step, Missing) and not step.is_median for step in steps)
    return StepStatistic.MEAN if lacks_median else StepStatistic.MEDIAN


def list_step_times(run: Run) -> Sequence[float]:
    """List the times of the median of :func:`compute_program_step` in ns; empty if unknown."""
    step = compute_program_step(run)
    return () if isinstance(step, Missing) else step.times


def list_recorded_times(run: Run) -> Sequence[float]:
    """List the recorded steps with pauses, or all intervals behind the median, in ns."""
    step_ns = () if run.recording is None else run.recording.step_ns
    times = list_step_times(run)
    return times if len(times) > len(step_ns) else step_ns


def _explain_not_recorded(run: Run) -> Missing:
    """Explain why a run has no step of a program's loop."""
    if run.manifest.sources:
        return make_untimed("the run was imported, not recorded")
    return make_untimed(f"mode {run.mode.value} uses collection passes, not the recorder")


_MIN_STEPS: Final = 32


def list_loop_periods(loop: ProgramLoop) -> list[int]:
    """List the intervals between settled steps of a family, in ns.

    Empty with fewer than 32 steps, without GPU times, or if replays last longer than the mean
    interval: the CPU then runs ahead.
    """
    columns = build_loop_columns(loop)
    rows = [
        columns.select_settled(
            np.flatnonzero((columns.family == family) & (columns.kind != CAPTURE))
        )
        for family in range(len(loop.families))
    ]
    timed_rows = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    if len(timed_rows) < _MIN_STEPS:
        return []
    period, replay = _compute_period_and_replay(columns, timed_rows)
    if replay is None or replay > period:
        return []
    periods: list[int] = columns.period_ns[timed_rows].tolist()
    return periods


def compute_loop_replay_ns(loop: ProgramLoop) -> float | None:
    """Compute the mean GPU time of the replays in a step, in ns; None without GPU times."""
    columns = build_loop_columns(loop)
    return _compute_period_and_replay(columns, np.flatnonzero(columns.period_ns != NONE))[1]


def _has_steps_above_replays(loop: ProgramLoop) -> bool | None:
    """Check that the median interval of steps with a replay is not below the replay's GPU time.
    None if no replay was timed.

    Other steps, such as calls during start-up, may be shorter than a replay.
    """
    columns = build_loop_columns(loop)
    rows = np.flatnonzero(columns.is_replay & (columns.period_ns != NONE))
    replay_ns = compute_loop_replay_ns(loop)
    if replay_ns is None or not len(rows):
        return None
    return replay_ns <= float(np.median(columns.period_ns[rows]))


def list_engine_periods(loop: ProgramLoop) -> list[int]:
    """List an engine's step intervals, in ns; empty without one, or if fewer than 32."""
    if loop.engine is None:
        return []
    columns = build_loop_columns(loop)
    rows = (columns.period_ns != NONE) & (columns.real != NONE) & (columns.kind != CAPTURE)
    periods: list[int] = columns.period_ns[rows].tolist()
    return periods if len(periods) >= _MIN_STEPS else []


def _compute_period_and_replay(columns: LoopColumns, rows: Ints) -> tuple[float, float | None]:
    member_ids = columns.family * (1 + int(columns.member.max())) + columns.member
    has_samples = columns.is_replay & (columns.gpu_ns != NONE)
    medians = {
        member: float(np.median(columns.gpu_ns[has_samples & (member_ids == member)]))
        for member in np.unique(member_ids[has_samples]).tolist()
    }
    measured_rows = rows[columns.is_replay[rows] & np.isin(member_ids[rows], list(medians))]
    if not len(measured_rows):
        return 0.0, None
    replays = [medians[member] for member in member_ids[measured_rows].tolist()]
    return float(columns.period_ns[measured_rows].mean()), sum(replays) / len(replays)
