from __future__ import annotations

import pytest

from graphviz_dash.model.doctor import DoctorReport, Evidence, OutputCheck
from graphviz_dash.narrative.doctor import (
    describe_output_difference,
    format_evidence_value,
    format_report_verdict,
)
from tests.doctors import MOVED, OUTPUTS, READ, WAIT, report


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (report(READ), "The capture fails at train.py:18"),
        (report(WAIT, captured=None), "The capture would fail: the CPU waits"),
        (report(MOVED, captured=True), "The capture succeeds (43 nodes), but"),
        (report(MOVED, captured=None), "Nothing was captured, but replays"),
        (report(captured=True), "The step is captured into 43 nodes without"),
        (report(captured=None, subject="program"), "The program captured no"),
    ],
)
def test_a_verdict_for_each_outcome(given: DoctorReport, verdict: str) -> None:
    text = format_report_verdict(given)
    assert text.startswith(verdict)
    assert text.endswith(".")


def test_the_first_illegal_call_leads_and_others_are_counted() -> None:
    text = format_report_verdict(report(MOVED, WAIT, READ))
    assert text.startswith("The capture fails at train.py:18: a GPU value is read on the")
    assert "One more place after it would break it too." in text
    assert "One more place would be silently wrong on replay." in text


def test_a_sound_step_says_how_a_replay_compares() -> None:
    equal = OutputCheck("result", "result", "float32", (), 1, 0, 0.0, 0.0)
    near = OutputCheck("w", "state", "float32", (4,), 4, 2, 3e-7, 2e-7)
    alone = format_report_verdict(report(captured=True, outputs=(equal,)))
    assert "the only tensor after a replay equals that of an eager step" in alone
    both = format_report_verdict(report(captured=True, outputs=(equal, near)))
    assert "1 of 2 tensors equal those of an eager step, the others differ by at most 3e-07" in both


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (Evidence("bytes", 4096, "B"), "4.00 KiB"),
        (Evidence("wait", 1500, "ns"), "1.50 µs"),
        (Evidence("operators", 12345), "12,345"),
        (Evidence("largest", 0.123456), "0.1235"),
        (Evidence("address", "0x7f"), "0x7f"),
    ],
)
def test_evidence_is_told_with_its_unit(evidence: Evidence, text: str) -> None:
    assert format_evidence_value(evidence) == text


def test_differences_are_told_with_the_noise() -> None:
    assert describe_output_difference(OUTPUTS[0]) == (
        "60 of 64 elements differ, by up to 3.25; 1e-07 between two eager steps"
    )
    assert describe_output_difference(OUTPUTS[1]) == "equal in every element"
