from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.doctor import (
    EXIT_CODES,
    CaptureOutcome,
    diagnose,
)
from graphviz_dash.model.doctor import (
    CheckStatus,
    CodeLocation,
    DoctorReport,
    Finding,
    OutputCheck,
    RuleCheck,
    RuleId,
    Severity,
)
from graphviz_dash.model.rules import RULES
from graphviz_dash.narrative.doctor import (
    format_caller,
    format_doctor_verdict,
    format_other_places,
)
from tests.doctors import MOVED, OUTPUTS, PLACE, READ, WAIT, report


def test_every_rule_has_its_text() -> None:
    assert set(RULES) == set(RuleId)
    for rule in RULES.values():
        for text in (rule.title, rule.text, rule.advice, rule.wrong, rule.right):
            assert text.strip()
        assert rule.wrong != rule.right
        assert rule.title.endswith(".") is False


def test_the_first_illegal_call_leads_whatever_the_order() -> None:
    found = diagnose(report(MOVED, WAIT, READ))
    assert found.findings == (READ, WAIT, MOVED)
    assert [group.findings for group in found.illegal_groups] == [(READ,), (WAIT,)]
    assert [group.findings for group in found.silent_groups] == [(MOVED,)]
    assert found.outcome is CaptureOutcome.ILLEGAL


@pytest.mark.parametrize(
    ("given", "outcome", "code"),
    [
        (report(READ), CaptureOutcome.ILLEGAL, 1),
        (report(WAIT, captured=None), CaptureOutcome.ILLEGAL, 1),
        (report(MOVED, captured=True), CaptureOutcome.SILENT, 3),
        (report(MOVED, captured=None), CaptureOutcome.SILENT, 3),
        (report(captured=True), CaptureOutcome.HEALTHY, 0),
        (report(captured=None, subject="program"), CaptureOutcome.UNSEEN, 0),
    ],
)
def test_each_outcome_has_its_exit_code(
    given: DoctorReport, outcome: CaptureOutcome, code: int
) -> None:
    diagnosis = diagnose(given)
    assert (diagnosis.outcome, EXIT_CODES[diagnosis.outcome]) == (outcome, code)


def test_every_rule_has_an_outcome_even_one_the_report_does_not_know() -> None:
    given = report(READ)
    old = DoctorReport(
        **{
            field: getattr(given, field)
            for field in DoctorReport.__struct_fields__
            if field != "checks"
        },
        checks=given.checks[:2],
    )
    rules = {one.rule.id: one for one in diagnose(old).rules}
    assert set(rules) == set(RuleId)
    assert rules[RuleId.MOVED_INPUT].status is CheckStatus.NOT_CHECKED
    assert rules[RuleId.MOVED_INPUT].reason is not None
    counted = {one.rule.id: one.findings for one in diagnose(report(READ, READ)).rules}
    assert counted[RuleId.SYNC_VALUE] == 2


def test_a_difference_that_other_rules_explain_is_not_denied() -> None:
    def told(findings: tuple[Finding, ...], outputs: tuple[OutputCheck, ...]) -> str | None:
        rules = diagnose(report(*findings, outputs=outputs)).rules
        return next(one.reason for one in rules if one.rule.id is RuleId.REPLAY_DIFFERS)

    exact = (OutputCheck("result", "result", "float32", (64,), 64, 0, 0.0, 1e-7),)
    assert told((MOVED,), OUTPUTS) == "replays differ, and the findings above explain it"
    assert told((MOVED,), exact) is None
    assert told((), OUTPUTS) is None


def test_severity_words_are_those_of_the_format() -> None:
    assert {severity.value for severity in Severity} == {"illegal", "silent", "costly"}


def test_broken_rules_lead_and_unchecked_rules_are_grouped_by_reason() -> None:
    reason = "no capture came through to the end of the step"
    given = msgspec.structs.replace(
        report(READ),
        checks=tuple(
            RuleCheck(check.rule, CheckStatus.NOT_CHECKED, reason)
            if check.rule in (RuleId.ESCAPED_WORK, RuleId.EMPTY_CAPTURE)
            else check
            for check in report(READ).checks
        ),
    )
    diagnosis = diagnose(given)
    assert diagnosis.checked_rules[0].rule.id is RuleId.SYNC_VALUE
    assert {outcome.status for outcome in diagnosis.checked_rules[1:]} == {CheckStatus.PASSED}
    assert diagnosis.rules[: len(diagnosis.checked_rules)] == diagnosis.checked_rules
    chosen, failed = diagnosis.unchecked_rules
    assert chosen.reason == "the doctor chose the stream"
    assert failed.reason == reason
    assert {outcome.rule.id for outcome in failed.outcomes} == {
        RuleId.ESCAPED_WORK,
        RuleId.EMPTY_CAPTURE,
    }


def test_findings_of_one_call_of_a_library_are_one_with_its_places() -> None:
    def build(line: int, op: str = "aten::item") -> Finding:
        place = CodeLocation("gpytorch/kernel.py", line, "forward", line, ())
        return replace(READ, ends_capture=False, location=place, op=op, caller=PLACE)

    findings = tuple(build(line) for line in range(10))
    other_rule = replace(WAIT, location=PLACE)
    found = diagnose(replace(report(), findings=(*findings, other_rule)))
    assert [len(group.findings) for group in found.illegal_groups] == [10, 1]
    places = format_other_places(found.groups[0])
    assert places == tuple(f"gpytorch/kernel.py:{line} (aten::item)" for line in range(1, 10))
    assert format_caller(found.groups[0].first) == "called at train.py:18 in train.<locals>.step"
    verdict = format_doctor_verdict(found)
    assert "at gpytorch/kernel.py:0" in verdict
    assert "One more place after it" in verdict


def test_findings_without_a_line_stay_apart() -> None:
    found = diagnose(replace(report(), findings=(WAIT, replace(WAIT, op="cudaStreamSynchronize"))))
    assert len(found.groups) == 2
