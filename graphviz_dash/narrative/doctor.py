"""Doctor reports in words: the verdict, its evidence, and differences between replays."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.doctor import (
    CaptureOutcome,
    Diagnosis,
    FindingGroup,
    diagnose,
    has_differing_replays,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.guidance.rerun import build_doctor_command
from graphviz_dash.model.doctor import DoctorReport, Evidence, Finding, OutputCheck
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.replay_check import format_replay_verdict
from graphviz_dash.units import format_bytes, format_count, format_ns, pluralize


def format_evidence_value(evidence: Evidence) -> str:
    """Format an evidence with its unit."""
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


def describe_output_difference(check: OutputCheck) -> str:
    """Describe how a tensor differs between a replay and an eager step."""
    if not check.differing_elements:
        return "equal in every element"
    amount = f"{check.differing_elements:,} of {check.elements:,} elements differ"
    if check.max_difference is None:
        return amount
    noise = (
        ""
        if check.eager_difference is None
        else f"; {check.eager_difference:.3g} between two eager steps"
    )
    return f"{amount}, by up to {check.max_difference:.3g}{noise}"


def format_doctor_command(run: Run) -> str:
    """Format the command that runs the doctor on ``run``."""
    return escape_control_characters(shlex.join(build_doctor_command(run)))


def format_unsound_warning(runs: Iterable[Run]) -> str:
    """Warn about replays that compute a different result than the step; empty if a doctor found
    none."""
    names = [
        run.name for run in runs if run.doctor is not None and has_differing_replays(run.doctor)
    ]
    if not names:
        return ""
    return (
        "Replays of the full-step graph compute a different result than the step (found by the "
        "doctor "
        f"in {', '.join(names)}): their times and speedups are not valid."
    )


def list_verdicts(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Return name and verdict of each doctor report with findings and each check with faults."""
    reports = ((name, format_report_verdict(report)) for name, report in comparison.examinations)
    checks = (
        (name, format_replay_verdict(diagnosis)) for name, diagnosis in comparison.replay_diagnoses
    )
    return (*reports, *checks)


def format_report_verdict(report: DoctorReport) -> str:
    """Format the verdict on a report."""
    return format_doctor_verdict(diagnose(report))


def format_doctor_verdict(diagnosis: Diagnosis) -> str:
    """Format the verdict in one or two sentences."""
    report, findings = diagnosis.report, diagnosis.findings
    subject = "step" if report.subject == "workload" else "program"
    illegal, silent = len(diagnosis.illegal_groups), len(diagnosis.silent_groups)
    also = f" {_count_places(silent)} would be silently wrong on replay." if silent else ""
    match diagnosis.outcome:
        case CaptureOutcome.ILLEGAL:
            first = findings[0]
            verb = "fails" if first.ends_capture else "would fail"
            more = (
                f" {_count_places(illegal - 1)} after it would break it too." if illegal > 1 else ""
            )
            return (
                f"The capture {verb}{_format_location(first)}: {_format_title(first)}.{more}{also}"
            )
        case CaptureOutcome.SILENT:
            nodes = "" if report.nodes is None else f" ({pluralize(report.nodes, 'node')})"
            if report.captured:
                lead = f"The capture succeeds{nodes}, but replays do not reproduce the {subject}"
            else:
                lead = f"Nothing was captured, but replays would not reproduce the {subject}"
            if not findings:
                return f"{lead}."
            return (
                f"{lead}: "
                f"{_format_title(findings[0])}{_format_location(findings[0])}{_count_others(silent)}."
            )
        case CaptureOutcome.HEALTHY:
            nodes = "" if report.nodes is None else f" into {pluralize(report.nodes, 'node')}"
            equal = _describe_equal_outputs(report)
            if diagnosis.costly_groups:
                first = findings[0]
                return (
                    f"The {subject} is captured{nodes}{equal}, but memory is lost: "
                    f"{_format_title(first)}{_format_location(first)}."
                )
            return f"The {subject} is captured{nodes} without a rule violation{equal}."
    return (
        f"The {subject} captured nothing, and the {format_count(report.steps)} observed steps "
        "break no rule."
    )


def _describe_equal_outputs(report: DoctorReport) -> str:
    if not report.outputs:
        return ""
    equal = sum(not check.differing_elements for check in report.outputs)
    count = len(report.outputs)
    if equal == count == 1:
        return "; the only tensor after a replay equals that of an eager step"
    if equal == count:
        return f"; all {format_count(count)} tensors after a replay equal those of an eager step"
    largest = max((check.max_difference or 0.0 for check in report.outputs), default=0.0)
    return (
        f"; after a replay, {equal} of {count} tensors equal those of an eager step, the others "
        f"differ by at most {largest:.2g}"
    )


def _format_title(finding: Finding) -> str:
    title = RULES[finding.rule].title
    text = title[0].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title
    return f"{text} ({finding.op})" if finding.op else text


def format_caller(finding: Finding) -> str | None:
    """Format the program's line that called a library. None without one."""
    caller = finding.caller
    if caller is None:
        return None
    return f"called at {caller.text}" + (f" in {caller.function}" if caller.function else "")


def format_other_places(group: FindingGroup) -> tuple[str, ...]:
    """Format the distinct places of a group's findings after the first."""
    locations = [
        f"{finding.location.text}{f' ({finding.op})' if finding.op else ''}"
        if finding.location
        else finding.op or ""
        for finding in group.findings
    ]
    return tuple(dict.fromkeys(place for place in locations[1:] if place))


def _format_location(finding: Finding) -> str:
    return f" at {finding.location.text}" if finding.location else ""


def _count_places(count: int) -> str:
    return "One more place" if count == 1 else f"{count} more places"


def _count_others(count: int) -> str:
    return "" if count == 1 else f", and {count - 1} more"
