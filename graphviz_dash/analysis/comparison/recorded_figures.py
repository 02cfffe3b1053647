"""Metrics of a program that ran once, unmodified, under the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.loop.loop_step import loop_step_ns
from graphviz_dash.analysis.metrics.recorded_step import recorded_step_ns, untimed
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

RECORDED_RELATIVE: Final = ("recorded_speedup", "recorded_saving")
"""Metrics of recorded runs that need a baseline."""


def recorded_figures(run: Run) -> Iterator[Figure]:
    """Compute the step time in the program's loop and the number of graph launches."""
    recording = run.recording
    if recording is None:
        for metric in ("recorded_step", "recorded_replays"):
            yield absent(metric, _not_recorded(run))
        return
    step_ns = _step_of_run(run)
    if isinstance(step_ns, Missing):
        yield absent("recorded_step", step_ns)
    else:
        yield present("recorded_step", step_ns)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield present("recorded_replays", replays)


def recorded_relative(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """Compute the RECORDED_RELATIVE metrics; ``against`` is the baseline."""
    after = _step_of_run(run)
    before = against if isinstance(against, Missing) else _step_of_baseline(against)
    if not isinstance(after, Missing) and not isinstance(before, Missing):
        yield present("recorded_speedup", before / after)
        yield present("recorded_saving", before - after)
        return
    for side in (after, before):
        if isinstance(side, Missing):
            yield from (absent(metric, side) for metric in RECORDED_RELATIVE)
            return


def _step_of_run(run: Run) -> float | Missing:
    """Return the step time of the program's loop in ns.

    Falls back to the graph families for a server whose steps have no synchronization.
    """
    recording = run.recording
    if recording is None:
        return _not_recorded(run)
    step_ns = recorded_step_ns(recording)
    if isinstance(step_ns, Missing) and run.loop is not None and not recording.profiler_seen:
        loop_ns = loop_step_ns(run.loop)
        return step_ns if loop_ns is None else loop_ns
    return step_ns


def _step_of_baseline(run: Run) -> float | Missing:
    step_ns = _step_of_run(run)
    return step_ns.of(f"the baseline {run.name}") if isinstance(step_ns, Missing) else step_ns


def _not_recorded(run: Run) -> Missing:
    if run.manifest.sources:
        return untimed("the run was imported, not recorded")
    return untimed(f"mode {run.mode.value} uses collection passes, not the recorder")
