"""Metrics of a program that ran once, unmodified, under the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.loop.loop_step import compute_loop_step_ns
from graphviz_dash.analysis.metrics.recorded_step import (
    compute_recorded_step,
    compute_recorded_step_ns,
    make_untimed,
)
from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
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
    step = compute_recorded_step(recording)
    step_ns = _get_step_ns(run)
    if isinstance(step_ns, Missing):
        yield make_missing_value("recorded_step", step_ns)
    else:
        spread = None if isinstance(step, Missing) else step.spread
        yield make_value("recorded_step", step_ns, spread)
    if isinstance(step, Missing):
        yield make_missing_value("recorded_pauses", step)
    else:
        yield make_value("recorded_pauses", step.pause_ns)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield make_value("recorded_replays", replays)


def compute_relative_recorded_metrics(run: Run, baseline: Run | Missing) -> Iterator[MetricValue]:
    """Compute the RECORDED_RELATIVE metrics; ``against`` is the baseline."""
    after = _get_step_ns(run)
    before = baseline if isinstance(baseline, Missing) else _get_baseline_step_ns(baseline)
    if not isinstance(after, Missing) and not isinstance(before, Missing):
        yield make_value("recorded_speedup", before / after)
        yield make_value("recorded_saving", before - after)
        return
    for side in (after, before):
        if isinstance(side, Missing):
            yield from (make_missing_value(metric, side) for metric in RELATIVE_RECORDED_METRICS)
            return


def get_recorded_step_ns(run: Run) -> float | None:
    """Return the step time of the program's loop in ns; None if unknown."""
    step_ns = _get_step_ns(run)
    return None if isinstance(step_ns, Missing) else step_ns


def _get_step_ns(run: Run) -> float | Missing:
    """Return the step time of the program's loop in ns.

    Falls back to the graph families for a server whose steps have no synchronization.
    """
    recording = run.recording
    if recording is None:
        return _explain_not_recorded(run)
    step_ns = compute_recorded_step_ns(recording)
    if isinstance(step_ns, Missing) and run.loop is not None and not recording.profiler_active:
        loop_ns = compute_loop_step_ns(run.loop)
        return step_ns if loop_ns is None else loop_ns
    return step_ns


def _get_baseline_step_ns(run: Run) -> float | Missing:
    step_ns = _get_step_ns(run)
    return (
        step_ns.add_owner(f"the baseline {run.name}") if isinstance(step_ns, Missing) else step_ns
    )


def _explain_not_recorded(run: Run) -> Missing:
    if run.manifest.sources:
        return make_untimed("the run was imported, not recorded")
    return make_untimed(f"mode {run.mode.value} uses collection passes, not the recorder")
