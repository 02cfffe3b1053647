"""Interpretation of a doctor report: the outcome, ordered findings and the result of each rule."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct, structs

from graphviz_dash.model.doctor import (
    CheckStatus,
    DoctorReport,
    Finding,
    RuleId,
    Severity,
)
from graphviz_dash.model.rules import RULES, Rule


class CaptureOutcome(StrEnum):
    """Verdict on capturing the program or step."""

    HEALTHY = "healthy"
    SILENT = "silent"
    ILLEGAL = "illegal"
    UNSEEN = "unseen"
    """No finding, but also no capture that could prove correctness."""


EXIT_CODES: Final = {
    CaptureOutcome.HEALTHY: 0,
    CaptureOutcome.UNSEEN: 0,
    CaptureOutcome.ILLEGAL: 1,
    CaptureOutcome.SILENT: 3,
}
"""Exit codes of the command line; 2 is reserved for invalid input."""


_SEVERITIES: Final = (Severity.ILLEGAL, Severity.SILENT, Severity.COSTLY)
_ORDER: Final = (CheckStatus.FOUND, CheckStatus.PASSED, CheckStatus.NOT_CHECKED)


class RuleOutcome(Struct, frozen=True):
    """The result of one rule; ``findings`` counts the places that break it."""

    rule: Rule
    status: CheckStatus
    reason: str | None
    findings: int


class UncheckedRules(Struct, frozen=True):
    """Unchecked rules that share one reason."""

    reason: str
    outcomes: tuple[RuleOutcome, ...]


class FindingGroup(Struct, frozen=True):
    """Findings of one rule within one line, such as a call of a library; at least one."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The first finding."""
        return self.findings[0]


class Diagnosis(Struct, frozen=True):
    """A doctor report and its interpretation."""

    report: DoctorReport
    outcome: CaptureOutcome
    findings: tuple[Finding, ...]
    """The first illegal finding, other illegal ones in step order, then silent and costly ones."""
    rules: tuple[RuleOutcome, ...]
    """Broken, passed, then unchecked rules; each group in registry order."""

    @property
    def groups(self) -> tuple[FindingGroup, ...]:
        """Findings by rule and line."""
        by_line: dict[tuple[RuleId, Severity, str], list[Finding]] = {}
        for number, finding in enumerate(self.findings):
            line = finding.program_line
            key = line.text if line is not None else f"unknown {number}"
            by_line.setdefault((finding.rule, finding.severity, key), []).append(finding)
        return tuple(FindingGroup(tuple(findings)) for findings in by_line.values())

    @property
    def illegal_groups(self) -> tuple[FindingGroup, ...]:
        """Groups that make a capture fail."""
        return tuple(group for group in self.groups if group.first.severity is Severity.ILLEGAL)

    @property
    def checked_rules(self) -> tuple[RuleOutcome, ...]:
        """Rules that are broken or passed."""
        return tuple(o for o in self.rules if o.status is not CheckStatus.NOT_CHECKED)

    @property
    def unchecked_rules(self) -> tuple[UncheckedRules, ...]:
        """Unchecked rules by reason; a failed capture leaves many."""
        by_reason: dict[str, list[RuleOutcome]] = {}
        for outcome in self.rules:
            if outcome.status is CheckStatus.NOT_CHECKED:
                by_reason.setdefault(outcome.reason or "", []).append(outcome)
        return tuple(
            UncheckedRules(reason, tuple(outcomes)) for reason, outcomes in by_reason.items()
        )

    @property
    def silent_groups(self) -> tuple[FindingGroup, ...]:
        """Groups that a capture does not detect."""
        return tuple(group for group in self.groups if group.first.severity is Severity.SILENT)

    @property
    def costly_groups(self) -> tuple[FindingGroup, ...]:
        """Groups that lose memory."""
        return tuple(group for group in self.groups if group.first.severity is Severity.COSTLY)


def diagnose(report: DoctorReport) -> Diagnosis:
    """Interpret a report."""
    findings = tuple(
        sorted(report.findings, key=lambda f: (not f.ends_capture, _SEVERITIES.index(f.severity)))
    )
    return Diagnosis(
        report=report,
        outcome=_determine_outcome(report),
        findings=findings,
        rules=_collect_rules(report),
    )


def omit_unexplained(diagnosis: Diagnosis) -> Diagnosis:
    """Omit the finding without a cause, because a check of replays names it."""
    findings = tuple(
        finding for finding in diagnosis.findings if finding.rule is not RuleId.REPLAY_DIFFERS
    )
    return structs.replace(diagnosis, findings=findings)


def has_differing_replays(report: DoctorReport) -> bool:
    """Return whether replays compute a different result than the step."""
    return report.captured is True and _determine_outcome(report) is CaptureOutcome.SILENT


def _determine_outcome(report: DoctorReport) -> CaptureOutcome:
    severities = {finding.severity for finding in report.findings}
    if Severity.ILLEGAL in severities:
        return CaptureOutcome.ILLEGAL
    if Severity.SILENT in severities:
        return CaptureOutcome.SILENT
    return CaptureOutcome.HEALTHY if report.captured else CaptureOutcome.UNSEEN


def _has_large_difference(report: DoctorReport) -> bool:
    return any(
        check.differing_elements
        and (
            check.eager_difference is None
            or check.max_difference is None
            or check.max_difference > 10 * check.eager_difference
        )
        for check in report.outputs
    )


def _collect_rules(report: DoctorReport) -> tuple[RuleOutcome, ...]:
    checks = {check.rule: check for check in report.checks}
    counts = dict.fromkeys(RuleId, 0)
    for finding in report.findings:
        counts[finding.rule] += 1
    outcomes = []
    for rule in RULES.values():
        check = checks.get(rule.id)
        status = check.status if check else CheckStatus.NOT_CHECKED
        reason = (
            check.reason if check else "the version that wrote this report did not have this rule"
        )
        rule_passed = status is CheckStatus.PASSED
        if (
            rule.id is RuleId.REPLAY_DIFFERS
            and rule_passed
            and report.findings
            and _has_large_difference(report)
        ):
            # The rule covers unexplained differences; a bare "passed" would deny the difference.
            reason = "replays differ, and the findings above explain it"
        outcomes.append(RuleOutcome(rule, status, reason, counts[rule.id]))
    return tuple(sorted(outcomes, key=lambda outcome: _ORDER.index(outcome.status)))
