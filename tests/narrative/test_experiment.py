"""Sentences about the recorder's effect on a program."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.model.recording import ProcessOrigin, StartMethod, WindowEnd
from graphviz_dash.narrative.experiment import list_recording_notes
from tests.bundle.examples import RECORDING


def test_an_older_recording_has_no_notes() -> None:
    assert list_recording_notes(RECORDING) == ()


def test_notes_report_pauses_limit_cupti_and_end() -> None:
    recording = replace(
        RECORDING,
        window_open_ns=3_000_000,
        window_close_ns=40_000_000,
        requested_window_steps=10,
        window_steps=4,
        window_ended_by=WindowEnd.EVENTS,
        cupti_attached="the program's environment has TEARDOWN_CUPTI=0",
        reached_end=False,
    )
    pauses, limit, attached, end = list_recording_notes(recording)
    assert "for 3.00 ms when it opened and for 40.0 ms when it closed" in pauses
    assert pauses.startswith("The traced window holds 4 complete steps")
    assert limit.startswith("The traced window closed after 4 of 10 requested steps")
    assert "--window-pause" in limit
    assert attached.startswith("CUPTI is still attached (the program's environment has TEARDOWN_")
    assert "1.7 to 35 times more" in attached
    assert "killed" in end


def test_a_program_that_ended_well_has_no_note_about_its_end() -> None:
    recording = replace(RECORDING, window_ended_by=WindowEnd.STEPS, reached_end=True)
    assert list_recording_notes(recording) == ()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (WindowEnd.PROGRAM, "the program ended"),
        (WindowEnd.PROFILER, "the program started a profiler"),
        (WindowEnd.THREAD, "the traced thread ended or stopped executing steps"),
    ],
)
def test_a_window_without_a_step_is_reported(end: WindowEnd, reason: str) -> None:
    recording = replace(RECORDING, requested_window_steps=10, window_steps=0, window_ended_by=end)
    (note,) = list_recording_notes(recording)
    assert note == (f"The traced window closed after 0 of 10 requested steps because {reason}.")
    assert list_recording_notes(replace(recording, window_steps=10)) == ()


def test_a_worker_and_its_unused_graphs_are_reported() -> None:
    (graph, *_) = RECORDING.graphs
    used = replace(graph, graph="used", nodes=5, replays=3, alive=True)
    unused = replace(used, graph="unused", replays=0, capture_ns=2_000_000)
    evicted = replace(used, graph="evicted", eviction=True)
    process = ProcessOrigin("Scheduler", StartMethod.SPAWN, 7, 6, "recorded")
    recording = replace(RECORDING, graphs=(used, unused, evicted), process=process)
    worker, never, released = list_recording_notes(recording)
    assert worker == "Process Scheduler, started by spawn from recorded; pid 7."
    assert never == "1 of 3 graphs were never replayed; their captures took 2.00 ms."
    assert released.startswith("The program released 1 of 3 graphs before its end")
    # All graphs die with the program.
    ended = replace(recording, graphs=(replace(used, alive=False), replace(unused, alive=False)))
    assert len(list_recording_notes(ended)) == 2
