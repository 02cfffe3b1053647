"""The figures of a program that ran as it is, once, watched by the recorder.

They are timings of no clean pass, and never mixed with these: a run has the ones or the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.metrics.low_confidence import Weakness
from graphviz_dash.analysis.metrics.registry import FEW_STEPS
from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.model.absence import Missing

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording
    from graphviz_dash.model.run import Run

RECORDED_RELATIVE: Final = ("recorded_speedup", "recorded_saving")
"""The metrics of recorded runs that need a baseline."""


def recorded_figures(run: Run) -> Iterator[Figure]:
    """Time of a step in the program's own loop, and how often it launched graphs."""
    recording = run.recording
    if recording is None:
        for metric in ("recorded_step", "recorded_replays"):
            yield absent(metric, _not_recorded(run))
        return
    step = step_of(recording)
    if isinstance(step, str):
        yield absent("recorded_step", step)
    else:
        yield present("recorded_step", step)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield present("recorded_replays", replays)


def recorded_relative(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """The figures of RECORDED_RELATIVE. ``against`` is the baseline, or why there is none."""
    own = _step_of_run(run)
    before = against.reason if isinstance(against, Missing) else _step_of_run(against)
    if isinstance(before, str) and not isinstance(against, Missing):
        before = f"the baseline {against.name}: {before}"
    reason = own if isinstance(own, str) else before if isinstance(before, str) else None
    if reason is not None or isinstance(own, str) or isinstance(before, str):
        for metric in RECORDED_RELATIVE:
            yield absent(metric, reason or "")
        return
    yield present("recorded_speedup", before / own)
    yield present("recorded_saving", before - own)


def step_of(recording: Recording) -> float | str:
    """ns of a step in the program's loop, or why that is not known."""
    if recording.boundary_kind is None:
        return "nothing in the program looked like a step"
    if not recording.step_ns:
        return f"no step was timed after the last capture ({recording.steps} steps in all)"
    if recording.profiler_seen:
        return "a profiler had run in the process, which slows every launch from then on"
    if recording.drain_ns is None:
        return "the program ended before its GPU work was waited for at a step's end"
    return (sum(recording.step_ns) + recording.drain_ns) / len(recording.step_ns)


def recorded_weaknesses(run: Run) -> Iterator[Weakness]:
    """What makes the recorded figures weak, and what went wrong in the program's captures."""
    recording = run.recording
    if recording is None:
        return
    count = len(recording.step_ns)
    if not isinstance(step_of(recording), str) and count < FEW_STEPS:
        yield Weakness(
            "few-recorded-steps",
            f"recorded step: only {count} steps",
            f"Collect with --skip {max(FEW_STEPS, 50)}.",
            ("recorded_step", "recorded_speedup"),
        )
    for graph in recording.graphs:
        if graph.problem is not None:
            place = f" at {graph.captured_at[0]}" if graph.captured_at else ""
            yield Weakness("capture-problem", f"{graph.graph}{place}: {graph.problem}")


def _step_of_run(run: Run) -> float | str:
    return _not_recorded(run) if run.recording is None else step_of(run.recording)


def _not_recorded(run: Run) -> str:
    return f"mode {run.mode.value} is collected in passes, not recorded"
