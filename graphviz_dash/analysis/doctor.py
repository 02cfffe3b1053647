"""What a doctor's report means: the outcome, findings in order, rules with what came of each.

The command line, its JSON and the Doctor page all take the result of :func:`diagnose`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.doctor import (
    CheckStatus,
    DoctorReport,
    Finding,
    RuleId,
    Severity,
)
from graphviz_dash.model.rules import RULES, Rule


class CaptureOutcome(StrEnum):
    """What a capture of the program or step comes to."""

    HEALTHY = "healthy"
    SILENT = "silent"
    ILLEGAL = "illegal"
    UNSEEN = "unseen"
    """Nothing was found, but neither was a capture made that could prove it sound."""


EXIT_CODES: Final = {
    CaptureOutcome.HEALTHY: 0,
    CaptureOutcome.UNSEEN: 0,
    CaptureOutcome.ILLEGAL: 1,
    CaptureOutcome.SILENT: 3,
}
"""What the command line returns; 2 stays for wrong input, as everywhere."""


_ORDER: Final = (CheckStatus.FOUND, CheckStatus.PASSED, CheckStatus.NOT_CHECKED)


class RuleOutcome(Struct, frozen=True):
    """A rule and what came of it; ``findings`` counts the places that break it."""

    rule: Rule
    status: CheckStatus
    reason: str | None
    findings: int


class UncheckedRules(Struct, frozen=True):
    """Rules that were not checked for one and the same reason."""

    reason: str
    outcomes: tuple[RuleOutcome, ...]


class Diagnosis(Struct, frozen=True):
    """A report with its meaning."""

    report: DoctorReport
    """The report itself."""
    outcome: CaptureOutcome
    """The verdict in a word."""
    findings: tuple[Finding, ...]
    """The first illegal one, other illegal ones as the step meets them, then silent ones."""
    rules: tuple[RuleOutcome, ...]
    """Those that are broken, those that passed, those that were not checked; each in the registry's
    order."""

    @property
    def illegal(self) -> tuple[Finding, ...]:
        """Findings for which a capture fails."""
        return tuple(f for f in self.findings if f.severity is Severity.ILLEGAL)

    @property
    def checked(self) -> tuple[RuleOutcome, ...]:
        """The rules that are broken or passed."""
        return tuple(o for o in self.rules if o.status is not CheckStatus.NOT_CHECKED)

    @property
    def unchecked(self) -> tuple[UncheckedRules, ...]:
        """The other rules, together where they have one reason: a capture that failed leaves many
        unchecked."""
        by_reason: dict[str, list[RuleOutcome]] = {}
        for outcome in self.rules:
            if outcome.status is CheckStatus.NOT_CHECKED:
                by_reason.setdefault(outcome.reason or "", []).append(outcome)
        return tuple(UncheckedRules(reason, tuple(own)) for reason, own in by_reason.items())

    @property
    def silent(self) -> tuple[Finding, ...]:
        """Findings that a capture does not notice."""
        return tuple(f for f in self.findings if f.severity is Severity.SILENT)


def diagnose(report: DoctorReport) -> Diagnosis:
    """The meaning of a report."""
    findings = tuple(
        sorted(report.findings, key=lambda f: (not f.first, f.severity is Severity.SILENT))
    )
    return Diagnosis(
        report=report,
        outcome=_outcome(report),
        findings=findings,
        rules=_rules(report),
    )


def replays_differ(report: DoctorReport) -> bool:
    """Whether a capture was made whose replays do other work than the step."""
    return report.captured is True and _outcome(report) is CaptureOutcome.SILENT


def _outcome(report: DoctorReport) -> CaptureOutcome:
    severities = {finding.severity for finding in report.findings}
    if Severity.ILLEGAL in severities:
        return CaptureOutcome.ILLEGAL
    if Severity.SILENT in severities:
        return CaptureOutcome.SILENT
    return CaptureOutcome.HEALTHY if report.captured else CaptureOutcome.UNSEEN


def _strays(report: DoctorReport) -> bool:
    """Whether some tensor differs after a replay by far more than between two eager steps."""
    return any(
        check.differing
        and (check.noise is None or check.largest is None or check.largest > 10 * check.noise)
        for check in report.outputs
    )


def _rules(report: DoctorReport) -> tuple[RuleOutcome, ...]:
    checks = {check.rule: check for check in report.checks}
    counts = dict.fromkeys(RuleId, 0)
    for finding in report.findings:
        counts[finding.rule] += 1
    outcomes = []
    for rule in RULES.values():
        check = checks.get(rule.id)
        status = check.status if check else CheckStatus.NOT_CHECKED
        reason = check.reason if check else "this report's version of the tool had no such rule"
        passed = status is CheckStatus.PASSED
        if rule.id is RuleId.REPLAY_DIFFERS and passed and report.findings and _strays(report):
            # The rule is for what no other one explains; "passed" alone would deny the difference.
            reason = "it does, as what was found above explains"
        outcomes.append(RuleOutcome(rule, status, reason, counts[rule.id]))
    return tuple(sorted(outcomes, key=lambda outcome: _ORDER.index(outcome.status)))
