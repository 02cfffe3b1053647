"""Metrics of a program that ran once, unmodified, under the recorder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from graphviz_dash.analysis.loop.loop_step import (
    compute_loop_replay_ns,
    compute_loop_step_ns,
    list_engine_periods,
)
from graphviz_dash.analysis.metrics.recorded_step import (
    RecordedStep,
    compute_recorded_step,
    find_long_steps,
    make_untimed,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.analysis.metrics.thresholds import MAX_LONG_STEP_SHARE
from graphviz_dash.analysis.sample_statistics import summarise
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.loop import ProgramLoop
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
    """Compute the RECORDED_RELATIVE metrics; ``against`` is the baseline."""
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
    yield make_value("recorded_speedup", before.ns / after.ns)
    yield make_value("recorded_saving", before.ns - after.ns)


def get_recorded_step_ns(run: Run) -> float | None:
    """Return the step time of the program's loop in ns; None if unknown."""
    step = compute_program_step(run)
    return None if isinstance(step, Missing) else step.ns


def compute_program_step(run: Run) -> RecordedStep | Missing:
    """Compute the step of the program's loop.

    A server whose steps have no synchronization has the mean interval of its graph families. If
    a few long steps take most of the time, as while a server waits for requests, the step is the
    median. That needs steps longer than their replays: otherwise the CPU runs ahead of the GPU.
    The median of an engine covers all its steps, also those after the traced window.
    """
    recording = run.recording
    if recording is None:
        return _explain_not_recorded(run)
    step = compute_recorded_step(recording)
    if run.loop is None or recording.profiler_seen:
        return step
    if isinstance(step, Missing):
        loop_ns = compute_loop_step_ns(run.loop)
        return step if loop_ns is None else RecordedStep(loop_ns, None, 0, 0.0)
    summary = summarise(recording.step_ns)
    if summary is None or find_long_steps(recording)[1] <= MAX_LONG_STEP_SHARE:
        return step
    summary = summarise(_list_steps(run.loop, recording)) or summary
    replay_ns = compute_loop_replay_ns(run.loop)
    if replay_ns is None or replay_ns > summary.median:
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
