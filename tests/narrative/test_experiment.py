"""Sentences about the recorder's effect on a program."""

from __future__ import annotations

from msgspec.structs import replace

from graphviz_dash.model.recording import WindowEnd
from graphviz_dash.narrative.experiment import list_recording_notes
from tests.bundle.examples import RECORDING


def test_an_older_recording_has_no_notes() -> None:
    assert list_recording_notes(RECORDING) == ()


def test_notes_report_pauses_limit_cupti_and_end() -> None:
    recording = replace(
        RECORDING,
        window_open_ns=3_000_000,
        window_close_ns=40_000_000,
        window_ended_by=WindowEnd.EVENTS,
        cupti_attached="the program's environment has TEARDOWN_CUPTI=0",
        ended=False,
    )
    pauses, limit, attached, end = list_recording_notes(recording)
    assert "for 3.00 ms when it opened and for 40.0 ms when it closed" in pauses
    assert "limit of events" in limit
    assert attached.startswith("CUPTI is still attached (the program's environment has TEARDOWN_")
    assert "1.7 to 35 times more" in attached
    assert "killed" in end


def test_a_program_that_ended_well_has_no_note_about_its_end() -> None:
    recording = replace(RECORDING, window_ended_by=WindowEnd.STEPS, ended=True)
    assert list_recording_notes(recording) == ()
