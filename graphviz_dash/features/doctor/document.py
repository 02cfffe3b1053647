"""Build the JSON of ``graphviz-dash doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.analysis.doctor import Diagnosis
from graphviz_dash.analysis.prediction.predict import Prediction
from graphviz_dash.exports.documents.values import Count, Sentence
from graphviz_dash.features.prediction.document import BlockerDocument, build_blocker_document
from graphviz_dash.features.torch_compile.analysis.report import CompileReport
from graphviz_dash.features.torch_compile.document import (
    CompileCauseDocument,
    CompileRuleDocument,
    build_cause_document,
    build_compile_rule_documents,
)
from graphviz_dash.features.torch_compile.narrative import summarize_compilation
from graphviz_dash.model.doctor import CodeLocation, Finding, OutputCheck
from graphviz_dash.model.rules import RULES
from graphviz_dash.narrative.doctor import format_doctor_verdict
from graphviz_dash.narrative.prediction import list_unchecked


class CodeLocationDocument(TypedDict):
    """A line of user code with its context; ``first_line`` is the number of ``lines[0]``."""

    file: str
    line: int
    function: str | None
    first_line: int
    lines: list[str]


class EvidenceDocument(TypedDict):
    """A fact that supports a finding."""

    name: str
    value: float | str | bool | None
    unit: str | None


class FindingDocument(TypedDict):
    """A line that violates a rule."""

    rule: str
    severity: str
    observed_in: str
    first_illegal_call: bool
    location: CodeLocationDocument | None
    caller: CodeLocationDocument | None
    op: str | None
    stream: str | None
    thread: str | None
    message: str | None
    calls: Count | None
    evidence: list[EvidenceDocument]
    title: Sentence
    advice: Sentence


class RuleDocument(TypedDict):
    """Outcome of a rule."""

    rule: str
    status: str
    reason: Sentence | None
    findings: Count


class TensorCheckDocument(TypedDict):
    """A tensor after a replay, compared with the same tensor after an eager step."""

    name: str
    kind: str
    dtype: str
    shape: list[Count]
    elements: Count
    differing: Count
    largest_difference: float | None
    noise: float | None


class DiagnosisDocument(TypedDict):
    """Findings in one process."""

    outcome: str
    verdict: Sentence
    subject: str
    captured: bool | None
    attempts: Count
    nodes: Count | None
    steps: Count
    operators: Count | None
    replays: Count
    findings: list[FindingDocument]
    rules: list[RuleDocument]
    outputs: list[TensorCheckDocument]


class CompiledDocument(TypedDict):
    """Causes that keep the compiled step of one process from being a single replay."""

    process: Count
    sentence: Sentence
    causes: list[CompileCauseDocument]
    rules: list[CompileRuleDocument]


class TracedDocument(TypedDict):
    """Capture blockers found in the trace of a process's eager steps, without trying a capture."""

    process: Count
    blockers: list[BlockerDocument]
    not_checked: list[Sentence]


class DoctorDocument(TypedDict):
    """The processes that the doctor examined."""

    processes: list[DiagnosisDocument]
    compiled: list[CompiledDocument]
    traced: list[TracedDocument]


def build_doctor_document(
    examined: Sequence[tuple[Diagnosis | None, CompileReport | None, Prediction | None]],
) -> DoctorDocument:
    """Build the document of the examined processes.

    Each process has a diagnosis, a compile report and a prediction from its trace; None if
    unavailable.
    """
    return {
        "processes": [
            _build_process_document(diagnosis)
            for diagnosis, _, _ in examined
            if diagnosis is not None
        ],
        "compiled": [
            {
                "process": number,
                "sentence": summarize_compilation(report),
                "causes": [build_cause_document(cause) for cause in report.causes],
                "rules": build_compile_rule_documents(report.rules),
            }
            for number, (_, report, _) in enumerate(examined)
            if report is not None
        ],
        "traced": [
            {
                "process": number,
                "blockers": [build_blocker_document(blocker) for blocker in traced.blockers],
                "not_checked": list(list_unchecked(traced)),
            }
            for number, (_, _, traced) in enumerate(examined)
            if traced is not None
        ],
    }


def _build_process_document(diagnosis: Diagnosis) -> DiagnosisDocument:
    report = diagnosis.report
    return {
        "outcome": diagnosis.outcome.value,
        "verdict": format_doctor_verdict(diagnosis),
        "subject": report.subject,
        "captured": report.captured,
        "attempts": report.attempts,
        "nodes": report.nodes,
        "steps": report.steps,
        "operators": report.operators,
        "replays": report.replays,
        "findings": [_build_finding_document(finding) for finding in diagnosis.findings],
        "rules": [
            {
                "rule": outcome.rule.id.value,
                "status": outcome.status.value,
                "reason": outcome.reason,
                "findings": outcome.findings,
            }
            for outcome in diagnosis.rules
        ],
        "outputs": [_build_output_document(check) for check in report.outputs],
    }


def _build_output_document(check: OutputCheck) -> TensorCheckDocument:
    return {
        "name": check.name,
        "kind": check.kind,
        "dtype": check.dtype,
        "shape": list(check.shape),
        "elements": check.elements,
        "differing": check.differing,
        "largest_difference": check.largest,
        "noise": check.noise,
    }


def _build_location_document(location: CodeLocation | None) -> CodeLocationDocument | None:
    if location is None:
        return None
    return {
        "file": location.file,
        "line": location.line,
        "function": location.function,
        "first_line": location.first,
        "lines": list(location.lines),
    }


def _build_finding_document(finding: Finding) -> FindingDocument:
    rule = RULES[finding.rule]
    return {
        "rule": finding.rule.value,
        "severity": finding.severity.value,
        "observed_in": finding.seen.value,
        "first_illegal_call": finding.first,
        "location": _build_location_document(finding.place),
        "caller": _build_location_document(finding.caller),
        "op": finding.op,
        "stream": finding.stream,
        "thread": finding.thread,
        "message": finding.message,
        "calls": finding.calls,
        "evidence": [
            {"name": fact.name, "value": fact.value, "unit": fact.unit} for fact in finding.evidence
        ],
        "title": rule.title,
        "advice": rule.advice,
    }
