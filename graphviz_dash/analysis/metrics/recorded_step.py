"""Step time in the loop of a recorded program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.recording import Recording


def compute_recorded_step_ns(recording: Recording) -> float | Missing:
    """Return the time per step in the program's loop."""
    if recording.boundary_kind is None:
        return make_untimed("nothing in the program looked like a step")
    if not recording.step_ns:
        return make_untimed(
            f"no step was timed after the last capture ({recording.steps} steps in all)"
        )
    if recording.profiler_seen:
        return make_untimed(
            "a profiler had run in the process, which slows every launch from then on"
        )
    if recording.drain_ns is None:
        return make_untimed("the program ended before a synchronisation at the end of a step")
    return (sum(recording.step_ns) + recording.drain_ns) / len(recording.step_ns)


def make_untimed(reason: str) -> Missing:
    """Return the reason why a step has no time."""
    return Missing(Fact.RECORDED_STEP, reason)
