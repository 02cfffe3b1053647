"""Step time in the loop of a recorded program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording


def recorded_step_ns(recording: Recording) -> float | Missing:
    """Return the time per step in the program's loop."""
    if recording.boundary_kind is None:
        return untimed("nothing in the program looked like a step")
    if not recording.step_ns:
        return untimed(f"no step was timed after the last capture ({recording.steps} steps in all)")
    if recording.profiler_seen:
        return untimed("a profiler had run in the process, which slows every launch from then on")
    if recording.drain_ns is None:
        return untimed("the program ended before a synchronisation at the end of a step")
    return (sum(recording.step_ns) + recording.drain_ns) / len(recording.step_ns)


def untimed(reason: str) -> Missing:
    """Return the reason why a step has no time."""
    return Missing(Fact.RECORDED_STEP, reason)
