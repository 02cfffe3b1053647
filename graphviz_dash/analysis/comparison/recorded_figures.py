"""Metrics of a program that ran once, unmodified, under the recorder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, hypot, log
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.loop.loop_columns import CAPTURE, NONE, LoopColumns, build_loop_columns
from graphviz_dash.analysis.loop.padding import combine_costs
from graphviz_dash.analysis.metrics.recorded_step import (
    RecordedStep,
    compute_recorded_step,
    find_long_steps,
    make_untimed,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.metrics.thresholds import MAX_LONG_STEP_SHARE
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind, summarise
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.loop import ProgramLoop

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording
    from graphviz_dash.model.run import Run


RELATIVE_RECORDED_METRICS: Final = ("recorded_speedup", "recorded_saving")
"""Metrics of recorded runs that need a baseline."""


def compute_recorded_metrics(run: Run) -> Iterator[MetricValue]:
    """Compute the step time in the program's loop and the number of graph launches."""
    recording = run.recording
    if recording is None:
        for metric in ("recorded_step", "recorded_pauses", "recorded_replays"):
            yield make_missing_value(metric, _explain_not_recorded(run))
        return
    step = compute_program_step(run)
    if isinstance(step, Missing):
        yield make_missing_value("recorded_step", step)
    else:
        yield make_value("recorded_step", step.ns, step.spread)
    pauses = compute_recorded_step(recording)
    if isinstance(pauses, Missing):
        yield make_missing_value("recorded_pauses", pauses)
    else:
        yield make_value("recorded_pauses", pauses.pause_ns)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield make_value("recorded_replays", replays)


def compute_relative_recorded_metrics(run: Run, baseline: Run | Missing) -> Iterator[MetricValue]:
    """Compute ``RELATIVE_RECORDED_METRICS``."""
    after = compute_program_step(run)
    before = baseline if isinstance(baseline, Missing) else _compute_baseline_step(baseline)
    for side in (after, before):
        if isinstance(side, Missing):
            yield from (make_missing_value(metric, side) for metric in RELATIVE_RECORDED_METRICS)
            return
    if isinstance(after, Missing) or isinstance(before, Missing):
        return
    if after.is_median != before.is_median:
        yield from (
            make_missing_value(metric, _UNLIKE_STEPS) for metric in RELATIVE_RECORDED_METRICS
        )
        return
    speedup, saving = _estimate_intervals(before, after) or (None, None)
    yield make_value("recorded_speedup", before.ns / after.ns, speedup)
    yield make_value("recorded_saving", before.ns - after.ns, saving)


def _estimate_intervals(before: RecordedStep, after: RecordedStep) -> tuple[Spread, Spread] | None:
    """Estimate 95% intervals of ratio and difference of two steps from their own intervals.

    By the recovery of variances, for the ratio of the logarithms (Zou and Donner 2008,
    Statistics in Medicine 27, 1693). None if a step has no interval.
    """
    first, second = before.spread, after.spread
    if first is None or second is None or first.high is None or second.high is None:
        return None
    if {first.kind, second.kind} != {SpreadKind.INTERVAL} or min(first.low, second.low) <= 0:
        return None
    samples = min(first.samples, second.samples)
    ratio, difference = before.ns / after.ns, before.ns - after.ns
    speedup = Spread(
        ratio * exp(-hypot(log(before.ns / first.low), log(second.high / after.ns))),
        ratio * exp(hypot(log(first.high / before.ns), log(after.ns / second.low))),
        SpreadKind.INTERVAL,
        samples,
    )
    saving = Spread(
        difference - hypot(before.ns - first.low, second.high - after.ns),
        difference + hypot(first.high - before.ns, after.ns - second.low),
        SpreadKind.INTERVAL,
        samples,
    )
    return speedup, saving


def get_recorded_step_ns(run: Run) -> float | None:
    """Return the step time of the program's loop in ns; None if unknown."""
    step = compute_program_step(run)
    return None if isinstance(step, Missing) else step.ns


def compute_program_step(run: Run) -> RecordedStep | Missing:
    """Compute the step of the program's loop.

    A server whose steps have no synchronization has the mean interval of its graph families. If a
    few long steps take most of the time, such as waits for requests, it is the median. That needs
    a CPU that does not run ahead of the GPU. The median of an engine covers all its steps, also
    those after the traced window.
    """
    recording = run.recording
    if recording is None:
        return _explain_not_recorded(run)
    step = compute_recorded_step(recording)
    if run.loop is None or recording.profiler_active:
        return step
    if isinstance(step, Missing):
        loop_ns = compute_loop_step_ns(run.loop)
        return step if loop_ns is None else RecordedStep(loop_ns, None, 0, 0.0)
    summary = summarise(recording.step_ns)
    if summary is None or find_long_steps(recording)[1] <= MAX_LONG_STEP_SHARE:
        return step
    summary = summarise(_list_steps(run.loop, recording)) or summary
    if not _has_steps_above_replays(run.loop):
        return step
    return replace(step, ns=summary.median, spread=summary.spread, is_median=True)


def list_step_times(run: Run) -> Sequence[int]:
    """List the times that :func:`compute_program_step` summarizes, in ns; empty if unknown."""
    recording, step = run.recording, compute_program_step(run)
    if recording is None:
        return ()
    is_median = not isinstance(step, Missing) and step.is_median
    return _list_steps(run.loop, recording) if is_median else recording.step_ns


def _list_steps(loop: ProgramLoop | None, recording: Recording) -> Sequence[int]:
    return (list_engine_periods(loop) if loop is not None else ()) or recording.step_ns


def _compute_baseline_step(run: Run) -> RecordedStep | Missing:
    step = compute_program_step(run)
    return step.add_owner(f"the baseline {run.name}") if isinstance(step, Missing) else step


_UNLIKE_STEPS: Final = Missing(
    Fact.RECORDED_STEP,
    "the step of one run is a mean, that of the other a median, because a few long steps take "
    "most of its time",
)


def _explain_not_recorded(run: Run) -> Missing:
    if run.manifest.sources:
        return make_untimed("the run was imported, not recorded")
    return make_untimed(f"mode {run.mode.value} uses collection passes, not the recorder")


_MIN_STEPS: Final = 32


def compute_loop_step_ns(loop: ProgramLoop) -> float | None:
    """Compute the mean interval between settled steps of a family, in ns.

    None with fewer than 32 steps, without GPU times, or if replays last longer than the interval:
    the CPU then runs ahead.
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
        return None
    period, replay = _compute_period_and_replay(columns, timed_rows)
    if replay is None or replay > period:
        return None
    return float(columns.period_ns[timed_rows].mean())


def compute_loop_replay_ns(loop: ProgramLoop) -> float | None:
    """Compute the mean GPU time of the replays in a step, in ns; None without GPU times."""
    columns = build_loop_columns(loop)
    return _compute_period_and_replay(columns, np.flatnonzero(columns.period_ns != NONE))[1]


def _has_steps_above_replays(loop: ProgramLoop) -> bool:
    """Check that the median interval of steps with a replay is not below the replay's GPU time.
    False if no replay was timed.

    Other steps, such as calls during start-up, may be shorter than a replay.
    """
    columns = build_loop_columns(loop)
    rows = np.flatnonzero(columns.is_replay & (columns.period_ns != NONE))
    replay_ns = compute_loop_replay_ns(loop)
    return replay_ns is not None and replay_ns <= float(np.median(columns.period_ns[rows]))


def list_engine_periods(loop: ProgramLoop) -> list[int]:
    """List an engine's step intervals, in ns; empty without one, or if fewer than 32."""
    if loop.engine is None:
        return []
    columns = build_loop_columns(loop)
    rows = (columns.period_ns != NONE) & (columns.real != NONE) & (columns.kind != CAPTURE)
    periods: list[int] = columns.period_ns[rows].tolist()
    return periods if len(periods) >= _MIN_STEPS else []


def _compute_period_and_replay(columns: LoopColumns, timed: Ints) -> tuple[float, float | None]:
    member_ids = columns.family * (1 + int(columns.member.max())) + columns.member
    is_sampled = columns.is_replay & (columns.gpu_ns != NONE)
    medians = {
        member: float(np.median(columns.gpu_ns[is_sampled & (member_ids == member)]))
        for member in np.unique(member_ids[is_sampled]).tolist()
    }
    measured_rows = timed[columns.is_replay[timed] & np.isin(member_ids[timed], list(medians))]
    if not len(measured_rows):
        return 0.0, None
    replays = [medians[member] for member in member_ids[measured_rows].tolist()]
    return float(columns.period_ns[measured_rows].mean()), sum(replays) / len(replays)


def compute_program_metrics(run: Run, baseline: Run | Missing) -> Iterator[MetricValue]:
    """Compute step metrics, relative metrics and graph family metrics."""
    yield from compute_recorded_metrics(run)
    yield from compute_relative_recorded_metrics(run, baseline)
    yield from compute_loop_metrics(run)


_METRICS: Final = ("loop_replay", "loop_padding", "loop_fallbacks", "loop_startup")


def compute_loop_metrics(run: Run) -> Iterator[MetricValue]:
    """Compute replay time, padding cost, fallback share and startup time of all families."""
    report = build_loop_report(run)
    if isinstance(report, Missing):
        yield from (make_missing_value(metric, report) for metric in _METRICS)
        return
    yield _compute_replay(report)
    yield _compute_padding(report)
    replays = sum(family.replays for family in report.families)
    fallbacks = sum(family.fallbacks for family in report.families)
    if replays + fallbacks:
        yield make_value("loop_fallbacks", fallbacks / (replays + fallbacks))
    else:
        yield make_missing_value(
            "loop_fallbacks", Missing(Fact.FAMILIES, "no step of a family was recorded")
        )
    members = [member for family in report.families for member in family.members]
    yield make_value("loop_startup", sum(member.startup_ns for member in members))


def _compute_replay(report: LoopReport) -> MetricValue:
    timed_samples = [
        (member.steps, member.gpu.median)
        for family in report.families
        for member in family.members
        if member.gpu and member.steps
    ]
    if not timed_samples:
        return make_missing_value(
            "loop_replay", Missing(Fact.FAMILIES, "no replay was timed on the GPU")
        )
    steps = sum(count for count, _ in timed_samples)
    return make_value("loop_replay", sum(count * median for count, median in timed_samples) / steps)


def _compute_padding(report: LoopReport) -> MetricValue:
    costs = [f.padding for f in report.families if not isinstance(f.padding, Missing)]
    if not costs:
        reasons = [f.padding.reason for f in report.families if isinstance(f.padding, Missing)]
        return make_missing_value("loop_padding", Missing(Fact.FAMILIES, reasons[0]))
    cost = combine_costs(costs)
    return make_value("loop_padding", cost.step_ns, cost.spread)
