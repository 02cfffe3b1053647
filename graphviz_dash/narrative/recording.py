"""A recorded program in words: the cost of its recorder, and the end of its recording."""

from __future__ import annotations

from graphviz_dash.model.recording import Recording, WindowEnd
from graphviz_dash.units import format_ns

LASTING_COST = "later graph launches cost 1.7 to 35 times more (0.2 to 0.6 µs per node)"
"""Measured on an H100 with driver 580 and torch 2.11: the launch calls of nine programs."""


def recording_notes(recording: Recording) -> tuple[str, ...]:
    """Sentences about the recorder's effect on the program and about its end."""
    notes = (_pauses(recording), _limit(recording), _attached(recording), _end(recording))
    return tuple(note for note in notes if note is not None)


def _pauses(recording: Recording) -> str | None:
    opened, closed = recording.window_open_ns, recording.window_close_ns
    if opened is None or closed is None:
        return None
    return (
        f"The traced window paused the program for {format_ns(opened)} when it opened and for "
        f"{format_ns(closed)} when it closed."
    )


def _limit(recording: Recording) -> str | None:
    if recording.window_ended_by is not WindowEnd.EVENTS:
        return None
    return "The traced window closed early because it reached its limit of events."


def _attached(recording: Recording) -> str | None:
    if recording.cupti_attached is None:
        return None
    return f"CUPTI is still attached ({recording.cupti_attached}): {LASTING_COST}."


def _end(recording: Recording) -> str | None:
    if recording.ended is not False:
        return None
    return (
        "The recording has no end: the process was killed or left without its exit handlers. The "
        "last 100 ms of replays and steps are missing."
    )
