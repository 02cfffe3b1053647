"""What a doctor's report means: the verdict in a sentence, findings in order, rules with outcomes.

The command line, its JSON and the Doctor page all take the result of :func:`diagnose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from graphviz_dash.model.doctor import (
    CheckStatus,
    DoctorReport,
    Evidence,
    Finding,
    OutputCheck,
    RuleId,
    Severity,
)
from graphviz_dash.model.rules import RULES, Rule
from graphviz_dash.units import format_bytes, format_count, format_ns


class Outcome(StrEnum):
    """The verdict in a word."""

    HEALTHY = "healthy"
    SILENT = "silent"
    ILLEGAL = "illegal"
    UNSEEN = "unseen"
    """Nothing was found, but neither was a capture made that could prove it sound."""


EXIT_CODES: Final = {
    Outcome.HEALTHY: 0,
    Outcome.UNSEEN: 0,
    Outcome.ILLEGAL: 1,
    Outcome.SILENT: 3,
}
"""What the command line returns; 2 stays for wrong input, as everywhere."""


_ORDER: Final = (CheckStatus.FOUND, CheckStatus.PASSED, CheckStatus.NOT_CHECKED)


@dataclass(frozen=True)
class RuleOutcome:
    """A rule and what came of it; ``findings`` counts the places that break it."""

    rule: Rule
    status: CheckStatus
    reason: str | None
    findings: int


@dataclass(frozen=True)
class UncheckedRules:
    """Rules that were not checked for one and the same reason."""

    reason: str
    outcomes: tuple[RuleOutcome, ...]


@dataclass(frozen=True)
class Diagnosis:
    """A report with its meaning."""

    report: DoctorReport
    """The report itself."""
    outcome: Outcome
    """The verdict in a word."""
    verdict: str
    """The verdict in a sentence or two."""
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
    outcome = _outcome(report)
    return Diagnosis(
        report=report,
        outcome=outcome,
        verdict=_verdict(report, outcome, findings),
        findings=findings,
        rules=_rules(report),
    )


def replays_differ(report: DoctorReport) -> bool:
    """Whether a capture was made whose replays do other work than the step."""
    return report.captured is True and _outcome(report) is Outcome.SILENT


def evidence_text(evidence: Evidence) -> str:
    """An evidence's value with its unit."""
    match evidence.unit, evidence.value:
        case "B", int() as value:
            return format_bytes(value)
        case "ns", int() as value:
            return format_ns(value)
        case _, bool() as value:
            return str(value)
        case _, int() as value:
            return format_count(value)
        case _, float() as value:
            return f"{value:.4g}"
    return str(evidence.value)


def difference_text(check: OutputCheck) -> str:
    """How a tensor after a replay differs from the same after an eager step."""
    if not check.differing:
        return "equal in every element"
    amount = f"{check.differing:,} of {check.elements:,} elements differ"
    if check.largest is None:
        return amount
    noise = "" if check.noise is None else f"; {check.noise:.3g} between two eager steps"
    return f"{amount}, by up to {check.largest:.3g}{noise}"


def _outcome(report: DoctorReport) -> Outcome:
    severities = {finding.severity for finding in report.findings}
    if Severity.ILLEGAL in severities:
        return Outcome.ILLEGAL
    if Severity.SILENT in severities:
        return Outcome.SILENT
    return Outcome.HEALTHY if report.captured else Outcome.UNSEEN


def _verdict(report: DoctorReport, outcome: Outcome, findings: tuple[Finding, ...]) -> str:
    what = "step" if report.subject == "workload" else "program"
    illegal = sum(finding.severity is Severity.ILLEGAL for finding in findings)
    silent = len(findings) - illegal
    also = f" {_places(silent)} would silently replay something else." if silent else ""
    match outcome:
        case Outcome.ILLEGAL:
            first = findings[0]
            verb = "fails" if first.first else "would fail"
            more = f" {_places(illegal - 1)} after it would break it too." if illegal > 1 else ""
            return f"The capture {verb}{_where(first)}: {_title(first)}.{more}{also}"
        case Outcome.SILENT:
            nodes = "" if report.nodes is None else f" ({format_count(report.nodes)} nodes)"
            if report.captured:
                lead = f"The capture succeeds{nodes}, but replays do not do what the {what} does"
            else:
                lead = f"Nothing was captured, but replays would not do what the {what} does"
            return f"{lead}: {_title(findings[0])}{_where(findings[0])}{_and_more(silent)}."
        case Outcome.HEALTHY:
            nodes = "" if report.nodes is None else f" into {format_count(report.nodes)} nodes"
            return f"The {what} is captured{nodes} and breaks no rule{_equal(report)}."
    return (
        f"The {what} captured nothing, and the {format_count(report.steps)} steps that were "
        "watched break no rule."
    )


def _equal(report: DoctorReport) -> str:
    if not report.outputs:
        return ""
    exact = sum(not check.differing for check in report.outputs)
    count = len(report.outputs)
    if exact == count:
        return f"; a replay leaves all {format_count(count)} tensors as an eager step does"
    largest = max((check.largest or 0.0 for check in report.outputs), default=0.0)
    return (
        f"; a replay leaves {exact} of {count} tensors exactly as an eager step does, the others "
        f"within {largest:.2g}"
    )


def _title(finding: Finding) -> str:
    title = RULES[finding.rule].title
    text = title[0].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title
    return f"{text} ({finding.op})" if finding.op else text


def _where(finding: Finding) -> str:
    return f" at {finding.place.text}" if finding.place else ""


def _places(count: int) -> str:
    return "One more place" if count == 1 else f"{count} more places"


def _and_more(count: int) -> str:
    return "" if count == 1 else f", and {count - 1} more"


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
