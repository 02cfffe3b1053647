"""The figures of a program that ran as it is, once, watched by the recorder.

They are timings of no clean pass, and never mixed with these: a run has the ones or the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from graphviz_dash.analysis.metrics.run_metrics import Figure, absent, present
from graphviz_dash.model.absence import Fact, Missing

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
    step_ns = recorded_step_ns(recording)
    if isinstance(step_ns, Missing):
        yield absent("recorded_step", step_ns)
    else:
        yield present("recorded_step", step_ns)
    replays = sum(graph.replays for graph in recording.graphs) + recording.earlier_replays
    yield present("recorded_replays", replays)


def recorded_relative(run: Run, against: Run | Missing) -> Iterator[Figure]:
    """The figures of RECORDED_RELATIVE; ``against`` is the baseline."""
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


def recorded_step_ns(recording: Recording) -> float | Missing:
    """ns of a step in the program's loop."""
    if recording.boundary_kind is None:
        return _untimed("nothing in the program looked like a step")
    if not recording.step_ns:
        return _untimed(
            f"no step was timed after the last capture ({recording.steps} steps in all)"
        )
    if recording.profiler_seen:
        return _untimed("a profiler had run in the process, which slows every launch from then on")
    if recording.drain_ns is None:
        return _untimed("the program ended before its GPU work was waited for at a step's end")
    return (sum(recording.step_ns) + recording.drain_ns) / len(recording.step_ns)


def _untimed(reason: str) -> Missing:
    return Missing(Fact.RECORDED_STEP, reason)


def _step_of_run(run: Run) -> float | Missing:
    return _not_recorded(run) if run.recording is None else recorded_step_ns(run.recording)


def _step_of_baseline(run: Run) -> float | Missing:
    step_ns = _step_of_run(run)
    return step_ns.of(f"the baseline {run.name}") if isinstance(step_ns, Missing) else step_ns


def _not_recorded(run: Run) -> Missing:
    if run.manifest.sources:
        return _untimed("it was imported: no program was recorded")
    return _untimed(f"mode {run.mode.value} is collected in passes, not recorded")
